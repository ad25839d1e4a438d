"""The profile's claim verifier as a ``MethodCaller``, and its procedure. Calls per claim: 1."""

import hashlib
from collections.abc import Sequence

from decomposerl.baselines.method import ClaimInput, ModelCall, ModelReply, Steps, ask
from decomposerl.baselines.minicheck import THRESHOLD, from_probability
from decomposerl.ports import Verifier
from resources.evaluation.caller import Reply


class VerifierCaller:
    """A ``MethodCaller`` that answers with support probabilities, written without rounding."""

    concurrent = False
    claims_at_once = 1_024

    def __init__(self, verifier: Verifier) -> None:
        """``verifier`` sees each claim's evidence in full."""
        self._verifier = verifier

    @property
    def engine(self) -> str:
        """The verifier's engine."""
        return self._verifier.engine

    def prompt_hash(self, prompt: str) -> str:
        """Over the threshold; a verifier's own prompt is part of its engine's name."""
        return hashlib.sha256(f"{prompt} {THRESHOLD}".encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:  # noqa: ARG002 - the port's
        """One probability per call.

        Raises:
            EngineError: the verifier cannot answer.
        """
        pairs = [(call.variables["evidence"], call.variables["claim"]) for call in calls]
        scores = self._verifier.support_probability(pairs).tolist() if pairs else []
        return [Reply(ModelReply(repr(score))) for score in scores]


def scored(question: ClaimInput) -> Steps:
    """The procedure of a verifier: one score, cut at its threshold.

    Raises:
        CallFailedError: the call got no answer, or an answer that is no probability.
    """
    variables = {"claim": question.claim, "evidence": question.evidence}
    (answer,) = yield from ask(ModelCall("verify", "pair", variables))
    return from_probability(float(answer.text))
