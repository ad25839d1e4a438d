"""Lists and questions in a reply: items of a list, one next question, or that none is left.

A reader gives the content, or None where the reply does not hold it. Lines before, between and
after items are passed over. An item is one line, behind a label or a number; its label may stand
on the line before it.
"""

import re
from collections.abc import Sequence
from typing import Literal

from decomposerl.replies.languages import ANSWER, QUESTION, in_english
from decomposerl.replies.lines import bare, lines_of, one_line, plain_text, without_marks
from decomposerl.replies.wordings import Wordings

YesNoQuestion = tuple[str, Literal["true", "false"] | None]
"""A question, and its answer that supports the claim, where the reply gave one."""
MOST_ITEMS = 20
"""Beyond so many items of a list a model repeats itself."""
LISTS = Wordings("lists", QUESTION=QUESTION, ANSWER=ANSWER)
_TAIL = 80  # of a line: what may stand behind its question; the pattern stays linear below it
_LONGEST = 400  # of a question with its answer; the patterns stay fast below it
_LEAST_SHARE = 0.7


def says_none(text: str) -> bool:
    """Whether some line of a reply is the word none, behind a label or before a remark."""
    return any(map(_is_none, lines_of(text)))


def says_no_more(text: str) -> bool:
    """Whether a reply says that nothing is left to ask: none, or a sentence to that effect."""
    return says_none(text) or any(map(LISTS["no_more"].search, lines_of(text)))


def read_list(text: str) -> tuple[str, ...] | None:
    """The items of a numbered list, one a line; of a bulleted list where there are no numbers.

    The numbers count up from 1. The word none instead of a list is the empty list.
    """
    lines = _joined(lines_of(text))
    numbered = [item for line in lines if (item := LISTS["numbered"].match(line))]
    if [int(item["number"]) for item in numbered] != list(range(1, len(numbered) + 1)):
        return None
    if says_none(text) and not numbered:
        return ()
    items = numbered or [item for line in lines if (item := LISTS["bullet"].match(line))]
    return tuple(filter(None, (without_marks(item["text"]) for item in items))) or None


def read_items(text: str) -> tuple[str, ...] | None:
    """The first ``MOST_ITEMS`` distinct items of a list of questions.

    Without numbers that count up and without bullets, each line that is a question is an item.
    Items that differ in letter case or white space alone are one item.
    """
    items = read_list(text)
    if items is None:
        lines = _joined(lines_of(text))
        asked = (line for line in lines if LISTS["asked"].search(line[-_TAIL:]))
        items = tuple(without_marks(_unnumbered(line)) for line in asked)
    return distinct(items or ())[:MOST_ITEMS] or None


def read_yes_no_questions(text: str) -> tuple[YesNoQuestion, ...] | None:
    """The items of a list of questions, each with the answer beside or below it, if any.

    None also where a field stands beside a question that says neither yes nor no.
    """
    plain = plain_text(text).replace("**", "")
    text = LISTS["row"].sub(lambda row: f"{row['number']}. " if row["number"] else "", plain)
    text = LISTS["other_fields"].sub(
        lambda row: f"{row['marks']}| {row['field']}" if row["field"].strip() else "", text
    )
    text = LISTS["next_line"].sub(r"? | \g<answer>", text)
    items = [_with_answer(item) for item in read_items(text) or ()]
    read = [item for item in items if item is not None]
    return tuple(read) if read and len(read) == len(items) else None


def _with_answer(item: str) -> YesNoQuestion | None:
    """A question and the answer beside it; None where what stands there is no yes or no."""
    if len(item) > _LONGEST:
        return item, None
    if field := LISTS["field"].fullmatch(item):
        said = in_english(field["field"].lower()).strip()
        truth = LISTS["field_truth"].fullmatch(said)
        if truth:
            return without_marks(field["question"]), "true" if truth["yes"] else "false"
        return None if said else (without_marks(field["question"]), None)
    oriented = LISTS["oriented"].fullmatch(item)
    if oriented is None:
        return item, None
    supports = oriented["answer"].lower() == "yes"
    return without_marks(oriented["question"]), "true" if supports else "false"


def read_sub_claims(text: str, claim: str) -> tuple[str, ...] | None:
    """The sub-claims of a list; none where the reply says or shows that the claim stays whole."""
    numbers = filter(None, map(LISTS["first_number"].match, lines_of(text)))
    if [number["number"] for number in numbers] == ["1"]:
        text = LISTS["next_number"].sub("\n", text)
    items = read_list(text)
    if says_none(text) and len(items or ()) <= 1:
        return ()
    if items is not None:
        return items
    lines = [line for line in lines_of(text) if not line.endswith(":")]
    if any(map(LISTS["refuses"].search, lines)):
        return None
    if any(map(LISTS["whole"].search, lines)) or (len(lines) == 1 and _repeats(lines[0], claim)):
        return ()
    sentences = all(line.endswith(".") and not LISTS["about_claim"].search(line) for line in lines)
    return tuple(lines) if len(lines) > 1 and sentences else None


def _repeats(line: str, claim: str) -> bool:
    """Whether a line is the claim, give or take a few of its words."""
    said, words = (set(re.findall(r"\w+", text.casefold())) for text in (line, claim))
    return len(said & words) >= _LEAST_SHARE * len(said | words)


def distinct(items: Sequence[str]) -> tuple[str, ...]:
    """The items on one line each, without those that repeat an earlier one in any letter case."""
    first: dict[str, str] = {}
    for item in map(one_line, items):
        first.setdefault(item.casefold(), item)
    return tuple(first.values())


def read_question(text: str) -> str | None:
    """The one line of a reply that is a question, without a label or number before it.

    A tag around it, and a remark behind it in brackets or as a sentence of its own, are dropped.
    """
    untagged = lines_of(LISTS["question_tag"].sub("\n", text))
    lines = (LISTS["about_it"].sub("", LISTS["remark"].sub("", line)) for line in untagged)
    plain = (LISTS["before_question"].sub("", line, count=1) for line in lines)
    questions = [line for line in map(without_marks, plain) if line.endswith("?")]
    return questions[0] if len(questions) == 1 else None


def is_open(question: str) -> bool:
    """Whether a question begins with who, what, when and the like: no yes or no answers it."""
    return LISTS["open_question"].match(question) is not None


def _is_none(line: str) -> bool:
    plain = _unnumbered(LISTS["step"].sub("", line))
    none = LISTS["none_first"].fullmatch(plain) or LISTS["none_last"].fullmatch(plain)
    return bare(plain) == "none" or none is not None


def _unnumbered(line: str) -> str:
    """The line without a number or numbered label before it."""
    number = LISTS["open_number"].match(line)
    return line[number.end() :].strip() if number else line


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines; a number or label without text is joined with the line after it."""
    whole: list[str] = []
    for line in lines:
        number = LISTS["open_number"]
        if whole and number.fullmatch(whole[-1]) and not number.match(line):
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
    return whole
