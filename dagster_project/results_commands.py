"""Results for readers and programs: ``leaderboard``."""

import tomllib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field, TypeAdapter, ValidationError

from dagster_project.environment import read_settings, systems_for, titles_for
from dagster_project.evaluation_commands import (
    DataOption,
    data_folder,
    systems_named,
    test_sets_named,
)
from dagster_project.terminal import (
    Format,
    print_failure,
    print_note,
    print_rows,
    print_text,
    report_errors,
)
from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

# A bound of at most 1 is a share, which every score in percent would pass.
_Bounds = Annotated[dict[str, Annotated[float, Field(gt=1, le=100)]], Field(min_length=1)]
_LEAST_SCORES = TypeAdapter(Annotated[dict[str, _Bounds], Field(min_length=1)])
_AS_LEAST = 'write lines such as fever = 70.0, in percent, below a line ["SYSTEM"]'


class LeaderboardFormat(StrEnum):
    """The forms of a table, and the layout of LLM-AggreFact's leaderboard."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"
    AGGREFACT = "aggrefact"


@report_errors
def leaderboard(
    data: DataOption = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Include rows of the paper's tables that were not run.")
    ] = False,
    output: Annotated[
        LeaderboardFormat,
        typer.Option("--format", help="aggrefact: CSV for LLM-AggreFact's leaderboard."),
    ] = LeaderboardFormat.TEXT,
    fail_below: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML of the least scores that pass.")
    ] = None,
) -> None:
    """Show the scores in the layout of the paper's tables, next to the paper's figures.

    A file of --fail-below has lines such as fever = 70.0, in percent, below ["decomposerl-tiny"];
    with lower or missing scores, which are listed, the exit code is 1.
    """
    from resources.evaluation.results_folder import read_leaderboard

    if output is LeaderboardFormat.AGGREFACT:
        print_rows(_aggrefact_rows(data), Format.CSV)
    else:
        _print_leaderboard(data_folder(data), Format(output), everything=everything)
    if fail_below is not None and _lower_scores(read_leaderboard(data_folder(data)), fail_below):
        raise typer.Exit(1)


def _print_leaderboard(folder: Path, form: Format, *, everything: bool) -> None:
    from decomposerl.evaluation.leaderboard import wide_leaderboard
    from decomposerl.reports.leaderboard_report import leaderboard_markdown, leaderboard_text
    from resources.evaluation.results_folder import read_leaderboard, with_sample_note
    from resources.store.parquet import DataFolder

    board = read_leaderboard(folder)
    if form.is_data:
        rows = wide_leaderboard(board)
        print_rows(rows if everything else rows.filter(rows["engine"].is_not_null()), form)
        return
    page = leaderboard_text if form is Format.TEXT else leaderboard_markdown
    titles = titles_for(read_settings())
    text, files = page(board, titles, everything=everything), DataFolder(base_dir=str(folder))
    print_text(with_sample_note(text, files, board, titles))


def _lower_scores(board: "pl.DataFrame", file: Path) -> bool:
    """Whether scores of a board are below those of a file, or missing; lists them.

    Raises:
        ConfigError: it is no file of least scores, or the board has no such system or test set.
    """
    from decomposerl.reports.tables import text_table

    try:
        least = _LEAST_SCORES.validate_python(tomllib.loads(file.read_text("utf-8")), strict=True)
        systems_named(list(least), board["system"].unique().to_list(), [])
        for bounds in least.values():
            test_sets_named(",".join(bounds), board["benchmark"].unique().to_list())
    except ValidationError as error:
        where, says = " ".join(map(str, error.errors()[0]["loc"])), error.errors()[0]["msg"]
        raise ConfigError(f"{file}: {where or 'content'}: {says}; {_AS_LEAST}") from error
    except (ConfigError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: {error}") from error
    whole = board.filter(status="scored").select("system", "benchmark", "score")
    scored = {(system, name): score for system, name, score in whole.iter_rows()}
    lower = [
        [system, name, "–" if score is None else f"{score:.2f}", f"{bound:.2f}"]
        for system, bounds in least.items()
        for name, bound in bounds.items()
        if (score := scored.get((system, name))) is None or score < bound
    ]
    head = ["System", "Test set", "Score", "Least"]
    if lower:
        print_failure(text_table([head, *lower], [False, False, True, True]))
    return bool(lower)


def _aggrefact_rows(data: Path | None) -> "pl.DataFrame":
    """All whole runs on LLM-AggreFact as rows of its leaderboard; short ones are named.

    Raises:
        ConfigError: there is no whole run.
    """
    from decomposerl.evaluation.aggrefact import BENCHMARK, aggrefact_rows
    from resources.evaluation.results_folder import EvaluationFiles
    from resources.store.parquet import DataFolder

    settings = read_settings(data=data)
    digests = {system.key: system.entry_digest for system in systems_for(settings)}
    files = EvaluationFiles(DataFolder(base_dir=str(settings.paths.data)), [BENCHMARK], digests)
    scores, short = files.scores(), {system for system, _ in files.runs().limited}
    for key in sorted(short):
        print_note(f"{key} is left out: a short run is no measurement")
    whole = scores.filter(~scores["system"].is_in(list(short)))
    if whole.is_empty():
        raise ConfigError(
            "no system was scored on all of LLM-AggreFact; first: decomposerl evaluate SYSTEM "
            f"--benchmarks {BENCHMARK}"
        )
    return aggrefact_rows(whole, systems_for(settings))
