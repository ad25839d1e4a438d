"""A data folder in a bucket: objects are whole, copies are current, faults change nothing.

One writer at a time, on a machine or between machines: who holds an asset is named, and a kill
frees it. An event log that stays open.
"""

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
from decomposerl.errors import ConfigError, DecomposeRLError, SchemaError, StorageError
from decomposerl.schemas import ATTRITION
from evaluation_graph import OF_PROFILE, materialize, write_tests
from object_server import KEY, SECRET, URL, Fault, ObjectServer
from project import ROOT
from resources.store.bucket import Bucket, Sizes, checked_url
from resources.store.event_log import OpenEventLog, kept_open
from resources.store.lease import Expiry, lease
from resources.store.mirror import (
    attach,
    detach,
    discard,
    location,
    mirror_of,
    pull,
    send_files,
    send_folder,
)
from resources.store.parquet import ParquetTables, StageOutput
from resources.store.recording import StageRecorder
from resources.store.result_store import ResultStore
from resources.store.run_lock import file_lock, lock_path, locked_asset
from resources.store.temporary import replace_text

WRITER = """
import sys
from pathlib import Path
from resources.store.mirror import attach
from resources.store.temporary import replace_file
folder = attach(sys.argv[1], Path(sys.argv[2]))
for mark in b"ab" * 10_000:
    replace_file(folder / "a.parquet", lambda path: path.write_bytes(bytes([mark]) * (6 << 20)))
    print(mark, flush=True)
"""


def text(path: Path) -> str:
    return path.read_text("utf-8")


def test_what_one_machine_writes_another_reads(machines: tuple[Path, Path], server: ObjectServer):
    """All changes follow a pull of their pattern, nothing else; logs and the sample stay here."""
    one, two = machines
    for name in ("logs/run.log", "sample/x/a.json", "rehearsal/a.parquet", ".hidden", "demo.json"):
        replace_text(one / name, ["x"])
    assert {} == server.objects()
    for name in ("claims/a", "claims/b", "claims/deep/c", "rule_filtered"):
        replace_text(one / f"{name}.parquet", [name])
    pull(two, "claims/*.parquet")
    assert ["a.parquet", "b.parquet"] == sorted(path.name for path in (two / "claims").iterdir())
    assert not (two / "rule_filtered.parquet").exists()
    replace_text(one / "claims/a.parquet", ["new"])
    discard(one / "claims/b.parquet")
    pull(two, "claims/*.parquet")
    assert "new" == text(two / "claims/a.parquet")
    assert not (two / "claims/b.parquet").exists()
    assert b"new" == server.objects()["some/prefix/claims/a.parquet"]


def test_a_current_copy_is_not_downloaded_again(machines: tuple[Path, Path], server: ObjectServer):
    """Neither by name nor by pattern; a copy that was edited or lost is."""
    one, two = machines
    replace_text(one / "claims/a.parquet", ["a" * 1000])
    pull(two, "claims/*.parquet")
    server.seen.clear()
    pull(two, "claims/*.parquet")
    assert 0 == server.count("GET", "a.parquet")
    server.fail("cut", "GET", "a.parquet", times=99)  # a body would not arrive
    pull(two, "claims/a.parquet")
    server.faults.clear()
    (two / "claims/a.parquet").write_text("edited", "utf-8")
    pull(two, "claims/a.parquet")
    assert "a" * 1000 == text(two / "claims/a.parquet")
    (two / "claims/a.parquet").unlink()
    pull(two, "claims/*.parquet")
    assert (two / "claims/a.parquet").is_file()


def test_a_folder_is_one_object_without_checkpoints(
    machines: tuple[Path, Path], server: ObjectServer
):
    """Its files are not stored one by one; another machine has the whole of the newest or none."""
    one, two = machines
    run = one / "policy/tiny"
    for name in ("adapter/weights", "outcome.json", "checkpoints/step-1/state"):
        replace_text(run / name, [name])
    assert {} == server.objects()
    assert [] == list(pull(two, "policy/*/outcome.json").glob("policy/*/outcome.json"))
    send_folder(run)
    assert ["some/prefix/policy/tiny.tar"] == list(server.objects())
    pull(two, "policy/*/outcome.json")
    assert "adapter/weights" == text(two / "policy/tiny/adapter/weights")
    assert not (two / "policy/tiny/checkpoints").exists()
    (run / "outcome.json").write_text("second", "utf-8")
    send_folder(run)
    server.seen.clear()
    pull(one, "policy/tiny/adapter/weights")
    assert (run / "checkpoints/step-1/state").exists()  # its own copy is current
    pull(two, "policy/tiny/adapter/weights")
    assert "second" == text(two / "policy/tiny/outcome.json")


