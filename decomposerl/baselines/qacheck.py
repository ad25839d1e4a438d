"""QACheck: one question after the other until what is known suffices (Pan et al. 2023).

Takes a claim with its evidence. A round asks for the next question, answers it from the
evidence, and validates the pair; from the second round on it is first asked whether what is
known suffices. At the end each valid pair becomes a statement, and the claim is judged by the
statements alone.

Calls per claim, for n questions asked and v valid pairs:

- 3n + v + 1 where what was known sufficed: n questions, n answers, n times "does it suffice?",
  v statements, a verdict;
- 3n + v after ``MOST_ROUNDS`` rounds, which nobody asks about: one "does it suffice?" less;
- 3n + v + 2 where there was no further question: one question more;
- 1 where there was no question at all, which ends unparsed.

The v statements are asked for at once.

The publication's validator is a model; its code has none. Here it is a rule: a pair is valid if
its question was not asked before and its answer says something. A pair that is not valid stays
among those asked, so that the next question can differ, and is no ground for the verdict.

Replies. Question: the question alone, or ``NONE``. Sufficiency: ``Yes`` or ``No``; anything else
is no yes, and noted. Verdict: ``Supported`` or ``Refuted``.

Left out deliberately: the background passage that the published code has the model write before
it answers (the evidence is given), and reading "know" as "no", or drawing a coin, where the
verdict is neither word.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial

from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
    ask,
    status_of,
)
from decomposerl.baselines.pairs import Pair, cycles_of, numbered, qa_lines, repeats
from decomposerl.baselines.replies import (
    lines_of,
    read_question,
    read_verdict,
    read_yes_no,
    says_unknown,
)
from decomposerl.baselines.single_call import written_out

MOST_ROUNDS = 5
OPENING = "Questions are asked one at a time until their answers suffice to judge the claim."

_Asking = Generator[tuple[ModelCall, ...], tuple[ModelReply, ...], str]


@dataclass(slots=True)
class _Known:
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


def qacheck(question: ClaimInput) -> Steps:
    """Rounds of questions, then statements, then the verdict.

    Raises:
        CallFailedError: a call got no answer.
    """
    known = _Known()
    ended = yield from _rounds(question, known)
    if not known.asked:
        notes: dict[str, str | int] = {"rounds": 0, "valid": 0, "end": ended}
        return Verification(None, status_of(None, known.last), known.last.text, notes=notes)
    statements = yield from _statements(known.valid)
    variables = {"claim": question.claim, "known": numbered(statements)}
    (answer,) = yield from ask(ModelCall("verify", "verdict", variables, max_tokens=16))
    verdict = read_verdict(answer)
    return Verification(
        verdict,
        status_of(verdict, answer),
        answer.text,
        cycles_of(known.asked),
        OPENING,
        spoken=answer,
        notes={
            "rounds": len(known.asked),
            "valid": len(known.valid),
            "end": ended,
            "sufficiency_unread": known.unread,
        },
    )


def _rounds(question: ClaimInput, known: _Known) -> _Asking:
    """Fill ``known``; says how it ended: sufficient, no_question or rounds."""
    claim = {"claim": question.claim}
    while len(known.asked) < MOST_ROUNDS:
        if known.asked:
            shown = claim | {"qa": qa_lines(known.valid)}
            (reply,) = yield from ask(
                ModelCall("judge_sufficient", "sufficient", shown, max_tokens=16)
            )
            truth = read_yes_no(reply)
            known.unread += truth is None
            if truth == "true":
                return "sufficient"
        (known.last,) = yield from ask(_next_question(claim, known.asked))
        asked = read_question(known.last.text)
        if asked is None:
            return "no_question"
        variables = {"evidence": question.evidence, "question": asked}
        (reply,) = yield from ask(ModelCall("answer", "answer", variables, max_tokens=256))
        known.add((asked, " ".join(lines_of(reply.text))))
    return "rounds"


def _next_question(claim: dict[str, str], asked: Sequence[Pair]) -> ModelCall:
    if not asked:
        return ModelCall("next_question", "first_question", claim, max_tokens=128)
    shown = claim | {"qa": qa_lines(asked)}
    return ModelCall("next_question", "next_question", shown, max_tokens=128)


def _statements(
    valid: Sequence[Pair],
) -> Generator[tuple[ModelCall, ...], tuple[ModelReply, ...], list[str]]:
    """Each pair as one statement; where the reply is empty, its question and answer."""
    if not valid:
        return []
    shown = ({"qa": qa_lines([pair])} for pair in valid)
    replies = yield from ask(
        *(ModelCall("state", "statement", each, max_tokens=128) for each in shown)
    )
    return [
        " ".join(lines_of(reply.text)) or " ".join(pair)
        for reply, pair in zip(replies, valid, strict=True)
    ]


def _expected_calls(ended: Verification) -> int:
    rounds, valid = int(ended.notes["rounds"]), int(ended.notes["valid"])
    if not rounds:
        return 1
    return (
        3 * rounds
        + valid
        + {"rounds": 0, "sufficient": 1, "no_question": 2}[str(ended.notes["end"])]
    )


METHOD = Method(
    name="qacheck",
    title="QACheck",
    publication="Pan et al. 2023",
    calls="3n + v + 1, n questions of which v gave something new (3n + v after five rounds, "
    "3n + v + 2 where no further question came, 1 where none came)",
    procedures={"faithful": qacheck, "single_call": written_out(OPENING)},
    expected_calls=_expected_calls,
    prompt="qacheck",
)
