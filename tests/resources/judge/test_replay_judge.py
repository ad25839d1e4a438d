"""Judges over recorded rulings."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineError, SchemaError
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.judge.plan import plan
from decomposerl.traces.grammar import build_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from resources.judge.replay import ReplayJudge, record, record_table
from resources.judge.rule_judge import RuleJudge
from strategies import LAW

CALLS = [JudgeCall("answerability", f"text {row}", question=f"who {row}?") for row in range(5)]
RULINGS = [Ruling(True), Ruling(False), Ruling(None, "timeout"), Ruling(True), Ruling(False)]
PLACES = st.lists(st.integers(0, 4), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rulings")
    record(folder, CALLS, RULINGS)
    return folder


@LAW
@given(places=PLACES)
def test_recorded_rulings_come_in_the_order_asked(folder: Path, places: list[int]):
    """Any calls in any order, repeated or none; a recorded failure is a failure again."""
    judge = ReplayJudge(folder)
    assert [RULINGS[place] for place in places] == judge.judge([CALLS[place] for place in places])
    assert (0, len(places)) == (judge.calls, judge.hits)


def test_a_call_without_a_record_is_an_error_that_names_it(folder: Path):
    """No default ruling: task and question are shown; so is a missing table's path."""
    other = JudgeCall("correctness", "text 0", question="who 0?", answers=("Ilva.",))
    with pytest.raises(EngineError, match=r"no record of correctness of 'who 0\?'"):
        ReplayJudge(folder).judge([CALLS[0], other])
    with pytest.raises(EngineError, match=r"judge\.parquet"):
        ReplayJudge(folder / "nowhere").judge(CALLS)


def test_one_call_with_two_rulings_is_not_recorded(tmp_path: Path):
    """Which of them counts would be a matter of order."""
    with pytest.raises(SchemaError, match="1 calls have two rulings"):
        record(tmp_path, [CALLS[0]] * 2, [Ruling(True), Ruling(False)])
    with pytest.raises(ValueError, match="shorter"):
        record(tmp_path, CALLS, RULINGS[:3])


def test_a_stored_verdict_table_can_be_replayed(tmp_path: Path):
    """JUDGE_CALLS of one run gives the same signals in the next, without its judge."""
    parts = [Cycle("Who built it?", "Torbeck built it."), Cycle("When?", "In 1921.")]
    trace = build_trace("Look.", parts, "Supported")
    planned = plan([Rollout("g", 0, "Torbeck built it in 1921.", "Torbeck built it.", trace)])
    rulings = RuleJudge().judge(planned.calls)
    record_table(tmp_path, planned.frame(rulings, "rules"))
    assert planned.signals(rulings) == planned.signals(ReplayJudge(tmp_path).judge(planned.calls))
    first = (tmp_path / "judge.parquet").read_bytes()
    record_table(tmp_path, planned.frame(rulings, "rules").reverse())
    assert first == (tmp_path / "judge.parquet").read_bytes()
    assert ["call_key", "value", "failure"] == pl.read_parquet(tmp_path / "judge.parquet").columns
