"""Scores of anybody's predictions: the metrics of this project over matched examples.

Takes examples of ``evaluation.matching``, gives one row a group and metric, with the intervals of
``evaluation.scores``: all claims first, then each group (a part of a benchmark, say), then the
uniform mean over groups, which is how benchmarks of several parts are mostly reported.

Left out deliberately: files and options (``dagster_project.metrics_run``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from decomposerl.evaluation.bootstrap import (
    DRAWS,
    auroc_draws,
    clusters_of,
    generator,
    safe_interval,
)
from decomposerl.evaluation.intervals import Bounds, mean_interval, metric_interval
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
_LENIENT = "balanced_accuracy_as_refuted"  # says itself what a missing verdict is
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
"""Scores are percent; null where the metric is not defined.

``kind`` tells the total, a group and the mean over groups apart, whatever a group is called.
"""


@dataclass(frozen=True, slots=True)
class DrawSettings:
    """How intervals are taken: ``ranked`` draws for AUROC; no interval where ``draws`` is 0."""

    draws: int = DRAWS
    ranked: int = 1_000
    seed: int = 42


@dataclass(frozen=True, slots=True)
class _Chosen:
    threshold: Threshold | None
    unread: Unread
    draws: DrawSettings


@dataclass(frozen=True, slots=True)
class _Figure:
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
    """Every metric of the examples, by ``COLUMNS``.

    With a threshold verdicts come from scores, without one from the predictions themselves.
    ``unread`` says what a claim without a verdict counts as; ``without_verdict`` counts them in
    any case, ``claims`` all others only where they are left out. A claim without a score ranks
    last of its label for AUROC where it counts as the opposite, else it has no rank.
    """
    chosen = _Chosen(threshold, unread, draws or DrawSettings())
    rows: list[list[object]] = []
    whole = _figures(ALL, examples, chosen)
    rows += _rows("total", ALL, whole, *_sizes(examples, chosen))
    names = list(dict.fromkeys(example.group for example in examples))
    if len(names) > 1:
        parts = {name: [one for one in examples if one.group == name] for name in names}
        found = [_figures(name, part, chosen) for name, part in parts.items()]
        for (name, part), figures in zip(parts.items(), found, strict=True):
            rows += _rows("group", name, figures, *_sizes(part, chosen))
        shared = [name for name in whole if all(name in figures for figures in found)]
        means = {name: _mean([figures[name] for figures in found]) for name in shared}
        rows += _rows("mean", MEAN, means, *_sizes(examples, chosen))
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _figures(name: str, every: Sequence[Example], chosen: _Chosen) -> dict[str, _Figure]:
    examples, draws = _counted(every, chosen), chosen.draws
    labels, verdicts = labels_of(examples), _verdicts(examples, chosen.threshold)
    documents = [example.document for example in examples]
    clusters = clusters_of(labels, documents)
    read = treated(labels, verdicts, chosen.unread)
    found: dict[str, _Figure] = {}
    for metric, measure in COUNT_METRICS.items():
        codes = verdicts if metric == _LENIENT else read
        bounds = metric_interval(metric, labels, codes, clusters) if draws.draws else _NO_BOUNDS
        found[metric] = _Figure(float(measure(outcome_table(labels, codes))), bounds)
    scores = scores_of(examples)
    if chosen.unread == "opposite" and not np.isnan(scores).all():
        scores = np.where(np.isnan(scores), np.where(labels == 0, -np.inf, np.inf), scores)
    there = ~np.isnan(scores)
    if there.any():
        supported = labels[there] == 0
        held = clusters_of(
            labels[there], [d for d, has in zip(documents, there, strict=True) if has]
        )
        rng = generator(draws.seed, name)
        ranked = auroc_draws(scores[there], supported, held, rng, draws.ranked)
        bounds = safe_interval(ranked, held.fewest(supported))
        found["auroc"] = _Figure(auroc(scores[there], supported), bounds)
    return found


def _verdicts(examples: Sequence[Example], threshold: Threshold | None) -> Codes:
    if threshold is not None:
        return threshold.verdicts(scores_of(examples))
    return codes_of([example.verdict for example in examples])


def _counted(examples: Sequence[Example], chosen: _Chosen) -> list[Example]:
    """The examples without those that are left out for want of a verdict."""
    if chosen.unread != "leave-out":
        return list(examples)
    there = _verdicts(examples, chosen.threshold) != NONE
    return [example for example, has in zip(examples, there, strict=True) if has]


def _sizes(every: Sequence[Example], chosen: _Chosen) -> tuple[int, int, int]:
    """Claims that count, those labelled Supported, and all that have no verdict."""
    without = int((_verdicts(every, chosen.threshold) == NONE).sum())
    examples = _counted(every, chosen)
    return len(examples), int((labels_of(examples) == 0).sum()), without


def _mean(parts: Sequence[_Figure]) -> _Figure:
    scores = [part.score for part in parts]
    bounds = mean_interval(scores, *zip(*(part.bounds for part in parts), strict=True))
    return _Figure(float(np.mean(scores)), bounds)


def _rows(
    kind: Kind, name: str, figures: dict[str, _Figure], *sizes: int
) -> Iterator[list[object]]:
    for metric, figure in figures.items():
        numbers = (figure.score, *figure.bounds)
        yield [kind, name, metric, *(None if np.isnan(x) else 100 * x for x in numbers), *sizes]
