"""Fetches the files of a corpus into the corpora folder and holds them to their checksums.

What is there already is not fetched again. A published checksum decides first; the SHA-256 of each
file that was fetched is recorded in ``corpora.lock.toml`` and decides from then on. Unfinished
downloads are in ``.downloads`` of the folder, where the next fetch continues them.
"""

import fnmatch
import gzip
import hashlib
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Corpus, HubLocation
from decomposerl.errors import SourceError, SourceFileError
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import (
    LOCK_FILE,
    Lock,
    read_lock,
    set_aside,
    sha256_of,
    update_lock,
)
from resources.corpora.status import difference, missing_files
from resources.corpora.transfer import bring, explained_full_disk, remove_part
from resources.hub.access import folder_commit, hub_failures, hub_folder, hub_package
from resources.store.run_lock import file_lock
from resources.store.temporary import aside, put_in_place

State = Literal["fetched", "kept", "found"]
"""``kept``: as it was fetched before; ``found``: put there by a person."""
_PARTS = ".downloads"
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError)


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
    records its own. ``endpoint`` and ``revision`` are for the hub: another server or a folder, and
    a branch or commit to pin in place of the locked one. ``wait`` sleeps between attempts.
    """

    root: Path
    mirror: str = ""
    accept_changed: bool = False
    endpoint: str | None = None
    revision: str | None = None
    wait: Callable[[float], object] = time.sleep

    @property
    def _lock_file(self) -> Path:
        return self.root / LOCK_FILE

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
        with file_lock(self.root / _PARTS / "fetch.lock", str(self.root)):
            if access.hub is not None:
                yield from self._from_hub(access, access.hub)
            for download in access.wanted(pages=pages):
                yield from self._bring(access.name, download)

    def _from_hub(self, access: Access, hub: HubLocation) -> Iterator[Fetched]:
        """The files at the locked commit, else at the newest, which is locked; a person's stay."""
        lock = self._lock(hub.repo_id) if self.revision is None else Lock()
        if not lock.revision and self.revision is None and not missing_files(self.root, access):
            yield from (Fetched(path, "found") for path in access.files())
            return
        there = {path: self._digest(path) for _, path in hub.files}
        if lock.revision and set(there.values()) == set(lock.sha256.values()):
            yield from (Fetched(path, "kept", digest) for path, digest in there.items())
            return
        snapshot = hub_snapshot(hub, lock.revision or self.revision, self.endpoint)
        names = {path: _file_of(snapshot, wanted, lock) for wanted, path in hub.files}
        digests = {
            path: self._held(name, sha256_of(snapshot / name), lock.sha256)
            for path, name in names.items()
        }
        # All are pinned before one is copied: a fetch that broke off continues at the same commit.
        locked = {name: digests[path] for path, name in names.items()}
        update_lock(self._lock_file, hub.repo_id, locked, revision=snapshot.name)
        for path, name in names.items():
            if there[path] == digests[path]:
                yield Fetched(path, "kept", digests[path])
                continue
            with aside(self._target(path)) as copy:
                shutil.copyfile(snapshot / name, copy)
                yield self._placed(path, copy, digests[path])

    def _bring(self, name: str, download: Download) -> Iterator[Fetched]:
        recorded = self._lock(name).sha256
        found = [self._there(name, download, path, recorded) for _, path in download.files]
        there = {file.path: file for file in found if file is not None}
        yield from there.values()
        wanted = {path: member for member, path in download.files if path not in there}
        if not wanted:
            return
        part = self.root / _PARTS / hashlib.sha256(download.url.encode()).hexdigest()[:16]
        bring(self._mirrored(download), part, self.wait)
        wrong = difference(download, part)
        if wrong and not self.accept_changed:
            remove_part(part)
            raise SourceFileError(
                f"{download.name}: {wrong} (read in {download.checked_in}); nothing was kept. If "
                "the publisher has changed it, --accept-changed takes it as it is"
            )
        with ExitStack() as stack, explained_full_disk(download.name, self.root):
            made = {path: stack.enter_context(aside(self._target(path))) for path in wanted}
            if download.archive:
                members = {member: made[path] for path, member in wanted.items()}
                unpack(part, members, download.most_bytes)
            else:
                shutil.move(part, made[download.name])
            digests = {
                path: self._held(path, sha256_of(file), recorded) for path, file in made.items()
            }
            # Recorded first: a fetch that is killed among the renames knows its files afterwards.
            update_lock(self._lock_file, name, digests)
            placed = [self._placed(path, file, digests[path]) for path, file in made.items()]
        remove_part(part)
        yield from placed

    def _there(
        self, name: str, download: Download, path: str, recorded: Mapping[str, str]
    ) -> Fetched | None:
        """The file if it is there and is not a damaged copy of the recorded one.

        A person's file, perhaps a ``.gz``, has to be the published one, or is recorded as it is
        with ``accept_changed``.
        """
        target, digest = self.root / path, recorded.get(path)
        if not FolderCorpora(self.root).exists(path):
            return None
        if digest is not None and target.is_file():
            return Fetched(path, "kept", digest) if sha256_of(target) == digest else None
        wrong = difference(download, target) if target.is_file() and not download.archive else ""
        if not wrong:
            return Fetched(path, "found")
        if not self.accept_changed:
            raise SourceFileError(
                f"{path} was there before and is damaged or another version: {wrong} (read in "
                f"{download.checked_in}). Move it away and run the command again to fetch the "
                "published one, or keep it with --accept-changed"
            )
        digest = sha256_of(target)
        update_lock(self._lock_file, name, {path: digest})
        return Fetched(path, "found", digest)

    def _mirrored(self, download: Download) -> Download:
        if not self.mirror:
            return download
        address = f"{self.mirror.rstrip('/')}/{download.url.partition('://')[2]}"
        return replace(download, url=address, redirects=())

    def _held(self, name: str, digest: str, recorded: Mapping[str, str]) -> str:
        """The digest of new content, which has to be the recorded one."""
        if recorded.get(name, digest) != digest and not self.accept_changed:
            raise SourceFileError(
                f"{name} has SHA-256 {digest}, the first fetch recorded {recorded[name]} in "
                f"{self._lock_file}; nothing was kept. --accept-changed takes the new content"
            )
        return digest

    def _placed(self, path: str, new: Path, digest: str) -> Fetched:
        """Rename a new file to its path, and what is there before it."""
        replaced = set_aside(self.root / path)
        put_in_place(new, self.root / path)
        return Fetched(path, "fetched", digest, replaced)

    def _target(self, path: str) -> Path:
        """Where a file comes to be, in a folder that is there."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        return self.root / path

    def _digest(self, path: str) -> str:
        return sha256_of(self.root / path) if (self.root / path).is_file() else ""


def _file_of(snapshot: Path, wanted: str, lock: Lock) -> str:
    """The file of a repository that a name or pattern means; the locked one comes first."""
    here = (str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file())
    matches = fnmatch.filter(lock.sha256, wanted) or sorted(fnmatch.filter(here, wanted))
    if len(matches) != 1 or not (snapshot / matches[0]).is_file():
        raise SourceFileError(
            f"{len(matches)} files match '{wanted}' at revision {snapshot.name}: "
            f"{', '.join(matches) or 'none'}"
        )
    return matches[0]


def _terms(corpus: Corpus) -> str:
    """A short hash of licence and terms: other terms are shown again."""
    return hashlib.sha256(f"{corpus.license}\n{corpus.terms}".encode()).hexdigest()[:12]


def unpack(archive: Path, wanted: Mapping[str, Path], most: int) -> None:
    """Write the members of a zip or tar archive to the paths of ``wanted``; at most ``most`` bytes.

    A member is found by its name without folders and must be the only one of that name. Its own
    path decides nothing but a refusal: an absolute one, or one with ``..``, is no archive of a
    corpus. Links and other special members are refused.

    Raises:
        SourceFileError: the archive is damaged, or a member is missing, doubled, unsafe or large.
        OSError: the disk is full, or a path cannot be written.
    """
    taken = Counter[str]()
    try:
        for path, regular, size, opened in _members(archive):
            most -= size  # of every member: a tar is unpacked from its start
            if path.name not in wanted or "__MACOSX" in path.parts:
                continue
            taken[path.name] += 1
            if path.is_absolute() or ".." in path.parts:
                raise SourceFileError(f"{archive.name}: the member {path} leaves its folder")
            if most < 0:
                raise SourceFileError(f"{archive.name}: {path} unpacks to more than is expected")
            source = opened() if regular else None
            if source is None or taken[path.name] > 1:
                why = (
                    f"has several members {path.name}" if regular else f"{path} is no regular file"
                )
                raise SourceFileError(f"{archive.name}: {why}")
            with source, wanted[path.name].open("wb") as file:
                shutil.copyfileobj(source, file)
    except (*_DAMAGED, NotImplementedError, RuntimeError) as error:  # a method, a password
        raise SourceFileError(f"{archive.name} is damaged or cannot be read: {error}") from error
    if missing := wanted.keys() - taken.keys():
        raise SourceFileError(f"{archive.name} has no member {', '.join(sorted(missing))}")


_Member = tuple[PurePosixPath, bool, int, Callable[[], IO[bytes] | None]]


def _members(archive: Path) -> Iterator[_Member]:
    """Path, whether it is a regular file, its size, and how it is opened; no folders."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in (info for info in packed.infolist() if not info.is_dir()):
                regular = stat.S_IFMT(info.external_attr >> 16) in {0, stat.S_IFREG}
                path = PurePosixPath(info.filename.replace("\\", "/"))
                yield path, regular, info.file_size, partial(packed.open, info)
        return
    with tarfile.open(archive) as unpacked:
        for entry in (entry for entry in unpacked if not entry.isdir()):
            opened = partial(unpacked.extractfile, entry)
            yield PurePosixPath(entry.name), entry.isreg(), entry.size, opened


