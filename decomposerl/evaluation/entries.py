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
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from decomposerl.baselines.method import Protocol
from decomposerl.endpoint import Count, Endpoint, is_path
from decomposerl.prompts.template import VerdictRule, placeholders_of

TRACE, VERIFIER = "trace", "verifier"
Form = Literal["chat", "documents", "classifier", "minicheck"]
"""How a verifier is asked: a prompt of the entry; the evidence as a document of the chat template;
a sequence-classification head; MiniCheck's own messages."""
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
_PRICED = frozenset({"prompt_price", "completion_price", "dollars"})
_OF_ENDPOINT = _PRICED | {"key", "served_as"}
_LIMITS = frozenset(
    {"concurrency", "deadline_s", "queue_deadline_s", "most_reply_bytes", "calls", "tokens"}
    | {"requests_per_minute", "tokens_per_minute"}
)
_NO_RESULT = _OF_ENDPOINT | _LIMITS | {"name", "title", "device"}
"""Fields that change no verdict."""
_SHOWN = 12
_OF_CHAT = _LIMITS | {"thinking", "thinking_style", "thinking_tokens", "structured"}


def _listed(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _as_json(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("must be a table")  # noqa: TRY004 - pydantic reports a ValueError
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except TypeError as error:
        raise ValueError("holds a date, which JSON does not have") from error


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
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
    claim_split: Literal["whole", "min_over_sentences"] = "whole"
    supported_class: Count = 1
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
    def identity(self) -> str:
        """The revision; without one the addresses, so that two entries never share replies."""
        hosts = ",".join(url.partition("://")[2] for url in self.base_url)
        return self.revision or hosts

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
