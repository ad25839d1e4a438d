"""Fetches a corpus from the Hugging Face hub at a pinned revision, and checks it.

The first fetch resolves the branch to a commit and writes ``corpora.lock.toml`` with that commit
and the SHA-256 of every file; later fetches use the locked commit and verify the hashes. The
caller passes endpoint and token, and nothing is downloaded unless a person asks for it.

An endpoint that begins with ``file://`` is a local folder laid out as
``<repo_id>/<revision>/<file>`` with ``<repo_id>/refs/main`` naming the revision. The network
path is tested against a server on loopback that speaks the hub's protocol; it has not been run
against the public hub.
"""

import fnmatch
import hashlib
import json
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from decomposerl.claims.source import HubLocation
from decomposerl.errors import SourceError, SourceFileError
from resources.hub.access import folder_commit, hub_failures, hub_folder, hub_package
from resources.store.temporary import replace_file

LOCK_FILE = "corpora.lock.toml"
_DATASET = {"repo_type": "dataset"}
_HEADER = "# Written by the first fetch of each corpus; delete an entry to take a newer one.\n"


@dataclass(frozen=True, slots=True)
class Lock:
    """The pin of a hub repository or, by its name, of a corpus: the hash of each file.

    ``revision`` is a repository's commit. ``accepted`` are the terms of a corpus that a person
    accepted, with the day.
    """

    revision: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)
    accepted: str = ""


@dataclass(frozen=True, slots=True)
class _Repository:
    """A dataset repository of the hub, or of a ``folder`` laid out as one."""

    location: HubLocation
    endpoint: str | None
    token: str | None

    @property
    def folder(self) -> Path | None:
        return hub_folder(self.endpoint)

    def resolve(self, revision: str | None) -> str:
        """The commit of a branch."""
        repo = self.location.repo_id
        if self.folder is not None:
            return folder_commit(self.folder, repo, revision)
        with self._explaining():
            return str(self._api().repo_info(repo, **_DATASET, revision=revision or "main").sha)

    def files(self, revision: str) -> list[str]:
        """The files at a commit."""
        repo = self.location.repo_id
        if self.folder is not None:
            root = self.folder / repo / revision
            return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
        with self._explaining():
            return list(self._api().list_repo_files(repo, **_DATASET, revision=revision))

    def download(self, file: str, revision: str) -> Path:
        """Where a file is after its download."""
        repo = self.location.repo_id
        if self.folder is not None:
            path = self.folder / repo / revision / file
            if not path.is_file():
                raise SourceFileError(f"{repo}: no file {file} at revision {revision}")
            return path
        with self._explaining():
            return Path(self._api().hf_hub_download(repo, file, **_DATASET, revision=revision))

    def _api(self) -> Any:  # noqa: ANN401 - of a package imported on first use
        return hub_package().HfApi(endpoint=self.endpoint, token=self.token)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        hub, repo = hub_package(), self.location.repo_id
        page = f"https://huggingface.co/datasets/{repo}"
        try:
            yield
        except hub_failures(hub) as error:
            absent = isinstance(error, hub.errors.RepositoryNotFoundError)
            kind: type[SourceError] = SourceError
            said = f"{repo} could not be fetched: {error}"
            if isinstance(error, hub.errors.GatedRepoError) or (self.location.gated and absent):
                said = (
                    f"{repo} is gated: accept its terms at {page}, then put a token of that "
                    "account into HF_TOKEN (or: hf auth login)"
                )
            elif absent:
                said = f"{repo}: no such dataset, or it needs a token ({page})"
            elif isinstance(error, hub.errors.EntryNotFoundError):
                said = f"{repo}: a file of the corpus is not in the repository: {error}"
                kind = SourceFileError
            raise kind(said) from error


