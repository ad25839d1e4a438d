"""The asset ``policy``: what it starts, shows and gives, and how its process ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from pydantic import ValidationError

from assets.training import PolicyConfig
from decomposerl.errors import EngineMissing
from decomposerl.progress import watched
from project import PYTHONPATH, SUPPORT
from resources.training.process import (
    Generation,
    RunLimits,
    TrainingRun,
    meaning_of,
    outcome_among,
    outcome_message,
)
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import RunInputs, base_version
from training_graph import RECIPES, materialize, write_claims
from training_stand_in import STEPS


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_claims(tmp_path)
    return tmp_path


def messages(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """All that the run's log says, failures with their causes."""
    lines = []
    for entry in instance.all_logs(result.run_id):
        lines.append(entry.user_message)
        event = entry.dagster_event
        if event is not None and event.is_step_failure:
            lines.append(str(event.step_failure_data.error))
    return "\n".join(lines)


def test_a_run_shows_its_steps_and_gives_a_policy(data: Path, instance: dg.DagsterInstance):
    """Steps stream into the log; metadata has curves, both ends, judge, time; the check passes."""
    result = materialize("good", data, instance)
    assert result.success
    log = messages(instance, result)
    assert f"step 1 of {STEPS}: weighted sum 3.010 ± 0.500, verification 0.250" in log
    assert f"step {STEPS} of {STEPS}" in log
    assert "few questions" in log
    (seen, *_) = instance.fetch_observations(dg.AssetKey("policy"), limit=1).records
    assert seen.run_id == result.run_id
    assert "good" == seen.partition_key
    (made,) = result.asset_materializations_for_node("policy")
    assert made.partition == "good"
    metadata = {name: value.value for name, value in made.metadata.items()}
    assert metadata["adapter"] == str(data / "policy/good/adapter")
    assert metadata["attempts"] == 1
    assert metadata["stopped early"] == "no"
    assert metadata["held out greedy/balanced accuracy after"] == 0.75
    assert "+0.250" in metadata["before and after"]
    assert "75.0 %" in metadata["wall time by phase"]
    assert metadata["learning curves"].startswith("![")
    assert {"calls": 210, "dollars": 0.0} == metadata["judge"]
    assert metadata["recipe"]["model"] == "hub/name"
    (evaluation,) = result.get_asset_check_evaluations()
    assert (True, "good") == (evaluation.passed, evaluation.partition)
    assert "3.2" in evaluation.metadata["means over the last 20 steps"].value


def test_bars_of_the_process_are_shown_by_the_run(data: Path):
    """As long as they are open, and never as messages of the run."""
    looks: list[list[tuple[str, int, int]]] = []
    with watched(lambda bars: looks.append([(b.what, b.done, b.total) for b in bars])):
        assert materialize("good", data).success
    assert [("training", 1, STEPS)] == looks[0]
    assert [] == looks[-1]


def test_the_process_gets_the_run_that_the_key_names(data: Path):
    """Recipe with its overrides, claims, held-out claims that no training set holds, and key."""
    assert materialize("good", data, steps=7, seed=42, stop_unhealthy=False).success
    run = TrainingRun.from_json((data / "policy_runs/good/run.json").read_text("utf-8"))
    assert (7, 42) == (run.experiment.optimization.steps, run.experiment.seed)
    assert not run.limits.stop_unhealthy
    assert run.claims == data / f"policy/good/inputs/{run.key}/claims.parquet"
    assert pl.read_parquet(run.claims).equals(pl.read_parquet(data / "training_claims.parquet"))
    assert run.held_out is not None
    held = set(pl.read_parquet(run.held_out)["claim_id"])
    assert 2 == len(held)
    assert held.isdisjoint(pl.read_parquet(run.claims)["claim_id"])
    assert materialize("good", data).success
    again = TrainingRun.from_json((data / "policy_runs/good/run.json").read_text("utf-8"))
    assert again.key != run.key


def test_another_base_is_a_run_of_its_own_and_is_evaluated_on_it(data: Path):
    """The earlier run is kept aside, and the adapter's base is the one that it was trained on."""
    assert materialize("good", data).success
    first = TrainingRun.from_json((data / "policy_runs/good/run.json").read_text("utf-8"))
    assert materialize("good", data, model="hub/another").success
    run = TrainingRun.from_json((data / "policy_runs/good/run.json").read_text("utf-8"))
    assert ("hub/another", "hub/another") == (run.base, run.experiment.model)
    assert first.base != run.base
    assert first.key != run.key


