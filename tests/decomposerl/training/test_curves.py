"""Curves: what a step's rows hold, what reports and pictures make of a table of them."""

import io
import math
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from decomposerl.reports.training_figure import training_png
from decomposerl.reports.training_report import (
    changes_markdown,
    changes_text,
    duration,
    measure_text,
    seconds_markdown,
    step_line,
)
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.schemas import CURVES
from decomposerl.training.curves import (
    MEASURE_NAMES,
    CurvePoint,
    Split,
    changes,
    curve_point,
    curve_rows,
    ends,
    history,
    measure_named,
    smoothed,
)
from decomposerl.training.health import spread_key
from strategies import LAW

finite = st.floats(-1e6, 1e6)
values = st.lists(finite | st.none() | st.just(math.nan), max_size=30)


def curves(steps: int, split: Split = "train", every: int = 1) -> pl.DataFrame:
    """A run whose format rises from 0 by 0.01 a step with a spread of 0.1."""
    rows = [
        curve_rows("r" * 16, "tiny", step, split, {"format": CurvePoint(step / 100, 0.1, 16)})
        for step in range(0, steps, every)
    ]
    return pl.concat([CURVES.empty(), *rows])


def test_every_reward_is_a_measure_and_names_are_unique():
    """The catalogue's rewards come first under their own names; no name is listed twice."""
    names = [reward.name for reward in REWARDS]
    assert names == list(MEASURE_NAMES[: len(names)])
    assert len(MEASURE_NAMES) == len(set(MEASURE_NAMES))
    assert all(measure_named(name).meaning for name in MEASURE_NAMES)
    assert "own measure" == measure_named("own_measure").title


@LAW
@given(values)
def test_a_point_is_the_mean_and_spread_of_what_is_there(values: Sequence[float | None]):
    """None and NaN count nowhere; mean and spread are those of polars, ddof 0."""
    finite = pl.Series(values, dtype=pl.Float64).fill_nan(None).drop_nulls()
    at = curve_point(values)
    assert len(finite) == at.rows
    if not len(finite):
        assert at == CurvePoint(None, None, 0)
        return
    assert at.mean == pytest.approx(finite.mean(), abs=1e-6)
    assert (at.spread is None) == (at.rows == 1)
    assert at.spread is None or at.spread == pytest.approx(finite.std(ddof=0), abs=1e-6)


@LAW
@given(values, st.integers(1, 40))
def test_smoothing_stays_in_the_range_of_the_values(values: Sequence[float | None], window: int):
    """A moving mean has one entry a value, never leaves their range, and a window of 1 is them."""
    smooth = smoothed(values, window)
    assert len(values) == len(smooth)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    for mean in smooth:
        assert mean is None or min(finite) - 1e-6 <= mean <= max(finite) + 1e-6
    assert [v if v is not None and v == v else None for v in values] == smoothed(values, 1)  # noqa: PLR0124


def test_smoothing_by_hand():
    """Windows are centred and cut at both ends; a hole is bridged by its neighbours."""
    assert [1.5, 2.0, 3.0, 3.5] == smoothed([1.0, 2.0, 3.0, 4.0], 3)
    assert [1.0, 2.0, 3.0] == smoothed([1.0, None, 3.0], 3)


def test_rows_of_a_step_conform_to_their_table():
    """Also where a measure has no value at all."""
    rows = curve_rows(
        "r", "tiny", 3, "train", {"format": CurvePoint(0.5, 0.1, 8), "loss": curve_point([])}
    )
    assert CURVES.conform(rows).equals(rows)
    assert [None] == rows.filter(measure="loss")["mean"].to_list()


def test_history_reads_back_what_was_written():
    """One mapping a step, oldest first, of one split, means and spreads under their keys."""
    table = pl.concat([curves(3).reverse(), curves(3, "held_out_greedy")])
    steps = history(table)
    assert [0.0, 0.01, 0.02] == [step["format"] for step in steps]
    assert {0.1} == {step[spread_key("format")] for step in steps}


def test_both_ends_are_means_over_a_window():
    """Before is the first window's mean, after the last one's; a short run's windows overlap."""
    before, after = ends(curves(10), 2)
    assert before == {"train/format": pytest.approx(0.005)}
    assert after == {"train/format": pytest.approx(0.085)}
    assert ends(CURVES.empty(), 5) == ({}, {})
    short, same = ends(curves(3), 10)
    assert short == same


