"""One writer at a time, and an event log that stays open."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage

from dagster_project.definitions import build_definitions
from dagster_project.profiles import profile_from_environment
from decomposerl.errors import DecomposeRLError, SchemaError
from decomposerl.schemas import ATTRITION
from evaluation_graph import OF_PROFILE, materialize, write_tests
from project import ROOT
from resources.store.event_log import OpenEventLog, kept_open
from resources.store.parquet import ParquetTables, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import file_lock, lock_path, locked_asset

HOLDER = """
import sys, time
from pathlib import Path
from resources.store.run_lock import file_lock
with file_lock(Path(sys.argv[1]), "it", run="r-1"):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return lock_path(tmp_path, "claims/hover")


@contextmanager
def holder(lock: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock, until the block ends or it is killed."""
    words = [sys.executable, "-c", HOLDER, str(lock)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert "held\n" == process.stdout.readline()
        yield process
        process.send_signal(signal.SIGKILL)


def failures(result: dg.ExecuteInProcessResult) -> str:
    """What its failed steps say."""
    failed = (event for event in result.all_events if event.is_step_failure)
    return "\n".join(str(event.step_failure_data.error) for event in failed)


def test_the_second_is_refused_with_the_name_of_the_first(lock: Path):
    """Process, host, time and run; once that process is killed, the lock is free."""
    with holder(lock) as process:
        said = rf"it .*process {process.pid} on \S+ since \d+-.*, run r-1"
        with pytest.raises(DecomposeRLError, match=said):
            file_lock(lock, "it").__enter__()
    with file_lock(lock, "it"):
        pass


def test_a_holder_is_waited_for(lock: Path):
    """As long as asked for; a thread of the same process is a holder like any other."""
    begun = threading.Event()

    def hold() -> None:
        with file_lock(lock, "it"):
            begun.set()
            time.sleep(0.5)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert begun.wait(10)
        with pytest.raises(DecomposeRLError, match=f"process {os.getpid()}"):
            file_lock(lock, "it").__enter__()
        with file_lock(lock, "it", wait_s=30):
            assert not lock_path(lock.parent, "x").exists()
        holding.result()


def test_a_lock_file_that_says_nothing_still_refuses(lock: Path):
    """Damaged, it names nobody; the lock is the kernel's, not the text's."""
    with holder(lock):
        lock.write_text("{")
        with pytest.raises(DecomposeRLError, match="another process"):
            file_lock(lock, "it").__enter__()
    lock.write_text('{"pid": 1}')
    with file_lock(lock, "it"):
        assert os.getpid() == json.loads(lock.read_text())["pid"]


def test_children_do_not_inherit_the_lock(lock: Path):
    """A server that a step started may outlive the step."""
    with file_lock(lock, "it"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with file_lock(lock, "it"):
        child.kill()
    child.wait()


def test_an_asset_that_is_being_written_is_refused_before_its_work(tmp_path: Path):
    """Nothing is asked or written; another partition may be written meanwhile."""
    write_tests(tmp_path)
    first, second = OF_PROFILE[:2]
    with holder(lock_path(tmp_path, f"predictions/fever/{first}")) as process:
        refused = materialize(tmp_path, first, "fever")
        assert not refused.success
        for part in (f"predictions/fever/{first} ", f"process {process.pid}"):
            assert part in failures(refused)
        assert not list(tmp_path.glob("predictions/fever/*"))
        assert not (tmp_path / "engine_results").exists()
        assert materialize(tmp_path, second, "fever").success
    assert materialize(tmp_path, first, "fever").success
    # Dagster can be asked for a range; an asset writes one partition a run.
    ends = zip(("start", "end"), OF_PROFILE[:2], strict=True)
    tags = {f"dagster/asset_partition_range_{end}": name for end, name in ends}
    refused = materialize(tmp_path, None, "fever", tags=tags)
    assert "one partition" in failures(refused)


class Wrong:
    """An asset whose table is refused when it is stored, as long as ``broken``."""

    broken = True

    def asset(self) -> dg.AssetsDefinition:
        """Defined anew for each run."""

        @dg.asset
        @locked_asset
        def attrition(context: dg.AssetExecutionContext) -> dg.MaterializeResult[StageOutput]:
            frame = pl.DataFrame({"x": [1]}) if self.broken else ATTRITION.empty()
            return StageRecorder(context).table(frame, {})

        return attrition


def test_what_cannot_be_stored_leaves_no_lock(tmp_path: Path):
    """Storing fails after the asset's last line; the same process then runs it again."""
    wrong, tables = Wrong(), {"io_manager": ParquetTables(base_dir=str(tmp_path))}
    with pytest.raises(SchemaError) as kept:  # its traceback keeps the failed step's frames
        dg.materialize([wrong.asset()], resources=tables)
    wrong.broken = False
    assert dg.materialize([wrong.asset()], resources=tables).success
    assert kept.value


def test_the_lock_is_held_until_all_is_stored(tmp_path: Path):
    """While the table is written nobody else gets the lock."""
    seen: list[str] = []

    def other() -> None:
        with pytest.raises(DecomposeRLError):
            file_lock(lock_path(tmp_path, "attrition"), "it").__enter__()
        seen.append("refused")

    class Watching(ParquetTables):
        def dump_to_path(self, context: dg.OutputContext, obj: StageOutput, path: object) -> None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(other).result()
            super().dump_to_path(context, obj, path)  # type: ignore[arg-type]

    wrong = Wrong()
    wrong.broken = False
    tables = {"io_manager": Watching(base_dir=str(tmp_path))}
    assert dg.materialize([wrong.asset()], resources=tables).success
    assert ["refused"] == seen


def test_every_asset_writes_alone():
    """Each asset of the project holds its lock, new ones too."""
    made = build_definitions(profile_from_environment({}))
    assets = [one for one in made.assets or [] if isinstance(one, dg.AssetsDefinition)]
    assert 50 < len(assets)
    free = [one.key.to_user_string() for one in assets if not _locks(one)]
    assert [] == free


def _locks(asset: dg.AssetsDefinition) -> bool:
    function = asset.op.compute_fn.decorated_fn  # type: ignore[union-attr]
    return "locked_asset.<locals>" in function.__code__.co_qualname


# The event log


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
