"""A user's own systems: what an entry of ``systems.toml`` may say.

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
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)

from decomposerl.baselines.method import Protocol
from decomposerl.prompts.template import VerdictRule, placeholders_of

TRACE, VERIFIER = "trace", "verifier"
Runs = Literal["endpoint", "in_process", "server"]
Form = Literal["chat", "documents", "classifier", "minicheck"]
"""How a verifier is asked: a prompt of the entry; the evidence as a document of the chat template;
a sequence-classification head; MiniCheck's own messages."""
_HOST = r"(\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)"
_URL = re.compile(rf"https?://{_HOST}(:(?P<port>[0-9]+))?(/[^\s?#@]*)?")
_PORTS = range(1, 2**16)
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]*_)?(KEY|TOKEN)")
_WORDS = ({"document", "claim"}, set[str]())  # placeholders of `user` and `pair`, and of `system`
_OF_METHOD = frozenset({"protocol", "demonstrations"})
_OF_TRACE = frozenset({"recipe"})
_OF_VERIFIER = frozenset(
    {"form", "system", "user", "pair", "supported", "refuted", "read", "score", "threshold"}
    | {"chunk", "claim_split", "supported_class", "template", "tokenizer"}
)
_OF_REPLY = frozenset(
    {"temperature", "max_tokens", "seed", "read", "score", "supported", "refuted"}
)
_UNUSED: dict[Form, frozenset[str]] = {
    "chat": frozenset({"supported_class"}),
    "documents": frozenset({"supported_class"}),
    "minicheck": _OF_REPLY | {"supported_class"},  # as it was published
    "classifier": _OF_REPLY | {"tokenizer"},  # it writes nothing
}
_OF_PROMPT = frozenset({"prompts", "verdict_rule", "continues", "adapter", "adapter_revision"})
_OF_ENDPOINT = frozenset({"key", "prompt_price", "completion_price", "dollars"})
_NO_RESULT = frozenset(
    {"name", "title", "key", "prompt_price", "completion_price", "dollars"}
    | {"concurrency", "deadline_s", "device"}
)
"""Fields that change no verdict."""
_SHOWN = 12
_OF_CHAT = frozenset({"thinking", "thinking_style", "thinking_tokens", "concurrency", "deadline_s"})


