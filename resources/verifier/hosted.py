"""A verifier behind an OpenAI-compatible endpoint: MiniCheck's 7B model, or one of the user's own.

Evidence is cut into chunks; the best chunk counts for each part of a claim, and the weakest part
for the claim. The probability is read from the log probabilities of the verdict's token, or is 1
or 0 by the verdict in the text. ``raw`` is the mass of support, as the public MiniCheck code and
its leaderboard take it; ``normalised`` is its share of support and denial. Both come from the same
stored replies. A reply that says neither is a failure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest, Sampling
from decomposerl.errors import EngineError
from decomposerl.evaluation.entries import VERIFIER, SystemEntry
from decomposerl.ports import TokenCounter
from decomposerl.prompts.template import inline_prompt
from decomposerl.prompts.verifier import MINICHECK_SAMPLING, TOP_LOGPROBS, VerifierForm
from resources.chat.engine import ChatEngine
from resources.hub.locks import Pin
from resources.verifier.chunks import (
    BYTES,
    ChunkTokens,
    ClaimSplit,
    Pair,
    claim_split_of,
    combined,
    measure_of,
    questions,
)
from resources.verifier.minicheck_form import FormSource, minicheck_form, own_form

BUDGET = 32_768 - 300
"""Tokens of a chunk: MiniCheck's context without what claim and prompt may take."""
MINICHECK_RULES, OWN_RULES = 2, 1
"""Increase one when this file or its neighbours change any probability of such a verifier."""
Score = Literal["raw", "normalised"]
_UNREAD = {"unparsable", "truncated", "empty"}
_CONTEXT, _MARGIN = 32_768, 1_024  # tokens of an entry by default, and kept for claim and prompt
_WRITTEN = 1_024  # tokens of a reply whose text is read


@dataclass(frozen=True, slots=True)
class VerifierAnswer:
    """The answer about a pair, or a question of it. ``probability`` is NaN where there is none.

    ``failure`` says why the endpoint gave no answer; it is empty where an answer came, read or not.
    Tokens and seconds are sums over the pair's chunks; ``cached``: all were stored before.
    """

    probability: float
    failure: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached: bool = False


