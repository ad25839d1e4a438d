"""The evaluation's assets: every system of the embedded profile, resumed, refused, checked."""

import json
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.evaluation import evaluation_assets, evaluation_checks
from dagster_project.definitions import build_definitions
from dagster_project.environment import read_settings
from decomposerl import schemas
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.scored_claims import evaluation_subset
from decomposerl.evaluation.systems import systems
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.schemas import CALIBRATIONS, SILVER_DECOMPOSED, TRAINING_CLAIMS
from evaluation_files import SYSTEMS as TWO
from evaluation_files import predictions
from evaluation_graph import (
    CLAIMS,
    NAMES,
    OF_PROFILE,
    SYSTEMS,
    TEST_SETS,
    materialize,
    metadata,
    resources,
    write_tests,
)
from evaluation_runs import spelled
from fault_server import MODEL, FaultServer, replying
from resources.chat.endpoint import EndpointConfig
from resources.corpora.resource import CorporaResource
from resources.evaluation.model import EvaluationModelResource
from resources.store.integrity import file_sha256, run_path
from resources.store.parquet import DataFolder, write_parquet
from strategies import example_row, frame_of
from studies.reference.files import unlisted

SIMPLE, FEVER = "simple-rules-faithful", "predictions__fever"


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which every system of the embedded profile was run and ranked."""
    data = tmp_path_factory.mktemp("whole")
    write_tests(data)
    assert materialize(data, SIMPLE).success
    for system in OF_PROFILE[1:]:
        assert materialize(data, system, "fever").success, system
    assert materialize(data).success
    return data


@pytest.fixture
def data(tmp_path: Path, whole: Path) -> Path:
    """A folder of its own where vectors of sentences are stored already and nothing was run."""
    write_tests(tmp_path)
    shutil.copytree(whole / "engine_results", tmp_path / "engine_results")
    return tmp_path


def failure(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    events = [entry.dagster_event for entry in instance.all_logs(result.run_id)]
    return "\n".join(str(e.step_failure_data.error) for e in events if e and e.is_step_failure)


def test_every_system_predicts_every_claim_that_can_be_asked(whole: Path):
    """Each method by both protocols, one row a claim; a verifier refutes other years.

    ``docs/reference/files.md`` has a path for each file that an evaluation writes.
    """
    assert [] == unlisted(whole)
    folder = DataFolder(base_dir=str(whole))
    asked = folder.read("benchmark/fever").drop_nulls(["label", "evidence"])["claim_id"].to_list()
    assert CLAIMS == len(asked)
    methods = {key.partition("-")[0] for key in OF_PROFILE}
    assert {system.method for system in SYSTEMS} - {"decomposerl"} == methods
    for system in OF_PROFILE:
        made = schemas.PREDICTIONS.conform(folder.read(f"predictions/fever/{system}"))
        assert asked == made["claim_id"].to_list()
        assert [system] == made["system"].unique().to_list()
        assert "failed" not in set(made["parse_status"])
        calls = schemas.CALLS.conform(folder.read(f"calls/fever/{system}"))
        per_claim = calls.group_by("claim_id").agg(pl.len().cast(pl.Int64).alias("calls"))
        assert made.select("claim_id", "calls").sort("claim_id").equals(per_claim.sort("claim_id"))
    board = folder.read("leaderboard")
    (cell,) = board.filter(system="minicheck-lexical", benchmark="fever").to_dicts()
    known = {"table": 0, "rows": CLAIMS, "status": "scored", "paper": None}
    assert known == {name: cell[name] for name in known}
    assert cell["score"] > 90
    assert cell["engine"].startswith("lexical_verifier")
    ran = board.filter(pl.col("engine").is_not_null())
    assert (set(OF_PROFILE), {0}) == (set(ran["system"]), set(ran["table"]))
    assert 0 == folder.read(f"predictions/wice/{SIMPLE}").height
    assert "not_available" == folder.run(f"predictions/wice/{SIMPLE}")["status"]
    status = board.filter(system=SIMPLE, benchmark="wice")["status"]
    assert ["not_available"] == status.to_list()
    pairs = folder.read("comparison")
    assert len(OF_PROFILE) * (len(OF_PROFILE) - 1) // 2 == pairs.height
    assert {CLAIMS} == set(pairs["rows"])


def test_what_was_left_out_and_asked_is_shown(data: Path):
    """Claims without a label or evidence are counted with the reason.

    The second time nobody is asked, and the predictions are the same file.
    """
    path = data / f"predictions/fever/{SIMPLE}.parquet"
    result = materialize(data, SIMPLE, "fever")
    shown = metadata(result, FEVER)
    left = ("left out: no_label", "left out: no_evidence", "claims that could be asked")
    assert (1, 1, CLAIMS) == tuple(shown[name] for name in left)
    asked = ("status", "engine calls", "engine results reused")
    assert ("ok", CLAIMS, 0) == tuple(shown[name] for name in asked)
    assert 1 == shown["calls a claim"]
    assert "verdicts" == next(name for name in shown if not name.startswith("dagster/"))
    assert {"balanced_accuracy", "parse_rate"} <= set(metadata(result, "scores__fever"))
    assert [True] == [check.passed for check in result.get_asset_check_evaluations()]
    first = file_sha256(path)
    again = metadata(materialize(data, SIMPLE, "fever"), FEVER)
    assert ("ok", 0, CLAIMS) == tuple(again[name] for name in asked)
    assert first == file_sha256(path)


def test_a_short_run_says_so_and_a_whole_one_asks_the_rest(data: Path, whole: Path):
    """Four claims, two of either label; limited in status, board and pairs; then eight more."""
    for system in OF_PROFILE[1:3]:
        record = f"stage_runs/predictions__fever__{system}.json"
        for name in (f"predictions/fever/{system}.parquet", record):
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / name, data / name)
    short = materialize(data, SIMPLE, "fever", limit=4)
    shown = metadata(short, FEVER)
    assert ("limited", 4) == (shown["status"], shown["engine calls"])
    assert all(check.passed for check in short.get_asset_check_evaluations())
    assert materialize(data).success
    folder = DataFolder(base_dir=str(data))
    (cell,) = folder.read("leaderboard").filter(system=SIMPLE, benchmark="fever").to_dicts()
    assert ("limited", 4) == (cell["status"], cell["rows"])
    pairs = folder.read("comparison")
    limited = [SIMPLE in row for row in pairs.select("system", "other").rows()]
    assert [False, True, True] == sorted(limited)
    assert limited == pairs["limited"].to_list()
    said = folder.read(f"predictions/fever/{SIMPLE}")
    labels = folder.read("benchmark/fever").join(said, on="claim_id")["label"]
    assert [2, 2] == labels.value_counts()["count"].to_list()
    rest = metadata(materialize(data, SIMPLE, "fever"), FEVER)
    asked = ("status", "engine calls", "engine results reused")
    assert ("ok", CLAIMS - 4, 4) == tuple(rest[name] for name in asked)


def test_what_is_missing_is_named_with_its_command(data: Path, instance: dg.DagsterInstance):
    """A test set; nothing is written."""
    (data / "benchmark/fever.parquet").unlink()
    result = materialize(data, SIMPLE, "fever", instance=instance)
    assert "--select 'key:\"benchmark/fever\"'" in failure(instance, result)
    assert not (data / "predictions").exists()


SYSTEM = TWO[0].key
PARTS = dg.StaticPartitionsDefinition([one.key for one in TWO])


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """Test sets, and nothing that was run."""
    write_tests(tmp_path)
    return tmp_path


def record(tests: Path, key: str, **said: str) -> None:
    path = run_path(tests, key)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"status": "ok", **said}), "utf-8")


def write_predictions(tests: Path, unparsed: int) -> None:
    """What ``SYSTEM`` said, of which some could not be read."""
    asked = evaluation_subset(pl.read_parquet(tests / "benchmark/fever.parquet")).claims
    made = predictions(TWO[0], "fever", asked)
    status = pl.Series("parse_status", ["unparsed"] * unparsed + ["parsed"] * made.height)
    frame = made.with_columns(status.head(made.height))
    write_parquet(frame, tests / f"predictions/fever/{SYSTEM}.parquet")
    record(tests, f"predictions/fever/{SYSTEM}")


def checked(
    tests: Path, key: Sequence[str], names: Sequence[str] = NAMES, **more: object
) -> dict[str, dg.AssetCheckEvaluation]:
    """The checks of one asset over files that lie there already, by name."""
    parts = PARTS if key[0] == "predictions" else None

    @dg.asset(key=list(key), partitions_def=parts)
    def there() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult()

    checks = evaluation_checks(names, TWO)
    mine = [c for c in checks if all(one.asset_key.path == list(key) for one in c.check_keys)]
    result = dg.materialize(
        [there, *mine],
        partition_key=SYSTEM if parts else None,
        resources={**resources(tests), **more},
    )
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


def test_unread_replies_are_a_warning_and_then_an_error(tests: Path):
    """One in twelve is above a twentieth; more than half of them is no system."""
    for unparsed, passed, severity in ((0, True, "WARN"), (1, False, "WARN"), (7, False, "ERROR")):
        write_predictions(tests, unparsed)
        found = checked(tests, ["predictions", "fever"])["parse_rate"]
        assert (passed, severity) == (found.passed, found.severity.value)


def test_another_split_than_the_published_one_is_a_warning(tests: Path):
    """Size and share of Supported claims are held against what is known in public."""
    real = {"corpora": CorporaResource(root=str(tests))}
    claim = pl.read_parquet(tests / "benchmark/fever.parquet").head(1)
    for rows, supported, passed in ((2_962, 1_411, 1), (2_961, 1_411, 0), (2_962, 1_700, 0)):
        labels = ["Supported"] * supported + ["Refuted"] * (rows - supported)
        claims = pl.concat([claim] * rows).with_columns(label=pl.Series(labels))
        write_parquet(claims, tests / "benchmark/feverous.parquet")
        found = checked(tests, ["benchmark", "feverous"], ["feverous"], **real)["label_balance"]
        assert (passed, "WARN") == (found.passed, found.severity.value)
        assert checked(tests, ["benchmark", "feverous"], ["feverous"])["label_balance"].passed


def test_a_test_claim_in_a_training_set_is_found(tests: Path):
    """The exact match, in another case, in the set drawn at random; a clean set passes."""
    leaked = pl.read_parquet(tests / "benchmark/fever.parquet")["claim"][0]
    clean = [example_row(claim="Nobody ever saw the comet of Selmoor twice")]
    write_parquet(frame_of(TRAINING_CLAIMS, clean), tests / "training_claims.parquet")
    record(tests, "decontaminated", config=DecontaminationSettings().model_dump_json())
    write_parquet(pl.DataFrame(), tests / "leaderboard.parquet")
    assert checked(tests, ["leaderboard"])["no_leakage"].passed
    dirty = [*clean, example_row(claim=leaked.upper())]
    write_parquet(frame_of(TRAINING_CLAIMS, dirty), tests / "training_claims_random.parquet")
    found = checked(tests, ["leaderboard"])["no_leakage"]
    assert not found.passed
    results = {name: value.value for name, value in found.metadata.items()}
    assert 1 == sum(n for name, n in results.items() if name.startswith("training_claims_random: "))
    assert ["training_claims", "training_claims_random"] == results["training sets"]


def test_every_check_of_a_partitioned_asset_has_its_partitions():
    """Also of those that come; and nobody reads that this is a preview of Dagster's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = build_definitions(read_settings({}))
    assets = [one for one in made.assets or [] if isinstance(one, dg.AssetsDefinition)]
    parts = {one.key: one.partitions_def for one in assets}
    checks = [spec for one in made.asset_checks or [] for spec in one.check_specs]
    wrong = [spec.key for spec in checks if spec.partitions_def != parts[spec.asset_key]]
    assert [] == wrong
    assert 11 < len([spec for spec in checks if spec.partitions_def])


