"""The dev split that calibrations are fitted on: labelled claims that nothing else has used.

Takes the silver-decomposed pool and the claims that a system may have learned from or been chosen
by, gives claims of the pool that are none of them: as many of either label as there are, in the
order of a hash over seed and id, so that a larger split begins with the smaller one. The funnel
took every claim of a test set out of that pool before, so no test claim can be among them.

Left out deliberately: which claims were used (``resources.evaluation.dev_claims``).
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from decomposerl.schemas import LABELS


@dataclass(frozen=True, slots=True)
class DevSplit:
    """The claims in the order of the draw, with the pool's columns.

    ``free`` is how many could have been drawn, ``pool`` how many there are.
    """

    claims: pl.DataFrame
    free: int
    pool: int
    seed: int

    @property
    def name(self) -> str:
        """What is written down of it: sizes, seed, and 16 hex digits over the claims' ids."""
        ids = "".join(self.claims["claim_id"].sort())
        digest = hashlib.sha256(ids.encode()).hexdigest()[:16]
        return (
            f"{self.claims.height:,} of {self.free:,} unused claims of silver_decomposed "
            f"({self.pool:,}), seed {self.seed}, claims {digest}"
        )


def dev_split(pool: pl.DataFrame, used: Iterable[pl.Series], count: int, seed: int) -> DevSplit:
    """At most ``count`` claims of ``pool`` (``SILVER_DECOMPOSED``) with no id in ``used``.

    Each label gets half, the first one more where ``count`` is odd; where one label has too few
    the other fills up. Claims without evidence are none.
    """
    taken = pl.concat([pool["claim_id"].clear(), *used]).unique()
    said = pl.col("evidence").fill_null("").str.strip_chars() != ""
    free = pool.filter(said, ~pl.col("claim_id").is_in(taken.implode()))
    places = [
        hashlib.sha256(f"calibration:{seed}:{claim_id}".encode()).hexdigest()
        for claim_id in free["claim_id"]
    ]
    drawn = (
        free.with_columns(_place=pl.Series(places, dtype=pl.String))
        .sort("_place")
        .with_columns(_turn=pl.int_range(pl.len()).over("label"))
        .sort("_turn", pl.col("label").cast(pl.Enum(LABELS)))
        .head(count)
        .drop("_place", "_turn")
    )
    return DevSplit(drawn, free.height, pool.height, seed)
