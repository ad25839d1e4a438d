"""The asset ``policy``: what it starts, shows and gives, how its process ends, and its claims."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random

import dagster as dg
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assets.training import PolicyConfig
from assets.training_inputs import training_claims_random
from decomposerl.errors import EngineMissing
from decomposerl.progress import watched
from decomposerl.schemas import LABELS, SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.training.claim_draws import held_out_claims, random_claims
from project import PYTHONPATH, SUPPORT
from resources.store.parquet import DataFolder, ParquetTables, write_parquet
from resources.training.process import (
    OUTCOME,
    Generation,
    RunLimits,
    TrainingRun,
    meaning_of,
    outcome_among,
)
from resources.training.resource import PolicyTrainerResource
from resources.training.run_inputs import RunInputs, base_version
from strategies import FRAME_LAW, example_row, frame_of, frames
from training_graph import RECIPES, materialize, write_claims
from training_stand_in import STEPS, outcome_of


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
    """Steps stream into the log, bars are open meanwhile; then metadata and the check."""
    looks: list[list[tuple[str, int, int]]] = []
    with watched(lambda bars: looks.append([(b.what, b.done, b.total) for b in bars])):
        result = materialize("good", data, instance)
    assert result.success
    assert ([("training", 1, STEPS)], []) == (looks[0], looks[-1])
    log = messages(instance, result)
    assert f"step 1 of {STEPS}: weighted sum 3.010 ± 0.500, verification 0.250" in log
    assert f"step {STEPS} of {STEPS}" in log
    assert "few questions" in log
    (seen, *_) = instance.fetch_observations(dg.AssetKey("policy"), limit=1).records
    assert (result.run_id, "good") == (seen.run_id, seen.partition_key)
    (made,) = result.asset_materializations_for_node("policy")
    assert made.partition == "good"
    metadata = {name: value.value for name, value in made.metadata.items()}
    expected = {"adapter": str(data / "policy/good/adapter"), "attempts": 1, "stopped early": "no"}
    expected |= {"judge": {"calls": 210, "dollars": 0.0}}
    expected |= {"held out greedy/balanced accuracy after": 0.75}
    assert expected == {name: metadata[name] for name in expected}
    assert "+0.250" in metadata["before and after"]
    assert "75.0 %" in metadata["wall time by phase"]
    assert metadata["learning curves"].startswith("![")
    assert metadata["recipe"]["model"] == "hub/name"
    (evaluation,) = result.get_asset_check_evaluations()
    assert (True, "good") == (evaluation.passed, evaluation.partition)
    assert "3.2" in evaluation.metadata["means over the last 20 steps"].value


def test_the_process_gets_the_run_that_the_key_names(data: Path, instance: dg.DagsterInstance):
    """Recipe with its overrides, claims, held-out claims that no training set holds, and key.

    Another recipe or base is another run with another data version; a seed has its own partition.
    """

    def trained(part: str = "good", **config: object) -> tuple[TrainingRun, str]:
        result = materialize(part, data, instance, **config)
        (made,) = result.asset_materializations_for_node("policy")
        text = (data / f"policy_runs/{part}/run.json").read_text("utf-8")
        return TrainingRun.from_json(text), str(made.tags["dagster/data_version"])

    run, version = trained(steps=7, seed=42, stop_unhealthy=False)
    assert (7, 42) == (run.experiment.optimization.steps, run.experiment.seed)
    assert not run.limits.stop_unhealthy
    assert run.claims == data / f"policy/good/inputs/{run.key}/claims.parquet"
    assert pl.read_parquet(run.claims).equals(pl.read_parquet(data / "training_claims.parquet"))
    held = set(pl.read_parquet(str(run.held_out))["claim_id"])
    assert 2 == len(held)
    assert held.isdisjoint(pl.read_parquet(run.claims)["claim_id"])
    other, based = trained(model="hub/another"), trained()
    assert ("hub/another", "hub/another") == (other[0].base, other[0].experiment.model)
    assert other[0].base != run.base == based[0].base
    assert 3 == len({run.key, other[0].key, based[0].key})
    assert version != based[1] == trained()[1]
    assert not (data / "policy/good-seed_1").exists()
    seed, _ = trained("good-seed_1")
    assert (1, data / "policy/good-seed_1") == (seed.experiment.seed, seed.folder)
    assert seed.key != based[0].key
    held_out = [pl.read_parquet(str(one.held_out)) for one in (based[0], seed)]
    assert held_out[0].equals(held_out[1])
    before = (data / "policy_runs/good/run.json").read_text("utf-8")
    result = materialize("good", data, instance, seed=3)
    assert not result.success
    assert "train --partition good-seed_3" in messages(instance, result)
    assert before == (data / "policy_runs/good/run.json").read_text("utf-8")


def test_an_unhealthy_run_is_shown_and_fails_its_check(data: Path, instance: dg.DagsterInstance):
    """A run that stopped itself gives its policy, says why, and the check is an error."""
    result = materialize("stopped", data, instance)
    assert result.success
    assert "stopped early: in 100% of groups" in messages(instance, result)
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert evaluation.severity == dg.AssetCheckSeverity.ERROR
    assert ["zero_spread_groups"] == evaluation.metadata["findings"].value


DIED = {
    "killed": ["exit status 137", "kill -9", "worker.log"],
    "broken": ["exit status 1", "the card fell off the bus"],
    "silent": ["without an outcome"],
}


@pytest.mark.parametrize("part", DIED)
def test_a_process_that_dies_fails_the_asset(data: Path, instance: dg.DagsterInstance, part: str):
    """The failure names exit status and the last lines printed; nothing is materialized."""
    result = materialize(part, data, instance)
    assert not result.success
    log = messages(instance, result)
    assert [] == [words for words in DIED[part] if words.lower() not in log.lower()]
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
    """With ``dry_run_only``; and where an input is missing, which is named with its command."""
    result = materialize("good", data, instance, dry_run_only=True)
    assert result.success
    assert "30 steps will be made" in messages(instance, result)
    assert [] == result.asset_materializations_for_node("policy")
    assert not (data / "policy").exists()
    shutil.rmtree(data / "policy_runs", ignore_errors=True)
    (data / "training_claims.parquet").unlink()
    log = messages(instance, materialize("good", data, instance))
    assert "decomposerl run training_claims --upstream" in log
    assert not (data / "policy_runs").exists()


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


def test_a_run_may_differ_from_its_recipe_and_from_how_the_profile_trains():
    """What is set for one run is taken, and reaches the process; the rest is recipe and profile."""
    assert RECIPES[0] == PolicyConfig().applied(RECIPES[0])
    changed = PolicyConfig(steps=5, held_out_claims=3).applied(RECIPES[0])
    assert (5, 3) == (changed.optimization.steps, changed.held_out.claims)
    assert changed.digest != RECIPES[0].digest
    profile = PolicyTrainerResource(module="m", device="cuda", checkpoint_every=50)
    same = PolicyConfig().applied_to_trainer(profile)
    assert profile.model_dump() == same.model_dump()
    other = PolicyConfig(launch=["-m", "torchrun"], checkpoint_every=5).applied_to_trainer(profile)
    assert (["-m", "torchrun"], 5) == (other.launch, other.checkpoint_every)
    assert ("m", "cuda") == (other.module, other.device)
    assert (50, []) == (profile.checkpoint_every, profile.launch)
    inputs = RunInputs(RECIPES[0], "0" * 16, Path("c"), None, "b", "", Path("f"), Path("n"))
    fields = {"most_wait_s": 60, "sampler_check_every": 5, "importance_correction": False}
    fields |= {"sleep_mode": True, "liger": True, "report_to": "trackio", "python": "python3"}
    trainer = PolicyConfig(**fields).applied_to_trainer(PolicyTrainerResource(module="m"))
    run = trainer.plan_run(inputs, stop_unhealthy=True)
    assert "trackio" == TrainingRun.from_json(run.to_json()).report_to
    assert (60, 5) == (run.limits.most_wait_s, run.limits.sampler_check_every)
    assert not run.generation.importance_correction
    assert (True, True) == (run.generation.sleep_mode, run.liger)
    plain = PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=True)
    assert (RunLimits(), Generation(), "none") == (plain.limits, plain.generation, plain.report_to)


def test_a_tracker_that_is_not_installed_is_refused_before_the_process_starts():
    """With the command that installs it; a process of another interpreter checks its own."""
    trainer = PolicyTrainerResource(module="m", report_to="trackio")
    with pytest.raises(EngineMissing, match="pip install trackio"):
        trainer.require_reporter()
    trainer.model_copy(update={"python": "python3"}).require_reporter()
    with pytest.raises(ValidationError, match="report_to"):
        PolicyConfig(report_to="mlflow")


def test_base_weights_are_known_by_content(tmp_path: Path):
    """A hub name is itself, a folder its content; a signal reads as the shell's number for it."""
    assert "hub/name" == base_version("hub/name")
    versions = []
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
        versions.append(base_version(str(tmp_path / name)))
    assert versions[0] == versions[1] != versions[2]
    for status, words in ((-9, "137"), (137, "kill -9"), (143, "terminated"), (77, "unknown")):
        assert words in meaning_of(status)


