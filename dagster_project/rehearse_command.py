"""The options and the output of ``decomposerl rehearse``; ``rehearsal`` does the work."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.evaluation_commands import DataOption
from dagster_project.named_graph import read_config
from dagster_project.terminal import print_marked, print_text, report_errors

if TYPE_CHECKING:
    from decomposerl.reports.rehearsal import RehearsedStep


@report_errors
def rehearse(
    data: DataOption = None,
    experiment: Annotated[
        str, typer.Option(help="Recipe to train; default: paper_7b, embedded: tiny.")
    ] = "",
    config: Annotated[
        Path | None, typer.Option(help="YAML with fields of resources that differ.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the page as Markdown.")] = None,
) -> None:
    """Run the whole profile on eight claims, and estimate the full run from what it measured.

    Doctor, funnel, two training steps, the adapter and the verifier on two test sets, leaderboard.
    Everything lies in rehearsal/ of the data folder, made anew. Exits with 1 if a step failed.
    """
    from dagster_project.environment import read_settings
    from dagster_project.progress_display import shown_progress
    from dagster_project.rehearsal import rehearse as run
    from dagster_project.training_estimate import default_recipe
    from decomposerl.reports.rehearsal import rehearsal_markdown, rehearsal_text
    from decomposerl.training.experiments import experiment as recipe_named

    settings = read_settings(data=data)
    recipe = recipe_named(experiment) if experiment else default_recipe(settings)
    with shown_progress(sys.stdout) as say:
        page = run(settings, recipe, partial(_say, say), read_config(config))
    print_text("")
    print_marked(rehearsal_text(page))
    if report is not None:
        report.write_text(rehearsal_markdown(page), "utf-8")
    if page.failure:
        raise typer.Exit(1)


def _say(say: Callable[[str], None], step: "RehearsedStep") -> None:
    say(f"✓ {step.step:<20} {step.seconds:>7,.1f} s  {step.note}")
