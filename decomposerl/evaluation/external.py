"""Scores of given predictions: this project's metrics over the claims of any project's files."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, get_args

import numpy as np
import polars as pl

from decomposerl.claims.claim import Record
from decomposerl.claims.column_guess import says_polarity
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import Spellings, finite_number
from decomposerl.evaluation.intervals import (
    auroc_draws,
    clusters_of,
    generator,
    mean_interval,
    metric_interval,
    safe_interval,
)
from decomposerl.evaluation.matching import (
    TWO_WAY,
    Claim,
    Declared,
    match_predictions,
    meanings,
)
from decomposerl.evaluation.metrics import (
    AS_REFUTED,
    COUNT_METRICS,
    Unread,
    auroc,
    class_name,
    count_metrics,
    outcome_table,
    treated,
)
from decomposerl.evaluation.threshold import (
    Candidates,
    Threshold,
    ThresholdMetric,
    choose_threshold,
)

ALL, MEAN = "all", "mean of groups"
RANKED_DRAWS = 1_000  # of AUROC: each costs a pass over the claims
_USUAL, _PERCENT, _MOST_SHOWN, _SEED = 0.5, 100, 5, 42
Measure = tuple[float, float, float]
"""A score with its bounds, 0..1 or NaN."""
Rows = Sequence[Record]
_METRICS: Mapping[str, ThresholdMetric] = {name: name for name in get_args(ThresholdMetric)}
_KINDS: Mapping[str, Candidates] = {
    "": "midpoints",
    **{kind: kind for kind in get_args(Candidates)},
}
_TEXT, _NUMBER, _COUNT = pl.String(), pl.Float64(), pl.Int64()
CLAIMS = pl.Schema(
    {"label": _COUNT, "verdict": _COUNT, "score": _NUMBER, "group": _TEXT, "document": _TEXT}
)
"""A row per claim. Labels and verdicts are numbers of classes, no verdict is one more; a score is
NaN where there is none, and a claim without a document shares its evidence with none."""
COLUMNS = pl.Schema(
    {"kind": _TEXT, "group": _TEXT, "metric": _TEXT}
    | {"score": _NUMBER, "low": _NUMBER, "high": _NUMBER}
    | {"claims": _COUNT, "supported": _COUNT, "without_verdict": _COUNT}
)
"""Scores are percent, null where the metric is undefined. ``kind`` distinguishes the total, groups
and the mean over groups, whatever a group is called; ``supported`` is null for other classes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How scores become verdicts: above a number, or above the best one of other claims."""

    value: float | None = None
    by: ThresholdMetric | None = None
    candidates: Candidates = "midpoints"
    inclusive: bool = False

    @classmethod
    def of(cls, text: str) -> Self:
        """``0.5``, ``f1`` or ``balanced_accuracy`` (of ``f1:hundredths``), also behind ``>=``.

        Raises:
            EvaluationError: it is none of them.
        """
        word, _, kind = text.removeprefix(">=").strip().partition(":")
        inclusive, by, candidates = text.startswith(">="), _METRICS.get(word), _KINDS.get(kind)
        value = None if kind else finite_number(word)
        if value is None and (by is None or candidates is None):
            raise EvaluationError(
                f"--threshold is '{text}': neither a finite number nor f1 or balanced_accuracy"
            )
        return cls(value, by, candidates or "midpoints", inclusive)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Every metric as ``COLUMNS``, the threshold, and what was left out or not read.

    ``classes`` are the claims of each label where there are more than Supported and Refuted,
    ``unread`` the predictions that are no label.
    """

    frame: pl.DataFrame
    classes: Mapping[str, int]
    threshold: Threshold | None
    chosen: str
    left_out: Mapping[str, int]
    unread: Mapping[str, int]

    def notes(self) -> Iterator[str]:
        """What a reader of the scores has to know, line by line."""
        if self.threshold is not None:
            sign = ">=" if self.threshold.inclusive else ">"
            yield f"supported is a score {sign} {self.threshold.value!r}{self.chosen}"
        yield from (f"{count:,} {what}" for what, count in self.left_out.items())
        if self.unread:
            words = [f"'{word}' ({count:,})" for word, count in self.unread.items()]
            more = ", …" if len(words) > _MOST_SHOWN else ""
            yield f"predictions that were not read: {', '.join(words[:_MOST_SHOWN])}{more}"


