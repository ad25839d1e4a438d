"""The exact cosines that decide the searches, for tests that compare pairs one by one."""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.cosine_loops import pair_cosines, squared_lengths


def exact_cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine of each pair of rows in double precision, shape (n,)."""
    sides = [
        (vectors, squared_lengths(vectors)) for vectors in map(np.ascontiguousarray, (left, right))
    ]
    rows = np.arange(len(left))
    cosines: NDArray[np.float64] = pair_cosines(sides[0], rows, sides[1], rows)
    return cosines
