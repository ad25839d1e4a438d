"""The ``decomposerl`` command: look at the funnel and its results, run parts of the graph, check.

Reads the profile from the environment. Every error of this project is one red line and exit code 2.
Only commands that open engines or start a run import Dagster, so the others start fast.
"""

from importlib.metadata import version
from typing import Annotated

import typer

from dagster_project.attrition_command import attrition, explain
from dagster_project.environment import corpora_for, read_settings
from dagster_project.evaluation_commands import DataOption, evaluate, leaderboard
from dagster_project.fetch_command import fetch
from dagster_project.init_command import init
from dagster_project.metrics_command import metrics
from dagster_project.pages_command import build_pages
from dagster_project.rehearse_command import rehearse
from dagster_project.run_command import RunCommand, run, train
from dagster_project.score_command import score, serve_rewards
from dagster_project.terminal import (
    Commands,
    JsonOption,
    print_columns,
    print_json,
    print_marked,
    print_text,
    report_errors,
)
from dagster_project.verify_command import verify
from dagster_project.view_command import view

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
def sources(as_json: JsonOption = False) -> None:
    """List the corpora: licence, terms, use, and the files that are read.

    Without DECOMPOSERL_CORPORA those of the bundled sample, which the first run writes.
    """
    import sample
    from resources.corpora.bundled_sample import fingerprint
    from resources.corpora.folder import FolderCorpora
    from resources.corpora.status import corpora_status

    settings = read_settings()
    given = settings.paths.corpora
    folder = given or settings.paths.data / "sample" / fingerprint()
    exists = FolderCorpora(given).exists if given else sample.paths().__contains__
    rows = list(corpora_status(exists, [one for part in corpora_for(settings) for one in part]))
    if as_json:
        print_json(rows)
        return
    cells = []
    for row in rows:
        there = len(row["present"])
        files = f"{there} of {there + len(row['missing'])} files"
        cells.append((row["name"], row["use"], files, row["license"], row["terms"]))
    print_columns(("corpus", "use", "on disk", "licence", "terms"), cells)
    where, later = ("corpora", False) if given else ("bundled sample", not folder.is_dir())
    print_text(f"{where}: {folder}{', which the first run writes' * later}")


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

    settings = read_settings(data=data)
    page = check_profile(settings, experiment)
    if as_json:
        print_json(readiness_json(page))
    else:
        print_marked(readiness_text(page))
    if page.missing:
        raise typer.Exit(1)


for command, panel in (
    (verify, _RUN),
    (view, _LOOK),
    (attrition, _LOOK),
    (explain, _LOOK),
    (leaderboard, _LOOK),
    (metrics, _LOOK),
    (run, _RUN),
    (build_pages, _RUN),
    (train, _RUN),
    (evaluate, _RUN),
    (score, _RUN),
    (serve_rewards, _RUN),
    (rehearse, _CHECK),
):
    app.command(cls=RunCommand if command is run else None, rich_help_panel=panel)(command)
app.add_typer(init, name="init", rich_help_panel=_RUN)

if __name__ == "__main__":
    app()
