"""The estimate of what a run will cost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.chat import Price
from decomposerl.reports.cost import (
    BENCHMARK_CLAIMS,
    PAPER,
    EngineCost,
    Workload,
    at_least,
    cost_rows,
    cost_totals,
    estimate,
)
from strategies import LAW

WORK = Workload(1_000, 500, 200, 100, 20.0, 980.0, measured=True)
PORTS = ("entities", "verifier", "embedder", "decomposer")


def test_each_port_is_charged_for_what_it_reads():
    """100 claims with evidence: 100 x (20 + 980 + 200) tokens in, 100 x 50 out."""
    (line,) = estimate(
        WORK, [EngineCost("decomposer", "m", 200, 50, Price(2.0, 10.0), tokens_per_s=1_000.0)]
    )
    assert (100, 120_000, 5_000) == (line.calls, line.prompt_tokens, line.completion_tokens)
    assert line.dollars == pytest.approx(0.12 * 2 + 0.005 * 10)
    assert line.gpu_hours == pytest.approx(125 / 3_600)


def test_a_claim_alone_is_embedded():
    """The embedder and the entity recogniser never see evidence."""
    lines = estimate(WORK, [EngineCost("embedder", "e"), EngineCost("entities", "n")])
    assert [4_000, 20_000] == [line.prompt_tokens for line in lines]
    assert [None, None] == [line.dollars for line in lines]
    assert [None, None] == [line.gpu_hours for line in lines]


@LAW
@given(
    st.lists(
        st.builds(
            EngineCost,
            st.sampled_from(PORTS),
            st.just("x"),
            st.floats(0, 1e4),
            st.floats(0, 1e4),
            st.none() | st.builds(Price, st.floats(0, 100), st.floats(0, 100)),
            st.none() | st.floats(1, 1e6),
        ),
        max_size=5,
    )
)
def test_the_total_is_the_sum_of_the_lines(engines: list[EngineCost]):
    """And grows with the rows: twice the workload costs twice as much, to a rounded token."""
    lines = estimate(WORK, engines)
    double = Workload(2_000, 1_000, 400, 200, 20.0, 980.0, measured=True)
    calls, tokens, dollars, hours = cost_totals(lines)
    assert 2 * calls == cost_totals(estimate(double, engines))[0]
    assert dollars * 2 == pytest.approx(cost_totals(estimate(double, engines))[2])
    assert hours * 2 == pytest.approx(cost_totals(estimate(double, engines))[3])
    assert tokens == sum(line.prompt_tokens + line.completion_tokens for line in lines)
    assert len(lines) + 1 == len(cost_rows(lines))


def test_a_total_with_an_unknown_part_says_so():
    """A dash for what no figure gives; the sum of the others is "at least", or a dash without."""
    known = EngineCost("verifier", "v", tokens_per_s=1_000.0)
    lost = EngineCost("decomposer", "m", unknown="gpu_hours")
    unpriced = EngineCost("embedder", "e", unknown="dollars")
    lines = estimate(WORK, [known, lost, unpriced])
    rows = cost_rows(lines)
    assert [("", "0.1"), ("", "–"), ("–", ""), ("–", "≥ 0.1")] == [row[-2:] for row in rows]
    assert ["dollars", "gpu_hours"] == at_least(lines)
    assert ("0.00", "–") == cost_rows(estimate(WORK, [lost]))[-1][-2:]
    measured = [replace(line, gpu_hours=2.0) for line in estimate(WORK, [lost])]
    assert ([], "2.0") == (at_least(measured), cost_rows(measured)[-1][-1])


def test_the_papers_verifier_load_follows_from_its_band():
    """24,355 survivors are what 68.1 % removed leaves."""
    assert PAPER.decomposer / PAPER.verifier == pytest.approx(1 - 0.681, abs=5e-5)


def test_the_papers_embedder_reads_the_test_sets_too():
    """As the one that is measured does: decontamination compares claims with theirs."""
    assert PAPER.decomposer + BENCHMARK_CLAIMS == PAPER.embedder
