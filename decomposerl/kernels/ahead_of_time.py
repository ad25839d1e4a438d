"""Compile the loops of the funnel's stages before a run needs them.

``python -m decomposerl.kernels.ahead_of_time`` is the last step of an installation. A loop that
is compiled already is not compiled again.
"""

import numpy as np
import polars as pl

from decomposerl.kernels.cosine_filter import best_cross_cosine, keep_first_cosine
from decomposerl.kernels.evidence_scan import scan
from decomposerl.kernels.selectors import select_each
from decomposerl.kernels.set_join import cross_matches, keep_first_duplicates

_ROWS, _DIMENSIONS, _LONG = 40, 64, 80
_JACCARD, _COSINE = 0.7, 0.9


def compile_loops() -> None:
    """Run every stage's kernels with the default settings on a few made rows."""
    # Some claims are equal, and one has more words than the loops sort without branches.
    claims = [f"Claim {row // 2} has {row // 2 + 1} words." for row in range(_ROWS)]
    claims.append(" ".join(f"word{number}" for number in range(_LONG)))
    evidence = pl.Series([f"{claim} Dr. Who said (twice): “No.” He’s right!" for claim in claims])
    scan(pl.Series(claims), evidence, pl.Series([False] * len(claims)))
    keep_first_duplicates(claims, _JACCARD)
    cross_matches(claims, claims[::2], _JACCARD)
    drawn = np.random.default_rng(0).standard_normal((_ROWS, _DIMENSIONS)).astype(np.float32)
    drawn[1::2] = drawn[::2]
    vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    keep_first_cosine(vectors, _COSINE)
    best_cross_cosine(vectors, vectors[: _ROWS // 2], _COSINE)
    select_each(vectors, [(np.arange(_ROWS), _ROWS // 2)], "facility_location")


if __name__ == "__main__":
    compile_loops()
