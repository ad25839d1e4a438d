"""Training claims drawn at random: the contrast of the sampling ablation (paper, appendix).

Takes the silver-decomposed pool and a number, gives as many of its claims with the columns of
``TRAINING_CLAIMS``. Which claims they are is decided by a hash of claim and seed, so a draw
depends on no order of the pool, and a claim that leaves the pool changes nobody else's place.
"""

import hashlib

import polars as pl

from decomposerl.schemas import TRAINING_CLAIMS

ORIGIN = "random"
_GAINED = {"selection_rank": pl.Int64, "selection_gain": pl.Float64}


def random_claims(silver: pl.DataFrame, count: int, seed: int) -> pl.DataFrame:
    """``min(count, n)`` claims of ``silver`` (``SILVER_DECOMPOSED``), in the pool's order.

    Rank and gain of the selection are null; ``origin`` is ``random``.
    """
    places = silver.select("claim_id", place=hash_ranks(silver["claim_id"], "random", seed))
    drawn = places.sort("place", "claim_id").head(count)
    return TRAINING_CLAIMS.conform(
        silver.join(drawn, on="claim_id", how="semi", maintain_order="left").with_columns(
            *(pl.lit(None, kind).alias(name) for name, kind in _GAINED.items()),
            bucket=pl.col("label") + "|" + pl.col("source"),
            origin=pl.lit(ORIGIN),
        )
    )


def hash_ranks(claim_ids: pl.Series, purpose: str, seed: int) -> pl.Series:
    """A uniform place for each claim: 16 hex digits over purpose, seed and the claim's id."""
    digests = [
        hashlib.sha256(f"{purpose}:{seed}:{claim_id}".encode()).hexdigest()[:16]
        for claim_id in claim_ids
    ]
    return pl.Series("place", digests, pl.String())
