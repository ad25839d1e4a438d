r"""Strict readers of what a model replied: verdicts, truths, lists, numbers, questions, pairs.

Takes a reply, gives what it says in the form that was asked for, or None: the reply does not
hold it. None ends as ``unparsed`` and is never filled in by a guess. The tolerances, all of them:

1. Thinking up to the last ``</think>`` is passed over; thinking that is not closed leaves nothing.
2. Lines of a code fence, a closing token of a chat template, ``**``, and the marks of a heading
   or a quotation before a line are dropped.
3. Around a word or a line: white space, the marks ``* _ `` and backtick, quotes, a full stop or
   an exclamation mark at the end, one pair of brackets, ``\boxed{…}`` or one pair of tags.
4. Letter case.
5. A label before a truth ("Verdict:", "Final answer:", "Conclusion:", "Label:") and "the claim is"
   or "the statement is".
6. A truth on the last line; else on the last line that has a label; else on the first line, where
   no other line says otherwise. A truncated reply's last line is half a line and is not read.
7. Text before and after a list; a line that goes on from an item without a blank line between.
8. A label or a number before a question, an item and the two lines of a pair.

"Not supported", "Supported, mostly" and "partly true" are no truths.

Left out deliberately: what a method makes of a reply, and which reading a protocol calls for.
"""

import re
from itertools import pairwise
from typing import Literal

from decomposerl.baselines.method import Answer
from decomposerl.traces.abstention import abstains
from decomposerl.traces.trace import Verdict

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
_ENDS = " \t*_`\"'“”‘’„«»"
_BRACKETED = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}|<([a-z]+)>([^<>]*)</\4>")
_NUMBER = r"(?:(?:sub-?question|question|sub-?claim|step|q)\s?)?\(?(\d{1,2})\s?[.):](?!\d)"
_NUMBERED = re.compile(rf"{_NUMBER}\s*(\S.*)", re.IGNORECASE)
_BULLET = re.compile(r"[-*•–]\s+(\S.*)")
_BEFORE_QUESTION = re.compile(
    rf"(?:{_NUMBER}|(?:(?:next|sub-?|follow[-\s]?up)\s?)?question\s?:|follow[-\s]?up\s?:|q\s?:)\s*",
    re.IGNORECASE,
)
_PAIR_LINE = re.compile(
    r"(?:[-*•]\s+)?(q|question|a|answer)\s?(\d{0,2})\s?[:.]\s*(\S.*)", re.IGNORECASE
)
_ANY_LABEL = re.compile(r"[A-Za-z][\w-]*(?:\s[\w-]+)?\s?:\s")
_NOT_SAID = re.compile(
    r"(?:the\s)?(?:provided\s|given\s)?(?:evidence|document|text|passages?)\s(?:does|do)(?:\snot|n't)"
    r"\s(?:say|state|mention|specify|tell|provide)\b[^.;:!?]*",
)
_UNKNOWN_FIRST = re.compile(r"unknown\s?(?:[.,;:—–-]|\Z)")
_LEADING = re.compile(r"(yes|no|true|false|unknown)\s?[.,;:—–-]\s*(.*)")


def lines_of(text: str) -> list[str]:
    """The lines of a reply that are not blank, trimmed, without tolerances 1 and 2."""
    return [line for line in _all_lines(text) if line]


def whole_text(answer: Answer) -> str:
    """A reply's text without the half line that a token limit leaves at its end."""
    return answer.text.rpartition("\n")[0] if answer.truncated else answer.text


def bare(text: str) -> str:
    """A word or line without what tolerance 3 allows around it, single spaces, small letters."""
    inside = " ".join(text.split()).strip(_ENDS).rstrip(".!").strip(_ENDS)
    bracketed = _BRACKETED.fullmatch(inside)
    if bracketed is not None:
        inside = next(part for part in bracketed.group(1, 2, 3, 5) if part is not None)
        inside = inside.strip(_ENDS).rstrip(".!").strip(_ENDS)
    return inside.lower()


def read_truth(answer: Answer) -> Truth | None:
    """What a reply to a check says of it: supported, yes and true are one, and so their rivals."""
    lines = _whole_lines(answer)
    truths = [_truth(line) for line in lines]
    if not lines or truths[-1] is not None:
        return truths[-1] if lines else None
    labelled = [truth for line, truth in zip(lines, truths, strict=True) if truth and _labels(line)]
    if labelled:
        return labelled[-1]
    return truths[0] if {truth for truth in truths if truth} == {truths[0]} else None


