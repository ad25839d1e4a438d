"""ClaimDecomp: yes-no questions whose answers vote (Chen et al. 2022).

Yes-no questions are written about what the claim says and what it implies, each with the answer
that would support the claim; each is answered from the evidence with yes, no or unknown; the
answers are counted.

Calls per claim: 1 + k for k questions; 1 where no question could be read; and the repeated calls.
The k answers run concurrently, and the verdict needs no call.

Replies. Questions: one a line, ``1. question? | yes`` or ``… | no``, the answer that supports the
claim; without one it is yes (noted as ``unoriented``). Answers: ``Yes``, ``No`` or ``Unknown``; a
No whose reason is only that the evidence does not tell is Unknown.

Of the answers that say yes or no, half or more have to support the claim for Supported; none that
does is Refuted (the publication cuts the same share into its label bands). An answer that cannot be
read, also when repeated, leaves the verdict open, unless it could not change it.

Not implemented: the trained question generator of the publication (a model at an endpoint can
take its place), and weights of questions.
"""

from collections.abc import Sequence

from decomposerl.baselines.method import (
    Answers,
    ClaimInput,
    ModelCall,
    ModelReply,
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


def verdict_of(agreeing: int, against: int, unread: int) -> Verdict | None:
    """The verdict by the numbers of answers; None where those that are unread could change it."""
    lead = agreeing - against
    if agreeing and lead >= unread:
        return "Supported"
    return "Refuted" if lead < -unread or not (agreeing or unread) else None


def claimdecomp(given: ClaimInput) -> Steps:
    """Questions, an answer to each, and the verdict by their share."""
    call = ModelCall("decompose", "questions", {"claim": given.claim})
    ((written, questions),) = yield from ask_read(read_yes_no_questions, "oriented", call)
    if not questions:
        return Verification.unread(written, notes={"questions": 0})
    variables = ({"evidence": given.evidence, "question": text} for text, _ in questions)
    calls = (ModelCall("verify", "answer", each, max_tokens=128) for each in variables)
    answering: Answers[Truth] = ask_read(read_truth, "truth", *calls)
    return _counted(questions, (yield from answering))


def _counted(
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
    verdict = verdict_of(agreeing, against, len(unread))
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
    claimdecomp,
    OPENING,
    name="claimdecomp",
    title="ClaimDecomp",
    publication="Chen et al. 2022",
    calls="1 + k: k questions",
    formula=lambda ended: 1 + int(ended.notes["questions"]),
    revision=2,
)
