"""One writer at a time: of an asset or partition in the data folder, or of a run's folder.

An advisory lock (``flock``) on a file that names its holder; a second writer is refused, or
waits. The kernel releases the lock with the process, so a lock is never stale. Readers need none,
because writers replace files by renaming.

Where a shared file system does not pass locks on (NFS with ``nolock`` or ``local_lock``), each
host locks only for itself. Where it has no locks at all, a warning is logged.
"""

import errno
import fcntl
import functools
import inspect
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from decomposerl.errors import ConfigError, DecomposeRLError

if TYPE_CHECKING:
    import dagster as dg

LOCKS = ".locks"
_POLL_S = 0.2
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_Asset = TypeVar("_Asset", bound=Callable[..., Any])
_held: dict[str, tuple[int, FileIO]] = {}
"""Locks of this process by file, with the thread that took them."""


def lock_path(data: Path, key: str) -> Path:
    """The lock of an asset, or of ``<asset>/<partition>``."""
    return data / LOCKS / f"{key.replace('/', '__')}.lock"


@contextmanager
def file_lock(file: Path, what: str, run: str = "", wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock file while ``what`` is written; wait ``wait_s`` seconds for another holder.

    Raises:
        DecomposeRLError: it is still held; the message names the process, host and run.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("a+b", buffering=0)
    except OSError as error:
        raise ConfigError(f"{what} cannot be written: {error}") from error
    try:
        _release_leftover(str(file))
        _take(handle, what, time.monotonic() + wait_s)
        _held[str(file)] = (threading.get_ident(), handle)
        _write_holder(handle, run)
        yield
    finally:
        if _held.get(str(file), (0, None))[1] is handle:
            del _held[str(file)]
        handle.close()


def locked_asset(asset: _Asset) -> _Asset:
    """An asset's function that holds the asset's lock from its first line until all is stored."""
    # Dagster stores what is yielded before it resumes, so a generator outlasts the writing.

    def writing(*args: object, **inputs: object) -> Iterator[Any]:
        import dagster as dg

        context = dg.AssetExecutionContext.get()
        with _lock_of_step(context):
            _warn_of_older_inputs(context)
            made = asset(*args, **inputs)
            if inspect.isgenerator(made):
                yield from made
            else:
                yield made

    if inspect.isgeneratorfunction(asset):
        return functools.wraps(asset)(writing)  # type: ignore[return-value]

    @functools.wraps(asset)  # Dagster reads the output's type only from a plain function
    def write(*args: object, **inputs: object) -> Iterator[Any]:
        return writing(*args, **inputs)

    return write  # type: ignore[return-value]


@contextmanager
def _lock_of_step(context: "dg.AssetExecutionContext") -> Iterator[None]:
    """The lock of the asset, or of the one partition, that a step writes.

    Raises:
        ConfigError: the run takes a range of partitions.
    """
    key = "/".join(context.asset_key.path)
    if context.assets_def.partitions_def is not None:
        if not context.has_partition_key:
            raise ConfigError(f"a run of {key} takes one partition: start one run for each")
        key = f"{key}/{context.partition_key}"
    with file_lock(lock_path(data_folder_of(context), key), key, context.run.run_id):
        yield


def _warn_of_older_inputs(context: "dg.AssetExecutionContext") -> None:
    """Name the inputs whose last run failed or was killed: what is on disk is older than that."""
    from resources.store.integrity import run_path

    base = data_folder_of(context)
    for parent in context.assets_def.keys_by_input_name.values():
        key = parent.to_user_string()
        files = lock_path(base, key), run_path(base, key)
        with suppress(OSError, ValueError, KeyError, TypeError):
            tried, made = (json.loads(file.read_text("utf-8")) for file in files)
            if tried["run"] not in {"", made["run_id"]}:
                context.log.warning(
                    f"{key}: its run of {tried['since']} did not finish; what the run that ended "
                    f"{made['finished_at']} wrote is used"
                )


def data_folder_of(context: "dg.AssetExecutionContext") -> Path:
    """The data folder that a step reads or writes.

    Raises:
        ConfigError: it has no resource that names one.
    """
    from resources.store.parquet import DataFolder, ParquetTables

    for resource in context.resources.original_resource_dict.values():
        if isinstance(resource, DataFolder | ParquetTables):
            return Path(resource.base_dir)
    raise ConfigError("a step has neither a data folder nor the tables' IO manager")


def _release_leftover(file: str) -> None:
    """Release a lock that an earlier, failed step of this thread left: it runs one at a time."""
    thread, handle = _held.get(file, (0, None))
    if handle is not None and thread == threading.get_ident():
        del _held[file]
        handle.close()


def _take(handle: FileIO, what: str, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DecomposeRLError(
                    f"{what} is being written by {_holder(handle)}: wait for it, or end it"
                ) from None
            time.sleep(_POLL_S)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            import dagster as dg

            dg.get_dagster_logger().warning(
                f"{handle.name}: the file system has no locks ({error.strerror}), so a second run "
                f"that writes {what} would not be noticed"
            )
            return
        else:
            return


def _write_holder(handle: FileIO, run: str) -> None:
    now = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": now, "run": run}
    with suppress(OSError):  # on a full disk the lock still holds
        handle.truncate(0)
        handle.write(json.dumps(who).encode())


def _holder(handle: FileIO) -> str:
    handle.seek(0)
    try:
        who = json.loads(handle.read())
        run = f", run {who['run']}" if who["run"] else ""
        return f"process {who['pid']} on {who['host']} since {who['since']}{run}"
    except (ValueError, KeyError, TypeError):  # being written right now, or edited
        return "another process"
