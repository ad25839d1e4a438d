"""The evaluation's checks on data that is wrong: each finds what it is there for."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.evaluation import evaluation_assets
from assets.evaluation_checks import evaluation_checks
from dagster_project.definitions import build_definitions
from dagster_project.profiles import profile_from_environment
from decomposerl.evaluation.subset import evaluation_subset
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.schemas import TRAINING_CLAIMS
from evaluation_files import SYSTEMS, predictions
from evaluation_graph import (
    NAMES,
    OF_PROFILE,
    TEST_SETS,
    materialize,
    resources,
    write_tests,
)
from leaderboard_parts import score, scores
from resources.corpora.resource import CorporaResource
from resources.store.parquet import run_path, write_parquet
from strategies import example_row, frame_of

SYSTEM = SYSTEMS[0].key
PARTS = dg.StaticPartitionsDefinition([one.key for one in SYSTEMS])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_tests(tmp_path)
    return tmp_path


def record(data: Path, key: str, **said: str) -> None:
    path = run_path(data, key)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"status": "ok", **said}), "utf-8")


def write_predictions(data: Path, *, unparsed: int = 0, left: int | None = None, **said: str):
    """What ``SYSTEM`` said of the first ``left`` claims, of which some could not be read."""
    asked = evaluation_subset(pl.read_parquet(data / "benchmark/fever.parquet")).claims
    made = predictions(SYSTEMS[0], "fever", asked.head(asked.height if left is None else left))
    status = pl.Series("parse_status", ["unparsed"] * unparsed + ["parsed"] * made.height)
    frame = made.with_columns(status.head(made.height))
    write_parquet(frame, data / f"predictions/fever/{SYSTEM}.parquet")
    record(data, f"predictions/fever/{SYSTEM}", **said)


def write_scores(data: Path, name: str, rows: int, supported: int) -> None:
    row = score(SYSTEM, name, 50.0, rows=rows) | {"supported": supported}
    write_parquet(scores([row]), data / f"scores/{name}/{SYSTEM}.parquet")
    record(data, f"scores/{name}/{SYSTEM}")


def checked(
    data: Path, key: Sequence[str], names: Sequence[str] = NAMES, **more: object
) -> dict[str, dg.AssetCheckEvaluation]:
    """The checks of one asset over files that lie there already, by name."""

    @dg.asset(key=list(key), partitions_def=PARTS if len(key) > 1 else None)
    def there() -> dg.MaterializeResult[None]:
        return dg.MaterializeResult()

    mine = [
        check
        for check in evaluation_checks(names, SYSTEMS)
        if all(one.asset_key.path == list(key) for one in check.check_keys)
    ]
    result = dg.materialize(
        [there, *mine],
        partition_key=SYSTEM if len(key) > 1 else None,
        resources={**resources(data), **more},
    )
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


@pytest.mark.parametrize(
    ("unparsed", "passed", "severity"), [(0, 1, "WARN"), (1, 0, "WARN"), (7, 0, "ERROR")]
)
def test_unread_replies_are_a_warning_and_then_an_error(
    data: Path, unparsed: int, passed: int, severity: str
):
    """One in twelve is above a twentieth; more than half of them is no system."""
    write_predictions(data, unparsed=unparsed)
    found = checked(data, ["predictions", "fever"])["parse_rate"]
    assert (passed, severity) == (found.passed, found.severity.value)


def test_a_claim_without_its_prediction_is_found(data: Path):
    """Eleven of twelve fail, unless the run was limited."""
    write_predictions(data, left=11)
    found = checked(data, ["predictions", "fever"])["every_claim_once"]
    assert (False, 1) == (found.passed, found.metadata["missing"].value)
    write_predictions(data, left=11, status="limited")
    assert checked(data, ["predictions", "fever"])["every_claim_once"].passed


@pytest.mark.parametrize(
    ("rows", "supported", "passed"),
    [(2_962, 1_411, 1), (2_961, 1_411, 0), (2_962, 1_700, 0)],
)
def test_another_split_than_the_published_one_is_a_warning(
    data: Path, rows: int, supported: int, passed: int
):
    """Size and share of Supported claims are held against what is known in public."""
    write_scores(data, "feverous", rows, supported)
    real = {"corpora": CorporaResource(root=str(data))}
    found = checked(data, ["scores", "feverous"], ["feverous"], **real)["label_balance"]
    assert (passed, "WARN") == (found.passed, found.severity.value)
    assert checked(data, ["scores", "feverous"], ["feverous"])["label_balance"].passed


def test_a_test_claim_in_a_training_set_is_found(data: Path):
    """The exact match, in another case, in the set drawn at random; a clean set passes."""
    leaked = pl.read_parquet(data / "benchmark/fever.parquet")["claim"][0]
    clean = [example_row(claim="Nobody ever saw the comet of Selmoor twice")]
    write_parquet(frame_of(TRAINING_CLAIMS, clean), data / "training_claims.parquet")
    record(data, "decontaminated", config=DecontaminationSettings().model_dump_json())
    write_parquet(pl.DataFrame(), data / "leaderboard.parquet")
    assert checked(data, ["leaderboard"])["no_leakage"].passed
    dirty = [*clean, example_row(claim=leaked.upper())]
    write_parquet(frame_of(TRAINING_CLAIMS, dirty), data / "training_claims_random.parquet")
    found = checked(data, ["leaderboard"])["no_leakage"]
    assert not found.passed
    results = {name: value.value for name, value in found.metadata.items()}
    assert 1 == sum(n for name, n in results.items() if name.startswith("training_claims_random: "))
    assert ["training_claims", "training_claims_random"] == results["training sets"]


def results_of(
    instance: dg.DagsterInstance, key: Sequence[str], name: str
) -> dict[str | None, str]:
    """The latest result of a check, by partition, as Dagster shows it."""
    check = dg.AssetCheckKey(dg.AssetKey(key), name)
    (found,) = [instance.event_log_storage.get_asset_check_partition_info([check])]
    return {one.partition_key: one.latest_execution_status.value for one in found}


def test_each_system_keeps_its_result(data: Path):
    """Two systems one after the other, then the first again over a file that lost its rows."""
    first, second = OF_PROFILE[:2]
    with dg.instance_for_test() as instance:
        for system in (first, second):
            assert materialize(data, system, "fever", instance=instance).success
        names = {"predictions": ("parse_rate", "every_claim_once"), "scores": ("label_balance",)}
        for folder, checks in names.items():
            for name in checks:
                results = results_of(instance, [folder, "fever"], name)
                assert {first: "SUCCEEDED", second: "SUCCEEDED"} == results
        path = data / f"predictions/fever/{first}.parquet"
        write_parquet(pl.read_parquet(path).head(3), path)
        again = dg.materialize(
            [*evaluation_assets(TEST_SETS, SYSTEMS, None), *evaluation_checks(NAMES, SYSTEMS)],
            selection=dg.AssetSelection.checks_for_assets(dg.AssetKey(["predictions", "fever"])),
            tags={"dagster/partition": first},  # as Dagster's UI starts checks alone
            resources=resources(data),
            instance=instance,
        )
        assert not all(one.passed for one in again.get_asset_check_evaluations())
        results = results_of(instance, ["predictions", "fever"], "every_claim_once")
        assert {first: "FAILED", second: "SUCCEEDED"} == results


def test_every_check_of_a_partitioned_asset_has_its_partitions():
    """Also of those that come; and nobody reads that this is a preview of Dagster's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = build_definitions(profile_from_environment({}))
    assets = [one for one in made.assets or [] if isinstance(one, dg.AssetsDefinition)]
    parts = {one.key: one.partitions_def for one in assets}
    checks = [spec for one in made.asset_checks or [] for spec in one.check_specs]
    wrong = [spec.key for spec in checks if spec.partitions_def != parts[spec.asset_key]]
    assert [] == wrong
    assert 30 < len([spec for spec in checks if spec.partitions_def])
