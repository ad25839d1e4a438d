"""What the UI shows of one system on one test set."""

import polars as pl

from decomposerl.reports.system_report import score_facts, scores_markdown, verdicts_markdown
from decomposerl.schemas import SCORES
from plain_rows import plain, table_of


def test_verdicts_are_counted_by_label():
    """Right, wrong and unread; together they are the predictions."""
    said = ["Supported", "Refuted", None, "Refuted"]

    def counted(labels: list[str]) -> list[str]:
        predicted = pl.DataFrame({"claim_id": [*"abcd"], "verdict": said})
        labelled = pl.DataFrame({"claim_id": [*"abcd"], "label": labels})
        return verdicts_markdown(predicted, labelled).splitlines()[2:]

    two = counted(["Supported"] * 3 + ["Refuted"])
    assert ["| Supported | 1 | 1 | 1 |", "| Refuted | 1 | 0 | 0 |"] == two
    three = counted(["Supported", "NotEnoughInfo", "NotEnoughInfo", "Refuted"])
    assert "| NotEnoughInfo | 0 | 1 | 1 |" == three[-1]


def test_scores_are_one_table_with_slices_last():
    """One decimal; two where a number stands alone; what is undefined is a dash."""
    whole = plain("scores", slice="all", value="", score=100 * 14 / 25, low=None, high=60.0)
    hops = whole | {"slice": "hops", "value": "2", "score": 53.4}
    table = table_of(SCORES, [hops, hops | {"metric": "f1"}, whole])
    assert {"balanced_accuracy": 56.0} == score_facts(table)
    head, _, first, second = scores_markdown(table).splitlines()
    assert "| metric | slice | value | score | low | high | claims |" == head
    assert first.replace("\\", "").startswith("| balanced_accuracy | all |  | 56.0 | – | 60.0 |")
    assert second.replace("\\", "").startswith("| balanced_accuracy | hops | 2 | 53.4 |")
