"""The asset ``calibrations``: fitted, used by predictions, refused after a change."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.calibrations import calibrations_asset
from assets.evaluation import evaluation_assets
from decomposerl.evaluation.calibration import Calibration
from decomposerl.schemas import CALIBRATIONS, SILVER_DECOMPOSED
from evaluation_graph import SYSTEMS, TEST_SETS, metadata, resources, write_tests
from fault_server import MODEL, Answer, FaultServer, replying
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.served_policy import ServedModels
from resources.store.parquet import DataFolder, write_parquet
from strategies import example_row, frame_of

SIMPLE, ENDPOINT = "simple-rules-faithful", "simple-endpoint-faithful"
DEV = 60
LISTED = [{"token": "Supported", "logprob": -0.05}, {"token": "Refuted", "logprob": -3.0}]


def sure() -> Answer:
    """Supported, with 95 % for it."""
    answer = replying("Supported")
    content = [{**LISTED[0], "top_logprobs": LISTED}]
    answer.change["choices"][0]["logprobs"] = {"content": content}
    return answer


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Test sets, and a pool of which ten claims are for training."""
    write_tests(tmp_path)
    rows = [
        example_row(claim=f"claim {n}", label=("Supported", "Refuted")[n % 2], document_id=f"{n}")
        for n in range(DEV + 10)
    ]
    silver = frame_of(SILVER_DECOMPOSED, rows)
    write_parquet(silver, tmp_path / "silver_decomposed.parquet")
    write_parquet(silver[:10], tmp_path / "training_claims.parquet")
    return tmp_path


def materialize(
    data: Path,
    system: str,
    key: str,
    instance: dg.DagsterInstance,
    url: str = "",
    **config: object,
) -> dg.ExecuteInProcessResult:
    """One asset of one system; ``url`` is where a person's own model is served."""
    served = ServedModels(endpoints=[url], model=MODEL) if url else ServedModels()
    model = EvaluationModelResource(results_dir=str(data / "engine_results"), endpoint=served)
    result = dg.materialize(
        [calibrations_asset(SYSTEMS, None), *evaluation_assets(TEST_SETS, SYSTEMS, None)],
        selection=dg.AssetSelection.assets(dg.AssetKey(key.split("/"))),
        partition_key=system,
        resources=resources(data) | {"evaluation_model": model},
        instance=instance,
        run_config={"ops": {key.replace("/", "__"): {"config": config}}},
        raise_on_error=False,
    )
    model.close()
    return result


def failure(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """What the failed step said."""
    assert not result.success
    events = [entry.dagster_event for entry in instance.all_logs(result.run_id)]
    return "\n".join(str(e.step_failure_data.error) for e in events if e and e.is_step_failure)


def test_a_calibration_is_fitted_used_and_refused(data: Path, instance: dg.DagsterInstance):
    """On unused claims alone; then predictions carry it; another prompt, and they stop."""
    path = data / f"calibrations/{ENDPOINT}.json"
    with FaultServer(usual=sure()) as server:
        made = materialize(data, ENDPOINT, "calibrations", instance, server.url)
        assert made.success
        asked = server.prompts
        assert DEV == len(asked)  # the first ones are asked once
        assert not [one for n in range(10) for one in asked if f"claim {n}\n" in one]
        assert materialize(data, ENDPOINT, "predictions/fever", instance, server.url).success
    found = Calibration.model_validate_json(path.read_text("utf-8"))
    assert (DEV, "temperature", f"chat:{MODEL}") == (found.rows, found.method, found.model)
    assert found.error_before == pytest.approx(0.45, abs=0.01)  # 95 % sure, half right
    assert found.error_after < 0.05
    shown = metadata(made, "calibrations")
    assert found.fitted_on == shown["fitted on"]
    assert 100 * found.brier_after == pytest.approx(shown["Brier after, cross-fitted"], abs=1e-4)
    assert "| calibrated |" in shown["reliability"]
    table = pl.read_parquet(data / f"calibrations/{ENDPOINT}.parquet")
    assert {"normalised", "calibrated"} == set(CALIBRATIONS.conform(table)["reading"])
    row = DataFolder(base_dir=str(data)).read(f"predictions/fever/{ENDPOINT}").row(0, named=True)
    assert row["confidence_normalised"] == pytest.approx(0.95, abs=0.01)
    assert row["confidence_calibrated"] == pytest.approx(0.5, abs=0.02)
    other = found.model_copy(update={"prompt_hash": "cd" * 32})
    path.write_text(other.model_dump_json(), "utf-8")
    with FaultServer(usual=sure()) as server:
        refused = materialize(data, ENDPOINT, "predictions/fever", instance, server.url)
        assert [] == server.asked
        reason = failure(instance, refused)
        assert "prompt hash cdcd" in reason
        assert f"""--select 'key:"calibrations"' --partition {ENDPOINT}""" in reason
        again = materialize(data, ENDPOINT, "calibrations", instance, server.url)
        assert again.success
        assert [] == server.asked  # what was answered stands in shards
    assert found == Calibration.model_validate_json(path.read_text("utf-8"))


def test_what_cannot_be_calibrated_is_told_so(data: Path, instance: dg.DagsterInstance):
    """Rules without confidence, an endpoint without log probabilities, too few, a damaged file."""
    reason = failure(instance, materialize(data, SIMPLE, "calibrations", instance))
    assert f"system '{SIMPLE}'" in reason
    assert "none of 40 verdicts" in reason
    with FaultServer(usual=replying("Supported")) as server:
        result = materialize(data, ENDPOINT, "calibrations", instance, server.url)
        assert "log-probabilities" in failure(instance, result)
        assert 40 == len(server.asked)
    assert not list((data / "calibrations").glob("*"))
    shutil.rmtree(data / "prediction_shards")
    with FaultServer(usual=sure()) as server:
        few = materialize(data, ENDPOINT, "calibrations", instance, server.url, method="isotonic")
        assert f"{DEV} verdicts are too few" in failure(instance, few)
        path = data / f"calibrations/{ENDPOINT}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", "utf-8")
        result = materialize(data, ENDPOINT, "predictions/fever", instance, server.url)
        assert f"{path} is not a calibration" in failure(instance, result)
        assert materialize(data, ENDPOINT, "calibrations", instance, server.url).success
