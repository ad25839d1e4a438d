"""FOLK: the claim as a conjunction of predicates, each grounded by a question (Wang and Shu 2023).

The claim is written as predicates that must all be true, the question of each is answered from
the evidence, and one reply says of each predicate whether it is true, writes the conjunction, and
ends with the verdict in brackets.

Calls per claim: 2 + k for k predicates; 1 where no predicate could be read. The k answers run
concurrently.

Replies. Predicates: one a line, ``1. Form(things) | statement | question?``; without a question
its statement is asked about. Verdict: a line ``1: True - reason`` for each predicate, with True,
False, or Open (also Unknown), and ``[Supported]`` or ``[Refuted]`` as the last line.

The verdict is the conjunction, recomputed: Supported if every predicate is true, Refuted if one
is false or open. A bracket that says otherwise is noted (``disagrees``) and not followed. Only
where the predicates' lines do not settle the conjunction does the bracket replace it.

Not implemented: negation, "or" and comparison between predicates (a conjunction of the
publication has none; a predicate may say them in words), and the web search behind the answers.
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
from decomposerl.baselines.pairs import Pair, cycles_of, numbered, qa_lines
from decomposerl.baselines.replies import read_items, read_verdict, whole_text
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.lines import lines_of
from decomposerl.traces.trace import Verdict

OPENING = "The claim holds if all of its predicates hold, and each of them has a question."

_TRUTH = re.compile(
    r"[\s*_`•-]*(?:predicate\s?|p)?(\d{1,2})\s?[.):]\s*(?:\w+\([^()]*\)\s*[:=–—-]\s*)?"
    r"(true|false|open|unknown)(?:\s*[.,;:(–—-].*|\s+(?:because|since|as)\s.*|\s*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Predicate:
    """A predicate as written, with its gloss, and the question that grounds it."""

    text: str
    question: str


def folk(given: ClaimInput) -> Steps:
    """Predicates, an answer for each, and the conjunction over them.

    Raises:
        CallFailedError: a call got no reply.
    """
    claim = {"claim": given.claim}
    (written,) = yield from ask(ModelCall("decompose", "predicates", claim))
    predicates = tuple(map(_predicate, read_items(written)))
    if not predicates:
        return Verification.unread(written, notes={"predicates": 0})
    replies = yield from ask(*(_grounding(given.evidence, each) for each in predicates))
    pairs = [
        (each.question, " ".join(lines_of(reply.text)))
        for each, reply in zip(predicates, replies, strict=True)
    ]
    shown = {"predicates": numbered(each.text for each in predicates), "qa": qa_lines(pairs)}
    (reasoned,) = yield from ask(ModelCall("verify", "verdict", claim | shown))
    return _concluded(reasoned, pairs)


def conjunction(truths: Sequence[str | None]) -> Verdict | None:
    """The verdict that the predicates settle, if any; a truth of None could not be read."""
    if any(truth not in {"true", None} for truth in truths):
        return "Refuted"
    return None if None in truths else "Supported"


def _predicate(item: str) -> _Predicate:
    *before, last = [part.strip() for part in item.split("|")]
    if last.endswith("?"):
        return _Predicate(" | ".join(before) or last, last)
    return _Predicate(item, f"Is it true that {last.rstrip('. ')}?")


def _grounding(evidence: str, predicate: _Predicate) -> ModelCall:
    variables = {"evidence": evidence, "question": predicate.question}
    return ModelCall("answer", "answer", variables, max_tokens=256)


def _concluded(reasoned: ModelReply, pairs: Sequence[Pair]) -> Verification:
    truths = _truths(whole_text(reasoned), len(pairs))
    settled, bracket = conjunction(truths), read_verdict(reasoned)
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


def _truths(text: str, predicates: int) -> list[str | None]:
    """The truth of each predicate by its number; one that has two different ones is not read."""
    truths: dict[int, set[str]] = {}
    for line in filter(None, map(_TRUTH.fullmatch, lines_of(text))):
        truths.setdefault(int(line[1]), set()).add(line[2].lower())
    by_predicate = (truths.get(number, set()) for number in range(1, predicates + 1))
    return [min(values) if len(values) == 1 else None for values in by_predicate]


METHOD = decomposing(
    folk,
    OPENING,
    name="folk",
    title="FOLK",
    publication="Wang and Shu 2023",
    calls="2 + k, k predicates (1 where none was read)",
    formula=lambda ended: 2 + int(ended.notes["predicates"] or -1),
)
