"""Scores of one system on one benchmark: every metric with its interval, overall and by slice.

Scores are percent, except ``*_per_claim``. Every labelled claim counts, also without a
verdict. Metrics of confidence are over the claims whose verdict has that confidence (``rows``),
for all claims together only: ``auroc_*`` tells right verdicts from wrong ones by confidence,
``auroc_support`` Supported claims from Refuted ones by support score.
``balanced_accuracy_mean_of_subsets`` is the uniform mean over the benchmark's subsets,
``balanced_accuracy_without_doubtful`` leaves out the claims whose label is doubtful.
``silent_rate`` is the share of silent verdicts among those with a basis (``traces.basis``).

Shares of claims have intervals in closed form (``evaluation.intervals``); AUROC, calibration and
counts have bootstrap intervals, or none where there are too few claims.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from decomposerl.claims.doubtful import WITHOUT
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.intervals import (
    DRAWS,
    LEVEL,
    Bounds,
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
    Numbers,
    auroc,
    bin_numbers,
    brier,
    calibration_error,
    codes_of,
    count_metrics,
    outcome_table,
    treated,
)
from decomposerl.evaluation.scored_claims import (
    beyond_context,
    scored_claims,
    slices,
    without_dropped,
)
from decomposerl.schemas import BASES, LABELS, SCORES, VERDICTS
from decomposerl.settings import Settings

CONFIDENCES = {
    "raw": "confidence_raw",
    "normalised": "confidence_normalised",
    "calibrated": "confidence_calibrated",
}
BALANCED = "balanced_accuracy"
MEAN_OF_SUBSETS = "balanced_accuracy_mean_of_subsets"
BEYOND_RATE = "beyond_context_rate"
BY_BASIS = "accuracy_"
"""Before the name of a basis: the accuracy of the verdicts that rest on it."""
_BINNINGS: tuple[Literal["mass", "width"], ...] = ("mass", "width")
_COUNT = "_per_claim"
_MOST_DRAWS = 1_000  # for confidence
_EACH, _TRACED = pl.lit(1), pl.col("trace").is_not_null()
_BASIS = pl.when(pl.col("verdict").is_not_null()).then("basis")
_HAS: Mapping[str, pl.Expr] = {basis: _BASIS.eq_missing(pl.lit(basis)) for basis in BASES}
_RIGHT = pl.col("verdict").eq_missing(pl.col("label"))
_RATIOS: Mapping[str, tuple[pl.Expr, pl.Expr]] = {
    "parse_rate": (pl.col("parse_status") == "parsed", _EACH),
    "truncation_rate": (pl.col("parse_status") == "truncated", _EACH),
    "failure_rate": (pl.col("parse_status") == "failed", _EACH),
    "calls_per_claim": (pl.col("calls"), _EACH),
    "questions_per_claim": (pl.col("questions") * _TRACED, _TRACED),
    "abstention_rate": (pl.col("abstentions") * _TRACED, pl.col("questions") * _TRACED),
    "silent_rate": (_HAS["silent"], _BASIS.is_not_null()),
    **{f"{BY_BASIS}{basis}": (has & _RIGHT, has) for basis, has in _HAS.items()},
}
_BEYOND = {BEYOND_RATE: (beyond_context().is_not_null(), _EACH)}


class ScoreSettings(Settings):
    """How intervals are computed; those of shares of claims have a closed form."""

    draws: int = Field(DRAWS, description="of the bootstrap; for confidence at most 1,000")
    level: float = Field(LEVEL, description="of the intervals, 0..1")
    seed: int = Field(42, description="of the draws")
    bins: int = Field(BINS, description="of the calibration error")


_Line = list[Any]


class _Slice:
    """Some of ``scored_claims``, under the name and value of their slice in ``SCORES``.

    With codes of labels and verdicts and the clusters of shared evidence.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        settings: ScoreSettings,
        classes: int,
        name: str = "all",
        value: str = "",
    ) -> None:
        self.frame, self.settings, self.classes = frame, settings, classes
        self.name, self.value = name, value
        self.labels = codes_of(frame["label"].to_list(), classes)
        self.verdicts = codes_of(frame["verdict"].to_list(), classes)
        self.clusters = clusters_of(self.labels, frame["document"].to_list())

    def part(self, frame: pl.DataFrame, name: str = "all", value: str = "") -> Self:
        """A part of these claims."""
        return type(self)(frame, self.settings, self.classes, name, value)

    def generator(self, *names: str) -> np.random.Generator:
        """The generator for one metric of this slice, system and benchmark."""
        scope = (self.frame["benchmark"][0], self.frame["system"][0], self.name, self.value)
        return generator(self.settings.seed, *scope, *names)

    def row(
        self, metric: str, score: float, bounds: Bounds, rows: NDArray[np.bool_] | None = None
    ) -> _Line:
        """One row of ``SCORES`` over all claims, or those that the mask ``rows`` picks."""
        times = 1.0 if metric.endswith(_COUNT) else 100.0
        scaled = [None if math.isnan(x) else x * times for x in (score, *bounds)]
        counted = self.labels if rows is None else self.labels[rows]
        return [metric, self.name, self.value, *scaled, len(counted), int((counted == 0).sum())]

    def measured(self, metric: str) -> tuple[float, Bounds]:
        """A metric of verdicts with its interval; a missing verdict counts as wrong."""
        verdicts = self.verdicts
        if metric != AS_REFUTED and self.classes == len(LABELS):
            verdicts = treated(self.labels, verdicts, "opposite")
        table = outcome_table(self.labels, verdicts, self.classes)
        sides = self.labels, verdicts, self.clusters
        bounds = metric_interval(metric, *sides, self.settings.level, self.classes)
        return float(count_metrics(self.classes)[metric](table)), bounds

    def counted(self) -> Iterator[_Line]:
        """Every metric of verdicts."""
        for name in count_metrics(self.classes):
            yield self.row(name, *self.measured(name))

    def ratios(self, ratios: Mapping[str, tuple[pl.Expr, pl.Expr]]) -> Iterator[_Line]:
        """Rates and counts a claim, where a claim is in them."""
        for name, (above, below) in ratios.items():
            columns = self.frame.select(above=above.cast(pl.Int64), below=below.cast(pl.Int64))
            numbers = columns.to_numpy()
            hits, of = numbers.T
            if not of.any():
                continue
            if name.endswith(_COUNT):
                rng, count = self.generator(name), self.settings.draws
                drawn = resampled_sums(numbers, self.clusters, rng, count)
                with np.errstate(invalid="ignore"):
                    draws = drawn[:, 0] / drawn[:, 1]
                bounds = safe_interval(draws, self.clusters.count, self.settings.level)
            else:
                bounds = share_interval(hits, of, self.clusters, self.settings.level)
            yield self.row(name, float(hits.sum() / of.sum()), bounds, of > 0)

    def ranking(self, metric: str, column: str, positive: NDArray[np.bool_]) -> _Line:
        """How well a column ranks the ``positive`` claims above the others."""
        scores, rng = self.frame[column].to_numpy(), self.generator(metric)
        count = min(self.settings.draws, _MOST_DRAWS)
        draws = auroc_draws(scores, positive, self.clusters, rng, count)
        bounds = safe_interval(draws, self.clusters.fewest(positive), self.settings.level)
        return self.row(metric, auroc(scores, positive), bounds)

    def calibrated(
        self, kind: str, chances: Numbers, happened: NDArray[np.bool_]
    ) -> Iterator[_Line]:
        """Brier score and both calibration errors."""
        bins, units, level = self.settings.bins, self.clusters.count, self.settings.level
        # Draws keep the bins of all claims: binning each draw would cost a sort per draw.
        numbers = [bin_numbers(chances, by, bins) for by in _BINNINGS]
        gaps = [(chances - happened)[:, None] * (of[:, None] == range(bins)) for of in numbers]
        columns = np.hstack(
            [*gaps, ((chances - happened) ** 2)[:, None], np.ones((len(chances), 1))]
        )
        rng, count = self.generator("calibration", kind), min(self.settings.draws, _MOST_DRAWS)
        sums = resampled_sums(columns, self.clusters, rng, count)
        drawn = sums[:, :-1] / sums[:, -1:]
        for index, by in enumerate(_BINNINGS):
            error = calibration_error(chances, happened, by, bins)
            draws = np.abs(drawn[:, index * bins : (index + 1) * bins]).sum(axis=1)
            yield self.row(f"ece_{by}_{kind}", error, safe_interval(draws, units, level))
        bounds = safe_interval(drawn[:, -1], units, level)
        yield self.row(f"brier_{kind}", brier(chances, happened), bounds)


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
    if beyond := frame.height - frame["label"].is_in(VERDICTS[:classes]).sum():
        known = ", ".join(VERDICTS[:classes])
        raise EvaluationError(
            f"{beyond:,} claims have a label that this test set does not have: it has {known}"
        )
    counted = without_dropped(frame)
    if not counted.height:
        return SCORES.empty()
    with_dropped = _Slice(frame, settings or ScoreSettings(), classes)
    whole = with_dropped.part(counted)
    parts = [whole.part(rows, name, value) for name, value, rows in slices(counted)]
    lines = [*whole.counted()]
    if subsets := [part.measured(BALANCED) for part in parts if part.name == "subset"]:
        scores, bounds = zip(*subsets, strict=True)
        mean = float(np.mean(scores)), mean_interval(scores, *zip(*bounds, strict=True))
        lines.append(whole.row(MEAN_OF_SUBSETS, *mean, counted["subset"].is_not_null().to_numpy()))
    sure = counted.filter(~pl.col("claim_id").is_in(list(doubtful)))
    if 0 < sure.height < counted.height:
        kept = whole.part(sure)
        lines.append(kept.row(f"{BALANCED}{WITHOUT}", *kept.measured(BALANCED)))
    lines += [*whole.ratios(_RATIOS), *with_dropped.ratios(_BEYOND), *_confidences(whole)]
    for part in parts:
        lines += [*part.counted(), *part.ratios(_RATIOS)]
    head = [frame["benchmark"][0], frame["system"][0], frame["engine"][0]]
    table = pl.DataFrame([head + line for line in lines], SCORES.schema, orient="row")
    return SCORES.conform(table)


def _confidences(whole: _Slice) -> Iterator[_Line]:
    """Each metric over the claims that have the number; a confidence also needs a verdict."""
    known = whole.frame.drop_nulls("support_score")
    if known.height:
        part = whole.part(known)
        yield part.ranking("auroc_support", "support_score", part.labels == 0)
    for kind, column in CONFIDENCES.items():
        known = whole.frame.drop_nulls([column, "verdict"])
        if known.height:
            part = whole.part(known)
            right = part.verdicts == part.labels
            yield part.ranking(f"auroc_{kind}", column, right)
            yield from part.calibrated(kind, known[column].to_numpy(), right)
