"""A user's own systems: what an entry of ``systems.toml`` may say, and every mistake in the file.

Each table of the file is one system; its name is the system's key and partition::

    [my-lora]
    method = "trace"
    model = "Qwen/Qwen2.5-7B-Instruct"
    adapter = "./adapters/mine"

A path begins with ``/``, ``./`` or ``../`` (relative to the file); anything else is a name on the
hub, or at an endpoint. ``docs/how-to/evaluate.md`` documents the fields.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import Protocol
from decomposerl.endpoint import Count, Endpoint, is_path
from decomposerl.errors import ConfigError
from decomposerl.prompts.template import VerdictRule, placeholders_of
from decomposerl.settings import mistakes

TRACE, VERIFIER, QUESTIONS = "trace", "verifier", "questions"
Form = Literal["chat", "documents", "classifier", "minicheck"]
"""How a verifier is asked: a prompt of the entry; the evidence as a document of the chat template;
a sequence-classification head; MiniCheck's own messages, as they were published."""
ClaimReading = Literal["own", "whole", "min_over_sentences"]
"""How a verifier reads a claim: as its publisher's code does, at once, or its weakest sentence."""
_PLACEHOLDERS = {"user": {"document", "claim"}, "pair": {"document", "claim"}, "system": set[str]()}
_TABLE = tomllib.loads(files(__package__).joinpath("entries.toml").read_text("utf-8"))
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
# A further seed of a recipe, a mean over seeds, and a range of Dagster's partitions.
_RESERVED = re.compile(r"-seed_|-mean$|\.\.\.")
_OURS = "DECOMPOSE"  # variables that begin so are ours, and unknown ones are refused


def _as_json(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("must be a table")  # noqa: TRY004 - pydantic reports a ValueError
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except TypeError as error:
        raise ValueError("holds a date, which JSON does not have") from error


def _listed(value: object) -> object:
    value = [value] if isinstance(value, str) else value
    return tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Json = Annotated[str, BeforeValidator(_as_json)]
_Entry = TypeVar("_Entry", bound=Endpoint)


class Decomposer(Endpoint):
    """A trained model that writes the questions of an entry; ``user`` is its prompt, or its own."""

    model_config = ConfigDict(strict=True)

    model: Annotated[str, Field(min_length=1)]
    runs: Literal["", "endpoint", "vllm", "in_process"] = ""
    user: str = ""


class SystemEntry(Endpoint):
    """One entry: an endpoint, and how its model is asked.

    Empty, 0 and None are the default of the method, model or profile.
    """

    model_config = ConfigDict(strict=True)

    name: str
    method: str
    protocol: Protocol = "faithful"
    title: str = ""
    model: Annotated[str, Field(min_length=1)]
    recipe: str = ""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 42
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    prompts: str = ""
    verdict_rule: VerdictRule = "evidence"
    demonstrations: Count | None = None
    form: Form = "chat"
    system: str = ""
    user: str = ""
    pair: str = ""
    supported: Texts = ("yes",)
    refuted: Texts = ("no",)
    read: Literal["logprobs", "text"] = "logprobs"
    score: Literal["raw", "normalised"] = "normalised"
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    chunk: Count = 0
    claim_split: ClaimReading = "own"
    supported_class: Count = 1
    template: Json = ""
    tokenizer: str = ""
    decomposer: Decomposer | None = None

    _digest: str = PrivateAttr("")

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401, ARG002 - pydantic's
        """Take the digest before paths are made absolute: a folder may move with its file."""
        unused = set(_TABLE["no_result"]) | ({"base_url"} if self.revision else set())
        if self.claim_split == "whole":  # the engine's name has it
            unused |= {"claim_split"}
        how: dict[str, Any] = {
            "mode": "json",
            "exclude": unused | {"decomposer"},
            "exclude_defaults": True,
        }
        fields = self.model_dump(**how)
        if self.decomposer is not None:
            fields["decomposer"] = self.decomposer.model_dump(**how)
        written = json.dumps(fields, sort_keys=True)
        self._digest = hashlib.sha256(written.encode()).hexdigest()[:12]

    @property
    def digest(self) -> str:
        """12 hex digits over the fields that decide its results, as they stand in the file.

        With a ``revision`` the endpoint's address is none of them, as for stored replies.
        """
        return self._digest

    @property
    def identity(self) -> str:
        """The revision; without one the addresses, so that two entries never share replies."""
        hosts = ",".join(url.partition("://")[2] for url in self.base_url)
        return self.revision or hosts

    @property
    def overrides(self) -> dict[str, float | None]:
        """What replaces the sampling of its method's calls; None where nothing does."""
        return {"temperature": self.temperature, "max_tokens": self.max_tokens}

    @property
    def writer(self) -> "SystemEntry | None":
        """The entry with its decomposer in place of its model; None without one."""
        if self.decomposer is None:
            return None
        own = dict(self.decomposer) | {"name": f"{self.name}.decomposer", "decomposer": None}
        return self.model_copy(update=own)

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        own = _contradictions(self.writer) if self.writer else ()
        inner = (f"decomposer.{said}" for said in own)
        if problems := [*_misplaced(self), *_contradictions(self), *inner]:
            raise ValueError("\n".join(problems))
        return self


def _misplaced(entry: SystemEntry) -> Iterator[str]:
    """Fields that its method, its place or its form does not use, by ``entries.toml``."""
    for rule in _TABLE["fields"]:
        only, unless = rule.get("only", {}), rule.get("unless", {})
        wrong = any(getattr(entry, name) not in values for name, values in only.items())
        if wrong or (unless and all(getattr(entry, k) in values for k, values in unless.items())):
            for field in sorted(entry.model_fields_set.intersection(rule["names"])):
                yield f"{field}: belongs to {rule['belong_to']}"


def _contradictions(entry: SystemEntry) -> Iterator[str]:
    """What cannot be true of it, by the message."""
    verifies, runs, has_url = entry.method == VERIFIER, entry.runs or entry.place, entry.base_url
    of_hub = bool(entry.adapter) and not is_path(entry.adapter)
    classifies, here = entry.form == "classifier", entry.place == "in_process"
    words = [word.strip().casefold() for word in (*entry.supported, *entry.refuted)]
    repeated = len({*words}) < len(words) or "" in words
    known = {
        f"base_url: runs = '{runs}' {'has no' if has_url else 'needs a'} URL": bool(has_url)
        != (entry.place == "endpoint"),
        "adapter_revision: an adapter of the hub needs its commit; a folder, which begins with /, "
        "./ or ../, has none": of_hub != bool(entry.adapter_revision),
        "dollars: a ceiling needs prompt_price and completion_price": entry.dollars > 0
        and not entry.price,
        f"form: '{entry.form}' runs {'in this process' if classifies else 'on a server'}": verifies
        and classifies != here,
        "user: is missing: the text around {document} and {claim}": verifies
        and entry.form == "chat"
        and not entry.user,
        "user: its one placeholder must be {claim}": not verifies
        and bool(placeholders_of(entry.user) - {"claim"}),
        "supported: it and refuted have different words, at least one each, none empty": repeated
        or not (entry.supported and entry.refuted),
    }
    yield from (said for said, wrong in known.items() if wrong)
    for field, wanted in _PLACEHOLDERS.items() if verifies else ():
        text = getattr(entry, field)
        if text and placeholders_of(text) != wanted:
            names = " and ".join(f"{{{name}}}" for name in sorted(wanted)) or "none"
            yield f"{field}: its placeholders must be {names}"


def parse_systems_toml(
    text: str,
    where: str,
    folder: Path,
    recipes: Collection[str] = (),
    variables: Collection[str] = (),
) -> tuple[SystemEntry, ...]:
    """The entries of a file, in its order; paths are made absolute below ``folder``.

    ``where`` names the file in messages, ``recipes`` are the names that ``recipe`` may have,
    ``variables`` those that this program reads.

    Raises:
        ConfigError: the file is wrong; the message lists every mistake with its entry and field.
    """
    try:
        tables = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    entries, problems = list[SystemEntry](), list[str]()
    fields = sorted(SystemEntry.model_fields.keys() - {"name"})
    for name, table in tables.items():
        try:
            entry = _entry(name, table)
            entries.append(entry)
            problems += [f"[{name}] {line}" for line in _unknown(entry, recipes, variables)]
        except ValidationError as error:
            lines = mistakes(error, fields, "field of an entry")
            problems += [f"[{name}] {line}" for line in lines]
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems))
    return tuple(_located(entry, folder) for entry in entries)


