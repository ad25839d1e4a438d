"""The commands on evaluation results: ``decomposerl leaderboard`` and ``decomposerl accept``."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dagster_project.profiles import profile_from_environment, titles_for
from dagster_project.terminal import (
    Format,
    FormatOption,
    print_rows,
    print_text,
    report_errors,
)
from decomposerl.errors import ConfigError

_PATIENCE_S = 10.0
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder; default: DECOMPOSERL_DATA, then data/."),
]


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
    from decomposerl.evaluation.regression import departures
    from decomposerl.reports.leaderboard_report import (
        departures_text,
        leaderboard_markdown,
        leaderboard_text,
    )
    from resources.evaluation.results_folder import read_accepted, read_leaderboard

    folder = data_folder(data)
    board = read_leaderboard(folder)
    if output.is_data:
        rows = wide_leaderboard(board)
        print_rows(rows if everything else rows.filter(rows["engine"].is_not_null()), output)
        return
    page = leaderboard_text if output is Format.TEXT else leaderboard_markdown
    print_text(page(board, titles_for(profile_from_environment()), everything=everything))
    accepted = read_accepted(folder)
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


def data_folder(data: Path | None) -> Path:
    """The folder named by ``--data``, else the profile's."""
    return (profile_from_environment().data if data is None else data).resolve()
