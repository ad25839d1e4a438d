"""Readings of the baselines' replies, one function for each kind of call.

Each drives the method with the reply under test (``reply_drive``) and gives what the method made of
it as a JSON value; None where nothing was read.
"""

import re
from typing import Any

from decomposerl.baselines.method import ClaimInput, ModelReply
from decomposerl.replies.abstention import abstains
from decomposerl.replies.lines import plain_text
from decomposerl.replies.lists import read_items
from studies.reply_drive import CLAIM, EVIDENCE, PREDICATE, MethodRun, drive
from studies.reply_rows import Row

_MOST_PASSAGES = 99
_FACT = 'fact_1 = Verify("Ada Holm built the mill.")\nlabel = Predict(fact_1)'
_STEP_VARIABLE = {"lookup": "question", "compare": "question", "check": "statement"}
_STATED = {"statement", "verdict"}


def verdict(row: Row) -> str | None:
    """The verdict of the call that ends the claim."""
    return drive(row).ended.verdict


def written_out(row: Row) -> list[Any]:
    """Verdict, and number of questions with answers."""
    ended = drive(row).ended
    return [ended.verdict, len(ended.cycles)]


def answer(row: Row) -> str:
    """Whether the answer to a question says something: text or unknown."""
    return _answer(drive(row))


def self_ask_transcript(row: Row) -> list[Any]:
    """The question, the final line's verdict, the end of the questions, or unread."""
    run = drive(row)
    follows = run.after("transcript")
    if follows is not None and follows.template == "answer":
        return ["question", follows.variables["question"]]
    match run.ended.notes["stopped"]:
        case "final line":
            return ["final", run.ended.verdict]
        case "none":
            return ["none"]
    return ["unread"]


def decomposed_next_step(row: Row) -> list[str]:
    """Handler and text of a step; ``end`` without text; two empty texts where it cannot be read."""
    run = drive(row)
    follows = run.after("next_step")
    if follows is not None and follows.template in _STEP_VARIABLE:
        return [follows.template, follows.variables[_STEP_VARIABLE[follows.template]]]
    return ["end" if run.ended.notes["stopped"] == "end" else "", ""]


def decomposed_check(row: Row) -> str | None:
    """The truth of a checked step."""
    run = drive(row, next_step=("[check] Ada Holm built the mill.", "NONE"))
    return _truth(run, "unread_checks")


def decomposed_compare(row: Row) -> str:
    """Whether the answer to a comparison says something: text or unknown."""
    return _answer(drive(row, next_step=("[compare] Is the mill old?", "NONE")))


def hiss_split(row: Row) -> int | None:
    """Number of sub-claims, 0 for a claim that stays whole."""
    run = drive(row)
    parts = {call.variables["claim"] for call in run.sent("work_through")}
    if not parts or run.ended.notes.get("split") is False:
        return None
    return 0 if parts == {" ".join((row.claim or CLAIM).split())} else len(parts)


def hiss_work_through(row: Row) -> int:
    """Number of questions with answers about one sub-claim."""
    return len(drive(row).ended.cycles)


def folk_predicates(row: Row) -> list[int]:
    """Number of predicates, and of those asked by the question that the reply gives them.

    Where the reply gives no question at all, the code's own questions count.
    """
    asked = [call.variables["question"] for call in drive(row).sent("answer")]
    reply = " ".join(row.reply.replace("*", "").split())
    own = sum(question in reply for question in asked)
    return [len(asked), own if "?" in reply else len(asked)]


def folk_verdict(row: Row) -> list[Any]:
    """The truths that were read, in order, and the verdict."""
    said = re.findall(r"^\s*(\d{1,2})[.:]\s", plain_text(row.reply), re.MULTILINE)
    count = _numbered(row.prompt) or max(map(int, said), default=1)
    predicates = "\n".join(
        f"{number}. {PREDICATE.replace('mill', f'mill {number}')}" for number in range(1, count + 1)
    )
    ended = drive(row, predicates=(predicates,)).ended
    truths = str(ended.notes["truths"]).split()
    return [" ".join(truth for truth in truths if truth != "unread"), ended.verdict]


