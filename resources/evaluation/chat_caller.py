"""A chat model behind the methods: each call fills a section of the method's prompt file.

Takes a ``Chat``, gives a ``MethodCaller`` that threads may share: the client is kept full by as
many claims as requests may be in flight. What stands in a variable cannot forge a tag of ours
or a token of a chat template. Calls of a kind that may spell a verdict ask for log
probabilities; an endpoint that gives none answers all the same.

A call that goes on from a transcript (``Call.continues``) is sent with the transcript as the
assistant's own, unfinished turn where the endpoint can go on from one (vLLM:
``continue_final_message``). Elsewhere it stands in the user's message, under words that ask to
go on with it (``continuation.md``), and a reply that begins with it all over again loses that
beginning.

What the model itself did is an answer: a reply that the token limit cut, or an empty one. What
kept it from answering is a failure.

Left out deliberately: endpoints, caches, retries and money (``resources.chat``).
"""

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from decomposerl.baselines.method import Answer, Call, Operation
from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest, Message, Sampling
from decomposerl.errors import EngineError
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile
from resources.chat.settings import Price, ThinkingStyle
from resources.evaluation.caller import Reply
from resources.evaluation.method_prompts import CONTINUATION, MethodPrompts

SPEAKS: frozenset[Operation] = frozenset({"verify", "procedure"})
"""Operations whose replies may spell a verdict; of others a call says so (``concludes``)."""
_KEPT = "What was answered is kept, and the next run asks for the rest alone"

CONTINUED = " continued"
"""Ends the engine's name where transcripts are the assistant's own, unfinished turn."""


@dataclass(frozen=True, slots=True)
class CallSettings:
    """What decides the answers, besides the model and the call.

    ``likeliest`` alternatives are asked for a token of a call that may spell a verdict, 0 for
    no log probabilities. ``continues``: the endpoint goes on from an assistant's turn.
    ``thinking`` switches a reasoning model's, None leaves it alone; ``thinking_style`` is how the
    client does it, and which settings such a model is sent at all.
    """

    seed: int = 42
    likeliest: int = 5
    continues: bool = False
    thinking: bool | None = None
    thinking_style: ThinkingStyle = "none"

    def sampling(self, call: Call) -> Sampling:
        """As a call is sampled; samples of one call differ in the seed."""
        speaks = call.concludes or call.operation in SPEAKS
        return Sampling(
            temperature=call.temperature,
            seed=self.seed + call.sample,
            max_tokens=call.max_tokens,
            stop=call.stop,
            top_logprobs=self.likeliest if speaks else 0,
        )


class ChatCaller:
    """A ``MethodCaller`` over a ``Chat``."""

    concurrent = True

    def __init__(
        self,
        chat: Chat,
        asking: CallSettings | None = None,
        *,
        prompts: MethodPrompts | None = None,
        claims_at_once: int = 256,
        price: Price | None = None,
    ) -> None:
        """``prompts`` are the package's where none are given; ``price`` None: none is known."""
        self._chat, self._asking = chat, asking or CallSettings()
        self._prompts, self._price = prompts or MethodPrompts(), price
        self.claims_at_once = claims_at_once
        self._answered, self._lock = 0, threading.Lock()

    @property
    def engine(self) -> str:
        """The client and its model, and whether transcripts were its own turn.

        Answers of the two forms are never taken for each other's.
        """
        return self._chat.engine + (CONTINUED if self._asking.continues else "")

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file and all of ``CallSettings``."""
        return self._prompts.hash(prompt, asdict(self._asking))

    def answer(self, prompt: str, calls: Sequence[Call]) -> list[Reply]:
        """One reply a call, in order.

        Raises:
            ConfigError: the prompt file lacks a call's section, or a place of it.
            EngineError: a ceiling was reached, or the endpoint answers no request.
        """
        file = self._prompts.file(prompt)
        outcomes = self._chat.complete([self._request(file, prompt, call) for call in calls])
        self._refuse(outcomes)
        return [self._reply(call, one) for call, one in zip(calls, outcomes, strict=True)]

    def _request(self, file: PromptFile, prompt: str, call: Call) -> ChatRequest:
        text, transcript = self._prompts.filled(prompt, call), escaped(call.continues)
        messages: tuple[Message, ...] = (Message("user", text),)
        if transcript and self._asking.continues:
            messages = (*messages, Message("assistant", transcript))
        elif transcript:
            words = self._prompts.file(CONTINUATION)
            whole = words.filled("prompt", prompt=text, transcript=transcript)
            messages = (Message("user", whole),)
        sampling = self._asking.sampling(call)
        return ChatRequest(messages, sampling, file.template, self._asking.thinking)

    def _reply(self, call: Call, outcome: ChatReply | ChatFailure) -> Reply:
        if isinstance(outcome, ChatFailure):
            if outcome.reason == "truncated":
                return Reply(Answer(_after(call.continues, outcome.text), truncated=True))
            if outcome.reason == "empty":
                return Reply(Answer(""))
            return Reply(Answer("", failure=f"{outcome.reason}: {outcome.detail}"))
        return Reply(
            Answer(_after(call.continues, outcome.text), tokens=outcome.tokens),
            outcome.prompt_tokens,
            outcome.completion_tokens,
            outcome.latency_s,
            outcome.cached,
            _dollars(outcome, self._price),
        )

    def _refuse(self, outcomes: Sequence[ChatReply | ChatFailure]) -> None:
        """Stop where no further claim could be answered."""
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
    """What comes after the transcript, where a reply repeats it from its first word."""
    said, known = text.lstrip(), escaped(transcript).strip()
    return said[len(known) :] if known and said.startswith(known) else text


def _dollars(reply: ChatReply, price: Price | None) -> float | None:
    if price is None:
        return None
    spent = reply.prompt_tokens * price.prompt + reply.completion_tokens * price.completion
    return spent / 1_000_000
