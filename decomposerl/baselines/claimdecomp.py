"""ClaimDecomp: yes-no questions whose answers vote (Chen et al. 2022).

Yes-no questions are written about what the claim says and what it implies, each with the answer
that would support the claim; each is answered from the evidence with yes, no or unknown; the
answers are counted.

Calls per claim: 1 + k for k questions; 1 where no question could be read; and the repeated calls.
The k answers run concurrently, and the verdict needs no call.

Replies. Questions: one a line, ``1. question? | yes`` or ``… | no``, the answer that supports the
claim, which may stand on the next line; without one it is yes (noted as ``unoriented``), and a
field with another word is not read. Answers:
``Yes``, ``No`` or ``Unknown``, alone or before a reason; a No whose reason is only that the
evidence does not tell is Unknown.

Rule ``half``: of the answers that say yes or no, half or more have to support the claim for
Supported; none that does is Refuted (the publication cuts the same share into its label bands).
Rule ``all``, the conjunction: Supported if every answer supports the claim; one that contradicts it
or is unknown makes it Refuted. An answer that cannot be read, also when repeated, leaves the
verdict open, unless it could not change it.

Not implemented: the trained question generator of the publication (a model at an endpoint can
take its place), and weights of questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import (
    ClaimInput,
    Exchange,
    ModelCall,
    ModelReply,
    Procedure,
    Steps,
    Verification,
    ask_read,
    status_of,
)
from decomposerl.baselines.pairs import cycles_of
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text, read_truth
from decomposerl.replies.lists import YesNoQuestion, read_yes_no_questions
from decomposerl.replies.statements import Truth
from decomposerl.traces.trace import Verdict

OPENING = "The claim is turned into yes-no questions, each with the answer that supports it."

Rule = Literal["half", "all"]
"""How the answers make a verdict: the publication's share, or the conjunction."""


@dataclass(frozen=True, slots=True)
class Count:
    """How many answers support the claim, contradict it, cannot be read, and are unknown."""

    agreeing: int
    against: int
    unread: int
    unknown: int = 0
    rule: Rule = "half"

    @property
    def verdict(self) -> Verdict | None:
        """The verdict by the rule; None where the unread could change it."""
        if self.rule == "all":
            if self.against or self.unknown:
                return "Refuted"
            return None if self.unread or not self.agreeing else "Supported"
        lead = self.agreeing - self.against
        if self.agreeing and lead >= self.unread:
            return "Supported"
        return "Refuted" if lead < -self.unread or not (self.agreeing or self.unread) else None


def claimdecomp(rule: Rule = "half") -> Procedure:
    """The faithful procedure: questions, an answer to each, and the verdict by this rule."""

    def procedure(given: ClaimInput) -> Steps:
        call = ModelCall("decompose", "questions", {"claim": given.claim})
        ((written, questions),) = yield from ask_read(read_yes_no_questions, "oriented", call)
        if not questions:
            return Verification.unread(written, notes={"questions": 0})
        variables = ({"evidence": given.evidence, "question": text} for text, _ in questions)
        calls = (ModelCall("verify", "answer", each, max_tokens=128) for each in variables)
        answering: Exchange[tuple[tuple[ModelReply, Truth | None], ...]]
        answering = ask_read(read_truth, "truth", *calls)
        answered = yield from answering
        return _counted(rule, questions, answered)

    return procedure


def _counted(
    rule: Rule,
    questions: Sequence[YesNoQuestion],
    answered: Sequence[tuple[ModelReply, Truth | None]],
) -> Verification:
    decisive = [
        truth == (supporting or "true")
        for (_, supporting), (_, truth) in zip(questions, answered, strict=True)
        if truth in {"true", "false"}
    ]
    unread = [reply for reply, truth in answered if truth is None]
    unknown = sum(truth == "unknown" for _, truth in answered)
    agreeing, against = sum(decisive), len(decisive) - sum(decisive)
    verdict = Count(agreeing, against, len(unread), unknown, rule).verdict
    pairs = [
        (text, answer_text(reply.text))
        for (text, _), (reply, _) in zip(questions, answered, strict=True)
    ]
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
            "unknown": unknown,
            "unread": len(unread),
            "unoriented": sum(supporting is None for _, supporting in questions),
        },
    )


METHOD = decomposing(
    claimdecomp(),
    OPENING,
    name="claimdecomp",
    title="ClaimDecomp",
    publication="Chen et al. 2022",
    calls="1 + k: k questions",
    formula=lambda ended: 1 + int(ended.notes["questions"]),
    revision=2,
)
