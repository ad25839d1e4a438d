"""How the benchmarks take a figure: pairs, medians, bars, growth."""

import math
from functools import partial

import pytest

from perf import timing
from perf.bench import line_of
from studies import growth


def test_both_sides_of_a_pair_are_run_in_turn():
    """Ours, the peer, ours, the peer: neither gets a quiet minute for itself."""
    order: list[str] = []
    both = timing.paired(lambda: order.append("a"), lambda: order.append("b"), pairs=2)
    assert ["a", "b"] * 2 == order
    assert both.pairs == 2
    assert both.ratio > 0


def test_a_scaled_peer_counts_for_all_of_the_work():
    """A peer that does a known part is compared as if it did everything."""
    work = partial(sum, range(200_000))
    plain = timing.paired(work, work, pairs=3)
    scaled = timing.paired(work, work, scale=1_000.0, pairs=3)
    assert scaled.ratio > 50 * plain.ratio
    assert scaled.peer_s > 50 * plain.peer_s


@pytest.mark.parametrize(("seconds", "pairs"), [(0.01, 5), (1.9, 5), (3.0, 3), (60.0, 1)])
def test_short_pairs_are_taken_five_times_and_long_ones_less(seconds: float, pairs: int):
    """Five pairs or more where one takes under two seconds."""
    assert pairs == timing.pairs_for(seconds)


@pytest.mark.parametrize(
    ("ratio", "bar", "missed"),
    [(2.0, None, False), (2.5, 2.5, False), (2.4, 2.5, True), (None, 1.0, True)],
)
def test_a_row_misses_its_bar_below_it_alone(
    ratio: float | None, bar: float | None, *, missed: bool
):
    """A row without a bar informs; one without a ratio has not reached its bar."""
    row = timing.Row("x", 1.0, "y", 1.0, ratio, bar)
    assert missed == row.missed
    assert missed == ("**missed**" in line_of(row))


def test_a_pair_gives_its_row():
    """Times and ratio of the quiet pairs; those with a busy core in columns of their own."""
    quiet = timing.Paired(1.0, 3.0, 3.0, 5, "ours", "peer")
    busy = timing.Paired(2.0, 4.0, 2.0, 1, "ours", "peer")
    row = quiet.row("work", "library", 2.5, limit_s=0.5, note="same result", busy=busy)
    expected = timing.Row("work", 1.0, "library", 3.0, 3.0, 2.5, 0.5, "same result", 2.0, 2.0)
    assert expected == row
    assert timing.Row("work", 1.0, "library", 3.0, 3.0) == quiet.row("work", "library")


def test_the_exponent_is_the_slope_of_the_logarithms():
    """Squares have two, lines one; a bound is reached where the law says."""
    sizes = [1e3, 1e4, 1e5]
    assert math.isclose(2.0, growth.exponent(sizes, [size**2 for size in sizes]))
    assert math.isclose(1.0, growth.exponent(sizes, [5 * size for size in sizes]))
    assert math.isclose(1e6, growth.reached_at(1e5, 1e10, 2.0, 1e12))
    assert math.isnan(growth.exponent([5.0], [1.0]))
    assert growth.reached_at(1e5, 1.0, 0.0, 2.0) == math.inf
    assert math.isclose(1_100.0, growth.filled_at([100, 200, 300], [500, 600, 700], 1_500))
    assert growth.filled_at([100], [500], 1_500) == math.inf
    assert growth.filled_at([100, 200], [600, 500], 1_500) == math.inf
    assert growth.filled_at([100, 200], [600, 1_600], 1_500) == 200
