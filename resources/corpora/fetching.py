"""Fetches the files of a corpus into the corpora folder and holds them to their checksums.

What is there already is not fetched again. A published checksum decides first; the SHA-256 of each
file that was fetched is recorded in ``corpora.lock.toml`` and decides from then on. Unfinished
downloads are in ``.downloads`` of the folder, where the next fetch continues them.
"""

import fnmatch
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Literal

from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Corpus
from decomposerl.errors import SourceError, SourceFileError
from resources.corpora.archives import DAMAGE, archive_members
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import LOCK_FILE, Lock, read_lock
from resources.corpora.status import difference
from resources.corpora.transfer import bring, require_space
from resources.hub.access import hub_failures, hub_package
from resources.store.integrity import file_sha256
from resources.store.run_lock import file_lock
from resources.store.temporary import aside, naming, put_in_place

State = Literal["fetched", "kept", "found"]
"""``kept``: as it was fetched before; ``found``: put there by a person."""


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

    def accepted(self, corpus: Corpus) -> bool:
        """Whether a person accepted these terms of the corpus before."""
        return read_lock(self.root, corpus.name).accepted.split(" ")[0] == _terms(corpus)

    def accept(self, corpus: Corpus) -> None:
        """Record that a person accepted the terms of the corpus today."""
        lock, today = read_lock(self.root, corpus.name), datetime.now().astimezone().date()
        lock.accepted = f"{_terms(corpus)} on {today.isoformat()}"
        lock.write()

    def fetch(self, access: Access, *, pages: bool) -> Iterator[Fetched]:
        """Bring the files of a corpus, with or without page databases; each as it is there.

        Raises:
            SourceError: a server refuses or breaks off, the disk has no room, or another process
                fetches into this folder.
            SourceFileError: a file, fetched or found, is not the published or recorded one, or an
                archive is damaged.
            EngineMissing: a corpus of the hub, and ``huggingface_hub`` is not installed.
            OSError: a file cannot be written; ``filename`` is its path.
        """
        with file_lock(self.root / ".downloads/fetch.lock", str(self.root)):
            for download in access.downloads:
                if download.url and (pages or not download.pages):
                    with naming(self.root / download.name):
                        yield from self._bring(download, read_lock(self.root, access.name))

    def _bring(self, download: Download, lock: Lock) -> Iterator[Fetched]:
        states = [self._there(download, path, lock) for path in download.files.values()]
        there = {file.path: file for file in states if file is not None}
        yield from there.values()
        wanted = {member: path for member, path in download.files.items() if path not in there}
        if not wanted:
            return
        digest = hashlib.sha256(download.url.encode()).hexdigest()[:8]
        whole = self.root / ".downloads" / f"{digest}_{download.url.rpartition('/')[2]}"
        try:
            with aside(whole.with_name("new")) as new:
                new.mkdir()
                files = self._contents(download, wanted, lock, whole, new)
                placed = self._placed(files, lock)
        except SourceFileError:  # the next fetch asks for it again
            whole.unlink(missing_ok=True)
            raise
        whole.unlink(missing_ok=True)
        yield from placed

    def _there(self, download: Download, path: str, lock: Lock) -> Fetched | None:
        """The file if it is there and is not a damaged copy of the recorded one.

        A person's file, perhaps a ``.gz``, has to be the published one, or is recorded as it is
        with ``accept_changed``.
        """
        target, digest = self.root / path, lock.sha256.get(path, "")
        if not target.is_file():
            return Fetched(path, "found") if FolderCorpora(self.root).exists(path) else None
        if digest:
            return Fetched(path, "kept", digest) if file_sha256(target) == digest else None
        wrong = "" if download.archive else difference(download, target)
        if wrong and not self.accept_changed:
            raise SourceFileError(
                f"{path} was there before and is damaged or another version: {wrong} (read in "
                f"{download.checked_in}). Move it away and run the command again to fetch the "
                "published one, or keep it with --accept-changed"
            )
        if wrong:
            digest = lock.sha256[path] = file_sha256(target)
            lock.write()
        return Fetched(path, "found", digest)

    def _contents(
        self, download: Download, wanted: Mapping[str, str], lock: Lock, whole: Path, new: Path
    ) -> dict[str, Path]:
        """The new files by their paths: ``whole`` itself, or those unpacked into ``new``."""
        files = {path: new / Path(path).name for path in wanted.values()}
        if download.repo_id:
            lock.revision = _from_hub(download.repo_id, wanted, files, lock.revision)
            return files
        if self.mirror:
            address = f"{self.mirror.rstrip('/')}/{download.url.partition('://')[2]}"
            download = replace(download, url=address, redirects=())
        bring(download, whole, self.wait)
        if (wrong := difference(download, whole)) and not self.accept_changed:
            raise SourceFileError(
                f"{download.name}: {wrong} (read in {download.checked_in}); nothing was kept. "
                "If the publisher has changed it, --accept-changed takes it as it is"
            )
        if not download.archive:
            return {download.name: whole}
        members = {member: files[path] for member, path in wanted.items()}
        unpack(whole, members, download.most_bytes)
        return files

    def _placed(self, files: Mapping[str, Path], lock: Lock) -> list[Fetched]:
        """Hold new files to the recorded checksums and rename them to their paths.

        Another file that is there keeps a name: none is lost.
        """
        digests = {path: file_sha256(file) for path, file in files.items()}
        for path, digest in digests.items():
            if lock.sha256.get(path, digest) != digest and not self.accept_changed:
                raise SourceFileError(
                    f"{path} has SHA-256 {digest}, the first fetch recorded {lock.sha256[path]} in "
                    f"{self.root / LOCK_FILE}; nothing was kept. --accept-changed takes the new "
                    "content"
                )
        # Recorded first: a fetch that is killed among the renames knows its files afterwards, and
        # continues at the same commit of the hub.
        lock.sha256 |= digests
        lock.write()
        placed = []
        for path, digest in digests.items():
            target, replaced = self.root / path, ""
            if target.is_file():
                names = (target.with_name(f"{target.name}.replaced-{n}") for n in count(1))
                replaced = target.replace(next(name for name in names if not name.exists())).name
            target.parent.mkdir(parents=True, exist_ok=True)
            put_in_place(files[path], target)
            placed.append(Fetched(path, "fetched", digest, replaced))
        return placed


