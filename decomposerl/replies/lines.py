"""The lines of a reply, without what models add around them.

Thinking up to the last ``</think>`` is skipped; thinking that is not closed leaves nothing.
Lines of a code fence, a closing token of a chat template, a role before the reply, ``**``, the
marks of a heading or a quotation before a line, and signs such as a tick around it are dropped.
Hyphens and full-width punctuation become their plain forms, and JSON becomes the lines that were
asked for: ``verdict: Refuted`` for a field, ``1. …`` for an item of a list.
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

_END_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*\Z")
_BEFORE_LINE = re.compile(r"\A(?:#{1,6}\s+|>\s?)+")
# Hyphens, full-width punctuation and invisible characters, as keyboards would give them.
_PLAIN = (
    dict.fromkeys(map(ord, "\u2010\u2011"), "-")
    | dict(zip(map(ord, "：，｜．；！？（）"), ":,|.;!?()", strict=True))
    | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
)
_SIGNS = " \t\xa0" + "".join(
    chr(code)
    for first, last in ((0x2600, 0x27BF), (0x2B00, 0x2BFF), (0xFE0F, 0xFE0F), (0x1F300, 0x1FAFF))
    for code in range(first, last + 1)
)
# The demonstrations show "Reply:" before a reply; a chat template may leave the role.
_ROLE = re.compile(r"\A\s*(?:reply|response|assistant)\s?:\s*", re.IGNORECASE)
# A model that goes on with another example repeats the tags of the prompt.
_NEXT_EXAMPLE = re.compile(r"(?<=\n)<(?:claim|evidence|document)>\s*$", re.MULTILINE)
# JSON begins a line, or stands behind a colon; what is no JSON after a few tries is text.
_JSON = re.compile(r"(?:^|(?<=:))[^\S\n]*(?=[{\[])", re.MULTILINE)
_MOST_TRIES = 16
# Where a value in the notation of Python ends at the latest.
_PART_END = re.compile(r"\n[^\S\n]*```|\n\s*\n")
# A comma before the end of a list or an object; strings are passed over whole.
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\Z))|,(?=\s*+[\]}])', re.DOTALL)
# Of JSON that is broken or cut: a field, a string of a list, or nothing but brackets.
_NEXT_FIELD = re.compile(r'(?<=["\w}\]])\s*,\s*(?="\w{1,40}"\s*:)')
_BROKEN = re.compile(
    r'[{\[\s]*(?:"(?P<name>\w{1,40})"\s*:\s*(?:(?P<value>\w+)|"(?P<field>.*?)"?)'
    r'|"(?P<text>.*?)"?)?[\s,}\]]*'
)
_NUMBERED = re.compile(r"\s*(?:[-*•]\s|\(?\d{1,2}[.):]\s)")
# What an item of a list is about, and what is said of it: an item's verdict is not the claim's.
_MAIN = re.compile(r"predicate|form|(?:sub_?|next_)?question|q|sub_?claim|step|fact", re.IGNORECASE)
_VERDICT = re.compile(r"verdict|label|result|conclusion", re.IGNORECASE)
_TRUTH = re.compile(r"(?:is_)?(?:true|truth)(?:_value)?|holds", re.IGNORECASE)
_MARKS = " \t*_`"
_ENDS = _MARKS + "\"'“”‘’„«»"
_QUOTED = re.compile('["“„«]([^"“”„«»]*)["”“»]')
_BRACKETED = re.compile(r"\(([^()]*)\)|\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}|<([a-z]+)>([^<>]*)</\4>")


def one_line(text: str) -> str:
    """The text with single spaces and no line break."""
    return " ".join(text.split())


def spoken(text: str) -> str:
    """A reply without its thinking and its closing token; empty where thinking is not closed."""
    after = text.rpartition("</think>")[2].translate(_PLAIN)
    return "" if "<think>" in after else _END_TOKEN.sub("", after)


def plain_text(text: str) -> str:
    """What a reply says, with JSON as lines and without the next example that a model goes on to.

    Linear in the length; never raises.
    """
    said = _ROLE.sub("", spoken(text), count=1)
    example = _NEXT_EXAMPLE.search(said)
    if example is not None and said[: example.start()].strip():
        said = said[: example.start()]
    return _without_json(said) if "{" in said or "[" in said else said


def lines_of(text: str) -> list[str]:
    """The trimmed lines of a reply that are not blank, without markup around them."""
    lines = (line.strip() for line in plain_text(text).splitlines())
    kept = (line for line in lines if not line.startswith("```"))
    unsigned = (_unsigned(line.replace("**", "")) for line in kept)
    plain = (_unsigned(_BEFORE_LINE.sub("", line)) for line in unsigned)
    return [line for line in plain if line]


def _without_json(text: str) -> str:
    """The text, each JSON object or list in it as lines."""
    parts: list[str] = []
    position = tries = 0
    for found in _JSON.finditer(text):
        if found.end() < position:
            continue
        if (tries := tries + 1) > _MOST_TRIES:
            break
        value, end = _decoded(text, found.end())
        if isinstance(value, _Fields) or (isinstance(value, list) and _ends_line(text, end)):
            parts += [text[position : found.start()], "\n", "\n".join(_json_lines(value)), "\n"]
            position = end
    rest = text[position:]
    if rest.lstrip(" `\njson")[:1] in {"{", "["}:
        rest = "\n".join(map(_unbroken, _NEXT_FIELD.sub("\n", rest).splitlines()))
    return "".join(parts) + rest


def _unbroken(line: str) -> str:
    """A line of broken JSON in plain words; any other line as it is."""
    part = _BROKEN.fullmatch(line.strip())
    if part is None:
        return line
    said = part["value"] or part["field"] or part["text"] or ""
    return f"{_label(part['name'])}{said}" if part["name"] else said


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at ``start`` and its end; None where there is none.

    An object is a list of pairs, so that a repeated field is seen.
    """
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_Fields)
    try:
        return decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        repaired = _LAST_COMMA.sub(lambda found: found[1] or " ", text[start:])
    try:
        value, end = decoder.raw_decode(repaired)
        return value, start + end
    except (ValueError, RecursionError):
        part = _PART_END.split(text[start:], maxsplit=1)[0]
    try:
        value = ast.literal_eval(part) if part[:2] in {"['", "{'"} else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = None
    fields = _Fields(value.items()) if isinstance(value, dict) else value
    return fields, start + len(part)


