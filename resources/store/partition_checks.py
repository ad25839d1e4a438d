"""Asset checks of partitioned assets: one result a partition.

Takes the partitions of the checked asset, gives Dagster's decorator for its check, whose function
finds its partition in ``context.partition_key``. Dagster keeps and shows the latest result of each
partition.

Left out deliberately: runs over a range of partitions, for which Dagster keeps no result a
partition; the assets refuse them (``resources.store.run_lock``).
"""

import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

_PREVIEW = "Specifying a partitions_def on an AssetCheckSpec is currently in preview"


def partitioned_check(
    parts: dg.PartitionsDefinition[str], asset: dg.AssetKey, name: str
) -> Callable[[Callable[..., Any]], dg.AssetChecksDefinition]:
    """``dg.asset_check`` with partitions, without Dagster's warning that they are a preview."""

    def decorated(function: Callable[..., Any]) -> dg.AssetChecksDefinition:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _PREVIEW, dg.PreviewWarning)
            return dg.asset_check(asset=asset, name=name, partitions_def=parts)(function)

    return decorated