def _listed(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _urls(value: object) -> object:
    listed = _listed(value)
    if not isinstance(listed, tuple):
        return listed
    return tuple(url.rstrip("/") if isinstance(url, str) else url for url in listed)


def _plain(urls: tuple[str, ...]) -> tuple[str, ...]:
    # No message repeats a URL or a key's value: either may hold a secret.
    matches = [_URL.fullmatch(url) for url in urls]
    if not all(one and int(one["port"] or 1) in _PORTS for one in matches):
        raise ValueError(
            "must be a plain URL such as http://127.0.0.1:8000/v1, without user, password, query "
            "or fragment, its port 1 to 65535; the field key names the key's variable"
        )
    return urls


def _variable(key: str) -> str:
    if key and not _VARIABLE.fullmatch(key):
        raise ValueError(
            "must be the NAME of a variable that ends in KEY or TOKEN, never the key itself"
        )
    return key


def _as_json(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("must be a table")  # noqa: TRY004 - pydantic reports a ValueError
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except TypeError as error:
        raise ValueError("holds a date, which JSON does not have") from error


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Urls = Annotated[tuple[str, ...], BeforeValidator(_urls), AfterValidator(_plain)]
Variable = Annotated[str, AfterValidator(_variable)]
Json = Annotated[str, BeforeValidator(_as_json)]


def is_path(name: str) -> bool:
    """Whether a model or adapter is named by a path."""
    return name.startswith(("/", "./", "../"))


class SystemEntry(BaseModel):
    """One entry. Empty, 0 and None are the default of the method, model or profile."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    method: str
    protocol: Protocol = "faithful"
    title: str = ""
    model: Annotated[str, Field(min_length=1)]
    revision: str = ""
    base_url: Urls = ()
    key: Variable = ""
    runs: Runs | None = None
    adapter: str = ""
    adapter_revision: str = ""
    recipe: str = ""
    prompt_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    completion_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    dollars: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 42
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    context: Annotated[int, Field(ge=0)] = 0
    prompts: str = ""
    verdict_rule: VerdictRule = "evidence"
    demonstrations: Annotated[int, Field(ge=0)] | None = None
    continues: bool | None = None
    thinking: Literal["default", "on", "off"] = "default"
    thinking_style: Literal["none", "qwen", "openai"] | None = None
    thinking_tokens: Annotated[int, Field(ge=0)] = 4_096
    concurrency: Annotated[int, Field(ge=1, le=4_096)] = 256
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 300.0
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: Annotated[str, Field(pattern=r"^(|cpu|mps|cuda(:[0-9]+)?)$")] = ""
    form: Form = "chat"
    system: str = ""
    user: str = ""
    pair: str = ""
    supported: Texts = ("yes",)
    refuted: Texts = ("no",)
    read: Literal["logprobs", "text"] = "logprobs"
    score: Literal["raw", "normalised"] = "normalised"
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    chunk: Annotated[int, Field(ge=0)] = 0
    claim_split: Literal["whole", "min_over_sentences"] = "whole"
    supported_class: Annotated[int, Field(ge=0)] = 1
    template: Json = ""
    tokenizer: str = ""

    _digest: str = PrivateAttr("")

    def model_post_init(self, context: Any, /) -> None:  # noqa: ANN401, ARG002 - pydantic's
        """Take the digest before paths are made absolute: a folder may move with its file."""
        unused = _NO_RESULT | ({"base_url"} if self.revision else set())
        fields = self.model_dump(mode="json", exclude=set(unused), exclude_defaults=True)
        written = json.dumps(fields, sort_keys=True)
        self._digest = hashlib.sha256(written.encode()).hexdigest()[:_SHOWN]

    @property
    def digest(self) -> str:
        """12 hex digits over the fields that decide its results, as they stand in the file.

        With a ``revision`` the endpoint's address is none of them, as for stored replies.
        """
        return self._digest

    @property
    def place(self) -> Runs:
        """Where it runs; without ``runs`` at its endpoint, else in this process."""
        return self.runs or ("endpoint" if self.base_url else "in_process")

    @property
    def uses_gpu(self) -> bool:
        """Whether it needs a GPU of this machine, as far as the entry says."""
        return self.place == "server" or self.device.startswith("cuda")

    @property
    def where(self) -> str:
        """Where it runs, in words."""
        places = {"in_process": "in this process", "server": "on a server that is started"}
        return places.get(self.place) or f"at {', '.join(self.base_url)}"

    @model_validator(mode="after")
    def _fields_fit(self) -> Self:
        problems = [*_misplaced(self), *_wrong_values(self), *_contradictions(self)]
        if problems:
            raise ValueError("\n".join(problems))
        return self


def _misplaced(entry: SystemEntry) -> Iterator[str]:
    """Fields that its method, its form or its place does not use."""
    of_chat = entry.method != VERIFIER or entry.form != "classifier"
    unused = {
        "a baseline": _OF_METHOD if entry.method in {TRACE, VERIFIER} else set(),
        "method trace": _OF_TRACE if entry.method != TRACE else set(),
        "method verifier": _OF_VERIFIER if entry.method != VERIFIER else set(),
        "a baseline or trace": _OF_PROMPT if entry.method == VERIFIER else set(),
        "an endpoint (base_url)": _OF_ENDPOINT if entry.place != "endpoint" else set(),
        "a served chat model": _OF_CHAT if entry.place == "in_process" or not of_chat else set(),
        "weights in this process": {"dtype", "device"} if entry.place != "in_process" else set(),
    }
    for where, fields in unused.items():
        for field in sorted(fields & entry.model_fields_set):
            yield f"{field}: belongs to {where}"


def _wrong_values(entry: SystemEntry) -> Iterator[str]:
    for field, wanted in (("user", _WORDS[0]), ("pair", _WORDS[0]), ("system", _WORDS[1])):
        text = getattr(entry, field)
        if text and placeholders_of(text) != wanted:
            names = " and ".join(f"{{{name}}}" for name in sorted(wanted)) or "none"
            yield f"{field}: its placeholders must be {names}"
    words = {word.strip().casefold() for word in (*entry.supported, *entry.refuted)}
    if "" in words or len(words) < len(entry.supported) + len(entry.refuted):
        yield "supported: it and refuted are lists of different words, none of them empty"
    if not entry.supported or not entry.refuted:
        yield "supported: it and refuted have at least one word each"


def _contradictions(entry: SystemEntry) -> Iterator[str]:
    if (entry.place == "endpoint") != bool(entry.base_url):
        yield f"base_url: runs = '{entry.place}' {'has no' if entry.base_url else 'needs a'} URL"
    if entry.adapter and is_path(entry.adapter) == bool(entry.adapter_revision):
        yield (
            "adapter_revision: a folder has none"
            if entry.adapter_revision
            else "adapter_revision: an adapter of the hub needs its commit (a folder begins "
            "with /, ./ or ../)"
        )
    if entry.adapter_revision and not entry.adapter:
        yield "adapter: is missing"
    if entry.dollars and not (entry.prompt_price or entry.completion_price):
        yield "dollars: a ceiling needs prompt_price and completion_price"
    if entry.method == VERIFIER:
        yield from _of_a_verifier(entry)


def _of_a_verifier(entry: SystemEntry) -> Iterator[str]:
    given = entry.model_fields_set
    in_process = entry.form == "classifier"
    if in_process != (entry.place == "in_process"):
        yield f"form: '{entry.form}' runs {'in this process' if in_process else 'on a server'}"
    if entry.form == "chat" and not entry.user:
        yield "user: is missing: the text around {document} and {claim}"
    for field, form in (("user", "chat"), ("system", "chat"), ("pair", "classifier")):
        if field in given and entry.form != form:
            yield f"{field}: belongs to form '{form}'"
    if "template" in given and entry.form != "documents":
        yield "template: belongs to form 'documents'"
    for field in sorted(given & _UNUSED[entry.form]):
        yield f"{field}: form '{entry.form}' does not use it"
