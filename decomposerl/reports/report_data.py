"""The numbers behind the report's figures, from the tables of a data folder.

Shares and confidences are 0..1, scores and their differences points of percent, as in the tables.
"""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from decomposerl.evaluation.calibration import reliability
from decomposerl.evaluation.metrics import BINS
from decomposerl.evaluation.published import MEAN_IN, MEAN_OUT
from decomposerl.reports.attrition import STAGES
from decomposerl.schemas import CALIBRATIONS

KEPT = "kept"
SIGNIFICANT = 0.05
TEST_SETS, TEST_SETS_CALIBRATED = "test sets", "test sets, calibrated"
_MARKING = "diversity_selected"
"""It marks claims; ``training_claims`` drops those without a mark."""
_MOST_PANELS = 2
_PER_BIN, _LEAST_PER_BIN, _FEW_BINS = 30, 10, 4
_Z = 1.959964


def source_fates(attrition: pl.DataFrame) -> pl.DataFrame:
    """Where each source's claims ended: ``source``, ``stage``, ``rows``; from ``ATTRITION``.

    ``stage`` is the one that dropped them, or ``kept``: still there after the last stage that ran.
    Claims that were dropped while reading are not in it.
    """
    funnel = attrition.filter(~pl.col("stage").is_in([STAGES[0], _MARKING]))
    if funnel.is_empty():
        funnel = attrition.filter(stage=STAGES[0], outcome=KEPT)
    last = pl.col("stage_order") == pl.col("stage_order").max()
    left = funnel.filter(pl.col("outcome") != KEPT)
    stayed = funnel.filter(last).filter(outcome=KEPT).with_columns(stage=pl.lit(KEPT))
    counted = pl.concat([stayed, left]).group_by("source", "stage").agg(pl.col("rows").sum())
    order = {name: place for place, name in enumerate((KEPT, *reversed(STAGES)))}
    places = pl.col("stage").replace_strict(order, default=len(order))
    return counted.sort("source", places)


def score_bars(board: pl.DataFrame) -> pl.DataFrame:
    """The systems with a score on the means, best first; from ``LEADERBOARD``.

    Those scored on fewer claims than others come last, and short runs.

    Where no mean has a score, the two test sets with most systems stand for them. Columns are those
    of the leaderboard, with ``label`` (the title, and its protocol where a title has several) and
    ``limited``.
    """
    scored = board.filter(pl.col("engine").is_not_null(), pl.col("score").is_not_null())
    shown = scored_columns(board)
    titles = scored.group_by("title").agg(pl.col("system").n_unique().alias("namesakes"))
    several = pl.col("namesakes") > 1
    order = pl.col("benchmark").replace_strict(
        shown, list(range(len(shown))), default=None, return_dtype=pl.Int64
    )
    return (
        scored.filter(pl.col("benchmark").is_in(shown))
        .unique(["system", "benchmark"], keep="first", maintain_order=True)
        .join(titles, on="title", maintain_order="left")
        .with_columns(
            label=pl.when(several).then(pl.format("{} ({})", "title", "system")).otherwise("title"),
            limited=(pl.col("status") == "limited") | ~pl.col("ranked"),
        )
        .sort(order, "limited", "score", "system", descending=[False, False, True, False])
        .drop("namesakes")
    )


def scored_columns(board: pl.DataFrame) -> list[str]:
    """The means with a score of a system that was run, or the test sets that stand for them."""
    scored = board.filter(pl.col("engine").is_not_null(), pl.col("score").is_not_null())
    means = [name for name in (MEAN_IN, MEAN_OUT) if name in scored["benchmark"]]
    if means:
        return means
    counted = scored.group_by("benchmark").agg(pl.col("system").n_unique())
    ordered = counted.sort(["system", "benchmark"], descending=[True, False])
    return ordered["benchmark"].head(_MOST_PANELS).to_list()


