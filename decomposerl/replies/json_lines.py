"""JSON in a reply, as the lines that were asked for.

A model that answers in JSON where text was asked says the same: a field is a line with its label
(``verdict: Refuted``), an item of a list a numbered one. So one reader of lines reads both.
"""

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

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


def without_json(text: str) -> str:
    """The text of a reply, each JSON object or list in it as lines.

    JSON that is broken or cut is read line by line, and Python's notation as JSON. Linear in the
    length; never raises.
    """
    if "{" not in text and "[" not in text:
        return text
    parts: list[str] = []
    position = tries = 0
    for found in _JSON.finditer(text):
        if found.end() < position:
            continue
        if (tries := tries + 1) > _MOST_TRIES:
            break
        value, end = _decoded(text, found.end())
        behind = text[end : end + 80].partition("\n")[0].strip(" .,;`\t")
        if isinstance(value, _Fields) or (isinstance(value, list) and not behind):
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
    with suppress(ValueError, RecursionError):
        return decoder.raw_decode(text, start)
    with suppress(ValueError, RecursionError):
        value, end = decoder.raw_decode(
            _LAST_COMMA.sub(lambda found: found[1] or " ", text[start:])
        )
        return value, start + end
    part, value = _PART_END.split(text[start:], maxsplit=1)[0], None
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        value = ast.literal_eval(part) if part[:2] in {"['", "{'"} else None
    return _Fields(value.items()) if isinstance(value, dict) else value, start + len(part)


class _Fields(list[tuple[str, Any]]):
    """The fields of an object."""


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
