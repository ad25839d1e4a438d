"""Results for readers and programs: ``leaderboard``, ``accept``, ``pull``."""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.evaluation_commands import DataOption, data_folder
from dagster_project.profiles import (
    profile_from_environment,
    systems_for,
    titles_for,
    use_data_folder,
)
from dagster_project.terminal import Format, print_note, print_rows, print_text, report_errors
from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

_PATIENCE_S = 10.0
_TABLES = ("decomposerl.duckdb", "*.parquet", "*/*.parquet", "*/*/*.parquet", "policy/*")
_AS_IN = "name files as the data folder does, such as 'claims/*.parquet'"


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
) -> None:
    """Show the scores in the layout of the paper's tables, next to the paper's figures."""
    from decomposerl.evaluation.leaderboard import wide_leaderboard
    from decomposerl.evaluation.regression import departures
    from decomposerl.reports.leaderboard_report import (
        departures_text,
        leaderboard_markdown,
        leaderboard_text,
    )
    from resources.evaluation import results_folder
    from resources.store.parquet import DataFolder

    if output is LeaderboardFormat.AGGREFACT:
        print_rows(_aggrefact_rows(data), Format.CSV)
        return
    form, folder = Format(output), data_folder(data)
    board = results_folder.read_leaderboard(folder)
    if form.is_data:
        rows = wide_leaderboard(board)
        print_rows(rows if everything else rows.filter(rows["engine"].is_not_null()), form)
        return
    page = leaderboard_text if form is Format.TEXT else leaderboard_markdown
    titles = titles_for(profile_from_environment())
    text, files = page(board, titles, everything=everything), DataFolder(base_dir=str(folder))
    print_text(results_folder.with_sample_note(text, files, board, titles))
    accepted = results_folder.read_accepted(folder)
    if accepted is not None:
        print_text(f"\nagainst accepted.json: {departures_text(departures(board, accepted))}")


@report_errors
def accept(
    data: DataOption = None,
    *,
    system: Annotated[
        list[str] | None, typer.Option(help="Accept only this system's scores; repeatable.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why, for later readers of the file.")] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over: drop all earlier accepted scores.")
    ] = False,
) -> None:
    """Accept today's scores: later scores must fall within their intervals.

    Writes accepted.json in the data folder. Short runs are never accepted. --fresh removes
    cells of systems that no longer exist, and replaces a damaged file.
    """
    from decomposerl.evaluation.regression import acceptable_scores, merge_accepted
    from resources.evaluation.results_folder import (
        ACCEPTED,
        read_accepted,
        read_leaderboard,
        write_accepted,
    )
    from resources.store.run_lock import file_lock, lock_path

    folder = data_folder(data)
    accepted = acceptable_scores(read_leaderboard(folder))
    if system:
        unknown = sorted(set(system) - {cell.system for cell in accepted})
        if unknown:
            raise ConfigError(f"the leaderboard has no whole run of {', '.join(unknown)}")
        accepted = [cell for cell in accepted if cell.system in system]
    if not accepted:
        raise ConfigError("there is nothing to accept: no test set was scored completely")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with file_lock(lock_path(folder, ACCEPTED), ACCEPTED, wait_s=_PATIENCE_S):
        earlier = [] if fresh else read_accepted(folder) or []
        path = write_accepted(folder, merge_accepted(earlier, accepted), now, note)
    systems = len({cell.system for cell in accepted})
    print_text(f"accepted {len(accepted):,} scores of {systems:,} systems: {path}")


@report_errors
def pull(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATTERN]...", help="Files, such as 'claims/*.parquet'. Default: every table."
        ),
    ] = None,
) -> None:
    """Copy files from the bucket of DECOMPOSERL_DATA to this machine, and print their folder.

    The commands of decomposerl do so themselves. Other programs, such as duckdb, read the folder.
    """
    from resources.store.mirror import pull as pull_files

    profile = profile_from_environment()
    if not profile.bucket:
        raise ConfigError(f"nothing to copy: the data folder is on this machine, {profile.data}")
    for pattern in patterns or ():
        if not pattern or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ConfigError(f"'{pattern}' is not inside the data folder: {_AS_IN}")
    folder = pull_files(profile.data, *(patterns or _TABLES))
    for pattern in patterns or ():
        if not any(folder.glob(pattern)):
            raise ConfigError(f"{profile.bucket} has nothing named '{pattern}': {_AS_IN}")
    print_text(str(folder))


def _aggrefact_rows(data: Path | None) -> "pl.DataFrame":
    """All whole runs on LLM-AggreFact as rows of its leaderboard; short ones are named.

    Raises:
        ConfigError: there is no whole run.
    """
    from decomposerl.evaluation.aggrefact import BENCHMARK, aggrefact_rows
    from resources.evaluation.results_folder import EvaluationFiles
    from resources.store.parquet import DataFolder

    profile = profile_from_environment()
    profile = profile if data is None else use_data_folder(profile, data.resolve())
    digests = {system.key: system.entry_digest for system in systems_for(profile)}
    files = EvaluationFiles(DataFolder(base_dir=str(profile.data)), [BENCHMARK], digests)
    scores, short = files.scores(), {system for system, _ in files.runs().limited}
    for key in sorted(short):
        print_note(f"{key} is left out: a short run is no measurement")
    whole = scores.filter(~scores["system"].is_in(list(short)))
    if whole.is_empty():
        raise ConfigError(
            "no system was scored on all of LLM-AggreFact; first: decomposerl evaluate SYSTEM "
            f"--benchmarks {BENCHMARK}"
        )
    return aggrefact_rows(whole, systems_for(profile))
