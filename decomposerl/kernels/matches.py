"""What a duplicate or leak search returns, and the exact reading of a threshold."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

LARGEST_DENOMINATOR = 1_000_000


@dataclass(frozen=True, slots=True)
class Matches:
    """Per row the row it was matched with and how similar the two are.

    ``matched`` is int64, shape (n,): -1 where the row has no match, else an index into the
    rows searched (in a keep-first search: of an earlier, kept row). ``similarity`` is
    float64, shape (n,), 0 where there is no match. ``engine`` names the search that ran.
    """

    matched: NDArray[np.int64]
    similarity: NDArray[np.float64]
    engine: str = ""

    @classmethod
    def none(cls, rows: int, engine: str = "") -> "Matches":
        """No row has a match."""
        return cls(np.full(rows, -1, np.int64), np.zeros(rows, np.float64), engine)

    @property
    def is_matched(self) -> NDArray[np.bool_]:
        """Whether each row has a match, shape (n,)."""
        return self.matched >= 0

    def at_least(self, threshold: float) -> "Matches":
        """Only the matches whose similarity is at least ``threshold``."""
        near = self.is_matched & (self.similarity >= threshold)
        matched, similarity = np.where(near, self.matched, -1), np.where(near, self.similarity, 0.0)
        return Matches(matched, similarity, self.engine)

    def matched_values(self, values: pl.Series) -> pl.Series:
        """Per row the value of the row it was matched with; null where it has no match."""
        rows = pl.Series(self.matched)
        return values.gather(rows.set(rows < 0, None))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every pair of rows that is similar enough, each once, by ``later`` then ``earlier``.

    ``earlier`` < ``later`` are int64 row numbers, ``similarity`` is float64; shape (pairs,).
    """

    earlier: NDArray[np.int64]
    later: NDArray[np.int64]
    similarity: NDArray[np.float64]
    engine: str = ""


def exact_threshold(threshold: float) -> Fraction:
    """The fraction that ``threshold`` is written as: 0.7 is 7/10, not the nearest binary number.

    Six decimals are exact. Sizes of sets can then be compared in integers.

    Raises:
        ValueError: the threshold is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold {threshold} is not in (0, 1]")
    fraction = Fraction(repr(float(threshold))).limit_denominator(LARGEST_DENOMINATOR)
    return max(fraction, Fraction(1, LARGEST_DENOMINATOR))


def min_shared(largest: int, threshold: float) -> NDArray[np.int32]:
    """Fewest shared elements that reach the Jaccard ``threshold``, per sum of two sets' sizes.

    Shape (2 * largest + 1,) where no set has more than ``largest`` elements.
    """
    exact = exact_threshold(threshold)
    both = exact.numerator + exact.denominator
    # shared / (sum - shared) >= p / q  <=>  shared >= sum * p / (p + q), rounded up.
    needed = -(-np.arange(2 * largest + 1) * exact.numerator // both)
    return needed.astype(np.int32)
