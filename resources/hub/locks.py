"""Models of the hub: their folders in its local cache, and the commits that results came from.

The one module that imports ``huggingface_hub``. Models are only looked up here, never downloaded.
``models.lock.toml`` in the data folder has one line per model. The first use writes it: the commit
of the local cache or, where a server is about to download the model, of the hub. Later uses load
that commit; a machine that has only another one is refused. ``models.toml`` is the table of the
models that profiles, recipes and baselines name; its licences are those of the model cards.
"""

import hashlib
import json
import logging
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.extras import require
from resources.store.run_lock import file_lock, lock_path
from resources.store.temporary import replace_text

LOCK_FILE, MAIN = "models.lock.toml", "main"
COMMIT = re.compile(r"[0-9a-f]{40}")
MODELS_LOCK = "file of the locked commits of hub models; empty: none is locked"
"""The description of a resource's field ``models_lock``."""
HUB_MODELS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    files(__package__).joinpath("models.toml").read_text("utf-8")
)
"""By name: ``used_for``, ``licence``, ``remote_code`` if it runs, a verifier's ``claim_split``."""
Pin = Callable[[str, str], str]
"""Of a model and the branch, tag or commit in the settings (may be empty): what to load."""
_HEADER = "# Written at the first use of each model; delete a line to accept a newer commit.\n"
_ASK_S, _WAIT_S = 10.0, 30.0


def hub_package() -> Any:  # noqa: ANN401 - a module, imported on first use
    """The package; ``EngineMissing`` with the command that installs it where it is missing."""
    require("huggingface_hub")
    import huggingface_hub.errors

    return huggingface_hub


def hub_failures(hub: Any) -> tuple[type[Exception], ...]:  # noqa: ANN401 - a module
    """What a failed request to the hub raises."""
    # The hub's HTTP library changes between versions; its errors share a base with the hub's.
    return (*hub.errors.HfHubHTTPError.__bases__, OSError, ValueError)


def cached_model(repo_id: str, revision: str, cache: Path | None = None) -> Path | None:
    """The folder of a model that ``hf download`` has stored in the local cache, if any.

    ``revision`` is a branch or commit; the folder's name is the commit. ``cache`` None is the
    default folder. Contacts no server; ``EngineMissing`` as ``hub_package``.
    """
    hub, where = hub_package(), {"local_files_only": True, "cache_dir": cache}
    try:
        return Path(hub.snapshot_download(repo_id, revision=revision, **where))
    except hub.errors.LocalEntryNotFoundError:
        return None


def model_commit(repo_id: str, revision: str) -> str:
    """The commit of a branch or tag, in one request; ``EngineMissing`` where the hub gives none."""
    hub = hub_package()
    try:
        return str(hub.HfApi().model_info(repo_id, revision=revision, timeout=_ASK_S).sha)
    except hub_failures(hub) as error:
        said = " ".join(str(error).split())
        raise EngineMissing(
            f"the commit of {repo_id} is not known: it is neither locked nor in the hub's local "
            f"cache, and the hub did not give it ({said}). With network: hf download {repo_id}"
        ) from error


def digest_of(folder: Path) -> str:
    """8 hex digits over a model folder's file names and contents.

    A part of the engine's name, so that results of two folders of one name never mix.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class ModelLocks:
    """The locked commits in ``file`` (empty: nothing is locked, revisions are as named).

    ``cache`` is the hub's local cache (None: the default one), ``ask`` gives the hub's own commit.
    Folders and full commits are returned as they are named. Each method raises ConfigError where
    this machine has another commit than the locked one, or the lock file is damaged.
    """

    file: str = ""
    cache: Path | None = None
    ask: Pin = model_commit

    def cached(self, model: str, revision: str = "") -> str:
        """The locked or cached commit, else ``revision`` itself; contacts no server."""
        return self._pinned(model, revision, lambda *_: "")

    def fetched(self, model: str, revision: str = "") -> str:
        """The same for a model that may be downloaded: the hub is asked where nothing is known."""
        try:
            return self._pinned(model, revision, self.ask)
        except EngineMissing as error:
            logging.getLogger(__name__).warning("%s; it is loaded without a locked commit", error)
            return revision

    def state(self, model: str, branch: str = "") -> tuple[str, str]:
        """The commits that are locked and cached, empty where none is; writes nothing."""
        locked = read_model_lock(self.file).get(at_commit(model, branch), "")
        cached = self._in_cache(model, locked or branch)
        if locked and not cached and (other := self._in_cache(model, branch)):
            raise ConfigError(
                f"{model} is locked to commit {locked}, but this machine has {other}: hf download "
                f"{model} --revision {locked}, or delete its line from {self.file} to accept "
                f"{other} (results of the two are stored apart)"
            )
        return locked, cached

    def _pinned(self, model: str, revision: str, ask: Pin) -> str:
        if not self.file or Path(model).is_dir() or COMMIT.fullmatch(revision):
            return revision
        branch = "" if revision == MAIN else revision
        locked, cached = self.state(model, branch)
        commit = locked or cached or ask(model, branch or MAIN)
        if locked or not commit:
            return commit or revision
        file = Path(self.file)
        with file_lock(lock_path(file.parent, file.name), self.file, wait_s=_WAIT_S):
            locks = read_model_lock(self.file)  # again: another process may be first
            commit = locks.setdefault(at_commit(model, branch), commit)
            lines = (f"{json.dumps(name)} = {json.dumps(locks[name])}\n" for name in sorted(locks))
            replace_text(file, [_HEADER, *lines])
        return commit

    def _in_cache(self, model: str, revision: str) -> str:
        try:
            folder = cached_model(model, revision or MAIN, self.cache)
        except (EngineMissing, ValueError):  # no package to look with, or no name of the hub
            return ""
        return folder.name if folder and COMMIT.fullmatch(folder.name) else ""


as_named: Pin = ModelLocks().cached
"""The revision of the settings: nothing is locked."""


def models_lock(data: Path) -> str:
    """The lock file of a data folder."""
    return str(data / LOCK_FILE)


def at_commit(model: str, commit: str) -> str:
    """The model's name with its commit, if that is known."""
    return f"{model}@{commit}" if commit else model


def read_model_lock(file: str) -> dict[str, str]:
    """The locked commits by model, or by ``model@branch``; ``ConfigError`` for a damaged file."""
    path = Path(file)
    try:
        locks = tomllib.loads(path.read_text("utf-8")) if file and path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"lock file {file}: {error}; delete it to lock anew") from error
    wrong = [key for key, value in locks.items() if not COMMIT.fullmatch(str(value))]
    if wrong:
        raise ConfigError(f"lock file {file}: the value of '{wrong[0]}' is not a full commit")
    return locks
