"""Answers: the text of one, the truth that a yes or no states, and whether it is not knowing.

Doubt goes one way: a clause that may assert something makes it an answer
(``replies.abstention``), so "The evidence does not say so; it opened in 1871." is one.
"""

from decomposerl.replies.abstention import SILENCE, abstains
from decomposerl.replies.languages import in_english
from decomposerl.replies.lines import bare, lines_of, without_marks
from decomposerl.replies.statements import Truth
from decomposerl.replies.verdicts import read_step

_LONGEST = 1_000  # of a text that can be silence; patterns stay linear below it
_TAIL = 80  # of a line: what may close it; the pattern stays linear below it


def answer_text(text: str) -> str:
    """The answer in a reply on one line, without thinking, markup or a label before it."""
    return SILENCE["answer_label"].sub("", " ".join(lines_of(text)), count=1)


def read_truth(text: str) -> Truth | None:
    """The truth that a reply to a check states; supported, yes and true mean the same.

    "No, the evidence does not say" is unknown, and so is a reply that says only this, also with
    "so the statement is false" behind it.
    """
    truth, reason = read_step(text)
    if truth is None:
        said = answer_text(text)
        return "unknown" if said and says_unknown(said) else None
    if truth != "false":
        return truth
    lines = lines_of(text)
    said = reason or " ".join(SILENCE["reason_label"].sub("", line) for line in lines[1:])
    alone = len(lines) == 1 and not reason
    if alone and (so_false := SILENCE["so_false"].search(lines[0][-_TAIL:])):
        said = lines[0][: so_false.start() - len(lines[0][-_TAIL:])]
    return "unknown" if said and says_unknown(said) else "false"


def says_unknown(text: str) -> bool:
    """Whether an answer is empty, or only says that the evidence does not state it.

    "Unknown", also with a reason; "I don't know" as rewards read it; "the evidence does not say".
    """
    words = in_english(bare(text))
    unknown = SILENCE["unknown_first"].match(words)
    turn = SILENCE["turn"].search(words)
    if unknown and turn:
        return says_nothing(words[turn.end() :])
    return not words or unknown is not None or abstains(text) or says_nothing(text)


def says_nothing(reason: str) -> bool:
    """Whether a reason only says that the evidence does not tell: no clause states a fact."""
    words = without_marks(reason).lower().replace("’", "'")
    if not words or len(words) > _LONGEST:
        return False
    return SILENCE["silent"].fullmatch(words) is not None or abstains(f"I don't know. {words}")
