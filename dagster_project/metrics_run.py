"""``decomposerl metrics``: anybody's predictions held against labels.

Takes two files and what their fields mean, gives every metric with its interval; with two further
files it chooses the threshold there.

Left out deliberately: reading files (``resources.evaluation.result_files``), matching and metrics
(``decomposerl.evaluation``), options and printing (``metrics_command``).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.cells import format_errors
from decomposerl.evaluation.conditions import EVERY_ROW
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
__all__ = [  # what the command fills in, from one place
    "Choosing",
    "DrawSettings",
    "FieldNames",
    "Files",
    "MatchingRules",
    "MetricsRun",
    "metrics_of",
]


@dataclass(frozen=True, slots=True)
class Files:
    """Predictions and labels; ``within`` names the entry of a JSON object that holds the rows."""

    predictions: Path
    labels: Path
    within: str = ""


@dataclass(frozen=True, slots=True)
class Choosing:
    """How scores become verdicts: a given threshold, or one chosen on a dev set by a metric."""

    threshold: float | None = None
    inclusive: bool = False
    dev: Files | None = None
    by: ThresholdMetric | None = None
    candidates: Candidates | None = None


@dataclass(frozen=True, slots=True)
class MetricsRun:
    """What one run of the command came to."""

    frame: "pl.DataFrame"
    threshold: Threshold | None
    chosen: str
    left_out: tuple[tuple[str, int], ...]
    unread: Unread = "opposite"

    def notes(self) -> Iterator[str]:
        """What a reader must know beside the table, line by line."""
        if self.threshold is not None:
            sign = ">=" if self.threshold.inclusive else ">"
            yield f"supported is a score {sign} {self.threshold.value!r}{self.chosen}"
        yield from (f"{count:,} {what}" for what, count in self.left_out)


def metrics_of(
    files: Files,
    columns: FieldNames,
    rules: MatchingRules,
    choosing: Choosing,
    draws: DrawSettings,
) -> MetricsRun:
    """Score one file of predictions.

    Raises:
        EvaluationError: options contradict each other, a file cannot be read, or rows do not fit;
            they are named by file, row and field.
    """
    _check(columns, choosing)
    if rules.unread == "leave-out" and rules.missing == "wrong":
        raise EvaluationError("--missing wrong counts what --unread leave-out leaves out: skip it")
    matched = _matched(files, columns, rules)
    _check_verdicts(matched.examples, columns)
    threshold, chosen, left_out = None, "", matched.left_out
    if not columns.verdict:
        threshold, chosen, elsewhere = _threshold(columns, rules, choosing)
        left_out |= {f"{what} (dev files)": count for what, count in elsewhere.items()}
    frame = score_examples(matched.examples, threshold, draws, rules.unread)
    return MetricsRun(frame, threshold, chosen, tuple(left_out.items()), rules.unread)


def _check(columns: FieldNames, choosing: Choosing) -> None:
    if choosing.threshold is not None and not math.isfinite(choosing.threshold):
        raise EvaluationError(f"--threshold is {choosing.threshold}; it must be a finite number")
    asks = choosing.threshold is not None or choosing.dev is not None or choosing.inclusive
    if columns.verdict and asks:
        raise EvaluationError("a threshold is for --score alone: --verdict has verdicts already")
    if not columns.verdict and not columns.score:
        raise EvaluationError("say which field holds the prediction: --verdict or --score")
    if (choosing.dev is None) != (choosing.by is None):
        raise EvaluationError("--choose needs --dev-predictions and --dev-labels, and they need it")
    if choosing.candidates is not None and choosing.by is None:
        raise EvaluationError(
            "--candidates is what --choose chooses from, and --choose is not there"
        )
    if choosing.dev is not None and choosing.threshold is not None:
        raise EvaluationError("a threshold is given with --threshold or chosen, not both")


def _matched(files: Files, columns: FieldNames, rules: MatchingRules) -> Matched:
    from resources.evaluation.result_files import read_result_rows

    predictions = read_result_rows(files.predictions, files.within)
    same = files.predictions == files.labels
    labels = predictions if same else read_result_rows(files.labels, files.within)
    if not columns.prediction_id and len(predictions) != len(labels):
        raise EvaluationError(
            f"rows cannot be matched by their order: {files.predictions} has {len(predictions):,}, "
            f"{files.labels} has {len(labels):,}"
        )
    matched = match_predictions(predictions, labels, columns, rules)
    if matched.errors:
        raise EvaluationError("\n".join(format_errors(matched.errors)))
    if not matched.examples:
        raise EvaluationError(f"{files.labels}: no label is left to hold predictions against")
    return matched


def _check_verdicts(examples: Sequence[Example], columns: FieldNames) -> None:
    """A file without a single verdict has another spelling or another field, not bad luck."""
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
    """The threshold, a word on how it was chosen, and what the dev files left out."""
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
    told = f", chosen on {len(examples):,} others where {measure} is {value:.2%}"
    return threshold, told, matched.left_out
