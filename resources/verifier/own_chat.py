"""A user's own verifier behind an OpenAI-compatible endpoint, asked in the words of its entry.

Evidence is cut into chunks as for MiniCheck; the best chunk counts. The probability is read from
the log probabilities of the verdict's token, or is 1 or 0 by the verdict in the text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest
from decomposerl.errors import EngineError
from decomposerl.ports import TokenCounter
from decomposerl.prompts.verifier import VerifierForm
from resources.chat.engine import ChatEngine, StoringChat
from resources.verifier.chunks import BYTES, measure_of
from resources.verifier.questions import ClaimSplit, Pair, combined, questions

RULES = 1
"""Increase it when this file or its neighbours change any probability."""
Score = Literal["raw", "normalised"]
_Read = tuple[float, float, int, int, float, bool]
"""Support, denial, tokens of prompt and reply, seconds, whether it was stored."""
_UNREAD = {"unparsable", "truncated", "empty"}


@dataclass(frozen=True, slots=True)
class VerifierAnswer:
    """The answer about one pair. ``probability`` is NaN where there is none.

    ``failure`` says why the endpoint gave no answer; it is empty where an answer came, read or not.
    Tokens and seconds are sums over the pair's chunks; ``cached``: all were stored before.
    """

    probability: float
    failure: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached: bool = False


class OwnChatVerifier(ChatEngine[Pair]):
    """A ``Verifier`` over a chat client, whose reply store is its cache."""

    _port = "verifier"

    def __init__(
        self,
        chat: StoringChat,
        form: Callable[[], tuple[str, VerifierForm]],
        *,
        budget: int,
        tokens: TokenCounter | None = None,
        claim_split: ClaimSplit = "whole",
        score: Score = "normalised",
        thinking: bool | None = None,
    ) -> None:
        """``form`` gives a label of the prompt and the form; it is asked at the first use.

        A chunk has ``budget`` units of ``tokens``, by default UTF-8 bytes. ``score``: the mass of
        support, or its share of support and denial.
        """
        super().__init__(chat)
        self._form_source, self._budget, self._tokens = form, budget, tokens
        self._split, self._score, self._thinking = claim_split, score, thinking

    @property
    def engine(self) -> str:
        """Model, prompt and each setting that decides."""
        label, form = self._form
        unit = self._tokens.unit if self._tokens else BYTES
        words = f"{'|'.join(form.supported)}/{'|'.join(form.refuted)}"
        sampling = form.sampling
        return (
            f"verifier:{self._chat.engine} {label} {words} {form.read}:{self._score} "
            f"t={sampling.temperature:g} seed={sampling.seed} most={sampling.max_tokens} "
            f"chunk={self._budget}:{unit} claim={self._split} think={self._thinking} r{RULES}"
        )

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The score of each ``(evidence, claim)`` pair, shape (n,); NaN where there is none.

        Raises:
            EngineError: as ``answers``.
        """
        return np.array([one.probability for one in self.answers(pairs)], np.float64)

    def answers(self, pairs: Sequence[Pair]) -> list[VerifierAnswer]:
        """The answer about each ``(evidence, claim)`` pair, in order.

        Raises:
            EngineError: the endpoint answers no request, or a ceiling was reached; what was
                answered is stored.
        """
        _, form = self._form
        shapes: dict[Pair, tuple[int, int]] = {}

        def requests_of(pair: Pair) -> list[ChatRequest]:
            asked = questions([pair], self._budget, measure_of(self._tokens), self._split)
            (shapes[pair],) = asked.shapes
            requests = [form.request(*one) for one in asked.asked]
            return [replace(one, thinking=self._thinking) for one in requests]

        def read(reply: ChatReply[object]) -> _Read:
            used = (reply.prompt_tokens, reply.completion_tokens, reply.latency_s, reply.cached)
            return (*form.support(reply), *used)

        answers = self._answers(pairs, requests_of, read)
        return [self._answer(own, shapes[pair]) for pair, own in zip(pairs, answers, strict=True)]

    def _answer(self, own: Sequence[_Read | ChatFailure], shape: tuple[int, int]) -> VerifierAnswer:
        failed = [one for one in own if isinstance(one, ChatFailure)]
        for one in failed:
            if one.reason == "budget":
                raise EngineError(f"verifier '{self.engine}': stopped at the {one.detail}")
        read = [one for one in own if not isinstance(one, ChatFailure)]
        lost = next((one for one in failed if one.reason not in _UNREAD), None)
        scores = np.array([self._scored(*one[:2]) for one in read], np.float64)
        return VerifierAnswer(
            float("nan") if failed else float(combined(scores, [shape])[0]),
            "" if lost is None else f"{lost.reason}: {lost.detail}",
            sum(one[2] for one in read),
            sum(one[3] for one in read),
            sum(one[4] for one in read),
            bool(read) and all(one[5] for one in read),
        )

    def _scored(self, support: float, denial: float) -> float:
        both = support + denial
        return support if self._score == "raw" or not both else support / both

    @cached_property
    def _form(self) -> tuple[str, VerifierForm]:
        return self._form_source()