ENDPOINT, DEV = "simple-endpoint-faithful", 60
SURE = spelled(Supported=-0.05, Refuted=-3.0)
"""95 % for Supported."""


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    """Test sets, and a pool of which ten claims are for training."""
    write_tests(tmp_path)
    said = [(str(n), f"claim {n}", ("Supported", "Refuted")[n % 2]) for n in range(DEV + 10)]
    rows = [example_row(document_id=n, claim=text, label=label) for n, text, label in said]
    silver = frame_of(SILVER_DECOMPOSED, rows)
    write_parquet(silver, tmp_path / "silver_decomposed.parquet")
    write_parquet(silver[:10], tmp_path / "training_claims.parquet")
    return tmp_path


def calibrate(
    pooled: Path,
    system: str,
    key: str,
    instance: dg.DagsterInstance,
    url: str = "",
    **config: object,
) -> dg.ExecuteInProcessResult:
    """One asset of one system; ``url`` is where a person's own model is served."""
    served = EndpointConfig(base_url=[url], model=MODEL) if url else EndpointConfig()
    model = EvaluationModelResource(results_dir=str(pooled / "engine_results"), endpoint=served)
    result = dg.materialize(
        evaluation_assets(TEST_SETS, SYSTEMS, None),
        selection=dg.AssetSelection.assets(dg.AssetKey(key.split("/"))),
        partition_key=system,
        resources=resources(pooled) | {"evaluation_model": model},
        instance=instance,
        run_config={"ops": {key.replace("/", "__"): {"config": config}}},
        raise_on_error=False,
    )
    model.close()
    return result