def test_an_outcome_survives_the_channel(tmp_path: Path):
    """What the process reports comes back equal through JSON; other messages are passed over."""
    paths = {"claims": tmp_path / "claims.parquet", "folder": tmp_path}
    outcome = outcome_of(TrainingRun(RECIPES[0], "0" * 16, base="b", **paths))
    told = {"kind": OUTCOME, **asdict(outcome)}
    sent = json.loads(json.dumps([{"kind": "step"}, told, "noise"], default=str))
    assert outcome == outcome_among(sent)
    assert None is outcome_among(sent[:1])


counts, seeds = st.integers(0, 24), st.integers(0, 3)
pools = frames(SILVER_DECOMPOSED, 20)


def pool_of(supported: int, refuted: int) -> pl.DataFrame:
    labels = ["Supported"] * supported + ["Refuted"] * refuted
    return frame_of(SILVER_DECOMPOSED, [example_row(label=label) for label in labels])


def ids(frame: pl.DataFrame) -> list[str]:
    return frame["claim_id"].to_list()


@FRAME_LAW
@given(pools, counts, seeds)
def test_a_random_set_is_part_of_the_pool_in_its_order(pool: pl.DataFrame, count: int, seed: int):
    """As many as asked for or all there are, conforming, each with its own columns unchanged."""
    drawn = TRAINING_CLAIMS.conform(random_claims(pool, count, seed))
    assert min(count, pool.height) == drawn.height
    assert [one for one in ids(pool) if one in set(ids(drawn))] == ids(drawn)
    kept = pool.filter(pl.col("claim_id").is_in(ids(drawn)))
    assert kept.equals(drawn.select(list(SILVER_DECOMPOSED.schema)))
    assert {"random"} >= set(drawn["origin"])


