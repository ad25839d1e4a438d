"""The commit of each hub model that a data folder's results were made with.

``models.lock.toml`` in the data folder has one line per model. The first use writes it: the
commit of the table (``resources.hub.models``) if there is one, else of the hub's local cache,
else, where a server is about to download the model, of the hub. Later uses load that commit; a
machine that has only another one is refused.
"""

import json
import logging
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from decomposerl.errors import ConfigError, EngineMissing
from resources.hub.access import cached_model, model_commit
from resources.hub.models import HUB_MODELS, HubModel
from resources.store.run_lock import file_lock, lock_path
from resources.store.temporary import replace_file

LOCK_FILE = "models.lock.toml"
COMMIT = re.compile(r"[0-9a-f]{40}")
MAIN = "main"
MODELS_LOCK = "file of the locked commits of hub models; empty: none is locked"
"""The description of a resource's field ``models_lock``."""
Pin = Callable[[str, str], str]
"""Of a model and the branch, tag or commit in the settings (may be empty): what to load."""
_HEADER = "# Written at the first use of each model; delete a line to accept a newer commit.\n"
_WAIT_S = 30.0
_LOG = logging.getLogger(__name__)


def as_named(model: str, revision: str) -> str:  # noqa: ARG001 - a ``Pin``
    """The revision of the settings: nothing is locked."""
    return revision


@dataclass(frozen=True, slots=True)
class LockState:
    """``locked`` is the commit that must be loaded, ``cached`` the one on this machine.

    Both are empty where there is none.
    """

    locked: str
    cached: str


@dataclass(frozen=True, slots=True)
class ModelLocks:
    """The locked commits in ``file`` (empty: nothing is locked, revisions are as named).

    ``endpoint`` is the hub to ask (None: the public one; ``file://`` a folder, as for corpora),
    ``cache`` its local cache (None: the default one), ``table`` has the pins of the project.
    """

    file: str = ""
    endpoint: str | None = None
    cache: Path | None = None
    table: Sequence[HubModel] = HUB_MODELS

    def cached(self, model: str, revision: str = "") -> str:
        """The commit to load from the local cache; ``revision`` itself where none is known.

        Contacts no server. Folders and full commits are returned as they are named.

        Raises:
            ConfigError: this machine has another commit than the locked one, or the lock file is
                damaged.
        """
        return self._pinned(model, revision, lambda: "") or revision

    def fetched(self, model: str, revision: str = "") -> str:
        """The same for a model that may be downloaded: the hub is asked where nothing is known.

        Raises:
            ConfigError: as ``cached``.
        """
        try:
            return self.required(model, revision)
        except EngineMissing as error:
            _LOG.warning("%s; it is loaded without a locked commit", error)
            return revision

    def required(self, model: str, revision: str = "") -> str:
        """The same for a model whose repository's code runs: without a commit it is refused.

        Raises:
            ConfigError: as ``cached``.
            EngineMissing: no commit is locked or cached, and the hub does not give one.
        """
        return self._pinned(model, revision, lambda: self._asked(model, revision)) or revision

    def state(self, model: str) -> LockState:
        """What is locked and cached; writes nothing.

        Raises:
            ConfigError: as ``cached``.
        """
        locked = self._locked(model, MAIN)
        self._refuse_move(model, MAIN, locked)
        return LockState(locked, self._in_cache(model, locked or MAIN))

    def _pinned(self, model: str, revision: str, ask: Callable[[], str]) -> str:
        if not self.file or Path(model).is_dir() or COMMIT.fullmatch(revision):
            return revision
        branch = revision or MAIN
        locked = self._locked(model, branch)
        self._refuse_move(model, branch, locked)
        found = locked or self._in_cache(model, branch) or ask()
        return self._written(_key(model, branch), found) if found else ""

    def _locked(self, model: str, branch: str) -> str:
        """The commit of the lock file or of the table; empty where neither has one."""
        pins = {row.name: row.commit for row in self.table} if branch == MAIN else {}
        table, file = pins.get(model, ""), read_model_lock(self.file).get(_key(model, branch))
        if table and file and table != file:
            raise ConfigError(
                f"{model} is pinned to commit {table} by this version of the project, but "
                f"{self.file} has {file}: delete its line there to accept the pinned one"
            )
        return file or table

    def _refuse_move(self, model: str, branch: str, locked: str) -> None:
        if not locked or self._in_cache(model, locked):
            return
        other = self._in_cache(model, branch)
        if other:
            raise ConfigError(
                f"{model} is locked to commit {locked}, but this machine has {other}: hf download "
                f"{model} --revision {locked}, or delete its line from {self.file} to accept "
                f"{other} (results of the two are stored apart)"
            )

    def _in_cache(self, model: str, revision: str) -> str:
        try:
            folder = cached_model(model, revision, self.cache)
        except (EngineMissing, ValueError):  # no package to look with, or no name of the hub
            return ""
        return folder.name if folder and COMMIT.fullmatch(folder.name) else ""

    def _asked(self, model: str, revision: str) -> str:
        return model_commit(model, revision or MAIN, self.endpoint)

    def _written(self, key: str, commit: str) -> str:
        """The commit that the file has once ``key`` is locked: another process may be first."""
        file = Path(self.file)
        if read_model_lock(self.file).get(key) == commit:
            return commit
        with file_lock(lock_path(file.parent, file.name), str(file), wait_s=_WAIT_S):
            locks = read_model_lock(self.file)
            commit = locks.setdefault(key, commit)
            lines = [f"{json.dumps(one)} = {json.dumps(locks[one])}\n" for one in sorted(locks)]
            text = _HEADER + "".join(lines)
            replace_file(file, lambda aside: aside.write_text(text, encoding="utf-8"))
        return commit


def models_lock(data: Path) -> str:
    """The lock file of a data folder."""
    return str(data / LOCK_FILE)


def at_commit(model: str, commit: str) -> str:
    """The model's name with its commit, if that is known."""
    return f"{model}@{commit}" if commit else model


def locked_models(file: str) -> list[str]:
    """The models that the lock file names, without entries of other branches than the main one.

    Raises:
        ConfigError: the file is damaged.
    """
    return [key for key in read_model_lock(file) if "@" not in key]


def read_model_lock(file: str) -> dict[str, str]:
    """The locked commits by model, or by ``model@branch``; empty where there is no file.

    Raises:
        ConfigError: the file is damaged.
    """
    path = Path(file)
    if not file or not path.is_file():
        return {}
    try:
        locks = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"lock file {file}: {error}; delete it to lock anew") from error
    wrong = [key for key, value in locks.items() if not COMMIT.fullmatch(str(value))]
    if wrong:
        raise ConfigError(f"lock file {file}: the value of '{wrong[0]}' is not a full commit")
    return locks


def _key(model: str, branch: str) -> str:
    return model if branch == MAIN else f"{model}@{branch}"
