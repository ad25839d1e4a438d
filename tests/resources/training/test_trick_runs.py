"""Scripted tricks with the embedded judge, and tricks in the log of a run."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import TrainingError
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.reports.trick_found import found_figure, found_markdown, health_markdown
from decomposerl.reports.trick_report import READINGS, trick_table, tricks_figure, tricks_markdown
from decomposerl.rewards.settings import RewardSettings
from decomposerl.training.experiments import experiment
from decomposerl.training.tricks import TRICKS
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import DataFolder
from resources.training.trick_runs import found_tricks, known_claims, sign_table
from trick_parts import NAMES, THIRTY, pool, scripted, write_run


class Failing(RuleJudge):
    """Has no ruling on correctness."""

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """The rules' rulings but for these."""
        rulings = super().judge(calls)
        return [
            Ruling(None, "no reply") if call.task == "correctness" else ruling
            for call, ruling in zip(calls, rulings, strict=True)
        ]


def test_quotes_are_sentences_of_the_evidence_where_the_judge_finds_an_answer():
    """Nearest by words; a question that nothing answers has none."""
    rows = pool(NAMES[:1]).with_columns(
        questions=pl.lit(["What does the Torbeck mill grind?", "Who owns the moon of Saturn?"])
    )
    (known,) = known_claims(rows, RuleJudge())
    assert ("The Torbeck mill grinds oats for the valley.", None) == known.quotes


def test_the_table_compares_each_trick_with_the_honest_trace():
    """A row for each reading, trick and reward; differences are those of the means."""
    traces = scripted()
    table = trick_table({n: traces.rewards(s) for n, s in READINGS.items()}, 1, traces.engine)
    counts = table.group_by("reading").len()["len"].to_list()
    assert {8 * len(TRICKS), 9 * len(TRICKS)} == set(counts)  # consistency has one reward more
    assert {traces.engine} == set(table["engine"])
    gains = table.select(pl.col("paid") - pl.col("honest")).to_series()
    assert gains.to_list() == pytest.approx(table["gain"].to_list(), abs=1e-9)
    labelled = table.filter(pl.col("trick") != "both_verdicts", reward="verification")
    assert {0.0} == set(labelled["gain"])
    assert {None} == set(labelled["low"])  # no interval where all differences are equal


def test_guards_take_from_tricks_what_the_papers_formula_pays():
    """Under the paper's reading some tricks earn more than honesty; under the strict one none."""
    traces = scripted()
    table = trick_table({n: traces.rewards(s) for n, s in READINGS.items()}, 1, traces.engine)
    totals = table.filter(reward="total")
    paying = {
        name: set(totals.filter(pl.col("gain") > 0, reading=name)["trick"]) for name in READINGS
    }
    assert paying["strict"] == set()
    assert "claim_copied" in paying["paper"]
    dodge = totals.filter(trick="dodge").select("reading", "gain").rows()
    assert dict(dodge)["literal"] > dict(dodge)["paper"]


def test_a_failed_ruling_leaves_the_reward_out_for_all_traces_of_the_claim():
    """Without a ruling there is no value to compare: null, not 0."""
    traces = scripted(judge=Failing())
    table = trick_table({"paper": traces.rewards(RewardSettings())}, 1, traces.engine)
    assert {(0, None)} == set(table.filter(reward="joint").select("claims", "gain").rows())
    assert {len(NAMES)} == set(table.filter(reward="coverage")["claims"])


def test_intervals_need_thirty_claims_that_differ():
    """Percentiles of a few claims would be too narrow; thirty enclose the mean difference."""
    few = scripted()
    narrow = trick_table({"paper": few.rewards(RewardSettings())}, 1, few.engine)
    assert {None} == set(narrow["low"])
    many = scripted(THIRTY)
    wide = trick_table({"paper": many.rewards(RewardSettings())}, 1, many.engine)
    bounded = wide.filter(pl.col("low").is_not_null())
    assert bounded.height
    assert bounded.select(pl.col("gain").is_between("low", "high").all()).item()


def test_each_sign_sees_its_script_and_the_health_rules_object_to_every_trick():
    """One that changes the number of questions is seen by the rules on that number, too."""
    table = sign_table(scripted(), RewardSettings())
    seen = dict(table.select("trick", "seen").rows())
    assert {1.0} == set(seen.values())
    assert {0.0} == set(table["false_alarms"])
    rules = {name: set(rules) for name, rules in table.select("trick", "health_rules").rows()}
    assert {"question_drift", "question_count", "tricks"} == rules["no_question"]
    assert {"tricks"} == rules["dodge"] == rules["order_to_judge"] == rules["bare_answers"]
    assert all("tricks" in each for each in rules.values())


def test_a_runs_tricks_are_counted_by_step_with_what_they_earned(tmp_path: Path):
    """The share of rollouts at each step, their advantage in the group, and the health rules."""
    write_run(tmp_path, 60)
    found = found_tricks(DataFolder(base_dir=str(tmp_path)), experiment("tiny_long"))
    dodge = found.filter(name="dodge", split="train").sort("step")
    assert [0.0] * 30 + [0.5] * 30 == dodge["share"].to_list()
    assert {"rule_judge:3"} == set(found["engine"])
    paid = dodge["advantage"].to_list()
    assert {None} == set(paid[:30])
    assert all(value < 0 for value in paid[30:])
    assert [*range(19, 60)] == found.filter(name="truncated")["step"].to_list()
    assert [*range(39, 60)] == found.filter(name="tricks")["step"].to_list()
    table = found_markdown(found)
    (row,) = [line for line in table.splitlines() if "I don't know, whatever" in line]
    assert ["0 %", "50 %"] == [cell.strip() for cell in row.split("|")[2:4]]
    assert ["0 %", "100 %"] == [cell.strip() for cell in row.split("|")[6:8]]  # held-out claims
    assert "verdict without a question" not in table  # never played
    assert "| truncated | 41 | 19 | 59 |" in health_markdown(found)
    assert found_figure(found).svg.startswith(b"<?xml")


def test_a_run_that_does_not_exist_is_named_with_its_command(tmp_path: Path):
    """Nothing is reported on nothing."""
    with pytest.raises(TrainingError, match="decomposerl train tiny_long"):
        found_tricks(DataFolder(base_dir=str(tmp_path)), experiment("tiny_long"))


def test_the_table_for_readers_marks_what_pays():
    """An asterisk where the interval is above 0; the figure has every trick."""
    traces = scripted(THIRTY)
    table = trick_table({n: traces.rewards(s) for n, s in READINGS.items()}, 1, traces.engine)
    lines = tricks_markdown(table).splitlines()
    assert len(TRICKS) + 2 == len(lines)
    pays = table.filter(pl.col("low") > 0, reward="total").height
    assert pays == sum(line.count("\\*") for line in lines if "n\\*" not in line) > 0
    assert tricks_figure(table).png.startswith(b"\x89PNG")
