"""Verdicts and answers of replies: one reader for every system.

A verdict: final statements decide, if they agree with each other and with a closing line; then
labels, if they do; then the closing line, if no other line is the other word; then the sentences
and the first line's word, if no other line denies them (``statements`` has the forms of a line).
Everything else is no verdict: a wrong one is worse than none. That nothing can be decided is a
verdict only where ``labels`` has it.

An answer: its text, the truth that a yes or no states, and whether it is not knowing. Doubt goes
one way: a clause that may assert something makes it an answer (``replies.abstention``), so "The
evidence does not say so; it opened in 1871." is one.
"""

from collections.abc import Sequence

from decomposerl.replies.abstention import SILENCE, abstains
from decomposerl.replies.languages import in_english
from decomposerl.replies.lines import bare, lines_of, without_marks
from decomposerl.replies.statements import Statement, Truth, joined, statements
from decomposerl.schemas import LABELS, Verdict

_LONGEST = 1_000  # of a text that can be silence; patterns stay linear below it
_TAIL = 80  # of a line: what may close it; the pattern stays linear below it
_OF_TRUTH: dict[Truth, Verdict] = {
    "true": "Supported",
    "false": "Refuted",
    "unknown": "NotEnoughInfo",
}


def read_verdict(
    text: str, *, truncated: bool = False, labels: Sequence[Verdict] = LABELS
) -> Verdict | None:
    """The verdict of a reply; None where it holds none of ``labels``, or two that disagree.

    Of a truncated reply the last line, which may be half a line, counts only where it opens with
    the verdict and goes on with a reason, or is the whole reply. Linear in the length; never
    raises.
    """
    statement = _deciding(text, step=False, truncated=truncated)
    verdict = _OF_TRUTH[statement.truth] if statement else None
    return verdict if verdict in labels else None


def read_step(text: str) -> tuple[Truth | None, str]:
    """The truth that a reply to a check of its own states, and the reason on its line, if any.

    A yes, no, true or false counts as Supported and Refuted do.
    """
    statement = _deciding(text, step=True)
    return (statement.truth, statement.reason) if statement else (None, "")


def _deciding(text: str, *, step: bool, truncated: bool = False) -> Statement | None:
    """The statement that decides, by the order of the module's docstring."""
    lines = joined(lines_of(text))
    whole = len(lines) - (truncated and len(lines) > 1)
    found = [one for one in statements(lines, step=step) if one.line < whole or one.reason]
    if not found:
        return None
    closing = found[-1]
    word_closes = closing.kind == "word" and closing.line == len(lines) - 1
    closes = closing.kind == "sentence" or word_closes
    kinds = ("final", "label", *["word"] * closes)
    ranked = ([one for one in found if one.kind == kind] for kind in kinds)
    deciding = next(filter(None, ranked), [])
    if deciding or closes:
        deciding += [closing] * closes
    elif any(one.kind == "sentence" or one.line == 0 for one in found):
        deciding = found
    return deciding[-1] if len({one.truth for one in deciding}) == 1 else None


def answer_text(text: str) -> str:
    """The answer in a reply on one line, without thinking, markup or a label before it."""
    return SILENCE["answer_label"].sub("", " ".join(lines_of(text)), count=1)


def read_truth(text: str) -> Truth | None:
    """The truth that a reply to a check states; supported, yes and true mean the same.

    "No, the evidence does not say" is unknown, and so is a reply that says only this, also with
    "so the statement is false" behind it.
    """
    truth, reason = read_step(text)
    if truth not in {None, "false"}:
        return truth
    lines = lines_of(text)
    said = answer_text(text) if truth is None else reason
    if truth and not reason:
        said = " ".join(SILENCE["reason_label"].sub("", line) for line in lines[1:])
        tail = lines[0][-_TAIL:]
        if len(lines) == 1 and (so_false := SILENCE["so_false"].search(tail)):
            said = lines[0].removesuffix(tail[so_false.start() :])
    return "unknown" if said and says_unknown(said) else truth


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