def fetch(
    location: HubLocation,
    root: Path,
    lock: Path,
    *,
    revision: str | None = None,
    endpoint: str | None = None,
    token: str | None = None,
) -> list[Path]:
    """Bring the files of ``location`` below ``root`` and return their paths.

    ``revision`` (a branch or commit) overrides the locked commit and re-pins the corpus.
    A file that is already there with the locked hash is not fetched again. All are pinned before
    the first is copied, so that a fetch that broke off continues at the same commit.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (message gives the command).
        SourceError: the repository is gated, absent or unreachable.
        SourceFileError: a file is absent, or its hash is not the locked one.
    """
    locks = read_lock(lock)
    pinned = locks.get(location.repo_id) if revision is None else None
    repository = _Repository(location, endpoint, token)
    commit = pinned.revision if pinned is not None else repository.resolve(revision)
    known = dict(pinned.sha256) if pinned is not None else {}
    brought = []
    for wanted, local in location.files:
        file, target = _file_name(wanted, location.repo_id, repository, commit, known), root / local
        there = sha256_of(target) if target.is_file() else ""
        if file not in known or known[file] != there:
            downloaded = repository.download(file, commit)
            digest = sha256_of(downloaded)
            _verify(location.repo_id, file, digest, known)
            known[file] = digest
            brought += [(downloaded, target)] * (digest != there)
    write_lock(lock, {**locks, location.repo_id: Lock(commit, known)})
    for downloaded, target in brought:
        set_aside(target)
        replace_file(target, partial(shutil.copyfile, downloaded))
    return [root / local for _, local in location.files]


def _file_name(
    wanted: str, repo_id: str, repository: _Repository, commit: str, known: Mapping[str, str]
) -> str:
    """The file named by ``wanted``: itself, or the only match where it is a pattern."""
    if not set(wanted) & set("*?["):
        return wanted
    locked = fnmatch.filter(known, wanted)
    matches = locked or fnmatch.filter(repository.files(commit), wanted)
    if len(matches) != 1:
        raise SourceFileError(
            f"{repo_id}: {len(matches)} files match '{wanted}' at revision {commit}: "
            f"{', '.join(sorted(matches)) or 'none'}"
        )
    return matches[0]


def read_lock(path: Path) -> dict[str, Lock]:
    """The pinned repositories; empty where there is no lock file.

    Raises:
        SourceFileError: the lock file is damaged.
    """
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        return {
            name: Lock(
                str(table.get("revision", "")),
                {str(k): str(v) for k, v in table["sha256"].items()},
                str(table.get("accepted", "")),
            )
            for name, table in tables.items()
        }
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as e:
        raise SourceFileError(f"lock file {path}: {e!r}; delete it to pin anew") from e


def write_lock(path: Path, locks: Mapping[str, Lock]) -> None:
    """Write the lock file whole, by rename, in alphabetical order."""
    lines = [_HEADER]
    for repo, lock in sorted(locks.items()):
        lines.append(f"[{json.dumps(repo)}]")
        said = {"revision": lock.revision, "accepted": lock.accepted}
        lines += [f"{key} = {json.dumps(value)}" for key, value in said.items() if value]
        lines.append(f"[{json.dumps(repo)}.sha256]")
        lines += [f"{json.dumps(f)} = {json.dumps(h)}" for f, h in sorted(lock.sha256.items())]
        lines.append("")
    replace_file(path, lambda aside: aside.write_text("\n".join(lines), encoding="utf-8"))


def set_aside(file: Path) -> str:
    """Rename a file that another one is to replace to ``NAME.replaced-1``: nobody's is lost.

    Returns the new name, empty where there is no file.
    """
    if not file.is_file():
        return ""
    names = (file.with_name(f"{file.name}.replaced-{number}") for number in count(1))
    return file.replace(next(name for name in names if not name.exists())).name


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _verify(repo_id: str, file: str, digest: str, known: Mapping[str, str]) -> None:
    wanted = known.get(file)
    if wanted is not None and wanted != digest:
        raise SourceFileError(
            f"{repo_id}: {file} has SHA-256 {digest}, the lock file says {wanted}; "
            "delete its entry from the lock file to accept the new content"
        )