def _from_hub(repo: str, wanted: Mapping[str, str], files: Mapping[str, Path], commit: str) -> str:
    """Copy files of a dataset at a commit, else at the newest; gives the commit.

    The hub's client resumes and retries, and keeps the files in its own cache. The path to the hub
    is tested against a server on loopback that speaks its protocol.
    """
    hub, page = hub_package(), f"https://huggingface.co/datasets/{repo}"
    where = {"repo_type": "dataset", "revision": commit or None}
    try:
        snapshot = Path(hub.snapshot_download(repo, allow_patterns=list(wanted), **where))
    except hub.errors.RepositoryNotFoundError as error:  # as a gated one is to the unknown
        raise SourceError(
            f"{repo} is gated: accept its terms at {page}, then put a token of that account "
            "into HF_TOKEN (or: hf auth login)"
        ) from error
    except hub_failures(hub) as error:
        why = " ".join(str(error).split())
        raise SourceError(f"{repo} could not be fetched: {why} ({page})") from error
    here = [str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()]
    for pattern, path in wanted.items():
        if len(matches := sorted(fnmatch.filter(here, pattern))) != 1:
            raise SourceFileError(
                f"{len(matches)} files match '{pattern}' at revision {snapshot.name}: "
                f"{', '.join(matches) or 'none'}"
            )
        shutil.copyfile(snapshot / matches[0], files[path])
    return snapshot.name


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
        for path, size, _, opened in archive_members(archive):
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
    except DAMAGE as error:
        if getattr(error, "errno", None) is not None:  # of the disk, not of what is packed
            raise
        raise SourceFileError(
            f"{archive.name} is damaged or cannot be read: {error}; run the same command again, "
            "which downloads it anew"
        ) from error
    if missing:
        raise SourceFileError(f"{archive.name} has no file {', '.join(sorted(missing))}")
