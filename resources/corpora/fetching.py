"""Fetches the files of a corpus into the corpora folder and holds them to their checksums.

What is there already is not fetched again. A published checksum decides first; the SHA-256 of each
file that was fetched is recorded in ``corpora.lock.toml`` and decides from then on. Unfinished
downloads are in ``.downloads`` of the folder, where the next fetch continues them.
"""

import fnmatch
import gzip
import hashlib
import io
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, Literal

from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Corpus
from decomposerl.errors import SourceError, SourceFileError
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import LOCK_FILE, Lock, read_lock, sha256_of, update_lock
from resources.corpora.status import difference
from resources.corpora.transfer import bring, explained_full_disk, require_space
from resources.hub.access import hub_failures, hub_package
from resources.store.run_lock import file_lock
from resources.store.temporary import aside, put_in_place

State = Literal["fetched", "kept", "found"]
"""``kept``: as it was fetched before; ``found``: put there by a person."""
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError)
_MOST_HEADER_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file of the corpora folder, where it came from, and its SHA-256 (empty: not computed).

    ``replaced`` is the new name of the file that was there before (empty: there was none).
    """

    path: str
    state: State
    sha256: str = ""
    replaced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches into ``root``.

    ``mirror`` is a server that has the files of ``https://host/path`` as ``/host/path``.
    ``accept_changed`` takes content that differs from the recorded or published checksum, and
    records its own. ``wait`` sleeps between attempts.
    """

    root: Path
    mirror: str = ""
    accept_changed: bool = False
    wait: Callable[[float], object] = time.sleep

    @property
    def _lock_file(self) -> Path:
        return self.root / LOCK_FILE

    @property
    def _parts(self) -> Path:
        return self.root / ".downloads"

    def _lock(self, name: str) -> Lock:
        return read_lock(self._lock_file).get(name, Lock())

    def accepted(self, corpus: Corpus) -> bool:
        """Whether a person accepted these terms of the corpus before."""
        return self._lock(corpus.name).accepted.split(" ")[0] == _terms(corpus)

    def accept(self, corpus: Corpus) -> None:
        """Record that a person accepted the terms of the corpus today."""
        today = datetime.now().astimezone().date().isoformat()
        update_lock(self._lock_file, corpus.name, {}, accepted=f"{_terms(corpus)} on {today}")

    def fetch(self, access: Access, *, pages: bool) -> Iterator[Fetched]:
        """Bring the files of a corpus, with or without page databases; each as it is there.

        Raises:
            SourceError: a server refuses or breaks off, the disk is full, or another process
                fetches into this folder.
            SourceFileError: a file, fetched or found, is not the published or recorded one, or an
                archive is damaged.
            EngineMissing: a corpus of the hub, and ``huggingface_hub`` is not installed.
        """
        with file_lock(self._parts / "fetch.lock", str(self.root)):
            for download in access.wanted(pages=pages):
                yield from self._bring(access.name, download)

    def _bring(self, name: str, download: Download) -> Iterator[Fetched]:
        lock = self._lock(name)
        states = [self._there(name, download, path, lock) for path in download.files.values()]
        there = {file.path: file for file in states if file is not None}
        yield from there.values()
        wanted = {member: path for member, path in download.files.items() if path not in there}
        if not wanted:
            return
        digest = hashlib.sha256(download.url.encode()).hexdigest()[:8]
        whole = self._parts / f"{digest}_{download.url.rpartition('/')[2]}"
        try:
            with aside(self._parts / "new") as new, explained_full_disk(download.name, self.root):
                new.mkdir()
                placed = self._renewed(name, download, wanted, lock, whole, new)
        except SourceFileError:  # the next fetch asks for it again
            whole.unlink(missing_ok=True)
            raise
        whole.unlink(missing_ok=True)
        yield from placed

    def _renewed(
        self,
        name: str,
        download: Download,
        wanted: Mapping[str, str],
        lock: Lock,
        whole: Path,
        new: Path,
    ) -> list[Fetched]:
        """Fetch to ``whole``, unpack or copy into the folder ``new``, and rename to the paths."""
        files, revision = {path: new / Path(path).name for path in wanted.values()}, ""
        if download.repo_id:
            snapshot = _snapshot(download.repo_id, list(wanted), lock.revision)
            for pattern, path in wanted.items():
                shutil.copyfile(_matching(snapshot, pattern), files[path])
            revision = snapshot.name
        else:
            bring(self._mirrored(download), whole, self.wait)
            if (wrong := difference(download, whole)) and not self.accept_changed:
                raise SourceFileError(
                    f"{download.name}: {wrong} (read in {download.checked_in}); nothing was kept. "
                    "If the publisher has changed it, --accept-changed takes it as it is"
                )
            if download.archive:
                members = {member: files[path] for member, path in wanted.items()}
                unpack(whole, members, download.most_bytes)
            else:
                files = {download.name: whole}
        digests = {path: sha256_of(file) for path, file in files.items()}
        for path, digest in digests.items():
            if lock.sha256.get(path, digest) != digest and not self.accept_changed:
                raise SourceFileError(
                    f"{path} has SHA-256 {digest}, the first fetch recorded {lock.sha256[path]} in "
                    f"{self._lock_file}; nothing was kept. --accept-changed takes the new content"
                )
        # Recorded first: a fetch that is killed among the renames knows its files afterwards, and
        # continues at the same commit of the hub.
        update_lock(self._lock_file, name, digests, revision=revision)
        return [self._placed(path, file, digests[path]) for path, file in files.items()]

    def _there(self, name: str, download: Download, path: str, lock: Lock) -> Fetched | None:
        """The file if it is there and is not a damaged copy of the recorded one.

        A person's file, perhaps a ``.gz``, has to be the published one, or is recorded as it is
        with ``accept_changed``.
        """
        target, digest = self.root / path, lock.sha256.get(path, "")
        if not target.is_file():
            return Fetched(path, "found") if FolderCorpora(self.root).exists(path) else None
        if digest:
            return Fetched(path, "kept", digest) if sha256_of(target) == digest else None
        wrong = "" if download.archive else difference(download, target)
        if wrong and not self.accept_changed:
            raise SourceFileError(
                f"{path} was there before and is damaged or another version: {wrong} (read in "
                f"{download.checked_in}). Move it away and run the command again to fetch the "
                "published one, or keep it with --accept-changed"
            )
        if wrong:
            digest = sha256_of(target)
            update_lock(self._lock_file, name, {path: digest})
        return Fetched(path, "found", digest)

    def _mirrored(self, download: Download) -> Download:
        if not self.mirror:
            return download
        address = f"{self.mirror.rstrip('/')}/{download.url.partition('://')[2]}"
        return replace(download, url=address, redirects=())

    def _placed(self, path: str, new: Path, digest: str) -> Fetched:
        """Rename a new file to its path; another one that is there keeps a name: none is lost."""
        target, replaced = self.root / path, ""
        if target.is_file():
            names = (target.with_name(f"{target.name}.replaced-{number}") for number in count(1))
            replaced = target.replace(next(name for name in names if not name.exists())).name
        target.parent.mkdir(parents=True, exist_ok=True)
        put_in_place(new, target)
        return Fetched(path, "fetched", digest, replaced)


