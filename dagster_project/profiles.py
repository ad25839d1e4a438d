"""Environment to ``Profile`` to Dagster resources: the only module that reads the environment.

A profile is a choice of engines behind the same ports; nothing else changes. It has only the
*names* of key variables, which Dagster reads when a run starts, so a key is never part of a
configuration; ``read_key`` is for ``decomposerl doctor``. ``.env.example`` has the variables.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from dotenv import dotenv_values, load_dotenv
from pydantic import SecretStr

from dagster_project.engine_choices import EngineChoices, ProfileName, engine_choices
from dagster_project.engine_variables import (
    PREFIX,
    RecordingEnvironment,
    names_of_keys,
    owners,
    refuse_unknown,
)
from decomposerl.claims.catalogue import with_own_benchmarks, with_own_sources
from decomposerl.claims.generic import parse_benchmark_toml, parse_source_toml
from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import ConfigError
from resources.store.paths import local, text_of

if TYPE_CHECKING:
    from decomposerl.evaluation.entries import SystemEntry
    from decomposerl.evaluation.systems import System

_DATA, _SYSTEMS = "DECOMPOSERL_DATA", "DECOMPOSERL_SYSTEMS"
SYSTEMS_FILE = "systems.toml"
_ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Profile:
    """Where data is stored and which engines run.

    ``corpora`` is the folder of raw corpora, None for the bundled sample. ``data`` is the
    folder for Parquet, DuckDB and stored engine results. ``named_systems`` is the file of the
    user's own systems; None for ``systems.toml`` in ``data``, if it is there. ``owners`` of the
    assets are shown and change no result.
    """

    name: ProfileName
    corpora: Path | None
    data: Path
    engines: EngineChoices = field(default_factory=EngineChoices)
    named_systems: Path | None = None
    owners: tuple[str, ...] = field(default=(), repr=False)

    @property
    def systems_file(self) -> Path:
        """The file of the user's own systems, which need not be there unless it was named."""
        return self.named_systems or self.data / SYSTEMS_FILE

    @property
    def results(self) -> Path:
        """The folder of stored engine results."""
        return self.data / "engine_results"


def profile_from_environment(environment: Mapping[str, str] | None = None) -> Profile:
    """Read the profile; relative folders are relative to the working directory.

    Without an argument, a ``.env`` file of the working directory adds variables that the
    environment lacks, as for the ``dagster`` commands.

    Raises:
        ConfigError: a variable or the profile is unknown, the corpora folder does not exist, or
            a variable has an invalid value.
    """
    env = _environment() if environment is None else environment
    refuse_unknown(env, known_variables())
    return _profile(env)


def known_variables() -> frozenset[str]:
    """Every variable that some profile reads; ``.env.example`` documents these."""
    return frozenset().union(*map(variables_of, get_args(ProfileName)))


def variables_of(name: ProfileName) -> frozenset[str]:
    """Every variable that this profile reads."""
    _profile(environment := RecordingEnvironment({"DECOMPOSERL_PROFILE": name}))
    return frozenset(environment.names)


def _profile(env: Mapping[str, str]) -> Profile:
    name = env.get("DECOMPOSERL_PROFILE") or "embedded"
    if name not in get_args(ProfileName):
        choices = ", ".join(get_args(ProfileName))
        raise ConfigError(f"DECOMPOSERL_PROFILE is '{name}'; it must be one of {choices}")
    corpora = _folder(env, "DECOMPOSERL_CORPORA")
    if corpora is not None and not corpora.is_dir():
        raise ConfigError(f"DECOMPOSERL_CORPORA names no folder: {corpora}")
    data = _folder(env, _DATA) or _ROOT / "data"
    if data.exists() and not data.is_dir():
        raise ConfigError(f"{_DATA} names a file, not a folder: {data}")
    known = cast("ProfileName", name)
    engines, named = engine_choices(known, env), _folder(env, _SYSTEMS)
    owned = owners(env, "DECOMPOSERL_OWNERS")
    return Profile(known, corpora, data, engines, named, owned)


def _folder(env: Mapping[str, str], variable: str) -> Path | None:
    value = env.get(variable)
    return Path(local(value, variable)).resolve() if value else None


def _environment() -> dict[str, str]:
    written = {name: value or "" for name, value in dotenv_values(".env").items()}
    return {**written, **os.environ}


def use_data_folder(profile: Profile, data: Path) -> Profile:
    """The profile with another data folder, for this process and those that it starts."""
    os.environ[_DATA] = str(data)
    return replace(profile, data=data)


def use_systems_file(profile: Profile, file: Path) -> Profile:
    """The same with another file of the user's own systems."""
    os.environ[_SYSTEMS] = str(file.resolve())
    return replace(profile, named_systems=file.resolve())


@contextmanager
def with_data_folder(profile: Profile, data: Path) -> Iterator[Profile]:
    """The same for the block alone."""
    before = os.environ.get(_DATA)
    try:
        yield use_data_folder(profile, data)
    finally:
        if before is None:
            del os.environ[_DATA]
        else:
            os.environ[_DATA] = before


def load_env_file() -> None:
    """Add variables of the working directory's ``.env`` file that the environment does not have.

    The ``dagster`` commands do so themselves. A program that starts a run calls this first, so
    that Dagster finds the keys.
    """
    load_dotenv(".env")