def test_data_version_follows_adapter_and_curves(data: Path, instance: dg.DagsterInstance):
    """The same run gives the same version, another recipe another one."""

    def version(**config: int) -> str:
        result = materialize("good", data, instance, **config)
        (made,) = result.asset_materializations_for_node("policy")
        return str(made.tags["dagster/data_version"])

    first = version()
    assert first == version()
    assert first != version(steps=9)


def test_another_seed_is_refused_with_the_partition_to_train(
    data: Path, instance: dg.DagsterInstance
):
    """Under the same name it would replace the run of the recipe's own seed."""
    assert materialize("good", data, instance).success
    before = (data / "policy_runs/good/run.json").read_text("utf-8")
    result = materialize("good", data, instance, seed=3)
    assert not result.success
    log = messages(instance, result)
    assert "whose seed is 42: train --partition good-seed_3 instead" in log
    assert before == (data / "policy_runs/good/run.json").read_text("utf-8")


def test_runs_of_two_seeds_lie_side_by_side(data: Path):
    """Each has its folder and its key, and both are measured on the same held-out claims."""
    runs = []
    for part in ("good", "good-seed_1"):
        assert materialize(part, data).success
        run = TrainingRun.from_json((data / f"policy_runs/{part}/run.json").read_text("utf-8"))
        assert run.folder == data / "policy" / part
        runs.append(run)
    assert [42, 1] == [run.experiment.seed for run in runs]
    assert runs[0].key != runs[1].key
    first, second = (pl.read_parquet(str(run.held_out)) for run in runs)
    assert first.equals(second)
    assert not (data / "policy/good/superseded").exists()


def test_an_unhealthy_run_is_shown_and_fails_its_check(data: Path, instance: dg.DagsterInstance):
    """A run that stopped itself gives its policy, says why, and the check is an error."""
    result = materialize("stopped", data, instance)
    assert result.success
    assert "stopped early: in 100% of groups" in messages(instance, result)
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert evaluation.severity == dg.AssetCheckSeverity.ERROR
    assert ["zero_spread_groups"] == evaluation.metadata["findings"].value


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("killed", ["exit status 137", "kill -9", "its log is", "worker.log"]),
        ("broken", ["exit status 1", "the card fell off the bus"]),
        ("silent", ["ended without an outcome"]),
    ],
)
def test_a_process_that_dies_fails_the_asset(
    data: Path, instance: dg.DagsterInstance, part: str, said: list[str]
):
    """The failure names exit status and the last lines printed; nothing is materialized."""
    result = materialize(part, data, instance)
    assert not result.success
    log = messages(instance, result)
    assert [] == [words for words in said if words.lower() not in log.lower()]
    assert f"step 1 of {STEPS}" in log
    assert [] == result.asset_materializations_for_node("policy")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_message_that_cannot_be_read_costs_no_trained_policy(
    data: Path, instance: dg.DagsterInstance
):
    """Dagster's reader stops at half a line; the outcome is on disk."""
    result = materialize("unread", data, instance)
    assert "reader thread" in messages(instance, result)
    assert result.success
    assert 1 == len(result.asset_materializations_for_node("policy"))


def test_a_look_alone_materializes_nothing(data: Path, instance: dg.DagsterInstance):
    """With ``dry_run_only`` the run succeeds, says what it found, and leaves no policy."""
    result = materialize("good", data, instance, dry_run_only=True)
    assert result.success
    assert "30 steps will be made" in messages(instance, result)
    assert [] == result.asset_materializations_for_node("policy")
    assert not (data / "policy").exists()


def test_a_missing_input_is_named_with_its_command(tmp_path: Path, instance: dg.DagsterInstance):
    """Before anything is started the asset to materialize is named."""
    log = messages(instance, materialize("good", tmp_path, instance))
    assert "decomposerl run training_claims --upstream" in log
    assert not (tmp_path / "policy_runs").exists()


