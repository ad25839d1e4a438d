"""The options of ``decomposerl metrics`` and what it prints.

Left out deliberately: the work (``dagster_project.metrics_run``), imported when it is asked for.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dagster_project.terminal import print_json, print_note, print_text, report_errors
from decomposerl.errors import EvaluationError

if TYPE_CHECKING:
    from dagster_project.metrics_run import Choosing, Columns, Files, MetricsRun, Rules

_RANKED = 1_000  # draws of AUROC, which cost a pass over the claims each
Path_ = Annotated[Path, typer.Argument(help=".jsonl, .json, .csv, .tsv, .parquet, or with .gz.")]
Id = Annotated[str, typer.Option("--id", help="Field of a claim's id; several: A,B.")]
LabelId = Annotated[str, typer.Option(help="The same in LABELS, where it is another.")]
ByOrder = Annotated[bool, typer.Option("--by-order", help="Row n belongs to row n.")]
Label = Annotated[str, typer.Option(help="Field of the label.")]
Verdict = Annotated[str, typer.Option(help="Field of the predicted label.")]
Score = Annotated[str, typer.Option(help="Field of a score, higher for supported.")]
Group = Annotated[
    list[str] | None,
    typer.Option(help="Field of LABELS whose values are scored apart; several: A,B."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(help="FIELD=VALUE or FIELD!=VALUE of LABELS; may be repeated."),
]
Unread = Annotated[
    Literal["opposite", "class", "leave-out"],
    typer.Option(
        help="What a prediction counts as that cannot be read: the other label, a verdict "
        "of its own, or no claim."
    ),
]
Document = Annotated[str, typer.Option(help="Field of LABELS: these claims are drawn together.")]
Cut = Annotated[float | None, typer.Option(help="Supported is a score above; default 0.5.")]
Inclusive = Annotated[bool, typer.Option("--inclusive", help="At the threshold too.")]
Choose = Annotated[
    Literal["f1", "balanced_accuracy"] | None, typer.Option(help="Choose it on the dev files.")
]
Candidates = Annotated[
    Literal["midpoints", "scores", "hundredths"] | None,
    typer.Option(help="What it is chosen from; default: midpoints."),
]
Dev = Annotated[Path | None, typer.Option(help="To choose the threshold by.")]
Several = Annotated[
    Literal["max", "mean", "min"] | None, typer.Option(help="Make one of a claim's scores.")
]
Words = Annotated[list[str] | None, typer.Option(help="A spelling; may be repeated.")]
Others = Annotated[list[str] | None, typer.Option(help="The same; '*': all that is left.")]
Drop = Annotated[list[str] | None, typer.Option(help="Labels to leave out.")]
Missing = Annotated[
    Literal["error", "wrong", "skip"], typer.Option(help="Labels without a prediction.")
]
Extra = Annotated[Literal["error", "skip"], typer.Option(help="Predictions without a label.")]
Records = Annotated[str, typer.Option(help="Entry of a JSON object that holds the rows.")]
Count = Annotated[int, typer.Option(min=0, help="Of the bootstrap; 0: no intervals.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@report_errors
def metrics(  # noqa: PLR0913 - each is one option
    predictions: Path_,
    labels: Path_,
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
    as_json: AsJson = False,
) -> None:
    """Score anybody's predictions, with intervals; see docs/evaluation.md."""
    run = _scored(
        (predictions, labels, records),
        _columns(_ids(id_, label_id, by_order), (label, verdict, score), group, document),
        _rules((positive, negative, drop), (missing, extra, unread), several, where),
        _choosing((threshold, inclusive, choose, candidates), dev_predictions, dev_labels, records),
        draws,
    )
    _tell(run, as_json=as_json)


def _scored(
    files: tuple[Path, Path, str],
    columns: "Columns",
    rules: "Rules",
    choosing: "Choosing",
    draws: int,
) -> "MetricsRun":
    from dagster_project.metrics_run import Draws, Files, metrics_of

    few = Draws(draws, min(draws, _RANKED))
    return metrics_of(Files(*files), columns, rules, choosing, few)


def _columns(
    ids: tuple[tuple[str, ...], tuple[str, ...]],
    cells: tuple[str, str, str],
    group: list[str] | None,
    document: str,
) -> "Columns":
    """Label, verdict and score are ``cells``; each field of a group stands once."""
    from dagster_project.metrics_run import Columns

    parts = tuple(dict.fromkeys(name for word in group or () for name in _names(word)))
    return Columns(*ids, *cells, parts, document)


def _rules(
    spelt: tuple[list[str] | None, ...],
    partners: tuple[
        Literal["error", "wrong", "skip"],
        Literal["error", "skip"],
        Literal["opposite", "class", "leave-out"],
    ],
    several: Literal["max", "mean", "min"] | None,
    where: list[str] | None,
) -> "Rules":
    """Spellings of both sides and of what is dropped; ``partners``: missing, extra, unread."""
    from dagster_project.metrics_run import Rules
    from decomposerl.evaluation.conditions import Conditions
    from decomposerl.evaluation.spellings import Spellings

    missing, extra, unread = partners
    spellings = Spellings.of(*(side or () for side in spelt))
    return Rules(spellings, several, missing, extra, Conditions.of(where or ()), unread)


def _choosing(
    chosen: tuple[
        float | None,
        bool,
        Literal["f1", "balanced_accuracy"] | None,
        Literal["midpoints", "scores", "hundredths"] | None,
    ],
    predictions: Path | None,
    labels: Path | None,
    records: str,
) -> "Choosing":
    """``chosen``: threshold, inclusive, by what and from what it is chosen on the dev files."""
    from dagster_project.metrics_run import Choosing

    threshold, inclusive, by, candidates = chosen
    return Choosing(threshold, inclusive, _dev(predictions, labels, records), by, candidates)


def _dev(predictions: Path | None, labels: Path | None, records: str) -> "Files | None":
    from dagster_project.metrics_run import Files

    if (predictions is None) != (labels is None):
        raise EvaluationError("--dev-predictions and --dev-labels go together")
    return Files(predictions, labels, records) if predictions and labels else None


def _ids(
    words: str,
    label_words: str,
    by_order: bool,  # noqa: FBT001 - an option
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of the id in either file; none where rows meet by their order."""
    if by_order:
        return (), ()
    return _names(words), _names(label_words or words)


def _names(words: str) -> tuple[str, ...]:
    """Comma-separated names of fields.

    Raises:
        EvaluationError: there is none.
    """
    names = tuple(name.strip() for name in words.split(",") if name.strip())
    if not names:
        raise EvaluationError(f"'{words}' names no field; --by-order matches rows without ids")
    return names


def _tell(run: "MetricsRun", *, as_json: bool) -> None:
    """The table on standard output, what was left out on standard error."""
    from decomposerl.reports.metrics_report import metrics_text, sizes_sentence

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
