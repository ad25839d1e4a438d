"""Lists in a reply: items, one next question, that none is left, questions with their answers.

A reader gives the content, or None where the reply does not hold it. Lines before, between and
after items are passed over. An item is one line, behind a label or a number; its label may stand
on the line before it.

Questions with their answers are ``Q1: …`` and ``A1: …``, but models also write ``1. Q: …``,
``Question 1: …``, ``**Q1:** …``, ``Follow up: …`` with ``Intermediate answer: …``, a numbered
question with an answer below it, the text on the line after its label, or both on one line. Where
no pair is labelled: rows of a table, numbered questions with an answer as a bullet, or a list of
questions before one of as many answers.

The numbers of passages stand behind a label or in a sentence that calls them relevant, between them
commas, "and", line breaks or a dash for a range, each with a remark in brackets or behind a dash at
most. None of them may be denied or unsure ("3, but not 4", "1 or so"), and no other number may
stand beside them.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from decomposerl.replies.languages import ANSWER, QUESTION, in_english
from decomposerl.replies.lines import bare, lines_of, one_line, plain_text, without_marks
from decomposerl.replies.wordings import Wordings

YesNoQuestion = tuple[str, Literal["true", "false"] | None]
"""A question, and its answer that supports the claim, where the reply gave one."""
MOST_ITEMS = 20
"""Beyond so many items of a list a model repeats itself."""
_LISTS = Wordings("lists", QUESTION=QUESTION, ANSWER=ANSWER)
_TAIL = 80  # of a line: what may stand behind its question; the pattern stays linear below it
_LONGEST = 400  # of a question with its answer; the patterns stay fast below it
_LEAST_SHARE = 0.7
_PASSAGES = Wordings("passages")
_LONGEST_SELECTION = 300  # of a line that selects passages; patterns stay linear below it
_MOST_IN_RANGE = 50


def says_none(text: str) -> bool:
    """Whether some line of a reply is the word none, behind a label or before a remark."""
    return any(map(_is_none, lines_of(text)))


def says_no_more(text: str) -> bool:
    """Whether a reply says that nothing is left to ask: none, or a sentence to that effect."""
    return says_none(text) or any(map(_LISTS["no_more"].search, lines_of(text)))


def read_list(text: str) -> tuple[str, ...] | None:
    """The items of a numbered list, one a line; of a bulleted list where there are no numbers.

    The numbers count up from 1. The word none instead of a list is the empty list.
    """
    lines = _joined(lines_of(text))
    numbered = [item for line in lines if (item := _LISTS["numbered"].match(line))]
    if [int(item["number"]) for item in numbered] != list(range(1, len(numbered) + 1)):
        return None
    if says_none(text) and not numbered:
        return ()
    items = numbered or [item for line in lines if (item := _LISTS["bullet"].match(line))]
    return tuple(filter(None, (without_marks(item["text"]) for item in items))) or None


def read_items(text: str) -> tuple[str, ...] | None:
    """The first ``MOST_ITEMS`` distinct items of a list of questions.

    Without numbers that count up and without bullets, each line that is a question is an item.
    Items that differ in letter case or white space alone are one item.
    """
    items = read_list(text)
    if items is None:
        lines = _joined(lines_of(text))
        asked = (line for line in lines if _LISTS["asked"].search(line[-_TAIL:]))
        items = tuple(without_marks(_unnumbered(line)) for line in asked)
    return distinct(items or ())[:MOST_ITEMS] or None


def read_yes_no_questions(text: str) -> tuple[YesNoQuestion, ...] | None:
    """The items of a list of questions, each with the answer beside or below it, if any.

    None also where a field stands beside a question that says neither yes nor no.
    """
    plain = plain_text(text).replace("**", "")
    text = _LISTS["row"].sub(lambda row: f"{row['number']}. " if row["number"] else "", plain)
    text = _LISTS["other_fields"].sub(
        lambda row: f"{row['marks']}| {row['field']}" if row["field"].strip() else "", text
    )
    text = _LISTS["next_line"].sub(r"? | \g<answer>", text)
    items = [_with_answer(item) for item in read_items(text) or ()]
    read = [item for item in items if item is not None]
    return tuple(read) if read and len(read) == len(items) else None


def _with_answer(item: str) -> YesNoQuestion | None:
    """A question and the answer beside it; None where what stands there is no yes or no."""
    if len(item) > _LONGEST:
        return item, None
    if field := _LISTS["field"].fullmatch(item):
        said = in_english(field["field"].lower()).strip()
        truth = _LISTS["field_truth"].fullmatch(said)
        if truth:
            return without_marks(field["question"]), "true" if truth["yes"] else "false"
        return None if said else (without_marks(field["question"]), None)
    oriented = _LISTS["oriented"].fullmatch(item)
    if oriented is None:
        return item, None
    supports = oriented["answer"].lower() == "yes"
    return without_marks(oriented["question"]), "true" if supports else "false"


def read_sub_claims(text: str, claim: str) -> tuple[str, ...] | None:
    """The sub-claims of a list; none where the reply says or shows that the claim stays whole."""
    numbers = filter(None, map(_LISTS["first_number"].match, lines_of(text)))
    if [number["number"] for number in numbers] == ["1"]:
        text = _LISTS["next_number"].sub("\n", text)
    items = read_list(text)
    if says_none(text) and len(items or ()) <= 1:
        return ()
    if items is not None:
        return items
    lines = [line for line in lines_of(text) if not line.endswith(":")]
    if any(map(_LISTS["refuses"].search, lines)):
        return None
    if any(map(_LISTS["whole"].search, lines)) or (len(lines) == 1 and _repeats(lines[0], claim)):
        return ()
    sentences = all(line.endswith(".") and not _LISTS["about_claim"].search(line) for line in lines)
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
    untagged = lines_of(_LISTS["question_tag"].sub("\n", text))
    lines = (_LISTS["about_it"].sub("", _LISTS["remark"].sub("", line)) for line in untagged)
    plain = (_LISTS["before_question"].sub("", line, count=1) for line in lines)
    questions = [line for line in map(without_marks, plain) if line.endswith("?")]
    return questions[0] if len(questions) == 1 else None


def is_open(question: str) -> bool:
    """Whether a question begins with who, what, when and the like: no yes or no answers it."""
    return _LISTS["open_question"].match(question) is not None


def _is_none(line: str) -> bool:
    plain = _unnumbered(_LISTS["step"].sub("", line))
    none = _LISTS["none_first"].fullmatch(plain) or _LISTS["none_last"].fullmatch(plain)
    return bare(plain) == "none" or none is not None


def _unnumbered(line: str) -> str:
    """The line without a number or numbered label before it."""
    number = _LISTS["open_number"].match(line)
    return line[number.end() :].strip() if number else line


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines; a number or label without text is joined with the line after it."""
    whole: list[str] = []
    for line in lines:
        number = _LISTS["open_number"]
        if whole and number.fullmatch(whole[-1]) and not number.match(line):
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
    return whole


