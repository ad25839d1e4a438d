"""What training needs besides the funnel's claims: tiny base policies, a random training set.

The random set is the contrast of the sampling ablation (paper, appendix "Sampling Ablation").
"""

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.reports.tables import markdown_table
from decomposerl.training.claim_draws import random_claims
from decomposerl.training.experiment import (
    BASE_POLICY,
    CLEAN_POLICY,
    SMALL_POLICY,
    THREE_WAY_POLICY,
)
from resources.policy_tiny.folder import base_policy_facts, load_base_policy
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset

_BASES = {
    BASE_POLICY: "A Qwen2 of 0.4 million parameters, warm-started on the invented world, for two "
    "cores; its traces have planted flaws.",
    CLEAN_POLICY: "The same without planted flaws: the base of the embedded ablations.",
    THREE_WAY_POLICY: "The clean one, taught the third verdict.",
    SMALL_POLICY: "A smaller one, also without flaws: the other size of the scale study.",
}


class RandomClaimsConfig(dg.Config):
    """The seed of the draw."""

    seed: int = Field(default=42, description="part of the hash that orders the claims")


def base_policy_asset(base: str) -> dg.AssetsDefinition:
    """The asset of one of ``TINY_BASES``."""
    group = "studies" if base in {SMALL_POLICY, THREE_WAY_POLICY} else "training"

    @dg.asset(
        name=base,
        group_name=group,
        kinds={"pytorch"},
        description=_BASES[base],
        config_schema={},
    )
    @locked_asset
    def base_policy(data_folder: DataFolder) -> dg.MaterializeResult[None]:
        folder = load_base_policy(data_folder.path / base, base)
        facts = base_policy_facts(folder)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(facts.digest),
            metadata={
                "path": dg.MetadataValue.path(str(folder)),
                "parameters": facts.parameters,
                "warm start": dg.MetadataValue.json(facts.settings),
            },
        )

    return base_policy


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
