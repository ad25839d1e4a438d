r"""Text from outside, made printable: what a terminal or a reader would obey becomes visible.

Takes any string, gives one in which every character shows: escape sequences, control,
format (bidirectional, zero-width) and line-separating characters and halves of surrogate
pairs stand as Python writes them (``\x1b``, ``\u202e``). All other text stays as it is.

Left out deliberately: Markdown and HTML (``decomposerl.reports.tables``), and letters that
look alike.
"""

import json
import unicodedata

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks without any ink."""


def printable(text: str, keep: str = "\n\t") -> str:
    """``text`` with visible escapes; the characters of ``keep`` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or _shows(one) else _escaped(one) for one in text)


def printable_json(value: object) -> str:
    """``value`` as JSON of two spaces; what would not show is escaped, so nothing is lost.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    return "".join(one if one == "\n" or _shows(one) else _in_json(one) for one in text)


def _shows(character: str) -> bool:
    shows = character.isprintable() or unicodedata.category(character) == "Zs"
    return shows and character not in _BLANK


def _in_json(character: str) -> str:
    """As JSON's own escape; DEL has one too, though JSON does not ask for it."""
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
