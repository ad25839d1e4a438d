r"""Strict readers of a model's replies: verdicts, truths, lists, numbers, questions, pairs.

A reader gives the content in the form that was asked for, or None where the reply does not hold
it. None ends as ``unparsed`` and is never filled in by a guess. The tolerances, all of them:

1. Thinking up to the last ``</think>`` is skipped; thinking that is not closed leaves nothing.
2. Lines of a code fence, a closing token of a chat template, ``**``, and the marks of a heading
   or a quotation before a line are dropped.
3. Around a word or a line: white space, the marks ``* _ `` and backtick, quotes, a full stop or
   an exclamation mark at the end, one pair of brackets, ``\boxed{…}`` or one pair of tags.
4. Letter case.
5. A label before a truth ("Verdict:", "Final answer:", "Conclusion:", "Label:") and "the claim is"
   or "the statement is".
6. A truth on the last line; else on the last line that has a label; else on the first line, where
   no other line says otherwise. A truncated reply's last line is half a line and is not read.
7. Lines before, between and after items, and the two lines of a pair. Each of these is one line.
8. A label or a number before a question, an item and the two lines of a pair.

"Not supported", "Supported, mostly" and "partly true" are no truths.
"""

import re
from itertools import pairwise
from typing import Literal

from decomposerl.baselines.method import ModelReply
from decomposerl.traces.abstention import abstains
from decomposerl.traces.trace import Verdict

MOST_ITEMS = 20
"""Beyond so many items of a list a model repeats itself."""
Truth = Literal["true", "false", "unknown"]

_TRUTHS: dict[str, Truth] = {
    **dict.fromkeys(("supported", "yes", "true"), "true"),
    **dict.fromkeys(("refuted", "no", "false"), "false"),
    **dict.fromkeys(("unknown", "not enough information", "not enough info"), "unknown"),
}
_VERDICTS: dict[Truth, Verdict] = {"true": "Supported", "false": "Refuted"}
_LABEL = re.compile(
    r"(?:(?:final|overall|my)\s)?(verdict|answer|conclusion|label)\s?(?::|=|\sis\b)\s?(.*)"
)
_SENTENCE = re.compile(r"(?:the\s(?:claim|statement)\sis\s)(.*)")
_END_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*\Z")
_BEFORE_LINE = re.compile(r"\A(?:#{1,6}\s+|>\s?)+")
_MARKS = " \t*_`"
_ENDS = _MARKS + "\"'“”‘’„«»"
_QUOTED = re.compile('["“„«]([^"“”„«»]*)["”“»]')
_BRACKETED = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}|<([a-z]+)>([^<>]*)</\4>")
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
_LEADING = re.compile(r"(yes|no|true|false|unknown)\s?[.,;:—–-]\s*(.*)")


def one_line(text: str) -> str:
    """The text with single spaces and no line break."""
    return " ".join(text.split())


def lines_of(text: str) -> list[str]:
    """The trimmed lines of a reply that are not blank, after tolerances 1 and 2."""
    after = text.rpartition("</think>")[2]
    if "<think>" in after:
        return []
    lines = [line.strip() for line in _END_TOKEN.sub("", after).splitlines()]
    kept = (line for line in lines if not line.startswith("```"))
    plain = (_BEFORE_LINE.sub("", line.replace("**", "")).strip() for line in kept)
    return [line for line in plain if line]


def whole_text(reply: ModelReply) -> str:
    """A reply's text without the half line that a token limit leaves at its end."""
    return reply.text.rpartition("\n")[0] if reply.truncated else reply.text


def bare(text: str) -> str:
    """A word or line without the marks of tolerance 3, in single spaces and lower case."""
    inside = one_line(text).strip(_ENDS).rstrip(".!").strip(_ENDS)
    bracketed = _BRACKETED.fullmatch(inside)
    if bracketed is not None:
        inside = next(part for part in bracketed.group(1, 2, 3, 5) if part is not None)
        inside = inside.strip(_ENDS).rstrip(".!").strip(_ENDS)
    return inside.lower()


def read_truth(reply: ModelReply) -> Truth | None:
    """The truth that a reply to a check states; supported, yes and true mean the same."""
    lines = _whole_lines(reply)
    truths = [_truth(line) for line in lines]
    if not lines or truths[-1] is not None:
        return truths[-1] if lines else None
    labelled = [truth for line, truth in zip(lines, truths, strict=True) if truth and _labels(line)]
    if labelled:
        return labelled[-1]
    return truths[0] if {truth for truth in truths if truth} == {truths[0]} else None


def read_yes_no(reply: ModelReply) -> Truth | None:
    """As ``read_truth``, else a yes or no that a comma or stop separates from its reason.

    "No, the evidence does not say" is unknown.
    """
    truth, lines = read_truth(reply), _whole_lines(reply)
    leading = _LEADING.match(bare(lines[0])) if truth is None and lines else None
    if leading is None:
        return truth
    return "unknown" if says_unknown(leading[2]) and leading[2] else _TRUTHS[leading[1]]


def read_verdict(reply: ModelReply) -> Verdict | None:
    """The verdict of a reply that holds nothing else; unknown is no verdict."""
    truth = read_truth(reply)
    return None if truth is None else _VERDICTS.get(truth)


def read_labelled_verdict(reply: ModelReply) -> Verdict | None:
    """The verdict of a longer reply: its last line "Verdict: …", or a bare last line.

    Without its label a last line must say Supported or Refuted: a yes may be some step's answer.
    """
    lines = _whole_lines(reply)
    labelled = [_truth(line) for line in lines if _labels(line) in {"verdict", "final"}]
    if labelled:
        return None if labelled[-1] is None else _VERDICTS.get(labelled[-1])
    last = _SENTENCE.sub(r"\1", bare(lines[-1])) if lines else ""
    return _VERDICTS[_TRUTHS[last]] if last in {"supported", "refuted"} else None


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
    texts = (_without_marks(item[item.re.groups]) for item in items)
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
    questions = [line for line in map(_without_marks, plain) if line.endswith("?")]
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


def _whole_lines(reply: ModelReply) -> list[str]:
    return lines_of(whole_text(reply))


def _without_marks(line: str) -> str:
    """The line with single spaces, without marks or quotes around all of it."""
    plain = one_line(line).strip(_MARKS)
    quoted = _QUOTED.fullmatch(plain)
    return quoted[1].strip(_MARKS) if quoted else plain


def _labels(line: str) -> str:
    """The label before a line's words: verdict, final, another, or empty."""
    labelled = _LABEL.match(bare(line))
    if labelled is None:
        return ""
    return "final" if bare(line).startswith("final") else labelled[1]


def _truth(line: str) -> Truth | None:
    words = bare(line)
    labelled = _LABEL.fullmatch(words)
    words = bare(labelled[2]) if labelled else words
    sentence = _SENTENCE.fullmatch(words)
    return _TRUTHS.get(bare(sentence[1]) if sentence else words)