def program(row: Row) -> list[Any]:
    """``ok`` and the number of steps, or ``rejected`` and the reason."""
    notes = drive(row).ended.notes
    return ["rejected", notes["rejections"]] if notes["rejected"] else ["ok", notes["steps"]]


def program_check(row: Row) -> str | None:
    """The truth of a program's checked statement."""
    return _truth(drive(row, program=(_FACT,)), "unread")


def chen_questions(row: Row) -> list[int]:
    """Number of items in the list, and of those kept as yes-no questions."""
    items = read_items(ModelReply(row.reply, truncated=row.truncated).whole) or ()
    return [len(items), len(drive(row).sent("select"))]


def chen_select(row: Row) -> list[int] | None:
    """Numbers of the passages, in the reply's order."""
    count = _numbered(row.prompt) or _MOST_PASSAGES
    passages = tuple(f"p{number}" for number in range(1, count + 1))
    ended = drive(row, ClaimInput(CLAIM, EVIDENCE, passages)).ended
    if ended.notes["unread"]:
        return None
    return [int(number) for number in re.findall(r"\bp(\d+)", ended.cycles[0].answer)]


def chen_summary(row: Row) -> str | None:
    """``text`` where the summary says something."""
    (call,) = drive(row).sent("verdict")[:1]
    return None if call.variables["known"] == "none" else "text"


def claimdecomp_questions(row: Row) -> list[str]:
    """The answer that supports the claim, for each question: true or false."""
    count = len(drive(row).sent("answer"))
    orientations = []
    for number in range(count):
        answers = ["Unknown"] * count
        answers[number] = "Yes"
        notes = drive(row, answer=tuple(answers)).ended.notes
        orientations.append("true" if notes["agreeing"] else "false")
    return orientations


def claimdecomp_answer(row: Row) -> str | None:
    """The truth of a yes-no answer, by what it counted as."""
    notes = drive(row).ended.notes
    counted = {"agreeing": "true", "against": "false", "unknown": "unknown"}
    return next((truth for note, truth in counted.items() if notes[note]), None)


def qacheck_question(row: Row) -> str | None:
    """The question that is asked next."""
    target = row.operation.rpartition("/")[2]
    follows = drive(row, sufficient=("No",)).after(target)
    return follows.variables["question"] if follows and follows.template == "answer" else None


def qacheck_sufficient(row: Row) -> str | None:
    """Whether the answers suffice: true or false; false is also what unknown leads to."""
    run = drive(row)
    follows = run.after("sufficient")
    if follows is not None and follows.template in _STATED:
        return "true"
    return None if run.ended.notes["sufficiency_unread"] else "false"


def qacheck_statement(row: Row) -> str | None:
    """``text`` where the statement says something, else its question and answer replace it."""
    known = drive(row).sent("verdict")[0].variables["known"]
    return None if known == "1. Who built the mill? Ada Holm" else "text"


def _answer(run: MethodRun) -> str:
    return "unknown" if abstains(run.ended.cycles[0].answer) else "text"


def _truth(run: MethodRun, unread: str) -> str | None:
    """The truth of a checked statement, from the trace; the note ``unread`` counts none."""
    said = run.ended.cycles[0].answer
    if run.ended.notes[unread]:
        return None
    return "unknown" if abstains(said) else {"yes": "true", "no": "false"}[_first_word(said)]


def _first_word(text: str) -> str:
    return re.split(r"\W", text.lower(), maxsplit=1)[0]


def _numbered(prompt: str) -> int:
    """How many lines of a prompt count up from 1: ``1. …``, ``2. …``."""
    count = 0
    for number in re.findall(r"^(\d{1,4})\. ", prompt, re.MULTILINE):
        count += int(number) == count + 1
    return count
