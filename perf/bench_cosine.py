"""Semantic duplicates and leaks next to faiss and to bare matrix products.

A product is timed on a part of the work and scaled to all of its operations: the time that the
machine would need if it only multiplied. Approximate indexes are not shown: they were slower
and wrong in 0.4 to 0.9 % of decisions at these sizes.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.cosine_filter import best_cross_cosine, keep_first_cosine
from decomposerl.kernels.engine_choice import Precision
from decomposerl.kernels.matches import Matches
from perf import peers
from perf.inputs import Vectors, clustered_vectors, holdout_vectors
from perf.machine import products, rates
from perf.sizes import Sizes
from perf.timing import Paired, Row, paired, quiet_and_busy

DUPLICATE, LEAK = 0.70, 0.90
BLOCK, WARM = 1_024, 2_000
FAISS_SHARE = 8


def semantic_rows(sizes: Sizes) -> Iterator[Row]:
    """Keep-first duplicates in a pool of the size that the paper's difficulty band keeps."""
    vectors = clustered_vectors(*sizes.semantic)
    reference = _blockwise(vectors)
    row = _against_product(vectors, reference)
    yield row
    if "f32" not in row.note:
        yield _against_product(vectors, reference, "f32")
    work = partial(keep_first_cosine, vectors, DUPLICATE)
    both = paired(work, partial(peers.faiss_removed, vectors, DUPLICATE), pairs=1)
    wrong = int((both.peer != both.ours.is_matched).sum())
    yield _faiss_row(vectors, both, f"{wrong} decisions differ")


def semantic_long_rows(sizes: Sizes) -> Iterator[Row]:
    """The same for more and shorter vectors."""
    vectors = clustered_vectors(*sizes.semantic_long)
    yield _against_product(vectors, _blockwise(vectors))
    work = partial(keep_first_cosine, vectors, DUPLICATE)
    queries = vectors[::FAISS_SHARE]
    peer = partial(peers.faiss_pairs, vectors, queries, DUPLICATE)
    both = paired(work, peer, scale=FAISS_SHARE, pairs=1)
    yield _faiss_row(vectors, both, f"peer: every {FAISS_SHARE}th query")


def sequential_rows(sizes: Sizes) -> Iterator[Row]:
    """Compare with the definition, row by row; no deviation is allowed."""
    vectors = clustered_vectors(*sizes.sequential)
    work = partial(keep_first_cosine, vectors, DUPLICATE)
    both = paired(work, partial(_row_by_row, vectors), pairs=1)
    wrong = int((both.ours.is_matched != both.peer).sum())
    yield both.row(
        f"semantic duplicates, {_shape(vectors)}",
        "the definition, row by row",
        note=f"{wrong} deviations",
    )


def semantic_leak_rows(sizes: Sizes) -> Iterator[Row]:
    """The semantic part of decontamination."""
    rows, tests = sizes.decontaminated
    left = clustered_vectors(rows, sizes.dimensions)
    right = holdout_vectors(left, tests)
    best_cross_cosine(left[:WARM], right[:WARM], LEAK)
    flop = 2.0 * rows * tests * sizes.dimensions
    kind = _peer_kind()
    product = products()[kind]
    bar = 0.7 if kind == "bf16" else 0.9
    work = partial(best_cross_cosine, left, right, LEAK)
    quiet, busy = quiet_and_busy(work, product.run, scale=flop / product.flop)
    name = f"semantic leaks, {_shape(left)}, {tests:,} tests"
    limit = flop / rates().best
    note = quiet.ours.engine or ""
    yield quiet.row(name, f"bare {kind} product", bar, limit_s=limit, note=note, busy=busy)
    both = paired(work, partial(peers.faiss_leaks, left, right, LEAK), pairs=1)
    wrong = int((both.peer != both.ours.is_matched).sum())
    yield both.row(
        f"{name} (2)",
        "faiss flat, nearest one",
        4.0 if _in_fewer_bits(both.ours.engine) else 0.9,
        limit_s=limit,
        note=f"{wrong} decisions differ",
    )


def _against_product(
    vectors: Vectors, reference: NDArray[np.bool_], precision: Precision = "auto"
) -> Row:
    """Ours against an f32 product of the needed operations; ``reference`` marks duplicates.

    Precision f32 is the path of machines without hardware support for fewer bits.
    """
    keep_first_cosine(vectors[:WARM], DUPLICATE, precision=precision)
    work = partial(keep_first_cosine, vectors, DUPLICATE, precision=precision)
    product = products()["f32"]
    flop = float(len(vectors)) * float((~reference).sum()) * vectors.shape[1]
    quiet, busy = quiet_and_busy(work, product.run, scale=flop / product.flop)
    ours = quiet.ours
    wrong = int((ours.is_matched != reference).sum())
    return quiet.row(
        f"semantic duplicates, {_shape(vectors)}{'' if precision == 'auto' else ', in f32'}",
        "bare f32 product",
        _bar(ours.engine),
        limit_s=flop / rates().best,
        note=f"{ours.engine}; {wrong} deviations",
        busy=busy,
    )


def _peer_kind() -> str:
    """bf16 if the machine multiplies it faster than f32, else f32."""
    by_kind = rates().products
    return "bf16" if by_kind.get("bf16", 0.0) > by_kind["f32"] else "f32"


def _in_fewer_bits(engine: str | None) -> bool:
    return any(kind in (engine or "") for kind in ("bf16", "int8"))


def _bar(engine: str | None) -> float:
    """A filter in half or quarter precision must be faster than full precision can be."""
    return 2.5 if _in_fewer_bits(engine) else 0.9


def _faiss_row(vectors: Vectors, both: Paired[Matches, Any], note: str) -> Row:
    """Compare with faiss, which multiplies every pair instead of each row with kept rows."""
    engine, kept = both.ours.engine, int((~both.ours.is_matched).sum())
    bar = 8.0 if _in_fewer_bits(engine) else _bar(engine) * 2 * len(vectors) / kept
    return both.row(
        f"semantic duplicates, {_shape(vectors)} (2)",
        "faiss range search and greedy",
        bar,
        note=f"{engine}; {note}",
    )


def _shape(vectors: Vectors) -> str:
    return f"{len(vectors):,} x {vectors.shape[1]:,}"


def _row_by_row(vectors: Vectors) -> NDArray[np.bool_]:
    """The definition itself: a row is a duplicate iff an earlier kept row is near."""
    kept = np.empty_like(vectors)
    count = 0
    removed = np.zeros(len(vectors), np.bool_)
    for row, vector in enumerate(vectors):
        cosines = kept[:count] @ vector
        removed[row] = bool((cosines >= DUPLICATE).any())
        if not removed[row]:
            kept[count] = vector
            count += 1
    return removed


def _blockwise(vectors: Vectors) -> NDArray[np.bool_]:
    """The same decisions in blocks of single-precision products."""
    kept = np.empty_like(vectors)
    count = 0
    removed = np.zeros(len(vectors), np.bool_)
    for start in range(0, len(vectors), BLOCK):
        block = vectors[start : start + BLOCK]
        gone = np.zeros(len(block), np.bool_)
        for first in range(0, count, BLOCK * 8):
            gone |= (block @ kept[first : min(first + BLOCK * 8, count)].T).max(1) >= DUPLICATE
        inner = block @ block.T >= DUPLICATE
        for row in range(len(block)):
            gone[row] |= bool((inner[row, :row] & ~gone[:row]).any())
        removed[start : start + len(block)] = gone
        fresh = block[~gone]
        kept[count : count + len(fresh)] = fresh
        count += len(fresh)
    return removed
