"""The files inside a page dump, streamed: nothing is unpacked to disk or held whole.

A dump is a tar or zip archive, plain or compressed, a folder of its unpacked files, or one file.
Its members are ``wiki_00.bz2``, ``wiki-001.jsonl`` and the like, each plain, ``.bz2`` or ``.gz``.
"""

import bz2
import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from decomposerl.errors import SourceFileError
from resources.corpora.pages import MAX_PAGE_BYTES

_NAME = re.compile(r"wiki[-_]?\d+(?:\.jsonl)?(?:\.bz2|\.gz)?")
_DATABASE = re.compile(r"(?!\._).*\.db")
_TAR = {".tar", ".tbz", ".tbz2", ".tgz"}
_CHUNK_BYTES, _BUFFER_BYTES = 1 << 20, 1 << 20
_DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, NotImplementedError)
_UNPACK: dict[str, Callable[[Any], Any]] = {
    ".bz2": bz2.BZ2File,
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
}


@dataclass(frozen=True, slots=True)
class Member:
    """One file of a dump: ``size`` is its packed bytes, ``crc`` theirs, None where unknown.

    ``position`` gives the bytes of the dump that were read so far.
    """

    dump: Path
    name: str
    size: int
    crc: int | None
    position: Callable[[], int]
    opened: Callable[[], Any]

    def checksum(self) -> int:
        """CRC-32 of the packed bytes, or the archive's own of the unpacked ones.

        Raises:
            SourceFileError: as ``lines``.
        """
        if self.crc is not None:
            return self.crc
        packed = _Packed(self.opened())
        with explained(self.dump, self.name):
            return packed.rest()

    def lines(self) -> Iterator[bytes | int | None]:
        """The lines; None for one above ``MAX_PAGE_BYTES``; at the end the checksum.

        Raises:
            SourceFileError: the archive is damaged here; the message names it and the member.
        """
        with explained(self.dump, self.name):
            packed = _Packed(self.opened())
            ending = PurePosixPath(self.name).suffix
            stream = _UNPACK[ending](packed) if ending in _UNPACK else packed
            yield from _lines(stream)
            crc = packed.rest()
            yield crc if self.crc is None else self.crc

    def chunks(self) -> Iterator[bytes]:
        """The unpacked bytes.

        Raises:
            SourceFileError: as ``lines``.
        """
        with explained(self.dump, self.name), self.opened() as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk


@contextmanager
def explained(dump: Path, member: str = "") -> Iterator[None]:
    """Damage in the block as an error that names the dump and the member.

    Raises:
        SourceFileError: the archive is damaged, encrypted or of an unknown compression.
        OSError: the disk fails.
    """
    try:
        yield
    except _DAMAGE as error:
        raise _damaged(dump, member, error) from error
    except (OSError, RuntimeError) as error:  # bz2's has no number, zipfile's is of a password
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _damaged(dump, member, error) from error


def dump_members(dump: Path) -> Generator[Member, None, None]:
    """The members that hold pages, in the archive's order; each is read before the next is taken.

    Raises:
        SourceFileError: the archive is damaged, or no archive.
    """
    with explained(dump):
        if dump.is_dir():
            files = [path for path in sorted(dump.rglob("*")) if path.is_file()]
            yield from _files(dump, [path for path in files if _NAME.fullmatch(path.name)])
        elif zipfile.is_zipfile(dump):
            yield from _zip_members(dump, _NAME)
        elif set(dump.suffixes) & _TAR or tarfile.is_tarfile(dump):
            yield from _tar_members(dump)
        elif _NAME.fullmatch(dump.name):
            yield from _files(dump, [dump])
        elif dump.suffix == ".db":
            raise SourceFileError(f"{dump} is a database, no dump: it needs no build")
        else:
            raise SourceFileError(
                f"{dump}: neither a zip nor a tar archive of pages; a .zip file may lack its end: "
                "download it again"
            )