def test_changes_are_in_the_order_of_measures_within_their_split():
    """What only one end has is kept and has no difference; unlisted measures come last."""
    ends = changes(
        {"held_out_greedy/odd": 1.0, "held_out_greedy/total": 1.0, "train/loss": 0.5},
        {"held_out_greedy/format": 0.2, "held_out_greedy/total": 1.5},
    )
    assert ["format", "total", "odd", "loss"] == [change.measure.name for change in ends]
    assert [None, 0.5, None, None] == [change.difference for change in ends]


def test_the_report_shows_before_after_and_change():
    """Markdown and text hold the same numbers; differences are signed and as precise as both."""
    ends = changes(
        {"train/format": 0.25, "train/completion_tokens": 88.71, "train/loss": 0.0},
        {"train/format": 0.5, "train/completion_tokens": 61.04},
    )
    for page in (changes_text(ends), changes_markdown(ends)):
        for name, words in {
            "Format": ("0.250", "0.500", "+0.250"),
            "Completion": ("tokens", "88.7", "61.0", "-27.7"),
            "Loss": ("–",) * 2,
        }.items():
            (line,) = [line for line in page.splitlines() if name in line]
            assert all(line.count(word) >= words.count(word) for word in words), line
    assert changes_text([]) == changes_markdown([])


def test_numbers_and_durations_have_digits_that_mean_something():
    """Rates are not rounded to zero, large counts have no fraction; the two largest units count."""
    numbers = {None: "–", 0.0: "0.000", 5e-6: "5.0e-06", 0.123: "0.123", 12.3: "12.3"}
    assert numbers == {value: measure_text(value) for value in numbers}
    assert "-10,000" == measure_text(-1e4)
    spans = {0: "0.0 s", 0.42: "0.4 s", 41.2: "41 s", 245: "4 min 5 s", 11_520: "3 h 12 min"}
    assert spans == {seconds: duration(seconds) for seconds in spans}


def test_a_step_is_one_line():
    """Means with spreads, shares in percent, wall time with its unit; what is missing is not."""
    means = {
        "total": 3.0,
        spread_key("total"): 0.5,
        "joint": 0.25,
        "truncated": 0.125,
        "judge_failures": None,
        "seconds_judging": 4.2,
    }
    line = step_line(3, 1200, means, 245)
    for said in ("3 of 1,200", "3.000 ± 0.500", "0.250", "truncated 12 %", "4.2 s", "4 min 5 s"):
        assert said in line
    assert "fail" not in line
    assert "1 of 2" in step_line(1, 2, {}, 0)


def test_phases_show_their_share():
    """Wall time by phase; nothing where none was timed."""
    page = seconds_markdown({"seconds_generation": 30.0, "seconds_update": 10.0})
    assert "generation" in page
    assert "75.0 %" in page
    assert "%" not in seconds_markdown({})


def pixels(png: bytes) -> tuple[tuple[int, int], set[tuple[int, ...]]]:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    return picture.size, {colour for _, colour in picture.getcolors(1 << 20) or []}


def test_the_picture_shows_line_band_and_points():
    """More measures make a larger picture; the three colours of its marks are in it."""
    train = curves(60)
    rise = train.with_columns(measure=pl.lit("joint"))
    greedy = curves(60, "held_out_greedy", every=20)
    size, colours = pixels(training_png(pl.concat([train, rise, greedy])))
    assert {(0, 0x72, 0xB2), (0, 0x9E, 0x73)} <= {colour[:3] for colour in colours}
    five = [train.with_columns(measure=pl.lit(name)) for name in MEASURE_NAMES[:5]]
    taller, _ = pixels(training_png(pl.concat(five)))
    assert taller[1] > size[1]


def test_the_picture_of_the_same_curves_is_the_same_bytes():
    """No clock and no chance in the bytes; an empty table and holes draw without a warning."""
    table = curves(30)
    picture = training_png(table)
    assert picture == training_png(table) != training_png(CURVES.empty())
    holes = table.with_columns(mean=pl.when(pl.col("step") % 3 > 0).then("mean"))
    assert training_png(holes)
