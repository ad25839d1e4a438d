"""The tiny policy that training starts from where no open model is at hand.

One asset, a model folder at ``base_policy/`` under the data folder: the project's own
checkpoint, or the same made anew from nothing.
"""

import dagster as dg

from resources.policy_tiny.folder import base_policy_facts, load_base_policy
from resources.policy_tiny.warm_start import WarmStart, warm_start
from resources.store.parquet import DataFolder
from resources.store.run_lock import locked_asset

_TOLD_EVERY = 100


class BasePolicyConfig(dg.Config):
    """``anew`` warm-starts the model here, which takes about a quarter of an hour of one core."""

    anew: bool = False


@dg.asset(group_name="training", kinds={"pytorch"})
@locked_asset
def base_policy(
    context: dg.AssetExecutionContext, config: BasePolicyConfig, data_folder: DataFolder
) -> dg.MaterializeResult[None]:
    """A Qwen2 of 0.4 million parameters, warm-started on the invented world, for two cores."""
    folder = data_folder.path / "base_policy"

    def tell(step: int, loss: float) -> None:
        if step % _TOLD_EVERY == 0:
            context.log.info(f"step {step}: loss {loss:.3f}")

    if config.anew:
        warm_start(WarmStart(), folder, tell)
    else:
        load_base_policy(folder)
    facts = base_policy_facts(folder)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(facts.digest),
        metadata={
            "path": dg.MetadataValue.path(str(folder)),
            "parameters": facts.parameters,
            "warm start": dg.MetadataValue.json(facts.settings),
        },
    )