def test_a_calibration_is_fitted_used_and_refused(pooled: Path, instance: dg.DagsterInstance):
    """On unused claims alone; then predictions carry it; another prompt, and they stop."""
    path = pooled / f"calibrations/{ENDPOINT}.json"
    with FaultServer(usual=SURE) as server:
        made = calibrate(pooled, ENDPOINT, "calibrations", instance, server.url)
        assert made.success
        asked = server.prompts
        assert {5} == {body["top_logprobs"] for body in server.asked}
        assert DEV == len(asked)  # the first ones are asked once
        assert not [one for n in range(10) for one in asked if f"claim {n}\n" in one]
        assert calibrate(pooled, ENDPOINT, "predictions/fever", instance, server.url).success
    found = Calibration.model_validate_json(path.read_text("utf-8"))
    assert (DEV, "temperature", f"chat:{MODEL}") == (found.rows, found.method, found.model)
    assert found.error_before == pytest.approx(0.45, abs=0.01)  # 95 % sure, half right
    assert found.error_after < 0.05
    shown = metadata(made, "calibrations")
    assert found.fitted_on == shown["fitted on"]
    assert found.brier_after == pytest.approx(shown["brier after"], abs=1e-4)
    assert "| calibrated |" in shown["reliability"]
    table = pl.read_parquet(pooled / f"calibrations/{ENDPOINT}.parquet")
    assert {"normalised", "calibrated"} == set(CALIBRATIONS.conform(table)["reading"])
    row = DataFolder(base_dir=str(pooled)).read(f"predictions/fever/{ENDPOINT}").row(0, named=True)
    assert row["confidence_normalised"] == pytest.approx(0.95, abs=0.01)
    assert row["confidence_calibrated"] == pytest.approx(0.5, abs=0.02)
    other = found.model_copy(update={"prompt_hash": "cd" * 32})
    path.write_text(other.model_dump_json(), "utf-8")
    with FaultServer(usual=SURE) as server:
        refused = calibrate(pooled, ENDPOINT, "predictions/fever", instance, server.url)
        assert [] == server.asked
        reason = failure(instance, refused)
        assert "prompt hash cdcd" in reason
        assert f"""--select 'key:"calibrations"' --partition {ENDPOINT}""" in reason
        again = calibrate(pooled, ENDPOINT, "calibrations", instance, server.url)
        assert again.success
        assert [] == server.asked  # what was answered stands in shards
    assert found == Calibration.model_validate_json(path.read_text("utf-8"))


