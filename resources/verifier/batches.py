"""Rows of token ids as rectangles with little padding.

Takes the token ids of many questions, gives batches of like length that together hold
each row once, longest rows first: what does not fit the memory fails at the start.

Left out deliberately: torch; a batch is a plain array until a model reads it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows: where they stood in the whole, and their token ids."""

    rows: list[int]
    ids: list[list[int]]

    def padded(self, filler: int) -> NDArray[np.int64]:
        """Token ids, shape (rows, longest), filled at the right."""
        out = np.full((len(self.ids), self._longest), filler, dtype=np.int64)
        for row, ids in enumerate(self.ids):
            out[row, : len(ids)] = ids
        return out

    def mask(self) -> NDArray[np.int64]:
        """1 where a token stands and 0 where padding does, shape (rows, longest)."""
        lengths = np.array([len(ids) for ids in self.ids])
        return (np.arange(self._longest) < lengths[:, None]).astype(np.int64)

    @property
    def _longest(self) -> int:
        return max(len(ids) for ids in self.ids)


def batches(rows: Sequence[list[int]], most_tokens: int) -> Iterator[Batch]:
    """Batches of at most ``most_tokens`` numbers, padding included; a longer row stands alone.

    The order of ``rows`` decides nothing but ties.
    """
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    start = 0
    while start < len(order):
        wide = max(most_tokens // max(len(rows[order[start]]), 1), 1)
        members = order[start : start + wide]
        yield Batch(members, [rows[row] for row in members])
        start += wide
