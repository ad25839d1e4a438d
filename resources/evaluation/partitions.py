"""The partitions of the evaluation: one a system, and the edge from a trained policy to its own.

A partition that cannot run stays: its results may have been made under another profile.
"""

from collections.abc import Container, Sequence

import dagster as dg

from decomposerl.evaluation.systems import System


def system_partitions(
    systems: Sequence[System], last: Container[str] = frozenset()
) -> dg.StaticPartitionsDefinition:
    """One partition a system: entries of ``systems.toml``, then by method; ``last`` at the end."""
    ordered = sorted(systems, key=lambda system: (system.key in last, system.entry is None))
    return dg.StaticPartitionsDefinition([system.key for system in ordered])


def policy_dep(systems: Sequence[System]) -> dg.AssetDep:
    """The edge from asset ``policy``: a policy trained again makes its own system's results stale.

    A partition depends on the run of its system; that of a baseline, or of an entry of
    ``systems.toml``, on none.
    """
    policies = [system for system in systems if system.model.port == "policy"]
    runs = {system.model.key: system.key for system in policies}
    return dg.AssetDep("policy", partition_mapping=dg.StaticPartitionMapping(runs))
