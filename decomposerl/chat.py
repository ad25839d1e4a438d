"""Requests to a chat model, its replies and failures: the types that every caller shares.

Equal requests are one question; ``ChatRequest.canonical`` is the text whose digest is the
key of its answer in any store. The client is ``resources.chat``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar

REPEATED = 1_000
"""Added to the seed of a repeated request; nobody draws so many samples of one."""
RESAMPLED = 0.3
"""Least temperature of a repeated request with ``resample``: at 0 a seed changes nothing."""
Value = TypeVar("Value")
FinishReason = Literal["stop", "length", "content_filter", "other"]
FailureReason = Literal[
    "transport",  # the connection failed or was cut, after all retries
    "timeout",  # the deadline of the call or of the batch passed
    "rate_limited",  # 429 after all retries
    "server_error",  # 5xx after all retries
    "refused",  # another 4xx: the request itself is wrong, never retried
    "wrong_model",  # the endpoint serves another model than was asked for
    "no_logprobs",  # log probabilities were asked for and the endpoint gives none
    "empty",  # a reply without text, or with reasoning alone
    "truncated",  # the token budget ended before the reply did
    "unparsable",  # the reply did not parse, twice
    "budget",  # a ceiling of the run was reached before this call was sent
    "circuit_open",  # the endpoint failed too often recently
]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next tokens are drawn. ``top_logprobs`` 0..20: 0 asks for none."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = 42
    max_tokens: int = 1_024
    stop: tuple[str, ...] = ()
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    """The prompt that the messages were filled from: its name and its text's SHA-256."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a chat model.

    ``thinking`` switches a reasoning model's thinking (None: the model's default).
    ``schema`` is a JSON schema the reply must follow, as canonical JSON text (None: free
    text); an endpoint that cannot enforce it is asked without it. ``thinking_tokens`` ends the
    thought after so many tokens (None: no limit). ``documents`` and ``template_arguments`` (a JSON
    object) are for the model's chat template; a last message of the assistant's is then whole.

    ``again`` and ``resample`` are for ``repeated``, and no part of the key: a line that names the
    form, and whether a second request is sampled, and sent for a reply that was cut off too.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    template: Template
    thinking: bool | None = None
    schema: str | None = None
    again: str = ""
    thinking_tokens: int | None = None
    resample: bool = False
    documents: tuple[str, ...] = ()
    template_arguments: str = ""

    def repeated(self, *, cut: bool = False, switch: bool = False) -> "ChatRequest":
        """The request to send where the reply to this one could not be read.

        Another seed, and ``again`` at the end of the last message of the user. With ``resample``
        also a temperature of at least ``RESAMPLED``; after a reply that was ``cut`` off by the
        token limit, thinking is off (where the model has a ``switch`` for it, and it was not off
        already), else the limit is twice as large.
        """
        seed, messages = self.sampling.seed, list(self.messages)
        places = [place for place, turn in enumerate(messages) if turn.role == "user"]
        if self.again and places:
            last = messages[places[-1]]
            messages[places[-1]] = Message("user", f"{last.content}\n\n{self.again}")
        sampling = replace(self.sampling, seed=None if seed is None else seed + REPEATED)
        made = replace(self, messages=tuple(messages), sampling=sampling, again="")
        if not self.resample:
            return made
        warm = replace(sampling, temperature=max(sampling.temperature, RESAMPLED))
        if cut and switch and self.thinking is not False:
            return replace(made, sampling=warm, thinking=False, thinking_tokens=None)
        return replace(made, sampling=replace(warm, max_tokens=warm.max_tokens * (1 + cut)))

    def canonical(self, model: str, revision: str) -> str:
        """Canonical JSON of everything that decides the answer of one model revision."""
        values = asdict(self.sampling) | {
            "model": model,
            "revision": revision,
            "messages": [[turn.role, turn.content] for turn in self.messages],
            "template": [self.template.name, self.template.digest],
            "thinking": self.thinking,
            "schema": self.schema,
        }
        # 0, 0.0 and -0.0 are one.
        values |= {name: float(values[name]) + 0.0 for name in ("temperature", "top_p")}
        # Only where it is set, so that replies stored before it existed keep their keys.
        for name in ("thinking_tokens", "documents", "template_arguments"):
            if (value := getattr(self, name)) not in {None, (), ""}:
                values[name] = value
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply: its natural-log probability and the top log-probabilities there."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply(Generic[Value]):
    """What a model answered.

    ``tokens`` is empty unless log probabilities were requested. ``value`` is what the request's
    parser made of the reply, None where there was no parser.
    """

    text: str
    finish_reason: FinishReason
    model: str
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    cached: bool = False
    tokens: tuple[Token, ...] = ()
    value: Value = None  # type: ignore[assignment]  # Value is None without a parser


@dataclass(frozen=True, slots=True)
class ChatFailure:
    """Why there is no usable reply. ``text`` is what was received, if anything.

    ``lasting``: the endpoint fails every request this way (a wrong key, another model).
    """

    reason: FailureReason
    detail: str
    text: str = ""
    lasting: bool = False


Parse = Callable[[ChatReply[Any]], Value]
"""What a caller makes of a reply; raises ``ValueError`` for one that it cannot use."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def dollars(self, prompt_tokens: float, completion_tokens: float) -> float:
        """The cost of a number of tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class Chat(Protocol):
    """A chat model that answers batches of requests, stores its replies and counts."""

    @property
    def engine(self) -> str:
        """Name of the client and model behind the port, for example ``chat:gpt-5-mini``."""

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value] | None = None
    ) -> list[ChatReply[Value] | ChatFailure]:
        """One outcome per request, in order; no request raises.

        ``parse`` gives each reply its ``value``. Where it raises ``ValueError`` (or
        ``RecursionError``), and with ``resample`` also where the reply was cut off or empty, the
        request is sent once more, as ``ChatRequest.repeated`` has it. Whichever reply parses is
        stored under the key of the request as it was given; where none does it is a failure.
        """

    def recall(self, requests: Sequence[ChatRequest]) -> list[ChatReply[None] | None]:
        """The stored reply of each request, in order; None where none is stored."""

    def details(self) -> Mapping[str, int | float | str]:
        """Counters by name."""
