"""The ``decomposerl`` command: look at the funnel and its results, run parts of the graph, check.

Reads the profile from the environment. Every error of this project is one red line and exit code 2.
Only commands that open engines or start a run import Dagster, so the others start fast.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.evaluation_commands import (
    DataOption,
    data_folder,
    evaluate,
)
from dagster_project.fetch_command import fetch
from dagster_project.init_command import init
from dagster_project.metrics_command import metrics
from dagster_project.pages_command import build_pages
from dagster_project.profiles import (
    benchmarks_for,
    profile_from_environment,
    read_key,
    sources_for,
)
from dagster_project.rehearse_command import rehearse
from dagster_project.results_commands import accept, export_inspect, leaderboard
from dagster_project.run_command import RunCommand, run
from dagster_project.score_command import score, serve_rewards
from dagster_project.terminal import (
    Commands,
    Format,
    FormatOption,
    JsonOption,
    print_columns,
    print_json,
    print_marked,
    print_rows,
    print_text,
    report_errors,
)
from dagster_project.train_command import train
from dagster_project.verify_command import verify
from dagster_project.view_command import view
from decomposerl.errors import DecomposeRLError

if TYPE_CHECKING:
    import polars as pl


_LOOK, _RUN, _CHECK = "Look", "Run", "Check"
app = typer.Typer(
    cls=Commands,
    help="Verify claims; curate claims, train and evaluate a claim decomposer; look at every step.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"decomposerl {version('decomposerl')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the command."""


@app.command(rich_help_panel=_LOOK)
@report_errors
def explain(
    claim_id: Annotated[str, typer.Argument(help="A claim id, or its first 6 or more hex digits.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one claim's way through the funnel: each stage, its values, why it was dropped."""
    from decomposerl.reports.explain import claim_journey, journey_text
    from resources.catalogue.claim_lookup import find_claim

    history = claim_journey(find_claim(_existing_data_folder(data), claim_id))
    if as_json:
        print_json(asdict(history))
    else:
        print_marked(journey_text(history))


@app.command(rich_help_panel=_LOOK)
@report_errors
def attrition(
    data: DataOption = None,
    by_reason: Annotated[
        bool, typer.Option("--by-reason", help="Dropped rows by reason and source.")
    ] = False,
    semantic_threshold: Annotated[
        float | None, typer.Option(help="What deduplication would keep at this cosine.")
    ] = None,
    lexical_threshold: Annotated[
        float | None, typer.Option(help="What it would keep at this Jaccard; combinable.")
    ] = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show how many claims each stage kept per source, from the DuckDB catalogue.

    With a threshold: what deduplication would keep at it, computed exactly from stored pairs.
    """
    from decomposerl.reports import attrition as report
    from decomposerl.reports import tables
    from resources.catalogue.database import engines_of, read_table

    folder = _existing_data_folder(data)
    if (semantic_threshold, lexical_threshold) != (None, None):
        if by_reason:
            raise DecomposeRLError("--by-reason shows the run as it was: drop it or the threshold")
        _rethreshold(folder, lexical_threshold, semantic_threshold, output)
        return
    pages: dict[Format, Callable[[pl.DataFrame], str]]
    if by_reason:
        frame = report.drops_by_reason(read_table(folder, "attrition"))
        pages = {Format.TEXT: tables.frame_text, Format.MARKDOWN: tables.frame_markdown}
    else:
        frame = read_table(folder, "attrition_wide")
        pages = {Format.TEXT: report.attrition_text, Format.MARKDOWN: report.attrition_markdown}
    if output.is_data:
        print_rows(frame, output)
        return
    print_text(f"{pages[output](frame)}\n\nengine={', '.join(engines_of(folder)) or 'none'}")


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


@app.command(rich_help_panel=_LOOK)
@report_errors
def sources(as_json: JsonOption = False) -> None:
    """List the corpora: licence, terms, use, and files on disk."""
    from resources.corpora.folder import FolderCorpora
    from resources.corpora.status import corpora_status

    profile = profile_from_environment()
    folder = profile.corpora or profile.data / "sample"
    rows = corpora_status(FolderCorpora(folder), sources_for(profile), benchmarks_for(profile))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    cells = []
    for row in rows:
        files = f"{len(row.present)} of {len(row.present) + len(row.missing)} files"
        cells.append((row.name, row.use, files, row.license, row.terms))
    print_columns(("corpus", "use", "on disk", "licence", "terms"), cells)
    where = "corpora" if profile.corpora else "bundled sample"
    print_text(f"{where}: {folder}")


app.command(rich_help_panel=_RUN)(fetch)


@app.command(rich_help_panel=_CHECK)
@report_errors
def doctor(
    data: DataOption = None,
    experiment: Annotated[
        str, typer.Option(help="Experiment to estimate; default: paper_7b, embedded: tiny.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Show what the profile lacks on this machine and what a full run will cost.

    Exits with 1 if something required is missing. Changes nothing and shows no key.
    """
    from dagster_project.doctor import check_profile
    from decomposerl.reports.readiness import readiness_json, readiness_text

    profile = profile_from_environment()
    if data is not None:
        profile = replace(profile, data=data.resolve())
    page = check_profile(profile, read_key, experiment)
    if as_json:
        print_json(readiness_json(page))
    else:
        print_marked(readiness_text(page))
    if page.missing:
        raise typer.Exit(1)


def _existing_data_folder(data: Path | None) -> Path:
    folder = data_folder(data)
    if not folder.is_dir():
        raise DecomposeRLError(
            f"the data folder {folder} does not exist; run 'make demo', or name another "
            "with --data or DECOMPOSERL_DATA"
        )
    return folder


for command, panel in (
    (verify, _RUN),
    (view, _LOOK),
    (leaderboard, _LOOK),
    (metrics, _LOOK),
    (export_inspect, _LOOK),
    (run, _RUN),
    (build_pages, _RUN),
    (train, _RUN),
    (evaluate, _RUN),
    (score, _RUN),
    (serve_rewards, _RUN),
    (rehearse, _CHECK),
    (accept, _CHECK),
):
    app.command(cls=RunCommand if command is run else None, rich_help_panel=panel)(command)
app.add_typer(init, name="init", rich_help_panel=_RUN)

if __name__ == "__main__":
    app()
