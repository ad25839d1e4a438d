"""Products of unit rows in low precision, each with a proved bound on its error.

A unit row is x = h + e + t: its first numbers as the engine rounds them, what that rounding
lost, and the numbers left out. By Cauchy and Schwarz, and because 2ab <= a^2 + b^2,

    <x, y>  <=  <h, h'> + |e| + |e'| + |e||e'| + |t||t'|  <=  <h, h'> + error + error'
    with  error = |e| + |e|^2 / 2 + |t|^2 / 2,  measured row by row,

and the product adds its own rounding (``Products.rounding``). A pair that is not returned is
certainly below the threshold; the caller computes the others exactly. So the precision and
the share of numbers change the speed, never a decision: half of the numbers rule out most
pairs below 0.7, a quarter most pairs below 0.9.
"""

import threading
import time
from copy import copy
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
GUARD = 4e-6  # for the single-precision arithmetic of the scan and the 12 decimals of a cosine
HOSTILE_ROWS = 256
LEAST_USED = 64


@dataclass(frozen=True, slots=True)
class Encoded:
    """Unit rows encoded for a product: their first numbers are about ``scales * codes``.

    ``errors`` is each row's share of the bound on the rest of a cosine; see the module.
    """

    codes: Codes
    scales: Floats
    errors: Floats

    def take(self, rows: Picked) -> "Encoded":
        """Some rows: a slice is a view, an index array a copy."""
        return Encoded(self.codes[rows], self.scales[rows], self.errors[rows])


class Products:
    """Single precision by NumPy: the engine that every machine has.

    ``block`` x ``tile`` rows is the product that suits one core. Threads may share an engine;
    each has its own scratch space.
    """

    name = "f32"
    block, tile = 1_024, 512
    parts = 4  # tasks of the products within a block
    on_device = False  # a device is not raced: small products say nothing of its large ones
    clock = staticmethod(time.thread_time)  # not disturbed by other programs

    def __init__(self, share: float = 1.0) -> None:
        """``share`` of the numbers of a row are multiplied (0..1]."""
        self.share = share
        self._space = threading.local()

    def of_share(self, share: float) -> "Products":
        """The same engine, with another share of the numbers."""
        narrower = copy(self)
        narrower.share = share
        return narrower

    def room(self, vectors: Floats) -> Encoded:
        """Room for as many encoded rows; ``encode`` fills it slice by slice."""
        rows, dimensions = vectors.shape
        used = min(dimensions, max(int(self.share * dimensions), LEAST_USED))
        return Encoded(
            self._codes(vectors, used), np.empty(rows, np.float32), np.empty(rows, np.float32)
        )

    def encode(self, vectors: Floats, squares: Doubles, into: Encoded) -> None:
        """Fill ``into``, a view of as much room, with these rows."""
        from decomposerl.kernels.cosine_loops import encode_f32

        encode_f32((vectors, squares), into.codes.shape[1], into.scales, into.errors)

    def rounding(self, used: int) -> float:
        """Largest error of a product of ``used`` numbers, for any order of its sums."""
        return 1.01 * used * SINGLE

    def multiply(self, left: Codes, right: Codes) -> Codes:
        """Products of all pairs of codes; overwritten by the thread's next product."""
        out = self.space("products", (len(left), len(right)), np.float32)
        return np.matmul(left, right.T, out=out)

    def on_host(self, products: Codes) -> NDArray[Any]:
        """What ``multiply`` returned as an array in this machine's memory."""
        return np.asarray(products)

    def near(self, left: Encoded, right: Encoded, threshold: float) -> Hits:
        """Left rows, right rows and upper bounds of the cosines that may reach ``threshold``.

        Rows are numbered within the two sides and come row by row.
        """
        from decomposerl.kernels.cosine_loops import find_near

        products = self.multiply(left.codes, right.codes)
        shape = (products.size,)
        hits = (
            self.space("rows", shape, np.int32),
            self.space("columns", shape, np.int32),
            self.space("most", shape, np.float64),
        )
        bounds = (threshold, self.rounding(left.codes.shape[1]) + GUARD)
        scaled = (left.scales, left.errors), (right.scales, right.errors)
        count = find_near(products, scaled, bounds, hits)
        return hits[0][:count].copy(), hits[1][:count].copy(), hits[2][:count].copy()

    def space(self, use: str, shape: tuple[int, ...], kind: type) -> NDArray[Any]:
        """This thread's array for one use, kept from product to product."""
        # Allocating it each time would have the system clear the pages of every tile.
        needed = int(np.prod(shape))
        kept: NDArray[Any] | None = getattr(self._space, use, None)
        if kept is None or kept.size < needed:
            kept = np.empty(needed, kind)
            setattr(self._space, use, kept)
        return kept[:needed].reshape(shape)

    def _codes(self, vectors: Floats, used: int) -> Codes:
        return vectors[:, :used]


def is_sound(engine: Products, dimensions: int) -> bool:
    """Whether no product of hostile rows exceeds its error bound."""
    # Some processors saturate integer sums.
    from decomposerl.kernels.cosine_loops import squared_lengths

    vectors = hostile_rows(dimensions)
    squares = squared_lengths(vectors)
    coded = engine.room(vectors)
    engine.encode(vectors, squares, coded)
    rounding = engine.rounding(coded.codes.shape[1])
    if not np.isfinite(rounding):
        return False
    try:
        products = engine.on_host(engine.multiply(coded.codes, coded.codes)).astype(np.float64)
    except RuntimeError:  # torch has no such product here
        return False
    scales, errors = coded.scales.astype(np.float64), coded.errors.astype(np.float64)
    wide = vectors / np.sqrt(squares)[:, None]
    off = np.abs(products * np.outer(scales, scales) - wide @ wide.T)
    return bool((off <= errors[:, None] + errors + rounding + GUARD).all())


def hostile_rows(dimensions: int) -> Floats:
    """Unit rows that a product in low precision is most likely to get wrong.

    All numbers equally large with various signs (integer sums at their limit), one-hot rows,
    rows with a few huge numbers, ordinary rows.
    """
    generator = np.random.default_rng(0)
    quarter = HOSTILE_ROWS // 4
    flat = generator.choice([-1.0, 1.0], (quarter, dimensions))
    flat[0], flat[1] = 1, -1
    flat[2] = np.where(np.arange(dimensions) % 2, 1, -1)
    hot = np.zeros((quarter, dimensions))
    hot[np.arange(quarter), generator.integers(dimensions, size=quarter)] = 1
    heavy = generator.standard_cauchy((quarter, dimensions))
    rows = np.concatenate([flat, hot, heavy, generator.standard_normal((quarter, dimensions))])
    unit: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit
