"""The options and the output of ``decomposerl metrics``; ``metrics_run`` does the work."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dagster_project.terminal import print_json, print_note, print_text, report_errors
from decomposerl.errors import EvaluationError

if TYPE_CHECKING:
    from dagster_project.metrics_run import MatchingRules, MetricsRun, ResultFiles

Path_ = Annotated[
    Path | None, typer.Argument(help=".jsonl, .json, .csv, .tsv or .parquet; also .gz.")
]
Id = Annotated[str, typer.Option("--id", help="Field of the claim id; several: A,B.")]
LabelId = Annotated[str, typer.Option(help="The same in LABELS, if it differs.")]
ByOrder = Annotated[bool, typer.Option("--by-order", help="Match rows by position.")]
Label = Annotated[str, typer.Option(help="Field of the label.")]
Verdict = Annotated[str, typer.Option(help="Field of the predicted label.")]
Score = Annotated[str, typer.Option(help="Field of a score, higher for supported.")]
Group = Annotated[
    list[str] | None,
    typer.Option(help="Field of LABELS to score by value; several: A,B."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="FIELD=VALUE or FIELD!=VALUE of LABELS; repeatable."),
]
Unread = Annotated[
    Literal["opposite", "class", "leave-out"],
    typer.Option(
        help="How an unreadable prediction counts: as the wrong label, as a separate class, "
        "or not at all."
    ),
]
Document = Annotated[str, typer.Option(help="Field of LABELS: its claims are resampled together.")]
Cut = Annotated[float | None, typer.Option(help="Scores above it mean supported; default 0.5.")]
Inclusive = Annotated[
    bool, typer.Option("--inclusive", help="Scores at the threshold mean supported too.")
]
Choose = Annotated[
    Literal["f1", "balanced_accuracy"] | None,
    typer.Option(help="Choose the threshold on the dev files."),
]
Candidates = Annotated[
    Literal["midpoints", "scores", "hundredths"] | None,
    typer.Option(help="Candidate thresholds; default: midpoints."),
]
Dev = Annotated[Path | None, typer.Option(help="File for choosing the threshold.")]
Several = Annotated[
    Literal["max", "mean", "min"] | None, typer.Option(help="Combine several scores of a claim.")
]
Words = Annotated[list[str] | None, typer.Option(help="A spelling; repeatable.")]
Others = Annotated[list[str] | None, typer.Option(help="A spelling; repeatable; '*': all others.")]
Drop = Annotated[list[str] | None, typer.Option(help="Labels to skip.")]
Missing = Annotated[
    Literal["error", "wrong", "skip"], typer.Option(help="How labels without a prediction count.")
]
Extra = Annotated[
    Literal["error", "skip"], typer.Option(help="How predictions without a label count.")
]
Records = Annotated[str, typer.Option(help="Key of a JSON object whose value is the rows.")]
Count = Annotated[int, typer.Option(min=0, help="Bootstrap draws; 0: no intervals.")]
Marks = Annotated[
    list[Path] | None,
    typer.Option(help="Reviewers' marks of the trace page, in place of both files; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


_HANDLED = ("several", "missing", "extra", "unread")


@report_errors
def metrics(  # noqa: PLR0913 - each is one option
    predictions: Path_ = None,
    labels: Path_ = None,
    *,
    id_: Id = "id",
    label_id: LabelId = "",
    by_order: ByOrder = False,
    label: Label = "label",
    verdict: Verdict = "",
    score: Score = "",
    group: Group = None,
    where: Where = None,
    document: Document = "",
    threshold: Cut = None,
    inclusive: Inclusive = False,
    choose: Choose = None,
    candidates: Candidates = None,
    dev_predictions: Dev = None,
    dev_labels: Dev = None,
    several: Several = None,
    positive: Words = None,
    negative: Others = None,
    drop: Drop = None,
    unread: Unread = "opposite",
    missing: Missing = "error",
    extra: Extra = "error",
    records: Records = "",
    draws: Count = 10_000,
    marks: Marks = None,
    as_json: AsJson = False,
) -> None:
    """Score predictions against labels, with intervals; --marks counts reviewers' agreement."""
    if _counted(marks, predictions, labels, as_json=as_json):
        return
    ids, groups = _ids(id_, label_id, by_order=by_order), _groups(group or ())
    rules = _rules((positive, negative, drop), where, (several, missing, extra, unread))
    files, dev = _files((predictions, labels), (dev_predictions, dev_labels), records)
    choosing = (threshold, inclusive, dev, choose, candidates)
    fields = (*ids, label, verdict, score, groups, document)
    _print_run(_run(files, fields, rules, choosing, draws), as_json=as_json)


