"""``decomposerl attrition``: the funnel's counts per source, by reason, or beside the paper's."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dagster_project.evaluation_commands import DataOption, existing_data_folder
from dagster_project.terminal import Format, FormatOption, print_rows, print_text, report_errors
from decomposerl.errors import DecomposeRLError

if TYPE_CHECKING:
    import polars as pl

ByReason = Annotated[bool, typer.Option("--by-reason", help="Dropped rows by reason and source.")]


@report_errors
def attrition(
    *,
    data: DataOption = None,
    by_reason: ByReason = False,
    semantic_threshold: Annotated[
        float | None, typer.Option(help="What deduplication would keep at this cosine.")
    ] = None,
    lexical_threshold: Annotated[
        float | None, typer.Option(help="What it would keep at this Jaccard; combinable.")
    ] = None,
    against: Annotated[
        Literal["paper"] | None, typer.Option(help="With the paper's table, and why they differ.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show how many claims each stage kept per source, from the DuckDB catalogue.

    With a threshold: what deduplication would keep at it, computed exactly from stored pairs.
    """
    from resources.catalogue.database import engines_of

    folder = existing_data_folder(data)
    wanted = {"--by-reason": by_reason, "--against": against is not None}
    chosen = [option for option, given in wanted.items() if given]
    if len(chosen) > 1:
        raise DecomposeRLError(f"{' and '.join(chosen)} are two tables: drop one")
    if (semantic_threshold, lexical_threshold) != (None, None):
        if chosen:
            raise DecomposeRLError(f"{chosen[0]} shows the run as it was: drop it or the threshold")
        _rethreshold(folder, lexical_threshold, semantic_threshold, output)
        return
    frame, pages = _attrition(folder, chosen)
    if output.is_data:
        print_rows(frame, output)
        return
    print_text(f"{pages[output](frame)}\n\nengine={', '.join(engines_of(folder)) or 'none'}")


def _attrition(
    folder: Path, chosen: list[str]
) -> "tuple[pl.DataFrame, dict[Format, Callable[[pl.DataFrame], str]]]":
    from decomposerl.reports import against_paper, tables
    from decomposerl.reports import attrition as report
    from resources.catalogue.database import read_table

    if "--by-reason" in chosen:
        frame = report.drops_by_reason(read_table(folder, "attrition"))
        return frame, {Format.TEXT: tables.frame_text, Format.MARKDOWN: tables.frame_markdown}
    wide = read_table(folder, "attrition_wide")
    if not chosen:
        return wide, {
            Format.TEXT: report.attrition_text,
            Format.MARKDOWN: report.attrition_markdown,
        }
    frame = against_paper.against_paper(read_table(folder, "attrition"), wide)
    return frame, {
        Format.TEXT: against_paper.against_paper_text,
        Format.MARKDOWN: against_paper.against_paper_markdown,
    }


def _rethreshold(
    folder: Path, lexical: float | None, semantic: float | None, output: Format
) -> None:
    from decomposerl.reports import rethreshold
    from resources.catalogue.dedup_run import read_dedup_run

    run, record = read_dedup_run(folder)
    thresholds = rethreshold.Thresholds(
        run.ran.lexical if lexical is None else lexical,
        run.ran.semantic if semantic is None else semantic,
    )
    frame = rethreshold.rethresholded(run, thresholds)
    if output.is_data:
        print_rows(frame, output)
        return
    markdown = output is Format.MARKDOWN
    print_text(rethreshold.rethreshold_text(run, thresholds, frame, markdown=markdown))
    print_text(f"\nengine={record['engine'] or 'none'}")
