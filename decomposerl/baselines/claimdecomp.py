"""ClaimDecomp: yes-no questions whose answers vote (Chen et al. 2022).

Yes-no questions are written about what the claim says and what it implies, each with the answer
that would support the claim; each is answered from the evidence with yes, no or unknown; the
answers are counted.

Calls per claim: 1 + k for k questions; 1 where no question could be read. The k answers run
concurrently, and the verdict needs no call.

Replies. Questions: one a line, ``1. question? | yes`` or ``… | no``, the answer that supports the
claim; without one it is yes (noted as ``unoriented``). Answers: ``Yes``, ``No`` or ``Unknown``,
alone or separated by a comma or stop from a reason.

Of the answers that say yes or no, half or more have to support the claim for Supported; none that
does is Refuted (the publication cuts the same share into its label bands). An answer that cannot
be read leaves the verdict open, unless it could not change it.

Not implemented: the trained question generator of the publication (a model at an endpoint can
take its place), and weights of questions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.baselines.pairs import cycles_of
from decomposerl.baselines.replies import read_items, read_truth
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.lines import lines_of
from decomposerl.replies.statements import Truth
from decomposerl.traces.trace import Verdict

OPENING = "The claim is turned into yes-no questions, each with the answer that supports it."

_ORIENTED = re.compile(r"(.+?)\s*(?:[|(\[]|(?<=\?)\s*[-–—:→]*)\s*(yes|no)[)\].\s]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Count:
    """How many answers support the claim, contradict it, and cannot be read."""

    agreeing: int
    against: int
    unread: int

    @property
    def verdict(self) -> Verdict | None:
        """Supported from half of the decisive answers on; None where the unread could change it."""
        lead = self.agreeing - self.against
        if self.agreeing and lead >= self.unread:
            return "Supported"
        return "Refuted" if lead < -self.unread or not (self.agreeing or self.unread) else None


@dataclass(frozen=True, slots=True)
class _YesNo:
    """A question, and its answer that supports the claim, where the reply gave one."""

    text: str
    supporting: Truth | None

    def agrees(self, truth: Truth) -> bool:
        """Whether a yes or no supports the claim."""
        return truth == (self.supporting or "true")


def claimdecomp(given: ClaimInput) -> Steps:
    """Questions, an answer to each, and the share of those that support the claim.

    Raises:
        CallFailedError: a call got no reply.
    """
    (written,) = yield from ask(ModelCall("decompose", "questions", {"claim": given.claim}))
    questions = tuple(map(_yes_no, read_items(written)))
    if not questions:
        return Verification.unread(written, notes={"questions": 0})
    variables = ({"evidence": given.evidence, "question": each.text} for each in questions)
    calls = (ModelCall("verify", "answer", each, max_tokens=128) for each in variables)
    replies = yield from ask(*calls)
    return _counted(questions, replies)


def _yes_no(item: str) -> _YesNo:
    oriented = _ORIENTED.fullmatch(item)
    if oriented is None:
        return _YesNo(item, None)
    return _YesNo(oriented[1], "true" if oriented[2].lower() == "yes" else "false")


def _counted(questions: Sequence[_YesNo], replies: Sequence[ModelReply]) -> Verification:
    truths = [read_truth(reply) for reply in replies]
    decisive = [
        question.agrees(truth)
        for question, truth in zip(questions, truths, strict=True)
        if truth in {"true", "false"}
    ]
    unread = [reply for reply, truth in zip(replies, truths, strict=True) if truth is None]
    agreeing, against = sum(decisive), len(decisive) - sum(decisive)
    verdict = Count(agreeing, against, len(unread)).verdict
    answers = [" ".join(lines_of(reply.text)) for reply in replies]
    pairs = [(each.text, answer) for each, answer in zip(questions, answers, strict=True)]
    return Verification(
        verdict,
        status_of(verdict, *unread),
        "\n".join(f"{text} {answer}" for text, answer in pairs),
        cycles_of(pairs),
        OPENING,
        notes={
            "questions": len(questions),
            "agreeing": agreeing,
            "against": against,
            "unknown": truths.count("unknown"),
            "unread": len(unread),
            "unoriented": sum(each.supporting is None for each in questions),
        },
    )


METHOD = decomposing(
    claimdecomp,
    OPENING,
    name="claimdecomp",
    title="ClaimDecomp",
    publication="Chen et al. 2022",
    calls="1 + k, k questions",
    formula=lambda ended: 1 + int(ended.notes["questions"]),
)