def use_instance(
    environment: MutableMapping[str, str] | None = None, project: Path = _ROOT
) -> Path:
    """The folder of the run history, for this process: ``DAGSTER_HOME``, else that of ``make``.

    That is ``.dagster_home`` of the project, which is made where it is not there.

    Raises:
        ConfigError: ``DAGSTER_HOME`` names no folder.
    """
    env = os.environ if environment is None else environment
    named = env.get("DAGSTER_HOME")
    home = Path(local(named, "DAGSTER_HOME")) if named else project / ".dagster_home"
    if not named:
        home.mkdir(exist_ok=True)
        if not (home / "dagster.yaml").exists():
            shutil.copyfile(project / "dagster.yaml", home / "dagster.yaml")
        env["DAGSTER_HOME"] = str(home)
    if not home.is_dir():
        raise ConfigError(f"DAGSTER_HOME names no folder: {home}")
    return home


def process_rank(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """This process's rank, from 0, and the number of processes that train together.

    ``accelerate launch`` sets both variables for each process.
    """
    env = os.environ if environment is None else environment
    return int(env.get("RANK") or 0), int(env.get("WORLD_SIZE") or 1)


def read_key(variable: str, environment: Mapping[str, str] | None = None) -> SecretStr:
    """The key in a variable, empty where it is not set; kept in memory only."""
    env = _environment() if environment is None else environment
    return SecretStr(env.get(variable, ""))


def resources_for(profile: Profile, *, mapped: bool = False) -> dict[str, Any]:
    """The Dagster resources of a profile, by the names that assets use; ``mapped`` as there."""
    from dagster_project.engine_resources import engine_resources
    from resources.chat.resource import ChatCacheFile
    from resources.corpora.resource import CorporaResource
    from resources.hub.locks import models_lock
    from resources.judge.tiny_judge import FOLDER
    from resources.store.parquet import DataFolder, ParquetTables

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that this process starts
    results, env = str(profile.results), _environment()
    jobs = _job_variables(env, profile)
    keys = {entry.key for entry in entries_for(profile) if env.get(entry.key)}
    of_data = (models_lock(profile.data), sorted(keys), str(profile.data / FOLDER))
    return {
        "io_manager": ParquetTables(base_dir=str(profile.data)),
        "data_folder": DataFolder(base_dir=str(profile.data)),
        "corpora": CorporaResource(
            root=str(profile.corpora or ""), sample_root=str(profile.data / "sample")
        ),
        "chat_cache": ChatCacheFile(results_dir=results),
        **engine_resources(profile.engines, results, *of_data, mapped=mapped, job_variables=jobs),
    }


def _job_variables(env: Mapping[str, str], profile: Profile) -> dict[str, str]:
    """This project's variables for a process on another machine: no keys, whole folders."""
    keys = names_of_keys(env)
    ours = {name: env[name] for name in env if name.startswith(PREFIX) and name not in keys}
    folders = {_DATA: profile.data, "DECOMPOSERL_CORPORA": profile.corpora}
    return ours | {name: str(folder) for name, folder in folders.items() if folder}


def sources_for(profile: Profile) -> tuple[Source, ...]:
    """The catalogue's sources, then the user's own from ``<corpora>/*/source.toml``.

    An own source with ``replaces`` stands in the place of the catalogue's.

    Raises:
        ConfigError: a file is malformed, or a name is taken.
    """
    return with_own_sources(parse_source_toml(text, at) for at, text in _own_corpora(profile))


def benchmarks_for(profile: Profile) -> tuple[Benchmark, ...]:
    """The catalogue's benchmarks, then the test files that the user's own corpora name.

    Raises:
        ConfigError: a file is malformed, or a name is taken.
    """
    parsed = (parse_benchmark_toml(text, where) for where, text in _own_corpora(profile))
    return with_own_benchmarks(benchmark for benchmark in parsed if benchmark is not None)


def entries_for(profile: Profile) -> "tuple[SystemEntry, ...]":
    """The entries of the user's ``systems.toml``; none where there is no such file.

    Raises:
        ConfigError: the file is malformed, or was named and is not there.
    """
    from decomposerl.baselines.catalogue import ENTRY_METHODS
    from decomposerl.evaluation.entries import parse_systems_toml
    from decomposerl.training.experiments import EXPERIMENTS

    path = profile.systems_file
    if profile.named_systems is None and not os.path.lexists(path):
        return ()
    methods = {one.name: list(one.procedures) for one in ENTRY_METHODS if one.engine == "chat"}
    recipes = [one.name for one in EXPERIMENTS]
    folder, text = path.parent.resolve(), text_of(path)
    return parse_systems_toml(text, str(path), folder, methods, recipes, known_variables())


def systems_for(profile: Profile) -> "tuple[System, ...]":
    """The systems of the catalogue, then the user's own.

    Raises:
        ConfigError: as ``entries_for``, or an entry has the name of another system.
    """
    from decomposerl.baselines.catalogue import ENTRY_METHODS, METHODS
    from decomposerl.evaluation.systems import systems, with_entries
    from decomposerl.training.experiments import EXPERIMENTS

    known = systems(METHODS, [one.name for one in EXPERIMENTS])
    return with_entries(known, entries_for(profile), ENTRY_METHODS, str(profile.systems_file))


def titles_for(profile: Profile) -> dict[str, str]:
    """The display title of each test set, derived ones included.

    Raises:
        ConfigError: as for ``benchmarks_for``.
    """
    from decomposerl.evaluation.scored_claims import derived_from

    titles = {one.name: one.title for one in benchmarks_for(profile)}
    return titles | {one.name: one.title for one in derived_from(titles).values()}


def _own_corpora(profile: Profile) -> list[tuple[str, str]]:
    folders = sorted(profile.corpora.glob("*")) if profile.corpora else []
    paths = [path for folder in folders if os.path.lexists(path := folder / "source.toml")]
    return [(str(path), text_of(path)) for path in paths]
