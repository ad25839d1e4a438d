"""``decomposerl metrics``: score any predictions against labels, or count reviewers' marks."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dagster_project.terminal import print_json, print_note, print_text, report_errors
from decomposerl.errors import EvaluationError

if TYPE_CHECKING:
    from decomposerl.claims.claim import Record
    from decomposerl.evaluation.external import Measurement


Predictions = Annotated[
    Path | None, typer.Argument(help=".jsonl, .json, .csv, .tsv or .parquet; also .gz.")
]
Labels = Annotated[Path | None, typer.Argument(help="The same; default: PREDICTIONS.")]
Id = Annotated[
    str,
    typer.Option(
        "--id",
        help="Column of the claim id, or A=B if LABELS calls it B; several: A,B; -: order.",
    ),
]
Label = Annotated[str, typer.Option(help="Column of the label.")]
Verdict = Annotated[str, typer.Option(help="Column of the predicted label.")]
Score = Annotated[
    str,
    typer.Option(
        help="Column of a score, higher for supported; 1-NAME: higher for refuted; NAME:max, :mean "
        "or :min of several."
    ),
]
Supported = Annotated[
    list[str] | None, typer.Option(help="A word that means supported; repeatable.")
]
Refuted = Annotated[
    list[str] | None, typer.Option(help="A word that means refuted; repeatable; '*': all others.")
]
Threshold = Annotated[
    str,
    typer.Option(
        help="Supported is a score above NUMBER (default 0.5), '>=NUMBER', or the best for f1 or "
        "balanced_accuracy on --dev; of midpoints, f1:scores or f1:hundredths."
    ),
]
Dev = Annotated[
    tuple[Path, Path] | None,
    typer.Option(metavar="PREDICTIONS LABELS", help="Files that choose the threshold."),
]
Group = Annotated[str, typer.Option(help="Column of LABELS to score by value; several: A,B.")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=VALUE or COLUMN!=VALUE of LABELS; repeatable."),
]
Document = Annotated[str, typer.Option(help="Column of LABELS: its claims are resampled together.")]
Unread = Annotated[
    Literal["opposite", "class", "leave-out"],
    typer.Option(
        help="How an unreadable prediction counts: as the wrong label, as a separate class, "
        "or not at all."
    ),
]
Missing = Annotated[
    Literal["error", "wrong", "skip"], typer.Option(help="How rows without a partner count.")
]
Marks = Annotated[
    list[Path] | None,
    typer.Option(help="Reviewers' marks of the trace page, in place of both files; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@report_errors
def metrics(  # noqa: PLR0913 - each is one option
    predictions: Predictions = None,
    labels: Labels = None,
    *,
    id_: Id = "id",
    label: Label = "label",
    verdict: Verdict = "",
    score: Score = "",
    supported: Supported = None,
    refuted: Refuted = None,
    threshold: Threshold = "",
    dev: Dev = None,
    group: Group = "",
    where: Where = None,
    document: Document = "",
    unread: Unread = "opposite",
    missing: Missing = "error",
    marks: Marks = None,
    as_json: AsJson = False,
) -> None:
    """Score predictions against labels, with intervals; --marks counts reviewers' agreement."""
    if marks and predictions:
        raise EvaluationError("--marks takes the place of PREDICTIONS and LABELS: give one of both")
    if marks:
        _print_marks(marks, as_json=as_json)
        return
    if predictions is None:
        raise EvaluationError("give PREDICTIONS, and LABELS unless one file has both, or --marks")
    from decomposerl.evaluation.cells import Spellings
    from decomposerl.evaluation.external import Cut, Declared, measure

    columns = Declared.of(
        *(id_, score, group),
        label=label,
        verdict=verdict,
        document=document,
        where=tuple(where or ()),
        missing=missing,
        unread=unread,
        given=Spellings.of(supported or (), refuted or ()) if supported or refuted else None,
    )
    cut = Cut.of(threshold) if threshold else None
    files = _rows(predictions, labels or predictions)
    measured = measure(files, columns, cut, _rows(*dev) if dev else None)
    _print_scores(measured, unread, as_json=as_json)


def _rows(predictions: Path, labels: Path) -> tuple[Sequence["Record"], Sequence["Record"]]:
    """The rows of both files, the same list where they are one."""
    from resources.evaluation.result_files import read_result_rows

    rows = read_result_rows(predictions)
    return rows, rows if predictions == labels else read_result_rows(labels)


def _print_scores(measured: "Measurement", unread: Any, *, as_json: bool) -> None:  # noqa: ANN401
    """Print the table on standard output and the notes on standard error."""
    from decomposerl.reports.system_report import metrics_text, sizes_sentence

    if as_json:
        page = {
            "threshold": None if measured.threshold is None else measured.threshold.value,
            "inclusive": measured.threshold is not None and measured.threshold.inclusive,
            "left_out": measured.left_out,
            "unread": unread,
            "unread_predictions": measured.unread,
            "classes": measured.classes,
            "metrics": measured.frame.to_dicts(),
        }
        print_json(page)
        return
    sizes = sizes_sentence(measured.frame, unread, measured.classes)
    print_text(f"{metrics_text(measured.frame)}\n\n{sizes}")
    for line in measured.notes():
        print_note(line)


def _print_marks(paths: Sequence[Path], *, as_json: bool) -> None:
    from decomposerl.evaluation.marks import on_newest_reply, reviewer_pairs, system_marks
    from decomposerl.reports.system_report import marks_text
    from resources.traces.marks import read_marks

    marks, skipped = read_marks(paths)
    held, earlier = on_newest_reply(marks)
    systems, pairs = system_marks(held, earlier), list(reviewer_pairs(held))
    for line in skipped:
        print_note(f"skipped: {line}")
    if as_json:
        counted = {"systems": [*map(asdict, systems)], "reviewers": [*map(asdict, pairs)]}
        print_json(counted | {"skipped": skipped})
        return
    print_text(marks_text(systems, pairs))
