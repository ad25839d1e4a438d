"""Agreement of the judge's three forms: the draw, the table, and chance beside it."""

from pathlib import Path

import pytest

from chat_served import SoundServer
from environment import having
from planted_traces.planting import planted_traces
from project import ROOT
from resources.judge.rule_judge import RuleJudge
from studies.judge_cost import cost_table
from studies.judge_reasons import agreement_table, drawn_calls, main


def test_equal_judges_agree_more_than_by_chance():
    """As many calls of each task; one judge in three forms agrees wholly, chance does not."""
    lines = [trace.line() for trace in planted_traces(claims=4)]
    calls = drawn_calls(lines, 40, seed=1)
    assert calls == drawn_calls(lines, 40, seed=1)
    assert {10} == {sum(one.task == call.task for one in calls) for call in calls}
    table = agreement_table(calls, {form: RuleJudge() for form in ("full", "one_sentence", "none")})
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert 12 == len(rows)
    assert {("10", "10", "1.00")} == {(row[2], row[3], row[4]) for row in rows}
    assert all(float(row[5]) <= 1 for row in rows)
    assert min(float(row[5]) for row in rows) < 0.9


def test_the_table_of_costs_is_the_estimates():
    """docs/how-to/costs.md: 955 M tokens and 123 hours before, by form and cache after."""
    table = cost_table()
    assert table in (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    assert "954.7 M, 123.4 h" in table


def test_the_command_asks_the_profiles_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """In each form, at its address; what is printed is the table."""
    traces = tmp_path / "traces.jsonl"
    traces.write_text("\n".join(trace.line() for trace in planted_traces(claims=2)), "utf-8")
    with SoundServer() as served:
        judge = {"BASE_URL": served.url, "MODEL": "tiny"}
        env = {f"DECOMPOSERL_JUDGE__{name}": word for name, word in judge.items()}
        with having(DECOMPOSERL_PROFILE="paper", DECOMPOSERL_DATA=str(tmp_path / "data"), **env):
            main([str(traces), "--calls", "8"])
    assert 3 * 8 == len(served.asked)
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [["2", "2"]] * 12 == [row.strip("| ").split(" | ")[2:4] for row in rows]