def _snapshot(repo: str, patterns: Sequence[str], commit: str) -> Path:
    """A folder with the files of a dataset at a commit, else at the newest; its name is the commit.

    The hub's client resumes and retries, and keeps the files in its own cache. The path to the hub
    is tested against a server on loopback that speaks its protocol.
    """
    hub, page = hub_package(), f"https://huggingface.co/datasets/{repo}"
    where = {"repo_type": "dataset", "revision": commit or None}
    try:
        return Path(hub.snapshot_download(repo, allow_patterns=list(patterns), **where))
    except hub.errors.RepositoryNotFoundError as error:  # as a gated one is to the unknown
        raise SourceError(
            f"{repo} is gated: accept its terms at {page}, then put a token of that account "
            "into HF_TOKEN (or: hf auth login)"
        ) from error
    except hub_failures(hub) as error:
        why = " ".join(str(error).split())
        raise SourceError(f"{repo} could not be fetched: {why} ({page})") from error


def _matching(snapshot: Path, pattern: str) -> Path:
    """The one file of a repository that a name or pattern means."""
    here = (str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file())
    matches = sorted(fnmatch.filter(here, pattern))
    if len(matches) != 1:
        shown = ", ".join(matches) or "none"
        raise SourceFileError(
            f"{len(matches)} files match '{pattern}' at revision {snapshot.name}: {shown}"
        )
    return snapshot / matches[0]


def _terms(corpus: Corpus) -> str:
    """A short hash of licence and terms: other terms are shown again."""
    return hashlib.sha256(f"{corpus.license}\n{corpus.terms}".encode()).hexdigest()[:12]


def unpack(archive: Path, wanted: Mapping[str, Path], most: int) -> None:
    """Write the members of a zip or tar archive to the paths of ``wanted``.

    A member is found by its name without folders and must be the only regular file of that name;
    its own path decides nothing. All members together have at most ``most`` bytes.

    Raises:
        SourceError: the disk has no room for a member.
        SourceFileError: the archive is damaged or too large, or a member is missing or doubled.
        OSError: the disk is full, or a path cannot be written.
    """
    missing = set(wanted)
    try:
        for path, size, opened in _members(archive):
            name = path.name
            most -= size  # of every member: a tar is unpacked from its start
            if most < 0:
                raise SourceFileError(f"{archive.name}: {path} unpacks to more than is expected")
            if name not in wanted or "__MACOSX" in path.parts:
                continue
            if name not in missing:
                raise SourceFileError(f"{archive.name} has several members {name}")
            missing.remove(name)
            require_space(name, archive.parent, size)
            with opened() as source, wanted[name].open("wb") as file:
                shutil.copyfileobj(source, file)
    except (*_DAMAGED, RuntimeError) as error:  # a method, a password
        raise SourceFileError(
            f"{archive.name} is damaged or cannot be read: {error}; run the same command again, "
            "which downloads it anew"
        ) from error
    if missing:
        raise SourceFileError(f"{archive.name} has no file {', '.join(sorted(missing))}")


def _members(archive: Path) -> Iterator[tuple[Path, int, Callable[[], IO[bytes]]]]:
    """Path, size and how it is opened of each regular file."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    yield Path(info.filename), info.file_size, partial(packed.open, info)
        return
    with archive.open("rb") as file:
        gzipped = file.peek(2).startswith(b"\x1f\x8b")
        stream = _Headers(gzip.GzipFile(fileobj=file) if gzipped else file)
        with tarfile.open(fileobj=stream, mode="r:") as unpacked:
            for entry in filter(tarfile.TarInfo.isreg, unpacked):
                opened = partial(unpacked.extractfile, entry)
                yield Path(entry.name), entry.size, opened  # type: ignore[misc]


class _Headers(io.BufferedReader):
    """A tar's bytes: ``tarfile`` reads a header at once, however long it says that it is."""

    def read(self, size: int | None = -1) -> bytes:
        """At most as much as a header or a piece of a member needs."""
        if size is None or not 0 <= size <= _MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size or 0:,} bytes; no corpus needs one")
        return super().read(size)
