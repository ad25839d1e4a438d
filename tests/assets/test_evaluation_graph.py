"""The evaluation's assets: every system of the embedded profile, resumed, limited, refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from decomposerl import schemas
from decomposerl.evaluation.regression import acceptable_scores
from evaluation_graph import (
    CLAIMS,
    OF_PROFILE,
    SYSTEMS,
    materialize,
    metadata,
    write_policy_of,
    write_tests,
)
from resources.catalogue.database import build_catalogue, engines_of, open_catalogue
from resources.evaluation.results_folder import write_accepted
from resources.store.parquet import DataFolder, file_sha256
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
    assert materialize(data, draws=200).success
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
    """Ten methods by both protocols and the verifier: one row a claim, by its names."""
    folder = DataFolder(base_dir=str(whole))
    asked = folder.read("benchmark/fever").drop_nulls(["label", "evidence"])["claim_id"].to_list()
    assert CLAIMS == len(asked)
    assert {system.method for system in SYSTEMS} - {"decomposerl"} == {
        key.partition("-")[0] for key in OF_PROFILE
    }
    for system in OF_PROFILE:
        made = schemas.PREDICTIONS.conform(folder.read(f"predictions/fever/{system}"))
        assert asked == made["claim_id"].to_list()
        assert [system] == made["system"].unique().to_list()
        assert "failed" not in set(made["parse_status"])
        calls = schemas.CALLS.conform(folder.read(f"calls/fever/{system}"))
        per_claim = calls.group_by("claim_id").agg(pl.len().cast(pl.Int64).alias("calls"))
        assert made.select("claim_id", "calls").sort("claim_id").equals(per_claim.sort("claim_id"))


def test_a_verifier_tells_right_from_wrong_and_the_leaderboard_shows_it(whole: Path):
    """Other years are refuted; the cell has its interval, the engine, no figure of the paper."""
    board = DataFolder(base_dir=str(whole)).read("leaderboard")
    (cell,) = board.filter(system="minicheck-lexical", benchmark="fever").to_dicts()
    assert (0, CLAIMS, "scored", None) == tuple(
        cell[name] for name in ("table", "rows", "status", "paper")
    )
    assert cell["score"] > 90
    assert cell["engine"].startswith("lexical_verifier")
    ran = board.filter(pl.col("engine").is_not_null())
    assert set(OF_PROFILE) == set(ran["system"])
    assert {0} == set(ran["table"])


def test_a_test_set_without_files_is_not_available(whole: Path):
    """Nobody is asked, nothing fails, and the leaderboard says which cells it is."""
    folder = DataFolder(base_dir=str(whole))
    assert 0 == folder.read(f"predictions/wice/{SIMPLE}").height
    assert "not_available" == folder.run(f"predictions/wice/{SIMPLE}")["status"]
    status = folder.read("leaderboard").filter(system=SIMPLE, benchmark="wice")["status"]
    assert ["not_available"] == status.to_list()


def test_all_pairs_are_compared(whole: Path):
    """Each pair once, over the claims that both have."""
    pairs = DataFolder(base_dir=str(whole)).read("comparison")
    assert len(OF_PROFILE) * (len(OF_PROFILE) - 1) // 2 == pairs.height
    assert {CLAIMS} == set(pairs["rows"])


def test_the_catalogue_has_it_all(whole: Path):
    """Views over predictions, calls and scores; the funnel's engines are not the evaluation's."""
    build_catalogue(whole)
    with open_catalogue(whole) as connection:
        query = "SELECT count(DISTINCT system), count(*) FROM predictions"
        assert [(len(OF_PROFILE), CLAIMS * len(OF_PROFILE))] == connection.sql(query).fetchall()
        wide = connection.sql("SELECT system FROM leaderboard_wide WHERE engine IS NOT NULL")
        assert len(OF_PROFILE) == len(wide.fetchall())
        scored = connection.sql("SELECT DISTINCT system FROM scores").fetchall()
        assert set(OF_PROFILE) == {system for (system,) in scored}
    assert [] == engines_of(whole)


def test_every_file_is_on_the_reference_page(whole: Path):
    """``docs/reference/files.md`` has a path for each file that an evaluation writes."""
    assert [] == unlisted(whole)


def test_what_was_left_out_and_asked_is_shown(data: Path):
    """Claims without a label or evidence are counted with the reason; calls by operation."""
    result = materialize(data, SIMPLE, "fever")
    shown = metadata(result, FEVER)
    assert (1, 1, CLAIMS) == tuple(
        shown[name]
        for name in ("left out: no_label", "left out: no_evidence", "claims that could be asked")
    )
    assert ("ok", CLAIMS, 0) == tuple(
        shown[name] for name in ("status", "engine calls", "engine results reused")
    )
    assert f"- **verify \\(verdict\\)**: {CLAIMS} calls," in shown["calls by operation"]
    assert "verdicts" == next(name for name in shown if not name.startswith("dagster/"))
    assert {"balanced_accuracy", "parse_rate"} <= set(metadata(result, "scores__fever"))
    assert all(check.passed for check in result.get_asset_check_evaluations())
    assert 3 == len(result.get_asset_check_evaluations())


def test_a_finished_run_is_a_no_op_and_gives_the_same_bytes(data: Path):
    """The second time nobody is asked, and the predictions are the same file."""
    path = data / f"predictions/fever/{SIMPLE}.parquet"
    assert materialize(data, SIMPLE, "fever").success
    first = file_sha256(path)
    again = metadata(materialize(data, SIMPLE, "fever"), FEVER)
    assert (0, CLAIMS) == (again["engine calls"], again["engine results reused"])
    assert first == file_sha256(path)


def test_a_comparison_with_a_short_run_says_so(data: Path, whole: Path):
    """Whole runs are held against each other unmarked, each against the short one marked."""
    for system in OF_PROFILE[1:3]:
        for name in (f"predictions/fever/{system}.parquet", _record(system)):
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(whole / name, data / name)
    assert materialize(data, SIMPLE, "fever", limit=4).success
    assert materialize(data, draws=100).success
    pairs = DataFolder(base_dir=str(data)).read("comparison")
    short = [SIMPLE in row for row in pairs.select("system", "other").rows()]
    assert [False, True, True] == sorted(short)
    assert short == pairs["limited"].to_list()


def _record(system: str) -> str:
    return f"stage_runs/predictions__fever__{system}.json"


def test_a_short_run_says_so_and_a_whole_one_asks_the_rest(data: Path):
    """Four claims, two of either label; limited in status and board; then eight more."""
    short = materialize(data, SIMPLE, "fever", limit=4)
    shown = metadata(short, FEVER)
    assert ("limited", 4) == (shown["status"], shown["engine calls"])
    assert all(check.passed for check in short.get_asset_check_evaluations())
    assert materialize(data).success
    folder = DataFolder(base_dir=str(data))
    (cell,) = folder.read("leaderboard").filter(system=SIMPLE, benchmark="fever").to_dicts()
    assert ("limited", 4) == (cell["status"], cell["rows"])
    labels = folder.read("benchmark/fever").join(
        folder.read(f"predictions/fever/{SIMPLE}"), on="claim_id"
    )["label"]
    assert [2, 2] == labels.value_counts()["count"].to_list()
    whole = metadata(materialize(data, SIMPLE, "fever"), FEVER)
    assert ("ok", CLAIMS - 4, 4) == tuple(
        whole[name] for name in ("status", "engine calls", "engine results reused")
    )


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft's own
def test_a_trained_policy_is_a_system_like_any_other(data: Path):
    """It gives traces and confidences; the metadata name the chosen weights."""
    write_policy_of(data)
    result = materialize(data, "decomposerl-tiny", "fever", limit=2)
    assert result.success
    made = DataFolder(base_dir=str(data)).read("predictions/fever/decomposerl-tiny")
    assert (2, 0) == (made.height, made["trace"].null_count())
    assert 0 == made["confidence_raw"].null_count()
    shown = metadata(result, FEVER)
    assert ("final", 7) == (shown["checkpoint rule"], shown["checkpoint"])


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("simple-qwen2.5-7b-faithful", "no endpoint serves 'Qwen/Qwen2.5-7B-Instruct'"),
        ("minicheck-7b", "needs the verifier minicheck_hosted; this profile has embedded"),
        ("decomposerl-tiny", "decomposerl train tiny"),
    ],
)
def test_what_the_profile_cannot_run_is_refused_in_words(
    data: Path, instance: dg.DagsterInstance, system: str, said: str
):
    """The system, what it needs, and where there is one the command; nothing is written."""
    result = materialize(data, system, "fever", instance=instance)
    assert not result.success
    assert said in failure(instance, result)
    assert not (data / "predictions").exists()


def test_a_test_set_that_was_never_read_is_named_with_its_command(
    data: Path, instance: dg.DagsterInstance
):
    """That its files were never looked for is not the same as that there are none."""
    (data / "benchmark/fever.parquet").unlink()
    result = materialize(data, SIMPLE, "fever", instance=instance)
    assert "--select 'key:\"benchmark/fever\"'" in failure(instance, result)


def test_the_gate_holds_later_scores_against_the_accepted_ones(whole: Path, data: Path):
    """It passes on what was accepted, and fails where an accepted score was higher."""
    board = DataFolder(base_dir=str(whole)).read("leaderboard")
    accepted = [cell for cell in acceptable_scores(board) if cell.system == SIMPLE]
    assert 1 == len(accepted)
    assert materialize(data, SIMPLE, "fever").success

    def gate() -> dg.AssetCheckEvaluation:
        found = materialize(data).get_asset_check_evaluations()
        return next(one for one in found if one.check_name == "regression_gate")

    assert "nothing is accepted yet" in str(gate().description)
    write_accepted(data, accepted, "2030-01-01", "")
    assert gate().passed
    higher = [cell.model_copy(update={"low": cell.score + 1}) for cell in accepted]
    write_accepted(data, higher, "2030-01-01", "")
    result = gate()
    assert not result.passed
    assert dg.AssetCheckSeverity.ERROR == result.severity
    assert f"below: {SIMPLE} on fever" in str(result.description)
