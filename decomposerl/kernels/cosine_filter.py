"""Near neighbours by cosine: keep-first duplicates and the best match across two sets.

Takes unit vectors (float32, one a row), gives ``Matches``. Blockwise: single-precision
products propose pairs, a double-precision cosine summed in one fixed order decides each, so
neither a decision nor the matched row depends on the linear-algebra library. Memory is a
copy of the kept rows and one block of products.

Left out deliberately: approximate indexes (at this size exact is as fast) and devices.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.kernels.matches import Matches

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

BLOCK = 512
CHUNK = 8_192
RECHECKED = 4_096
SINGLE_ROUNDING = 2.0**-23
WRONG_LENGTH, ROUNDED_LENGTH = 1e-2, 1e-5


def unit_rows(vectors: Vectors, rows: int) -> Vectors:
    """``vectors`` as contiguous float32, shape (rows, d), after checking what an engine gave.

    A row whose length is off by rounding (up to 1e-2) is scaled to 1.

    Raises:
        EngineError: wrong number of rows, a value that is no finite number, or a row whose
            length is further from 1.
    """
    checked = np.ascontiguousarray(vectors, dtype=np.float32)
    if checked.ndim != 2 or len(checked) != rows:  # noqa: PLR2004 - rows and dimensions
        raise EngineError(
            f"embedder: expected {rows} vectors, got an array of shape {checked.shape}"
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", checked, checked, dtype=np.float64))
    wrong = ~(np.abs(lengths - 1) <= WRONG_LENGTH)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise EngineError(f"embedder: vector {first} has length {lengths[first]:.4g}, expected 1")
    off = np.abs(lengths - 1) > ROUNDED_LENGTH
    if off.any():
        checked = checked.copy()
        checked[off] = (checked[off] / lengths[off, None]).astype(np.float32)
    return checked


def keep_first_cosine(vectors: Vectors, threshold: float) -> Matches:
    """Greedy duplicates in input order: a row is removed iff an earlier KEPT row is near.

    ``vectors`` is (n, d) with unit rows; near means cosine >= ``threshold`` (0..1]; a
    removed row removes nobody. A removed row is matched to the kept row with the highest
    cosine, ties to the lowest index (paper, "Deduplication and Decontamination").
    """
    found = Matches.none(len(vectors))
    kept_rows = np.empty(len(vectors), np.int64)
    kept_vectors = np.empty_like(vectors)
    kept = 0
    for start in range(0, len(vectors), BLOCK):
        block = slice(start, min(start + BLOCK, len(vectors)))
        _match_block(found, vectors, block, (kept_rows[:kept], kept_vectors[:kept]), threshold)
        fresh = _keep_within(found, vectors, block, threshold)
        kept_rows[kept : kept + len(fresh)] = fresh
        kept_vectors[kept : kept + len(fresh)] = vectors[fresh]
        kept += len(fresh)
    return found


def best_cross_cosine(left: Vectors, right: Vectors, threshold: float) -> Matches:
    """Per left row the right row with the highest cosine >= ``threshold`` (0..1].

    Both are (n, d) with unit rows; ``matched`` indexes ``right``, ties go to the lowest.
    """
    found = Matches.none(len(left))
    everyone = np.arange(len(right))
    for start in range(0, len(left), BLOCK):
        block = slice(start, min(start + BLOCK, len(left)))
        _match_block(found, left, block, (everyone, right), threshold)
    return found


def exact_cosines(left: Vectors, right: Vectors) -> NDArray[np.float64]:
    """Cosine of each pair of rows in double precision, shape (n,).

    Products of single-precision numbers are exact in double precision and are summed from
    the first dimension to the last, so every machine gives the same bits. Rounded to 12
    decimals: equal rows have cosine 1.
    """
    found = np.empty(len(left), np.float64)
    for start in range(0, len(left), RECHECKED):
        rows = slice(start, start + RECHECKED)
        a, b = left[rows].astype(np.float64), right[rows].astype(np.float64)
        found[rows] = _ordered_sum(a * b) / np.sqrt(_ordered_sum(a * a) * _ordered_sum(b * b))
    return np.round(found, 12)


def _ordered_sum(products: NDArray[np.float64]) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = np.cumsum(products, axis=1)[:, -1]
    return sums


def _slack(vectors: Vectors) -> float:
    """How far a single-precision product of unit rows may lie from their cosine."""
    dimensions = int(vectors.shape[1])
    return 4 * ROUNDED_LENGTH + dimensions * SINGLE_ROUNDING


def _match_block(
    found: Matches,
    vectors: Vectors,
    block: slice,
    others: tuple[Rows, Vectors],
    threshold: float,
) -> None:
    """Record the best match of each row of ``block`` among ``others`` (ascending rows)."""
    rows, other_vectors = others
    slack = _slack(vectors)
    for first in range(0, len(rows), CHUNK):
        chunk = other_vectors[first : first + CHUNK]
        products = vectors[block] @ chunk.T
        best = products.max(axis=1)
        hits = np.flatnonzero(best >= threshold - slack)
        # Whatever lies further below the row's best product cannot be its best cosine.
        bound = np.maximum(best[hits] - 2 * slack, threshold - slack)
        left, right = np.nonzero(products[hits] >= bound[:, None])
        left = block.start + hits[left]
        cosines = exact_cosines(vectors[left], chunk[right])
        near = cosines >= threshold
        _record(found, left[near], rows[first + right[near]], cosines[near])


def _record(found: Matches, left: Rows, right: Rows, cosines: NDArray[np.float64]) -> None:
    """Keep the best of these pairs per left row; an earlier equal match stands."""
    order = np.lexsort((right, -cosines, left))
    rows, firsts = np.unique(left[order], return_index=True)
    best = order[firsts]
    better = cosines[best] > found.similarity[rows]
    found.matched[rows[better]] = right[best[better]]
    found.similarity[rows[better]] = cosines[best[better]]


def _keep_within(found: Matches, vectors: Vectors, block: slice, threshold: float) -> Rows:
    """Run the greedy inside one block; gives its kept rows."""
    undecided = block.start + np.flatnonzero(found.matched[block] < 0)
    products = vectors[undecided] @ vectors[block].T
    bound = threshold - _slack(vectors)
    fresh: list[int] = []
    for row, row_products in zip(undecided.tolist(), products, strict=True):
        if found.matched[row] >= 0:
            continue
        fresh.append(row)
        offset = row + 1 - block.start
        later = row + 1 + np.flatnonzero(row_products[offset:] >= bound)
        if later.size:
            cosines = exact_cosines(
                np.broadcast_to(vectors[row], vectors[later].shape), vectors[later]
            )
            near = cosines >= threshold
            same = np.full(int(near.sum()), row)
            _record(found, later[near], same, cosines[near])
    return np.array(fresh, dtype=np.int64)