def read_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The questions of a reply with the answers after them, in order.

    Where both have a number, it must be the same. A question without an answer before the next
    question is no pair, nor is an answer without its question.
    """
    labelled = tuple(
        (question, answer)
        for (asks, number, question), (goes_on, same, answer) in pairwise(_pair_lines(text))
        if asks and not goes_on and same in {"", number}
    )
    if labelled:
        return labelled
    lines = lines_of(text)
    return _rows(lines) or _two_lists(lines) or _bulleted(lines)


def count_sure(text: str) -> int:
    """How many lines of a reply say that the writer is sure of an answer."""
    return sum(_LISTS["sure"].fullmatch(bare(line)) is not None for line in lines_of(text))


def _rows(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The question of each row of a table, with the cell behind it."""
    tables = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[0] == "|"
    ]
    return tuple(
        (question, answer)
        for cells in tables
        for question, answer in pairwise(cells)
        if question.endswith("?") and answer and not answer.endswith("?")
    )


def _bulleted(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each numbered question with the bullet on the line below it."""
    pairs = []
    for line, below in pairwise(lines):
        question, answer = _question(line), _LISTS["answer_below"].fullmatch(below)
        if question and answer and not (_LISTS["other_label"].match(below) or below.endswith("?")):
            pairs.append((question[1], answer["text"]))
    return tuple(pairs)


def _two_lists(lines: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The questions before the heading of the answers with these, if the numbers are the same."""
    headings = (place for place, line in enumerate(lines) if _LISTS["answers"].fullmatch(line))
    heading = next(headings, len(lines))
    asked = list(filter(None, map(_question, lines[:heading])))
    behind = (line for line in lines[heading + 1 :] if not _question(line))
    given = [item.groups() for line in behind if (item := _LISTS["item"].fullmatch(line))]
    same = [number for number, _ in asked] == [number for number, _ in given]
    return tuple((asked[n][1], given[n][1]) for n in range(len(asked))) if same else ()


def _question(line: str) -> tuple[str, str] | None:
    """The number and text of a numbered question, without a remark behind it."""
    item = _LISTS["item"].fullmatch(line)
    text = _LISTS["short_remark"].sub("", item["text"]) if item else ""
    return (item["number"], text) if item and text.endswith("?") else None


def _pair_lines(text: str) -> Iterator[tuple[bool, str, str]]:
    """Of each question and answer with text: whether it asks, its number or nothing, its text."""
    label: tuple[bool, str, str] | None = None
    for line in (part for whole in lines_of(text) for part in _LISTS["inline"].split(whole)):
        read, other = _read(line), _LISTS["other_label"].match(line)
        if read is None and label is not None and not other:
            yield (*label[:2], line)
        if read is not None and read[2]:
            yield read
        if read is not None or not other:
            label = read if read is not None and not read[2] else None


def _read(line: str) -> tuple[bool, str, str] | None:
    labelled = _LISTS["labelled"].fullmatch(line)
    if labelled is not None:
        text = labelled["text"].strip(" _*")
        return labelled["asks"] is not None, labelled["number"] or "", text
    heading = _LISTS["heading"].fullmatch(line)
    if heading is not None:
        return heading["asks"] is not None, heading["number"], ""
    numbered = _LISTS["numbered_question"].fullmatch(line)
    return (True, "", numbered["text"]) if numbered else None


def read_numbers(text: str, most: int) -> tuple[int, ...] | None:
    """The distinct numbers of 1..``most`` that a reply selects, in order; none is no number.

    None where a number is out of range, denied or not clear. Lines without a number are passed
    over; where one line is the numbers alone, so are sentences about them.
    """
    lines = [_plain_line(line) for line in lines_of(text) if len(line) <= _LONGEST_SELECTION]
    with_numbers = [line for line in lines if re.search(r"\d", line)]
    if lines and _PASSAGES["none_first"].match(lines[0]):
        return ()
    if not with_numbers:
        silent = says_none(text) or any(map(_PASSAGES["no_passage"].match, lines))
        return () if silent else None
    own = _PASSAGES["own_number"].fullmatch(lines[0])
    if own and len(lines) == 1 and not _PASSAGES["denied"].search(lines[0]):
        with_numbers = [own["number"]]
    read = [_read_line(line) for line in with_numbers]
    alone = [numbers for numbers, plain in read if plain and numbers]
    if not alone and any(numbers is None for numbers, _ in read):
        return None
    selected = alone or [numbers or () for numbers, _ in read]
    distinct = dict.fromkeys(number for numbers in selected for number in numbers)
    return tuple(distinct) if distinct and all(1 <= one <= most for one in distinct) else None


def _plain_line(line: str) -> str:
    """A line without asides and code marks; numbers in a JSON list or between blanks alone."""
    plain = _PASSAGES["aside"].sub("", line.replace("，", ",")).strip(" `\t")
    listed = _PASSAGES["json"].fullmatch(line.strip())
    if listed is not None:
        return listed["numbers"].replace('"', "").strip()
    return ", ".join(plain.split()) if _PASSAGES["blanks"].fullmatch(plain) else plain


def _read_line(line: str) -> tuple[tuple[int, ...] | None, bool]:
    """The numbers of a line, and whether it has nothing beside them but a label."""
    match = _PASSAGES["line"].fullmatch(_PASSAGES["list_mark"].sub("", line))
    if _PASSAGES["denied"].search(line):
        return None, False
    if match is None:
        return _with_reasons(line), False
    tail = match["tail"].strip(" .;,")
    if tail and not (_PASSAGES["of_passages"].search(line) or _PASSAGES["remark"].match(tail)):
        return None, False
    return _expanded(match["numbers"]), not tail


def _with_reasons(line: str) -> tuple[int, ...] | None:
    """The numbers of passages before a reason that names no other passage."""
    numbers: list[int] = []
    for clause in _PASSAGES["next_passage"].split(line):
        reasoned = _PASSAGES["reasoned"].fullmatch(clause)
        head, reason = (reasoned["head"], reasoned["reason"]) if reasoned else (clause, "")
        match = _PASSAGES["line"].fullmatch(head)
        named = _PASSAGES["of_passages"].search(head)
        found = _expanded(match["numbers"]) if match and named else None
        if not found or not set(map(int, _PASSAGES["named"].findall(reason))) <= set(found):
            return None
        numbers.extend(found)
    return tuple(numbers)


def _expanded(text: str) -> tuple[int, ...] | None:
    """Numbers and ranges one by one; None where a range is no range."""
    numbers: list[int] = []
    for part in _PASSAGES["range"].finditer(text):
        first, last = int(part["single"] or part["first"]), int(part["single"] or part["last"])
        if not part["single"] and not 0 < last - first <= _MOST_IN_RANGE:
            return None
        numbers.extend(range(first, last + 1))
    return tuple(numbers)
