"""``decomposerl evaluate`` and ``leaderboard``, and the options of commands that name systems."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagster_project import own_model
from dagster_project.environment import read_settings, systems_for, titles_for
from dagster_project.named_graph import (
    ConfigOption,
    SystemsOption,
    VerboseOption,
    named_graph,
    read_config,
    with_ops,
)
from dagster_project.terminal import (
    Format,
    FormatOption,
    print_columns,
    print_note,
    print_rows,
    print_text,
    report_errors,
)
from decomposerl.errors import ConfigError, DecomposeRLError

if TYPE_CHECKING:
    from dagster_project.named_graph import NamedGraph
    from decomposerl.evaluation.systems import System

_TABLE = "predictions/"
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder; default: DECOMPOSERL_DATA, then data/."),
]


@report_errors
def evaluate(  # noqa: PLR0913 - each is one option
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SYSTEM...",
            help="Such as cot-rules-faithful, decomposerl-tiny, or a name in systems.toml.",
        ),
    ] = None,
    *,
    benchmarks: Annotated[str, typer.Option(help="Comma-separated test sets; default: all.")] = "",
    limit: Annotated[
        int | None, typer.Option(min=2, help="Most claims of a test set: no measurement then.")
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    systems_file: SystemsOption = None,
    endpoint: own_model.EndpointOption = "",
    model: own_model.ModelOption = "",
    key_env: own_model.KeyOption = "",
    method: own_model.MethodOption = "",
    list_systems: Annotated[
        bool, typer.Option("--list", help="List the systems, your own first, and exit.")
    ] = False,
    verbose: VerboseOption = False,
) -> None:
    """Evaluate systems on test sets, rank all that were evaluated, and show these systems.

    The test sets must be on disk: decomposerl run benchmarks. A system that fails does not stop
    the others; the exit code is then 1. decomposerl init systems writes a systems.toml for your
    own endpoints, adapters and verifiers.
    """
    settings, named = read_config(config), list(systems or [])
    if given := own_model.named_model(endpoint, model, key_env, method):
        named.append(own_model.remembered(given, read_settings(data=data, systems=systems_file)))
    graph = named_graph(data, systems_file)
    known = systems_for(graph.settings)
    if list_systems:
        _print_systems(known)
        return
    if not named:
        methods = ", ".join(dict.fromkeys(one.method for one in known if one.entry is None))
        own = ", ".join(one.key for one in known if one.entry is not None)
        said = f"name a system; the methods are {methods} (docs/how-to/evaluate.md)"
        raise ConfigError(said + f"; your own are {own}" * bool(own))
    keys = _known("system", named, [one.key for one in known])
    sets = _test_sets(benchmarks, graph)
    limits = {} if limit is None else {f"predictions__{name}": {"limit": limit} for name in sets}
    done = _evaluated(graph, keys, sets, with_ops(settings, limits), verbose=verbose)
    if done:
        from resources.evaluation.results_folder import board_page, read_leaderboard

        board = read_leaderboard(graph.folder.path)
        shown = board.filter(board["system"].is_in(done))
        print_text(board_page(graph.folder, shown, titles_for(graph.settings)))
    if done != keys:
        raise typer.Exit(1)


def _print_systems(known: "Sequence[System]") -> None:
    """The user's own systems, with where they run, then those of the catalogue."""
    own = [(one.name, one.method, one.model, one.where) for each in known if (one := each.entry)]
    if own:
        print_columns(("your own", "method", "model", "runs"), own)
    rest = [one for one in known if one.entry is None and not one.model.seed]
    print_columns(("system", "method and model"), [(one.key, one.reader_title) for one in rest])
    print_text("and every policy with a further seed, such as decomposerl-paper_7b-seed_1")


def _evaluated(
    graph: "NamedGraph",
    systems: Sequence[str],
    sets: Sequence[str],
    config: Mapping[str, Any],
    *,
    verbose: bool,
) -> list[str]:
    """The systems that were evaluated and ranked; why others were not is printed."""
    wanted = {f"{table}/{name}" for table in ("predictions", "scores") for name in sets}
    done = []
    with graph.started(verbose=verbose) as started:
        for key in systems:
            print_note(key)
            run = started.runs.execute("evaluate", config, key, wanted=wanted.__contains__)
            done += [key] if started.succeeded(run) else []
        if done and not started.succeeded(started.runs.execute("rank")):
            return []
        print_note(f"Dagster's logs: {started.progress.folder}")
    return done


def _test_sets(benchmarks: str, graph: "NamedGraph") -> list[str]:
    """The named test sets, each once, or all of them.

    Raises:
        ConfigError: a name is unknown, or the claims of one are not on disk.
    """
    every = [key.removeprefix(_TABLE) for key in graph.stages if key.startswith(_TABLE)]
    words = [word.strip() for word in benchmarks.split(",") if word.strip()]
    sets = _known("test set", words, every) or every
    absent = [key for name in sets if not graph.exists(key := f"benchmark/{name}")]
    if absent:
        first = absent[0] if len(absent) == 1 else "benchmarks"
        raise ConfigError(f"not on disk: {', '.join(absent)}; first: decomposerl run {first}")
    return sets


def _known(kind: str, words: Sequence[str], every: Sequence[str]) -> list[str]:
    """The words, each once.

    Raises:
        ConfigError: one is unknown; the message has the nearest names.
    """
    from dagster_project.stages import nearest

    for word in words:
        if word not in every:
            near = " or ".join(nearest(word, every))
            raise ConfigError(f"there is no {kind} '{word}'; the nearest is {near}")
    return list(dict.fromkeys(words))


@report_errors
def leaderboard(
    data: DataOption = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Include rows of the paper's tables that were not run.")
    ] = False,
    output: FormatOption = Format.TEXT,
) -> None:
    """Show the scores in the layout of the paper's tables, next to the paper's figures."""
    from decomposerl.evaluation.leaderboard import wide_leaderboard
    from resources.evaluation.results_folder import board_page, read_leaderboard
    from resources.store.parquet import DataFolder

    folder = read_settings(data=data).paths.data
    board = read_leaderboard(folder)
    if output.is_data:
        rows = wide_leaderboard(board)
        print_rows(rows if everything else rows.filter(rows["engine"].is_not_null()), output)
        return
    stored, titles = DataFolder(base_dir=str(folder)), titles_for(read_settings())
    markdown = output is Format.MARKDOWN
    print_text(board_page(stored, board, titles, markdown=markdown, everything=everything))


def existing_data_folder(data: Path | None) -> Path:
    """The folder named by ``--data``, else the profile's.

    Raises:
        DecomposeRLError: there is no such folder.
    """
    folder = read_settings(data=data).paths.data
    if folder.is_dir():
        return folder
    hint = "run 'make demo', or name another with --data or DECOMPOSERL_DATA"
    raise DecomposeRLError(f"the data folder {folder} does not exist; {hint}")
