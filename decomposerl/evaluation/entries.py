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
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from decomposerl.baselines.method import Protocol
from decomposerl.endpoint import Count, Endpoint, is_path
from decomposerl.errors import ConfigError
from decomposerl.prompts.template import VerdictRule, placeholders_of
from decomposerl.settings import mistakes

TRACE, VERIFIER, QUESTIONS = "trace", "verifier", "questions"
DECOMPOSED = ("chen_2024", "claimdecomp")
"""The baselines whose publications trained a decomposer: it writes their questions where an entry
names one, else they are prompted for them."""
Form = Literal["chat", "documents", "classifier", "minicheck"]
"""How a verifier is asked: a prompt of the entry; the evidence as a document of the chat template;
a sequence-classification head; MiniCheck's own messages, as they were published."""
ClaimReading = Literal["own", "whole", "min_over_sentences"]
"""How a verifier reads a claim: as its publisher's code does, at once, or its weakest sentence."""
_READ = ("temperature", "max_tokens", "seed", "read", "score", "supported", "refuted")
_FORMS: dict[str, tuple[Form, ...]] = dict.fromkeys(_READ, ("chat", "documents")) | {
    "user": ("chat",),
    "system": ("chat",),
    "pair": ("classifier",),
    "template": ("documents",),
    "supported_class": ("classifier",),
    "tokenizer": ("chat", "documents", "minicheck"),  # a classifier measures with its own
}
"""The forms that use a field, of fields that not every form uses."""
_PLACEHOLDERS = {"user": {"document", "claim"}, "pair": {"document", "claim"}, "system": set[str]()}
_OF_METHOD = {"protocol", "demonstrations"}
_OF_VERIFIER = (_FORMS.keys() - {"temperature", "max_tokens", "seed"}) | {"form", "threshold"}
_OF_VERIFIER |= {"chunk", "claim_split"}
_OF_PROMPT = {"prompts", "verdict_rule", "continues", "adapter", "adapter_revision"}
_OF_THE_REST = {"temperature", "max_tokens", "prompts", "verdict_rule", "title"}
_OF_ENDPOINT = {"prompt_price", "completion_price", "dollars", "key", "served_as"}
_LIMITS = {"concurrency", "deadline_s", "queue_deadline_s", "most_reply_bytes", "calls", "tokens"}
_OF_CHAT = _LIMITS | {"thinking", "thinking_style", "thinking_tokens", "structured"}
_NO_RESULT = _OF_ENDPOINT | _LIMITS | {"name", "title", "device"}
"""Fields that change no verdict."""
_SHOWN = 12
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_RESERVED = re.compile(r"-seed_|-mean$")  # a further seed of a recipe, a mean over seeds
_RANGE = "..."  # of partitions, for Dagster
_ALIKE = 0.5
_OURS = "DECOMPOSE"  # variables that begin so are ours, and unknown ones are refused


def _as_json(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("must be a table")  # noqa: TRY004 - pydantic reports a ValueError
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except TypeError as error:
        raise ValueError("holds a date, which JSON does not have") from error


Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given),
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
]
Json = Annotated[str, BeforeValidator(_as_json)]


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
    decomposer: "SystemEntry | None" = None

    _digest: str = PrivateAttr("")

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401, ARG002 - pydantic's
        """Take the digest before paths are made absolute: a folder may move with its file."""
        unused = _NO_RESULT | ({"base_url"} if self.revision else set())
        if self.claim_split == "whole":  # the engine's name has it
            unused |= {"claim_split"}
        unused |= {"decomposer"}
        fields = self.model_dump(mode="json", exclude=set(unused), exclude_defaults=True)
        if self.decomposer is not None:
            fields["decomposer"] = self.decomposer.digest
        written = json.dumps(fields, sort_keys=True)
        self._digest = hashlib.sha256(written.encode()).hexdigest()[:_SHOWN]

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

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        problems = [*_misplaced(self), *_contradictions(self)]
        if self.method == VERIFIER:
            problems += _of_a_verifier(self)
        if problems:
            raise ValueError("\n".join(problems))
        return self


