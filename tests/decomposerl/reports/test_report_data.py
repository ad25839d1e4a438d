"""The numbers behind the report's figures: nothing is lost, turned round or made up."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from decomposerl.evaluation.published import MEAN_IN, MEAN_OUT
from decomposerl.reports.attrition import STAGES
from decomposerl.reports.report_data import (
    KEPT,
    against_best,
    calibration_gap,
    confidence_bins,
    cost_by_claim,
    score_bars,
    scored_columns,
    share_bounds,
    shares,
    source_fates,
)
from decomposerl.schemas import ATTRITION
from report_parts_made import board, board_row, calls, comparison, pair, verdicts
from strategies import FRAME_LAW, LAW

FUNNEL = [stage for stage in STAGES[1:] if stage != "diversity_selected"]
drops = st.lists(st.integers(0, 5), min_size=len(FUNNEL), max_size=len(FUNNEL))
funnels = st.dictionaries(
    st.sampled_from(("hover", "wice", "scitab")),
    st.tuples(drops, st.integers(0, 9), st.integers(0, 3)),
    min_size=1,
)


def attrition_of(sources: dict[str, tuple[list[int], int, int]], ran: int) -> pl.DataFrame:
    """A funnel whose first ``ran`` stages ran; of each source: drops, rows at the end, rejects."""
    rows = []
    for source, (dropped, left, rejected) in sources.items():
        raw = sum(dropped) + left
        rows.append(("claims", 0, source, "none", "rejected", "reading", "bad", rejected))
        rows.append(("claims", 0, source, "Supported", "kept", "", "", raw))
        for stage, lost in zip(FUNNEL[:ran], dropped, strict=False):
            raw, order = raw - lost, STAGES.index(stage)
            rows.append((stage, order, source, "Supported", "kept", "", "", raw))
            rows.append((stage, order, source, "Supported", "dropped", "step", "why", lost))
    frame = pl.DataFrame(rows, schema=ATTRITION.schema, orient="row")
    return ATTRITION.conform(frame.filter(pl.col("rows") > 0))


@FRAME_LAW
@given(sources=funnels, ran=st.integers(0, len(FUNNEL)))
def test_every_claim_of_a_source_ends_once(
    sources: dict[str, tuple[list[int], int, int]], ran: int
):
    """What was kept and what each stage dropped are together the claims of the source."""
    counted = attrition_of(sources, ran)
    fates = source_fates(counted)
    ended = dict(fates.group_by("source").agg(pl.col("rows").sum()).iter_rows())
    kept = dict(fates.filter(stage=KEPT).select("source", "rows").iter_rows())
    for source, (dropped, left, _) in sources.items():
        assert sum(dropped) + left == ended.get(source, 0)
        assert left + sum(dropped[ran:]) == kept.get(source, 0)


def test_systems_stand_from_best_to_worst_and_short_runs_last():
    """A short run is no measure, so a lucky one never stands on top."""
    rows = [
        board_row("a", 50.0),
        board_row("b", 70.0),
        board_row("lucky", 99.0, status="limited"),
        board_row("a", 88.0, benchmark=MEAN_OUT),
        board_row("unrun", None),
    ]
    bars = score_bars(board(rows))
    assert ["b", "a", "lucky", "a"] == bars["system"].to_list()
    assert [False, False, True, False] == bars["limited"].to_list()
    assert [MEAN_IN, MEAN_OUT] == scored_columns(board(rows))


def test_a_system_that_stands_in_two_tables_is_one_bar():
    """The paper lists its policy in both tables; systems of one title have distinct names."""
    twice = [board_row("a", 60.0, table=1), board_row("a", 60.0, table=2)]
    bars = score_bars(board([*twice, board_row("b", 50.0, title="System a")]))
    assert ["a", "b"] == bars["system"].to_list()
    assert ["System a (a)", "System a (b)"] == bars["label"].to_list()


def test_test_sets_stand_in_where_no_mean_is_complete():
    """The two with most systems, by name where they have as many."""
    rows = [
        board_row(system, 60.0, benchmark=name)
        for name, systems in (("wice", "a"), ("hover", "ab"), ("fever", "ab"))
        for system in systems
    ]
    assert ["fever", "hover"] == scored_columns(board(rows))
    assert {"fever", "hover"} == set(score_bars(board(rows))["benchmark"])


@LAW
@given(turned=st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_difference_does_not_depend_on_which_system_comes_first(turned: list[bool]):
    """(best, other) and (other, best) with the opposite difference say the same."""
    scores = {"a": 50.0, "b": 60.0, "c": 70.0}
    bars = score_bars(board([board_row(key, score) for key, score in scores.items()]))
    rows = []
    for (one, other), turn in zip((("a", "b"), ("a", "c"), ("b", "c")), turned, strict=True):
        first, second = (other, one) if turn else (one, other)
        rows.append(pair(first, second, scores[first] - scores[second]))
    found = against_best(comparison(rows), bars)
    assert [("c", "a", 20.0, 15.0, 25.0), ("c", "b", 10.0, 5.0, 15.0)] == found.select(
        "best", "system", "difference", "low", "high"
    ).rows()


def test_the_best_of_a_comparison_is_a_whole_run():
    """A short run is compared, but not the one that others are measured by."""
    bars = score_bars(board([board_row("a", 60.0), board_row("b", 90.0, status="limited")]))
    (row,) = against_best(comparison([pair("a", "b", -30.0, p=None)]), bars).to_dicts()
    assert ("a", "b", -30.0, None) == (row["best"], row["system"], row["difference"], row["p_holm"])


@FRAME_LAW
@given(sure=st.lists(st.tuples(st.integers(50, 100), st.booleans()), min_size=1, max_size=90))
def test_every_verdict_is_in_one_bin(sure: list[tuple[int, bool]]):
    """Bins keep the number of verdicts, their mean confidence and their share of right ones."""
    rows = [("s", "e", "test sets", number / 100, right) for number, right in sure]
    bins = confidence_bins(verdicts(rows))
    weights = pl.col("rows") / pl.col("rows").sum()
    mean, right = bins.select(
        (pl.col("confidence") * weights).sum(), (pl.col("right") * weights).sum()
    ).row(0)
    assert len(sure) == bins["rows"].sum()
    assert mean == pytest.approx(sum(number for number, _ in sure) / len(sure) / 100)
    assert right == pytest.approx(sum(right for _, right in sure) / len(sure))
    assert abs(mean - right) - 1e-9 <= calibration_gap(bins) <= 1


@LAW
@given(rows=st.integers(1, 400), data=st.data())
def test_the_interval_of_a_share_is_wilsons(rows: int, data: st.DataObject):
    """SciPy gives the same bounds, and the share lies between them."""
    hits = data.draw(st.integers(0, rows))
    low, high = share_bounds(hits / rows, rows)
    peer = binomtest(hits, rows).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((peer.low, peer.high), abs=1e-6)
    assert low <= hits / rows <= high


def test_the_cost_of_a_claim_is_over_all_test_sets():
    """Sums of both; without any price there are no dollars, not none spent."""
    rows = [
        ("free", "rules", 10, 10, 0, 0, None, 1.0),
        ("paid", "chat", 10, 30, 1_000, 100, 0.5, 20.0),
        ("paid", "chat", 10, 50, 3_000, 300, None, 40.0),
        ("empty", "rules", 0, 0, 0, 0, None, 0.1),
    ]
    paid, free = cost_by_claim(calls(rows)).to_dicts()
    assert ("paid", 20, 80, 4_000, 400) == tuple(
        paid[name] for name in ("system", "claims", "calls", "prompt_tokens", "completion_tokens")
    )
    assert (4.0, 0.025, 3.0) == tuple(
        paid[f"{name}_by_claim"] for name in ("calls", "dollars", "seconds")
    )
    assert ("free", None, None) == (free["system"], free["dollars"], free["dollars_by_claim"])


@LAW
@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_shares_are_of_the_whole(rows: list[int]):
    """They sum to 100, or are all zero where nothing is."""
    assert math.isclose(sum(shares(rows)), 100.0 if sum(rows) else 0.0)
