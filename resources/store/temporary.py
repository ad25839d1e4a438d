"""Atomic writes: files and folders are written under a temporary name and renamed.

A temporary name identifies its writer: ``.<name>.<machine>-<process>-<start>.<ending>``. Before
writing, files of killed writers are removed: those of this machine whose process is gone, and
those of other machines, containers or earlier versions that are an hour old.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from errno import EIO, EISDIR
from functools import lru_cache
from pathlib import Path

_ABANDONED_S = 3600.0
_ENDINGS = "partial|building|writing"
_NAME = re.compile(rf"\..*\.([0-9a-f]{{8}})-(\d+)-([0-9a-f]{{8}})\.(?:{_ENDINGS})(?:\.wal)?")
_EARLIER = re.compile(r"\..*\.\d+\.partial|\..*\.building(?:\.wal)?|\.writing-.*")
_START = secrets.token_hex(4)  # process numbers are reused


def replace_file(target: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``target``, flush it to disk, rename it.

    Raises:
        OSError: it cannot be written; ``filename`` is ``target``.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with naming(target), aside(target) as temporary:
        write(temporary)
        put_in_place(temporary, target)


@contextlib.contextmanager
def naming(target: Path) -> Iterator[None]:
    """Name a file in what writing it raises: a full disk, for example, is reported without one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or EIO, error.strerror or str(error), str(target)) from error


def put_in_place(temporary: Path, target: Path) -> None:
    """Flush a file that was written beside ``target`` to disk and rename it.

    Raises:
        OSError: it cannot be done.
    """
    flush(temporary)
    temporary.replace(target)


def replace_text(target: Path, parts: Iterable[str]) -> None:
    """Write a text of many parts atomically, in UTF-8.

    Raises:
        OSError: as ``replace_file``.
    """

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(parts)

    replace_file(target, write)


def require_writable(target: Path) -> None:
    """Check that ``replace_file`` could write ``target`` now.

    Raises:
        OSError: it could not; ``filename`` is ``target``.
    """
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with naming(target), aside(target) as temporary:
        temporary.touch()


@contextlib.contextmanager
def aside(target: Path, ending: str = "partial") -> Iterator[Path]:
    """A temporary name beside ``target``; whatever is there at the end is removed."""
    temporary = temporary_of(target, ending)
    try:
        yield temporary
    finally:
        _remove(temporary)
        _remove(temporary.with_name(f"{temporary.name}.wal"))  # DuckDB's


def temporary_of(target: Path, ending: str = "partial") -> Path:
    """The temporary name beside ``target`` of this process, after removing those of dead ones."""
    remove_abandoned(target.parent)
    writer = f"{machine()}-{os.getpid()}-{_START}"
    return target.with_name(f".{target.name}.{writer}.{ending}")


def remove_abandoned(folder: Path) -> None:
    """Remove what dead writers left in ``folder``; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name.startswith(".") and _abandoned(path):
                with contextlib.suppress(OSError):
                    _remove(path)


def _abandoned(path: Path) -> bool:
    named = _NAME.fullmatch(path.name)
    if named is None and _EARLIER.fullmatch(path.name) is None:
        return False
    if named is not None and named[1] == machine():
        process = int(named[2])
        return named[3] != _START if process == os.getpid() else not _alive(process)
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED_S
    except FileNotFoundError:
        return False


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's process
        return True
    return True


@lru_cache(maxsize=1)
def machine() -> str:
    """8 hex digits of the process namespace: a machine, or a container."""
    space = Path("/proc/self/ns/pid")
    known = f"{socket.gethostname()} {space.readlink() if space.is_symlink() else ''}"
    return hashlib.sha256(known.encode()).hexdigest()[:8]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def folder_aside(target: Path) -> Path:
    """Where a folder with a single writer is written before ``publish_folder`` renames it."""
    return target.with_name(f".{target.name}.partial")


def empty_folder(path: Path) -> None:
    """Create the folder, without what it may contain."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)


def publish_folder(written: Path, target: Path) -> None:
    """Flush every file of ``written`` to disk and rename it to ``target``.

    An earlier ``target`` is renamed just before and then removed.
    """
    for path in (*sorted(written.rglob("*")), written):
        flush(path)
    if target.exists():
        old = target.with_name(f".{target.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        written.rename(target)
        shutil.rmtree(old)
    else:
        written.rename(target)
    flush(target.parent)


def flush(path: Path) -> None:
    """Write a file or folder that is already there through to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
