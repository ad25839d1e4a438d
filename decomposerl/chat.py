"""One request to a chat model and what came of it: the types every caller of an LLM shares.

Takes messages and sampling settings, gives replies or typed failures, in the order asked.
A request is a value: two equal requests are one question, and ``ChatRequest.canonical``
is the text whose digest names its answer in any store.

Left out deliberately: endpoints, caches, limits and money. They belong to the client in
``resources.chat``.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant"]
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
    "circuit_open",  # the endpoint failed too often lately
]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
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
    text); an endpoint that cannot enforce it is asked without it.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    template: Template
    thinking: bool | None = None
    schema: str | None = None

    def canonical(self, model: str, revision: str) -> str:
        """Canonical JSON of everything that decides the answer of one model revision."""
        return json.dumps(
            {
                "model": model,
                "revision": revision,
                "messages": [[turn.role, turn.content] for turn in self.messages],
                "temperature": float(self.sampling.temperature) + 0.0,  # 0, 0.0 and -0.0 are one
                "top_p": float(self.sampling.top_p),
                "seed": self.sampling.seed,
                "max_tokens": self.sampling.max_tokens,
                "stop": list(self.sampling.stop),
                "top_logprobs": self.sampling.top_logprobs,
                "template": [self.template.name, self.template.digest],
                "thinking": self.thinking,
                "schema": self.schema,
            },
            ensure_ascii=False,
            separators=(",", ":"),
            sort_keys=True,
        )


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply, its natural-log probability, and the likeliest in its place."""

    text: str
    logprob: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model answered. ``tokens`` is empty unless log probabilities were asked for."""

    text: str
    finish_reason: FinishReason
    model: str
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    cached: bool = False
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatFailure:
    """Why there is no usable reply. ``text`` is what came, where something did.

    ``lasting``: whoever answered so answers every request so (a wrong key, another model).
    """

    reason: FailureReason
    detail: str
    attempts: int
    text: str = ""
    lasting: bool = False


class Chat(Protocol):
    """A chat model one can ask many questions at once."""

    @property
    def engine(self) -> str:
        """Name of the client and model behind the port, for example ``chat:gpt-5-mini``."""
        ...

    def complete(
        self, requests: Sequence[ChatRequest], parse: Callable[[str], Any] | None = None
    ) -> list[ChatReply | ChatFailure]:
        """One outcome a request, in order; no request raises.

        ``parse`` is tried on each reply's text; where it raises ``ValueError`` (or gives up
        on its depth) the request is asked once more, and a second failure is ``unparsable``.
        """
        ...
