"""The stretch of a long sequence that is nearest to a short one, by edit distance.

Takes two sequences of integers (words by number, or characters), gives the window of the
long one with the fewest insertions, deletions and replacements (Sellers' algorithm, a row of
the table at a time). Exact; m × n steps of compiled code for lengths m and n.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_COST = np.int64(1) << 32  # an edit outweighs any place: one minimum orders by both


def nearest_window(short: Sequence[int], long: Sequence[int]) -> tuple[int, int, int]:
    """``(start, end, distance)`` of the window of ``long`` nearest to ``short``.

    Ties go to the first end, then to the shortest window. Lengths are below 2**30.
    """
    text = np.asarray(long, dtype=np.int64)
    indices = np.arange(len(text) + 1, dtype=np.int64)
    # A cell holds cost and, below it, how far from the end of the text its window begins.
    row = len(text) - indices
    for word in short:
        row = _next_row(row, text, int(word), indices)
    end = int(np.argmin(row >> 32))
    return len(text) - int(row[end] & (_COST - 1)), end, int(row[end] >> 32)


def edit_distance(first: str, second: str) -> int:
    """Fewest single-character edits from one string to the other (Levenshtein)."""
    text = np.fromiter(map(ord, second), dtype=np.int64, count=len(second))
    indices = np.arange(len(text) + 1, dtype=np.int64)
    row = indices * _COST
    for letter in first:
        row = _next_row(row, text, ord(letter), indices)
    return int(row[-1] >> 32)


def _next_row(
    row: NDArray[np.int64], text: NDArray[np.int64], word: int, indices: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The table's next row: delete ``word``, match or replace it, or insert from the text."""
    best = row + _COST
    np.minimum(best[1:], row[:-1] + (text != word) * _COST, out=best[1:])
    # Insertions run along the row: taking each place's own cost off makes them one running minimum.
    drift = indices * _COST
    nearest: NDArray[np.int64] = np.minimum.accumulate(best - drift) + drift
    return nearest