def against_best(comparison: pl.DataFrame, bars: pl.DataFrame) -> pl.DataFrame:
    """The best system less each other one, largest difference first; from ``COMPARISON``.

    Pairs without a p-value come last.

    ``bars`` are ``score_bars``. The best is that of each mean, of whole runs where there are any.
    Columns: ``benchmark``, ``best``, ``system`` (the other), ``label``, ``difference``, ``low``,
    ``high``, ``p_holm``, ``no_p``.
    """
    empty = _turned(comparison.clear(), "").join(bars.clear(), on=["benchmark", "system"])
    parts = [_columns(empty)]
    for (name,), rows in bars.group_by("benchmark", maintain_order=True):
        pairs = comparison.filter(benchmark=name)
        known = pl.concat([pairs["system"], pairs["other"]])
        ranked = rows.filter(pl.col("system").is_in(known.implode())).sort(
            "limited", "score", "system", descending=[False, True, False]
        )
        if ranked.height:
            turned = _turned(pairs, str(ranked["system"][0]))
            named = turned.join(rows, on=["benchmark", "system"], how="inner")
            parts.append(_columns(named))
    return pl.concat(parts)


def _turned(pairs: pl.DataFrame, best: str) -> pl.DataFrame:
    """The pairs with ``best``, each as ``best`` less ``system``."""
    kept = ["benchmark", "system", "difference", "low", "high", "p_holm", "no_p"]
    first = pairs.filter(system=best).with_columns(system=pl.col("other"))
    second = pairs.filter(other=best).with_columns(
        difference=-pl.col("difference"), low=-pl.col("high"), high=-pl.col("low")
    )
    return pl.concat([first.select(kept), second.select(kept)]).with_columns(best=pl.lit(best))


def _columns(pairs: pl.DataFrame) -> pl.DataFrame:
    names = ["benchmark", "best", "system", "label", "difference", "low", "high", "p_holm", "no_p"]
    unsure = pl.col("p_holm").is_null()
    ordered = pairs.sort(unsure, "difference", "system", descending=[False, True, False])
    return ordered.select(names)


def confidence_bins(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Reliability on the test sets, as ``CALIBRATIONS``.

    ``verdicts`` needs ``system``, ``engine``, ``reading``, ``confidence`` and ``right``, one row a
    verdict on a labelled claim. Small sets have fewer bins, of ten verdicts or more.
    """
    parts = [CALIBRATIONS.empty()]
    keys = ["system", "engine", "reading"]
    for (system, engine, reading), rows in verdicts.sort(keys).group_by(keys, maintain_order=True):
        few = min(rows.height // _LEAST_PER_BIN, _FEW_BINS)
        bins = min(BINS, max(rows.height // _PER_BIN, few, 1))
        table = reliability(rows["confidence"].to_numpy(), rows["right"].to_numpy(), bins)
        parts.append(
            CALIBRATIONS.conform(
                table.with_columns(
                    system=pl.lit(system), engine=pl.lit(engine), reading=pl.lit(reading)
                )
            )
        )
    return pl.concat(parts)


def calibration_gap(bins: pl.DataFrame) -> float:
    """The expected calibration error of ``CALIBRATIONS`` rows of one reading, 0..1."""
    gap = ((pl.col("confidence") - pl.col("right")).abs() * pl.col("rows")).sum()
    return float(bins.select(gap / pl.col("rows").sum()).item())


def share_bounds(share: float, rows: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of ``rows``, as if they were independent."""
    square = _Z * _Z / rows
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / rows + square / (4 * rows)) / (1 + square)
    return min(middle - half, share), max(middle + half, share)


def cost_by_claim(calls: pl.DataFrame) -> pl.DataFrame:
    """What a claim costs each system, most calls first.

    ``calls`` needs ``system``, ``engine``, ``claims``, ``calls``, ``prompt_tokens``,
    ``completion_tokens``, ``dollars`` (null: no price is known) and ``seconds``, one row a test
    set. Gives sums, and ``*_by_claim`` of each but ``claims``.
    """
    sums = ["claims", "calls", "prompt_tokens", "completion_tokens", "seconds"]
    dollars = pl.when(pl.col("dollars").count() > 0).then(pl.col("dollars").sum()).alias("dollars")
    return (
        calls.group_by("system", "engine")
        .agg(*(pl.col(name).sum() for name in sums), dollars)
        .filter(pl.col("claims") > 0)
        .with_columns(
            (pl.col(name) / pl.col("claims")).alias(f"{name}_by_claim")
            for name in (*sums[1:], "dollars")
        )
        .sort("calls_by_claim", "system", "engine", descending=[True, False, False])
    )


def shares(rows: Sequence[int]) -> list[float]:
    """Each count in percent of their sum; zeros where that is 0."""
    counts = np.asarray(rows, dtype=np.float64)
    whole = counts.sum()
    return [float(one) for one in (100 * counts / whole if whole else counts)]
