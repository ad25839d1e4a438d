"""What the environment gives: settings, keys, the user's own corpora and systems.

Only this module and the opening of an endpoint (a key) read variables.

A setting's variable is ``DECOMPOSERL_`` and its path with ``__`` between section and field, such as
``DECOMPOSERL_JUDGE__MODEL``. Variables of the environment override those of ``.env`` in the working
folder, and both the files (``settings``). A key is read by the name that a setting gives.
"""

import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dotenv import dotenv_values, load_dotenv
from pydantic import SecretStr, ValidationError

from dagster_project.settings import PROJECT, Settings, fields_of, own_file, read_toml
from decomposerl.claims.catalogue import with_own_benchmarks, with_own_sources
from decomposerl.claims.generic import parse_corpus_toml
from decomposerl.claims.source import Benchmark, Source
from decomposerl.endpoint import OPENAI_KEY
from decomposerl.errors import ConfigError
from resources.store.paths import local, text_of

if TYPE_CHECKING:
    from decomposerl.evaluation.entries import SystemEntry
    from decomposerl.evaluation.systems import System

_notice = cache(logging.getLogger(__name__).warning)  # each line once
NAMED_MODELS = "named_models"  # in the data folder: an entry for each model that options named
PREFIX = "DECOMPOSERL_"
SHORT = {("paths", name): f"{PREFIX}{name.upper()}" for name in ("data", "corpora")}
"""Permanent short names of the two settings that most scripts name."""
_KEY = re.compile(r"(\w*_)?KEY", re.IGNORECASE)
_ALIKE, _NEAR = 0.85, "DECOMPOSE"  # the start of our variables, even of misspelt ones
# What Kubernetes gives every pod of a namespace where a Service is named decomposerl, or begins so.
_SERVICE = re.compile(
    r"DECOMPOSERL_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
Path_ = tuple[str, ...]
Given = dict[Path_, tuple[str, str]]
"""The value of a setting, and the variable that it was written under."""


def variable_of(path: Path_) -> str:
    """The variable of a setting."""
    return PREFIX + "__".join(path).upper()


_NEW = {variable_of(path): path for path, _ in fields_of()}
_OLD = {
    PREFIX + name: tuple(place.split("."))
    for name, place in read_toml(Path(__file__).with_name("old_variables.toml")).items()
}
_NOW = {name: SHORT.get(path, variable_of(path)) for name, path in (_NEW | _OLD).items()}
"""What each known name is called now."""


def variables() -> dict[str, str]:
    """The variables that are set, those of ``.env`` included."""
    return {name: value for layer in _layers() for name, value in layer.items() if value}


def known_variables() -> frozenset[str]:
    """Every variable that may be set, old names and OpenAI's key included."""
    return frozenset({*_NOW, OPENAI_KEY})


def read_settings(environment: Mapping[str, str] | None = None, **paths: Path | None) -> Settings:
    """The settings; ``paths``, such as ``data``, come before everything else.

    ``environment`` takes the place of the process's and of ``.env``.

    Raises:
        ConfigError: a name is unknown or a value wrong; the message has the variable, or the file,
            section and field, and repeats no URL and no key.
    """
    layers = _layers() if environment is None else [environment]
    for layer in layers:
        _refuse_unknown(layer.keys(), ".env: " if len(layers) > 1 and layer is layers[0] else "")
    given, values = _given(layers), dict[str, Any]()
    written = {path: value for path, (value, _) in given.items()}
    written |= {("paths", name): str(path.absolute()) for name, path in paths.items() if path}
    for path, value in written.items():
        (values if len(path) == 1 else values.setdefault(path[0], {}))[path[-1]] = value
    try:
        return Settings(**values)
    except ValidationError as error:
        file = own_file(values.get("paths", {}).get("data"))
        problems = [_problem(one, given, file) for one in error.errors(include_input=False)]
        raise ConfigError("; ".join(problems)) from None  # pydantic's own text has the values


def _layers() -> list[Mapping[str, str]]:
    """What ``.env`` has, and what the environment has, which overrides it."""
    return [{name: value or "" for name, value in dotenv_values(".env").items()}, os.environ]


def _given(layers: Sequence[Mapping[str, str]]) -> Given:
    """The settings of variables; an empty one is unset, and a new name overrides an old one."""
    given, openai = Given(), any(layer.get(OPENAI_KEY) for layer in layers)
    for layer in layers:
        for old in filter(layer.get, _OLD):
            translated = _translated(old, layer[old], openai=openai)
            given |= {path: (text, old) for path, text in translated.items()}
            if old not in SHORT.values():
                _notice(f"{old} is now {_NOW[old]}; the old name works for one version")
        given |= {path: (layer[name], name) for name, path in _NEW.items() if layer.get(name)}
    return given


def _translated(old: str, value: str, *, openai: bool) -> dict[Path_, str]:
    """What an old variable set: prices, keys and bounds of thinking were written otherwise."""
    section, field = _OLD[old]
    fields = {field: value}
    if field == "key":
        fields = {"key": old}  # the value is the key: the setting names the variable
    elif field == "prompt_price":
        prompt, _, completion = value.partition("/")
        fields = {"prompt_price": prompt, "completion_price": completion or "0"}
    elif field == "thinking" and value.isdecimal() and int(value):
        fields = {"thinking": "on", "thinking_tokens": value, "bound_thinking": "yes"}
    elif field == "base_url" and section in {"silver", "embedder"} and openai:
        fields |= {"key": OPENAI_KEY}  # it went to both, wherever they were
    return {(section, name): text for name, text in fields.items()}


def _refuse_unknown(names: AbstractSet[str], where: str = "") -> None:
    """Refuse a misspelt variable; those that Kubernetes sets for its Services are left alone.

    Raises:
        ConfigError: there is one; the message has the nearest name, and no value.
    """
    ours, problems = sorted(_NOW), []
    for name in sorted(names - known_variables()):
        plain = name.strip("\ufeff \t").upper()  # a file may begin with a byte-order mark
        alike = plain.startswith(_NEAR) or get_close_matches(plain, ours, 1, _ALIKE)
        if alike and not _SERVICE.fullmatch(name):
            nearest = _NOW[get_close_matches(plain, ours, 1, 0)[0]]
            problems.append(f"there is no variable {name!r}; the nearest is {nearest}")
    if problems:
        said = "; ".join(problems)
        raise ConfigError(f"{where}{said}. docs/reference/variables.md lists every one")


def _problem(error: Any, given: Given, file: Path | None) -> str:  # noqa: ANN401 - pydantic's dict
    """A validation error in one line: where the value stands, and what it must be."""
    path, said = tuple(map(str, error["loc"][:2])), error["msg"].removeprefix("Value error, ")
    section = " ".join([f"[{path[0]}]", *path[1:]])
    written = [name for place, (_, name) in given.items() if path == place[: len(path)]]
    where = ", ".join(dict.fromkeys(written)) or f"{file}: {section}" * bool(file) or section
    if error["type"] == "extra_forbidden":
        inside = len(path) - 1
        names = {place[inside] for place, _ in fields_of() if place[:inside] == path[:inside]}
        nearest = get_close_matches(path[inside], sorted(names), 1, 0)[0]
        said = f"there is no such setting; the nearest is {nearest}"
    said = said.replace("Input should", "must", 1)
    return f"{where}: {said[:1].lower()}{said[1:]}"


def use_settings(section: str, **fields: Path | str | None) -> Settings:
    """The settings with other fields of a section, for this process and those that it starts."""
    named = {variable_of((section, name)): value for name, value in fields.items() if value}
    os.environ.update({name: str(value) for name, value in named.items()})
    return read_settings()


@contextmanager
def with_data_folder(settings: Settings, data: Path) -> Iterator[Settings]:
    """The settings with another data folder, for the block and processes that it starts."""
    variable = variable_of(("paths", "data"))
    before = os.environ.get(variable, "")  # an empty variable is unset
    os.environ[variable] = str(data)
    try:
        yield settings.with_paths(data=data)
    finally:
        os.environ[variable] = before


def job_variables(settings: Settings) -> dict[str, str]:
    """The variables of a process on another machine that has these settings; they hold no key."""
    written = {}
    for path, _ in fields_of():
        value: Any = reduce(getattr, path, settings)
        if isinstance(value, tuple):
            value = (" " if path[-1] == "vllm" else ",").join(value)
        if value not in ("", None):
            written[variable_of(path)] = str(value)
    return written


def load_env_file() -> None:
    """Add what ``.env`` has and the environment lacks, before a run is started."""
    load_dotenv(".env")


def names_of_keys() -> tuple[str, ...]:
    """The variables that contain a key by their name: ``KEY`` or one that ends in ``_KEY``."""
    return tuple(sorted(name for name in variables() if _KEY.fullmatch(name)))


def read_key(variable: str) -> SecretStr:
    """The key in a variable, empty where it is not set; kept in memory only."""
    return SecretStr(variables().get(variable, ""))


def use_instance(
    environment: MutableMapping[str, str] | None = None, project: Path = PROJECT
) -> Path:
    """The folder of the run history, for this process: ``DAGSTER_HOME``, else that of ``make``.

    That is ``.dagster_home`` of the project, which is made where it is not there.

    Raises:
        ConfigError: ``DAGSTER_HOME`` names no folder.
    """
    env = os.environ if environment is None else environment
    home = Path(local(env.get("DAGSTER_HOME", ""), "DAGSTER_HOME") or project / ".dagster_home")
    if not env.get("DAGSTER_HOME"):
        home.mkdir(exist_ok=True)
        if not (home / "dagster.yaml").exists():
            shutil.copyfile(project / "dagster.yaml", home / "dagster.yaml")
        env["DAGSTER_HOME"] = str(home)
    if not home.is_dir():
        raise ConfigError(f"DAGSTER_HOME names no folder: {home}")
    return home


def process_rank(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """This process's rank, from 0, and how many train together, as ``accelerate launch`` says."""
    return int(environment.get("RANK") or 0), int(environment.get("WORLD_SIZE") or 1)


def sources_for(settings: Settings) -> tuple[Source, ...]:
    """The catalogue's sources, then the user's own from ``<corpora>/*/source.toml``.

    An own source with ``replaces`` stands in the place of the catalogue's.

    Raises:
        ConfigError: a file is malformed, or a name is taken; so do the functions below.
    """
    return with_own_sources(source for source, _ in _own_corpora(settings))


def benchmarks_for(settings: Settings) -> tuple[Benchmark, ...]:
    """The catalogue's benchmarks, then the test files that the user's own corpora name."""
    tested = (benchmark for _, benchmark in _own_corpora(settings))
    return with_own_benchmarks(benchmark for benchmark in tested if benchmark is not None)


def entries_for(settings: Settings, further: str = "") -> "tuple[SystemEntry, ...]":
    """The entries of ``further``, of models that options named, and of ``systems.toml``, by name.

    A ``systems.toml`` that a setting names must be there.
    """
    from decomposerl.evaluation.entries import parse_systems_toml
    from decomposerl.training.experiments import EXPERIMENTS

    files, own = sorted((settings.paths.data / NAMED_MODELS).glob("*.toml")), settings.paths
    if own.systems is not None or os.path.lexists(own.systems_file):
        files.append(own.systems_file)
    texts = [(text_of(file), str(file), file.parent.resolve()) for file in files]
    known = ([one.name for one in EXPERIMENTS], known_variables())
    parsed = (parse_systems_toml(*it, *known) for it in [*texts, (further, "options", Path())])
    return tuple({entry.name: entry for entries in parsed for entry in entries}.values())


def systems_for(settings: Settings) -> "tuple[System, ...]":
    """The systems of the catalogue, then the user's own, whose names must be others."""
    from decomposerl.baselines.catalogue import SYSTEM_METHODS
    from decomposerl.evaluation.systems import systems
    from decomposerl.training.experiments import EXPERIMENTS

    names, where = [one.name for one in EXPERIMENTS], str(settings.paths.systems_file)
    return systems(SYSTEM_METHODS, names, entries_for(settings), where)


def titles_for(settings: Settings) -> dict[str, str]:
    """The display title of each test set.

    Raises:
        ConfigError: as for ``benchmarks_for``.
    """
    return {one.name: one.title for one in benchmarks_for(settings)}


def _own_corpora(settings: Settings) -> list[tuple[Source, Benchmark | None]]:
    folders = sorted(settings.paths.corpora.glob("*")) if settings.paths.corpora else []
    paths = [path for folder in folders if os.path.lexists(path := folder / "source.toml")]
    return [parse_corpus_toml(text_of(path), str(path)) for path in paths]
