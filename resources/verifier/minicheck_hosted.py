"""Bespoke-MiniCheck-7B behind an OpenAI-compatible endpoint, for example vLLM's.

Takes (evidence, claim) pairs, gives P(supported): one token is asked for, and the mass of
"yes" among the five likeliest is the answer (``decomposerl.prompts.minicheck``).

The first question is asked alone, so an endpoint that gives no log probabilities costs one.

Left out deliberately: calls, retries, caches and money (``resources.chat``), stored
results (``resources.verifier.support_scores``), and starting a server (``resources.vllm.server``).
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest
from decomposerl.errors import EngineError
from decomposerl.ports import TokenCounter
from decomposerl.prompts.minicheck import NAME, minicheck_request, yes_and_no
from decomposerl.prompts.template import PromptFile
from resources.chat.failure_policy import FailurePolicy
from resources.store.prompts import load_prompt
from resources.verifier.chunks import utf8_bytes
from resources.verifier.questions import ClaimSplit, Pair, questions
from resources.verifier.support_scores import SupportScores, refuse_unanswered

BUDGET = 32_768 - 300
"""Tokens of a chunk: the model's context without what claim and prompt may take."""
RULES = 1
"""Raise it when this file or its neighbours change any probability."""
_SHOWN = 12


class HostedMiniCheck:
    """A ``Verifier`` and ``TwoFormVerifier`` over a ``Chat``."""

    def __init__(
        self,
        chat: Chat,
        *,
        claim_split: ClaimSplit = "whole",
        prompt: PromptFile | None = None,
        tokens: TokenCounter | None = None,
        budget: int = BUDGET,
    ) -> None:
        """``budget`` is in units of ``tokens``, the model's own tokenizer.

        Without one, UTF-8 bytes are counted: never fewer than the tokens, so nothing is
        too long, and evidence above 32 kB is cut into smaller chunks than need be.
        """
        self._chat, self._split, self._budget = chat, claim_split, budget
        self._given, self._tokens = prompt, tokens
        self._verdict, self._suits = FailurePolicy(most_unanswered=1.0), False

    @property
    def failures(self) -> Counter[str]:
        """Questions without an answer, by reason, since this object was made."""
        return self._verdict.failures

    @property
    def engine(self) -> str:
        """Model, prompt and each setting that decides; answers under others never mix."""
        unit = self._tokens.unit if self._tokens else "bytes"
        return (
            f"minicheck:{self._chat.engine} prompt:{self._prompt.digest[:_SHOWN]} "
            f"chunk={self._budget}:{unit} claim={self._split} r{RULES}"
        )

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The raw form of each ``(evidence, claim)`` pair, shape (n,), range 0..1.

        Raises:
            EngineError: a pair got no answer, or the endpoint gives no log probabilities.
        """
        raw = self.support_forms(pairs).raw
        refuse_unanswered(raw, self)
        return raw

    def support_forms(self, pairs: Sequence[Pair]) -> SupportScores:
        """Both forms, each the best chunk's and the weakest claim part's.

        NaN where any question of a pair failed: it might have changed either.

        Raises:
            EngineError: the endpoint gives no log probabilities or answers no question, or
                a ceiling was reached.
        """
        found = questions(pairs, self._budget, self._sizes, self._split)
        asked = [minicheck_request(self._prompt, *question) for question in found.asked]
        outcomes = self._tried(asked[:1])
        outcomes += self._chat.complete(asked[len(outcomes) :])
        self._verdict.note(outcomes)
        self._verdict.refuse(f"verifier '{self.engine}'")
        masses = np.array([self._masses(outcome) for outcome in outcomes]).reshape(-1, 2)
        yes, both = masses[:, 0], masses.sum(axis=1)
        share = np.divide(yes, both, out=np.zeros_like(yes), where=both != 0)
        return SupportScores(found.combined(yes), found.combined(share))

    def _tried(self, first: list[ChatRequest]) -> list[ChatReply | ChatFailure]:
        """The first question's outcome, until the endpoint has shown that it suits."""
        if self._suits:
            return []
        outcomes = self._chat.complete(first)
        for outcome in outcomes:
            self._suits = not np.isnan(self._masses(outcome)[0])
        return outcomes

    def _masses(self, outcome: ChatReply | ChatFailure) -> tuple[float, float]:
        if isinstance(outcome, ChatFailure):
            if outcome.reason == "no_logprobs":
                raise self._unsuited(outcome.detail)
            return np.nan, np.nan
        try:
            return yes_and_no(outcome)
        except ValueError as error:
            raise self._unsuited(str(error)) from error

    def _unsuited(self, said: str) -> EngineError:
        return EngineError(
            f"verifier '{self.engine}': {said}; MiniCheck needs an endpoint that gives them "
            "(vLLM does, 'transformers serve' does not)"
        )

    def _sizes(self, texts: Sequence[str]) -> Sequence[int]:
        if self._tokens is None:
            return utf8_bytes(texts)
        return [int(size) for size in self._tokens.count(texts)] if texts else []

    @cached_property
    def _prompt(self) -> PromptFile:
        return self._given or load_prompt(NAME)
