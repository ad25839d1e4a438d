"""Where an answer quotes: the spans between quotation marks.

Takes a text, gives the offsets of what stands inside each quotation. Straight single marks
count only where they cannot be apostrophes: outside a word on both sides.
"""

import re
from bisect import bisect_left

LONGEST_QUOTATION = 2_000
"""Characters. Marks further apart than this are a stray pair."""

# A mark that can open, by what closes it. A straight mark opens before a letter and not after
# one (5" is inches, dogs' is a genitive), and closes the other way round.
# The shortened words that begin with a mark ('tis, '90s) open nothing.
_OPENING = re.compile(
    r"(?<!\w)(?:\"|'(?!(?:\d\ds?|tis|twas|em|til|cause|n)\b))(?=\S)|[“„«‘]", re.IGNORECASE
)
_CLOSING = {
    '"': re.compile(r'(?<=\S)"(?!\w)'),
    "'": re.compile(r"(?<=\S)'(?!\w)"),
    "“": re.compile("[”“]"),
    "„": re.compile("[“”]"),
    "«": re.compile("»"),
    "‘": re.compile(r"’(?!\w)"),
}


def quotations(text: str) -> list[tuple[int, int]]:
    """Offsets ``(start, end)`` of each quotation's inside, trimmed, in order.

    They do not overlap, and each holds a letter or a digit. Linear in the text, up to a
    logarithm; never raises.
    """
    if _OPENING.search(text) is None:
        return []
    closing = {mark: [m.start() for m in form.finditer(text)] for mark, form in _CLOSING.items()}
    found: list[tuple[int, int]] = []
    index = 0
    while opening := _OPENING.search(text, index):
        ends = closing[opening[0]]
        nearest = bisect_left(ends, opening.end())
        index = opening.end()
        if nearest < len(ends) and ends[nearest] - index <= LONGEST_QUOTATION:
            inside = text[index : ends[nearest]]
            start = index + len(inside) - len(inside.lstrip())
            if any(map(str.isalnum, inside)):
                found.append((start, start + len(inside.strip())))
            index = ends[nearest] + 1
    return found