def _misplaced(entry: SystemEntry) -> Iterator[str]:
    """Fields that its method or its place does not use."""
    of_chat = entry.method != VERIFIER or entry.form != "classifier"
    unused = {
        "a baseline": _OF_METHOD if entry.method in {TRACE, VERIFIER, QUESTIONS} else set(),
        " or ".join(DECOMPOSED): {"decomposer"} if entry.method not in DECOMPOSED else set(),
        "the entry around a decomposer": _OF_THE_REST if entry.method == QUESTIONS else set(),
        "method trace": {"recipe"} if entry.method != TRACE else set(),
        "method verifier": _OF_VERIFIER - ({"user"} if entry.method == QUESTIONS else set())
        if entry.method != VERIFIER
        else set(),
        "a baseline or trace": _OF_PROMPT if entry.method == VERIFIER else set(),
        "an endpoint (base_url)": _OF_ENDPOINT if entry.place != "endpoint" else set(),
        "a served chat model": _OF_CHAT if entry.place == "in_process" or not of_chat else set(),
        "weights in this process": {"dtype", "device"} if entry.place != "in_process" else set(),
    }
    for where, fields in unused.items():
        for field in sorted(fields & entry.model_fields_set):
            yield f"{field}: belongs to {where}"


def _contradictions(entry: SystemEntry) -> Iterator[str]:
    if (entry.place == "endpoint") != bool(entry.base_url):
        runs = entry.runs or entry.place
        yield f"base_url: runs = '{runs}' {'has no' if entry.base_url else 'needs a'} URL"
    if entry.adapter and is_path(entry.adapter) and entry.adapter_revision:
        yield "adapter_revision: a folder has none"
    if entry.adapter and not is_path(entry.adapter) and not entry.adapter_revision:
        yield (
            "adapter_revision: an adapter of the hub needs its commit (a folder begins with /, ./ "
            "or ../)"
        )
    if entry.adapter_revision and not entry.adapter:
        yield "adapter: is missing"
    if entry.method == QUESTIONS and entry.place == "server":
        yield "runs: a decomposer is at an endpoint or in_process"
    if entry.method == QUESTIONS and placeholders_of(entry.user) - {"claim"}:
        yield "user: its one placeholder must be {claim}"
    if entry.dollars and not (entry.prompt_price or entry.completion_price):
        yield "dollars: a ceiling needs prompt_price and completion_price"


def _of_a_verifier(entry: SystemEntry) -> Iterator[str]:
    in_process = entry.form == "classifier"
    if in_process != (entry.place == "in_process"):
        yield f"form: '{entry.form}' runs {'in this process' if in_process else 'on a server'}"
    if entry.form == "chat" and not entry.user:
        yield "user: is missing: the text around {document} and {claim}"
    for field in sorted(_FORMS.keys() & entry.model_fields_set):
        if entry.form not in _FORMS[field]:
            forms = " or ".join(f"'{form}'" for form in _FORMS[field])
            yield f"{field}: form '{entry.form}' does not use it, but {forms}"
    for field, wanted in _PLACEHOLDERS.items():
        text = getattr(entry, field)
        if text and placeholders_of(text) != wanted:
            names = " and ".join(f"{{{name}}}" for name in sorted(wanted)) or "none"
            yield f"{field}: its placeholders must be {names}"
    words = [word.strip().casefold() for word in (*entry.supported, *entry.refuted)]
    if "" in words or len(set(words)) < len(words):
        yield "supported: it and refuted are lists of different words, none of them empty"
    if not entry.supported or not entry.refuted:
        yield "supported: it and refuted have at least one word each"


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
    fields = sorted(SystemEntry.model_fields.keys() - {"name"})
    for name, table in tables.items():
        try:
            entry = _entry(name, table)
            entries.append(entry)
            unknown = _unknown(entry, methods, recipes, variables)
            problems += [f"[{name}] {line}" for line in unknown]
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
    fields = {str(field): value for field, value in table.items()}
    if isinstance(own := fields.get("decomposer"), dict):
        # The same fields, but for its method: it writes questions and nothing else.
        fields["decomposer"] = {"name": f"{name}.decomposer", "method": QUESTIONS, **own}
    return SystemEntry(name=name, **fields)


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


def _near(word: str, names: Collection[str]) -> str:
    near = get_close_matches(word, names, 1, _ALIKE)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(names))}"


def _located(entry: SystemEntry, folder: Path) -> SystemEntry:
    paths: dict[str, object] = {
        field: str(folder / value)
        for field in ("model", "adapter", "tokenizer")
        if is_path(value := getattr(entry, field))
        and (field != "model" or entry.place != "endpoint")  # its path is one over there
    }
    if entry.prompts:
        paths["prompts"] = str(folder / entry.prompts)
    if entry.decomposer is not None:
        paths["decomposer"] = _located(entry.decomposer, folder)
    return entry.model_copy(update=paths)
