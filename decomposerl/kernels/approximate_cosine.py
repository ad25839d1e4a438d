"""Approximate keep-first duplicates by cosine, for pools whose exact search would take weeks.

Only by an explicit setting. faiss keeps the kept rows in an inverted file: each row is compared
with those of the ``probes`` lists nearest to it, in 8 bits a number, and the best ones exactly.
Within a block the search is exact. So a removed row always has a kept row near it, and some
duplicates stay. How many is measured: a sample of rows is compared with every row that was kept
before them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.extras import require
from decomposerl.kernels.cosine_filter import best_cross_cosine, keep_first_cosine
from decomposerl.kernels.cosine_parts import VectorBlocks, Vectors, improve
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Tasks

Rows = NDArray[np.int64]

NEAREST = 8  # rows of the index that are compared exactly with each row
ROWS_A_LIST_TO_TRAIN = 64
MOST_LISTS = 65_536


@dataclass(frozen=True, slots=True)
class Recall:
    """Of ``duplicates`` sampled rows with a kept row near before them, ``found`` were removed.

    ``low`` and ``high`` are Wilson's 95 percent interval of the share; 0 and 1 without duplicates.
    """

    found: int
    duplicates: int
    sampled: int
    low: float
    high: float

    @classmethod
    def of(cls, found: int, duplicates: int, sampled: int) -> "Recall":
        """With the interval."""
        if not duplicates:
            return cls(found, duplicates, sampled, 0.0, 1.0)
        from scipy.stats import binomtest

        interval = binomtest(found, duplicates).proportion_ci(0.95, "wilson")
        return cls(found, duplicates, sampled, float(interval.low), float(interval.high))

    def __str__(self) -> str:
        """The share, its interval and what it was measured on."""
        if not self.duplicates:
            return f"not known: no duplicates among {self.sampled:,} sampled rows"
        return (
            f"{self.found / self.duplicates:.4f} (95 % interval {self.low:.4f} to {self.high:.4f}; "
            f"{self.duplicates:,} duplicates among {self.sampled:,} sampled rows)"
        )


def keep_first_approximate(
    blocks: VectorBlocks,
    threshold: float,
    tasks: Tasks,
    *,
    probes: int = 32,
    sample: int = 2_000,
    seed: int = 42,
    device: str = "cpu",
) -> tuple[Matches, Recall]:
    """``keep_first_cosine`` that may keep duplicates, and its recall on ``sample`` rows.

    Similarities are exact. The index has a byte per number of each kept row, in this process.

    Raises:
        EngineMissing: faiss is not installed.
    """
    require("faiss")
    index = _trained(blocks, seed, probes)
    matches = Matches.none(blocks.rows, engine_name(index, probes))
    for number, first in enumerate(blocks.firsts[:-1]):
        here = slice(first, blocks.firsts[number + 1])
        vectors = blocks.read(number)
        given = _near_in(index, blocks, vectors, threshold)
        within = keep_first_cosine(
            vectors, threshold, device=device, threads=tasks.threads, given=given
        )
        within.matched[within.similarity > given.similarity] += first
        improve(given, within)
        matches.matched[here], matches.similarity[here] = given.matched, given.similarity
        fresh = np.flatnonzero(given.matched < 0)
        index.add_with_ids(vectors[fresh], first + fresh)
    return matches, _recall(blocks, matches, threshold, tasks, sample, seed, device)


def engine_name(index: Any, probes: int) -> str:  # noqa: ANN401 - faiss has no types
    """What ``Matches.engine`` says."""
    return f"approximate cosine (faiss, {probes} of {index.nlist} lists)"


def _trained(blocks: VectorBlocks, seed: int, probes: int) -> Any:  # noqa: ANN401 - the same
    """An empty index whose lists are the clusters of a sample of the rows."""
    import faiss

    lists = int(np.clip(4 * blocks.rows**0.5, 1, MOST_LISTS))
    lists = min(lists, max(blocks.rows // ROWS_A_LIST_TO_TRAIN, 1))
    generator = np.random.default_rng(seed)
    trained = min(lists * ROWS_A_LIST_TO_TRAIN, blocks.rows)
    rows = np.sort(generator.choice(blocks.rows, trained, replace=False))
    vectors = blocks.take(rows)
    kind = f"IVF{lists},SQ8"
    index: Any = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed, index.nprobe = seed, probes
    index.train(vectors)
    return index


def _near_in(index: Any, blocks: VectorBlocks, vectors: Vectors, threshold: float) -> Matches:  # noqa: ANN401 - the same
    """Per row the nearest that the index returns, by exact cosine; ties to the first."""
    from decomposerl.kernels.cosine_loops import pair_cosines, squared_lengths

    matches = Matches.none(len(vectors))
    if not index.ntotal:
        return matches
    _, near = index.search(vectors, NEAREST)
    rows, columns = np.nonzero(near >= 0)
    others, number = np.unique(near[rows, columns], return_inverse=True)
    sides = [(side, squared_lengths(side)) for side in (vectors, blocks.take(others))]
    cosines = pair_cosines(sides[0], rows, sides[1], number)
    near_rows = np.flatnonzero(cosines >= threshold)
    order = near_rows[np.lexsort((number[near_rows], -cosines[near_rows], rows[near_rows]))]
    some, firsts = np.unique(rows[order], return_index=True)
    matches.matched[some] = others[number[order[firsts]]]
    matches.similarity[some] = cosines[order[firsts]]
    return matches


def _recall(
    blocks: VectorBlocks,
    matches: Matches,
    threshold: float,
    tasks: Tasks,
    sample: int,
    seed: int,
    device: str,
) -> Recall:
    """Compare sampled rows with all rows kept before them; one task per block of kept rows."""
    rows = np.sort(
        np.random.default_rng(seed).choice(blocks.rows, min(sample, blocks.rows), replace=False)
    )
    removed = matches.matched[rows] >= 0
    near = removed.copy()
    task = _KeptBefore(blocks, rows, matches.matched < 0, threshold, device, tasks.threads)
    for later, found in tasks.mapper.map(task, range(len(blocks))):
        near[later:] |= found
    return Recall.of(int(removed.sum()), int(near.sum()), len(rows))


@dataclass(frozen=True, slots=True)
class _KeptBefore:
    blocks: VectorBlocks
    rows: Rows
    kept: NDArray[np.bool_]
    threshold: float
    device: str
    threads: int

    def __call__(self, number: int) -> tuple[int, NDArray[np.bool_]]:
        """The first sampled row after a block, and which from it on have a match in the block."""
        # Within a block the search is exact: there a duplicate is never missed.
        first, stop = self.blocks.firsts[number : number + 2]
        later = int(np.searchsorted(self.rows, stop))
        kept = first + np.flatnonzero(self.kept[first:stop])
        near = best_cross_cosine(
            self.blocks.take(self.rows[later:]),
            self.blocks.take(kept),
            self.threshold,
            device=self.device,
            threads=self.threads,
        )
        return later, near.is_matched
