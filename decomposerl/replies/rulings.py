r"""The ruling that a judge's reply states: in its tags, or, without tags, on its last line.

Every answer in tags counts, and a label (``answer: 1``) counts where there is no tag. Two that
disagree are no ruling. A word may be followed by a remark (``1 (stated)``, ``NO, open-ended``), and
so may the closing tag, as long as it neither hedges nor states another ruling.

The letter case of tags, Markdown escapes (``\<answer\>``) and wide colons change nothing. The last
answer of a reply may lack its closing tag: replies that a token limit cuts are not read at all.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

Value = TypeVar("Value")
Denies = Callable[[Value, str], bool]
"""Whether a remark states another ruling than the value before it."""
YES_NO = {"yes": True, "no": False, "true": True, "false": False}
"""A criterion's words."""
_Pair = tuple[str, bool | None, str]
_LONGEST_REMARK = 400
_MARKS = " \t\r\n*_`\"'[]"
_OPENER = re.compile(
    r"\s*(?:[.,;:!](?!\w)|[(\[|–—]|\n)|\s-+\s|\s+(?:because|since|as|given|due|based|by)\b"
)
_HEDGE = re.compile(  # a quoted word is no hedge: NO ("and" ties two)
    r"[^\w\"'“‘`]*(?:or|and|but|if|unless|mostly|partly|partially|largely|almost|perhaps|maybe|probably"
    r"|possibly|somewhat|in\spart|to\ssome)\b"
)
_TURN = re.compile(
    r"\b(?:wait|actually|second\sthoughts?|correction|hm+|i\smean|or\srather|not\ssure|unsure"
    r"|scratch\sthat|sorry|ignore|however|nevertheless|though|although)\b"
)
_TAG = re.compile(r"<\s*/?\s*[a-z|]", re.IGNORECASE)
_NO_REMARK = re.compile(r"[\W_]*")
_BETWEEN = re.compile(r"[\W\d_]*+(?:and\b[\W\d_]*+)?")  # two criteria: marks, a number, "and"
_FENCE = re.compile(r"^[ \t]*```\w*[ \t]*$\n?", re.MULTILINE)
_BULLET = re.compile(r"\A[-+•]\s+")
_ESCAPE = re.compile(r"\\([<>_*])")
# Another tag around a whole last line counts as a label does, and never beside an answer in tags.
_OTHER_TAG = re.compile(
    r"^[ \t]*+<(result|ruling|output|response)>\s*+([^<>\s][^<>\n]{0,79}+)\s*+</\1>[ \t]*$",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)
