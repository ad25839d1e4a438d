"""Scores of given predictions: the metrics of this project over matched examples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from decomposerl.evaluation.intervals import (
    DRAWS,
    Bounds,
    auroc_draws,
    clusters_of,
    generator,
    mean_interval,
    metric_interval,
    safe_interval,
)
from decomposerl.evaluation.matching import Example
from decomposerl.evaluation.metrics import (
    COUNT_METRICS,
    NONE,
    Codes,
    Numbers,
    Unread,
    auroc,
    codes_of,
    outcome_table,
    treated,
)
from decomposerl.evaluation.threshold import Threshold

_NO_BOUNDS = (np.nan, np.nan)
ALL, MEAN = "all", "mean of groups"
_LENIENT = "balanced_accuracy_as_refuted"  # defines itself what a missing verdict counts as
Kind = Literal["total", "group", "mean"]
COLUMNS = pl.Schema(
    {
        "kind": pl.String(),
        "group": pl.String(),
        "metric": pl.String(),
        "score": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "claims": pl.Int64(),
        "supported": pl.Int64(),
        "without_verdict": pl.Int64(),
    }
)
"""Scores are percent, null where the metric is undefined. ``kind`` distinguishes the total, groups
and the mean over groups, whatever a group is called."""


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """Bootstrap settings: ``ranked`` draws for AUROC; with ``draws`` 0 there are no intervals."""

    draws: int = DRAWS
    ranked: int = 1_000
    seed: int = 42


@dataclass(frozen=True, slots=True)
class _Options:
    threshold: Threshold | None
    unread: Unread
    draws: DrawSettings


@dataclass(frozen=True, slots=True)
class _Metric:
    score: float
    bounds: Bounds


def labels_of(examples: Sequence[Example]) -> Codes:
    """Codes of the labels, shape (n,)."""
    return codes_of([example.label for example in examples])


def scores_of(examples: Sequence[Example]) -> Numbers:
    """Scores, shape (n,); NaN where a claim has none."""
    return np.array([example.score for example in examples], dtype=np.float64)


def score_examples(
    examples: Sequence[Example],
    threshold: Threshold | None,
    draws: DrawSettings | None = None,
    unread: Unread = "opposite",
) -> pl.DataFrame:
    """Every metric of the examples as ``COLUMNS``: all claims, each group, the mean of groups.

    With a threshold verdicts come from scores, without one from the predictions themselves.
    ``unread`` is what a claim without a verdict counts as; the column ``without_verdict`` counts
    them, and ``claims`` excludes them only if they are left out. For AUROC a claim without a score
    ranks last of its label if it counts as the opposite, else it is left out.
    """
    chosen = _Options(threshold, unread, draws or DrawSettings())
    rows: list[list[Any]] = []
    total = _metrics(ALL, examples, chosen)
    rows += _rows("total", ALL, total, *_sizes(examples, chosen))
    names = list(dict.fromkeys(example.group for example in examples))
    if len(names) > 1:
        parts = {name: [one for one in examples if one.group == name] for name in names}
        by_group = [_metrics(name, part, chosen) for name, part in parts.items()]
        for (name, part), metrics in zip(parts.items(), by_group, strict=True):
            rows += _rows("group", name, metrics, *_sizes(part, chosen))
        shared = [name for name in total if all(name in metrics for metrics in by_group)]
        means = {name: _mean([metrics[name] for metrics in by_group]) for name in shared}
        rows += _rows("mean", MEAN, means, *_sizes(examples, chosen))
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _metrics(name: str, every: Sequence[Example], chosen: _Options) -> dict[str, _Metric]:
    examples, draws = _counted(every, chosen), chosen.draws
    labels, verdicts = labels_of(examples), _verdicts(examples, chosen.threshold)
    documents = [example.document for example in examples]
    clusters = clusters_of(labels, documents)
    read = treated(labels, verdicts, chosen.unread)
    metrics: dict[str, _Metric] = {}
    for metric, measure in COUNT_METRICS.items():
        codes = verdicts if metric == _LENIENT else read
        bounds = metric_interval(metric, labels, codes, clusters) if draws.draws else _NO_BOUNDS
        metrics[metric] = _Metric(float(measure(outcome_table(labels, codes))), bounds)
    scores = scores_of(examples)
    if chosen.unread == "opposite" and not np.isnan(scores).all():
        scores = np.where(np.isnan(scores), np.where(labels == 0, -np.inf, np.inf), scores)
    known = ~np.isnan(scores)
    if known.any():
        supported = labels[known] == 0
        scored = [document for document, has in zip(documents, known, strict=True) if has]
        clusters = clusters_of(labels[known], scored)
        rng = generator(draws.seed, name)
        ranked = auroc_draws(scores[known], supported, clusters, rng, draws.ranked)
        bounds = safe_interval(ranked, clusters.fewest(supported))
        metrics["auroc"] = _Metric(auroc(scores[known], supported), bounds)
    return metrics


def _verdicts(examples: Sequence[Example], threshold: Threshold | None) -> Codes:
    if threshold is not None:
        return threshold.verdicts(scores_of(examples))
    return codes_of([example.verdict for example in examples])


def _counted(examples: Sequence[Example], chosen: _Options) -> list[Example]:
    """The examples without those that are left out because they have no verdict."""
    if chosen.unread != "leave-out":
        return list(examples)
    has_verdict = _verdicts(examples, chosen.threshold) != NONE
    return [example for example, has in zip(examples, has_verdict, strict=True) if has]


def _sizes(every: Sequence[Example], chosen: _Options) -> tuple[int, int, int]:
    """Number of claims that count, of Supported ones among them, and of claims without verdict."""
    without = int((_verdicts(every, chosen.threshold) == NONE).sum())
    examples = _counted(every, chosen)
    return len(examples), int((labels_of(examples) == 0).sum()), without


def _mean(parts: Sequence[_Metric]) -> _Metric:
    scores = [part.score for part in parts]
    bounds = mean_interval(scores, *zip(*(part.bounds for part in parts), strict=True))
    return _Metric(float(np.mean(scores)), bounds)


def _rows(kind: Kind, name: str, metrics: dict[str, _Metric], *sizes: int) -> Iterator[list[Any]]:
    for metric, value in metrics.items():
        numbers = (value.score, *value.bounds)
        yield [kind, name, metric, *(None if np.isnan(x) else 100 * x for x in numbers), *sizes]
