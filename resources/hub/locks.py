"""The commit of each hub model that a data folder's results were made with.

``models.lock.toml`` in the data folder has one line per model. The first use writes it: the commit
of the hub's local cache or, where a server is about to download the model, of the hub. Later uses
load that commit; a machine that has only another one is refused. ``models.toml`` is the table of
the models that profiles, recipes and baselines name; its licences are those of the model cards.
"""

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
from resources.hub.access import cached_model, model_commit
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
_WAIT_S = 30.0


def as_named(model: str, revision: str) -> str:  # noqa: ARG001 - a ``Pin``
    """The revision of the settings: nothing is locked."""
    return revision


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
            return self.required(model, revision)
        except EngineMissing as error:
            logging.getLogger(__name__).warning("%s; it is loaded without a locked commit", error)
            return revision

    def required(self, model: str, revision: str = "") -> str:
        """The same for a model whose repository's code runs: without a commit it is refused.

        Raises:
            EngineMissing: no commit is locked or cached, and the hub does not give one.
        """
        return self._pinned(model, revision, self.ask)

    def state(self, model: str, branch: str = MAIN) -> tuple[str, str]:
        """The commits that are locked and cached, empty where none is; writes nothing."""
        locked = read_model_lock(self.file).get(_key(model, branch), "")
        cached = self._in_cache(model, locked or branch)
        other = self._in_cache(model, branch) if locked and not cached else ""
        if other:
            raise ConfigError(
                f"{model} is locked to commit {locked}, but this machine has {other}: hf download "
                f"{model} --revision {locked}, or delete its line from {self.file} to accept "
                f"{other} (results of the two are stored apart)"
            )
        return locked, cached

    def _pinned(self, model: str, revision: str, ask: Pin) -> str:
        if not self.file or Path(model).is_dir() or COMMIT.fullmatch(revision):
            return revision
        branch = revision or MAIN
        locked, cached = self.state(model, branch)
        commit = locked or cached or ask(model, branch)
        if locked or not commit:
            return commit or revision
        file = Path(self.file)
        with file_lock(lock_path(file.parent, file.name), self.file, wait_s=_WAIT_S):
            locks = read_model_lock(self.file)  # again: another process may be first
            commit = locks.setdefault(_key(model, branch), commit)
            lines = (f"{json.dumps(name)} = {json.dumps(locks[name])}\n" for name in sorted(locks))
            replace_text(file, [_HEADER, *lines])
        return commit

    def _in_cache(self, model: str, revision: str) -> str:
        try:
            folder = cached_model(model, revision, self.cache)
        except (EngineMissing, ValueError):  # no package to look with, or no name of the hub
            return ""
        return folder.name if folder and COMMIT.fullmatch(folder.name) else ""


def models_lock(data: Path) -> str:
    """The lock file of a data folder."""
    return str(data / LOCK_FILE)


def at_commit(model: str, commit: str) -> str:
    """The model's name with its commit, if that is known."""
    return f"{model}@{commit}" if commit else model


def read_model_lock(file: str) -> dict[str, str]:
    """The locked commits by model, or by ``model@branch``; empty where there is no file.

    Raises:
        ConfigError: the file is damaged.
    """
    path = Path(file)
    try:
        locks = tomllib.loads(path.read_text("utf-8")) if file and path.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"lock file {file}: {error}; delete it to lock anew") from error
    wrong = [key for key, value in locks.items() if not COMMIT.fullmatch(str(value))]
    if wrong:
        raise ConfigError(f"lock file {file}: the value of '{wrong[0]}' is not a full commit")
    return locks


def _key(model: str, branch: str) -> str:
    return at_commit(model, "" if branch == MAIN else branch)
