"""Rates and hours of a rehearsal's page."""

from dataclasses import replace

import pytest

from decomposerl.reports.cost import PAPER, CostLine
from decomposerl.reports.readiness import CostEstimate
from decomposerl.reports.rehearsal import (
    Rehearsal,
    RehearsedStep,
    at_measured_rates,
    rehearsal_markdown,
    rehearsal_text,
)

JUDGE = RehearsedStep("judge", "chat", 50.0, calls=100, tokens=20_000, busy_s=40.0)
LINE = CostLine("judge", "chat", 9_000, 1_700_000, 100_000, None, 7.5)
ESTIMATE = CostEstimate("some claims", None, (LINE,), "Training x")


def hours(step: RehearsedStep, line: CostLine = LINE) -> float | None:
    (one,) = at_measured_rates([CostEstimate("", None, (line,))], {"judge": step})
    return one.lines[0].gpu_hours


def test_rates_are_of_the_time_with_requests_in_flight():
    """The start of a server is not part of it; without such a time there is no rate."""
    assert pytest.approx(500.0) == JUDGE.rate(JUDGE.tokens)
    assert RehearsedStep("rules", "rules", 15.0, calls=8).rate(8) is None


def test_hours_follow_from_tokens_and_without_them_from_calls():
    """1.8 M tokens at 500 a second are an hour; 9,000 calls at 2.5 a second too."""
    assert pytest.approx(1.0) == hours(JUDGE)
    assert pytest.approx(1.0) == hours(RehearsedStep("judge", "chat", 50.0, 100, 0, 40.0))


def test_a_priced_port_and_one_without_a_rate_have_no_hours():
    """Money is not time, and what was not measured is not guessed."""
    paid = CostLine("judge", "api", 9_000, 1_700_000, 100_000, 12.0, None)
    assert hours(JUDGE, paid) is None
    assert hours(RehearsedStep("judge", "rules", 1.0, calls=5)) is None
    (one,) = at_measured_rates([ESTIMATE], {})
    assert one.lines[0].gpu_hours is None


def test_both_pages_end_with_what_failed_or_that_nothing_did():
    """A failure is the last sentence, and the steps before it are shown."""
    broken = Rehearsal("paper", "paper_7b", (JUDGE,), failure="the rehearsal failed at policy: x")
    whole = Rehearsal("paper", "paper_7b", (JUDGE,), (ESTIMATE,), "training: 2 steps")
    for page in (rehearsal_text, rehearsal_markdown):
        assert page(broken).rstrip().rstrip(".").endswith("failed at policy: x")
        assert page(whole).rstrip().rstrip(".").endswith("every step succeeded")
        assert "500.0" in page(broken)
        assert "Judging of x" in page(whole)  # its lines have no hour of training
        assert "A full run over" in page(
            replace(whole, estimates=(replace(ESTIMATE, work=PAPER, run="A full run"),))
        )
