"""Cosine searches as tasks over blocks of stored vectors, for more rows than memory holds.

A wave per block: one task compares the block with the kept rows of each earlier block, then the
greedy runs within the block. So two blocks are in a task's memory, rows that were removed are
compared with nothing later, and the number of near pairs does not matter. Products, bounds and
exact cosines are those of ``cosine_filter``, on a device too, and so are the results, for any
blocks and workers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.cosine_filter import COSINE, best_cross_cosine, keep_first_cosine
from decomposerl.kernels.matches import Matches
from decomposerl.ports import ArrayStore, Tasks

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class VectorBlocks:
    """Unit rows in blocks of an ``ArrayStore``; block b has the rows from ``firsts[b]`` on."""

    arrays: ArrayStore
    name: str
    firsts: tuple[int, ...]

    @classmethod
    def write(cls, arrays: ArrayStore, name: str, blocks: Iterable[Vectors]) -> "VectorBlocks":
        """Store blocks as they come; one at a time is in memory."""
        firsts = [0]
        for number, vectors in enumerate(blocks):
            arrays.write(f"{name}-{number}", {"vectors": vectors})
            firsts.append(firsts[-1] + len(vectors))
        return cls(arrays, name, tuple(firsts))

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.firsts) - 1

    @property
    def rows(self) -> int:
        """Number of rows of all blocks."""
        return self.firsts[-1]

    def read(self, number: int) -> Vectors:
        """One block, shape (rows, d)."""
        # A copy: for read-only arrays every loop would be compiled a second time.
        return np.array(self._stored(number))

    def take(self, rows: Rows) -> Vectors:
        """Some rows of all blocks, copied, in the order of ``rows``."""
        number = np.searchsorted(self.firsts, rows, side="right") - 1
        taken = np.empty((len(rows), self._stored(0).shape[1]), np.float32)
        for block in np.unique(number).tolist():
            here = number == block
            taken[here] = self._stored(block)[rows[here] - self.firsts[block]]
        return taken

    def remove(self) -> None:
        """Forget all blocks."""
        for number in range(len(self)):
            self.arrays.remove(f"{self.name}-{number}")

    def _stored(self, number: int) -> Vectors:
        return self.arrays.read(f"{self.name}-{number}")["vectors"]


def keep_first_in_blocks(
    blocks: VectorBlocks, threshold: float, tasks: Tasks, *, device: str = "cpu"
) -> Matches:
    """``keep_first_cosine`` over the rows of all blocks."""
    matches, run = Matches.none(blocks.rows, COSINE), tasks.mapper.map
    against = _Against(blocks, threshold, device)
    for number, first in enumerate(blocks.firsts[:-1]):
        here = slice(first, blocks.firsts[number + 1])
        given = Matches(matches.matched[here], matches.similarity[here])
        earlier = ((number, block, _kept(matches, blocks, block)) for block in range(number))
        for near in run(against, earlier):
            improve(given, near)
        vectors = blocks.read(number)
        within = keep_first_cosine(vectors, threshold, device=device, given=given)
        nearer = within.similarity > given.similarity
        within.matched[nearer] += first
        improve(given, within)
    return matches


def best_cross_in_blocks(
    left: Iterable[Vectors],
    right: VectorBlocks,
    threshold: float,
    tasks: Tasks,
    *,
    device: str = "cpu",
) -> Matches:
    """``best_cross_cosine`` of all left blocks, one after the other, with all rows of ``right``.

    A left block is not stored: a task gets it, and goes through the right blocks.
    """
    across = _Across(right, threshold, device)
    found = [Matches.none(0), *tasks.mapper.map(across, left)]
    matched, similarity = ([getattr(one, f) for one in found] for f in ("matched", "similarity"))
    return Matches(np.concatenate(matched), np.concatenate(similarity), COSINE)


def improve(matches: Matches, others: Matches) -> None:
    """Take the nearer matches of ``others``, in place; of equal ones the first stays."""
    nearer = others.similarity > matches.similarity
    matches.matched[nearer] = others.matched[nearer]
    matches.similarity[nearer] = others.similarity[nearer]


def _kept(matches: Matches, blocks: VectorBlocks, block: int) -> Rows:
    """The rows of a block that are kept, counted from the block's first."""
    here = slice(blocks.firsts[block], blocks.firsts[block + 1])
    return np.flatnonzero(matches.matched[here] < 0)


@dataclass(frozen=True, slots=True)
class _Against:
    """Compare a block with some rows of an earlier one; matches are row numbers of all blocks."""

    blocks: VectorBlocks
    threshold: float
    device: str

    def __call__(self, batch: tuple[int, int, Rows]) -> Matches:
        number, earlier, kept = batch
        left = self.blocks.read(number)
        right = self.blocks.take(self.blocks.firsts[earlier] + kept)
        near = best_cross_cosine(left, right, self.threshold, device=self.device)
        some = near.is_matched
        near.matched[some] = self.blocks.firsts[earlier] + kept[near.matched[some]]
        return near


@dataclass(frozen=True, slots=True)
class _Across:
    right: VectorBlocks
    threshold: float
    device: str

    def __call__(self, left: Vectors) -> Matches:
        best = Matches.none(len(left))
        for number, first in enumerate(self.right.firsts[:-1]):
            others = self.right.read(number)
            near = best_cross_cosine(left, others, self.threshold, device=self.device)
            near.matched[near.is_matched] += first
            improve(best, near)
        return best
