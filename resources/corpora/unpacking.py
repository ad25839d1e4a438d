"""Takes named files out of a downloaded zip or tar archive; nothing else of it reaches the disk.

A member is found by its name without folders and must be the only one of that name. Its own path
decides nothing but a refusal: an absolute one, or one with ``..``, is no archive of a corpus. Links
and other special members are refused, and what is unpacked is bounded.
"""

import gzip
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from decomposerl.errors import SourceFileError

_CHUNK = 1 << 20
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError)
_IGNORED = "__MACOSX"
_UNREADABLE = (NotImplementedError, RuntimeError)  # an unknown method, a password


def unpack(archive: Path, wanted: Mapping[str, Path], most: int) -> None:
    """Write each member of ``wanted`` to its path; at most ``most`` bytes together.

    Raises:
        SourceFileError: the archive is damaged, or a member is missing, doubled, unsafe or large.
        OSError: the disk is full, or a path cannot be written.
    """
    take = _from_zip if zipfile.is_zipfile(archive) else _from_tar
    writer = _Writer(archive.name, wanted, most)
    try:
        take(archive, writer)
    except _BROKEN as error:
        raise SourceFileError(f"{archive.name} is damaged{writer.where}: {error}") from error
    except _UNREADABLE as error:
        raise SourceFileError(f"{archive.name} cannot be read{writer.where}: {error}") from error
    writer.refuse_missing()


class _Writer:
    """Writes wanted members and keeps count of bytes and names."""

    def __init__(self, archive: str, wanted: Mapping[str, Path], most: int) -> None:
        self.archive, self.wanted, self.left = archive, wanted, most
        self.taken: set[str] = set()
        self.where = ""

    def wants(self, member: str) -> bool:
        """Whether the member is one of the wanted ones; an unsafe path is refused."""
        path = PurePosixPath(member.replace("\\", "/"))
        if _IGNORED in path.parts or path.name not in self.wanted:
            return False
        if path.is_absolute() or ".." in path.parts:
            raise SourceFileError(f"{self.archive}: the member {member} leaves its folder")
        if path.name in self.taken:
            raise SourceFileError(f"{self.archive} has several members {path.name}")
        return True

    def take(self, member: str, regular: bool, opened: Callable[[], IO[bytes] | None]) -> None:  # noqa: FBT001
        """Write one member."""
        name = PurePosixPath(member.replace("\\", "/")).name
        self.where = f" at {member}"
        source = opened() if regular else None
        if source is None:
            raise SourceFileError(f"{self.archive}: the member {member} is no regular file")
        with source, self.wanted[name].open("wb") as target:
            self._copy(source, target, member)
        self.taken.add(name)
        self.where = ""

    def _copy(self, source: IO[bytes], target: BinaryIO, member: str) -> None:
        while chunk := source.read(_CHUNK):
            self.left -= len(chunk)
            if self.left < 0:
                raise SourceFileError(f"{self.archive}: {member} unpacks to more than is expected")
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())

    def refuse_missing(self) -> None:
        """Refuse an archive without one of the wanted members."""
        missing = [name for name in self.wanted if name not in self.taken]
        if missing:
            raise SourceFileError(f"{self.archive} has no member {', '.join(missing)}")


def _from_zip(archive: Path, writer: _Writer) -> None:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if not info.is_dir() and writer.wants(info.filename):
                mode = info.external_attr >> 16
                regular = mode == 0 or (mode & 0o170000) in {0, 0o100000}
                writer.take(info.filename, regular, partial(opened.open, info))


def _from_tar(archive: Path, writer: _Writer) -> None:
    """As a stream, so that a member that is not wanted is bounded as well."""
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        bounded = _Bounded(
            gzip.GzipFile(fileobj=file) if packed else file, 2 * writer.left + _CHUNK, archive.name
        )
        with tarfile.open(fileobj=bounded, mode="r|") as opened:  # type: ignore[call-overload]
            for info in opened:
                if not info.isdir() and writer.wants(info.name):
                    writer.take(info.name, info.isreg(), partial(opened.extractfile, info))


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


def link_or_copy(source: Path, target: Path) -> None:
    """The same content under a second name, without its space where the disk can link."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
