"""The commands on what was evaluated: ``decomposerl leaderboard`` and ``decomposerl accept``.

Left out deliberately: running systems (Dagster's own command), and scoring a person's own
predictions (``decomposerl metrics``).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dagster_project.terminal import Format, in_red, say, say_rows
from decomposerl.errors import ConfigError

_PATIENCE_S = 10.0
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder; default: DECOMPOSERL_DATA, then data/."),
]


@in_red
def leaderboard(
    data: DataOption = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Rows of the paper's tables that were not run, too.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TEXT,
) -> None:
    """Show what was scored, in the layout of the paper's tables, the paper's figures beside it."""
    from decomposerl.evaluation.leaderboard import wide
    from decomposerl.evaluation.regression import findings
    from decomposerl.reports.leaderboard_report import (
        findings_text,
        leaderboard_markdown,
        leaderboard_text,
    )
    from resources.evaluation.results_folder import read_accepted, read_leaderboard

    folder = _folder(data)
    board = read_leaderboard(folder)
    if output in {Format.CSV, Format.JSON}:
        rows = wide(board)
        shown = rows if everything else rows.filter(rows["engine"].is_not_null())
        say_rows(shown, output)
        return
    tell = leaderboard_text if output is Format.TEXT else leaderboard_markdown
    say(tell(board, _titles(), everything=everything))
    accepted = read_accepted(folder)
    if accepted is not None:
        say(f"\nagainst accepted.json: {findings_text(findings(board, accepted))}")


@in_red
def accept(
    data: DataOption = None,
    *,
    system: Annotated[
        list[str] | None, typer.Option(help="Accept this system's scores alone; may be repeated.")
    ] = None,
    note: Annotated[str, typer.Option(help="Why, for whoever reads the file later.")] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew: forget all that was accepted before.")
    ] = False,
) -> None:
    """Accept today's scores: later ones must lie within their intervals.

    Writes accepted.json in the data folder. Short runs are never accepted. Cells of systems that
    are gone, and a damaged file, leave with --fresh.
    """
    from decomposerl.evaluation.regression import cells, merged
    from resources.evaluation.results_folder import (
        ACCEPTED,
        read_accepted,
        read_leaderboard,
        write_accepted,
    )
    from resources.store.run_lock import file_lock, lock_path

    folder = _folder(data)
    found = cells(read_leaderboard(folder))
    if system:
        unknown = sorted(set(system) - {cell.system for cell in found})
        if unknown:
            raise ConfigError(f"the leaderboard has no whole run of {', '.join(unknown)}")
        found = [cell for cell in found if cell.system in system]
    if not found:
        raise ConfigError("there is nothing to accept: no test set was scored as a whole")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with file_lock(lock_path(folder, ACCEPTED), ACCEPTED, wait_s=_PATIENCE_S):
        earlier = [] if fresh else read_accepted(folder) or []
        path = write_accepted(folder, merged(earlier, found), now, note)
    systems = len({cell.system for cell in found})
    say(f"accepted {len(found):,} scores of {systems:,} systems: {path}")


def _folder(data: Path | None) -> Path:
    from dagster_project.profiles import profile_from_environment

    return (profile_from_environment().data if data is None else data).resolve()


def _titles() -> dict[str, str]:
    from dagster_project.profiles import profile_from_environment, titles_for

    return titles_for(profile_from_environment())
