"""How the benchmarks take a figure, and that the bench ends in time on any machine."""

import math
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from mapped_work import gone
from perf import bench, machine, older_processor, timing
from perf.bench import HEADS, line_of, rows_within
from project import ROOT
from studies import growth, paper_scale

PAGE = (ROOT / "docs/results/benchmarks.md").read_text("utf-8")
ROW = '{"name": "x", "ours_s": 1.0, "peer": "y", "peer_s": 2.0, "ratio": 2.0}'
HANGS = f"""
echo 'something that a peer says'
echo 'row {ROW}'
sleep 60 & echo $! > "$0"
sleep 60
"""
"""A shell starts in no time, so a short limit is enough on a busy machine too."""


def test_a_bench_that_hangs_is_ended_with_all_it_started(tmp_path: Path):
    """What it measured stays, a row says what is missing, and no process is left behind."""
    started, pid_file = time.perf_counter(), tmp_path / "pid"
    found = list(rows_within(["sh", "-c", HANGS, str(pid_file)], "slow", 3.0))
    assert time.perf_counter() - started < 30
    assert [("x", 2.0), ("slow, the rest", None)] == [(row.name, row.ratio) for row in found]
    assert "ended after 3 s; run --only slow" == found[-1].note
    assert found[-1].missed
    assert gone(int(pid_file.read_text()))


def test_a_bench_that_fails_says_so():
    """Its exit code is not lost."""
    found = list(rows_within([sys.executable, "-c", "raise SystemExit(3)"], "broken", 30.0))
    assert [("broken, the rest", "failed")] == [(row.name, row.note) for row in found]


def test_a_bench_that_is_left_early_is_ended():
    """A reader that stops early leaves no process behind."""
    command = [sys.executable, "-c", f"import time; print('row {ROW}', flush=True); time.sleep(60)"]
    started, rows = time.perf_counter(), rows_within(command, "slow", 60.0)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert time.perf_counter() - started < 30


def test_a_slow_product_is_timed_on_fewer_columns():
    """A product that takes 20 ms a column is not asked for 8,192 of them.

    Every limit of the bench is below a quarter of an hour, with time for the report.
    """
    assert bench.BENCH_S < bench.TOTAL_S < 15 * 60
    asked: list[int] = []

    def slow(columns: int) -> None:
        asked.append(columns)
        time.sleep(0.0005 * columns)

    product = machine.sized(slow)
    assert [machine.FEW_COLUMNS] * 2 == asked
    assert product.flop < machine.FLOP / 2
    assert machine.FLOP == machine.sized(asked.append).flop


def test_the_class_of_a_machine_is_what_its_products_say():
    """Emulated products in fewer bits make no class of their own."""
    older = machine.Rates({"f32": 63e9, "bf16": 10e9, "int8": 2e9}, 1e10)
    newer = machine.Rates({"f32": 180e9, "bf16": 415e9, "int8": 358e9}, 1e10)
    assert [False, True] == [older.fewer_bits_pay, newer.fewer_bits_pay]
    assert ["perf.bench"] == older_processor.program("perf.bench")


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


def test_short_pairs_are_taken_five_times_and_long_ones_less():
    """Five pairs or more where one takes under two seconds."""
    assert [5, 5, 3, 1] == [timing.pairs_for(seconds) for seconds in (0.01, 1.9, 3.0, 60.0)]


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
    line = line_of(timing.Row("work", 2.0, "library", 3.0, 1.5, 2.0, 0.1, "same", 4.0, 1.2))
    assert "| work | 2.00 | library | 1.50 **missed** 2.00, busy 1.20 | same |" == line
    plain = timing.Row("work", 2.0, "library", 3, 1.5)
    assert "| work | 2.00 | library | 1.50 |  |" == line_of(plain)


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


def test_growth_shows_the_largest_pools_and_the_first_limit():
    """Memory is extrapolated along a line, time along a power; the nearer limit is named."""
    lines = [
        {"pool": pool, "stage": "rules", "rows_in": pool, "seconds": pool / 1e3, "peak_mb": pool}
        for pool in (1_000, 2_000, 4_000, 8_000)
    ]
    shown = growth.report(lines)
    assert (
        "| rules | 2.0 / 2,000 | 4.0 / 4,000 | 8.0 / 8,000 | 1.00 | 1000.0 | 0.0 M, memory" in shown
    )
    assert "1,000:" not in shown


def test_the_paper_scale_names_each_kind_with_a_wrong_decision():
    """Planted claims that stay and others that go are listed; right decisions are one sentence."""

    def fact(planted: str, removed: int, recall: float) -> dict[str, object]:
        return {"planted": planted, "reached": 10, "removed": removed, "recall": recall}

    facts = [fact("exact_leak", 10, 1.0), fact("paraphrase", 9, 0.9), fact("lookalike", 2, 0.8)]
    sentence, *wrong = paper_scale.facts_of({"facts": facts})
    assert (
        "Of 20 planted duplicates and leaks, 19 were removed; of all other claims, 2." == sentence
    )
    assert ["- paraphrase: 9 of 10 removed", "- lookalike: 2 of 10 removed"] == wrong


def test_the_page_has_the_columns_that_the_programs_print():
    """The committed tables are those of the programs as they are now."""
    cell = {"pool": 155_506, "stage": "x", "rows_in": 1, "seconds": 1.0, "peak_mb": 1.0}
    heads = growth.report([{**cell, "pool": pool} for pool in growth.SIZES]).splitlines()[0]
    assert f"{heads}\n" in PAGE
    assert f"| {' | '.join(HEADS)} |\n" in PAGE
    assert paper_scale.HEADS[0] + "\n" in PAGE