def _entry(name: str, table: object) -> SystemEntry:
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: stands outside of an entry; write it below a line [NAME]")
    for part in table.keys() - SystemEntry.model_fields.keys():
        if isinstance(table[part], dict):
            said = "is no part of an entry; a name with a dot needs quotes"
            raise ConfigError(f'[{name}.{part}]: {said}, such as ["{name}.{part}"]')
    if not _NAME.fullmatch(name) or _RESERVED.search(name):
        raise ConfigError(
            f"[{name}]: a name has lower-case letters, digits, '.', '_' and '-', begins with a "
            f"letter or digit, and has neither '-seed_' inside nor '-mean' at its end, nor '...'"
        )
    if "name" in table:
        raise ConfigError(f"[{name}] name: the name is the line [{name}]")
    return SystemEntry(name=name, **table)


def _unknown(
    entry: SystemEntry, recipes: Collection[str], variables: Collection[str]
) -> Iterator[str]:
    methods = {method.name: method.procedures for method in ENTRY_METHODS if method.procedures}
    names = [*methods, TRACE, VERIFIER]
    for field, known in (("method", names), ("recipe", recipes)):
        word = getattr(entry, field)
        if word not in known and (word or field == "method"):
            near = get_close_matches(word, known, 1, 0.5)
            there = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            yield f"{field}: there is no '{word}'; {there}"
    if entry.method in methods and entry.protocol not in methods[entry.method]:
        yield f"protocol: {entry.method} has {', '.join(methods[entry.method])}"
    if entry.key.startswith(_OURS) and entry.key not in variables:
        yield f"key: names that begin with {_OURS} are this program's, and it has no such variable"


def _located(entry: _Entry, folder: Path) -> _Entry:
    paths: dict[str, object] = {
        field: str(folder / value)
        for field in ("model", "adapter", "tokenizer")
        if is_path(value := getattr(entry, field, ""))
        and (field != "model" or entry.place != "endpoint")  # its path is one over there
    }
    if isinstance(entry, SystemEntry) and entry.prompts:
        paths["prompts"] = str(folder / entry.prompts)
    if isinstance(entry, SystemEntry) and entry.decomposer:
        paths["decomposer"] = _located(entry.decomposer, folder)
    return entry.model_copy(update=paths)