def read_yes_no(answer: Answer) -> Truth | None:
    """As ``read_truth``, and else a yes or no that a comma or stop parts from its reason.

    "No, the evidence does not say" is unknown.
    """
    truth, lines = read_truth(answer), _whole_lines(answer)
    leading = _LEADING.match(bare(lines[0])) if truth is None and lines else None
    if leading is None:
        return truth
    return "unknown" if says_unknown(leading[2]) and leading[2] else _TRUTHS[leading[1]]


def read_verdict(answer: Answer) -> Verdict | None:
    """The verdict of a reply that is one: as ``read_truth``; unknown is no verdict."""
    truth = read_truth(answer)
    return None if truth is None else _VERDICTS.get(truth)


def read_labelled_verdict(answer: Answer) -> Verdict | None:
    """The verdict of a reply that holds more: its last line "Verdict: …", or a bare last line.

    Without its label a last line must say Supported or Refuted: a yes may be some step's answer.
    """
    lines = _whole_lines(answer)
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
    """Whether an answer is empty, or says nothing but that the evidence does not tell.

    "Unknown", also with a reason; "I don't know" as rewards read it; "the evidence does not say".
    """
    words = bare(text)
    told = _NOT_SAID.fullmatch(words) or _UNKNOWN_FIRST.match(words)
    return not words or told is not None or abstains(text)


def read_list(text: str) -> tuple[str, ...] | None:
    """The items of a numbered list, one a line; of a bulleted one where no number stands.

    The numbers go up from 1 by one. The word none is the empty list.
    """
    if says_none(text):
        return ()
    lines = _all_lines(text)
    numbered = any(_NUMBERED.match(line) for line in lines)
    items: list[str] = []
    numbers: list[int] = []
    inside = False
    for line in lines:
        item = (_NUMBERED if numbered else _BULLET).match(line)
        if item is not None:
            items.append(item[item.re.groups])
            numbers.append(int(item[1]) if numbered else len(items))
        elif inside and line:
            items[-1] += f" {line}"
        inside = bool(line) and (inside or item is not None)
    if not items or numbers != list(range(1, len(items) + 1)):
        return None
    return tuple(items)


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
    questions = [line for line in map(_without_marks, lines_of(text)) if line.endswith("?")]
    if len(questions) != 1:
        return None
    return _without_marks(_BEFORE_QUESTION.sub("", questions[0], count=1)) or None


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The questions of "Q1: …" lines with the answers of the "A1: …" lines after them, in order.

    Numbers that both have must agree. A line without a label goes on from the one before it. A
    question that no answer follows is no pair, nor is an answer without its question.
    """
    pairs: list[tuple[str, str]] = []
    labelled = _labelled(text)
    for (kind, number, words), (next_kind, next_number, reply) in pairwise(labelled):
        if (kind, next_kind) == ("q", "a") and (number == next_number or not next_number):
            pairs.append((words, reply))
    return tuple(pairs)


def _labelled(text: str) -> list[tuple[str, str, str]]:
    """Kind (q or a), number and words of each line of a pair, with the lines that go on from it."""
    found: list[tuple[str, str, str]] = []
    inside = False
    for line in _all_lines(text):
        labelled = _PAIR_LINE.match(line)
        if labelled is not None:
            found.append((labelled[1][0].lower(), labelled[2], labelled[3]))
            inside = True
        elif not line or _ANY_LABEL.match(line):
            inside = False
        elif inside:
            kind, number, words = found[-1]
            found[-1] = (kind, number, f"{words} {line}")
    return found


def _all_lines(text: str) -> list[str]:
    after = text.rpartition("</think>")[2]
    if "<think>" in after:
        return []
    lines = [line.strip() for line in _END_TOKEN.sub("", after).splitlines()]
    kept = (line for line in lines if not line.startswith("```"))
    return [_BEFORE_LINE.sub("", line.replace("**", "")).strip() for line in kept]


def _whole_lines(answer: Answer) -> list[str]:
    return lines_of(whole_text(answer))


def _without_marks(line: str) -> str:
    return " ".join(line.split()).strip(_ENDS)


def _labels(line: str) -> str:
    """What label stands before a line's words: verdict, final, another, or none of them."""
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