@FRAME_LAW
@given(pools, counts, seeds, st.randoms(use_true_random=False))
def test_a_draw_depends_on_no_order(pool: pl.DataFrame, count: int, seed: int, luck: Random):
    """Shuffling the pool draws the same claims; a smaller draw is part of a larger one."""
    rows = list(range(pool.height))
    luck.shuffle(rows)
    here = set(ids(random_claims(pool, count, seed)))
    assert here == set(ids(random_claims(pool[rows], count, seed)))
    assert here <= set(ids(random_claims(pool, count + 1, seed)))


def test_a_random_draw_is_uniform():
    """Whatever the label; more held-out claims hold the fewer, and another seed takes others."""
    pool = pool_of(15, 5)
    drawn = [one for seed in range(400) for one in ids(random_claims(pool, 5, seed))]
    times = [drawn.count(one) for one in ids(pool)]
    assert 400 * 5 == sum(times)
    assert 70 <= min(times) <= max(times) <= 130  # 100 expected, a spread of 8.7
    assert ids(random_claims(pool, 5, 1)) != ids(random_claims(pool, 5, 2))
    pool = pool_of(30, 30)
    few, many = (held_out_claims(pool, count=count, seed=3) for count in (10, 20))
    assert set(ids(few)) < set(ids(many))
    assert ids(few) != ids(held_out_claims(pool, count=10, seed=4))


@FRAME_LAW
@given(pools, pools, counts, seeds)
def test_held_out_claims_are_in_no_training_set(
    pool: pl.DataFrame, other: pl.DataFrame, count: int, seed: int
):
    """They are of the pool, in its order and with its columns, and nobody trains on them."""
    training = random_claims(pool, pool.height // 2, 7)
    held = SILVER_DECOMPOSED.conform(
        held_out_claims(pool, training, other.head(3), count=count, seed=seed)
    )
    used = set(ids(training)) | set(ids(other.head(3)))
    assert min(count, len(set(ids(pool)) - used)) == held.height
    assert used.isdisjoint(ids(held))
    assert held.equals(pool.filter(pl.col("claim_id").is_in(ids(held))))


@FRAME_LAW
@given(st.integers(0, 12), st.integers(0, 12), counts)
def test_held_out_labels_are_as_even_as_they_can_be(supported: int, refuted: int, count: int):
    """Half each, the first label one more; where one has too few the other fills up."""
    pool = pool_of(supported, refuted)
    found = dict(held_out_claims(pool, count=count, seed=1)["label"].value_counts().rows())
    first, second = (found.get(label, 0) for label in LABELS)
    assert min(count, supported + refuted) == first + second
    expected = min(supported, max(-(-count // 2), count - refuted))
    assert (expected, min(refuted, count - expected)) == (first, second)


def test_the_random_set_is_as_large_as_the_curated_one(tmp_path: Path):
    """The asset draws from the pool on disk, stores its frame and its run record."""
    folder, pool = tmp_path, pool_of(20, 20)
    write_parquet(pool, folder / "silver_decomposed.parquet")
    write_parquet(random_claims(pool, 12, 99), folder / "training_claims.parquet")
    inputs = [dg.AssetSpec(key) for key in ("silver_decomposed", "training_claims")]
    done = dg.materialize(
        [training_claims_random, *inputs],
        selection=["training_claims_random"],
        resources={"io_manager": ParquetTables(base_dir=str(folder))},
        run_config={"ops": {"training_claims_random": {"config": {"seed": 5}}}},
    )
    assert done.success
    data = DataFolder(base_dir=str(folder))
    drawn = TRAINING_CLAIMS.conform(data.read("training_claims_random"))
    assert drawn.equals(random_claims(data.read("silver_decomposed"), 12, 5))
    record = data.run("training_claims_random")
    assert ('{"seed": 5}', 12) == (record["config"], record["rows_kept"])
    (event,) = done.get_asset_materialization_events()
    metadata = event.materialization.metadata
    shared = drawn.join(data.read("training_claims"), on="claim_id", how="semi").height
    assert (40, shared) == (metadata["pool"].value, metadata["also in the curated set"].value)
