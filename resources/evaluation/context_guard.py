"""Claims beyond a model's context: what is read of them, decided before any call.

A claim fits where the prompt around the evidence, the evidence, what later calls add and the
longest reply have room in the context. What is not decided here (a later call that became too long
after all) ends as wrong when the model refuses it, never as a failed call.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from decomposerl.baselines.method import ClaimInput
from decomposerl.errors import EngineMissing
from decomposerl.evaluation.scored_claims import DROPPED, MOST_WORDS, BeyondContext
from decomposerl.prompts.template import PromptFile
from decomposerl.training.evidence_view import best_sentences, evidence_view
from decomposerl.training.experiment import EvidenceView
from resources.tokens.model_tokens import ModelTokens, tokenizer_file
from resources.tokens.word_tokens import CautiousTokens

_MARGIN = 512  # the chat template, the line of a repeated call, tokens at the joints of texts
_CLAIMS = 3  # times that a prompt may repeat the claim or parts of it
_NUMBER = 6  # tokens of a passage's number and line break


class Counts(Protocol):
    """The part of a ``TokenCounter`` that a guard needs."""

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text, shape (n,)."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens of the longest reply, and of what later calls of a claim add to the prompt."""

    reply: int
    later: int = 0


NO_ROOM = Room(0)
ROOMS = {"single_call": Room(3_072), "faithful": Room(2_048, later=2_048)}
"""By the protocol of a baseline."""


@dataclass(frozen=True)
class ContextGuard:
    """A rule for claims that do not fit ``context`` tokens; 0 is no limit, or none is known.

    Where a policy reads a ``view`` of the evidence, the view has to fit.
    """

    rule: BeyondContext
    context: int = 0
    file: PromptFile | None = None
    room: Room = NO_ROOM
    counter: Counts = field(default_factory=CautiousTokens)
    view: EvidenceView | None = None

    def fitted(self, question: ClaimInput) -> tuple[ClaimInput | None, BeyondContext | None]:
        """The question to ask, None for no call, and what was done; the same where it fits."""
        if self.rule == DROPPED and len(question.evidence.split()) > MOST_WORDS:
            return None, DROPPED
        whole = question
        if self.view is not None:
            question = replace(
                question, evidence=evidence_view(question.claim, question.evidence, self.view)
            )
        left = self._left(question)
        if left is None:
            return whole, None
        if self.rule != "best_sentences":
            return None, "wrong"
        each = _NUMBER if self._numbers and question.passages else 1

        def cost(texts: Sequence[str]) -> list[int]:
            return [int(tokens) + each for tokens in self.counter.count(texts)]

        lines = best_sentences(question.claim, question.evidence, left, cost)
        if not lines:
            return None, "wrong"
        passages = tuple(lines) if question.passages else ()
        return ClaimInput(question.claim, "\n".join(lines), passages), "best_sentences"

    def _left(self, question: ClaimInput) -> int | None:
        """Tokens for evidence where the whole of it does not fit; None where it fits."""
        if not self.context:
            return None
        passages = question.passages if self._numbers else ()
        numbers = _NUMBER * len(passages)
        # A token has at least one byte, so most claims need not be counted.
        most = len(question.claim.encode()) * _CLAIMS + numbers
        whole = max(len(question.evidence.encode()), sum(len(one.encode()) for one in passages))
        if self._fixed + most + whole <= self.context:
            return None
        claim, evidence, apart = self.counter.count(
            [question.claim, question.evidence, "\n".join(passages)]
        )
        left = self.context - self._fixed - _CLAIMS * int(claim)
        return left if max(int(evidence), int(apart)) + numbers > left else None

    @cached_property
    def _numbers(self) -> bool:
        """Whether a prompt shows passages with numbers."""
        return any("{passages}" in text for text in self._sections)

    @cached_property
    def _sections(self) -> list[str]:
        return [] if self.file is None else list(self.file.sections.values())

    @cached_property
    def _fixed(self) -> int:
        """Tokens besides claim and evidence."""
        longest = max((int(one) for one in self.counter.count(self._sections)), default=0)
        return longest + self.room.reply + self.room.later + _MARGIN


def counter_of(model: str, revision: str = "") -> Counts:
    """The model's own tokenizer where it is on this machine, else a cautious estimate."""
    wanted = revision or "main"
    try:
        found = tokenizer_file(model, wanted)
    except EngineMissing:
        found = None
    return CautiousTokens() if found is None else ModelTokens(model, wanted)
