"""A claim verifier as a ``MethodCaller``, and its procedure. Calls per claim: 1.

It is the profile's, or that of an entry of ``systems.toml``.
"""

import hashlib
import math
from collections.abc import Sequence
from functools import partial

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
from resources.evaluation.caller import Reply, call_failure
from resources.verifier.own_chat import OwnChatVerifier, VerifierAnswer


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