def test_what_cannot_be_calibrated_is_told_so(pooled: Path, instance: dg.DagsterInstance):
    """Rules without confidence, an endpoint without log probabilities, a damaged file."""
    reason = failure(instance, calibrate(pooled, SIMPLE, "calibrations", instance))
    assert f"system '{SIMPLE}'" in reason
    with FaultServer(usual=replying("Supported")) as server:
        result = calibrate(pooled, ENDPOINT, "calibrations", instance, server.url)
        assert "log-probabilities" in failure(instance, result)
        assert 40 == len(server.asked)
    assert not list((pooled / "calibrations").glob("*"))
    for answers in ("prediction_shards", "engine_results"):
        shutil.rmtree(pooled / answers, ignore_errors=True)
    with FaultServer(usual=SURE) as server:
        path = pooled / f"calibrations/{ENDPOINT}.json"
        assert calibrate(pooled, ENDPOINT, "calibrations", instance, server.url).success
        fitted = json.loads(path.read_text("utf-8"))
        for stored in ({}, fitted | {"method": "isotonic"}):
            path.write_text(json.dumps(stored), "utf-8")
            result = calibrate(pooled, ENDPOINT, "predictions/fever", instance, server.url)
            reason = failure(instance, result)
            assert str(path) in reason
            assert f"""--select 'key:"calibrations"' --partition {ENDPOINT}""" in reason


# The edge from ``policy``

RUNS = ("tiny", "tiny-seed_1")
EDGE_SYSTEMS = systems(METHODS, RUNS)
POLICY = dg.AssetKey("policy")
PREDICTIONS = dg.AssetKey(["predictions", "fever"])


def test_only_a_policys_system_depends_on_a_run(tmp_path: Path):
    """One run each, of predictions and calibrations; a baseline and a verifier need none."""

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(list(RUNS)))
    def policy() -> None:
        raise AssertionError

    assets = [policy, *evaluation_assets(TEST_SETS, EDGE_SYSTEMS, None)]
    made = dg.Definitions(assets=assets, resources=resources(tmp_path))
    resolved = made.resolve_asset_graph()

    def runs(system: str, key: dg.AssetKey) -> list[str]:
        needed = resolved.get_parent_partition_keys_for_child(system, POLICY, key)
        return list(needed.partitions_subset.get_partition_keys())

    policies = {f"decomposerl-{run}": [run] for run in RUNS}
    for key in (PREDICTIONS, dg.AssetKey("calibrations")):
        found = {one.key: runs(one.key, key) for one in EDGE_SYSTEMS}
        assert {one.key: policies.get(one.key, []) for one in EDGE_SYSTEMS} == found
