r"""The ruling that a judge's reply states: in its tags, on its last line, or in one JSON object.

Every answer in tags counts, and a label (``answer: 1``) counts where there is no tag; thinking in
front is skipped. Two that disagree are no ruling, so a judge that repeats forged tags beside its
own answer gives none. A word may be followed by a remark (``1 (stated)``, ``NO, open-ended``), and
so may the closing tag and a fence, as long as it neither hedges nor states another ruling.

The letter case of tags, Markdown escapes (``\<answer\>``) and wide colons change nothing. The last
answer of a reply may lack its closing tag: replies that a token limit cuts are not read at all. One
JSON object is read also where tags were asked for. Nothing here detects a judge that was talked
into an answer.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

from decomposerl.replies.wordings import Wordings
from decomposerl.schemas import Verdict

CRITERIA = ("is_question", "single_focus", "no_conjunctions", "verifiable", "grounded")
"""The atomicity checklist: the names in the prompt, in the order of a ruling's values."""
Form = Literal["digit", "criteria", "coverage"]
"""Of a reply: the 1 or 0 of answerability and correctness, five criteria, or a verdict."""
RulingValue = bool | tuple[bool, ...] | Verdict
_FIELDS = {"digit": ("answer",), "criteria": CRITERIA, "coverage": ("verdict",)}
_FORMS = Wordings("rulings")
_TRUTH = {"yes": True, "no": False}
_LONGEST_REMARK = 400
_MARKS = " \t\r\n*_`\"'[]"
_RESULTS = {"result", "answer", "value"}  # of a criterion that is an object
_REASONS = {"analysis", "reason", "reasoning", "explanation"}


def read_ruling(reply: str, form: Form, *, structured: bool = False) -> RulingValue:
    """What a reply rules: criteria in the order of ``CRITERIA``, in the reply in any order.

    ``structured``: one JSON object was asked for, and nothing else is read.

    Raises:
        ValueError: the reply states no ruling, or two, or goes on with another one.
    """
    text = _FORMS["thought"].sub("", reply, count=1).strip()
    text = _FORMS["last_token"].sub("", text).rstrip()
    data, behind = _FORMS["opened_before"].sub("", text, count=1).strip(), ""
    if fenced := _FORMS["fenced"].fullmatch(data):
        data, behind = fenced["json"].strip(), fenced["remark"].strip()
    if structured or (data.startswith("{") and not _FORMS["any_answer"].search(reply)):
        ruling = tuple(_value(word, form) for word in _object_fields(data, _FIELDS[form]))
    else:
        text = _FORMS["escape"].sub(r"\g<mark>", text).replace("\N{FULLWIDTH COLON}", ":")
        text = _FORMS["fence"].sub("", text)
        contents, behind = _in_tags(text, form)
        if not contents:
            said = text.rpartition("</think>")[2]
            return _last_criteria(said) if form == "criteria" else _on_lines(said, form)
        ruling = _agreed(_content(content, form) for content in contents)
    if form == "criteria":
        _check_others(_pairs(behind), ruling)
    if not _FORMS["end"].fullmatch(behind):
        _check_remark(behind, form, value=form == "criteria" or ruling[0])
    value: RulingValue = ruling if form == "criteria" else ruling[0]
    return value


def _object_fields(text: str, names: Sequence[str]) -> list[str]:
    """The fields of one JSON object, as text, each once; reasons may stand beside them."""
    try:
        value = json.loads(text, object_pairs_hook=_results)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(value, dict) or value.keys() != set(names):
        raise ValueError(f"the JSON is no object with the fields {', '.join(names)}")
    results = [value[name] for name in names]
    if not all(isinstance(result, str | int) for result in results):
        raise ValueError("a field of the JSON is neither text nor a whole number nor true or false")
    return list(map(str, results))


