"""The prompt files of methods, and a chat model behind them: a call fills a section of its file.

Threads may share the caller. Values of variables cannot forge a prompt's tags or a token of a
chat template. Calls that may spell a verdict request log probabilities; an endpoint without
them is fine.

A call that continues a transcript (``ModelCall.continues``) sends it as the assistant's unfinished
turn where the endpoint supports that (vLLM: ``continue_final_message``). Elsewhere it is in the
user's message with a request to continue it (``continuation.md``); a reply that repeats it from
the start loses that part.

A truncated or empty reply is an answer. What kept the model from answering is a failure.
"""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from decomposerl.baselines.method import ModelCall, ModelReply, Operation
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
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile, PromptSettings
from resources.evaluation.caller import Reply, call_failure
from resources.store.prompts import AGAIN, load_prompt

VERDICT_OPERATIONS: frozenset[Operation] = frozenset({"verify", "procedure"})
"""Operations whose replies may spell a verdict; other calls say so (``concludes``)."""
_KEPT = "What was answered is kept, and the next run asks for the rest alone"

CONTINUED = " continued"
"""Suffix of the engine's name where transcripts are the assistant's unfinished turn."""


CONTINUATION = "continuation"
"""The prompt file that asks a model to continue a transcript."""


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
            return Reply(ModelReply("", failure=call_failure(outcome.reason, outcome.detail)))
        return Reply(
            ModelReply(_after(call.continues, outcome.text), tokens=outcome.tokens),
            outcome.prompt_tokens,
            outcome.completion_tokens,
            outcome.latency_s,
            outcome.cached,
            self._dollars(outcome),
        )

    def _dollars(self, reply: ChatReply[None]) -> float | None:
        if self._price is None:
            return None
        return self._price.dollars(reply.prompt_tokens, reply.completion_tokens)

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
