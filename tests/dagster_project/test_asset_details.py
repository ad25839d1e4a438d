"""The graph before any run: what assets show, their versions, and what may be selected."""

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph
from dagster._core.definitions.data_version import StaleStatus
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.storage.tags import BACKFILL_ID_TAG
from dagster._utils.test.data_versions import get_stale_status_resolver

from dagster_project.asset_details import DECIDE, FILL_MISSING, CodeFiles
from dagster_project.definitions import build_definitions
from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from dagster_project.settings import Settings
from dagster_project.stages import refuse_unmatched, typed_selection
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from decomposerl.table import Table
from decomposerl.training.experiment import TINY_BASES
from documents import materialize_lines, option
from environment import settings_of, variables
from project import ROOT
from resources.store.parquet import table_of
from tables import cases_beside
from toy_corpus import corpus

NO_TABLE = {*TINY_BASES, "catalog", "report", "tiny_judge_heads"}
OWN_TABLE = {"policy"}
CODE = ("assets", "decomposerl", "resources")
BAND = {"difficulty_band"}
PARTS = {"deduplicated", "decontaminated", "diversity_selected", "study/selectors"}
FUNNEL = ("rule_filtered", "difficulty_band", "deduplicated", "silver_decomposed")
MACHINE = set(
    "results_dir key runs served_as continues concurrency deadline_s "
    "most_reply_bytes prompt_price completion_price "
    "calls tokens dollars vllm cards gpu_share withheld start_timeout_s "
    "log_dir batch_size prompts_dir device models_lock base_url in_flight thinking_style "
    "most_unanswered base_dir root sample_root processes gpu module python launch threads "
    "generation generation_url memory_share sleep_mode liger checkpoint_every "
    "checkpoints_kept most_judge_failures most_wait_s sampler_check_every report_to grace_s "
    "open_models openai endpoint server policies likeliest heads mapper choice "
    "jobs".split()
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("details")
    own = corpus(folder / "corpora", claims=8)
    return settings_of(folder / "data", own)


@pytest.fixture(scope="module")
def graph(profile: Settings) -> AssetGraph:
    return build_definitions(profile).resolve_asset_graph()


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project's code, to be edited."""
    folder = tmp_path_factory.mktemp("code")
    for package in CODE:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pyc*"))
    return folder


def versions(root: Path, profile: Settings) -> dict[str, str]:
    """The code version of every asset, with the code in a folder."""
    graph = build_definitions(profile, code=CodeFiles(root)).resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.materializable_asset_keys]
    return {node.key.to_user_string(): str(node.code_version) for node in nodes}


def assets_of(definitions: dg.Definitions) -> list[dg.AssetsDefinition]:
    """The assets of the graph, without its checks."""
    return [one for one in definitions.assets or [] if isinstance(one, dg.AssetsDefinition)]


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """Another text in a file for as long as the block runs, in place of one that is there once."""
    text = path.read_text("utf-8")
    assert 1 == text.count(old)
    path.write_text(text.replace(old, new), "utf-8")
    yield
    path.write_text(text, "utf-8")


def test_a_corpus_says_how_its_files_are_obtained(graph: AssetGraph):
    """The table's sentence ends the description; a corpus of the user has none."""
    corpora = {
        key.to_user_string(): graph.get(key).description or ""
        for key in graph.get_all_asset_keys()
        if key.path[0] in {"claims", "benchmark"}
    }
    assert "`decomposerl fetch hover --pages`" in corpora["claims/hover"]
    assert "12.3 MB" in corpora["claims/hover"]
    assert "drive.google.com" in corpora["claims/ambifc"]
    assert "terms on the hub" in corpora["benchmark/coverbench"]
    assert (26, 1) == (len(corpora), sum(said.endswith("files.") for said in corpora.values()))


def test_every_table_shows_its_columns_before_any_run(graph: AssetGraph):
    """Names, types and meanings are those of the table that its frame is checked against."""
    for key in sorted(graph.materializable_asset_keys):
        name = key.to_user_string()
        schema = graph.get(key).metadata.get("dagster/column_schema")
        if name in NO_TABLE:
            assert schema is None
            continue
        assert isinstance(schema, dg.TableSchema), name
        if name in OWN_TABLE:
            continue
        table: Table = table_of(name)
        shown = [(one.name, one.type, one.description) for one in schema.columns]
        assert [(one.name, str(one.dtype), one.meaning) for one in table.columns] == shown


