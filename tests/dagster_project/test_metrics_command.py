"""``decomposerl metrics``: predictions or marks in, exact figures out, each fault named."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as reference
from typer.testing import CliRunner

from dagster_project.cli import app
from metrics_parts import QUICK, metrics, refused, sample, scores_of, write


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    said, gold = sample()
    return write(tmp_path / "said.csv", said), write(tmp_path / "gold.csv", gold)


@pytest.mark.parametrize(
    "ending", [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".csv.gz", ".json.gz", ".jsonl.gz"]
)
def test_every_format_gives_the_same_figures(tmp_path: Path, ending: str):
    """Scikit-learn's, to the last digit, whatever the format and the order of rows."""
    said, gold = sample()
    files = write(tmp_path / f"said{ending}", said), write(tmp_path / f"gold{ending}", gold)
    found = scores_of(*files, "--score", "probability")
    labels = [row["label"] for row in sorted(gold, key=lambda row: row["id"])]
    scores = [row["probability"] for row in said]
    verdicts = [int(score > 0.5) for score in scores]
    expected = {
        "balanced_accuracy": reference.balanced_accuracy_score(labels, verdicts),
        "f1_supported": reference.f1_score(labels, verdicts),
        "f1_refuted": reference.f1_score(labels, verdicts, pos_label=0),
        "macro_f1": reference.f1_score(labels, verdicts, average="macro"),
        "accuracy": reference.accuracy_score(labels, verdicts),
        "auroc": reference.roc_auc_score(labels, scores),
    }
    assert expected == pytest.approx({name: found[name] / 100 for name in expected}, abs=1e-12)


def test_parts_are_scored_apart_and_their_mean_is_uniform(pair: tuple[Path, Path]):
    """Balanced accuracy per subset, then the unweighted mean, as LLM-AggreFact is reported."""
    said, gold = sample()
    words = (*pair, "--score", "probability", "--group", "dataset")
    by_id = {row["id"]: row["probability"] for row in said}
    means = []
    for part in ("first", "second"):
        rows = [row for row in gold if row["dataset"] == part]
        verdicts = [int(by_id[row["id"]] > 0.5) for row in rows]
        means.append(reference.balanced_accuracy_score([row["label"] for row in rows], verdicts))
        assert scores_of(*words, group=part)["balanced_accuracy"] == pytest.approx(100 * means[-1])
    mean = scores_of(*words, group="mean of groups")["balanced_accuracy"]
    assert mean == pytest.approx(100 * np.mean(means))
    text = metrics(*words).stdout
    assert "mean of groups" in text
    assert "60 claims: " in text


def test_an_object_from_ids_to_labels(tmp_path: Path):
    """``{"id": "SUPPORTED"}`` against ``{"id": {"label": ...}}``; an unknown word is no verdict."""
    said, gold = tmp_path / "said.json", tmp_path / "gold.json"
    said.write_text('{"7": "SUPPORTED", "8": "NOT_SUPPORTED", "9": "dunno", "10": null}')
    labels = {"7": "SUPPORTED", "8": "SUPPORTED", "9": "NOT_SUPPORTED", "10": "NOT_SUPPORTED"}
    gold.write_text(json.dumps({key: {"gold": {"label": one}} for key, one in labels.items()}))
    words = (said, gold, "--verdict", "predicted", "--label", "gold.label")
    found = scores_of(*words)
    assert (50, 0) == (found["recall_supported"], found["recall_refuted"])
    assert found["balanced_accuracy_as_refuted"] == 75
    assert "2 without a verdict, counted as wrong" in metrics(*words).stdout