def measure(
    files: tuple[Rows, Rows],
    columns: Declared,
    given: Spellings | None = None,
    cut: Cut | None = None,
    dev: tuple[Rows, Rows] | None = None,
    unread: Unread = "opposite",
) -> Measurement:
    """Score predictions against labels; ``dev`` are those that choose a threshold.

    Raises:
        EvaluationError: options contradict each other, rows do not match, or a word's or score's
            meaning is not said.
    """
    _check(columns, given, unread)
    if columns.verdict and cut is not None:
        raise EvaluationError("a threshold needs --score; --verdict already has verdicts")
    if (dev is None) != (cut is None or cut.by is None):
        raise EvaluationError("--dev chooses --threshold f1 or balanced_accuracy: give both")
    claims, left_out = match_predictions(*files, columns)
    names, frame = _frame(claims, columns, given)
    threshold, chosen = None, ""
    if dev is not None and cut is not None and cut.by is not None:
        # Conditions on the label are of the dev files, too; others tell the claims to score.
        own = (
            word for word in columns.where if re.match(rf"{re.escape(columns.label)}\s*!?=", word)
        )
        others, dev_left_out = match_predictions(*dev, replace(columns, where=tuple(own)))
        rows = _frame(others, columns, given)[1]
        scores, labels = rows["score"].to_numpy(), rows["label"].to_numpy()
        threshold, value = choose_threshold(
            scores, labels, cut.by, cut.candidates, inclusive=cut.inclusive
        )
        measured = f"{cut.by.replace('_', ' ').replace('f1', 'F1')} is {value:.2%}"
        chosen = f", chosen on {len(others):,} others where {measured}"
        left_out |= {f"{what} (dev files)": count for what, count in dev_left_out.items()}
    elif not columns.verdict:
        threshold = _given_threshold(frame["score"], columns.score, cut)
    if threshold is not None:
        frame = frame.with_columns(verdict=threshold.verdicts(frame["score"].to_numpy()))
    none = zip(claims, frame["verdict"] == len(names), strict=True)
    unread_words = Counter(claim.verdict or "nothing" for claim, is_none in none if is_none)
    return Measurement(
        score_claims(frame, names, unread),
        {} if names == TWO_WAY else dict(Counter(claim.label for claim in claims)),
        threshold,
        chosen,
        left_out,
        unread_words if columns.verdict else {},
    )


def _check(columns: Declared, given: Spellings | None, unread: Unread) -> None:
    """Refuse options that contradict each other, and a score whose direction is not said."""
    if not columns.verdict and not columns.score:
        raise EvaluationError("name the column of the prediction: --verdict or --score")
    if unread == "leave-out" and columns.missing == "wrong":
        raise EvaluationError(
            "--missing wrong counts the claims that --unread leave-out skips: use --missing skip"
        )
    name = columns.score
    if name and not given and not columns.complement and not says_polarity(name, ()):
        raise EvaluationError(
            f"{name} names something bad, and scores must be higher for supported; choose one of\n"
            f"--score 1-{name}\n--score {name} --supported supported --refuted refuted"
        )


def _given_threshold(scores: pl.Series, name: str, cut: Cut | None) -> Threshold:
    """The given threshold, else the usual one, which only halves scores of 0 to 1."""
    if cut is not None and cut.value is not None:
        return Threshold(cut.value, cut.inclusive)
    known = scores.drop_nans()
    low, high = float(known.min() or 0.0), float(known.max() or 0.0)  # type: ignore[arg-type]
    if low < 0 or high > 1:
        middle = 0 if low < 0 else 50 if high <= _PERCENT else (low + high) / 2
        raise EvaluationError(
            f"{name} is from {low:g} to {high:g}, and not from 0 to 1: say from which score on a "
            f"claim is supported, such as\n--threshold {middle:g}"
        )
    return Threshold(_USUAL)


def _frame(
    claims: Sequence[Claim], columns: Declared, given: Spellings | None
) -> tuple[tuple[str, ...], pl.DataFrame]:
    """The classes, and the claims as ``CLAIMS``.

    Raises:
        EvaluationError: as ``meanings``, or no prediction can be read.
    """
    names, labels, verdicts = meanings(claims, columns, given)
    scores, none = [claim.score for claim in claims], len(names)
    if all(verdict == none for verdict in verdicts) if columns.verdict else np.isnan(scores).all():
        name = columns.verdict or columns.score
        raise EvaluationError(f"no prediction has a value in {name} that could be read")
    rest = [[claim.group for claim in claims], [claim.document for claim in claims]]
    return names, pl.DataFrame([labels, verdicts, scores, *rest], CLAIMS)


