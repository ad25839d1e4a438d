"""Bespoke-MiniCheck-7B behind an OpenAI-compatible endpoint, for example vLLM's.

Each question requests one token and its top five log-probabilities. ``raw`` is the probability
mass of yes, as the public MiniCheck code and its leaderboard take it; ``normalised`` is its
share of yes and no. Both come from the same stored replies. A reply with neither word among the
five is a failure.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Value
from decomposerl.errors import EngineError
from decomposerl.ports import TokenCounter
from decomposerl.prompts.minicheck import minicheck_request, yes_and_no
from resources.chat.engine import ChatEngine, StoringChat
from resources.verifier.chunks import measure_of
from resources.verifier.minicheck_form import FormSource, own_form
from resources.verifier.questions import ClaimSplit, Pair, combined, questions

BUDGET = 32_768 - 300
"""Tokens of a chunk: the model's context without what claim and prompt may take."""
RULES = 2
"""Increase it when this file or its neighbours change any probability."""
Score = Literal["raw", "normalised"]
_KEPT = "What was answered is kept; run again for the rest"


class HostedMiniCheck(ChatEngine[Pair]):
    """A ``Verifier`` over a chat client, whose reply store is its cache."""

    _port = "verifier"

    def __init__(  # noqa: PLR0913 - each is a setting of the stage
        self,
        chat: StoringChat,
        *,
        claim_split: ClaimSplit = "whole",
        form: FormSource = own_form,
        tokens: TokenCounter | None = None,
        budget: int = BUDGET,
        score: Score = "raw",
        batch_size: int = 512,
        server_death: Callable[[], str] = str,
        settings: Mapping[str, int] | None = None,
    ) -> None:
        """``form`` is asked at the first use for the text around document and claim.

        ``budget`` is in units of ``tokens``, the model's own tokenizer. Without one, UTF-8 bytes
        are counted: never fewer than the tokens, so nothing is too long, and evidence above 32 kB
        is cut into smaller chunks than necessary. ``server_death`` says how the server behind the
        endpoint ended, empty while it runs; after that no further batch is sent. ``settings`` are
        shown in ``details``.
        """
        super().__init__(chat, batch_size)
        self._split, self._budget, self._score = claim_split, budget, score
        self._form, self._tokens = cache(form), tokens
        self._server_death, self._shown = server_death, settings or {}
        self._gives_logprobs = False

    @property
    def engine(self) -> str:
        """Model, prompt and each setting that decides; answers under others are never mixed."""
        unit = self._tokens.unit if self._tokens else "bytes"
        return (
            f"minicheck:{self._chat.engine} {self._form().label} "
            f"chunk={self._budget}:{unit} claim={self._split} r{RULES}:{self._score}"
        )

    def details(self) -> Mapping[str, int | float | str]:
        """The client's counters, and settings of the server."""
        return {**super().details(), **self._shown}

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The score of each ``(evidence, claim)`` pair, shape (n,), range 0..1.

        Raises:
            EngineError: a pair got no answer, or as ``scores``.
        """
        scores = self.scores(pairs)
        missing = int(np.isnan(scores).sum())
        if missing:
            reasons = ", ".join(
                f"{name} {times}: {self._policy.examples[name]}"
                for name, times in sorted(self.failures.items())
            )
            text = (
                f"verifier '{self.engine}': {missing} of {len(scores)} pairs got no answer (failed "
                f"questions: {reasons}). {_KEPT}"
            )
            raise EngineError(self._with_death(text))
        return scores

    def scores(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The best chunk's score for the weakest claim part, shape (n,).

        NaN where any question of a pair failed: it might have changed it.

        Raises:
            EngineMissing: the form is missing.
            EngineError: the endpoint gives no log probabilities or answers no question, its
                server is gone, or a ceiling was reached. What was answered is stored.
        """
        prompt = self._form().prompt  # a missing form is refused before anything is started
        shapes: dict[Pair, tuple[int, int]] = {}

        def requests_of(pair: Pair) -> list[ChatRequest]:
            asked = questions([pair], self._budget, measure_of(self._tokens), self._split)
            (shapes[pair],) = asked.shapes
            return [minicheck_request(prompt, *one) for one in asked.asked]

        try:
            answers = self._answers(pairs, requests_of, yes_and_no)
        except EngineError as error:
            raise EngineError(self._with_death(str(error))) from error
        every = chain.from_iterable(answers)
        unknown = (np.nan, np.nan)
        masses = [unknown if isinstance(one, ChatFailure) else one for one in every]
        score, no = np.array(masses, np.float64).reshape(-1, 2).T
        if self._score == "normalised":
            both = score + no
            score = np.divide(score, both, out=np.zeros_like(score), where=both != 0)
        return combined(score, [shapes[pair] for pair in pairs])

    def _complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Value]
    ) -> list[ChatReply[Value] | ChatFailure]:
        if self.failures and self._server_death():
            raise EngineError(f"verifier '{self.engine}': {_KEPT}")
        # The first question goes alone, so that an endpoint without log probabilities costs one.
        first = [] if self._gives_logprobs else self._checked(requests[:1], parse)
        return first + self._checked(requests[len(first) :], parse)

    def _checked(
        self, requests: Sequence[ChatRequest], parse: Parse[Value]
    ) -> list[ChatReply[Value] | ChatFailure]:
        outcomes = self._chat.complete(requests, parse) if requests else []
        for outcome in outcomes:
            if isinstance(outcome, ChatReply):
                self._gives_logprobs = True
            elif outcome.reason == "no_logprobs":
                raise EngineError(
                    f"verifier '{self.engine}': {outcome.detail}; MiniCheck needs an endpoint that "
                    "gives them (vLLM does, 'transformers serve' does not)"
                )
        return outcomes

    def _with_death(self, text: str) -> str:
        death = self._server_death()
        return f"{text}. {death}" if death else text
