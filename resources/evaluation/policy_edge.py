"""The edge of the graph from a trained policy to what is made with it."""

from collections.abc import Sequence

import dagster as dg

from decomposerl.evaluation.systems import System


def policy_dep(systems: Sequence[System]) -> dg.AssetDep:
    """The edge from asset ``policy``: a policy trained again makes its own system's results stale.

    A partition depends on the run of its system; that of a baseline, or of an entry of
    ``systems.toml``, on none.
    """
    runs = {one.model.key: one.key for one in systems if one.model.port == "policy"}
    return dg.AssetDep("policy", partition_mapping=dg.StaticPartitionMapping(runs))