def test_one_file_with_label_and_prediction(tmp_path: Path):
    """A list of objects that hold both, as many result files do; ``not enough`` may be left out."""
    rows = [
        {"idx": 0, "gold": "supports", "prediction": "supports"},
        {"idx": 1, "gold": "refutes", "prediction": "supports"},
        {"idx": 2, "gold": "refutes", "prediction": "refutes"},
        {"idx": 3, "gold": "NOT ENOUGH INFO", "prediction": "refutes"},
    ]
    file = write(tmp_path / "result.json", rows)
    words = (file, file, "--id", "idx", "--label", "gold", "--verdict", "prediction")
    found = scores_of(*words, "--drop", "not enough info")
    assert found["balanced_accuracy"] == 75
    assert (
        "1 labels that were to be left out" in metrics(*words, "--drop", "Not enough info").stderr
    )
    assert "row 4, field gold: 'NOT ENOUGH INFO' spells no label" in refused(*words)


@pytest.mark.parametrize(("how", "expected"), [("max", 100.0), ("mean", 50.0), ("min", 50.0)])
def test_several_scores_of_a_claim(tmp_path: Path, how: str, expected: float):
    """Rows of the same id, or a list in one cell, become one score."""
    gold = write(tmp_path / "gold.csv", [{"id": "a", "label": "yes"}, {"id": "b", "label": "no"}])
    rows = [{"id": "a", "p": 0.9}, {"id": "a", "p": 0.02}, {"id": "b", "p": 0.1}]
    said = write(tmp_path / "said.csv", rows)
    nested = tmp_path / "said.json"
    nested.write_text('{"a": [0.9, 0.02], "b": 0.1}')
    for file in (said, nested):
        found = scores_of(file, gold, "--score", "p", "--several", how)
        assert found["balanced_accuracy"] == expected
    assert "said.csv, row 3, field id: the same id stands in row 2 already" in refused(
        said, gold, "--score", "p"
    )
    assert "row 1, field p: holds 2 scores" in refused(nested, gold, "--score", "p")


@pytest.mark.parametrize("by", ["f1", "balanced_accuracy"])
@pytest.mark.parametrize("inclusive", [False, True])
def test_a_threshold_chosen_elsewhere(tmp_path: Path, by: str, *, inclusive: bool):
    """The best of every hundredth on the dev files by trying all, the lowest of equals."""
    said, gold = sample(80)
    dev = write(tmp_path / "dev.csv", said[:40]), write(tmp_path / "dev_gold.csv", gold)
    test = write(tmp_path / "test.csv", said[40:])
    labels = [next(row["label"] for row in gold if row["id"] == number) for number in range(80)]
    metric = {"f1": reference.f1_score, "balanced_accuracy": reference.balanced_accuracy_score}[by]
    scores = np.array([row["probability"] for row in said])

    def verdicts(value: float) -> list[int]:
        return ((scores >= value) if inclusive else (scores > value)).astype(int).tolist()

    tried = np.arange(0, 1, 0.01)
    best = max(tried, key=lambda value: (metric(labels[:40], verdicts(value)[:40]), -value))
    words = ["--score", "probability", "--choose", by, "--candidates", "hundredths"]
    words += ["--dev-predictions", dev[0], "--dev-labels", dev[1], "--missing", "skip"]
    words += ["--inclusive"] * inclusive
    found = scores_of(test, dev[1], *words)
    expected = reference.f1_score(labels[40:], verdicts(best)[40:])
    assert found["f1_supported"] == pytest.approx(100 * expected)
    sign = ">=" if inclusive else ">"
    assert (
        f"a score {sign} {float(best)!r}, chosen on 40 others"
        in metrics(test, dev[1], *words).stderr
    )


def test_rows_that_belong_together_by_order(tmp_path: Path):
    """Without ids row n belongs to row n; another number of rows is no match."""
    said = write(tmp_path / "said.jsonl", [{"predicted_label": "SUPPORTS"}] * 3)
    gold = write(tmp_path / "gold.csv", [{"label": word} for word in ("SUPPORTS", "REFUTES", "1")])
    words = ("--by-order", "--verdict", "predicted_label")
    assert scores_of(said, gold, *words)["recall_supported"] == 100
    more = write(tmp_path / "more.csv", [{"label": "SUPPORTS"}] * 4)
    assert "said.jsonl has 3, " in refused(said, more, *words)