def test_files_kinds_and_cost_are_shown(graph: AssetGraph, profile: Settings, tmp_path: Path):
    """Where each asset lies, what it is, and whether it is paid."""
    nodes = {key.to_user_string(): graph.get(key) for key in graph.materializable_asset_keys}
    files = {name: str(node.metadata["dagster/uri"]) for name, node in nodes.items()}
    assert (profile.paths.data / "claims/toy.parquet").as_uri() in files["claims/toy"]
    assert (profile.paths.data / "predictions/fever").as_uri() in files["predictions/fever"]
    assert (profile.paths.data / "decomposerl.duckdb").as_uri() in files["catalog"]
    assert {"parquet", "polars"} == set(nodes["rule_filtered"].kinds)
    costs = {name: node.tags["cost"] for name, node in nodes.items()}
    assert {"free", "by_system"} == set(costs.values())
    assert "by_system" == costs["predictions/fever"]
    for name, price, cost in (("local", "", "free"), ("paper", "", "paid"), ("local", "1", "paid")):
        env = variables(SILVER__PROMPT_PRICE=price)
        graph = build_definitions(
            settings_of(tmp_path, profile=name, env=env)
        ).resolve_asset_graph()
        assert cost == graph.get(dg.AssetKey("silver_decomposed")).tags["cost"]


def test_every_field_of_a_resource_decides_an_answer_or_not(profile: Settings):
    """A new field must be put on one side: in those of a code version, or in this file's list."""
    resources = resources_for(profile).values()
    fields = {name for one in resources for name in type(one).model_fields}
    fields |= Endpoint.model_fields.keys()
    assert set() == fields - DECIDE - MACHINE
    assert set() == DECIDE & MACHINE
    assert set() == DECIDE - fields


HOVER = ("decomposerl/claims/sources/hover.py", "def _draft(", "def _draft_(")
EDITS = [
    (("decomposerl/funnel/difficulty.py", "> settings.high", ">= settings.high"), BAND),
    (("decomposerl/funnel/parts.py", "def slices(", "def slices_("), PARTS),
    (HOVER, {"claims/hover", "benchmark/hover"}),
    (("decomposerl/reports/stage_page.py", "def stage_page(", "def a_page("), set()),
]


def test_a_changed_step_changes_the_version_of_its_stage_alone(copied: Path, profile: Settings):
    """So do a module that it imports and a reader; a report's page and a neighbour do not."""
    before = versions(copied, profile)
    for (file, *texts), expected in EDITS:
        with edited(copied / file, *texts):
            after = versions(copied, profile)
        assert expected == {key for key in before if before[key] != after[key]}, (file, texts)


def test_another_engine_changes_the_version_and_another_place_does_not(tmp_path: Path):
    """A model decides the results, as does a user's prompt; an endpoint's address does not."""
    prompts = tmp_path / "prompts"
    prompts.mkdir()

    def made(**variables: str) -> dict[str, str]:
        named = {f"DECOMPOSERL_{name}": value for name, value in variables.items()}
        chosen = read_settings(named | {"DECOMPOSERL_DATA": str(tmp_path)})
        every = versions(ROOT, chosen)
        return {key: every[key] for key in FUNNEL}

    def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
        return {key for key in FUNNEL if one[key] != other[key]}

    plain = made(PROFILE="local")
    assert set(FUNNEL) == differing(plain, made())
    silver = {"silver_decomposed"}
    assert silver == differing(plain, made(PROFILE="local", CHAT_MODEL="another"))
    assert set() == differing(plain, made(PROFILE="local", CHAT_URL="http://10.0.0.1:1/v1"))
    assert set() == differing(plain, made(PROFILE="local", PROMPTS=str(prompts)))
    (prompts / "silver.md").write_text("# other", "utf-8")
    assert silver == differing(plain, made(PROFILE="local", PROMPTS=str(prompts)))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


def test_a_changed_reader_shows_its_source_as_stale(
    copied: Path, profile: Settings, instance: dg.DagsterInstance
):
    """Materialized with the code as it was, fresh; with the changed code, stale and why."""
    definitions, key = build_definitions(profile), dg.AssetKey(["claims", "hover"])
    job = definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[key]).success
    resolver = get_stale_status_resolver(instance, assets_of(definitions))
    assert (StaleStatus.FRESH, []) == (resolver.get_status(key), resolver.get_stale_causes(key))
    with edited(copied / HOVER[0], *HOVER[1:]):
        later = build_definitions(profile, code=CodeFiles(copied))
    resolver = get_stale_status_resolver(instance, assets_of(later))
    assert StaleStatus.STALE == resolver.get_status(key)
    (cause,) = resolver.get_stale_causes(key)
    assert "has a new code version" == cause.reason