def test_a_folder_that_was_not_sent_is_not_replaced(machines: tuple[Path, Path]):
    """Another machine's run of that name stays in the bucket; without the own one it is fetched."""
    one, two = (folder / "policy/tiny" for folder in machines)
    replace_text(one / "outcome.json", ["one"])
    send_folder(one)
    replace_text(two / "outcome.json", ["two"])
    pull(machines[1], "policy/*", "policy/tiny/outcome.json")
    assert "two" == text(two / "outcome.json")
    (two / "outcome.json").unlink()
    two.rmdir()
    pull(machines[1], "policy/tiny/outcome.json")
    assert "one" == text(two / "outcome.json")


def test_a_folder_of_files_is_stored_file_by_file(
    machines: tuple[Path, Path], server: ObjectServer
):
    """What a newer one lacks is removed from the bucket."""
    report = machines[0] / "report"
    for name in ("report.html", "figures/a.svg"):
        replace_text(report / name, [name])
        (machines[0] / ".objects/report" / name).unlink()
    send_files(report)
    (report / "figures/a.svg").unlink()
    (report / "figures/b.svg").write_text("b", "utf-8")
    send_files(report)
    stored = {key.removeprefix("some/prefix/report/") for key in server.objects()}
    assert {"report.html", "figures/b.svg"} == stored
    assert "b" == text(pull(machines[1], "report/figures/*") / "report/figures/b.svg")


@pytest.mark.parametrize("fault", ["503", "lost", "slow", "cut"])
@pytest.mark.parametrize("size", [100, 6 << 20])  # one request each, and several
def test_uploads_and_downloads_survive_faults(
    server: ObjectServer, tmp_path: Path, fault: Fault, size: int
):
    """A repeated request changes nothing: a PUT, a GET, those of a multipart upload, a range."""
    bucket = Bucket(URL, server.options(), Sizes(part=5 << 20, range=2 << 20))
    content, file = os.urandom(size), tmp_path / "a"
    file.write_bytes(content)
    if fault != "cut":  # of an answer without a body
        for method in ("PUT", "POST", "POST"):
            server.fail(fault, method)
    tag = bucket.put("a", file)
    assert {"a": tag} == bucket.tags()
    server.fail(fault, "GET", times=2)
    assert tag == bucket.fetch("a", tmp_path / "b")
    assert content == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("size", [100, 6 << 20])
def test_an_upload_whose_answers_are_all_lost_is_known_by_its_digest(
    server: ObjectServer, tmp_path: Path, size: int
):
    """The object is there, so nothing failed; another content under the key would be a failure."""
    bucket = Bucket(URL, server.options(), Sizes(part=5 << 20))
    file = tmp_path / "a"
    file.write_bytes(os.urandom(size))
    server.fail("lost", *(("PUT", "") if size == 100 else ("POST", "uploadId")), times=99)
    tag = bucket.put("a", file)
    server.faults.clear()
    assert {"a": tag} == bucket.tags()
    file.write_bytes(os.urandom(size))
    server.fail("503", "PUT", times=99)
    with pytest.raises(StorageError):
        bucket.put("a", file)


def test_a_download_of_an_object_that_changes_is_of_one_version(
    server: ObjectServer, tmp_path: Path
):
    """Replaced between two ranges, it begins again."""
    bucket = Bucket(URL, server.options(), Sizes(range=1 << 20))
    file = tmp_path / "a"
    file.write_bytes(b"a" * (6 << 20))
    bucket.put("a", file)
    server.fail("slow", "GET", times=99)
    reading = threading.Thread(target=bucket.fetch, args=("a", tmp_path / "b"))
    reading.start()
    while server.count("GET") < 3 and reading.is_alive():
        time.sleep(0.01)
    file.write_bytes(b"b" * (6 << 20))
    bucket.put("a", file)
    server.faults.clear()
    reading.join()
    assert b"b" * (6 << 20) == (tmp_path / "b").read_bytes()


def test_an_upload_that_fails_changes_neither_object_nor_file(
    machines: tuple[Path, Path], server: ObjectServer
):
    """The old content stays on both sides, and no temporary file does."""
    one, two = machines
    replace_text(one / "a.parquet", ["old"])
    server.fail("503", "PUT", times=99)
    with pytest.raises(StorageError, match=rf"{URL}/a.parquet .*503"):
        replace_text(one / "a.parquet", ["new"])
    server.faults.clear()
    assert "old" == text(one / "a.parquet") == text(pull(two, "a.parquet") / "a.parquet")
    assert [".objects", "a.parquet"] == sorted(path.name for path in one.iterdir())