_BARE_WORD = re.compile(
    r"(?:[-*+•]\s+|\d[.)]\s+)?[*`\"']{0,2}(yes|no)[*`\"']{0,2}[.,;]?", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_LABEL = re.compile(
    r"(?:[-+•>#]+\s+)*(?:(?:so|thus|therefore|hence|overall|conclusion)\b[,:]?\s)?(?:the\s|my\s)?"
    r"(?:final\s|overall\s)?(?:answer|result|verdict|ruling|score|judge?ment|decision|label|digit"
    r"|conclusion|overall)\s*(?:[:=]|[-–—]+|\bis\b:?)\s*(?P<rest>.*)",
    re.IGNORECASE,
)


def tagged(text: str, *names: str) -> tuple[list[str], str]:
    """The content of each answer in tags, and the text behind the last one.

    An answer that is not closed goes to the end of the text.

    Raises:
        ValueError: thinking is not closed, or an answer is not opened.
    """
    if "<think>" in text:
        raise ValueError("the thinking is not closed, or goes on behind the answer")
    contents: list[str] = []
    start, end = -1, 0
    for tag in re.finditer(rf"(?ai)<(/?)(?:{'|'.join(names)})>", text):
        if not tag[1]:
            start = tag.end()
            continue
        if start < 0:
            raise ValueError("the answer is not opened")
        contents.append(text[start : tag.start()])
        start, end = -1, tag.end()
    if start >= 0:
        return [*contents, text[start:]], ""
    return contents, text[end:]


def _plain(text: str) -> str:
    """A reply without Markdown's escapes, fences and wide colons."""
    return _FENCE.sub("", _ESCAPE.sub(r"\1", text).replace("\N{FULLWIDTH COLON}", ":"))


def read_word(
    text: str, tags: Sequence[str], values: Mapping[str, Value], denies: Denies[Value]
) -> Value:
    """The one of ``values``, by its word in lower case, that a reply rules.

    Raises:
        ValueError: the reply states none of them, or two, or goes on with another one.
    """
    plain = _plain(text)
    contents, behind = tagged(plain, *tags)
    if contents:
        ruling = _agreed(worded(_unlabelled(content), values, denies) for content in contents)
        if not _NO_REMARK.fullmatch(behind):
            check_remark(behind, ruling, denies)
        return ruling
    lines = _OTHER_TAG.sub(r"answer: \2", plain.rpartition("</think>")[2])
    return _agreed(_on_lines(lines, values, denies))


def worded(text: str, values: Mapping[str, Value], denies: Denies[Value]) -> Value:
    """The value whose word a text is, without marks, or opens with before a remark.

    Raises:
        ValueError: it is no such text.
    """
    words = "|".join(re.escape(word) for word in sorted(values, key=len, reverse=True))
    match = re.match(rf"({words})(?!\w)(.*)", text.strip(_MARKS), re.DOTALL | re.IGNORECASE)
    rest = match[2].lstrip("*_`\"'])") if match else ""
    if match is None or not (_NO_REMARK.fullmatch(rest) or _OPENER.match(rest)):
        raise ValueError(f"the reply says {text.strip()[:40]!r}, which is none of {words}")
    value = values[match[1].casefold()]
    if not _NO_REMARK.fullmatch(rest):
        check_remark(rest, value, denies)
    return value


def check_remark(remark: str, value: Value, denies: Denies[Value]) -> None:
    """Refuse a remark that is long, hedges, holds a tag or denies the value.

    Raises:
        ValueError: it does.
    """
    lower = remark.lower()
    if len(remark) > _LONGEST_REMARK or _TAG.search(remark):
        raise ValueError("the reply goes on behind its answer")
    if _HEDGE.match(lower) or _TURN.search(lower) or denies(value, remark):
        raise ValueError("the reply takes its answer back, or states another one")


def denies_yes_no(value: bool, remark: str) -> bool:  # noqa: FBT001 - the value of a criterion
    """Whether a remark behind a yes or no holds one of its own."""
    other = "NO|FALSE" if value else "YES|TRUE"
    return bool(re.search(rf"\b(?:{other})\b|(?i:[:=]\s*(?:yes|no|true|false)\b)", remark))


def _agreed(values: Iterable[Value]) -> Value:
    """The one value of one or more answers."""
    first, *others = values
    if any(other != first for other in others):
        raise ValueError("two answers disagree")
    return first


def _unlabelled(text: str) -> str:
    """The content of a tag without a bullet or a label of its own."""
    plain = _BULLET.sub("", text.strip(_MARKS), count=1)
    label = _LABEL.fullmatch(plain)
    return label["rest"] if label else plain


def _on_lines(text: str, values: Mapping[str, Value], denies: Denies[Value]) -> list[Value]:
    """The labelled values of a text, if its last line is one or the word alone."""
    own = {word: value for word, value in values.items() if word not in YES_NO}
    lines = [line.strip() for line in text.replace("*", "").splitlines() if line.strip()]
    last = lines.pop() if lines else ""
    found: list[Value] = []
    for line in lines:
        label = _LABEL.fullmatch(line)
        if label:
            with suppress(ValueError):  # the label of something else
                found.append(worded(label["rest"], own, denies))
    label = _LABEL.fullmatch(last) or _LABEL.fullmatch(_SENTENCE_END.split(last)[-1])
    # "1." may be the start of a list.
    alone = last.strip(_MARKS) if last[:1].isdigit() else last.strip(_MARKS).rstrip(".")
    if label is None and alone.casefold() not in own:
        raise ValueError("the reply has neither an answer in tags nor one on its last line")
    return [*found, worded(label["rest"] if label else last, own, denies)]


def read_checklist(text: str, names: Sequence[str]) -> tuple[bool, ...]:
    """Yes or no for each name, in the order of ``names``, from ``name: word`` in any layout.

    Raises:
        ValueError: a name lacks its word or has two, or the reply goes on with another ruling.
    """
    plain = _plain(text)
    contents, behind = tagged(plain, "answer")
    if contents:
        ruling = _agreed(
            _bare_words(content, len(names)) or _checked(_pairs(content, names), names)
            for content in contents
        )
        _check_others(_pairs(behind, names), ruling, names)
        if not _NO_REMARK.fullmatch(behind):
            check_remark(behind, ruling, lambda _, remark: denies_yes_no(value=True, remark=remark))
        return ruling
    spoken = plain.rpartition("</think>")[2].strip()
    if "{" in spoken or not _pairs(spoken.rpartition("\n")[2], names):
        raise ValueError("the reply has neither an answer in tags nor criteria on its last line")
    pairs = _pairs(spoken, names)
    ruling = _checked(pairs[-len(names) :], names)
    _check_others(pairs[: -len(names)], ruling, names)
    return ruling


def _bare_words(content: str, count: int) -> tuple[bool, ...]:
    """The words of an answer of ``count`` lines with nothing but a yes or no each; else empty."""
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    words = [_BARE_WORD.fullmatch(line) for line in lines]
    whole = len(words) == count and all(words)
    return tuple(YES_NO[word[1].casefold()] for word in words if word) if whole else ()


def _check_others(pairs: Iterable[_Pair], ruling: Iterable[bool], names: Sequence[str]) -> None:
    """Refuse pairs beside those of the ruling that disagree with it; without a word none does."""
    ruled = dict(zip(names, ruling, strict=True))
    if any(met not in {None, ruled[name]} for name, met, _ in pairs):
        raise ValueError("two answers disagree")


def _checked(pairs: Iterable[_Pair], names: Sequence[str]) -> tuple[bool, ...]:
    """The words of pairs that have each name once."""
    words: dict[str, bool] = {}
    for name, met, remark in pairs:
        if name in words or met is None:
            raise ValueError(f"the answer does not have one yes or no for {name}")
        if not _BETWEEN.fullmatch(remark):
            if not _OPENER.match(remark):
                raise ValueError(f"the answer does not say yes or no to {name}")
            check_remark(remark, met, denies_yes_no)
        words[name] = met
    if set(words) != set(names):
        raise ValueError("the answer does not have one line per criterion")
    return tuple(words[name] for name in names)


def _pairs(text: str, names: Sequence[str]) -> list[_Pair]:
    """Each name with a separator behind it: its yes or no, None for neither, and what follows."""
    alternatives = "|".join(name.replace("_", "[_ -]") for name in names)
    found = list(
        re.finditer(
            rf"(?<!\w)({alternatives})[\"'*_`)\]]*\s*(?:[:=|→]|\s[-–—]+>?\s)[\s\"'*_`(\[]*",
            text,
            re.IGNORECASE,
        )
    )
    ends = [match.start() for match in found[1:]] + [len(text)]
    pairs: list[_Pair] = []
    for match, end in zip(found, ends, strict=False):
        name = re.sub("[ -]", "_", match[1].casefold())
        word = re.match(r"(yes|no|true|false)(?![\w/])", text[match.end() : end], re.IGNORECASE)
        rest = text[match.end() + word.end() : end] if word else ""
        pairs.append((name, YES_NO[word[1].casefold()] if word else None, rest.lstrip("*_`\"'])")))
    return pairs