@contextmanager
def packed_database(dump: Path) -> Iterator[Member | None]:
    """The database that a zip archive holds in the place of pages; None for any other dump.

    Raises:
        SourceFileError: as ``dump_members``.
    """
    if dump.is_dir() or not zipfile.is_zipfile(dump):
        yield None
        return
    with closing(dump_members(dump)) as pages, closing(_zip_members(dump, _DATABASE)) as databases:
        with explained(dump):
            found = next(pages, None) or next(databases, None)
        yield found if found is not None and found.name.endswith(".db") else None


def dump_bytes(dump: Path) -> int:
    """The bytes of the file, or of all files of the folder."""
    if dump.is_dir():
        return sum(path.stat().st_size for path in dump.rglob("*") if path.is_file())
    return dump.stat().st_size


def _damaged(dump: Path, member: str, error: Exception) -> SourceFileError:
    where = f"{dump}: {member}" if member else str(dump)
    return SourceFileError(f"{where}: damaged: {error}; download the dump again")


def _files(dump: Path, files: list[Path]) -> Iterator[Member]:
    before = 0
    for path in files:
        size = path.stat().st_size
        with path.open("rb", _BUFFER_BYTES) as raw:
            name = path.name if path == dump else path.relative_to(dump).as_posix()
            position = partial(lambda start, stream: start + stream.tell(), before, raw)
            yield Member(dump, name, size, None, position, partial(_itself, raw))
        before += size


def _zip_members(dump: Path, names: re.Pattern[str]) -> Generator[Member, None, None]:
    with dump.open("rb") as raw, zipfile.ZipFile(raw) as archive:
        for info in sorted(archive.infolist(), key=lambda one: one.header_offset):
            if info.is_dir() or not names.fullmatch(PurePosixPath(info.filename).name):
                continue
            start, size = info.header_offset, info.compress_size
            position = partial(_within, raw, start, start + size)
            opened = partial(archive.open, info)
            yield Member(dump, info.filename, size, info.CRC, position, opened)


def _within(raw: BinaryIO, start: int, end: int) -> int:
    """Where the archive was read last; its directory, which is read first, is at its end."""
    return min(max(start, raw.tell()), end)


def _tar_members(dump: Path) -> Iterator[Member]:
    with dump.open("rb", _BUFFER_BYTES) as raw:
        stream = _tar_stream(dump, raw)
        archive = tarfile.open(fileobj=stream, mode="r:")  # noqa: SIM115 - the stream is closed
        while (info := archive.next()) is not None:
            vars(archive)["members"].clear()  # thousands, none needed again
            if info.isfile() and _NAME.fullmatch(PurePosixPath(info.name).name):
                opened = partial(archive.extractfile, info)
                yield Member(dump, info.name, info.size, None, raw.tell, opened)
        # tarfile takes an archive that is cut between two members for a whole one.
        if stream.tell() != archive.offset + tarfile.BLOCKSIZE:
            raise EOFError("it ends in the middle")


def _tar_stream(dump: Path, raw: BinaryIO) -> BinaryIO:
    ending = {".tbz2": ".bz2", ".tbz": ".bz2", ".tgz": ".gz"}.get(dump.suffix, dump.suffix)
    unpacked = _UNPACK[ending](raw) if ending in _UNPACK else raw
    return cast("BinaryIO", unpacked)


def _itself(raw: BinaryIO) -> BinaryIO:
    return raw


class _Packed:
    """A member's packed bytes, with their CRC-32."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401 - any binary stream
        self._raw, self._crc = raw, 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._raw.read(size)
        self._crc = zlib.crc32(data, self._crc)
        return data

    def rest(self) -> int:
        """Read to the end, which also lets zipfile compare its checksum; the CRC of all."""
        while self.read(_CHUNK_BYTES):
            pass
        return self._crc


def _lines(stream: Any) -> Iterator[bytes | None]:  # noqa: ANN401 - as above
    """Lines without their breaks; blank ones are left out, too long ones None."""
    pending, cut = b"", False
    while chunk := stream.read(_CHUNK_BYTES):
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            if cut or line.strip():
                yield None if cut else line
            cut = False
        if len(pending) > MAX_PAGE_BYTES:
            pending, cut = b"", True
    if cut or pending.strip():
        yield None if cut else pending