class _Fields(list[tuple[str, Any]]):
    """The fields of an object."""


def _ends_line(text: str, end: int) -> bool:
    return not text[end : end + 80].partition("\n")[0].strip(" .,;`\t")


def _json_lines(value: Any, label: str = "") -> Iterator[str]:  # noqa: ANN401 - any JSON
    """The lines that say the same as a JSON value, behind ``label``."""
    value = _Fields(value.items()) if isinstance(value, dict) else value
    if isinstance(value, _Fields) and not label:
        for name, inner in value:
            truth = _TRUTH.fullmatch(name) and not isinstance(inner, list)
            yield from _json_lines(inner, "answer: " if truth else _label(name))
    elif isinstance(value, _Fields):
        yield from _item_lines(value, label)
    elif isinstance(value, list) and all(map(_is_number, value)):
        yield label + (", ".join(map(str, value)) or "NONE")
    elif isinstance(value, list):
        yield from [] if _NUMBERED.fullmatch(label) else [label]
        for number, item in enumerate(value, start=1):
            own = isinstance(item, str) and _NUMBERED.match(item)
            yield from _json_lines(item, "" if own else f"{number}. ")
    elif value is None or isinstance(value, bool):
        yield label + {True: "true", False: "false", None: "unknown"}[value]
    else:
        said = str(value).strip()
        yield label + ("\n" if "\n" in said and label else "") + said


def _is_number(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and value.isdecimal())


def _item_lines(fields: _Fields, label: str) -> Iterator[str]:
    """The lines of a list's item: what it is about behind ``label``, then what is said of it."""
    rest = list(fields)
    number = next((field for field in rest if type(field[1]) is int), None)
    if number is not None and label[:1].isdigit():
        label = f"{number[1]}. "
        rest.remove(number)
    main = next((field for field in rest if _MAIN.fullmatch(field[0])), rest[0] if rest else None)
    if main is not None:
        rest.remove(main)
        yield from _json_lines(main[1], label)
    for name, inner in rest:
        truth = _TRUTH.fullmatch(name) or _VERDICT.fullmatch(name)
        yield from _json_lines(inner, "truth: " if truth else _label(name))


def _label(name: str) -> str:
    return f"{name.replace('_', ' ').strip()}: "


def _unsigned(line: str) -> str:
    """The trimmed line without ticks, crosses and the like at its ends."""
    return line.strip().strip(_SIGNS)


def without_marks(line: str) -> str:
    """The line with single spaces, without marks or quotes around all of it."""
    plain = one_line(line).strip(_MARKS)
    quoted = _QUOTED.fullmatch(plain)
    return quoted[1].strip(_MARKS) if quoted else plain


def bare(text: str) -> str:
    """A word or line in lower case, without marks, quotes, a final stop or a pair of brackets."""
    inside = one_line(text).strip(_ENDS).rstrip(".!").strip(_ENDS)
    bracketed = _BRACKETED.fullmatch(inside)
    if bracketed is not None:
        inside = next(part for part in bracketed.group(1, 2, 3, 5) if part is not None)
        inside = inside.strip(_ENDS).rstrip(".!").strip(_ENDS)
    return inside.lower()
