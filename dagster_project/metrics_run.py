"""``decomposerl metrics``: score any predictions against labels.

Takes two files and the meaning of their fields, gives every metric with its interval. Two dev files
may serve to choose the threshold.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import Spellings, format_errors
from decomposerl.evaluation.conditions import EVERY_ROW, Conditions
from decomposerl.evaluation.external import DrawSettings, labels_of, score_examples, scores_of
from decomposerl.evaluation.matching import (
    Example,
    FieldNames,
    Matched,
    MatchingRules,
    match_predictions,
)
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.threshold import (
    Candidates,
    Threshold,
    ThresholdMetric,
    choose_threshold,
)

if TYPE_CHECKING:
    import polars as pl

USUAL_THRESHOLD = 0.5
_RANKED_DRAWS = 1_000  # of AUROC: each costs a pass over the claims
__all__ = [  # what metrics_command uses
    "Choosing",
    "Conditions",
    "FieldNames",
    "MatchingRules",
    "MetricsRun",
    "ResultFiles",
    "Spellings",
    "metrics_of",
]


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Predictions and labels; ``within`` is the key of a JSON object whose value is the rows."""

    predictions: Path
    labels: Path
    within: str = ""


@dataclass(frozen=True, slots=True)
class Choosing:
    """How scores become verdicts: by a given threshold, or by the best one on a dev set."""

    threshold: float | None = None
    inclusive: bool = False
    dev: ResultFiles | None = None
    by: ThresholdMetric | None = None
    candidates: Candidates | None = None


@dataclass(frozen=True, slots=True)
class MetricsRun:
    """The result of one run of the command."""

    frame: "pl.DataFrame"
    threshold: Threshold | None
    chosen: str
    left_out: tuple[tuple[str, int], ...]
    unread: Unread = "opposite"

    def notes(self) -> Iterator[str]:
        """The notes below the table, line by line."""
        if self.threshold is not None:
            sign = ">=" if self.threshold.inclusive else ">"
            yield f"supported is a score {sign} {self.threshold.value!r}{self.chosen}"
        yield from (f"{count:,} {what}" for what, count in self.left_out)


def metrics_of(
    files: ResultFiles,
    columns: FieldNames,
    rules: MatchingRules,
    choosing: Choosing,
    draws: int,
) -> MetricsRun:
    """Score one file of predictions.

    Raises:
        EvaluationError: options contradict each other, a file cannot be read, or rows do not
            match; the message names file, row and field.
    """
    _check(columns, choosing)
    if rules.unread == "leave-out" and rules.missing == "wrong":
        raise EvaluationError(
            "--missing wrong counts the claims that --unread leave-out skips: use --missing skip"
        )
    matched = _matched(files, columns, rules)
    _check_verdicts(matched.examples, columns)
    threshold, chosen, left_out = None, "", matched.left_out
    if not columns.verdict:
        threshold, chosen, dev_left_out = _threshold(columns, rules, choosing)
        left_out |= {f"{what} (dev files)": count for what, count in dev_left_out.items()}
    counts = DrawSettings(draws, min(draws, _RANKED_DRAWS))
    frame = score_examples(matched.examples, threshold, counts, rules.unread)
    return MetricsRun(frame, threshold, chosen, tuple(left_out.items()), rules.unread)


def _check(columns: FieldNames, choosing: Choosing) -> None:
    if choosing.threshold is not None and not math.isfinite(choosing.threshold):
        raise EvaluationError(f"--threshold is {choosing.threshold}; it must be a finite number")
    with_threshold = (
        choosing.threshold is not None or choosing.dev is not None or choosing.inclusive
    )
    if columns.verdict and with_threshold:
        raise EvaluationError("a threshold needs --score; --verdict already has verdicts")
    if not columns.verdict and not columns.score:
        raise EvaluationError("name the field of the prediction: --verdict or --score")
    if (choosing.dev is None) != (choosing.by is None):
        raise EvaluationError("--choose and --dev-predictions with --dev-labels need each other")
    if choosing.candidates is not None and choosing.by is None:
        raise EvaluationError("--candidates needs --choose")
    if choosing.dev is not None and choosing.threshold is not None:
        raise EvaluationError("give --threshold or --choose, not both")


def _matched(files: ResultFiles, columns: FieldNames, rules: MatchingRules) -> Matched:
    from resources.evaluation.result_files import read_result_rows

    predictions = read_result_rows(files.predictions, files.within)
    same = files.predictions == files.labels
    labels = predictions if same else read_result_rows(files.labels, files.within)
    if not columns.prediction_id and len(predictions) != len(labels):
        raise EvaluationError(
            f"rows cannot be matched by position: {files.predictions} has {len(predictions):,}, "
            f"{files.labels} has {len(labels):,}"
        )
    matched = match_predictions(predictions, labels, columns, rules)
    if matched.errors:
        raise EvaluationError("\n".join(format_errors(matched.errors)))
    if not matched.examples:
        raise EvaluationError(f"{files.labels}: no label is left to score predictions against")
    return matched


def _check_verdicts(examples: Sequence[Example], columns: FieldNames) -> None:
    """Refuse a file without a single readable value: the spelling or the field is wrong."""
    if columns.verdict:
        read = any(one.verdict for one in examples)
    else:
        read = any(not math.isnan(one.score) for one in examples)
    if not read:
        name = columns.verdict or columns.score
        raise EvaluationError(f"no prediction has a value in {name} that could be read")


def _threshold(
    columns: FieldNames, rules: MatchingRules, choosing: Choosing
) -> tuple[Threshold, str, Mapping[str, int]]:
    """The threshold, how it was chosen, and rows skipped in the dev files."""
    if choosing.dev is None or choosing.by is None:
        given = USUAL_THRESHOLD if choosing.threshold is None else choosing.threshold
        return Threshold(given, choosing.inclusive), "", {}
    matched = _matched(choosing.dev, columns, replace(rules, where=EVERY_ROW))
    examples = matched.examples
    threshold, value = choose_threshold(
        scores_of(examples),
        labels_of(examples),
        choosing.by,
        choosing.candidates or "midpoints",
        inclusive=choosing.inclusive,
    )
    measure = choosing.by.replace("_", " ").replace("f1", "F1")
    origin = f", chosen on {len(examples):,} others where {measure} is {value:.2%}"
    return threshold, origin, matched.left_out