def score_claims(
    claims: pl.DataFrame,
    names: tuple[str, ...] = TWO_WAY,
    unread: Unread = "opposite",
    draws: int = RANKED_DRAWS,
) -> pl.DataFrame:
    """Every metric of ``CLAIMS`` as ``COLUMNS``: all claims, each group, the mean of groups.

    ``unread`` is what a claim without a verdict counts as; the column ``without_verdict`` counts
    them, and ``claims`` excludes them only if they are left out. For AUROC a claim without a score
    ranks last of its label if it counts as the opposite, else it is left out. ``draws`` are those
    of AUROC. Of more than two classes there are accuracy, macro-F1 and recalls.
    """
    total, sizes = _metrics(ALL, claims, names, unread, draws)
    rows = _rows("total", ALL, total, sizes)
    parts = claims.partition_by("group", maintain_order=True)
    if len(parts) > 1:
        groups = [(part["group"][0], part) for part in parts]
        measured = [_metrics(name, part, names, unread, draws) for name, part in groups]
        for (name, _), (metrics, own) in zip(groups, measured, strict=True):
            rows += _rows("group", name, metrics, own)
        every = [metrics for metrics, _ in measured]
        shared = [name for name in total if all(name in metrics for metrics in every)]
        rows += _rows(
            "mean", MEAN, {name: _mean([m[name] for m in every]) for name in shared}, sizes
        )
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _metrics(
    group: str, every: pl.DataFrame, names: tuple[str, ...], unread: Unread, draws: int
) -> tuple[dict[str, Measure], list[int | None]]:
    """Each metric with its interval; the numbers of claims, of supported ones, without verdict."""
    classes, two_way = len(names), names == TWO_WAY
    read = every["verdict"] != classes
    claims = every.filter(read) if unread == "leave-out" else every
    labels, verdicts = claims["label"].to_numpy(), claims["verdict"].to_numpy()
    documents = claims["document"].to_list()
    clusters = clusters_of(labels, documents)
    counted = treated(labels, verdicts, unread) if two_way else verdicts
    recalls = {f"recall_{name}": f"recall_{class_name(n)}" for n, name in enumerate(names)}
    several = {"accuracy": "accuracy", "macro_f1": "macro_f1"} | recalls
    metrics: dict[str, Measure] = {}
    for shown, metric in ({name: name for name in COUNT_METRICS} if two_way else several).items():
        # The lenient reading defines itself what a missing verdict counts as.
        codes = verdicts if metric == AS_REFUTED else counted
        score = count_metrics(classes)[metric](outcome_table(labels, codes, classes))
        bounds = metric_interval(metric, labels, codes, clusters, classes=classes)
        metrics[shown.replace(" ", "_")] = float(score), *bounds
    scores = claims["score"].to_numpy()
    if unread == "opposite" and not np.isnan(scores).all():
        scores = np.where(np.isnan(scores), np.where(labels == 0, -np.inf, np.inf), scores)
    known = ~np.isnan(scores)
    if two_way and known.any():
        supported = labels[known] == 0
        own = [document for document, has in zip(documents, known, strict=True) if has]
        clusters = clusters_of(labels[known], own)
        ranked = auroc_draws(scores[known], supported, clusters, generator(_SEED, group), draws)
        bounds = safe_interval(ranked, clusters.fewest(supported))
        metrics["auroc"] = auroc(scores[known], supported), *bounds
    supported_claims = int((labels == 0).sum()) if two_way else None
    return metrics, [len(labels), supported_claims, int((~read).sum())]


def _mean(parts: Sequence[Measure]) -> Measure:
    scores, lows, highs = zip(*parts, strict=True)
    return float(np.mean(scores)), *mean_interval(scores, lows, highs)


def _rows(
    kind: str, group: str, metrics: Mapping[str, Measure], sizes: Sequence[int | None]
) -> list[list[object]]:
    return [
        [
            kind,
            group,
            name,
            *(None if np.isnan(value) else 100 * value for value in measure),
            *sizes,
        ]
        for name, measure in metrics.items()
    ]
