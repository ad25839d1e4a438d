"""Finds where the elements of a damaged JSON array or object open and end.

Two searches over a decoded text: the next position that opens like a sibling (a comma, then an
object whose first key a sound element had), and the balanced end of a broken element.
``json_elements.py`` chooses between the two.
"""

import json
import re
from dataclasses import dataclass, replace

STRING = r'"(?:[^"\\]++|\\.)*+"'
_OPENING = rf"\{{\s*+({STRING})\s*+:"
_FIRST_KEY = re.compile(_OPENING, re.DOTALL)
_SIBLING = re.compile(rf",\s*+(?={_OPENING})", re.DOTALL)
_KEYED_SIBLING = re.compile(rf",\s*+(?={STRING}\s*+:\s*+{_OPENING})", re.DOTALL)
_TOKEN = re.compile(STRING + r'|\{+|\}+|\[+|\]+|[,"]', re.DOTALL)
_CLOSER = {"{": "}", "[": "]"}
_SEARCH_CHARS = 200_000
_MAX_NESTING = 100_000
_KEY_STEPS = 100


class Siblings:
    """The openings of one text.

    ``spent`` counts the steps (about 5 ns each) taken beyond the position where reading resumes,
    so that the caller can bound them. The last results are cached, as searches move forward.
    """

    def __init__(self, text: str, *, keyed: bool) -> None:
        self.text, self.spent = text, 0
        self._pattern = _KEYED_SIBLING if keyed else _SIBLING
        self._keys: set[str] = set()
        self._written: set[str] = set()  # the same keys as JSON strings
        self._own: tuple[int, int, str | None] = (0, -1, None)
        self._next: tuple[int, int, int, str] = (0, -1, 0, "")

    def remember(self, key: str) -> None:
        """Record the first key of a sound element, which JSON may write in two ways."""
        if key not in self._keys:
            self._keys.add(key)
            self._written |= {json.dumps(key, ensure_ascii=flag) for flag in (False, True)}

    def own_key(self, start: int) -> str | None:
        """The first key of the next object from ``start`` on, as written."""
        since, opens, key = self._own
        if not since <= start <= opens:
            match = _FIRST_KEY.search(self.text, start)
            opens, key = (match.start(), match[1]) if match else (len(self.text), None)
            self._own = (start, opens, key)
            self.spent += opens - start
        return key

    def opening(self, start: int) -> tuple[int, str]:
        """The next opening behind a comma, at any key; the end of the text if there is none."""
        since, comma, position, key = self._next
        if not since <= start <= comma:
            match = self._pattern.search(self.text, start)
            size = len(self.text)
            comma, position, key = (
                (match.start(), match.end(), match[1]) if match else (size, size, "")
            )
            self._next = (start, comma, position, key)
            self.spent += comma - start
        return position, key

    def known(self, start: int, own: str | None = None) -> int | None:
        """The next opening with a remembered key or with ``own``; None if there is none."""
        position, key = self.opening(start)
        while position < len(self.text):
            if self.is_known(key, own):
                return position
            self.spent += _KEY_STEPS
            position, key = self.opening(position)
        return None

    def is_known(self, key: str, own: str | None) -> bool:
        """Whether an element that opens with this key counts as a sibling."""
        return key == own or key in self._written


@dataclass(slots=True)
class End:
    """How a broken element ends.

    ``end`` is the comma or bracket that ends it by bracket count; None where the text ends
    first or brackets cannot be separated from text (``open_string``). ``reach`` is how far the
    search read, ``sibling`` the first sibling before that position.
    """

    reach: int
    end: int | None = None
    sibling: int | None = None
    open_string: bool = False


def balanced_end(siblings: Siblings, start: int, close: str, *, brief: bool) -> End:
    """Read on from a broken element at ``start`` inside the bracket that ``close`` closes.

    The search stops 200,000 characters behind a sibling (``brief``: at it) and at 100,000
    nested runs.
    """
    text, nesting, result = siblings.text, _Nesting(), End(start)
    own = siblings.own_key(start)
    position, key = siblings.opening(start)
    limit = len(text)
    for token in _TOKEN.finditer(text, start):
        begin, end = token.span()
        while result.sibling is None and position < end:
            if siblings.is_known(key, own):
                result.sibling = position
                limit = position + (0 if brief else _SEARCH_CHARS)
            position, key = siblings.opening(position)
        mark = text[begin]
        if mark == '"':
            # A sibling inside a string means that a quote is missing or too many.
            within = result.sibling is not None and begin < result.sibling < end
            if end == begin + 1 or within:
                return replace(result, reach=end, open_string=True)
            continue
        if begin >= limit or nesting.depth > _MAX_NESTING:
            return replace(result, reach=end)
        surplus = nesting.take(mark, end - begin) if mark != "," else 1
        if surplus and mark in {",", close} and not nesting.depth:
            return replace(result, reach=end, end=end - surplus)
    return replace(result, reach=len(text))


class _Nesting:
    """Brackets that are open, by runs of one kind; ``depth`` counts the runs."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, int]] = []

    @property
    def depth(self) -> int:
        return len(self._runs)

    def take(self, mark: str, count: int) -> int:
        """Open or close ``count`` brackets; returns how many of them closed nothing."""
        closer = _CLOSER.get(mark)
        same = bool(self._runs) and self._runs[-1][0] == (closer or mark)
        opened = self._runs.pop()[1] if same else 0
        left = opened + count if closer else opened - count
        if left > 0:
            self._runs.append((closer or mark, left))
        return max(0, -left)
