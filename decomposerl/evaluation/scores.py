"""Scores of one system on one benchmark: every metric with its interval, overall and by slice.

Scores are percent, except ``*_per_claim``. Every labelled claim counts, also without a
verdict. Metrics of confidence are over the claims whose verdict has that confidence (``rows``),
for all claims together only: ``auroc_*`` tells right verdicts from wrong ones by confidence,
``auroc_support`` Supported claims from Refuted ones by support score.
``balanced_accuracy_mean_of_subsets`` is the uniform mean over the benchmark's subsets,
``balanced_accuracy_without_doubtful`` leaves out the claims whose label is doubtful.

Shares of claims have intervals in closed form (``evaluation.intervals``); AUROC, calibration and
counts have bootstrap intervals, or none where there are too few claims.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from decomposerl.evaluation.intervals import (
    DRAWS,
    LEVEL,
    Bounds,
    Clusters,
    auroc_draws,
    clusters_of,
    generator,
    mean_interval,
    metric_interval,
    resampled_sums,
    safe_interval,
    share_interval,
)
from decomposerl.evaluation.metrics import (
    AS_REFUTED,
    BINS,
    Codes,
    Numbers,
    auroc,
    balanced_accuracy,
    bin_numbers,
    brier,
    calibration_error,
    count_metrics,
    outcome_table,
    treated,
)
from decomposerl.evaluation.scored_claims import (
    beyond_context,
    codes_and_clusters,
    scored_claims,
    slices,
    without_dropped,
)
from decomposerl.schemas import LABELS, SCORES
from decomposerl.settings import Settings

CONFIDENCES = {
    "raw": "confidence_raw",
    "normalised": "confidence_normalised",
    "calibrated": "confidence_calibrated",
    "agreement": "agreement",
}
BALANCED = "balanced_accuracy"
WITHOUT_DOUBTFUL = "balanced_accuracy_without_doubtful"
MEAN_OF_SUBSETS = "balanced_accuracy_mean_of_subsets"
_BINNINGS: tuple[Literal["mass", "width"], ...] = ("mass", "width")
_TRACED = pl.col("trace").is_not_null()
_RATIOS: Mapping[str, tuple[pl.Expr, pl.Expr]] = {
    "parse_rate": (pl.col("parse_status") == "parsed", pl.lit(1)),
    "truncation_rate": (pl.col("parse_status") == "truncated", pl.lit(1)),
    "failure_rate": (pl.col("parse_status") == "failed", pl.lit(1)),
    "calls_per_claim": (pl.col("calls"), pl.lit(1)),
    "questions_per_claim": (pl.col("questions") * _TRACED, _TRACED),
    "abstention_rate": (pl.col("abstentions") * _TRACED, pl.col("questions") * _TRACED),
}

BEYOND_RATE = "beyond_context_rate"
_BEYOND = {BEYOND_RATE: (beyond_context().is_not_null(), pl.lit(1))}
_COUNT = "_per_claim"
_MOST_DRAWS = 1_000  # for confidence


class ScoreSettings(Settings):
    """How intervals are computed; those of shares of claims have a closed form."""

    draws: int = Field(DRAWS, description="of the bootstrap; for confidence at most 1,000")
    level: float = Field(LEVEL, description="of the intervals, 0..1")
    seed: int = Field(42, description="of the draws")
    bins: int = Field(BINS, description="of the calibration error")


@dataclass(frozen=True, slots=True)
class _Slice:
    """Claims of a slice, with codes of labels and verdicts and the clusters of shared evidence."""

    frame: pl.DataFrame
    slice: str
    value: str
    labels: Codes
    verdicts: Codes
    clusters: Clusters
    settings: ScoreSettings
    classes: int

    def generator(self, *names: str) -> np.random.Generator:
        """The generator for one metric of this slice, system and benchmark."""
        scope = (self.frame["benchmark"][0], self.frame["system"][0], self.slice, self.value)
        return generator(self.settings.seed, *scope, *names)

    def row(self, metric: str, score: float, bounds: Bounds, rows: NDArray[np.bool_]) -> list[Any]:
        """One row of ``SCORES`` over the claims that the mask ``rows`` picks."""
        times = 1.0 if metric.endswith(_COUNT) else 100.0
        scaled = [None if math.isnan(x) else x * times for x in (score, *bounds)]
        supported = int(((self.labels == 0) & rows).sum())
        return [metric, self.slice, self.value, *scaled, int(rows.sum()), supported]


def score_predictions(
    predictions: pl.DataFrame,
    claims: pl.DataFrame,
    settings: ScoreSettings | None = None,
    doubtful: Collection[str] = (),
    classes: int = len(LABELS),
) -> pl.DataFrame:
    """``SCORES`` of one system's predictions of one benchmark; empty where no claim has a label.

    ``doubtful`` are ids of claims with a doubtful label; where there are some, there is a metric
    over the others. ``classes`` counts the test set's labels: 3 for a three-way one, where means
    are over three and a verdict that was not read is wrong for its label and nobody else's.

    Raises:
        EvaluationError: predictions and claims do not match, predictions are of several systems, or
            a claim has another label.
    """
    frame = scored_claims(predictions, claims)
    if not frame.height:
        return SCORES.empty()
    chosen = settings or ScoreSettings()
    beyond = _ratios(_part(frame, "all", "", chosen, classes), _BEYOND)
    frame = without_dropped(frame)
    if not frame.height:
        return SCORES.empty()
    part = _part(frame, "all", "", chosen, classes)
    lines = [*_counted(part), *_subset_mean(part), *_without(part, doubtful)]
    lines += [*_ratios(part), *beyond, *_confidences(part)]
    for name, value, rows in slices(frame):
        sliced = _part(rows, name, value, part.settings, classes)
        lines += [*_counted(sliced), *_ratios(sliced)]
    head = [frame["benchmark"][0], frame["system"][0], frame["engine"][0]]
    whole = pl.DataFrame([head + line for line in lines], SCORES.schema, orient="row")
    return SCORES.conform(whole)


def _part(
    frame: pl.DataFrame, name: str, value: str, settings: ScoreSettings, classes: int
) -> _Slice:
    return _Slice(frame, name, value, *codes_and_clusters(frame, classes), settings, classes)


def _counted(part: _Slice) -> Iterator[list[Any]]:
    for name, metric in count_metrics(part.classes).items():
        table = outcome_table(part.labels, _read(part, name), part.classes)
        yield part.row(name, float(metric(table)), _bounds(part, name), part.labels >= 0)


def _bounds(part: _Slice, metric: str) -> Bounds:
    level = part.settings.level
    read = _read(part, metric)
    return metric_interval(metric, part.labels, read, part.clusters, level, part.classes)


def _read(part: _Slice, metric: str) -> Codes:
    """The verdicts as a metric reads them: a missing one counts as wrong."""
    if metric == AS_REFUTED or part.classes > len(LABELS):
        return part.verdicts
    return treated(part.labels, part.verdicts, "opposite")


def _subset_mean(part: _Slice) -> Iterator[list[Any]]:
    """The mean over the benchmark's subsets; claims without a subset are not in it."""
    parts = [
        _part(rows, name, value, part.settings, part.classes)
        for name, value, rows in slices(part.frame)
        if name == "subset"
    ]
    if parts:
        tables = [outcome_table(one.labels, one.verdicts, one.classes) for one in parts]
        scores = [float(balanced_accuracy(table)) for table in tables]
        lows, highs = zip(*(_bounds(one, BALANCED) for one in parts), strict=True)
        bounds = mean_interval(scores, lows, highs)
        in_a_subset = part.frame["subset"].is_not_null().to_numpy()
        yield part.row(MEAN_OF_SUBSETS, float(np.mean(scores)), bounds, in_a_subset)


