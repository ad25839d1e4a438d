"""Results for readers and programs: ``leaderboard``, ``accept``, ``export-inspect``."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.evaluation_commands import (
    DataOption,
    TestSetsOption,
    data_folder,
    systems_named,
    test_sets_named,
)
from dagster_project.profiles import (
    Profile,
    entries_for,
    profile_from_environment,
    systems_for,
    titles_for,
    use_data_folder,
)
from dagster_project.terminal import Format, print_note, print_rows, print_text, report_errors
from decomposerl.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from decomposerl.reports.inspect_log import Predicted
    from resources.evaluation.results_folder import EvaluationFiles

_PATIENCE_S = 10.0


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
def export_inspect(
    systems: Annotated[
        list[str], typer.Argument(metavar="SYSTEM...", help="Systems that were evaluated.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the logs.")],
    *,
    benchmarks: TestSetsOption = "",
    data: DataOption = None,
) -> None:
    """Write stored predictions as logs of Inspect (.eval), one for each system and test set.

    Needs the extra 'inspect', in an environment of its own. It makes no calls; read the logs with
    'inspect view --log-dir FOLDER', or with read_eval_log of inspect_ai.
    """
    from decomposerl.reports.inspect_log import inspect_log
    from resources.evaluation.inspect_files import ENDING, require_inspect, write_inspect_log

    profile = _profile(data)
    titles = titles_for(profile)
    files = _files(profile, test_sets_named(benchmarks, list(titles)) or list(titles))
    own = [entry.name for entry in entries_for(profile)]
    keys = systems_named(systems, list(files.systems), own)
    require_inspect()
    for key in keys:
        written = 0
        for predicted in _predicted(files, profile, key):
            path = out / f"{predicted.benchmark}-{key}{ENDING}"
            write_inspect_log(inspect_log(predicted, version("decomposerl")), path)
            print_text(f"{path}: {predicted.predictions.height:,} claims")
            written += 1
        if not written:
            raise ConfigError(f"{key} has no predictions; first: decomposerl evaluate {key}")


def _aggrefact_rows(data: Path | None) -> "pl.DataFrame":
    """All whole runs on LLM-AggreFact as rows of its leaderboard; short ones are named.

    Raises:
        ConfigError: there is no whole run.
    """
    from decomposerl.evaluation.aggrefact import BENCHMARK, aggrefact_rows

    profile = _profile(data)
    files = _files(profile, [BENCHMARK])
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


def _profile(data: Path | None) -> Profile:
    profile = profile_from_environment()
    return profile if data is None else use_data_folder(profile, data.resolve())


def _files(profile: Profile, benchmarks: list[str]) -> "EvaluationFiles":
    from resources.evaluation.results_folder import EvaluationFiles
    from resources.store.parquet import DataFolder

    folder = DataFolder(base_dir=str(profile.data))
    digests = {one.key: one.entry_digest for one in systems_for(profile)}
    return EvaluationFiles(folder, benchmarks, digests)


def _predicted(files: "EvaluationFiles", profile: Profile, key: str) -> "Iterator[Predicted]":
    """What is on disk of a system, by test set."""
    from decomposerl.reports.inspect_log import Predicted
    from decomposerl.schemas import CALLS, SCORES
    from resources.evaluation.results_folder import read_doubtful, read_test_claims

    title = next(one.reader_title for one in systems_for(profile) if one.key == key)
    folder = files.folder
    for name in files.predicted(key):
        part = f"{name}/{key}"
        tables = {
            kind: folder.read(f"{kind}/{part}") if folder.exists(f"{kind}/{part}") else empty
            for kind, empty in (("scores", SCORES.empty()), ("calls", CALLS.empty()))
        }
        run = folder.run(f"predictions/{part}")
        ended = datetime.fromisoformat(run["finished_at"])
        yield Predicted(
            benchmark=name,
            system=key,
            title=title,
            predictions=folder.read(f"predictions/{part}"),
            claims=read_test_claims(folder, name),
            doubtful=read_doubtful(folder, name),
            run=run,
            began=(ended - timedelta(seconds=run["seconds"])).isoformat(),
            ended=ended.isoformat(),
            **tables,
        )
