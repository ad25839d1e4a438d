"""The estimate of what a run will cost, and the hours at the rates of a rehearsal."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.chat import Price
from decomposerl.reports.cost import (
    FREE,
    PAPER,
    CostLine,
    Rate,
    Workload,
    at_least,
    clock_hours,
    cost_rows,
    cost_totals,
)
from decomposerl.reports.readiness import CostEstimate
from decomposerl.reports.rehearsal import (
    Rehearsal,
    RehearsedStep,
    at_measured_rates,
    rehearsal_markdown,
    rehearsal_text,
)
from strategies import LAW

WORK = Workload(1_000, 500, 200, 100, 20.0, 980.0, measured=True)
JUDGE = RehearsedStep("judge", "chat", 50.0, calls=100, tokens=20_000, busy_s=40.0)
LINE = CostLine("judge", "chat", 9_000, 1_700_000, 100_000, None, 7.5)
ESTIMATE = CostEstimate("some claims", None, (LINE,), "Training x")


def test_each_port_is_charged_for_what_it_reads():
    """100 claims with evidence: 100 x (20 + 980 + 200) tokens in, 100 x 50 out; embedders: claims.

    Hours on the clock are those of its cards side by side.
    """
    line = WORK.line("decomposer", "m", Rate(Price(2.0, 10.0), 1_000.0, cards=4), 200, 50)
    assert (100, 120_000, 5_000) == (line.calls, line.prompt_tokens, line.completion_tokens)
    assert line.dollars == pytest.approx(0.12 * 2 + 0.005 * 10)
    assert (line.gpu_hours, line.hours) == pytest.approx((125 / 3_600, 125 / 3_600 / 4))
    lines = [WORK.line("embedder", "e", FREE), WORK.line("entities", "n", FREE)]
    assert [4_000, 20_000] == [one.prompt_tokens for one in lines]
    assert {(None, None, None)} == {(one.dollars, one.gpu_hours, one.hours) for one in lines}


ports = st.sampled_from(("entities", "verifier", "embedder", "decomposer"))
words = st.floats(0, 1e4)
prices = st.none() | st.builds(Price, st.floats(0, 100), st.floats(0, 100))
rates = st.builds(Rate, prices, st.none() | st.floats(1, 1e6), st.none(), st.integers(1, 8))


@LAW
@given(st.lists(st.tuples(ports, st.just("x"), rates, words, words), max_size=5))
def test_the_total_is_the_sum_of_the_lines(engines: list[tuple[Any, ...]]):
    """And grows with the rows: twice the workload costs twice as much, to a rounded token."""
    lines = [WORK.line(*one) for one in engines]
    double = Workload(2_000, 1_000, 400, 200, 20.0, 980.0, measured=True)
    calls, tokens, dollars, hours = cost_totals(lines)
    more_calls, _, more_dollars, more_hours = cost_totals([double.line(*one) for one in engines])
    assert 2 * calls == more_calls
    assert (dollars * 2, hours * 2) == pytest.approx((more_dollars, more_hours))
    assert tokens == sum(line.prompt_tokens + line.completion_tokens for line in lines)
    assert len(lines) + 1 == len(cost_rows(lines))
    one_after_another, side_by_side = (clock_hours(lines, at_once=once) for once in (False, True))
    assert side_by_side <= one_after_another <= hours + 1e-9


def test_a_total_with_an_unknown_part_says_so():
    """A dash for what no figure gives; the sum of the others is "at least", or a dash without."""
    known = WORK.line("verifier", "v", Rate(tokens_per_s=1_000.0))
    lost = WORK.line("decomposer", "m", Rate(unknown="gpu_hours"))
    unpriced = WORK.line("embedder", "e", Rate(unknown="dollars"))
    lines = [known, lost, unpriced]
    rows = [row[-3:-1] for row in cost_rows(lines)]
    assert [("", "0.1"), ("", "–"), ("–", ""), ("–", "≥ 0.1")] == rows
    assert [row[-1] for row in cost_rows(lines)] == [row[1] for row in rows]
    assert ["dollars", "gpu_hours"] == at_least(lines)
    assert ("0.00", "–", "–") == cost_rows([lost])[-1][-3:]
    measured = [replace(lost, gpu_hours=2.0)]
    assert ([], "2.0") == (at_least(measured), cost_rows(measured)[-1][-1])


def hours(step: RehearsedStep, line: CostLine = LINE) -> float | None:
    (one,) = at_measured_rates([CostEstimate("", None, (line,))], {"judge": step})
    return one.lines[0].gpu_hours


def test_hours_follow_from_tokens_and_without_them_from_calls():
    """1.8 M tokens at 500 a second in flight, 9,000 calls at 2.5; none of a priced port."""
    assert pytest.approx(500.0) == JUDGE.rate(JUDGE.tokens)
    assert RehearsedStep("rules", "rules", 15.0, calls=8).rate(8) is None
    assert pytest.approx(1.0) == hours(JUDGE)
    assert pytest.approx(1.0) == hours(RehearsedStep("judge", "chat", 50.0, 100, 0, 40.0))
    paid = CostLine("judge", "api", 9_000, 1_700_000, 100_000, 12.0, None)
    assert hours(JUDGE, paid) is None
    assert hours(RehearsedStep("judge", "rules", 1.0, calls=5)) is None
    (one,) = at_measured_rates([ESTIMATE], {})
    assert one.lines[0].gpu_hours is None


def test_both_pages_end_with_what_failed_or_that_nothing_did():
    """A failure is the last sentence, and the steps before it are shown."""
    broken = Rehearsal("paper", "paper_7b", (JUDGE,), failure="the rehearsal failed at policy: x")
    whole = Rehearsal("paper", "paper_7b", (JUDGE,), (ESTIMATE,), "training: 2 steps")
    full = replace(whole, estimates=(replace(ESTIMATE, work=PAPER, run="A full run"),))
    for page in (rehearsal_text, rehearsal_markdown):
        assert page(broken).rstrip().rstrip(".").endswith("failed at policy: x")
        assert "failed" not in page(whole).splitlines()[-1]
        assert "500.0" in page(broken)
        assert "Judging of x" in page(whole)  # its lines have no hour of training
        assert "A full run" in page(full)
