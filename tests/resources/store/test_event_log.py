"""An event log that stays open holds what Dagster's own would, where Dagster's own finds it."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage

from resources.store.event_log import OpenEventLog, kept_open


@dg.asset
def first() -> int:
    """One."""
    return 1


@dg.asset
def second(context: dg.AssetExecutionContext, first: int) -> int:
    """Another."""
    context.log.info("a message")
    return first


@contextmanager
def opened(home: Path) -> Iterator[tuple[dg.DagsterInstance, dg.DagsterInstance]]:
    """The instance of a folder as Dagster opens it, and the same kept open."""
    with dg.DagsterInstance.from_config(str(home)) as plain, kept_open(plain) as kept:
        yield plain, kept


def _run(instance: dg.DagsterInstance) -> str:
    return dg.materialize([first, second], instance=instance).run_id


def test_dagsters_own_reads_what_was_written(tmp_path: Path):
    """While the files are open, every event, in the run's own file; none is open at the end."""
    with opened(tmp_path) as (read, written):
        assert type(written.event_log_storage) is OpenEventLog
        assert type(read.event_log_storage) is SqliteEventLogStorage
        runs = [_run(written), _run(written)]
        for run in runs:
            kinds = [one.dagster_event_type for one in read.all_logs(run)]
            assert kinds == [one.dagster_event_type for one in written.all_logs(run)]
            assert kinds.count(dg.DagsterEventType.ASSET_MATERIALIZATION) == 2
            assert "a message" in [one.user_message for one in read.all_logs(run)]
            copy = shutil.copy(tmp_path / "history/runs" / f"{run}.db", tmp_path / "copy.db")
            (events,) = sqlite3.connect(copy).execute("select count(*) from event_logs").fetchone()
            assert events == len(kinds)
        latest = read.get_latest_materialization_event(dg.AssetKey("second"))
        assert latest is not None
        assert latest.run_id == runs[-1]
    assert not list((tmp_path / "history/runs").glob("*.db-wal"))
    with opened(tmp_path) as (_, instance):
        instance.wipe()
        assert [one.name for one in (tmp_path / "history/runs").glob("*.db")] == ["index.db"]


def test_another_event_log_is_left_alone(tmp_path: Path):
    """An instance whose settings name its storage keeps it."""
    name = "ConsolidatedSqliteEventLogStorage"
    config = [
        *("event_log_storage:", "  module: dagster._core.storage.event_log", f"  class: {name}"),
        *("  config:", f"    base_dir: {tmp_path / 'other'}"),
    ]
    (tmp_path / "dagster.yaml").write_text("\n".join(config), "utf-8")
    with opened(tmp_path) as (_, instance):
        assert name == type(instance.event_log_storage).__name__