def hub_snapshot(location: HubLocation, revision: str | None, endpoint: str | None) -> Path:
    """A folder with the corpus's files at a branch or commit (None: ``main``).

    Its name is the commit. ``endpoint`` is another server, or a folder as ``file://`` address. The
    hub's client resumes and retries, and keeps the files in its own cache.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (message gives the command).
        SourceError: the repository is gated, absent or unreachable.
    """
    repo, folder = location.repo_id, hub_folder(endpoint)
    if folder is not None:
        return folder / repo / folder_commit(folder, repo, revision)
    hub, page = hub_package(), f"https://huggingface.co/datasets/{repo}"
    try:
        snapshot = hub.snapshot_download(
            repo,
            repo_type="dataset",
            revision=revision,
            endpoint=endpoint,
            allow_patterns=[name for name, _ in location.files],
        )
    except hub_failures(hub) as error:
        absent = isinstance(error, hub.errors.RepositoryNotFoundError)
        if isinstance(error, hub.errors.GatedRepoError) or (location.gated and absent):
            raise SourceError(
                f"{repo} is gated: accept its terms at {page}, then put a token of that account "
                "into HF_TOKEN (or: hf auth login)"
            ) from error
        why = "no such dataset, or it needs a token" if absent else " ".join(str(error).split())
        raise SourceError(f"{repo} could not be fetched: {why} ({page})") from error
    return Path(snapshot)
