"""What the environment gives: settings, keys, the user's own corpora and systems.

A value comes from the first that has it: what a caller gives, the variable of its setting, the file
``decomposerl.toml`` of the working folder or else of the data folder, the profile's file, and the
default of its field. The variable is ``DECOMPOSERL_`` and the path with ``__`` between section and
field, such as ``DECOMPOSERL_JUDGE__MODEL``; ``.env`` of the working folder adds those that the
environment lacks. A key is read by the name that a setting gives.
"""

import logging
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from dotenv import load_dotenv
from pydantic import SecretStr, ValidationError

from dagster_project.settings import FIELDS, FILE, PROJECT, ProfileName, Settings
from decomposerl.claims.catalogue import with_own_benchmarks, with_own_sources
from decomposerl.claims.generic import parse_corpus_toml
from decomposerl.claims.source import Benchmark, Source
from decomposerl.endpoint import OPENAI_KEY
from decomposerl.errors import ConfigError
from resources.store.paths import text_of

if TYPE_CHECKING:
    from decomposerl.evaluation.entries import SystemEntry
    from decomposerl.evaluation.systems import System

_notice = cache(logging.getLogger(__name__).warning)  # each line once
NAMED_MODELS = "named_models"  # in the data folder: an entry for each model that options named
PREFIX, PROFILES = "DECOMPOSERL_", Path(__file__).with_name("profiles")
Path_ = tuple[str, ...]
Values = dict[str, Any]
SHORT: dict[Path_, str] = {("paths", n): f"{PREFIX}{n.upper()}" for n in ("data", "corpora")}
"""Permanent short names of the two settings that most scripts name."""
_AT_YOURS = {"runs": "endpoint", "policies": "served"}
"""What a profile says of these is of its own address, and this of one that you name."""
_ALIKE, _NEAR = 0.85, "DECOMPOSE"  # the start of our variables, even of misspelt ones
# What Kubernetes gives every pod of a namespace where a Service is named decomposerl, or begins so.
_SERVICE = re.compile(
    r"DECOMPOSERL_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def variable_of(path: Path_) -> str:
    """The variable of a setting."""
    return PREFIX + "__".join(path).upper()


def read_toml(file: Path) -> Values:
    """The values of a settings file.

    Raises:
        ConfigError: it is no TOML; the message repeats no value.
    """
    try:
        return tomllib.loads(text_of(file))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is no TOML: {error}") from None


_PATHS: dict[str, list[Path_]] = {
    PREFIX + name: [tuple(place.split(".")) for place in places.split("/")]
    for name, places in read_toml(Path(__file__).with_name("old_variables.toml")).items()
}
_NOW = {name: SHORT.get(path, variable_of(path)) for name, (path, *_) in _PATHS.items()}
"""What each old name is called now."""
_PATHS |= {variable_of(path): [path] for path in FIELDS}  # they come last, and override old ones


def known_variables() -> frozenset[str]:
    """Every variable that may be set, old names and OpenAI's key included."""
    return frozenset({*_PATHS, OPENAI_KEY})


def read_settings(environment: Mapping[str, str] | None = None, **paths: Path | None) -> Settings:
    """The settings; ``paths``, such as ``data``, come before everything else.

    ``environment`` takes the place of the process's, which receives what it lacks of ``.env``.

    Raises:
        ConfigError: a name is unknown or a value wrong; the message has the variable, or the file,
            section and field, and repeats no URL and no key.
    """
    if environment is None:
        load_dotenv(".env")
        environment = os.environ
    _refuse_unknown(environment.keys())
    given = _given(environment)
    given.setdefault("paths", {}).update({k: str(v.absolute()) for k, v in paths.items() if v})
    folders = (Path(), Path(given["paths"].get("data") or PROJECT / "data"))
    file = next((file for folder in folders if (file := folder / FILE).is_file()), None)
    try:
        return Settings(**_layered(read_toml(file) if file else {}, given))
    except ValidationError as error:
        problems = [_problem(one, environment, file) for one in error.errors(include_input=False)]
        raise ConfigError("; ".join(problems)) from None  # pydantic's own text has the values


def _refuse_unknown(names: AbstractSet[str]) -> None:
    """Refuse a misspelt variable; those that Kubernetes sets for its Services are left alone.

    Raises:
        ConfigError: there is one; the message has the nearest name, and no value.
    """
    ours, problems = sorted(known_variables()), []
    for name in sorted(names - known_variables()):
        plain = name.strip("\ufeff \t").upper()  # a file may begin with a byte-order mark
        alike = plain.startswith(_NEAR) or get_close_matches(plain, ours, 1, _ALIKE)
        if alike and not _SERVICE.fullmatch(name):
            problems.append(f"there is no variable {name!r}{_nearest(plain, ours)}")
    if problems:
        said = "; ".join(problems)
        raise ConfigError(f"{said}. docs/reference/variables.md lists every one")


def _given(environment: Mapping[str, str]) -> Values:
    """The settings of variables; an empty one is unset, and a new name overrides an old one."""
    given = Values()
    for name, paths in _PATHS.items():
        if not (value := environment.get(name)):
            continue
        if name in _NOW and name not in SHORT.values():
            _notice(f"{name} is now {_NOW[name]}; the old name works for one version")
        # Of an old name the key itself was the value, and a price was written as prompt/completion.
        is_key = name in _NOW and paths[0][-1] == "key"
        if len(paths) > 2 and value.isdecimal() and int(value):  # noqa: PLR2004 - thinking's
            value = f"on/{value}/yes"  # its bound in tokens
        parts = [name] if is_key else value.split("/", len(paths) - 1)
        for (*section, field), part in zip(paths, parts, strict=False):
            (given.setdefault(section[0], {}) if section else given)[field] = part
    return given


def _layered(own: Values, given: Values) -> Values:
    """The values of the profile, the user's file and those that are given, which come first."""
    name = given.get("profile") or own.get("profile") or "embedded"
    known = name in get_args(ProfileName)  # else refused by the field
    values = read_toml(PROFILES / f"{name}.toml") if known else {}
    for section, fields in (*own.items(), *given.items()):
        if isinstance(fields, dict) and fields.get("base_url"):
            of_profile = values.get(section, {})
            values[section] = of_profile | {k: v for k, v in _AT_YOURS.items() if k in of_profile}
    for section, fields in (*own.items(), *given.items()):
        before = values.get(section, {})
        if not isinstance(fields, dict):
            values[section] = fields
        elif isinstance(before, dict):  # else it stays, and is refused
            values[section] = before | fields
    return values


def _nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message: the known name that is most like this one, if one is."""
    heads = sorted(("".join(name.rpartition("__")[:2]), PREFIX, ""), key=len, reverse=True)
    head = next(it for it in heads if name.startswith(it) and any(k.startswith(it) for k in known))
    inside = {one.removeprefix(head): one for one in known if one.startswith(head)}
    near = get_close_matches(name.removeprefix(head), inside, 1, 0.6)
    return f"; the nearest is {_NOW.get(inside[near[0]], inside[near[0]])}" if near else ""


def _problem(error: Any, names: Mapping[str, str], file: Path | None) -> str:  # noqa: ANN401
    """A validation error in one line: where the value stands, and what it must be."""
    path, said = tuple(map(str, error["loc"][:2])), error["msg"].removeprefix("Value error, ")
    inside, section = len(path) - 1, " ".join([f"[{path[0]}]", *path[1:]])
    given = [n for n in _PATHS if names.get(n) and any(path == p[: len(path)] for p in _PATHS[n])]
    by_file = error["type"] == "model_type"  # no variable can make a section anything else
    where = (not by_file and ", ".join(given)) or (f"{file}: {section}" if file else section)
    if error["type"] == "extra_forbidden":
        known = sorted({place[inside] for place in FIELDS if place[:inside] == path[:inside]})
        near = _nearest(path[-1], known) or f"; there are {', '.join(known)}"
        said = f"there is no such setting{near}"
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
    for path in FIELDS:
        value: Any = reduce(getattr, path, settings)
        if isinstance(value, tuple):
            value = (" " if path[-1] == "vllm" else ",").join(value)
        if value not in ("", None):
            written[variable_of(path)] = str(value)
    return written


def read_key(variable: str) -> SecretStr:
    """The key in a variable, empty where it is not set; kept in memory only."""
    return SecretStr(os.environ.get(variable, ""))


def names_of_keys() -> set[str]:
    """The variables that contain a key by their name: ``KEY`` or one that ends in ``_KEY``."""
    return {name for name in os.environ if f"_{name}".upper().endswith("_KEY")}


def process_rank() -> tuple[int, int]:
    """This process's rank, from 0, and how many train together, as ``accelerate launch`` says."""
    return int(os.environ.get("RANK") or 0), int(os.environ.get("WORLD_SIZE") or 1)


def use_instance(env: MutableMapping[str, str] = os.environ, project: Path = PROJECT) -> Path:
    """The folder of the run history: ``DAGSTER_HOME``, else ``.dagster_home`` of the project.

    Raises:
        ConfigError: ``DAGSTER_HOME`` names no folder.
    """
    home = Path(env.get("DAGSTER_HOME") or project / ".dagster_home")
    if not env.get("DAGSTER_HOME"):
        home.mkdir(exist_ok=True)
        if not (home / "dagster.yaml").exists():
            shutil.copyfile(project / "dagster.yaml", home / "dagster.yaml")
        env["DAGSTER_HOME"] = str(home)
    if not home.is_dir():
        raise ConfigError("DAGSTER_HOME names no folder of this machine")
    return home


def corpora_for(settings: Settings) -> tuple[tuple[Source, ...], tuple[Benchmark, ...]]:
    """The catalogue's sources and benchmarks, and the user's own of ``<corpora>/*/source.toml``.

    An own one comes last, or with ``replaces`` stands in the place of the catalogue's.

    Raises:
        ConfigError: a file is malformed, or a name is taken.
    """
    folders = sorted(settings.paths.corpora.glob("*")) if settings.paths.corpora else []
    paths = [path for folder in folders if os.path.lexists(path := folder / "source.toml")]
    own = [parse_corpus_toml(text_of(path), str(path)) for path in paths]
    tested = [benchmark for _, benchmark in own if benchmark is not None]
    return with_own_sources(source for source, _ in own), with_own_benchmarks(tested)


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
    """The display title of each test set."""
    return {one.name: one.title for one in corpora_for(settings)[1]}