def _without(part: _Slice, doubtful: Collection[str]) -> Iterator[list[Any]]:
    """Balanced accuracy over the claims whose label is not doubtful."""
    rows = part.frame.filter(~pl.col("claim_id").is_in(list(doubtful)))
    if 0 < rows.height < part.frame.height:
        kept = _part(rows, "all", "", part.settings, part.classes)
        table = outcome_table(kept.labels, _read(kept, BALANCED), kept.classes)
        score = float(balanced_accuracy(table))
        yield kept.row(WITHOUT_DOUBTFUL, score, _bounds(kept, BALANCED), kept.labels >= 0)


def _ratios(
    part: _Slice, ratios: Mapping[str, tuple[pl.Expr, pl.Expr]] = _RATIOS
) -> Iterator[list[Any]]:
    for name, (above, below) in ratios.items():
        columns = part.frame.select(above=above.cast(pl.Int64), below=below.cast(pl.Int64))
        numbers = columns.to_numpy()
        if numbers[:, 1].any():
            hits, of = numbers.T
            bounds = (_count_bounds if name.endswith(_COUNT) else _share_bounds)(
                part, name, numbers
            )
            yield part.row(name, float(hits.sum() / of.sum()), bounds, of > 0)


def _share_bounds(part: _Slice, _: str, numbers: NDArray[np.int64]) -> Bounds:
    return share_interval(numbers[:, 0], numbers[:, 1], part.clusters, part.settings.level)


