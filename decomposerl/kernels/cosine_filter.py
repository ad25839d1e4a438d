"""Near neighbours by cosine: keep-first duplicates, best matches across two sets, all pairs.

The searches are exact: products in low precision rule pairs out by a proved bound
(``products``), cosines in double precision decide about the rest. No result depends on the
precision, the linear-algebra library, the device or the number of threads. Memory beside the
vectors is their low-precision copy and a few tiles.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.kernels.cosine_blocks import Side, all_pairs, best_across, keep_first
from decomposerl.kernels.engine_choice import Precision, candidate_engines, choose_engine
from decomposerl.kernels.matches import Matches, Pairs
from decomposerl.kernels.threads import Team

Vectors = NDArray[np.float32]

WRONG_LENGTH, ROUNDED_LENGTH = 1e-2, 1e-5
MOST_PAIRS = 10_000_000
COSINE = "cosine"  # the engine name: which products ruled pairs out may vary from run to run


def unit_rows(vectors: Vectors, rows: int) -> Vectors:
    """The vectors of an engine as contiguous float32, shape (rows, d), checked.

    A row whose length is off by rounding (up to 1e-2) is scaled to 1.

    Raises:
        EngineError: wrong number of rows, a value that is not finite, or a row whose length
            is further from 1.
    """
    from decomposerl.kernels.cosine_loops import squared_lengths

    checked = np.ascontiguousarray(vectors, dtype=np.float32)
    if checked.ndim != 2 or len(checked) != rows:  # noqa: PLR2004 - rows and dimensions
        raise EngineError(
            f"embedder: expected {rows} vectors, got an array of shape {checked.shape}"
        )
    lengths = np.sqrt(squared_lengths(checked))
    wrong = ~(np.abs(lengths - 1) <= WRONG_LENGTH)  # true for NaN as well
    if wrong.any():
        first = int(np.argmax(wrong))
        raise EngineError(f"embedder: vector {first} has length {lengths[first]:.4g}, expected 1")
    off = np.abs(lengths - 1) > ROUNDED_LENGTH
    if off.any():
        checked = checked.copy()
        checked[off] = (checked[off] / lengths[off, None]).astype(np.float32)
    return checked


def keep_first_cosine(
    vectors: Vectors,
    threshold: float,
    *,
    precision: Precision = "auto",
    device: str = "cpu",
    threads: int = 0,
    given: Matches | None = None,
) -> Matches:
    """Greedy duplicates in input order: a row is removed iff an earlier KEPT row is near.

    ``vectors`` is (n, d) with unit rows; near means cosine >= ``threshold`` (0..1]; a
    removed row removes no other. A removed row is matched to the kept row with the highest
    cosine, ties to the lowest index (paper, "Deduplication and Decontamination").
    ``precision`` and ``device`` change how pairs are ruled out, never the result.

    ``given`` are matches with rows before these: such a row is removed already, and stays
    matched as given unless a row kept here is nearer (its similarity is then above the given).
    """
    candidates = candidate_engines(precision, device, vectors, vectors)
    if not len(vectors):
        return Matches.none(0, f"cosine_{candidates[0].name}")
    with Team(threads) as team:
        engine = choose_engine(candidates, vectors, vectors, threshold, team)
        return keep_first(Side.of(vectors, engine, team), threshold, engine, team, given)


def best_cross_cosine(
    left: Vectors,
    right: Vectors,
    threshold: float,
    *,
    precision: Precision = "auto",
    device: str = "cpu",
    threads: int = 0,
) -> Matches:
    """Per left row the right row with the highest cosine >= ``threshold`` (0..1].

    Both are (n, d) with unit rows; ``matched`` indexes ``right``, ties go to the lowest.
    """
    candidates = candidate_engines(precision, device, left, right)
    if not len(left) or not len(right):
        return Matches.none(len(left), f"cosine_{candidates[0].name}")
    with Team(threads) as team:
        engine = choose_engine(candidates, left, right, threshold, team)
        return best_across(Side.of(left, engine, team), right, threshold, engine, team)


def cosine_pairs(
    vectors: Vectors,
    floor: float,
    *,
    precision: Precision = "auto",
    device: str = "cpu",
    threads: int = 0,
    most: int = MOST_PAIRS,
) -> Pairs:
    """Every pair of rows with cosine >= ``floor`` (0..1], each once.

    Raises:
        ConfigError: there are more than ``most`` pairs (24 bytes each).
    """
    candidates = candidate_engines(precision, device, vectors, vectors)
    if not len(vectors):
        return Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), COSINE)
    with Team(threads) as team:
        engine = choose_engine(candidates, vectors, vectors, floor, team)
        side = Side.of(vectors, engine, team)
        return Pairs(*all_pairs(side, floor, engine, team, most), COSINE)