def _run(
    files: "ResultFiles",
    fields: Sequence[Any],
    rules: "MatchingRules",
    choosing: Sequence[Any],
    draws: int,
) -> "MetricsRun":
    """The metrics; ``fields`` and ``choosing`` are those of ``FieldNames`` and ``Choosing``."""
    from dagster_project import metrics_run as work

    names, chosen = work.FieldNames(*fields), work.Choosing(*choosing)
    return work.metrics_of(files, names, rules, chosen, draws)


def _rules(
    words: Sequence[Sequence[str] | None], where: Sequence[str] | None, handling: Sequence[Any]
) -> "MatchingRules":
    """``handling`` is of several scores, missing and extra rows, unread verdicts, in order."""
    from dagster_project.metrics_run import Conditions, MatchingRules, Spellings

    spellings = Spellings.of(*(each or () for each in words))
    by_name = dict(zip(_HANDLED, handling, strict=True))
    return MatchingRules(spellings, where=Conditions.of(where or ()), **by_name)


def _files(
    main: tuple[Path | None, Path | None], dev: tuple[Path | None, Path | None], records: str
) -> tuple["ResultFiles", "ResultFiles | None"]:
    """The files to score, and those to choose the threshold by."""
    from dagster_project.metrics_run import ResultFiles

    first, second = main
    if first is None or second is None:
        raise EvaluationError("give two files, PREDICTIONS and LABELS, or --marks FILE")
    predictions, labels = dev
    if (predictions is None) != (labels is None):
        raise EvaluationError("--dev-predictions and --dev-labels go together")
    chosen = ResultFiles(predictions, labels, records) if predictions and labels else None
    return ResultFiles(first, second, records), chosen


def _ids(
    words: str, label_words: str, *, by_order: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of the id in either file; none where rows match by position."""
    if by_order:
        return (), ()
    return _names(words), _names(label_words or words)


def _groups(fields: Sequence[str]) -> tuple[str, ...]:
    """The fields of the groups; repeated ones count once."""
    return tuple(dict.fromkeys(name for words in fields for name in _names(words)))


def _names(words: str) -> tuple[str, ...]:
    """Comma-separated names of fields.

    Raises:
        EvaluationError: there is none.
    """
    names = tuple(name.strip() for name in words.split(",") if name.strip())
    if not names:
        raise EvaluationError(f"'{words}' names no field; --by-order matches rows without ids")
    return names


def _print_run(run: "MetricsRun", *, as_json: bool) -> None:
    """Print the table on standard output and the notes on standard error."""
    from decomposerl.reports.system_report import metrics_text, sizes_sentence

    if as_json:
        page = {
            "threshold": None if run.threshold is None else run.threshold.value,
            "inclusive": run.threshold is not None and run.threshold.inclusive,
            "left_out": dict(run.left_out),
            "unread": run.unread,
            "metrics": run.frame.to_dicts(),
        }
        print_json(page)
        return
    print_text(f"{metrics_text(run.frame)}\n\n{sizes_sentence(run.frame, run.unread)}")
    for line in run.notes():
        print_note(line)


def _counted(
    marks: Sequence[Path] | None, predictions: Path | None, labels: Path | None, *, as_json: bool
) -> bool:
    """Print the counts of marks, if they were given; whether they were.

    Raises:
        EvaluationError: they were given beside the files.
    """
    if marks and (predictions or labels):
        raise EvaluationError("--marks takes the place of PREDICTIONS and LABELS: give one of both")
    if marks:
        _print_marks(marks, as_json=as_json)
    return bool(marks)


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