def test_a_killed_writer_leaves_the_old_or_the_new(
    machines: tuple[Path, Path], server: ObjectServer, tmp_path: Path
):
    """Killed before, during and after the upload of either kind, each object is whole."""
    _, two = machines
    words = [sys.executable, "-c", WRITER, URL, str(tmp_path / "three")]
    env = {**os.environ, **server.variables, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=env, cwd=ROOT)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        contents = [(pull(two, "a.parquet") / "a.parquet").read_bytes() for _ in range(3)]
    finally:
        process.kill()
        process.communicate()
    three = attach(URL, tmp_path / "three", server.options())
    until = time.monotonic() + 9
    while True:  # the server may still be storing a request that arrived whole
        last = [(pull(folder, "a.parquet") / "a.parquet").read_bytes() for folder in (two, three)]
        if last[0] == last[1] or time.monotonic() > until:
            break
    detach(three)
    assert last[0] == last[1]
    assert {(6 << 20, 1)} == {(len(one), len(set(one))) for one in contents + last}


def test_threads_that_pull_at_once_have_whole_files(
    machines: tuple[Path, Path], server: ObjectServer
):
    """Each reads the file after its own pull, whatever the others do."""
    one, two = machines
    replace_text(one / "a.parquet", ["a" * 100_000])
    replace_text(one / "policy/tiny/outcome.json", ["a" * 100_000])
    send_folder(one / "policy/tiny")
    server.fail("slow", "GET", "a.parquet", times=4)

    def read(name: str) -> str:
        return text(pull(two, name) / name)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(read, ["a.parquet"] * 8))
    assert ["a" * 100_000] * 8 == found
    assert "a" * 100_000 == read("policy/tiny/outcome.json")
    assert [] == [path.name for path in two.iterdir() if path.name.endswith(".partial")]


def test_two_writers_of_one_object_leave_one_of_them(machines: tuple[Path, Path]):
    """Never a mixture, and both machines read the same."""

    def write(folder: Path, mark: str) -> None:
        for _ in range(6):
            replace_text(folder / "a.parquet", [mark * 50_000])

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, machines, "ab"))
    read = {text(pull(folder, "a.parquet") / "a.parquet") for folder in machines}
    assert 1 == len(read)
    assert read <= {"a" * 50_000, "b" * 50_000}


def test_stored_results_are_shared_and_merged(machines: tuple[Path, Path], server: ObjectServer):
    """What one machine stored another is not asked for; merged shards lose nothing."""
    import pyarrow as pa

    stores = [ResultStore(folder / "engine_results/verifier/e", "e") for folder in machines]
    keys = [f"{number:032x}" for number in range(20)]
    for number, key in enumerate(keys):
        stores[number % 2].write([key], pa.array([float(number)]))
    wanted = {key: row for row, key in enumerate(keys)}
    for folder in machines:
        store = ResultStore(folder / "engine_results/verifier/e", "e")
        found = {int(row) for rows, _ in store.read(wanted) for row in rows}
        assert set(range(20)) == found
        store.compact()
    assert len(server.objects()) < 10
    third = ResultStore(machines[0] / "engine_results/verifier/e", "e")
    assert set(range(20)) == {int(row) for rows, _ in third.read(wanted) for row in rows}


REFUSED = (
    "s3://KEY:hidden@bucket/x s3://hidden@bucket az://box/x?sig=hidden s3:// s3://box//x "
    "s3://box/../hidden https://hidden.example/x S3A://hidden/x"
)


@pytest.mark.parametrize("url", REFUSED.split())
def test_a_url_with_more_than_bucket_and_prefix_is_refused(url: str):
    """By a message that does not repeat it."""
    with pytest.raises(ConfigError) as refused:
        checked_url(url, "DECOMPOSERL_DATA")
    assert "hidden" not in str(refused.value)
    assert "DECOMPOSERL_DATA" in str(refused.value)


def test_no_error_has_a_secret(server: ObjectServer, tmp_path: Path):
    """Wrong key, no bucket, no server: the object's URL and the reason are said, nothing else."""
    file = tmp_path / "x"
    file.write_bytes(b"x")
    options = server.options(retries=0)
    none = {**options, "config": {**options["config"], "aws_endpoint_url": "http://127.0.0.1:9"}}
    for bucket in (Bucket("s3://no-such-bucket/p", options), Bucket(URL, none)):
        for action, given in {
            bucket.put: ("k", file),
            bucket.fetch: ("k", tmp_path / "y"),
            bucket.tags: (),
            bucket.read_small: ("k",),
            bucket.put_small: ("k", b"x", None),
        }.items():
            with pytest.raises(StorageError, match=bucket.url) as failed:
                action(*given)
            shown = f"{failed.value!r} {failed.value.__cause__!r}"
            assert KEY not in shown
            assert SECRET not in shown
            assert failed.value.__suppress_context__
    assert SECRET not in repr(Bucket(URL, options))