class HostedVerifier(ChatEngine[Pair]):
    """A ``Verifier`` over a chat client, whose reply store is its cache."""

    _port = "verifier"

    def __init__(
        self,
        chat: Chat,
        form: FormSource = own_form,
        *,
        claim_split: ClaimSplit = "whole",
        tokens: TokenCounter | None = None,
        budget: int = BUDGET,
        score: Score = "raw",
        thinking: bool | None = None,
        batch_size: int = 512,
    ) -> None:
        """``form`` is asked at the first use for how the verifier is asked and read.

        ``budget`` is in units of ``tokens``, the model's own tokenizer. Without one, UTF-8 bytes
        are counted: never fewer than the tokens, so nothing is too long, and long evidence is cut
        into smaller chunks than necessary.
        """
        super().__init__(chat, batch_size)
        self._form, self._tokens, self._thinking = cache(form), tokens, thinking
        self._split, self._budget, self._score = claim_split, budget, score

    @property
    def engine(self) -> str:
        """Model, prompt and each setting that decides; answers under others are never mixed."""
        form, unit = self._form(), self._tokens.unit if self._tokens else BYTES
        cut = f"chunk={self._budget}:{unit} claim={self._split}"
        if form.origin is not None:
            rules = f"r{MINICHECK_RULES}:{self._score}"
            return f"minicheck:{self._chat.engine} {form.label} {cut} {rules}"
        words = f"{'|'.join(form.supported)}/{'|'.join(form.refuted)}"
        sampling = form.sampling
        return (
            f"verifier:{self._chat.engine} {form.label} {words} {form.read}:{self._score} "
            f"t={sampling.temperature:g} seed={sampling.seed} most={sampling.max_tokens} "
            f"{cut} think={self._thinking} r{OWN_RULES}"
        )

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The score of each ``(evidence, claim)`` pair, shape (n,), range 0..1.

        Raises:
            EngineError: a pair got no answer (any question might decide), or as ``answers``.
        """
        scores = np.array([one.probability for one in self.answers(pairs)], np.float64)
        missing = int(np.isnan(scores).sum())
        if missing:
            reasons = ", ".join(
                f"{name} {times}: {self.examples[name]}"
                for name, times in sorted(self.failures.items())
            )
            raise EngineError(
                f"verifier '{self.engine}': {missing} of {len(scores)} pairs got no answer (failed "
                f"questions: {reasons}). What was answered is kept; run again for the rest"
            )
        return scores

    def answers(self, pairs: Sequence[Pair]) -> list[VerifierAnswer]:
        """The answer about each ``(evidence, claim)`` pair, in order.

        Raises:
            EngineMissing: MiniCheck's form is missing.
            EngineError: the endpoint lacks log probabilities that are read or answers no question,
                or a ceiling was reached. What was answered is stored.
        """
        form = self._form()  # a missing form is refused before anything is started
        shapes: dict[Pair, tuple[int, int]] = {}

        def requests_of(pair: Pair) -> list[ChatRequest]:
            asked = questions([pair], self._budget, measure_of(self._tokens), self._split)
            (shapes[pair],) = asked.shapes
            return [replace(form.request(*one), thinking=self._thinking) for one in asked.asked]

        def read(reply: ChatReply[object]) -> VerifierAnswer:
            support, denial = form.support(reply)
            share = support if self._score == "raw" else support / (support + denial or 1.0)
            used = (reply.prompt_tokens, reply.completion_tokens, reply.latency_s, reply.cached)
            return VerifierAnswer(share, "", *used)

        answers = self._answers(pairs, requests_of, read)
        return [self._answer(own, shapes[pair]) for pair, own in zip(pairs, answers, strict=True)]

    @staticmethod
    def _answer(
        own: Sequence[VerifierAnswer | ChatFailure], shape: tuple[int, int]
    ) -> VerifierAnswer:
        """The answer about a pair of all of its questions."""
        failed = [one for one in own if isinstance(one, ChatFailure)]
        read = [one for one in own if not isinstance(one, ChatFailure)]
        lost = next((one for one in failed if one.reason not in _UNREAD), None)
        scores = np.array([one.probability for one in read], np.float64)
        return VerifierAnswer(
            np.nan if failed else float(combined(scores, [shape])[0]),
            "" if lost is None else f"{lost.reason}: {lost.detail}",
            sum(one.prompt_tokens for one in read),
            sum(one.completion_tokens for one in read),
            sum(one.latency_s for one in read),
            bool(read) and all(one.cached for one in read),
        )


def entry_verifier(
    entry: SystemEntry,
    open_client: Callable[..., Chat],
    pin: Pin,
    prompts_dir: str,
    *,
    allow_own: bool,
) -> HostedVerifier:
    """The verifier of an entry; ``open_client`` gives the client of its model.

    ``pin`` gives the commit of its tokenizer; ``prompts_dir`` and ``allow_own`` are as for
    ``minicheck_form``.
    """
    spelled, minicheck = entry.read == "text", entry.form == "minicheck"
    sampling = MINICHECK_SAMPLING
    if not minicheck:  # one token with log probabilities, or a text, unless the entry says more
        sampling = Sampling(
            temperature=entry.temperature or 0.0,
            seed=entry.seed,
            max_tokens=entry.max_tokens or (_WRITTEN if spelled else 1),
            top_logprobs=0 if spelled else TOP_LOGPROBS,
        )
    sampling = replace(sampling, max_tokens=sampling.max_tokens + entry.thought_tokens)
    most = sampling.max_tokens + _MARGIN  # beside the evidence
    context = entry.context or _CONTEXT
    chat = open_client(
        needs_logprobs=not spelled,
        needed_context=entry.context or min(context, (entry.chunk or context) + most),
    )
    return HostedVerifier(
        chat,
        partial(_form, entry, sampling, prompts_dir, allow_own=allow_own),
        claim_split=claim_split_of(entry.model, entry.claim_split),
        tokens=ChunkTokens(entry.tokenizer, entry.model, entry.revision, pin),
        budget=entry.chunk or max(context - most, context // 4),
        score="raw" if minicheck else entry.score,
        thinking=None if entry.style == "none" else entry.thinks,
    )


def _form(
    entry: SystemEntry, sampling: Sampling, prompts_dir: str, *, allow_own: bool
) -> VerifierForm:
    if entry.form == "minicheck":
        published = minicheck_form("chat", prompts_dir, allow_own=allow_own)
        return replace(published, sampling=sampling, origin=None)
    prompt, template = None, entry.template or "{}"
    label = f"documents {template}"
    if entry.form == "chat":
        prompt = inline_prompt(VERIFIER, {"system": entry.system, "user": entry.user})
        template, label = "", f"prompt=entry@{prompt.digest[:12]}"
    words = (entry.supported, entry.refuted, entry.read)
    return VerifierForm(prompt, *words, sampling, template, label)
