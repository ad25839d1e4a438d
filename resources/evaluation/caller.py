"""What answers the calls of methods: calls in, one ``Reply`` per call out, in order.

A call without an answer is a ``ModelReply`` with a ``failure``. Only an error that stops every
claim (a wrong key, a spending limit) is raised. A verifier, the profile's or an entry's, takes one
call a claim; a chat model fills a section of the method's prompt file for each call.

Threads may share a chat model's caller. Values of variables cannot forge a prompt's tags or a token
of a chat template. Calls that may spell a verdict request log probabilities; an endpoint without
them is fine. A call that continues a transcript (``ModelCall.continues``) sends it as the
assistant's unfinished turn where the endpoint supports that (vLLM: ``continue_final_message``).
Elsewhere it is in the user's message with a request to continue it (``continuation.md``); a reply
that repeats it from the start loses that part. A truncated or empty reply is an answer; what kept
the model from answering is a failure.
"""

import hashlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import isnan
from typing import Any, Protocol, Self

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Operation,
    Steps,
    Verification,
    ask,
)
from decomposerl.baselines.minicheck import THRESHOLD, from_probability
from decomposerl.chat import (
    REPEATED,
    Chat,
    ChatFailure,
    ChatReply,
    ChatRequest,
    Message,
    Price,
    Sampling,
)
from decomposerl.endpoint import Endpoint, ThinkingStyle
from decomposerl.errors import EngineError
from decomposerl.ports import Verifier
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile, PromptSettings
from resources.store.prompts import AGAIN, load_prompt
from resources.verifier.hosted import HostedVerifier, VerifierAnswer