def _results(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object without its reasons; one that is an object counts as its result."""
    if len({name for name, _ in pairs}) < len(pairs):  # which of two counts is anybody's guess
        raise ValueError("a field of the JSON is repeated")
    fields = {name: value for name, value in pairs if name not in _REASONS}
    for name, value in fields.items():
        if isinstance(value, dict) and len(value) == 1 and value.keys() <= _RESULTS:
            (fields[name],) = value.values()
    return fields


def _in_tags(text: str, form: Form) -> tuple[list[str], str]:
    """The content of each answer in tags, and the text behind the last one.

    An answer that is not closed goes to the end of the text.

    Raises:
        ValueError: thinking is not closed, or an answer is not opened.
    """
    if "<think>" in text:
        raise ValueError("the thinking is not closed, or goes on behind the answer")
    contents: list[str] = []
    start, end = -1, 0
    for tag in _FORMS[f"{form}_tag"].finditer(text):
        if not tag["closes"]:
            start = tag.end()
            continue
        if start < 0:
            raise ValueError("the answer is not opened")
        contents.append(text[start : tag.start()])
        start, end = -1, tag.end()
    return ([*contents, text[start:]], "") if start >= 0 else (contents, text[end:])


def _content(content: str, form: Form) -> tuple[Any, ...]:
    """The values in one answer: a word, or one by name for each criterion, or one on each line."""
    if form != "criteria":
        plain = _FORMS["bullet"].sub("", content.strip(_MARKS))
        label = _FORMS["label"].fullmatch(plain)
        return (_value(label["rest"] if label else plain, form),)
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    pairs = _pairs(content)
    if not pairs and len(lines) == len(CRITERIA):
        words = [_FORMS["item"].sub("", line) for line in lines]
        pairs = list(zip(CRITERIA, words, strict=True))
    return _checked(pairs)


def _on_lines(text: str, form: Form) -> Any:  # noqa: ANN401 - a value of any form
    """The labelled value of a text, if its last line is one or the word alone."""
    words = "digit_on_line" if form == "digit" else form
    text = _FORMS["other_tag"].sub(r"answer: \g<said>", text).replace("*", "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines.pop() if lines else ""
    values: list[object] = []
    for labelled in filter(None, map(_FORMS["label"].fullmatch, lines)):
        with suppress(ValueError):  # the label of something else
            values.append(_value(labelled["rest"], form, words))
    sentence = _FORMS["sentence_end"].split(last)[-1]
    label = _FORMS["label"].fullmatch(last) or _FORMS["label"].fullmatch(sentence)
    # "1." may be the start of a list.
    alone = last.strip(_MARKS) if last[:1].isdigit() else last.strip(_MARKS).rstrip(".")
    if label is None and not _FORMS[words].fullmatch(alone):
        raise ValueError("the reply has neither an answer in tags nor one on its last line")
    values.append(_value(label["rest"] if label else last, form, words))
    return _agreed(values)


def _last_criteria(text: str) -> tuple[bool, ...]:
    """The criteria that end a text without tags; those before them must agree."""
    pairs = _pairs(text.strip())
    if "{" in text or not _pairs(text.strip().rpartition("\n")[2]):
        raise ValueError("the reply has neither an answer in tags nor criteria on its last line")
    ruling = _checked(pairs[-len(CRITERIA) :])
    _check_others(pairs[: -len(CRITERIA)], ruling)
    return ruling


def _pairs(text: str) -> list[tuple[str, str]]:
    """Each criterion with a separator behind its name, and the text up to the next one."""
    names = list(_FORMS["criterion_name"].finditer(text))
    ends = [*(match.start() for match in names[1:]), len(text)] if names else []
    return [
        (re.sub("[ -]", "_", match["name"].casefold()), text[match.end() : end])
        for match, end in zip(names, ends, strict=True)
    ]


def _checked(pairs: Sequence[tuple[str, str]]) -> tuple[bool, ...]:
    """The values of pairs that have each criterion once."""
    words = dict(pairs)
    if len(pairs) != len(CRITERIA) or set(words) != set(CRITERIA):
        raise ValueError("the answer does not have one line per criterion")
    return tuple(_value(words[name], "criteria") for name in CRITERIA)


def _check_others(pairs: Iterable[tuple[str, str]], ruling: Sequence[object]) -> None:
    """Refuse pairs beside those of the ruling that disagree with it; without a word none does."""
    ruled = dict(zip(CRITERIA, ruling, strict=True))
    if any(_opening(text, "criteria")[0] not in {None, ruled[name]} for name, text in pairs):
        raise ValueError("two answers disagree")


def _agreed(values: Iterable[Any]) -> Any:  # noqa: ANN401 - a value of any form
    """The one value of one or more answers."""
    first, *others = values
    if any(other != first for other in others):
        raise ValueError("two answers disagree")
    return first


def _opening(text: str, words: str) -> tuple[Any, str]:
    """The value whose word a text opens with, or None, and the rest, without marks."""
    plain = text.strip(_MARKS)
    match = _FORMS[words].match(plain)
    if match is None or match.lastgroup is None:
        return None, plain
    return _TRUTH.get(match.lastgroup, match.lastgroup), plain[match.end() :].lstrip("*_`\"'])")


def _value(text: str, form: Form, words: str = "") -> Any:  # noqa: ANN401 - a value of any form
    """The value whose word a text is, without marks, or opens with before a remark."""
    value, rest = _opening(text, words or form)
    alone = _FORMS["between" if form == "criteria" else "end"].fullmatch(rest)
    if value is None or not (alone or _FORMS["opener"].match(rest)):
        raise ValueError(f"the reply says {text.strip()[:40]!r}, which is no {form}")
    if not alone:
        _check_remark(rest, form, value)
    return value


def _check_remark(remark: str, form: Form, value: object) -> None:
    """Refuse a remark that is long, hedges, holds a tag or denies the value."""
    if len(remark) > _LONGEST_REMARK or _FORMS["tag"].search(remark):
        raise ValueError("the reply goes on behind its answer")
    lower, name = remark.lower(), str(value).lower()
    denied = _FORMS[f"{form}_{name}"].search(_FORMS[f"beside_{name}"].sub("", remark))
    if denied or _FORMS["hedge"].match(lower) or _FORMS["turn"].search(lower):
        raise ValueError("the reply takes its answer back, or states another one")
