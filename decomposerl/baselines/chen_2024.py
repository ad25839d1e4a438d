"""Chen-2024: questions find passages, a summary of these is judged (Chen et al. 2024).

Yes-no questions about the claim are written, repeatedly until there are enough; for each the
passages of the evidence that bear on it are selected; all selected passages are summarised with
the claim in mind; the verdict rests on the summary alone.

Calls per claim: q + k + 2, for q writings (1 to ``MOST_WRITINGS``) that gave k questions: q
writings, k concurrent selections, a summary, a verdict; q where no question could be read; and the
repeated calls. The publication writes up to five times and retrieves without a model.

The first writing is greedy, the others are sampled at 0.7. Another follows while there are fewer
than ``ENOUGH`` questions and the last one, if not the first, still added one. Questions that open
with who, what, when and the like, and repeated ones, are dropped, as in the publication.

Replies. Questions: one a line, numbered. Selection: passage numbers, ``2, 5``, or ``NONE``
(``replies.lists``); one that cannot be read, also when repeated, selects nothing, and is noted.
Summary: text. Verdict: ``Supported`` or ``Refuted``. Where no passage is selected the whole
evidence is summarised (noted as ``whole``).

Not implemented: the web search and the trained classifier of the publication. The questions are
not answered: in the trace, the passages selected for a question are its answer.
"""

from functools import partial

from decomposerl.baselines.method import (
    ClaimInput,
    Exchange,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    ask_read,
    ask_verdict,
)
from decomposerl.baselines.pairs import ABSTENTION, cycles_of, numbered
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text
from decomposerl.replies.lists import is_open, read_items, read_numbers, read_question

MOST_WRITINGS, ENOUGH, TEMPERATURE = 3, 10, 0.7
OPENING = "Questions about the claim tell which passages of the evidence to read."


def chen_2024(given: ClaimInput) -> Steps:
    """Questions, passages for each, a summary, and the verdict by it."""
    written, questions = yield from _questions(given.claim)
    notes: dict[str, int | bool] = {"writings": len(written), "questions": len(questions)}
    if not questions:
        return Verification.unread(*written, notes=notes)
    passages = given.passages or (given.evidence,)
    all_passages = numbered(passages)
    variables = ({"passages": all_passages, "question": text} for text in questions)
    calls = (ModelCall("select", "select", each, max_tokens=64) for each in variables)
    selecting = ask_read(partial(read_numbers, most=len(passages)), "numbers", *calls)
    chosen = [numbers for _, numbers in (yield from selecting)]
    read = sorted({number for numbers in chosen for number in numbers or ()})
    notes |= {"selected": len(read), "unread": chosen.count(None), "whole": not read}
    shown = numbered(passages[number - 1] for number in read) if read else all_passages
    claim = {"claim": given.claim}
    (summary,) = yield from ask(ModelCall("summarise", "summary", claim | {"passages": shown}))
    known = {"known": answer_text(summary.text) or "none"}
    call = ModelCall("verify", "verdict", claim | known, max_tokens=64)
    reply, verdict = yield from ask_verdict(call)
    selected = [" ".join(passages[number - 1] for number in numbers or ()) for numbers in chosen]
    pairs = [(text, answer or ABSTENTION) for text, answer in zip(questions, selected, strict=True)]
    return Verification.of_reply(verdict, reply, cycles_of(pairs), OPENING, notes=notes)


def _questions(claim: str) -> Exchange[tuple[list[ModelReply], tuple[str, ...]]]:
    """The writings, and the distinct yes-no questions in them, at most ``ENOUGH``."""
    written: list[ModelReply] = []
    questions: dict[str, str] = {}
    for sample in range(MOST_WRITINGS):
        temperature = TEMPERATURE if sample else 0.0
        variables = {"claim": claim}
        call = ModelCall(
            "decompose", "questions", variables, temperature=temperature, sample=sample
        )
        ((reply, items),) = yield from ask_read(read_items, "questions", call)
        written.append(reply)
        before = len(questions)
        for question in filter(None, map(read_question, items or ())):
            if not is_open(question):
                questions.setdefault(question.casefold(), question)
        if len(questions) >= ENOUGH or (sample and len(questions) == before):
            break
    return written, tuple(questions.values())[:ENOUGH]


def _formula(ended: Verification) -> int:
    writings, questions = int(ended.notes["writings"]), int(ended.notes["questions"])
    return writings + questions + 2 if questions else writings


METHOD = decomposing(
    chen_2024,
    OPENING,
    name="chen_2024",
    title="Chen-2024",
    publication="Chen et al. 2024",
    calls="q + k + 2: q writings (at most 3) of k questions (at most 10); q if k = 0",
    formula=_formula,
    revision=2,
    three_way=True,
)