TOO_LONG = "too_long"
"""How the failure of a call begins that does not fit the model's context."""
_LENGTH = re.compile(r"maximum context length|context_length_exceeded")  # vLLM's, OpenAI's
VERDICT_OPERATIONS: frozenset[Operation] = frozenset({"verify", "procedure"})
"""Operations whose replies may spell a verdict; other calls say so (``concludes``)."""
CONTINUED = " continued"
"""Suffix of the engine's name where transcripts are the assistant's unfinished turn."""
CONTINUATION = "continuation"
"""The prompt file that asks a model to continue a transcript."""
_KEPT = "What was answered is kept, and the next run asks for the rest alone"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and its cost. Tokens are counted by the engine, 0 where it does not count.

    ``latency_s`` is the time from request to reply when the call was made; ``cached``: it was made
    by an earlier run. ``dollars`` is None where no price is known.
    """

    answer: ModelReply
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached: bool = False
    dollars: float | None = None


class MethodCaller(Protocol):
    """Answers the calls of methods.

    If ``concurrent``, up to ``claims_at_once`` threads may call ``answer`` at the same time, each
    for one claim (an endpoint, which has its own queue). Otherwise one thread passes the calls of
    up to ``claims_at_once`` claims in one ``answer`` (an engine in this process, which batches
    them).
    """

    @property
    def engine(self) -> str:
        """Name of the program and model that answer; written into every row."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether several threads may call ``answer`` at the same time."""
        ...

    @property
    def claims_at_once(self) -> int:
        """Number of claims in progress that keeps it busy."""
        ...

    def prompt_hash(self, prompt: str) -> str:
        """64 hex digits of SHA-256 over the prompt file of that name and all settings.

        Raises:
            ConfigError: there is no such prompt file, or it is malformed.
        """
        ...

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order. ``prompt`` names the method's prompt file.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables.
            EngineError: no claim can be answered; earlier answers are kept.
        """
        ...


class VerifierCaller:
    """A ``MethodCaller`` that answers with support probabilities, written without rounding.

    One at an endpoint gives tokens and costs too, and fails by claim.
    """

    concurrent = False

    def __init__(
        self,
        verifier: Verifier | HostedVerifier,
        threshold: float = THRESHOLD,
        price: Price | None = None,
    ) -> None:
        """``verifier`` sees each claim's evidence in full; ``price`` None: not known."""
        self._verifier, self._threshold, self._price = verifier, threshold, price
        self.claims_at_once = 256 if isinstance(verifier, HostedVerifier) else 1_024

    @property
    def engine(self) -> str:
        """The verifier's engine."""
        return self._verifier.engine

    def prompt_hash(self, prompt: str) -> str:
        """Over the threshold; a verifier's own prompt is part of its engine's name."""
        return hashlib.sha256(f"{prompt} {self._threshold}".encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:  # noqa: ARG002 - the port's
        """One probability per call; an empty text where an endpoint's reply could not be read.

        Raises:
            EngineError: the verifier cannot answer, or a ceiling was reached.
        """
        pairs = [(call.variables["evidence"], call.variables["claim"]) for call in calls]
        if not pairs:
            return []
        if isinstance(self._verifier, HostedVerifier):
            return [
                _reply(_probability(answer), answer, self._price)
                for answer in self._verifier.answers(pairs)
            ]
        scores = self._verifier.support_probability(pairs).tolist()
        return [Reply(ModelReply(repr(score))) for score in scores]


def _probability(answer: VerifierAnswer) -> ModelReply:
    text = "" if isnan(answer.probability) else repr(answer.probability)
    reason, _, detail = answer.failure.partition(": ")
    return ModelReply(text, failure=_failure(reason, detail) if answer.failure else "")


def _failure(reason: str, detail: str) -> str:
    """A call's failure; the reason is ``TOO_LONG`` where the endpoint says that it is."""
    return f"{TOO_LONG if _LENGTH.search(detail) else reason}: {detail}"


def _reply(
    answer: ModelReply, used: VerifierAnswer | ChatReply[None], price: Price | None
) -> Reply:
    tokens = used.prompt_tokens, used.completion_tokens
    dollars = None if price is None else price.dollars(*tokens)
    return Reply(answer, *tokens, used.latency_s, used.cached, dollars)


def scored(question: ClaimInput, threshold: float = THRESHOLD) -> Steps:
    """The procedure of a verifier: one score, cut at its threshold; unparsed where none was read.

    Raises:
        CallFailedError: the call got no answer, or an answer that is no probability.
    """
    (answer,) = yield from ask(ModelCall("verify", "pair", question.variables))
    if not answer.text:
        return Verification(None, "unparsed", "the verifier's reply could not be read")
    return from_probability(float(answer.text), threshold)


class MethodPrompts:
    """Prompt files of a folder, or of the package where it has none; each is read once."""

    def __init__(
        self,
        folder: str = "",
        given: Mapping[str, PromptFile] | None = None,
        settings: PromptSettings | None = None,
    ) -> None:
        """``folder`` may have your own prompt files; ``given`` ones take precedence."""
        wording = settings or PromptSettings()
        self.file = cache(
            lambda name: (given or {}).get(name) or load_prompt(name, folder, wording)
        )

    def filled(self, prompt: str, call: ModelCall) -> str:
        """The call's section with its variables filled in; tags in their values are escaped.

        A repeated call ends with the line that names its form.

        Raises:
            ConfigError: there is no such section, or values and variables do not match.
        """
        values = {name: escaped(value) for name, value in call.variables.items()}
        text = str(self.file(prompt).filled(call.template, **values))
        return f"{text}\n\n{self.file(AGAIN).filled(call.form)}" if call.form else text

    def section(self, prompt: str, call: ModelCall) -> str:
        """The text of the call's section, variables not filled in."""
        return str(self.file(prompt).sections[call.template])

    def hash(self, prompt: str, settings: object) -> str:
        """SHA-256 over the prompt file, the prompts that all methods share, and the settings."""
        digests = [self.file(name).digest for name in (prompt, CONTINUATION, AGAIN)]
        text = json.dumps([prompt, digests, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CallSettings:
    """What decides the answers, besides the model and the call.

    ``top_logprobs`` are requested per token of a call that may spell a verdict, 0 for none.
    ``continues``: the endpoint continues an assistant's turn. ``thinking`` switches a reasoning
    model's thinking (None: its default), ``thinking_style`` is how the client does it.
    ``thinking_tokens`` are added to each call's limit where the model thinks before it replies.
    """

    seed: int = 42
    top_logprobs: int = 5
    continues: bool = False
    thinking: bool | None = None
    thinking_style: ThinkingStyle = "none"
    thinking_tokens: int = 4_096

    @classmethod
    def at(
        cls, endpoint: Endpoint, seed: int = 42, top_logprobs: int = 5, *, continues: bool = False
    ) -> Self:
        """Those of a model at its endpoint; ``continues`` where the endpoint does not say."""
        style = endpoint.style
        return cls(
            seed=seed,
            top_logprobs=0 if style == "openai" else top_logprobs,
            continues=continues if endpoint.continues is None else endpoint.continues,
            thinking=None if style == "none" else endpoint.thinks,
            thinking_style=style,
            thinking_tokens=endpoint.thinking_tokens,
        )

    @property
    def room(self) -> int:
        """Tokens for a thought: none where thinking is off, or is neither switched nor known."""
        off = self.thinking_style == "none" if self.thinking is None else not self.thinking
        return 0 if off else self.thinking_tokens

    def sampling(self, call: ModelCall) -> Sampling:
        """The sampling of a call; samples of one call, and its repetition, differ in the seed."""
        may_conclude = call.concludes or call.operation in VERDICT_OPERATIONS
        return Sampling(
            temperature=call.temperature,
            seed=self.seed + call.sample + (REPEATED if call.form else 0),
            max_tokens=call.max_tokens + self.room,
            stop=call.stop,
            top_logprobs=self.top_logprobs if may_conclude else 0,
        )


class ChatCaller:
    """A ``MethodCaller`` over a ``Chat``."""

    concurrent = True

    def __init__(
        self,
        chat: Chat,
        settings: CallSettings | None = None,
        *,
        prompts: MethodPrompts | None = None,
        claims_at_once: int = 256,
        price: Price | None = None,
    ) -> None:
        """``prompts`` default to the package's; ``price`` None: not known."""
        self._chat, self._settings = chat, settings or CallSettings()
        self._prompts, self._price = prompts or MethodPrompts(), price
        self.claims_at_once = claims_at_once
        self._answered, self._lock = 0, threading.Lock()

    @property
    def engine(self) -> str:
        """The client and its model, and whether transcripts are the assistant's turn."""
        return self._chat.engine + (CONTINUED if self._settings.continues else "")

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file and all of ``CallSettings``."""
        settings: dict[str, Any] = asdict(self._settings)
        # Stored predictions are under hashes with the field's first name.
        settings["likeliest"] = settings.pop("top_logprobs")
        return self._prompts.hash(prompt, settings)

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables.
            EngineError: a ceiling was reached, or the endpoint answers no request.
        """
        file = self._prompts.file(prompt)
        requests = [self._request(file, prompt, call) for call in calls]
        outcomes: list[ChatReply[None] | ChatFailure] = self._chat.complete(requests)
        self._refuse(outcomes)
        return [self._reply(call, one) for call, one in zip(calls, outcomes, strict=True)]

    def _request(self, file: PromptFile, prompt: str, call: ModelCall) -> ChatRequest:
        text, transcript = self._prompts.filled(prompt, call), escaped(call.continues)
        messages: tuple[Message, ...] = (Message("user", text),)
        if transcript and self._settings.continues:
            messages = (*messages, Message("assistant", transcript))
        elif transcript:
            continuation = self._prompts.file(CONTINUATION)
            whole = continuation.filled("prompt", prompt=text, transcript=transcript)
            messages = (Message("user", whole),)
        sampling = self._settings.sampling(call)
        return ChatRequest(messages, sampling, file.template, self._settings.thinking)

    def _reply(self, call: ModelCall, outcome: ChatReply[None] | ChatFailure) -> Reply:
        if isinstance(outcome, ChatFailure):
            if outcome.reason == "truncated":
                return Reply(ModelReply(_after(call.continues, outcome.text), truncated=True))
            if outcome.reason == "empty":
                return Reply(ModelReply(""))
            return Reply(ModelReply("", failure=_failure(outcome.reason, outcome.detail)))
        answer = ModelReply(_after(call.continues, outcome.text), tokens=outcome.tokens)
        return _reply(answer, outcome, self._price)

    def _refuse(self, outcomes: Sequence[ChatReply[None] | ChatFailure]) -> None:
        """Raise where no further claim could be answered."""
        with self._lock:
            self._answered += sum(isinstance(one, ChatReply) for one in outcomes)
            answered = self._answered
        for one in outcomes:
            if not isinstance(one, ChatFailure):
                continue
            if one.reason == "budget":
                raise EngineError(f"{self.engine}: stopped at the {one.detail}. {_KEPT}")
            if one.lasting and (one.reason == "circuit_open" or not answered):
                raise EngineError(f"{self.engine}: {one.reason}: {one.detail}. {_KEPT}")


def _after(transcript: str, text: str) -> str:
    """The reply's text without the transcript, where it repeats that from the start."""
    stripped, known = text.lstrip(), escaped(transcript).strip()
    return stripped[len(known) :] if known and stripped.startswith(known) else text