def test_what_costs_nothing_may_be_made_by_itself(profile: Settings, instance: dg.DagsterInstance):
    """Once the sensor is on: missing sources and test sets; the catalogue after the funnel."""
    definitions = build_definitions(profile)
    sensor = definitions.resolve_sensor_def(FILL_MISSING)
    assert dg.DefaultSensorStatus.STOPPED == sensor.default_status
    graph = definitions.resolve_asset_graph()
    every = dg.AssetSelection.assets(*graph.materializable_asset_keys)

    def groups_asked(cursor: AssetDaemonCursor | None) -> tuple[set[str], AssetDaemonCursor]:
        done = dg.evaluate_automation_conditions(definitions, instance, every, cursor=cursor)
        asked = {key for key in graph.materializable_asset_keys if done.get_num_requested(key)}
        return {graph.get(key).group_name for key in asked}, done.cursor

    groups, cursor = groups_asked(None)
    assert {"sources", "benchmarks"} == groups
    assert set() == groups_asked(cursor)[0], "a failed one is not asked for again"
    for key in graph.materializable_asset_keys:
        if graph.get(key).group_name == "funnel":
            instance.report_runless_asset_event(dg.AssetMaterialization(key))
    assert "catalog" in groups_asked(cursor)[0]
    may = [graph.get(key) for key in graph.materializable_asset_keys]
    automatic = [node for node in may if node.automation_condition is not None]
    assert {"sources", "benchmarks", "catalog"} == {node.group_name for node in automatic}
    assert {"free"} == {node.tags["cost"] for node in automatic}


# What a run may select

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
WRONG = cases_beside(__file__, "wrong_selections")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data") / "data"


@pytest.fixture(scope="module")
def definitions(folder: Path) -> dg.Definitions:
    (folder.parent / "corpora").mkdir()
    return build_definitions(settings_of(folder, folder.parent / "corpora"))


def test_a_term_that_matches_nothing_is_refused_with_the_nearest(definitions: dg.Definitions):
    """Also beside terms that match; and so are everything and nothing, with groups to choose."""
    for row in WRONG:
        with pytest.raises(ConfigError) as refused:
            refuse_unmatched(row["select"], definitions)
        said = str(refused.value)
        assert [] == [one for one in row["says"] if one not in said], row["select"]
        assert "\n" not in said


def test_every_documented_selection_stands(definitions: dg.Definitions):
    """With a tag's value, too; the last of a command line counts, as click reads it."""
    for line in materialize_lines():
        refuse_unmatched(option(shlex.split(line), "--select"), definitions)
    hover = definitions.resolve_asset_graph().get(dg.AssetKey(["claims", "hover"]))
    for value in ('="{}"', "={}"):
        refuse_unmatched(f'tag:"domain"{value.format(hover.tags["domain"])}', definitions)
    words = ["dagster", "asset", "materialize", "-m", "x"]
    assert "a" == typed_selection([*words, "--select", "a"])
    assert "b" == typed_selection([*words, "--select=b"])
    assert typed_selection(words) is None
    assert typed_selection(["dagster", "asset", "list", "--select", "a"]) is None
    assert typed_selection(["pytest"]) is None


def every_key(definitions: dg.Definitions) -> list[dg.AssetKey]:
    return sorted(definitions.resolve_asset_graph().materializable_asset_keys)


def ran(job: dg.JobDefinition, instance: dg.DagsterInstance, **options: Any) -> Any:  # noqa: ANN401 - Dagster's
    """A run that may fail."""
    return job.execute_in_process(QUIET, instance, raise_on_error=False, **options)


def test_a_run_of_the_whole_graph_is_refused_before_its_first_step(
    definitions: dg.Definitions, folder: Path
):
    """Without a selection, by every key, or a partition: nothing is written, no step starts."""
    job = definitions.resolve_implicit_global_asset_job_def()
    selected = {"asset_selection": every_key(definitions)}
    for options in ({}, selected, {"tags": {"dagster/partition": "tiny"}}):
        with dg.DagsterInstance.ephemeral() as instance:
            result = ran(job, instance, **options)
        steps = [one for one in result.all_events if one.is_step_start]
        assert (False, [], False) == (result.success, steps, folder.exists()), options


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_of_a_backfill_of_everything_is_refused(
    definitions: dg.Definitions, folder: Path, *, whole: bool
):
    """Dagster cuts such a backfill into runs of some assets each; one of some assets may run."""
    assets, key = definitions.resolve_asset_graph(), dg.AssetKey(["claims", "hover"])
    job = definitions.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        backfill = PartitionBackfill.from_asset_partitions(
            backfill_id="everything",
            asset_graph=assets,
            asset_selection=every_key(definitions) if whole else [key],
            backfill_timestamp=0.0,
            tags={},
            dynamic_partitions_store=instance,
            all_partitions=True,
            **dict.fromkeys(("partition_names", "title", "description", "run_config")),
        )
        instance.add_backfill(backfill)
        result = ran(job, instance, asset_selection=[key], tags={BACKFILL_ID_TAG: "everything"})
    assert whole is not result.success
    assert whole is not (folder / "claims/hover.parquet").exists()


def test_a_run_of_some_assets_and_a_job_start(definitions: dg.Definitions):
    """The guard lets them pass; without their inputs they fail in a step of their own."""
    with dg.DagsterInstance.ephemeral() as instance:
        whole = definitions.resolve_implicit_global_asset_job_def()
        some = ran(whole, instance, asset_selection=[dg.AssetKey(["rule_filtered"])])
        job = ran(definitions.resolve_job_def("rank"), instance)
    for result in (some, job):
        assert [one for one in result.all_events if one.is_step_start]
