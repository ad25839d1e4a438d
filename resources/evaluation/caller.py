"""The port behind every method: calls in, one ``Reply`` per call out, in order.

A call without an answer is a ``ModelReply`` with a ``failure``. Only an error that stops
every claim (a wrong key, a spending limit) is raised. A verifier, the profile's or an entry's,
takes one call a claim.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Procedure,
    Steps,
    Verification,
    ask,
)
from decomposerl.baselines.minicheck import THRESHOLD, from_probability
from decomposerl.chat import Price
from decomposerl.ports import Verifier
from resources.verifier.own_chat import OwnChatVerifier, VerifierAnswer

TOO_LONG = "too_long"
"""How the failure of a call begins that does not fit the model's context."""
_LENGTH = re.compile(r"maximum context length|context_length_exceeded")  # vLLM's, OpenAI's


def call_failure(reason: str, detail: str) -> str:
    """A call's failure; the reason is ``TOO_LONG`` where the endpoint says that it is."""
    return f"{TOO_LONG if _LENGTH.search(detail) else reason}: {detail}"


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
    """A ``MethodCaller`` that answers with support probabilities, written without rounding."""

    concurrent = False
    claims_at_once = 1_024

    def __init__(self, verifier: Verifier, threshold: float = THRESHOLD) -> None:
        """``verifier`` sees each claim's evidence in full."""
        self._verifier, self._threshold = verifier, threshold

    @property
    def engine(self) -> str:
        """The verifier's engine."""
        return self._verifier.engine

    def prompt_hash(self, prompt: str) -> str:
        """Over the threshold; a verifier's own prompt is part of its engine's name."""
        return hashlib.sha256(f"{prompt} {self._threshold}".encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:  # noqa: ARG002 - the port's
        """One probability per call.

        Raises:
            EngineError: the verifier cannot answer.
        """
        pairs = _pairs(calls)
        scores = self._verifier.support_probability(pairs).tolist() if pairs else []
        return [Reply(ModelReply(repr(score))) for score in scores]


class HostedVerifierCaller(VerifierCaller):
    """The same for a verifier at an endpoint: with tokens and costs, and failures by claim."""

    claims_at_once = 256

    def __init__(
        self, verifier: OwnChatVerifier, threshold: float = THRESHOLD, price: Price | None = None
    ) -> None:
        """``price`` None: not known."""
        super().__init__(verifier, threshold)
        self._hosted, self._price = verifier, price

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:  # noqa: ARG002 - the port's
        """One probability per call; an empty text where the reply could not be read.

        Raises:
            EngineError: the endpoint answers no request, or a ceiling was reached.
        """
        answers = self._hosted.answers(_pairs(calls)) if calls else []
        return [self._reply(one) for one in answers]

    def _reply(self, one: VerifierAnswer) -> Reply:
        text = "" if math.isnan(one.probability) else repr(one.probability)
        price, tokens = self._price, (one.prompt_tokens, one.completion_tokens)
        reason, _, detail = one.failure.partition(": ")
        return Reply(
            ModelReply(text, failure=call_failure(reason, detail) if one.failure else ""),
            *tokens,
            one.latency_s,
            one.cached,
            None if price is None else price.dollars(*tokens),
        )


def _pairs(calls: Sequence[ModelCall]) -> list[tuple[str, str]]:
    return [(call.variables["evidence"], call.variables["claim"]) for call in calls]


def scored(question: ClaimInput, threshold: float = THRESHOLD) -> Steps:
    """The procedure of a verifier: one score, cut at its threshold; unparsed where none was read.

    Raises:
        CallFailedError: the call got no answer, or an answer that is no probability.
    """
    variables = {"claim": question.claim, "evidence": question.evidence}
    (answer,) = yield from ask(ModelCall("verify", "pair", variables))
    if not answer.text:
        return Verification(None, "unparsed", "the verifier's reply could not be read")
    return from_probability(float(answer.text), threshold)


def scored_above(threshold: float) -> Procedure:
    """``scored`` with another threshold."""
    return partial(scored, threshold=threshold)