def test_an_id_of_several_fields(tmp_path: Path):
    """The same number in two parts is two claims, under whatever name each file has it."""
    said = [{"part": part, "n": n, "s": 0.9} for part in "xy" for n in (1, 2)]
    gold = [{"set": part, "n": n, "label": n - 1} for part in "xy" for n in (1, 2)]
    files = write(tmp_path / "said.parquet", said), write(tmp_path / "gold.tsv", gold)
    ids = ("--id", "part,n", "--label-id", "set, n")
    assert scores_of(*files, "--score", "s", *ids)["recall_supported"] == 100


def test_rows_without_a_partner(tmp_path: Path):
    """By default a mistake with file, row and field; else wrong or left out, and counted."""
    said = write(tmp_path / "said.csv", [{"id": "a", "p": 0.9}, {"id": "z", "p": 0.9}])
    labels = [{"id": "a", "label": 1}, {"id": "b", "label": 0}, {"id": "c", "label": 1}]
    gold = write(tmp_path / "gold.csv", labels)
    error = refused(said, gold, "--score", "p")
    assert "gold.csv, row 3, field id: 'b' has no prediction" in error
    assert "said.csv, row 3, field id: 'z' has no label" in error
    wrong = ("--score", "p", "--extra", "skip", "--missing", "wrong")
    found = scores_of(said, gold, *wrong)
    assert (50, 0) == (found["recall_supported"], found["recall_refuted"])
    assert "2 labels without a prediction, counted as wrong" in metrics(said, gold, *wrong).stderr
    left_out = metrics(said, gold, "--score", "p", "--extra", "skip", "--missing", "skip")
    assert "2 labels without a prediction\n1 predictions without a label" in left_out.stderr
    assert "undefined" in left_out.stdout


def test_labels_of_another_language(tmp_path: Path):
    """Spellings are given; '*' takes what is left; what is given to one side leaves the other."""
    rows = [{"id": n, "label": word, "v": word} for n, word in enumerate(("ok", "half", "false"))]
    file = write(tmp_path / "rows.csv", rows)
    words = (file, file, "--verdict", "v")
    assert "'half' spells no label" in refused(*words, "--positive", "ok")
    assert scores_of(*words, "--positive", "ok", "--negative", "*")["accuracy"] == 100
    assert scores_of(*words, "--positive", "ok", "--positive", "HALF")["accuracy"] == 100
    assert "'ok'" in refused(*words, "--positive", "ok", "--drop", "OK")
    signed = write(tmp_path / "signed.csv", [{"id": n, "label": n, "v": n} for n in (-1, 1)])
    assert scores_of(signed, signed, "--verdict", "v", "--negative", "-1")["accuracy"] == 100


