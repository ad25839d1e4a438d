"""Fetches the files of a corpus into the corpora folder and holds them to their checksums.

What is there already is not fetched again. A published checksum decides first; the SHA-256 of each
file that was fetched is recorded in ``corpora.lock.toml`` and decides from then on. Unfinished
downloads are in ``.downloads`` of the folder, where the next fetch continues them.
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Corpus
from decomposerl.errors import SourceFileError
from resources.corpora.folder import FolderCorpora
from resources.corpora.status import difference, missing_files
from resources.corpora.transfer import Downloader, Transfer, remove_part, room_said
from resources.corpora.unpacking import unpack
from resources.hub.download import (
    LOCK_FILE,
    Lock,
    fetch,
    read_lock,
    set_aside,
    sha256_of,
    write_lock,
)
from resources.store.run_lock import file_lock
from resources.store.temporary import aside

State = Literal["fetched", "kept", "found", "linked"]
"""``kept``: as it was fetched before; ``found``: put there by a person; ``linked``: see below.

``linked``: the same download is another corpus's file, so nothing was fetched.
"""
_PARTS = ".downloads"


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
    records its own. ``endpoint`` and ``revision`` are for the hub. ``known`` are the corpora among
    whose files the same download may be found.
    """

    root: Path
    mirror: str = ""
    accept_changed: bool = False
    endpoint: str | None = None
    revision: str | None = None
    known: Mapping[str, Access] = field(default_factory=dict)
    downloader: Downloader = field(default_factory=Downloader)

    @property
    def lock_file(self) -> Path:
        """The file of the recorded checksums and accepted terms."""
        return self.root / LOCK_FILE

    def lock(self, name: str) -> Lock:
        """What is recorded of a corpus.

        Raises:
            SourceFileError: the lock file is damaged.
        """
        return read_lock(self.lock_file).get(name, Lock())

    def accepted(self, corpus: Corpus) -> bool:
        """Whether a person accepted these terms of the corpus before."""
        return self.lock(corpus.name).accepted.split(" ")[0] == _terms(corpus)

    def accept(self, corpus: Corpus) -> None:
        """Record that a person accepted the terms of the corpus today."""
        today = datetime.now().astimezone().date().isoformat()
        self._record(corpus.name, accepted=f"{_terms(corpus)} on {today}")

    def fetch(self, access: Access, *, pages: bool) -> Iterator[Fetched]:
        """Bring the files of a corpus, with or without page databases; each as it is there.

        Raises:
            SourceError: a server refuses or breaks off, the disk is full, or another process
                fetches into this folder.
            SourceFileError: a file, fetched or found, is not the published or recorded one, or an
                archive is damaged.
            EngineMissing: a corpus of the hub, and ``huggingface_hub`` is not installed.
        """
        parts = self.root / _PARTS
        with file_lock(parts / "fetch.lock", str(self.root)):
            yield from self._from_hub(access)
            for one in access.wanted(pages=pages):
                yield from self._bring(access.name, one)

    def _from_hub(self, access: Access) -> Iterator[Fetched]:
        """The hub's client resumes and retries by itself; a person's own files stay."""
        hub = access.hub
        if hub is None:
            return
        asked = self.revision is not None or hub.repo_id in read_lock(self.lock_file)
        if not asked and not missing_files(self.root, access):
            yield from (Fetched(path, "found") for path in access.files())
            return
        lock = self.lock_file
        for path in fetch(hub, self.root, lock, revision=self.revision, endpoint=self.endpoint):
            yield Fetched(str(path.relative_to(self.root)), "fetched", sha256_of(path))

    def _bring(self, name: str, download: Download) -> Iterator[Fetched]:
        recorded = self.lock(name).sha256
        paths = [path for _, path in download.files]
        there = [one for path in paths if (one := self._there(name, download, path, recorded))]
        yield from there
        done = {one.path for one in there}
        wanted = [pair for pair in download.files if pair[1] not in done]
        if not wanted:
            return
        twin = self._twin(download)
        if twin is not None:
            path = wanted[0][1]
            with aside(self._folder_of(path)) as second:
                _link_or_copy(self.root / twin.path, second)
                yield from self._placed(name, {path: second}, {path: twin.sha256}, "linked")
            return
        part = self.root / _PARTS / hashlib.sha256(download.url.encode()).hexdigest()[:16]
        part.parent.mkdir(parents=True, exist_ok=True)
        self.downloader.bring(self._transfer(download, wanted), part)
        self._verify_download(download, part)
        yield from self._unpacked(name, download, part, wanted)

    def _there(
        self, name: str, download: Download, path: str, recorded: Mapping[str, str]
    ) -> Fetched | None:
        """The file if it is there and is not a damaged copy of the recorded one."""
        if not FolderCorpora(self.root).exists(path):
            return None
        target, digest = self.root / path, recorded.get(path)
        if digest is None or not target.is_file():  # placed by a person, perhaps as .gz
            return self._found(name, download, path)
        return Fetched(path, "kept", digest) if sha256_of(target) == digest else None

    def _found(self, name: str, download: Download, path: str) -> Fetched:
        """A person's file: the published one, or recorded as it is with ``accept_changed``."""
        target = self.root / path
        plain = target.is_file() and not download.archive
        wrong = difference(download, target) if plain else ""
        if not wrong:
            return Fetched(path, "found")
        if not self.accept_changed:
            raise SourceFileError(
                f"{path} was there before and is damaged or another version: {wrong} (read in "
                f"{download.checked_in}). Move it away and run the command again to fetch the "
                "published one, or keep it with --accept-changed"
            )
        digest = sha256_of(target)
        self._record(name, sha256={path: digest})
        return Fetched(path, "found", digest)

    def _twin(self, download: Download) -> Fetched | None:
        """A file that an earlier fetch got from the same address, unchanged since."""
        for access in self.known.values() if not download.archive else ():
            recorded = self.lock(access.name).sha256
            paths = [one.files[0][1] for one in access.downloads if one.url == download.url]
            for path in paths:
                target = self.root / path
                if path in recorded and target.is_file() and sha256_of(target) == recorded[path]:
                    return Fetched(path, "kept", recorded[path])
        return None

    def _transfer(self, download: Download, wanted: Sequence[tuple[str, str]]) -> Transfer:
        address, hosts = download.url, download.hosts
        if self.mirror:
            address = f"{self.mirror.rstrip('/')}/{download.url.partition('://')[2]}"
            hosts = frozenset({urlsplit(address).hostname or ""})
        return Transfer(address, wanted[0][1], hosts, download.most_bytes, download.unpacked)

    def _verify_download(self, download: Download, part: Path) -> None:
        wrong = difference(download, part)
        if wrong and not self.accept_changed:
            remove_part(part)
            raise SourceFileError(
                f"{download.files[0][1]}: {wrong} (read in {download.checked_in}); nothing was "
                "kept. If the publisher has changed it, --accept-changed takes it as it is"
            )

    def _unpacked(
        self, name: str, download: Download, part: Path, wanted: Sequence[tuple[str, str]]
    ) -> list[Fetched]:
        """Unpack beside the targets, check, then put each in its place."""
        with ExitStack() as stack, room_said(download.files[0][1], self.root):
            made = {path: stack.enter_context(aside(self._folder_of(path))) for _, path in wanted}
            if download.archive:
                members = {member: made[path] for member, path in wanted}
                unpack(part, members, download.most_bytes)
            else:
                shutil.move(part, made[wanted[0][1]])
            recorded = self.lock(name).sha256
            digests = {path: self._digest(path, file, recorded) for path, file in made.items()}
            placed = self._placed(name, made, digests, "fetched")
        remove_part(part)
        return placed

    def _digest(self, path: str, file: Path, recorded: Mapping[str, str]) -> str:
        digest = sha256_of(file)
        if recorded.get(path, digest) != digest and not self.accept_changed:
            raise SourceFileError(
                f"{path} has SHA-256 {digest}, the first fetch recorded {recorded[path]} in "
                f"{self.lock_file}; nothing was kept. --accept-changed takes the new content"
            )
        return digest

    def _placed(
        self, name: str, made: Mapping[str, Path], digests: Mapping[str, str], state: State
    ) -> list[Fetched]:
        """Rename each new file to its path, and what is there before it."""
        # Recorded first: a fetch that is killed among the renames knows its files afterwards.
        self._record(name, sha256=digests)
        placed = []
        for path, file in made.items():
            replaced = set_aside(self.root / path)
            file.replace(self.root / path)
            placed.append(Fetched(path, state, digests[path], replaced))
        return placed

    def _folder_of(self, path: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _record(
        self, name: str, *, sha256: Mapping[str, str] | None = None, accepted: str = ""
    ) -> None:
        """Add checksums, or accepted terms, to what is recorded of a corpus."""
        locks = read_lock(self.lock_file)
        before = locks.get(name, Lock())
        now = replace(
            before,
            sha256={**before.sha256, **(sha256 or {})},
            accepted=accepted or before.accepted,
        )
        write_lock(self.lock_file, {**locks, name: now})


def _link_or_copy(source: Path, target: Path) -> None:
    """The same content under a second name, without its space where the disk can link."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _terms(corpus: Corpus) -> str:
    """A short hash of licence and terms: other terms are shown again."""
    return hashlib.sha256(f"{corpus.license}\n{corpus.terms}".encode()).hexdigest()[:12]
