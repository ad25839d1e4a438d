"""Where the elements of a damaged JSON array or object open and end.

Takes a decoded text, gives the next place that opens like its siblings (a comma, then an
object whose first key a sound element had) and the balanced end of a broken element. Both
look no further than they must, and ``spent`` counts the steps (about 5 ns each) that were
taken beyond the place where reading goes on, so that a caller can bound them.

Left out deliberately: decoding, and the choice between the two (``json_elements.py``).
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
    """The openings of one text; the last answers are kept, as questions move forward."""

    def __init__(self, text: str, *, keyed: bool) -> None:
        self.text, self.spent = text, 0
        self._pattern = _KEYED_SIBLING if keyed else _SIBLING
        self._keys: set[str] = set()
        self._written: set[str] = set()  # the same as JSON strings
        self._own: tuple[int, int, str | None] = (0, -1, None)
        self._next: tuple[int, int, int, str] = (0, -1, 0, "")

    def remember(self, key: str) -> None:
        """A sound element opens with ``key``, which JSON may write in two ways."""
        if key not in self._keys:
            self._keys.add(key)
            self._written |= {json.dumps(key, ensure_ascii=flag) for flag in (False, True)}

    def own_key(self, start: int) -> str | None:
        """The first key that opens an object from ``start`` on, as it is written."""
        since, opens, key = self._own
        if not since <= start <= opens:
            found = _FIRST_KEY.search(self.text, start)
            opens, key = (found.start(), found[1]) if found else (len(self.text), None)
            self._own = (start, opens, key)
            self.spent += opens - start
        return key

    def opening(self, start: int) -> tuple[int, str]:
        """The next opening behind a comma, at any key; the end of the text if there is none."""
        since, comma, place, key = self._next
        if not since <= start <= comma:
            found = self._pattern.search(self.text, start)
            size = len(self.text)
            comma, place, key = (
                (found.start(), found.end(), found[1]) if found else (size, size, "")
            )
            self._next = (start, comma, place, key)
            self.spent += comma - start
        return place, key

    def known(self, start: int, own: str | None = None) -> int | None:
        """The next opening with a remembered key or with ``own``; None if there is none."""
        place, key = self.opening(start)
        while place < len(self.text):
            if self.is_known(key, own):
                return place
            self.spent += _KEY_STEPS
            place, key = self.opening(place)
        return None

    def is_known(self, key: str, own: str | None) -> bool:
        """Whether an element that opens with this key counts as a sibling."""
        return key == own or key in self._written


@dataclass(slots=True)
class End:
    """How a broken element ends.

    ``end`` is the comma or bracket that ends it by bracket count; None where the text ends
    first or brackets cannot be separated from text (``open_string``). ``sibling`` is the first
    sibling before ``reach``, which is how far was read.
    """

    reach: int
    end: int | None = None
    sibling: int | None = None
    open_string: bool = False


def balanced_end(siblings: Siblings, start: int, close: str, *, brief: bool) -> End:
    """Read on from a broken element at ``start`` inside the bracket that ``close`` closes.

    A sibling inside a string means that a quote is missing or too many. The search stops
    200,000 characters behind a sibling (``brief``: at it) and at 100,000 nested runs.
    """
    text, nesting, found = siblings.text, _Nesting(), End(start)
    own = siblings.own_key(start)
    place, key = siblings.opening(start)
    limit = len(text)
    for token in _TOKEN.finditer(text, start):
        begin, end = token.span()
        while found.sibling is None and place < end:
            if siblings.is_known(key, own):
                found.sibling, limit = place, place + (0 if brief else _SEARCH_CHARS)
            place, key = siblings.opening(place)
        mark = text[begin]
        if mark == '"':
            within = found.sibling is not None and begin < found.sibling < end
            if end == begin + 1 or within:
                return replace(found, reach=end, open_string=True)
            continue
        if begin >= limit or nesting.depth > _MAX_NESTING:
            return replace(found, reach=end)
        surplus = nesting.take(mark, end - begin) if mark != "," else 1
        if surplus and mark in {",", close} and not nesting.depth:
            return replace(found, reach=end, end=end - surplus)
    return replace(found, reach=len(text))


class _Nesting:
    """Brackets that are open, by runs of one kind; ``depth`` counts the runs."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, int]] = []

    @property
    def depth(self) -> int:
        return len(self._runs)

    def take(self, mark: str, count: int) -> int:
        """Open or close ``count`` brackets; how many of them closed nothing."""
        closer = _CLOSER.get(mark)
        same = bool(self._runs) and self._runs[-1][0] == (closer or mark)
        held = self._runs.pop()[1] if same else 0
        left = held + count if closer else held - count
        if left > 0:
            self._runs.append((closer or mark, left))
        return max(0, -left)
