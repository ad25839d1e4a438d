"""FOLK: the claim as a conjunction of predicates, each grounded by a question (Wang and Shu 2023).

The claim is written as predicates that must all be true, the question of each is answered from
the evidence, and one reply says of each predicate whether it is true, writes the conjunction, and
ends with the verdict in brackets.

Calls per claim: 2 + k for k predicates; 1 where no predicate could be read; and the repeated
calls. The k answers run concurrently.

Replies (``replies.predicates``). Predicates: one a line, ``1. Form(things) | statement | …?``;
without a question its statement is asked about. Verdict: a line ``1: True - reason`` for each
predicate, with True, False, or Open (also Unknown), and ``[Supported]`` or ``[Refuted]`` as the
last line. Where predicates or verdict cannot be read, also when repeated, the claim is unparsed.

The verdict is the conjunction, recomputed: Supported if every predicate is true, Refuted if one
is false or open. A bracket that says otherwise is noted (``disagrees``) and not followed. Only
where the predicates' lines do not settle the conjunction does the bracket replace it.

Not implemented: negation, "or" and comparison between predicates (a conjunction of the
publication has none; a predicate may say them in words), and the web search behind the answers.
"""

from collections.abc import Sequence
from functools import partial

from decomposerl.baselines.method import (
    ClaimInput,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    ask_each,
    ask_read,
    status_of,
)
from decomposerl.baselines.pairs import Pair, cycles_of, numbered, qa_lines
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text
from decomposerl.replies.predicates import Predicate, read_predicates, read_truths
from decomposerl.traces.trace import Verdict

OPENING = "The claim holds if all of its predicates hold, and each of them has a question."


def folk(given: ClaimInput) -> Steps:
    """Predicates, an answer for each, and the conjunction over them."""
    claim = {"claim": given.claim}
    writing = ask_read(read_predicates, "predicates", ModelCall("decompose", "predicates", claim))
    ((written, predicates),) = yield from writing
    if not predicates:
        return Verification.unread(written, notes={"predicates": 0})
    replies = yield from ask(*(_grounding(given.evidence, each) for each in predicates))
    pairs = [
        (each.question, answer_text(reply.text))
        for each, reply in zip(predicates, replies, strict=True)
    ]
    texts = [each.text for each in predicates]
    shown = {"predicates": numbered(texts), "qa": qa_lines(pairs)}
    read = partial(_concluded, texts, pairs)
    call = ModelCall("verify", "verdict", claim | shown)
    concluding = ask_each(
        "truths", (call, lambda reply: ended if (ended := read(reply)).verdict else None)
    )
    ((reasoned, ended),) = yield from concluding
    return ended or read(reasoned)


def conjunction(truths: Sequence[str | None]) -> Verdict | None:
    """The verdict that the predicates settle, if any; a truth of None could not be read."""
    if any(truth not in {"true", None} for truth in truths):
        return "Refuted"
    return None if None in truths else "Supported"


def _grounding(evidence: str, predicate: Predicate) -> ModelCall:
    variables = {"evidence": evidence, "question": predicate.question}
    return ModelCall("answer", "answer", variables, max_tokens=256)


def _concluded(
    predicates: Sequence[str], pairs: Sequence[Pair], reasoned: ModelReply
) -> Verification:
    truths = read_truths(reasoned.whole, predicates)
    settled, bracket = conjunction(truths), reasoned.verdict
    verdict = settled or bracket
    return Verification(
        verdict,
        status_of(verdict, reasoned),
        reasoned.text,
        cycles_of(pairs),
        OPENING,
        spoken=reasoned if bracket == verdict else None,
        notes={
            "predicates": len(pairs),
            "truths": " ".join(truth or "unread" for truth in truths),
            "bracket": bracket or "unread",
            "disagrees": None not in {settled, bracket} and settled != bracket,
        },
    )


METHOD = decomposing(
    folk,
    OPENING,
    name="folk",
    title="FOLK",
    publication="Wang and Shu 2023",
    calls="2 + k: k predicates; 1 if none was read",
    formula=lambda ended: 2 + int(ended.notes["predicates"] or -1),
    revision=2,
)
