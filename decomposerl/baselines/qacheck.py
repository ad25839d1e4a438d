"""QACheck: one question after the other until the answers suffice (Pan et al. 2023).

A round asks for the next question, answers it from the evidence, and validates the pair; from the
second round on, a call first asks whether the valid pairs suffice. At the end each valid pair
becomes a statement, and the claim is judged by the statements alone.

Calls per claim, for n questions asked and v valid pairs:

- 3n + v + 1 where the pairs sufficed: n questions, n answers, n times "does it suffice?",
  v concurrent statements, a verdict;
- 3n + v after ``MOST_ROUNDS`` rounds, which are not followed by "does it suffice?";
- 3n + v + 2 where there was no further question: one question more;
- 1 where there was no question at all, which ends unparsed;
- and the repeated calls.

The publication's validator is a model; its code has none. Here it is a rule: a pair is valid if
its question was not asked before and its answer says something. A pair that is not valid stays
among those asked, so that the next question can differ, and does not count for the verdict.

Replies. Question: the question, or ``NONE``; one that cannot be read, also when repeated, is no
question. Sufficiency: ``Yes`` or ``No``; anything else, also when repeated, is no yes, and noted.

Not implemented: the background passage that the published code has the model write before it
answers (the evidence is given).
"""

from collections.abc import Sequence

from decomposerl.baselines.method import (
    ClaimInput,
    Exchange,
    ModelCall,
    Steps,
    Verification,
    ask,
    ask_read,
    ask_verdict,
)
from decomposerl.baselines.pairs import Pair, cycles_of, numbered, qa_lines, repeats
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text, says_unknown
from decomposerl.replies.lists import read_question, says_no_more
from decomposerl.replies.steps import read_sufficient

MOST_ROUNDS = 5
OPENING = "Questions are asked one at a time until their answers suffice to judge the claim."


def qacheck(given: ClaimInput) -> Steps:
    """Rounds of questions, then statements, then the verdict."""
    claim, end, unread = {"claim": given.claim}, "rounds", 0
    asked: list[Pair] = []
    valid: list[Pair] = []
    while len(asked) < MOST_ROUNDS:
        if asked:
            shown = claim | {"qa": qa_lines(valid)}
            call = ModelCall("judge_sufficient", "sufficient", shown, max_tokens=64)
            ((_, truth),) = yield from ask_read(read_sufficient, "sufficient", call)
            unread += truth is None
            if truth == "true":
                end = "sufficient"
                break
        ((last, question),) = yield from ask_read(_read_next, "question", _next(claim, asked))
        if not question:
            end = "no_question"
            break
        variables = {"evidence": given.evidence, "question": question}
        (reply,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        pair = question, answer_text(reply.text)
        valid += [] if repeats(question, asked) or says_unknown(pair[1]) else [pair]
        asked.append(pair)
    notes: dict[str, str | int] = {"rounds": len(asked), "valid": len(valid), "end": end}
    if not asked:
        return Verification.unread(last, notes=notes)
    statements = yield from _statements(valid)
    variables = claim | {"known": numbered(statements)}
    call = ModelCall("verify", "verdict", variables, max_tokens=64)
    reply, verdict = yield from ask_verdict(call)
    notes["sufficiency_unread"] = unread
    return Verification.of_reply(verdict, reply, cycles_of(asked), OPENING, notes=notes)


def _read_next(text: str) -> str | None:
    """The next question, empty where the reply says that there is none."""
    question = read_question(text)
    return "" if question is None and says_no_more(text) else question


def _next(claim: dict[str, str], asked: Sequence[Pair]) -> ModelCall:
    shown = claim | {"qa": qa_lines(asked)} if asked else claim
    template = "next_question" if asked else "first_question"
    return ModelCall("next_question", template, shown, max_tokens=128)


def _statements(valid: Sequence[Pair]) -> Exchange[list[str]]:
    """Each pair as one statement; where the reply is empty, its question and answer."""
    if not valid:
        return []
    calls = (
        ModelCall("state", "statement", {"qa": qa_lines([pair])}, max_tokens=128) for pair in valid
    )
    replies = yield from ask(*calls)
    return [
        answer_text(reply.text) or " ".join(pair)
        for reply, pair in zip(replies, valid, strict=True)
    ]


def _formula(ended: Verification) -> int:
    rounds, valid = int(ended.notes["rounds"]), int(ended.notes["valid"])
    last = {"rounds": 0, "sufficient": 1, "no_question": 2}[str(ended.notes["end"])]
    return 3 * rounds + valid + last if rounds else 1


METHOD = decomposing(
    qacheck,
    OPENING,
    name="qacheck",
    title="QACheck",
    publication="Pan et al. 2023",
    calls="3n + v + 1: n questions, v with something new; 1 less after five rounds, "
    "1 more if the questions end, 1 in all without any",
    formula=_formula,
    revision=2,
    three_way=True,
)
