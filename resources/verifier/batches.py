"""Batches of token ids of similar length, with little padding.

The longest rows come first: what does not fit into memory fails at the start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows: their indices in the whole, and their token ids."""

    rows: list[int]
    ids: list[list[int]]

    def padded(self, filler: int) -> NDArray[np.int64]:
        """Token ids, shape (rows, longest), padded on the right."""
        out = np.full((len(self.ids), self._longest), filler, dtype=np.int64)
        for row, ids in enumerate(self.ids):
            out[row, : len(ids)] = ids
        return out

    def mask(self) -> NDArray[np.int64]:
        """1 for a token and 0 for padding, shape (rows, longest)."""
        lengths = np.array([len(ids) for ids in self.ids])
        return (np.arange(self._longest) < lengths[:, None]).astype(np.int64)

    @property
    def _longest(self) -> int:
        return max(len(ids) for ids in self.ids)


def batches(rows: Sequence[list[int]], most_tokens: int) -> Iterator[Batch]:
    """Batches of at most ``most_tokens`` ids, padding included; a longer row has its own batch.

    The order of ``rows`` matters only for ties.
    """
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    start = 0
    while start < len(order):
        wide = max(most_tokens // max(len(rows[order[start]]), 1), 1)
        members = order[start : start + wide]
        yield Batch(members, [rows[row] for row in members])
        start += wide
