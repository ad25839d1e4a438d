"""The edge from ``policy`` to what is predicted with it."""

from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.definitions.data_version import StaleStatus
from dagster._utils.test.data_versions import get_stale_status_resolver

from assets.calibrations import calibrations_asset
from assets.evaluation import evaluation_assets
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.systems import systems
from evaluation_graph import TEST_SETS

RUNS = ("tiny", "tiny-seed_1")
SYSTEMS = systems(METHODS, RUNS)
POLICY = dg.AssetKey("policy")
PREDICTIONS = dg.AssetKey(["predictions", "fever"])


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(list(RUNS)))
def policy(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    """A policy whose weights are the run's tag."""
    version = context.run.tags["weights"]
    return dg.MaterializeResult(data_version=dg.DataVersion(version))


def stand_in(asset: dg.AssetsDefinition) -> dg.AssetsDefinition:
    """An asset with the same key, partitions and edges, which does nothing."""
    (spec,) = asset.specs

    @dg.multi_asset(name="__".join(spec.key.path), specs=[spec.replace_attributes(kinds=set())])
    def nothing() -> None:
        return

    return nothing


@pytest.fixture(scope="module")
def graph() -> list[dg.AssetsDefinition]:
    made = [*evaluation_assets(TEST_SETS, SYSTEMS, None), calibrations_asset(SYSTEMS, None)]
    return [policy, *(stand_in(asset) for asset in made)]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


def test_a_retrained_policy_makes_its_own_predictions_stale(
    graph: list[dg.AssetsDefinition], instance: dg.DagsterInstance
):
    """Those of another run and of a baseline stay as they are, and so do equal weights."""
    baseline, tiny, other = "cot-rules-faithful", "decomposerl-tiny", "decomposerl-tiny-seed_1"

    def made(key: dg.AssetKey, partition: str, weights: str = "") -> None:
        job = dg.Definitions(assets=graph).resolve_implicit_global_asset_job_def()
        tags = {"weights": weights, "dagster/partition": partition}
        assert job.execute_in_process(
            instance=instance, asset_selection=[key], partition_key=partition, tags=tags
        ).success

    def stale() -> set[str]:
        resolver = get_stale_status_resolver(instance, graph)
        every = (baseline, tiny, other)
        return {one for one in every if resolver.get_status(PREDICTIONS, one) == StaleStatus.STALE}

    made(PREDICTIONS, baseline)
    for run in RUNS:
        made(POLICY, run, "first")
    for system in (tiny, other):
        made(PREDICTIONS, system)
    assert set() == stale()
    made(POLICY, "tiny", "first")
    assert set() == stale(), "the same weights"
    made(POLICY, "tiny", "second")
    assert {tiny} == stale()
    made(PREDICTIONS, tiny)
    assert set() == stale()


def test_only_a_policys_system_depends_on_a_run(graph: list[dg.AssetsDefinition]):
    """One run each, of predictions and calibrations; a baseline and a verifier need none."""
    resolved = dg.Definitions(assets=graph).resolve_asset_graph()

    def runs(system: str, key: dg.AssetKey) -> list[str]:
        needed = resolved.get_parent_partition_keys_for_child(system, POLICY, key)
        return list(needed.partitions_subset.get_partition_keys())

    policies = {f"decomposerl-{run}": [run] for run in RUNS}
    for key in (PREDICTIONS, dg.AssetKey("calibrations")):
        assert {one.key: policies.get(one.key, []) for one in SYSTEMS} == {
            one.key: runs(one.key, key) for one in SYSTEMS
        }
