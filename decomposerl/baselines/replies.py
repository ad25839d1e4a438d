"""Readers of what the methods request: truths, lists, numbers, questions, pairs.

A reader gives the content, or None where the reply does not hold it: the request is then repeated
once with its form (``method.ask_read``), and a guess never takes its place. Verdicts are read by
``decomposerl.replies.verdicts``, lines by ``decomposerl.replies.lines``.

Lines before, between and after items, and the two lines of a pair, are passed over. Each of these
is one line, behind a label or a number.
"""

import re
from itertools import pairwise

from decomposerl.baselines.method import Exchange, ModelCall, ModelReply, ask_read
from decomposerl.replies import verdicts
from decomposerl.replies.lines import bare, lines_of, one_line, without_marks
from decomposerl.replies.statements import Truth
from decomposerl.traces.abstention import abstains
from decomposerl.traces.trace import Verdict

MOST_ITEMS = 20
"""Beyond so many items of a list a model repeats itself."""
_NUMBER = r"(?:(?:sub-?question|question|sub-?claim|step|q)\s?)?\(?(\d{1,2})\s?[.):](?!\d)"
_NUMBERED = re.compile(rf"{_NUMBER}\s*(\S.*)", re.IGNORECASE)
_BULLET = re.compile(r"[-*•–]\s+(\S.*)")
_BEFORE_QUESTION = re.compile(
    rf"(?:{_NUMBER}|(?:(?:next|sub-?|follow[-\s]?up)\s?)?question\s?:|follow[-\s]?up\s?:|q\s?:)\s*",
    re.IGNORECASE,
)
_PAIR_LINE = re.compile(
    r"(?:[-*•]\s+)?(question|q|answer|a)\s?(?:(\d{1,2})\s?[:.)]|:)\s*(\S.*)", re.IGNORECASE
)
_NOT_SAID = re.compile(
    r"(?:the\s)?(?:provided\s|given\s)?(?:evidence|document|text|passages?)\s(?:does|do)(?:\snot|n't)"
    r"\s(?:say|state|mention|specify|tell|provide)\b[^.;:!?]*",
)
_UNKNOWN_FIRST = re.compile(r"unknown\s?(?:[.,;:—–-]|\Z)")


def whole_text(reply: ModelReply) -> str:
    """A reply's text without the half line that a token limit leaves at its end."""
    return reply.text.rpartition("\n")[0] if reply.truncated else reply.text


def read_verdict(reply: ModelReply) -> Verdict | None:
    """The verdict of a reply."""
    return verdicts.read_verdict(reply.text, truncated=reply.truncated)


def ask_verdict(
    call: ModelCall, form: str = "verdict"
) -> Exchange[tuple[ModelReply, Verdict | None]]:
    """The reply to a call and its verdict; the call is repeated once where there is none.

    Raises:
        CallFailedError: it got no reply.
    """
    asking: Exchange[tuple[tuple[ModelReply, Verdict | None], ...]]
    asking = ask_read(read_verdict, form, call)
    (answered,) = yield from asking
    return answered


def read_truth(reply: ModelReply) -> Truth | None:
    """The truth that a reply to a check states; supported, yes and true mean the same.

    "No, the evidence does not say" is unknown.
    """
    truth, reason = verdicts.read_step(reply.text, truncated=reply.truncated)
    return "unknown" if truth == "false" and reason and says_unknown(reason) else truth


def says_none(text: str) -> bool:
    """Whether a reply is the one word none: nothing further to ask, nothing to list."""
    lines = lines_of(text)
    return len(lines) == 1 and bare(lines[0]) == "none"


def says_unknown(text: str) -> bool:
    """Whether an answer is empty, or only says that the evidence does not state it.

    "Unknown", also with a reason; "I don't know" as rewards read it; "the evidence does not say".
    """
    words = bare(text)
    unknown = _NOT_SAID.fullmatch(words) or _UNKNOWN_FIRST.match(words)
    return not words or unknown is not None or abstains(text)


def read_list(text: str) -> tuple[str, ...] | None:
    """The items of a numbered list, one a line; of a bulleted list where there are no numbers.

    The numbers count up from 1. The word none is the empty list.
    """
    if says_none(text):
        return ()
    lines = lines_of(text)
    numbered = [item for line in lines if (item := _NUMBERED.match(line))]
    if [int(item[1]) for item in numbered] != list(range(1, len(numbered) + 1)):
        return None
    items = numbered or [item for line in lines if (item := _BULLET.match(line))]
    texts = (without_marks(item[item.re.groups]) for item in items)
    return tuple(text for text in texts if text) or None


def read_items(reply: ModelReply) -> tuple[str, ...]:
    """The first ``MOST_ITEMS`` distinct items of a list; none where the reply holds no list.

    Items that differ in letter case or white space alone are one item.
    """
    first: dict[str, str] = {}
    for item in map(one_line, read_list(whole_text(reply)) or ()):
        first.setdefault(item.casefold(), item)
    return tuple(first.values())[:MOST_ITEMS]


def read_numbers(text: str, most: int) -> tuple[int, ...] | None:
    """Numbers of 1..``most`` on one line, between them commas or "and"; none is no number."""
    lines = lines_of(text)
    if says_none(text) or len(lines) != 1:
        return () if says_none(text) else None
    words = re.sub(r"\A(?:passages?|sentences?|numbers?)\s?:?\s", "", bare(lines[0]))
    parts = re.split(r"\s?(?:,\s?and\s|,|\sand\s)\s?", words)
    matches = [re.fullmatch(r"\[?(\d{1,6})\]?", part) for part in parts]
    numbers = [int(match[1]) for match in matches if match is not None]
    if len(numbers) < len(parts) or not all(1 <= number <= most for number in numbers):
        return None
    return tuple(dict.fromkeys(numbers))


def read_question(text: str) -> str | None:
    """The one line of a reply that is a question, without a label or number before it."""
    plain = (_BEFORE_QUESTION.sub("", line, count=1) for line in lines_of(text))
    questions = [line for line in map(without_marks, plain) if line.endswith("?")]
    return questions[0] if len(questions) == 1 else None


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The questions of "Q1: …" lines with the answers of the "A1: …" lines after them, in order.

    Where both have a number, it must be the same. A question without an answer before the next
    question is no pair, nor is an answer without its question.
    """
    lines = [line for text_line in lines_of(text) if (line := _PAIR_LINE.match(text_line))]
    return tuple(
        (question[3], answer[3])
        for question, answer in pairwise(lines)
        if (question[1][0].lower(), answer[1][0].lower()) == ("q", "a")
        and (question[2] == answer[2] or not answer[2])
    )
