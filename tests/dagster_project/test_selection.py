"""What a run may select: nothing misspelt, and never the whole graph."""

import shlex
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.storage.tags import BACKFILL_ID_TAG

from dagster_project.definitions import build_definitions
from dagster_project.profiles import Profile
from dagster_project.selection import refuse_unmatched, typed_selection
from decomposerl.errors import ConfigError
from documents import materialize_lines, option
from tables import cases_beside

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
WRONG = cases_beside(__file__, "wrong_selections")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "data"


@pytest.fixture(scope="module")
def graph(folder: Path) -> dg.Definitions:
    (folder.parent / "corpora").mkdir()
    return build_definitions(Profile("embedded", folder.parent / "corpora", folder))


def test_a_term_that_matches_nothing_is_refused_with_the_nearest(graph: dg.Definitions):
    """Also beside terms that match; and so are everything and nothing, with groups to choose."""
    for row in WRONG:
        with pytest.raises(ConfigError) as refused:
            refuse_unmatched(row["select"], graph)
        said = str(refused.value)
        assert [] == [one for one in row["says"] if one not in said], row["select"]
        assert "\n" not in said


def test_every_documented_selection_stands(graph: dg.Definitions):
    """With a tag's value, too; the last of a command line counts, as click reads it."""
    for line in materialize_lines():
        refuse_unmatched(option(shlex.split(line), "--select"), graph)
    hover = graph.resolve_asset_graph().get(dg.AssetKey(["claims", "hover"]))
    for value in ('="{}"', "={}"):
        refuse_unmatched(f'tag:"domain"{value.format(hover.tags["domain"])}', graph)
    words = ["dagster", "asset", "materialize", "-m", "x"]
    assert "a" == typed_selection([*words, "--select", "a"])
    assert "b" == typed_selection([*words, "--select=b"])
    assert typed_selection(words) is None
    assert typed_selection(["dagster", "asset", "list", "--select", "a"]) is None
    assert typed_selection(["pytest"]) is None


def every_key(graph: dg.Definitions) -> list[dg.AssetKey]:
    return sorted(graph.resolve_asset_graph().materializable_asset_keys)


def test_a_run_of_the_whole_graph_is_refused_before_its_first_step(
    graph: dg.Definitions, folder: Path
):
    """Without a selection, by every key, or a partition: nothing is written, no step starts."""
    job = graph.resolve_implicit_global_asset_job_def()
    every: tuple[dict[str, Any], ...] = (
        {},
        {"asset_selection": every_key(graph)},
        {"tags": {"dagster/partition": "tiny"}},
    )
    for options in every:
        with dg.DagsterInstance.ephemeral() as instance:
            result = job.execute_in_process(
                run_config=QUIET, instance=instance, raise_on_error=False, **options
            )
        steps = [one for one in result.all_events if one.is_step_start]
        assert (False, [], False) == (result.success, steps, folder.exists()), options


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_of_a_backfill_of_everything_is_refused(
    graph: dg.Definitions, folder: Path, *, whole: bool
):
    """Dagster cuts such a backfill into runs of some assets each; one of some assets may run."""
    assets, key = graph.resolve_asset_graph(), dg.AssetKey(["claims", "hover"])
    job = graph.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        backfill = PartitionBackfill.from_asset_partitions(
            backfill_id="everything",
            asset_graph=assets,
            partition_names=None,
            asset_selection=every_key(graph) if whole else [key],
            backfill_timestamp=0.0,
            tags={},
            dynamic_partitions_store=instance,
            all_partitions=True,
            title=None,
            description=None,
            run_config=None,
        )
        instance.add_backfill(backfill)
        result = job.execute_in_process(
            run_config=QUIET,
            instance=instance,
            raise_on_error=False,
            asset_selection=[key],
            tags={BACKFILL_ID_TAG: "everything"},
        )
    assert whole is not result.success
    assert whole is not (folder / "claims/hover.parquet").exists()


def test_a_run_of_some_assets_and_a_job_start(graph: dg.Definitions):
    """The guard lets them pass; without their inputs they fail in a step of their own."""
    with dg.DagsterInstance.ephemeral() as instance:
        whole = graph.resolve_implicit_global_asset_job_def()
        key = dg.AssetKey(["rule_filtered"])
        ask: dict[str, Any] = {"run_config": QUIET, "instance": instance, "raise_on_error": False}
        some = whole.execute_in_process(asset_selection=[key], **ask)
        job = graph.resolve_job_def("rank").execute_in_process(**ask)
    for result in (some, job):
        assert [one for one in result.all_events if one.is_step_start]
