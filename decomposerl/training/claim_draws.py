"""Claims drawn from the silver-decomposed pool: a random training set and the held-out claims.

Draws follow a hash of claim and seed: they do not depend on the pool's order, a larger draw
contains a smaller one, and a claim that leaves the pool changes no other claim's rank.
"""

import hashlib
from collections.abc import Sequence

import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.schemas import LABELS, TRAINING_CLAIMS, VERDICTS, Verdict

ORIGIN = "random"
_GAINED = {"selection_rank": pl.Int64, "selection_gain": pl.Float64}


def random_claims(silver: pl.DataFrame, count: int, seed: int) -> pl.DataFrame:
    """``min(count, n)`` claims of ``silver`` (``SILVER_DECOMPOSED``) as ``TRAINING_CLAIMS``.

    The contrast of the sampling ablation (paper, appendix): labels and sources are not balanced.
    Rows keep the pool's order; rank and gain of the selection are null; ``origin`` is ``random``.
    """
    ranks = silver.select("claim_id", rank=_hash_ranks(silver["claim_id"], "random", seed))
    drawn = ranks.sort("rank", "claim_id").head(count)
    return TRAINING_CLAIMS.conform(
        silver.join(drawn, on="claim_id", how="semi", maintain_order="left").with_columns(
            *(pl.lit(None, kind).alias(name) for name, kind in _GAINED.items()),
            bucket=pl.col("label") + "|" + pl.col("source"),
            origin=pl.lit(ORIGIN),
        )
    )


def held_out_claims(
    silver: pl.DataFrame, *training: pl.DataFrame, count: int, seed: int
) -> pl.DataFrame:
    """At most ``count`` claims of ``silver`` that no frame of ``training`` holds.

    Labels take turns, Supported first, so that each gets as many; where one has too few the
    others fill up. Rows and columns are the pool's. Beyond the paper: these claims
    measure the progress of a run.
    """
    used = pl.concat([silver.clear().select("claim_id"), *(t.select("claim_id") for t in training)])
    free = silver.join(used, on="claim_id", how="anti", maintain_order="left")
    ranks = free.select(
        "claim_id", "label", rank=_hash_ranks(free["claim_id"], "held_out", seed)
    ).sort("rank", "claim_id")
    turns = ranks.with_columns(
        turn=pl.int_range(pl.len()).over("label"),
        label=pl.col("label").cast(pl.Enum(VERDICTS)),
    )
    chosen = turns.sort("turn", "label").head(count)
    return free.join(chosen, on="claim_id", how="semi", maintain_order="left")


def claims_of_labels(claims: pl.DataFrame, labels: Sequence[Verdict]) -> pl.DataFrame:
    """The claims whose label a policy may give, ``labels``; ``claims`` needs ``label``.

    Raises:
        TrainingError: it may give the third label, and no claim has it.
    """
    present = set(claims["label"])
    if missing := set(labels) - present - set(LABELS):
        raise TrainingError(
            f"the policy may end with {', '.join(missing)}, and no training claim has that label. "
            "Read corpora with a middle class under label_rule = keep_middle: decomposerl run "
            "funnel -c configs/three_way.yaml"
        )
    return claims if present <= set(labels) else claims.filter(pl.col("label").is_in(labels))


def _hash_ranks(claim_ids: pl.Series, purpose: str, seed: int) -> pl.Series:
    """A uniform rank per claim: 16 hex digits over purpose, seed and the claim's id."""
    digests = [
        hashlib.sha256(f"{purpose}:{seed}:{claim_id}".encode()).hexdigest()[:16]
        for claim_id in claim_ids
    ]
    return pl.Series("rank", digests, pl.String())
