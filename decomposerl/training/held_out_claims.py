"""Claims that no run trains on, by which its progress is told (not of the paper).

Takes the silver-decomposed pool and every training set, gives claims of the pool that are in
none of them: as many of each label as there are, in the order of a hash, so that a larger
number holds the smaller one.
"""

import polars as pl

from decomposerl.schemas import LABELS
from decomposerl.training.random_claims import hash_ranks


def held_out_claims(
    silver: pl.DataFrame, *training: pl.DataFrame, count: int, seed: int
) -> pl.DataFrame:
    """At most ``count`` claims of ``silver`` that no frame of ``training`` holds.

    Each label gets half, the first one more where ``count`` is odd; where one label has too
    few the other fills up. Rows stand in the pool's order, with its columns.
    """
    used = pl.concat([silver.clear().select("claim_id"), *(t.select("claim_id") for t in training)])
    free = silver.join(used, on="claim_id", how="anti", maintain_order="left")
    places = free.select(
        "claim_id", "label", place=hash_ranks(free["claim_id"], "held_out", seed)
    ).sort("place", "claim_id")
    ranked = places.with_columns(
        turn=pl.int_range(pl.len()).over("label"),
        label=pl.col("label").cast(pl.Enum(LABELS)),
    )
    chosen = ranked.sort("turn", "label").head(count)
    return free.join(chosen, on="claim_id", how="semi", maintain_order="left")
