"""``decomposerl attrition`` and ``explain``: the funnel's counts, and one claim's way."""

import re
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.environment import corpora_for, read_settings
from dagster_project.evaluation_commands import DataOption, existing_data_folder
from dagster_project.terminal import (
    Format,
    FormatOption,
    JsonOption,
    print_json,
    print_marked,
    print_rows,
    print_text,
    report_errors,
)
from decomposerl.errors import ConfigError, DecomposeRLError

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from decomposerl.claims.source import Benchmark, Source

    _Pages = tuple[Callable[[pl.DataFrame], str], Callable[[pl.DataFrame], str]]
_ROW = re.compile(r"(\S+\.\w+):(\d+)")


@report_errors
def attrition(
    *,
    data: DataOption = None,
    by_reason: Annotated[
        bool, typer.Option("--by-reason", help="Dropped rows by reason and source.")
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            help="`paper`, `published` (what the public files give), or an older data folder: what "
            "moved, and the thresholds that changed.",
            metavar="WHAT",
        ),
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show how many claims each stage kept per source, from the DuckDB catalogue."""
    from resources.catalogue.database import engines_of

    folder = existing_data_folder(data)
    if by_reason and against:
        raise DecomposeRLError("--by-reason and --against are two tables: drop one")
    frame, text = _attrition(folder, "by reason" if by_reason else against or "")
    if output.is_data:
        print_rows(frame, output)
        return
    engines = ", ".join(engines_of(folder)) or "none"
    print_text(f"{text(output)}\n\nengine={engines}")


def _attrition(folder: Path, table: str) -> "tuple[pl.DataFrame, Callable[[Format], str]]":
    """A table, and the function that gives its text, or its Markdown."""
    from decomposerl.reports import against_paper, tables
    from decomposerl.reports import attrition as report
    from resources.catalogue.claim_lookup import funnel_state
    from resources.catalogue.database import read_table

    pages: _Pages = (tables.frame_text, tables.frame_markdown)
    if table == "by reason":
        frame = report.drops_by_reason(read_table(folder, "attrition"))
    elif table == "paper":
        wide = read_table(folder, "attrition_wide")
        frame = against_paper.against_paper(wide)
        pages = against_paper.paper_text, partial(against_paper.paper_text, markdown=True)
    elif table == "published":
        frame = report.against_published(read_table(folder, "attrition_wide"))
    elif table:
        frame = report.against_older(funnel_state(folder), funnel_state(Path(table)))
        pages = report.against_older_text, partial(report.against_older_text, markdown=True)
    else:
        frame = read_table(folder, "attrition_wide")
        pages = report.attrition_text, report.attrition_markdown
    return frame, lambda output: pages[output is Format.MARKDOWN](frame)


@report_errors
def explain(
    claim: Annotated[
        str, typer.Argument(help="An id or its first 6 or more digits, a text, or FILE:ROW.")
    ],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one claim's way through the funnel: each stage, its values, why it was dropped."""
    from decomposerl.reports.explain import claim_journey, journey_text
    from resources.catalogue.claim_lookup import find_claim

    folder = existing_data_folder(data)
    place = _ROW.fullmatch(claim.strip())
    asked = _ids_of_row(folder, place[1], int(place[2])) if place else [claim]
    stories = [claim_journey(find_claim(folder, one)) for one in asked]
    if as_json:
        print_json(asdict(stories[0]) if len(stories) == 1 else list(map(asdict, stories)))
    else:
        print_marked("\n\n".join(map(journey_text, stories)))


def _ids_of_row(data: Path, file: str, row: int) -> list[str]:
    from resources.catalogue.claim_lookup import ids_of_row
    from resources.corpora.bundled_sample import fingerprint
    from resources.corpora.folder import FolderCorpora

    settings = read_settings()
    root = settings.paths.corpora or data / "sample" / fingerprint()
    if not root.is_dir():
        raise ConfigError(f"{file}:{row} names a row of a corpora folder, and there is no {root}")
    path = Path(file)
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else file
    corpora: list[Source | Benchmark] = [one for part in corpora_for(settings) for one in part]
    return list(dict.fromkeys(ids_of_row(name, row, corpora, FolderCorpora(root))))
