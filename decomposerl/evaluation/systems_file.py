"""``systems.toml``: its entries, or every mistake in it with entry and field."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from decomposerl.baselines.method import Protocol
from decomposerl.endpoint import is_path
from decomposerl.errors import ConfigError
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_RESERVED = re.compile(r"-seed_|-mean$")  # a further seed of a recipe, a mean over seeds
_ALIKE = 0.5
_OURS = "DECOMPOSE"  # variables that begin so are ours, and unknown ones are refused
_RANGE = "..."  # of partitions, for Dagster


def parse_systems_toml(
    text: str,
    where: str,
    folder: Path,
    methods: Mapping[str, Collection[Protocol]],
    recipes: Collection[str] = (),
    variables: Collection[str] = (),
) -> tuple[SystemEntry, ...]:
    """The entries of a file, in its order; paths are made absolute below ``folder``.

    ``where`` names the file in messages, ``methods`` are the baselines with a chat model and their
    protocols, ``recipes`` the names that ``recipe`` may have, ``variables`` those that this
    program reads.

    Raises:
        ConfigError: the file is wrong; the message lists every mistake with its entry and field.
    """
    try:
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    entries, problems = list[SystemEntry](), list[str]()
    for name, table in tables.items():
        try:
            entry = _entry(name, table)
            entries.append(entry)
            unknown = _unknown(entry, methods, recipes, variables)
            problems += [f"[{name}] {one}" for one in unknown]
        except ValidationError as error:
            problems += [f"[{name}] {one}" for one in _mistakes(error)]
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems))
    return tuple(_located(entry, folder) for entry in entries)


def _entry(name: str, table: object) -> SystemEntry:
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: stands outside of an entry; write it below a line [NAME]")
    if inner := _inner(table):
        whole = f"{name}.{inner}"
        raise ConfigError(
            f'[{whole}]: is no part of an entry; a name with a dot needs quotes: ["{whole}"]'
        )
    if not _NAME.fullmatch(name) or _RESERVED.search(name) or _RANGE in name:
        raise ConfigError(
            f"[{name}]: a name has lower-case letters, digits, '.', '_' and '-', begins with a "
            f"letter or digit, and has neither '-seed_' inside nor '-mean' at its end, nor "
            f"'{_RANGE}'"
        )
    if "name" in table:
        raise ConfigError(f"[{name}] name: the name is the line [{name}]")
    return SystemEntry(name=name, **{str(field): value for field, value in table.items()})


def _inner(table: Mapping[object, object]) -> str:
    """The dotted path to the first table in it that is no field; empty where there is none."""
    for name, value in table.items():
        if isinstance(value, dict) and name not in SystemEntry.model_fields:
            deeper = _inner(value)
            return f"{name}.{deeper}" if deeper else str(name)
    return ""


def _unknown(
    entry: SystemEntry,
    methods: Mapping[str, Collection[Protocol]],
    recipes: Collection[str],
    variables: Collection[str],
) -> Iterator[str]:
    names = [*methods, TRACE, VERIFIER]
    if entry.method not in names:
        yield f"method: there is no '{entry.method}'{_near(entry.method, names)}"
    elif entry.method in methods and entry.protocol not in methods[entry.method]:
        yield f"protocol: {entry.method} has {', '.join(methods[entry.method])}"
    if entry.recipe and entry.recipe not in recipes:
        yield f"recipe: there is no '{entry.recipe}'{_near(entry.recipe, recipes)}"
    if entry.key.startswith(_OURS) and entry.key not in variables:
        yield (
            f"key: names that begin with {_OURS} are those of this program, and it has no such "
            "variable; choose another name"
        )


def _mistakes(error: ValidationError) -> Iterator[str]:
    for mistake in error.errors(include_url=False, include_input=False):
        field = ".".join(str(part) for part in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            yield f"{field}: is no field of an entry{_near(field, SystemEntry.model_fields)}"
        elif mistake["type"] == "missing":
            yield f"{field}: is missing"
        elif not mistake["loc"]:
            yield from message.split("\n")
        else:
            yield f"{field}: {message}"


def _near(word: str, names: Collection[str]) -> str:
    near = get_close_matches(word, [name for name in names if name != "name"], 1, _ALIKE)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(names))}"


def _located(entry: SystemEntry, folder: Path) -> SystemEntry:
    paths = {
        field: str(folder / value)
        for field in ("model", "adapter", "tokenizer")
        if is_path(value := getattr(entry, field))
        and (field != "model" or entry.place != "endpoint")  # its path is one over there
    }
    if entry.prompts:
        paths["prompts"] = str(folder / entry.prompts)
    return entry.model_copy(update=paths)
