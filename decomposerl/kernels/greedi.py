"""Facility location of a cell too large for one greedy: rounds of greedy, and a certificate.

Randomised GreeDi (Mirzasoleiman et al. 2016; Barbosa et al. 2015): the rows are dealt at random to
parts, a greedy picks within each, and a second greedy picks among all that were picked, measured on
a sample of the rows, if a matrix of at least as many rows fits into memory. What is compared with
it: the parts' first picks, an equal share of each. The better of the two by f over all rows is S.

The certificate is proved, not estimated: f is submodular, so no k rows reach more than f(S) plus
the k largest gains over S (Leskovec et al. 2007). The rows of the largest gains are also those that
the parts missed: a last greedy picks among them and the earlier candidates, and its choice is the
answer where it is better. The bound on any choice holds for it, too.

With one part it is the greedy itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.cosine_parts import VectorBlocks, Vectors
from decomposerl.kernels.facility_location import (
    MATRIX_BYTES,
    Greedy,
    facility_location,
    lazy_greedy,
)
from decomposerl.kernels.threads import Team
from decomposerl.ports import Tasks

Rows = NDArray[np.int64]
Gains = NDArray[np.float64]

OVERSAMPLED = 4  # rows a part may pick for each that is its equal share
TILE, STRIPS_AT_A_TIME = 512, 16


class Certified(NamedTuple):
    """The greedy's result over all rows, and the least share of the optimum that it reaches.

    ``ratio`` is f(S) over the bound on any choice of as many rows, 0..1.
    """

    greedy: Greedy
    ratio: float


def greedi(
    blocks: VectorBlocks,
    k: int,
    parts: int,
    tasks: Tasks,
    *,
    seed: int = 42,
    matrix_bytes: int = MATRIX_BYTES,
) -> Certified:
    """``min(k, n)`` rows that represent all rows well, and how well by certificate.

    ``blocks`` are unit rows (at least one); a row's similarity to a pick counts as in
    ``facility_location``. A task holds the rows of one of ``parts``, or two blocks.
    """
    k = min(k, blocks.rows)
    dealt = np.random.default_rng(seed).permutation(blocks.rows)
    shares = [np.sort(share) for share in np.array_split(dealt, parts) if len(share)]
    wanted = min(k, -(-OVERSAMPLED * k // len(shares)))
    first = list(tasks.mapper.map(_Part(blocks, wanted, tasks.threads, matrix_bytes), shares))
    ranked = [share[greedy.picks] for share, greedy in zip(shares, first, strict=True)]
    rounds = _Rounds(blocks, k, tasks, dealt, matrix_bytes)
    best = rounds.valued(_interleaved(ranked)[:k], sum(greedy.evaluations for greedy in first))
    candidates = np.sort(np.concatenate(ranked))
    if len(shares) > 1:
        best = rounds.better(best, candidates)
    rest = _gains_over(blocks, np.asarray(best.cover, np.float32), tasks)
    rest[best.picks] = 0
    bound = best.gains.sum() + np.sort(rest)[len(rest) - k :].sum()
    best = best._replace(evaluations=best.evaluations + len(rest))
    if len(shares) > 1:
        missed = np.argsort(-rest, kind="stable")[: OVERSAMPLED * k]
        best = rounds.better(best, np.union1d(candidates, missed))
    ratio = float(best.gains.sum() / bound) if bound else 1.0
    return Certified(best, min(ratio, 1.0))


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The rounds after the first; ``dealt`` is the order in which rows are sampled."""

    blocks: VectorBlocks
    k: int
    tasks: Tasks
    dealt: Rows
    matrix_bytes: int

    def valued(self, picks: Rows, evaluations: int) -> Greedy:
        """These picks with their gains over all rows."""
        gains, cover = _valued(self.blocks, picks, self.tasks)
        return Greedy(picks, gains, evaluations, cover)

    def better(self, best: Greedy, candidates: Rows) -> Greedy:
        """The greedy among ascending candidates if it is better by f over all rows, else best."""
        fits = self.matrix_bytes // (len(candidates) * 4)
        if fits < min(len(candidates), self.blocks.rows):  # on fewer rows it would guess
            return best
        found = _among(self.blocks, candidates, np.sort(self.dealt[:fits]), self.k)
        evaluations = best.evaluations + found.evaluations
        other = self.valued(candidates[found.picks], evaluations)
        better = other.gains.sum() > best.gains.sum()
        return other if better else best._replace(evaluations=evaluations)


def _among(blocks: VectorBlocks, candidates: Rows, sample: Rows, k: int) -> Greedy:
    """The greedy among candidates that represents the sampled rows best; both ascend."""
    similarity = blocks.take(candidates) @ blocks.take(sample).T
    _, own, column = np.intersect1d(candidates, sample, True, return_indices=True)
    similarity[own, column] = 1  # as in ``coverage_gains``
    return lazy_greedy(similarity, k)


