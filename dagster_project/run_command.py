"""``decomposerl run``: materializes stages of the graph by name."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dagster_project.evaluation_commands import DataOption
from dagster_project.named_graph import ConfigOption, VerboseOption, named_graph, read_config
from dagster_project.terminal import print_note, print_text, report_errors
from decomposerl.errors import ConfigError, DecomposeRLError

if TYPE_CHECKING:
    from dagster_project.stages import Stages


class RunCommand(TyperCommand):
    """``decomposerl run``, whose help also lists the stages of the profile's graph."""

    def format_help(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as typer has it
        """Print the help and the stages."""
        super().format_help(*args, **options)
        try:
            print_text(_stage_list())
        except DecomposeRLError as error:
            print_note(f"the stages cannot be listed: {error}")


@report_errors
def run(
    stages: Annotated[
        list[str] | None,
        typer.Argument(metavar="STAGE...", help="Stages or groups of them, as listed below."),
    ] = None,
    *,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="Also run the stages before them that are missing.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run stages of the funnel, or other parts of the graph.

    Runs what is named and nothing else: a stage whose input is not on disk is refused, unless
    --upstream adds what is missing. What is on disk is read and not made again.
    """
    from dagster_project.stages import condensed, missing_upstream, stages_named

    settings = read_config(config)
    graph = named_graph(data)
    keys = stages_named(stages or [], graph.stages)
    missing = missing_upstream(keys, graph.stages, graph.exists)
    if upstream and missing:
        print_note(f"also missing: {condensed(missing, graph.stages)}")
        keys += missing
    _refuse_without_inputs(keys, missing, graph.stages)
    with graph.started(verbose=verbose) as started:
        started.require(started.runs.materialize(keys, settings))
    if "report" in keys:
        from resources.report.files import report_html_path

        print_text(report_html_path(graph.folder.path).as_uri())


def _refuse_without_inputs(
    keys: Sequence[str], missing: Mapping[str, Sequence[str]], stages: "Stages"
) -> None:
    from dagster_project.stages import condensed

    needed = {key: set(missing[key]) & set(keys) for key in missing if key not in keys}
    absent = [key for key, readers in needed.items() if readers]
    if absent:
        readers = condensed(
            [key for key in keys if any(key in each for each in needed.values())], stages
        )
        raise ConfigError(
            f"{readers}: not on disk: {condensed(absent, stages)}; name them too, or add --upstream"
        )


def _stage_list() -> str:
    """Every group with its stages; of corpora, which all do the same, only the names."""
    from dagster_project.stages import groups_of

    stages = named_graph(None).stages
    groups = groups_of(stages)
    grouped = {key for keys in groups.values() for key in keys}
    groups["others"] = [k for k, one in stages.items() if not one.partitioned and k not in grouped]
    lines = []
    for group, keys in groups.items():
        lines.append(f"\n {group}")
        if group in {"sources", "benchmarks"}:
            lines.append(fill(", ".join(keys), 100, initial_indent="   ", subsequent_indent="   "))
        else:
            lines += [f"   {key:<22} {stages[key].what}" for key in keys]
    return "\n".join(lines)