def test_a_plain_folder_is_none_of_this(tmp_path: Path):
    """Nothing is asked of a network, and paths are as they were."""
    replace_text(tmp_path / "a.parquet", ["a"])
    assert tmp_path == pull(tmp_path, "*.parquet", "a.parquet")
    send_folder(tmp_path)
    assert (tmp_path / "a.parquet").as_uri() == location(tmp_path / "a.parquet")
    assert mirror_of(tmp_path) is None
    discard(tmp_path / "a.parquet")
    assert [] == list(tmp_path.iterdir())


# The lock of an asset

BOOT = Path("/proc/sys/kernel/random/boot_id")


def test_an_assets_lock_holds_on_another_machine(machines: tuple[Path, Path]):
    """It names its holder, and is free afterwards; on one machine the file lock says it."""
    one, two = (lock_path(folder, "claims/hover") for folder in machines)
    with file_lock(one, "claims/hover", run="r-1"):
        said = rf"claims/hover .*process {os.getpid()} on \S+, run r-1"
        with pytest.raises(DecomposeRLError, match=said), file_lock(two, "claims/hover"):
            pytest.fail("two machines hold it")
    with file_lock(two, "claims/hover"):
        pass


def test_a_dead_holders_lock_expires_and_a_living_ones_does_not(machines: tuple[Path, Path]):
    """A renewed one stays beyond its time; one that another took over is reported."""
    one, two = (lock_path(folder, "x") for folder in machines)
    short, dead = Expiry(1.5, 0.3), Expiry(1.5, 99)
    with lease(one, "x", expiry=short):
        threading.Event().wait(2.5)
        with pytest.raises(DecomposeRLError, match="2 s"), lease(two, "x", expiry=short):
            pytest.fail("two machines hold it")
    took = lease(two, "x", wait_s=9, expiry=short)
    stalled = lease(one, "x", expiry=Expiry(1.5, 3))
    stalled.__enter__()
    took.__enter__()
    time.sleep(1)
    with pytest.raises(DecomposeRLError, match="another machine"):
        stalled.__exit__(None, None, None)
    took.__exit__(None, None, None)
    holding = lease(one, "x", expiry=dead)
    holding.__enter__()
    with lease(one, "x", expiry=short):  # the file lock on this machine says that it is dead
        pass


@pytest.mark.skipif(not BOOT.is_file(), reason="this system has no id of its start")
def test_a_machine_of_the_same_name_is_another_one(machines: tuple[Path, Path]):
    """Copies of one image have one name and one folder; a lock of theirs is not taken over."""
    one, mirror = lock_path(machines[0], "x"), mirror_of(machines[0])
    assert mirror is not None
    with lease(one, "x"):
        held = mirror.bucket.read_small(".locks/x.lock")
    assert held is not None
    other = held.data.replace(BOOT.read_bytes().strip(), b"another")
    mirror.bucket.put_small(".locks/x.lock", other, None)
    with pytest.raises(DecomposeRLError), lease(one, "x"):
        pytest.fail("two machines hold it")


@pytest.mark.parametrize("fault", ["503", "lost"])
def test_a_lock_whose_answer_is_lost_is_taken_once(
    machines: tuple[Path, Path], server: ObjectServer, fault: Fault
):
    """A repeated request is refused, and the holder, also one that renews, knows that it holds."""
    one, two = (lock_path(folder, "x") for folder in machines)
    server.fail(fault, "PUT", ".locks/x.lock")
    with lease(one, "x"), pytest.raises(DecomposeRLError), lease(two, "x"):
        pytest.fail("two machines hold it")
    assert {} == server.objects()
    short = Expiry(1.5, 0.3)
    with lease(one, "x", expiry=short):
        server.fail(fault, "PUT", ".locks/x.lock")
        time.sleep(3.5)
        assert not server.faults
        with pytest.raises(DecomposeRLError), lease(two, "x", expiry=short):
            pytest.fail("two machines hold it")


# The lock on one machine

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
    storage = {"module": "dagster._core.storage.event_log", "class": name}
    storage["config"] = {"base_dir": str(tmp_path / "other")}
    (tmp_path / "dagster.yaml").write_text(json.dumps({"event_log_storage": storage}), "utf-8")
    with opened(tmp_path) as (_, instance):
        assert name == type(instance.event_log_storage).__name__