def _count_bounds(part: _Slice, name: str, numbers: NDArray[np.int64]) -> Bounds:
    sums = resampled_sums(numbers, part.clusters, part.generator(name), part.settings.draws)
    with np.errstate(invalid="ignore"):
        draws = sums[:, 0] / sums[:, 1]
    return safe_interval(draws, part.clusters.count, part.settings.level)


def _confidences(part: _Slice) -> Iterator[list[Any]]:
    yield from _ranking(part, "auroc_support", "support_score", part.labels == 0)
    right = part.verdicts == part.labels
    for kind, column in CONFIDENCES.items():
        yield from _ranking(part, f"auroc_{kind}", column, right)
        yield from _calibrated(part, kind, column, right)


def _ranking(
    part: _Slice, metric: str, column: str, positive: NDArray[np.bool_]
) -> Iterator[list[Any]]:
    rows = _with_confidence(part, column)
    if rows.any():
        scores, sides = part.frame[column].to_numpy()[rows], positive[rows]
        clusters = _of_rows(part, rows)
        rng = part.generator(metric)
        draws = auroc_draws(scores, sides, clusters, rng, min(part.settings.draws, _MOST_DRAWS))
        bounds = safe_interval(draws, clusters.fewest(sides), part.settings.level)
        yield part.row(metric, auroc(scores, sides), bounds, rows)


def _calibrated(
    part: _Slice, kind: str, column: str, right: NDArray[np.bool_]
) -> Iterator[list[Any]]:
    """Brier score and both calibration errors."""
    rows = _with_confidence(part, column)
    if not rows.any():
        return
    chances, happened, bins = part.frame[column].to_numpy()[rows], right[rows], part.settings.bins
    # Draws keep the bins of all claims: binning each draw would cost a sort per draw.
    gaps = [_gaps(chances - happened, bin_numbers(chances, by, bins), bins) for by in _BINNINGS]
    columns = np.hstack([*gaps, ((chances - happened) ** 2)[:, None], np.ones((len(chances), 1))])
    rng, count = part.generator("calibration", kind), min(part.settings.draws, _MOST_DRAWS)
    clusters = _of_rows(part, rows)
    sums = resampled_sums(columns, clusters, rng, count)
    drawn = sums[:, :-1] / sums[:, -1:]
    units, level = clusters.count, part.settings.level
    for index, by in enumerate(_BINNINGS):
        error = calibration_error(chances, happened, by, bins)
        draws = np.abs(drawn[:, index * bins : (index + 1) * bins]).sum(axis=1)
        yield part.row(f"ece_{by}_{kind}", error, safe_interval(draws, units, level), rows)
    bounds = safe_interval(drawn[:, -1], units, level)
    yield part.row(f"brier_{kind}", brier(chances, happened), bounds, rows)


def _with_confidence(part: _Slice, column: str) -> NDArray[np.bool_]:
    """Mask of the claims with a number in ``column``; a confidence also needs a verdict."""
    known = pl.col(column).is_not_null()
    if column != "support_score":
        known &= pl.col("verdict").is_not_null()
    return part.frame.select(known).to_series().to_numpy()


def _of_rows(part: _Slice, rows: NDArray[np.bool_]) -> Clusters:
    documents = part.frame["document"].to_numpy()[rows]
    return clusters_of(part.labels[rows], documents.tolist())


def _gaps(gaps: Numbers, bins: Codes, count: int) -> Numbers:
    """Each row's gap in the column of its bin, shape (n, count)."""
    columns = np.zeros((len(gaps), count))
    columns[np.arange(len(gaps)), bins] = gaps
    return columns
