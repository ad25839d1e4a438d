"""Takes named files out of a downloaded zip or tar archive; nothing else of it reaches the disk.

A member is found by its name without folders and must be the only one of that name. Its own path
decides nothing but a refusal: an absolute one, or one with ``..``, is no archive of a corpus. Links
and other special members are refused, and what is unpacked is bounded.
"""

import gzip
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from decomposerl.errors import SourceFileError

_CHUNK = 1 << 20
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError)
_UNREADABLE = (NotImplementedError, RuntimeError)  # an unknown method, a password
_Member = tuple[str, bool, Callable[[], IO[bytes] | None]]
"""A path in the archive, whether it is a regular file, and how it is opened."""


def unpack(archive: Path, wanted: Mapping[str, Path], most: int) -> None:
    """Write each member of ``wanted`` to its path; at most ``most`` bytes together.

    Raises:
        SourceFileError: the archive is damaged, or a member is missing, doubled, unsafe or large.
        OSError: the disk is full, or a path cannot be written.
    """
    left, taken, member = most, set[str](), ""
    try:
        members = _zip(archive) if zipfile.is_zipfile(archive) else _tar(archive, most)
        for member, regular, opened in members:
            path = PurePosixPath(member.replace("\\", "/"))
            if "__MACOSX" in path.parts or path.name not in wanted:
                continue
            if path.is_absolute() or ".." in path.parts:
                raise SourceFileError(f"{archive.name}: the member {member} leaves its folder")
            if path.name in taken:
                raise SourceFileError(f"{archive.name} has several members {path.name}")
            source = opened() if regular else None
            if source is None:
                raise SourceFileError(f"{archive.name}: the member {member} is no regular file")
            with source:
                left = _copied(source, wanted[path.name], left, f"{archive.name}: {member}")
            taken.add(path.name)
    except (*_BROKEN, *_UNREADABLE) as error:
        what = "is damaged" if isinstance(error, _BROKEN) else "cannot be read"
        where = f" at {member}" if member else ""
        raise SourceFileError(f"{archive.name} {what}{where}: {error}") from error
    if missing := [name for name in wanted if name not in taken]:
        raise SourceFileError(f"{archive.name} has no member {', '.join(missing)}")


def _copied(source: IO[bytes], target: Path, left: int, what: str) -> int:
    """Write a member; the bytes that are left for others."""
    with target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise SourceFileError(f"{what} unpacks to more than is expected")
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return left


def _zip(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            kind = (info.external_attr >> 16) & 0o170000
            if not info.is_dir():
                yield info.filename, kind in {0, 0o100000}, partial(opened.open, info)


def _tar(archive: Path, most: int) -> Iterator[_Member]:
    """As a stream, so that a member that is not wanted is bounded as well."""
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        plain = gzip.GzipFile(fileobj=file) if packed else file
        bounded: Any = _Bounded(plain, 2 * most + _CHUNK, archive.name)
        with tarfile.open(fileobj=bounded, mode="r|") as opened:
            for info in opened:
                if not info.isdir():
                    yield info.name, info.isreg(), partial(opened.extractfile, info)


class _Bounded:
    """A stream that refuses to give more bytes than expected."""

    def __init__(self, stream: "gzip.GzipFile | IO[bytes]", left: int, name: str) -> None:
        self.stream, self.left, self.name = stream, left, name

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise SourceFileError(f"{self.name} unpacks to more than is expected")
        return data
