r"""Makes text from outside printable: characters that a terminal would obey become visible.

Escape sequences, control, format (bidirectional, zero-width) and line-separating characters and
halves of surrogate pairs are written as Python writes them (``\x1b``, ``\u202e``). All other text
is unchanged. Markdown and HTML are escaped in ``decomposerl.reports.tables``.
"""

import json
import unicodedata

# Letters and marks that show nothing, though Python calls them printable.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def printable(text: str, keep: str = "\n\t") -> str:
    """``text`` with visible escapes; the characters of ``keep`` stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or _shows(one) else _escaped(one) for one in text)


def printable_json(value: object, indent: int | None = 2) -> str:
    """``value`` as JSON, on one line if ``indent`` is None; invisible characters are escaped.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    return "".join(one if one == "\n" or _shows(one) else _in_json(one) for one in text)


def _shows(character: str) -> bool:
    shows = character.isprintable() or unicodedata.category(character) == "Zs"
    return shows and character not in _BLANK


def _in_json(character: str) -> str:
    """The character as a JSON escape; DEL too, although JSON does not require it."""
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