def _interleaved(ranked: Sequence[Rows]) -> Rows:
    """The first pick of every part, then the second of every part, and so on."""
    order = np.argsort(np.concatenate([np.arange(len(rows)) for rows in ranked]), kind="stable")
    return np.concatenate(ranked)[order]


@dataclass(frozen=True, slots=True)
class _Part:
    blocks: VectorBlocks
    k: int
    threads: int
    matrix_bytes: int

    def __call__(self, rows: Rows) -> Greedy:
        vectors = self.blocks.take(rows)
        return facility_location(
            vectors, self.k, threads=self.threads, matrix_bytes=self.matrix_bytes
        )


def _valued(blocks: VectorBlocks, picks: Rows, tasks: Tasks) -> tuple[Gains, Vectors]:
    """What each pick adds to f over all rows, in order of choice, and the cover."""
    tiles = (blocks.take(picks[start : start + TILE]) for start in range(0, len(picks), TILE))
    chosen = VectorBlocks.write(tasks.arrays, "picks", tiles)
    found = list(tasks.mapper.map(_Cover(blocks, chosen, picks), range(len(blocks))))
    chosen.remove()
    # In the order of the blocks, so that the sums have the same bits for any workers.
    return np.sum([gains for gains, _ in found], axis=0), np.concatenate([c for _, c in found])


@dataclass(frozen=True, slots=True)
class _Cover:
    blocks: VectorBlocks
    chosen: VectorBlocks
    picks: Rows

    def __call__(self, number: int) -> tuple[Gains, Vectors]:
        """The picks' gains over one block, and its cover."""
        from decomposerl.kernels.facility_loops import replay

        vectors, first = self.blocks.read(number), self.blocks.firsts[number]
        cover, gains = np.zeros(len(vectors), np.float32), np.zeros(len(self.picks))
        for tile, start in enumerate(self.chosen.firsts[:-1]):
            stop = self.chosen.firsts[tile + 1]
            products = self.chosen.read(tile) @ vectors.T
            _set_own(products, self.picks[start:stop], first)
            replay(products, cover, gains[start:stop])
        return gains, cover


def _set_own(products: Vectors, rows: Rows, first: int) -> None:
    """Exactly 1 where a row meets itself; the columns are the rows from ``first`` on."""
    own = np.flatnonzero((rows >= first) & (rows < first + products.shape[1]))
    products[own, rows[own] - first] = 1


def _gains_over(blocks: VectorBlocks, cover: Vectors, tasks: Tasks) -> Gains:
    """What each row would add to f now, shape (n,); every product is computed once."""
    tasks.arrays.write("cover", {"cover": cover})
    pairs = list(combinations_with_replacement(range(len(blocks)), 2))
    gains, firsts = np.zeros(blocks.rows), blocks.firsts
    found = tasks.mapper.map(_GainsOver(blocks, tasks.threads), pairs)
    for (one, other), (of_one, of_other) in zip(pairs, found, strict=True):
        gains[firsts[one] : firsts[one + 1]] += of_one
        if other > one:
            gains[firsts[other] : firsts[other + 1]] += of_other
    tasks.arrays.remove("cover")
    return gains


@dataclass(frozen=True, slots=True)
class _GainsOver:
    blocks: VectorBlocks
    threads: int

    def __call__(self, pair: tuple[int, int]) -> tuple[Gains, Gains]:
        """The gains of one block's rows over the other's cover, and the other way round."""
        cover = np.array(self.blocks.arrays.read("cover")["cover"])
        sides = [
            (self.blocks.read(number), cover[self.blocks.firsts[number] :][: self._size(number)])
            for number in pair
        ]
        gains = [np.zeros(len(vectors)) for vectors, _ in sides]
        starts = range(0, len(gains[0]), TILE)
        with Team(self.threads) as team:
            for group in range(0, len(starts), STRIPS_AT_A_TIME):
                some = starts[group : group + STRIPS_AT_A_TIME]
                same = pair[0] == pair[1]
                done = team.run(partial(_strip, sides, start, same=same) for start in some)
                for start, (mine, theirs) in zip(some, done, strict=True):
                    gains[0][start : start + TILE] += mine
                    gains[1] += theirs
        return gains[0], gains[1]

    def _size(self, number: int) -> int:
        return self.blocks.firsts[number + 1] - self.blocks.firsts[number]


def _strip(
    sides: Sequence[tuple[Vectors, Vectors]], start: int, *, same: bool
) -> tuple[Gains, Gains]:
    """The gains of some rows of one side over all of the other, and the other way round."""
    from decomposerl.kernels.facility_loops import add_gains

    one, other = sides
    rows, covered = (array[start : start + TILE] for array in one)
    mine, theirs = np.zeros(len(rows)), np.zeros(len(other[0]))
    for first in range(0, len(theirs), TILE):
        columns = slice(first, first + TILE)
        products = rows @ other[0][columns].T
        if same:
            _set_own(products, np.arange(start, start + len(rows)), first)
        add_gains(products, (covered, other[1][columns]), mine, theirs[columns])
    return mine, theirs
