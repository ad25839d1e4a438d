"""Products of unit rows in low precision, each with a bound on how far it is off.

Takes vectors (float32, one a row) and their squared lengths, gives for two slices of rows
every pair whose cosine may reach a threshold. With xh, yh the rounded unit rows x, y and
rx, ry the measured lengths of x - xh, y - yh (Cauchy and Schwarz):

    |<x, y> - <xh, yh>| <= rx + ry + rx ry

and the product itself adds its own rounding (``error``). A pair that is not given is
certainly below the threshold; who asked decides the others exactly. So speed depends on
the precision and the machine, decisions never.

``fastest`` times a trial: no list of processors could say which precision is fastest here.
``is_sound`` tries the bound on hostile rows: some processors saturate whole-number sums.

Left out deliberately: the engines that need torch (``torch_products``).
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Hits = tuple[NDArray[np.int32], NDArray[np.int32], Doubles]
Picked = slice | NDArray[np.int64]
Codes = Any  # an array, or a tensor on a device

SINGLE = 2.0**-24  # half the distance of neighbouring numbers, relative
GUARD = 4e-6  # the scan's own single-precision arithmetic, and the 12 decimals of a cosine
ROUNDS = 3
HOSTILE_ROWS = 256


@dataclass(frozen=True, slots=True)
class Encoded:
    """Unit rows as a product takes them: about ``scales`` times ``codes``, row by row.

    ``residuals`` are the measured lengths of what the rounding lost, shape (n,).
    """

    codes: Codes
    scales: Floats
    residuals: Floats

    def take(self, rows: Picked) -> "Encoded":
        """Some rows: a slice is a view, an index array a copy."""
        if isinstance(rows, slice) or not isinstance(self.codes, np.ndarray):
            codes = self.codes[rows]
        else:
            codes = self.codes.take(rows, axis=0, mode="clip")
        return Encoded(codes, self.scales[rows], self.residuals[rows])


class Products:
    """Single precision by NumPy: the engine that every machine has.

    ``block`` x ``tile`` rows is the product that suits one core. An engine is used by many
    threads at once; each has its own working space.
    """

    name = "f32"
    block, tile = 1_024, 512

    def __init__(self) -> None:
        """Working space is made by the first product of each thread."""
        self._space = threading.local()

    def room(self, vectors: Floats) -> Encoded:
        """Room for as many encoded rows; ``encode`` fills it slice by slice."""
        rows = len(vectors)
        return Encoded(self._codes(vectors), np.empty(rows, np.float32), np.empty(rows, np.float32))

    def encode(self, vectors: Floats, squares: Doubles, into: Encoded) -> None:
        """Fill ``into``, a view of as much room, with these rows."""
        del vectors  # they stand in the room already
        into.scales[:] = 1 / np.sqrt(squares)
        into.residuals[:] = 0

    def error(self, dimensions: int) -> float:
        """How far the product of two encoded rows may be off, whatever the order of sums."""
        return 1.01 * dimensions * SINGLE

    def multiply(self, left: Codes, right: Codes) -> NDArray[Any]:
        """Products of all pairs of codes; overwritten by the thread's next product."""
        out = self.space("products", (len(left), len(right)), np.float32)
        return np.matmul(left, right.T, out=out)

    def near(self, left: Encoded, right: Encoded, threshold: float) -> Hits:
        """Places (left row, right row) whose cosine may reach ``threshold``, row by row.

        Beside them the most that each cosine can be.
        """
        from decomposerl.kernels.cosine_loops import near

        products = self.multiply(left.codes, right.codes)
        shape = (products.size,)
        hits = (
            self.space("rows", shape, np.int32),
            self.space("columns", shape, np.int32),
            self.space("most", shape, np.float64),
        )
        bounds = (threshold, self.error(left.codes.shape[1]) + GUARD)
        scaled = (left.scales, left.residuals), (right.scales, right.residuals)
        count = near(products, scaled, bounds, hits)
        return hits[0][:count].copy(), hits[1][:count].copy(), hits[2][:count].copy()

    def space(self, use: str, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
        """This thread's array for one use, kept from product to product."""
        needed = int(np.prod(shape))
        kept: NDArray[Any] | None = getattr(self._space, use, None)
        if kept is None or kept.size < needed:
            kept = np.empty(needed, kind)
            setattr(self._space, use, kept)
        return kept[:needed].reshape(shape)

    def _codes(self, vectors: Floats) -> Codes:
        return vectors


def fastest(engines: Sequence[Products], trial: Callable[[Products], None]) -> Products:
    """The engine that runs ``trial`` in the least time, best of a few rounds in turn.

    The least time is what a busy machine disturbs least.
    """
    if len(engines) == 1:
        return engines[0]
    times = dict.fromkeys(engines, float("inf"))
    for _ in range(ROUNDS + 1):  # the first round warms up
        for engine in engines:
            start = time.perf_counter()
            trial(engine)
            times[engine] = min(times[engine], time.perf_counter() - start)
    return min(times, key=times.__getitem__)


def is_sound(engine: Products, dimensions: int) -> bool:
    """Whether no product of hostile rows is further off than its bound says."""
    from decomposerl.kernels.cosine_loops import squared_lengths

    if not np.isfinite(engine.error(dimensions)):
        return False
    vectors = hostile_rows(dimensions)
    squares = np.empty(len(vectors))
    squared_lengths(vectors, squares)
    coded = engine.room(vectors)
    engine.encode(vectors, squares, coded)
    wide = vectors / np.sqrt(squares)[:, None]
    try:
        products = np.asarray(engine.multiply(coded.codes, coded.codes), np.float64)
    except RuntimeError:  # how torch says that it has no such product here
        return False
    scales, residuals = coded.scales.astype(np.float64), coded.residuals.astype(np.float64)
    off = np.abs(products * np.outer(scales, scales) - wide @ wide.T)
    bound = residuals[:, None] + residuals + np.outer(residuals, residuals)
    return bool((off <= bound + engine.error(dimensions) + GUARD).all())


def hostile_rows(dimensions: int) -> Floats:
    """Unit rows that a product in low precision is most likely to get wrong.

    All numbers equally large with every kind of signs (whole-number sums at their limit),
    one-hot rows, rows with a few huge numbers, ordinary rows.
    """
    random = np.random.default_rng(0)
    quarter = HOSTILE_ROWS // 4
    flat = random.choice([-1.0, 1.0], (quarter, dimensions))
    flat[0], flat[1] = 1, -1
    flat[2] = np.where(np.arange(dimensions) % 2, 1, -1)
    hot = np.zeros((quarter, dimensions))
    hot[np.arange(quarter), random.integers(dimensions, size=quarter)] = 1
    heavy = random.standard_cauchy((quarter, dimensions))
    rows = np.concatenate([flat, hot, heavy, random.standard_normal((quarter, dimensions))])
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit
