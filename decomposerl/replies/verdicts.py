"""The verdict of a reply. One reader for every system; ``statements`` has the forms of a line.

Final statements decide, if they agree with each other and with a closing line; then labels, if
they agree with each other and with a closing line; then the closing line, if
no other line is the other word; then the sentences
and the first line's word, if no other line denies them. Everything else is no verdict: a wrong one
is worse than none. That nothing can be decided is a verdict only where ``labels`` has it.
"""

from collections.abc import Sequence

from decomposerl.replies.lines import lines_of
from decomposerl.replies.statements import Statement, Truth, joined, statements
from decomposerl.schemas import LABELS, Verdict

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
