"""Further training sets beside the curated one.

Takes the silver-decomposed pool and the curated set, gives the contrast of the sampling
ablation (paper, appendix "Sampling Ablation"): as many claims, drawn at random.

Left out deliberately: how claims are drawn (``decomposerl.training.random_claims``).
"""

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.reports.escape import markdown_table
from decomposerl.training.random_claims import random_claims
from resources.store.parquet import StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset


class RandomClaimsConfig(dg.Config):
    """Which of the equally likely draws is taken."""

    seed: int = Field(default=42, description="part of the hash that orders the claims")


@dg.asset(group_name="training", kinds={"parquet"})
@locked_asset
def training_claims_random(
    context: dg.AssetExecutionContext,
    config: RandomClaimsConfig,
    silver_decomposed: pl.DataFrame,
    training_claims: pl.DataFrame,
) -> dg.MaterializeResult[StageOutput]:
    """As many claims as the curated training set has, drawn uniformly from the same pool."""
    recorder = StageRecorder(context, config)
    drawn = random_claims(silver_decomposed, training_claims.height, config.seed)
    shared = drawn.join(training_claims, on="claim_id", how="semi").height
    parts = drawn.group_by("source", "label").len().sort("source", "label")
    metadata = {
        "dagster/row_count": drawn.height,
        "pool": silver_decomposed.height,
        "also in the curated set": shared,
        "claims by source": dg.MetadataValue.md(markdown_table(parts.columns, parts.rows())),
    }
    return recorder.table(drawn, metadata)
