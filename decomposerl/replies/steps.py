"""What a reply says to do next: a step with its handler, a turn of a transcript, or to stop.

A reader gives the content, or None where the reply does not hold it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.replies.answers import read_truth, read_verdict
from decomposerl.replies.lines import bare, lines_of, plain_text, without_marks
from decomposerl.replies.lists import read_question, says_no_more, says_none
from decomposerl.replies.statements import Truth
from decomposerl.replies.wordings import Wordings
from decomposerl.schemas import LABELS, Verdict

HANDLERS = ("lookup", "check", "compare")
_STEPS = Wordings("steps")
_SYNONYMS = {
    **dict.fromkeys(("verify", "confirm", "validate", "fact check", "fact_check"), "check"),
    **dict.fromkeys(("calculate", "compute", "count", "order", "sort"), "compare"),
}
_ENDS = {"none", "end", "done", "stop", "finish", "finished"}


def read_handled_step(text: str, expected: int) -> tuple[str, str] | None:
    """Handler and text of a reply's step; ``end`` without text where there is none left.

    Of several steps, the one with the ``expected`` number is taken, else the first. Under another
    handler, or none, a question is looked up and a statement checked.
    """
    text = _STEPS["named"].sub(r"[\g<name>] ", plain_text(text))
    text = _STEPS["closing"].sub("", text)
    text = _STEPS["marked"].sub(lambda name: f"[{name['tag'] or name['bold']}]", text)
    steps: list[tuple[str, str, str]] = []
    for line in lines_of(text):
        step = _step(line.replace("`", ""))
        if step is not None:
            steps.append(step)
        elif says_none(line) and not steps:
            return "end", ""
    if steps:
        numbered = [step for step in steps if step[0] == str(expected)]
        return (numbered or steps)[0][1:]
    unlabelled = (_STEPS["label"].sub("", line, count=1) for line in lines_of(text))
    question = read_question("\n".join(unlabelled))
    if question is not None:
        return "lookup", question
    return ("end", "") if says_no_more(text) else None


def _step(line: str) -> tuple[str, str, str] | None:
    """Number, empty where there is none, handler and text of a line that is a step."""
    label = _STEPS["label"].match(line)
    number = (label["number"] or "") if label else ""
    rest = line[label.end() if label else 0 :].strip()
    if bare(rest) in _ENDS:
        return number, "end", ""
    step = _STEPS["step"].fullmatch(rest)
    if step is None:
        return None
    name, text = filter(None, step.groups())
    handler = _SYNONYMS.get(name.strip().lower(), name.strip().lower())
    if handler in _ENDS or bare(text) in _ENDS:
        return number, "end", ""
    text = without_marks(text)
    if handler not in HANDLERS:
        handler = "lookup" if text.rstrip("\"'”*_ ").endswith("?") else "check"
    return number, handler, text


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, the final line with its verdict, the word that none is left, or none of these."""

    kind: Literal["question", "final line", "none", "unread"]
    question: str = ""
    verdict: Verdict | None = None


def read_turn(text: str, *, truncated: bool = False, labels: Sequence[Verdict] = LABELS) -> Turn:
    """The turn that a reply writes of a transcript of follow-up questions.

    What stands behind the slot of an answer is not read, nor the last line of a truncated reply.
    A final line may hold no verdict.
    """
    lines = _turn_lines(text, text.rpartition("\n")[0] if truncated else text)
    final = _final_line(lines)
    verdict = read_verdict("\n".join(lines) if final is None else final, labels=labels)
    if final is not None:
        return Turn("final line", verdict=verdict)
    labelled = [line for line in lines if _STEPS["follow_up"].fullmatch(line)]
    question = read_question("\n".join(labelled[:1] or lines))
    if question:
        return Turn("question", question)
    after = (_STEPS["follow_up_label"].sub("", line) for line in lines)
    if says_no_more("\n".join(after)) or [bare(line) for line in lines] == ["no"]:
        return Turn("none")
    return Turn("final line", verdict=verdict) if verdict else Turn("unread")


def _turn_lines(text: str, whole: str) -> list[str]:
    """The lines of a reply before the first slot of an answer, without the opening question."""
    lines = lines_of(text)
    asked = next((number for number, line in enumerate(lines) if line.endswith("?")), len(lines))
    slots = (n for n, line in enumerate(lines) if n > asked and _STEPS["slot"].fullmatch(line))
    slot = next(slots, None)
    before = lines_of(whole) if slot is None else lines[:slot]
    return [rest for line in before if (rest := _STEPS["needed"].sub("", line, count=1))]


def _final_line(lines: list[str]) -> str | None:
    """The text after the last final-line marker, or on the line below it; None without marker."""
    for number in reversed(range(len(lines))):
        marked = _STEPS["final"].fullmatch(lines[number])
        if marked is not None:
            return marked["text"] or marked["said"] or "\n".join(lines[number + 1 : number + 2])
    return None


def read_sufficient(text: str) -> Truth | None:
    """Whether a reply says that what is known suffices."""
    lines = [_STEPS["sufficient_label"].sub("", line, count=1) for line in lines_of(text)]
    truth = read_truth("\n".join(lines))
    if truth in {"true", "false"} or not lines:
        return truth
    if any(map(_STEPS["not_enough"].search, lines)):
        return "false"
    return "true" if _STEPS["enough"].fullmatch(lines[0]) else truth