def test_shared_documents_widen_the_interval(tmp_path: Path):
    """Those of one ``--document`` are drawn together, without one alone; no draws, no bounds."""
    rng = np.random.default_rng(1)
    rows = [
        {"id": n, "label": n // 10 % 2, "doc": f"d{n // 10}", "right": right, "alone": n}
        | {"blank": ("", " ", None, f"d{n}")[n % 4]}
        for n, right in enumerate(np.repeat(rng.random(40) < 0.7, 10).tolist())
    ]
    for row in rows:
        row["p"] = float(row["right"] == row["label"])
    file = write(tmp_path / "rows.jsonl", rows)

    def bounds(*words: str) -> tuple[float | None, float | None]:
        page = [*map(str, (file, file)), "--score", "p", "--json", *words]
        shown = json.loads(CliRunner().invoke(app, ["metrics", *page]).stdout)["metrics"]
        (row,) = [one for one in shown if one["metric"] == "balanced_accuracy"]
        assert row["score"] is not None
        return row["low"], row["high"]

    widths = []
    for words in ((), ("--document", "doc")):
        low, high = bounds(*words, *QUICK)
        widths.append((high or 0.0) - (low or 0.0))
    assert widths[1] > 2 * widths[0]
    each = [bounds("--document", name, *QUICK) for name in ("blank", "alone")]
    assert each[0] == each[1]
    assert (None, None) == bounds("--draws", "0")


def test_a_group_may_be_called_all(tmp_path: Path):
    """The total stays the total: ``kind`` tells them apart."""
    rows = [
        {"id": n, "label": n % 2, "p": float(n % 2 if n < 20 else n % 3 == 0), "part": part}
        for n, part in enumerate(["all"] * 20 + ["mean of groups"] * 20)
    ]
    file = write(tmp_path / "rows.jsonl", rows)
    words = (file, file, "--score", "p", "--group", "part")
    page = json.loads(metrics(*words, "--json").stdout)["metrics"]
    claims = {(row["kind"], row["group"]): row["claims"] for row in page}
    named = {("group", "all"): 20, ("group", "mean of groups"): 20}
    assert {("total", "all"): 40, **named, ("mean", "mean of groups"): 40} == claims
    text = metrics(*words).stdout
    assert "40 claims: " in text
    lines = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert 1 == lines.count("accuracy")
    assert 1 == lines.count("all")


def test_what_the_dev_files_left_out_is_told(tmp_path: Path):
    """Claims that chose no threshold are counted beside those that got no score."""
    said, gold = sample()
    odd = [*gold, {"id": 98, "label": "odd", "dataset": "first"}]
    dev = write(tmp_path / "dev.csv", said[:40]), write(tmp_path / "dev_gold.jsonl", odd)
    test = write(tmp_path / "said.csv", said), write(tmp_path / "gold.csv", gold)
    words = (*test, "--score", "probability", "--choose", "f1", "--missing", "skip")
    words += ("--drop", "odd", "--dev-predictions", str(dev[0]), "--dev-labels", str(dev[1]))
    notes = metrics(*words).stderr
    assert "1 labels that were to be left out (dev files)" in notes
    assert "20 labels without a prediction (dev files)" in notes
    page = json.loads(metrics(*words, "--json").stdout)["left_out"]
    assert {1, 20} == set(page.values())


def test_long_lists_of_faults_are_cut(tmp_path: Path, pair: tuple[Path, Path]):
    """Twenty rows are named, the rest are counted."""
    gold = write(tmp_path / "other.csv", [{"id": n, "label": "odd"} for n in range(60)])
    error = refused(pair[0], gold, "--score", "probability")
    assert 20 == error.count("spells no label")
    assert "and 40 further rows" in error


def test_labels_said_again(tmp_path: Path):
    """One row a chunk repeats the label; another label for the same claim is a mistake."""
    rows = [{"id": "a", "label": 1, "p": 0.1}, {"id": "a", "label": 1, "p": 0.9}]
    rows += [{"id": "b", "label": 0, "p": 0.2}]
    file = write(tmp_path / "chunks.csv", rows)
    words = ("--score", "p", "--several", "max")
    assert scores_of(file, file, *words)["accuracy"] == 100
    torn = write(tmp_path / "torn.csv", [*rows, {"id": "b", "label": 1, "p": 0.2}])
    assert "row 5, field id: the same id stands in row 4 already, with another label" in refused(
        torn, torn, *words
    )
    assert "the same id stands in row 2 already" in refused(file, file, "--score", "p")


def test_rows_of_a_json_file(tmp_path: Path):
    """``--records`` names the entry that holds them; one object a line is read as that."""
    file = tmp_path / "page.json"
    rows = [{"id": 1, "label": "yes", "v": "yes"}, {"id": 2, "label": "no", "v": "yes"}]
    file.write_text(json.dumps({"run": "x", "data": rows}))
    assert scores_of(file, file, "--verdict", "v", "--records", "data")["accuracy"] == 50
    assert "'rows'" in refused(file, file, "--verdict", "v", "--records", "rows")
    file.write_text("\n".join(map(json.dumps, rows)))
    assert scores_of(file, file, "--verdict", "v")["accuracy"] == 50


def marks_file(path: Path, reviewer: str, words: dict[str, str], system: str = "one") -> Path:
    """Marks of one reviewer by claim."""
    rows = [
        {"claim_id": claim, "system": system, "step": None, "rollout": None, "note": ""}
        | {"reviewer": reviewer, "mark": word, "span": None, "at": "2026-01-02T03:04:05Z"}
        for claim, word in words.items()
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_marks_of_two_reviewers(tmp_path: Path):
    """Agreement with the system, and with each other; scikit-learn's kappa."""
    first = {"a": "agree", "b": "agree", "c": "disagree", "d": "unclear"}
    second = {"a": "agree", "b": "disagree", "c": "disagree"}
    files = (
        *("--marks", marks_file(tmp_path / "ada.jsonl", "ada", first)),
        *("--marks", marks_file(tmp_path / "eva.jsonl", "eva", second)),
    )
    page = json.loads(metrics(*files, "--json").stdout)
    ((system,), (pair,)) = page["systems"], page["reviewers"]
    assert {"system": "one", "reviewers": 2, "traces": 4, "marks": 7} == {
        name: system[name] for name in ("system", "reviewers", "traces", "marks")
    }
    assert (3, 3, 1, 3 / 7) == (
        *(system[name] for name in ("agree", "disagree", "unclear")),
        system["share_agree"],
    )
    kappa = reference.cohen_kappa_score(*([side[n] for n in "abc"] for side in (first, second)))
    assert (3, 2 / 3) == (pair["traces"], pair["agreement"])
    assert kappa == pytest.approx(pair["kappa"])
    text = metrics(*files).stdout
    assert "42.9" in text
    assert f"{kappa:.2f}" in text


def test_marks_where_nothing_is_defined(tmp_path: Path):
    """Null in JSON and a dash in the table, never a number; a torn line costs no other mark."""
    words = ("--marks", marks_file(tmp_path / "a.jsonl", "ada", {"a": "agree", "b": "agree"}))
    more = ("--marks", marks_file(tmp_path / "b.jsonl", "eva", {"a": "agree", "b": "agree"}))
    (pair,) = json.loads(metrics(*words, *more, "--json").stdout)["reviewers"]
    assert (1.0, None) == (pair["agreement"], pair["kappa"])
    assert "–" in metrics(*words, *more).stdout
    words[1].write_text('{"claim_id": "a", "no\n' + words[1].read_text("utf-8"), "utf-8")
    page = json.loads(metrics(*words, "--json").stdout)
    assert ([], 2) == (page["reviewers"], page["systems"][0]["marks"])
    assert "a.jsonl, line 1" in page["skipped"][0]
    assert "skipped: " in metrics(*words).stderr


def test_marks_on_an_earlier_reply_are_counted_apart(tmp_path: Path):
    """Ada marked the reply that the system gave before; she and Eva did not see the same."""
    paths = [marks_file(tmp_path / f"{who}.jsonl", who, {"a": "agree"}) for who in ("ada", "eva")]
    for path, digest, at in zip(paths, ("0" * 8, "1" * 8), ("2025", "2026"), strict=True):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"of": digest, "at": at}))
    words = [word for path in paths for word in ("--marks", path)]
    page = json.loads(metrics(*words, "--json").stdout)
    (system,) = page["systems"]
    assert (1, 1, 1) == (system["marks"], system["agree"], system["earlier"])
    assert [] == page["reviewers"]
    assert "of an earlier reply" in metrics(*words).stdout
    assert "earlier" not in metrics("--marks", paths[0]).stdout
