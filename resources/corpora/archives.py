"""The files in a zip or tar archive, one after another; the archive may be damaged or hostile."""

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# zipfile's error of a password or method is a RuntimeError, bz2's of damaged data an OSError.
DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, RuntimeError, OSError)
"""What reading an archive raises; an OSError with a number is of the disk."""
_LONG = (b"L", b"K", tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
"""Types of headers of any length: of a long name, a long link, and of facts."""
_CHUNK, _MOST_HEADER_BYTES = 1 << 20, 1_000_000


Member = tuple[Path, int, int, Callable[[], Any]]
"""A regular file: its own path, its size, where the archive has it, and how it is opened."""


class _Entry(tarfile.TarInfo):
    """An entry of a tar, whose header may say that it has any length."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:  # noqa: ANN401 - undocumented
        # The library reads such a header at once.
        if self.type in _LONG and not 0 <= self.size <= _MOST_HEADER_BYTES:
            raise tarfile.TarError(f"a header of {self.size:,} bytes; no corpus needs one")
        return super()._proc_member(archive)  # type: ignore[misc]


def archive_members(archive: Path) -> Iterator[Member]:
    """The regular files of a zip or tar archive, plain or compressed, in their order.

    Raises:
        DAMAGE: it is cut, damaged or neither.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in sorted(packed.infolist(), key=lambda info: info.header_offset):
                if not info.is_dir():
                    path, content = Path(info.filename), partial(packed.open, info)
                    yield path, info.file_size, info.header_offset, content
        return
    with archive.open("rb", _CHUNK) as file:
        try:
            unpacked = tarfile.open(fileobj=file, tarinfo=_Entry)  # noqa: SIM115 - as its file is
        except tarfile.ReadError as error:
            raise EOFError("it is no zip or tar archive, or is cut") from error
        for entry in filter(tarfile.TarInfo.isreg, unpacked):
            opened = partial(unpacked.extractfile, entry)
            yield Path(entry.name), entry.size, file.tell(), opened
        # tarfile takes an archive that is cut between two members for a whole one.
        if unpacked.fileobj.tell() != unpacked.offset + tarfile.BLOCKSIZE:
            raise EOFError("it ends in the middle")
