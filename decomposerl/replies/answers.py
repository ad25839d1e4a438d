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
    lines = joined(lines_of(text))
    whole = len(lines) - (truncated and len(lines) > 1)
    found = [one for one in statements(lines, step=False) if one.line < whole or one.reason]
    statement = _decided(found, last=len(lines) - 1)
    verdict = _OF_TRUTH[statement.truth] if statement else None
    return verdict if verdict in labels else None


def read_step(text: str) -> tuple[Truth | None, str]:
    """The truth that a reply to a check of its own states, and the reason on its line, if any.

    A yes, no, true or false counts as Supported and Refuted do.
    """
    lines = joined(lines_of(text))
    statement = _decided(list(statements(lines, step=True)), last=len(lines) - 1)
    return (statement.truth, statement.reason) if statement else (None, "")


def _decided(found: Sequence[Statement], last: int) -> Statement | None:
    """The statement that decides, by the order of the module's docstring."""
    if not found:
        return None
    closing = found[-1]
    closes = closing.kind == "sentence" or (closing.kind == "word" and closing.line == last)
    finals = [one for one in found if one.kind == "final"]
    labels = [one for one in found if one.kind == "label"]
    if finals:
        return _agreed([*finals, closing] if closes else finals)
    if labels:
        return _agreed([*labels, closing] if closes else labels)
    if closes:
        return _agreed([one for one in found if one.kind == "word"] + [closing])
    first = [one for one in found if one.kind == "sentence" or one.line == 0]
    return _agreed(found) if first else None


def _agreed(found: Sequence[Statement]) -> Statement | None:
    """The last of the statements, if all have the same truth."""
    return found[-1] if len({one.truth for one in found}) == 1 else None


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