def wait_until(condition: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while not condition.exists():
        assert process.poll() is None, "the run ended before it could be interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lives(number: int) -> bool:
    status = Path(f"/proc/{number}/stat")
    return status.exists() and ") Z " not in status.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_ending_the_run_ends_its_process_with_a_checkpoint(data: Path, number: signal.Signals):
    """Cancelled, interrupted or killed by -9: the child is asked to end, and leaves no process."""
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    program = [sys.executable, str(SUPPORT / "training_graph.py"), "slow", str(data)]
    folder = data / "policy/slow"
    with (data / "output").open("wb") as output:
        process = subprocess.Popen(program, env=environment, stdout=output, stderr=output)
    wait_until(folder / "waiting", process)
    process.send_signal(number)
    assert process.wait(60) != 0
    child = int((folder / "process").read_text())
    deadline = time.monotonic() + 20
    while lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "SIGTERM" == (folder / "checkpoint").read_text()


def test_overrides_leave_the_recipe_alone_where_unset():
    """Without a setting the recipe is the recipe, digest and all."""
    assert RECIPES[0] == PolicyConfig().applied(RECIPES[0])
    changed = PolicyConfig(steps=5, held_out_claims=3).applied(RECIPES[0])
    assert (5, 3) == (changed.optimization.steps, changed.held_out.claims)
    assert changed.digest != RECIPES[0].digest


def test_a_run_may_differ_from_how_the_profile_trains():
    """What is set for one run is taken, all else stays as the profile has it."""
    profile = PolicyTrainerResource(module="m", device="cuda", checkpoint_every=50)
    same = PolicyConfig().applied_to_trainer(profile)
    assert profile.model_dump() == same.model_dump()
    other = PolicyConfig(launch=["-m", "torchrun"], checkpoint_every=5).applied_to_trainer(profile)
    assert (["-m", "torchrun"], 5) == (other.launch, other.checkpoint_every)
    assert ("m", "cuda") == (other.module, other.device)
    assert (50, []) == (profile.checkpoint_every, profile.launch)


def test_what_is_set_for_one_run_reaches_the_training_process():
    """Each field of the trainer becomes the run's, and is the profile's where it is not set."""
    inputs = RunInputs(RECIPES[0], "0" * 16, Path("c"), None, "b", "", Path("f"), Path("n"))
    fields = {"most_wait_s": 60, "sampler_check_every": 5, "importance_correction": False}
    trainer = PolicyConfig(**fields, report_to="trackio", python="python3").applied_to_trainer(
        PolicyTrainerResource(module="m")
    )
    run = trainer.plan_run(inputs, stop_unhealthy=True)
    assert "trackio" == TrainingRun.from_json(run.to_json()).report_to
    assert (60, 5) == (run.limits.most_wait_s, run.limits.sampler_check_every)
    assert not run.generation.importance_correction
    plain = PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=True)
    assert (RunLimits(), Generation(), "none") == (plain.limits, plain.generation, plain.report_to)


def test_a_tracker_that_is_not_installed_is_refused_before_the_process_starts():
    """With the command that installs it; a process of another interpreter checks its own."""
    trainer = PolicyTrainerResource(module="m", report_to="trackio")
    with pytest.raises(EngineMissing, match="trackio is not installed: pip install trackio"):
        trainer.require_reporter()
    trainer.model_copy(update={"python": "python3"}).require_reporter()
    with pytest.raises(ValidationError, match="report_to"):
        PolicyConfig(report_to="mlflow")


def test_base_weights_are_known_by_content(tmp_path: Path):
    """A hub name is itself; a folder is what it holds, wherever it stands."""
    assert "hub/name" == base_version("hub/name")
    versions = []
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
        versions.append(base_version(str(tmp_path / name)))
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize(
    ("status", "words"), [(-9, "137"), (137, "kill -9"), (143, "was terminated"), (77, "unknown")]
)
def test_exit_statuses_in_words(status: int, words: str):
    """A signal from Popen and the shell's number for it read the same."""
    assert words in meaning_of(status)


def test_an_outcome_survives_the_channel(data: Path, instance: dg.DagsterInstance):
    """What the process reports comes back equal through JSON; other messages are passed over."""
    assert materialize("good", data, instance).success
    run = TrainingRun.from_json((data / "policy_runs/good/run.json").read_text("utf-8"))
    from training_stand_in import outcome_of

    outcome = outcome_of(run)
    sent = json.loads(json.dumps([{"kind": "step"}, outcome_message(outcome), "noise"]))
    assert outcome == outcome_among(sent)
    assert None is outcome_among(sent[:1])
