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

Replies. Question: the question alone, also behind a label, or ``NONE``; one that cannot be read,
also when repeated, is no question. Sufficiency: ``Yes`` (also ``Enough``) or ``No`` (also ``Not
enough``); anything else, also when repeated, is no yes, and noted. Verdict: ``Supported`` or
``Refuted``; nothing else is guessed at.

Not implemented: the background passage that the published code has the model write before it
answers (the evidence is given).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from decomposerl.baselines.pairs import Pair, cycles_of, numbered, qa_lines, repeats
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text, says_unknown
from decomposerl.replies.lists import read_question, says_no_more
from decomposerl.replies.steps import read_sufficient

MOST_ROUNDS = 5
OPENING = "Questions are asked one at a time until their answers suffice to judge the claim."


@dataclass(slots=True)
class _AskedPairs:
    """The pairs so far, all of them and the valid ones.

    ``unread`` counts sufficiency replies that could not be read, ``last`` is the last reply to the
    call for a question.
    """

    asked: list[Pair] = field(default_factory=list)
    valid: list[Pair] = field(default_factory=list)
    unread: int = 0
    last: ModelReply = field(default_factory=partial(ModelReply, ""))

    def add(self, pair: Pair) -> None:
        """Validate a pair and keep it."""
        if not repeats(pair[0], self.asked) and not says_unknown(pair[1]):
            self.valid.append(pair)
        self.asked.append(pair)


def qacheck(given: ClaimInput) -> Steps:
    """Rounds of questions, then statements, then the verdict.

    Raises:
        CallFailedError: a call got no reply.
    """
    pairs = _AskedPairs()
    end = yield from _rounds(given, pairs)
    notes: dict[str, str | int] = {
        "rounds": len(pairs.asked),
        "valid": len(pairs.valid),
        "end": end,
    }
    if not pairs.asked:
        return Verification.unread(pairs.last, notes=notes)
    statements = yield from _statements(pairs.valid)
    variables = {"claim": given.claim, "known": numbered(statements)}
    call = ModelCall("verify", "verdict", variables, max_tokens=64)
    reply, verdict = yield from ask_verdict(call)
    notes["sufficiency_unread"] = pairs.unread
    cycles = cycles_of(pairs.asked)
    return Verification.of_reply(verdict, reply, cycles, OPENING, notes=notes)


def _rounds(given: ClaimInput, pairs: _AskedPairs) -> Exchange[str]:
    """Fill ``pairs``; the result says how it ended: sufficient, no_question or rounds."""
    claim = {"claim": given.claim}
    while len(pairs.asked) < MOST_ROUNDS:
        if pairs.asked:
            shown = claim | {"qa": qa_lines(pairs.valid)}
            call = ModelCall("judge_sufficient", "sufficient", shown, max_tokens=64)
            ((_, truth),) = yield from ask_read(read_sufficient, "sufficient", call)
            pairs.unread += truth is None
            if truth == "true":
                return "sufficient"
        asking = ask_read(_read_next, "question", _next_question(claim, pairs.asked))
        ((pairs.last, question),) = yield from asking
        if not question:
            return "no_question"
        variables = {"evidence": given.evidence, "question": question}
        (reply,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        pairs.add((question, answer_text(reply.text)))
    return "rounds"


def _read_next(text: str) -> str | None:
    """The next question, empty where the reply says that there is none."""
    question = read_question(text)
    return "" if question is None and says_no_more(text) else question


def _next_question(claim: dict[str, str], asked: Sequence[Pair]) -> ModelCall:
    if not asked:
        return ModelCall("next_question", "first_question", claim, max_tokens=128)
    shown = claim | {"qa": qa_lines(asked)}
    return ModelCall("next_question", "next_question", shown, max_tokens=128)


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
