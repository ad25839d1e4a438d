"""``decomposerl metrics``: score any predictions against labels."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dagster_project.terminal import print_json, print_note, print_text, report_errors

Option = typer.Option
Id = Annotated[
    str,
    Option(
        "--id",
        help="Column of the claim id, or A=B if LABELS calls it B; several: A,B; -: order.",
    ),
]
Score = Annotated[
    str,
    Option(
        help="Column of a score, higher for supported; 1-NAME: higher for refuted; NAME:max, "
        ":mean or :min of several."
    ),
]
ThresholdForm = Annotated[
    str,
    Option(
        help="Supported is a score above NUMBER (default 0.5), '>=NUMBER', or the best for f1 "
        "or balanced_accuracy on --dev; of midpoints, f1:scores or f1:hundredths."
    ),
]
Unread = Annotated[
    Literal["opposite", "class", "leave-out"],
    Option(
        help="How an unreadable prediction counts: as the wrong label, as a separate class, or "
        "not at all."
    ),
]


@report_errors
def metrics(  # noqa: PLR0913 - each is one option
    predictions: Annotated[
        Path, typer.Argument(help=".jsonl, .json, .csv, .tsv or .parquet; also .gz.")
    ],
    labels: Annotated[Path | None, typer.Argument(help="The same; default: PREDICTIONS.")] = None,
    *,
    id_: Id = "id",
    label: Annotated[str, Option(help="Column of the label.")] = "label",
    verdict: Annotated[str, Option(help="Column of the predicted label.")] = "",
    score: Score = "",
    supported: Annotated[
        list[str] | None, Option(help="A word that means supported; repeatable.")
    ] = None,
    refuted: Annotated[
        list[str] | None, Option(help="A word that means refuted; repeatable; '*': all others.")
    ] = None,
    threshold: ThresholdForm = "",
    dev: Annotated[
        tuple[Path, Path] | None,
        Option(metavar="PREDICTIONS LABELS", help="Files that choose the threshold."),
    ] = None,
    group: Annotated[str, Option(help="Column of LABELS to score by value; several: A,B.")] = "",
    where: Annotated[
        list[str] | None, Option(help="COLUMN=VALUE or COLUMN!=VALUE of LABELS; repeatable.")
    ] = None,
    document: Annotated[str, Option(help="Column of LABELS: its claims count together.")] = "",
    unread: Unread = "opposite",
    missing: Annotated[
        Literal["error", "wrong", "skip"], Option(help="How rows without a partner count.")
    ] = "error",
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Score predictions against labels, with intervals."""
    from decomposerl.evaluation.cells import Spellings
    from decomposerl.evaluation.external import Declared, measure
    from decomposerl.evaluation.threshold import Threshold
    from decomposerl.reports.system_report import metrics_text
    from resources.evaluation.results_folder import read_result_rows

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
    wanted = Threshold.of(threshold) if threshold else None
    paths = (predictions, labels or predictions, *(dev or ()))
    rows = {path: read_result_rows(path) for path in dict.fromkeys(paths)}
    first, second, *dev_rows = (rows[path] for path in paths)
    frame, rests_on, notes = measure((first, second), columns, wanted, dev_rows)
    if as_json:
        print_json(rests_on | {"metrics": frame.to_dicts()})
        return
    print_text(metrics_text(frame, unread, rests_on["classes"]))
    for note in notes:
        print_note(note)
