"""Asset checks of partitioned assets: one result per partition.

Dagster stores no result per partition for runs over a range of partitions; the assets refuse
such runs (``resources.store.run_lock``).
"""

import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

_PREVIEW = "Specifying a partitions_def on an AssetCheckSpec is currently in preview"


def partitioned_check(
    parts: dg.PartitionsDefinition[str], asset: dg.AssetKey, name: str
) -> Callable[[Callable[..., Any]], dg.AssetChecksDefinition]:
    """``dg.asset_check`` with partitions, without Dagster's preview warning.

    The check finds its partition in ``context.partition_key``.
    """

    def decorated(function: Callable[..., Any]) -> dg.AssetChecksDefinition:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _PREVIEW, dg.PreviewWarning)
            return dg.asset_check(asset=asset, name=name, partitions_def=parts)(function)

    return decorated
