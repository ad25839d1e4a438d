"""The options of ``decomposerl metrics`` and what it prints.

Left out deliberately: the work (``dagster_project.metrics_run``), imported when it is asked for.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dagster_project.terminal import in_red
from decomposerl.errors import EvaluationError

if TYPE_CHECKING:
    from dagster_project.metrics_run import MetricsRun

_RANKED = 1_000  # draws of AUROC, which cost a pass over the claims each
OtherIds = Annotated[str, typer.Option(help="The same where this file has it under another name.")]
Words = Annotated[list[str] | None, typer.Option(help="A spelling of it, may be repeated.")]
RefutedWords = Annotated[
    list[str] | None, typer.Option(help="The same for the other side; '*': all that is left.")
]


@in_red
def metrics(  # noqa: PLR0913 - each is one option
    predictions: Annotated[Path, typer.Argument(help=".jsonl, .json, .csv, .tsv or .parquet.")],
    labels: Annotated[Path, typer.Argument(help="The same; may be the same file.")],
    *,
    id_: Annotated[str, typer.Option("--id", help="Field of a claim's id; several: A,B.")] = "id",
    prediction_id: OtherIds = "",
    label_id: OtherIds = "",
    by_order: Annotated[bool, typer.Option("--by-order", help="Row n belongs to row n.")] = False,
    label: Annotated[str, typer.Option(help="Field of the label.")] = "label",
    verdict: Annotated[str, typer.Option(help="Field of the predicted label.")] = "",
    score: Annotated[str, typer.Option(help="Field of a score, higher for supported.")] = "",
    group: Annotated[str, typer.Option(help="Field of LABELS whose values are scored apart.")] = "",
    document: Annotated[str, typer.Option(help="Field of LABELS: drawn together.")] = "",
    threshold: Annotated[float | None, typer.Option(help="Scores above it; default 0.5.")] = None,
    inclusive: Annotated[bool, typer.Option("--inclusive", help="At it, too.")] = False,
    choose: Annotated[
        Literal["f1", "balanced_accuracy"] | None, typer.Option(help="Choose it on the dev files.")
    ] = None,
    candidates: Annotated[
        Literal["midpoints", "scores", "hundredths"], typer.Option(help="What it is chosen from.")
    ] = "midpoints",
    dev_predictions: Annotated[Path | None, typer.Option(help="As PREDICTIONS.")] = None,
    dev_labels: Annotated[Path | None, typer.Option(help="As LABELS.")] = None,
    several: Annotated[
        Literal["max", "mean", "min"] | None, typer.Option(help="Make one of a claim's scores.")
    ] = None,
    positive: Words = None,
    negative: RefutedWords = None,
    drop: Annotated[list[str] | None, typer.Option(help="Labels to leave out.")] = None,
    missing: Annotated[
        Literal["error", "wrong", "skip"], typer.Option(help="Labels without a prediction.")
    ] = "error",
    extra: Annotated[
        Literal["error", "skip"], typer.Option(help="Predictions without a label.")
    ] = "error",
    records: Annotated[str, typer.Option(help="Entry of a JSON object that holds the rows.")] = "",
    draws: Annotated[int, typer.Option(min=0, help="Of the bootstrap; 0: no intervals.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the bootstrap.")] = 42,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Score anybody's predictions: balanced accuracy, F1, AUROC and more, with intervals.

    Exits with 2 and names file, row and field where rows do not fit. See docs/evaluation.md.
    """
    from dagster_project.metrics_run import Choosing, Files, metrics_of
    from decomposerl.evaluation.external import Draws
    from decomposerl.evaluation.matching import Columns, Rules
    from decomposerl.evaluation.spellings import Spellings

    if threshold is not None and not math.isfinite(threshold):
        raise EvaluationError(f"--threshold is {threshold}; it must be a finite number")
    if (dev_predictions is None) != (dev_labels is None):
        raise EvaluationError("--dev-predictions and --dev-labels go together")
    dev = Files(dev_predictions, dev_labels, records) if dev_predictions and dev_labels else None
    columns = Columns(
        prediction_id=() if by_order else _names(prediction_id or id_),
        label_id=() if by_order else _names(label_id or id_),
        label=label,
        verdict=verdict,
        score=score,
        group=group,
        document=document,
    )
    spellings = Spellings.of(positive or (), negative or (), drop or ())
    run = metrics_of(
        Files(predictions, labels, records),
        columns,
        Rules(spellings, several, missing, extra),
        Choosing(threshold, inclusive, dev, choose, candidates),
        Draws(draws=draws, ranked=min(draws, _RANKED), seed=seed),
    )
    _tell(run, as_json=as_json)


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
            "metrics": run.frame.to_dicts(),
        }
        typer.echo(json.dumps(page, ensure_ascii=False, indent=2, allow_nan=False))
        return
    typer.echo(f"{metrics_text(run.frame)}\n\n{sizes_sentence(run.frame)}")
    for line in run.notes():
        typer.echo(line, err=True)
