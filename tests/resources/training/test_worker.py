"""The process that trains, as a person starts it: ``python -m dagster_project.worker``."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from pydantic import SecretStr

from dagster_project.engine_choices import JUDGE
from dagster_project.profiles import process_rank, profile_from_environment, resources_for
from dagster_project.worker import judge_facts, main
from decomposerl.errors import EngineMissing
from decomposerl.training.experiment import Optimization
from fault_server import Answer, FaultServer
from project import ROOT
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.judge.rule_judge import RuleJudge
from resources.judge.tiny_judge import TinyJudge
from resources.preflight.servers import served_context
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingRun
from resources.training.resource import PolicyTrainerResource
from resources.training.rollout_log import read_log
from resources.training.run_inputs import gather_inputs, judge_for, run_key
from resources.training.run_store import RunFolder, read_attempts, read_outcome
from studies.reference.files import unlisted
from training_parts import (
    EXPERIMENT,
    PATIENT,
    SOME_HELD_OUT,
    claims_file,
    held_out_file,
    run_of,
    tiny_policy,
)

SECRET = "sk-must-not-be-shown"  # noqa: S105 - stands for one


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy(tmp_path_factory.mktemp("base"))


def planned(tmp_path: Path, base: Path, steps: int = 2, **changes: object) -> TrainingRun:
    """A run of the embedded profile with its true key; its claims lie beside its folder."""
    optimization = Optimization(learning_rate=1e-2, least_learning_rate=1e-3, steps=steps)
    run = run_of(tmp_path / "run", base, optimization=optimization, limits=PATIENT, **changes)
    embedder = EmbedderResource(results_dir=str(tmp_path / "engine_results")).open().engine
    engines = (RuleJudge().engine, embedder)
    key = run_key(run.experiment, (run.claims, run.held_out), run.base, engines, run.prompts)
    return replace(run, key=key)


def written(run: TrainingRun) -> tuple[str, dict[str, str]]:
    """The file that names the run, and the variables of its process."""
    file = run.folder.with_name("run.json")
    file.write_text(run.to_json(), "utf-8")
    return str(file), {
        "DECOMPOSERL_PROFILE": "embedded",
        "DECOMPOSERL_DATA": str(run.folder.parent),
        "OPENAI_API_KEY": SECRET,
    }


def start(run: TrainingRun) -> "subprocess.Popen[str]":
    file, variables = written(run)
    return subprocess.Popen(
        [sys.executable, "-m", "dagster_project.worker", "--run", file],
        cwd=run.folder.parent,  # without the .env file of a person who develops
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Exit status, and all that was printed."""
    printed, _ = process.communicate(timeout=120)
    assert SECRET not in printed
    return process.returncode, printed


def answered(
    run: TrainingRun, capsys: pytest.CaptureFixture[str], options: Sequence[str] = ()
) -> tuple[int, str]:
    """Exit status, and all that was printed, of a run that ends before its first step.

    In this process: starting one takes longer than all that it does.
    """
    file, variables = written(run)
    before = os.environ.copy()
    os.environ.update(variables)
    try:
        with chdir(run.folder.parent):
            status = main(["--run", file, *options])
    finally:
        os.environ.clear()
        os.environ.update(before)
    printed = "".join(capsys.readouterr())
    assert SECRET not in printed
    return status, printed


def wait_for_steps(run: TrainingRun, process: "subprocess.Popen[str]", steps: int) -> None:
    deadline = time.monotonic() + 90
    while len(list(run.folder.glob("curves/step-*.parquet"))) < steps:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_by_hand_shows_its_steps_and_both_ends(tmp_path: Path, base: Path):
    """Look, steps, the table of both ends and where things lie; the files are there."""
    run = planned(tmp_path, base, held_out=SOME_HELD_OUT, held_out_claims=SOME_HELD_OUT)
    status, printed = ended(start(run))
    assert 0 == status, printed
    said = ("Before training tests", "step 2 of 2: weighted sum", "held-out claims, greedy")
    assert [] == [words for words in said if words not in printed]
    assert str(run.folder / "adapter") in printed
    assert (run.folder / "adapter/adapter_model.safetensors").is_file()
    curves = pl.read_parquet(run.folder / "curves.parquet")
    assert {"train", "held_out_sampled", "held_out_greedy"} == set(curves["split"])
    (tmp_path / "data/policy").mkdir(parents=True)
    run.folder.rename(tmp_path / "data/policy/run")
    assert [] == unlisted(tmp_path / "data")  # docs/reference/files.md has every file


def test_a_signal_leaves_a_checkpoint_and_the_next_start_goes_on(tmp_path: Path, base: Path):
    """SIGTERM: status 143, a checkpoint; the same command then goes on from it to the end."""
    run = planned(tmp_path, base, steps=24)
    process = start(run)
    wait_for_steps(run, process, 2)
    process.send_signal(signal.SIGTERM)
    status, printed = ended(process)
    assert 128 + signal.SIGTERM == status, printed
    assert "stopped early: interrupted by SIGTERM" in printed
    (checkpoint,) = run.folder.glob("checkpoints/step-*")
    done = int(checkpoint.name.removeprefix("step-"))
    assert done >= 2

    status, printed = ended(start(run))
    assert 0 == status, printed
    assert f"step {done} of 24" not in printed
    assert "step 24 of 24" in printed
    assert [0, done] == [one.resumed_from for one in read_attempts(run.folder)]


def test_a_run_learns_from_its_own_copies(tmp_path: Path):
    """Claims and base are rewritten while the trainer starts: it never sees it, nor does a resume.

    Every claim that it sampled is of the set that its key is over, none of the new one.
    """
    data = DataFolder(base_dir=str(tmp_path))
    frame = pl.read_parquet(claims_file(tmp_path / "training_claims.parquet"))
    held_out_file(tmp_path / "silver_decomposed.parquet")
    tiny_policy(tmp_path / "base_policy")
    steps = Optimization(learning_rate=1e-2, least_learning_rate=1e-3, steps=24)
    recipe = replace(EXPERIMENT, optimization=steps, held_out=SOME_HELD_OUT)
    embedder = EmbedderResource(results_dir=str(tmp_path / "engine_results")).open().engine
    inputs = gather_inputs(data, recipe, (RuleJudge().engine, embedder))
    run = PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=False)
    run = replace(run, limits=PATIENT, folder=tmp_path / "run")

    process = start(run)
    assert process.stdout is not None
    while "Before training" not in process.stdout.readline():
        assert process.poll() is None
    ids = [*pl.read_parquet(inputs.held_out)["claim_id"], *frame["claim_id"]][: frame.height]
    other = frame.with_columns(claim=pl.col("claim") + " again", claim_id=pl.Series(ids))
    write_parquet(other, data.path / "training_claims.parquet")
    tiny_policy(data.path / "base_policy", seed=1)
    wait_for_steps(run, process, 2)
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == ended(process)[0]
    assert set(read_log(run.folder, "rollouts")["claim"]) <= set(frame["claim"])
    status, printed = ended(start(run))
    assert 0 == status, printed
    assert set(read_log(run.folder, "rollouts")["claim"]) <= set(frame["claim"])
    assert read_outcome(RunFolder(run.folder)).before


def test_a_look_alone_trains_nothing(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
):
    """The page of what it takes, and no folder of a run."""
    run = planned(tmp_path, base)
    status, printed = answered(run, capsys, ["--dry-run-only"])
    assert 0 == status, printed
    assert "judge calls, estimated" in printed
    assert not run.folder.exists()


def test_a_problem_found_before_stops_the_run_unless_told_otherwise(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
):
    """Prompts that are all too long are a problem; the sentence says what fixes it."""
    run = planned(tmp_path, base)
    sampling = replace(run.experiment.sampling, max_prompt_tokens=1)
    run = planned(tmp_path, base, sampling=sampling)
    status, printed = answered(run, capsys)
    assert 2 == status, printed
    assert "before the first step: prompts" in printed
    assert "max_prompt_tokens" in printed
    assert "Traceback" not in printed


def test_another_run_than_was_planned_is_refused(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
):
    """Where claims, base, prompts or engines differ from the key's, nothing is trained."""
    run = replace(planned(tmp_path, base), key="0" * 16)
    status, printed = answered(run, capsys)
    assert 2 == status
    assert "the run's key is 0000000000000000" in printed
    assert not run.folder.exists()


def test_a_file_that_holds_no_run_is_named(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
):
    """One sentence, said once, and status 2, not a traceback; a missing field by its name."""
    run = planned(tmp_path, base)
    (tmp_path / "empty.json").write_text("{}", "utf-8")
    for name, reason in (("missing", "No such file"), ("empty", "field '")):
        status, printed = answered(run, capsys, ["--run", str(tmp_path / f"{name}.json")])
        assert 2 == status
        assert 1 == printed.count(f"{name}.json holds no training run")
        assert reason in printed, printed
        assert "Traceback" not in printed


def test_the_recipe_decides_whether_the_judge_thinks(tmp_path: Path, base: Path):
    """None leaves the profile's; a recipe for the tiny judge takes the data folder's."""
    experiment = run_of(tmp_path / "run", base).experiment
    judge = JudgeResource(results_dir=str(tmp_path), engine="chat", model="m", endpoints=["u"])
    assert judge is judge_for(judge, experiment)
    thinking = judge_for(judge, replace(experiment, judge_thinking=True))
    silent = judge_for(judge, replace(experiment, judge_thinking=False))
    assert (True, False) == (thinking.thinks, silent.thinks)
    assert "m" == thinking.model
    profile = profile_from_environment({"DECOMPOSERL_DATA": str(tmp_path)})
    tiny = judge_for(resources_for(profile)["judge"], replace(experiment, judge="tiny")).open()
    assert isinstance(tiny, TinyJudge)
    assert tmp_path / "tiny_judge" == tiny.folder
    with pytest.raises(EngineMissing, match="no trained tiny judge"):
        _ = tiny.engine


def test_a_thinking_judge_has_tokens_for_its_thought(tmp_path: Path, base: Path):
    """A recipe that switches it on gets the room with it; switched off, the room goes."""
    experiment = run_of(tmp_path / "run", base).experiment
    judge = JudgeResource(results_dir=str(tmp_path), engine="chat", model="m", thinking="off")
    thinking = judge_for(judge, replace(experiment, judge_thinking=True))
    assert (1_024, 8_192) == tuple(one.sampling().max_tokens for one in (judge, thinking))
    assert "max_tokens=1024 thinking=off" in judge.open().engine
    assert "max_tokens=8192 thinking=on" in thinking.open().engine


@pytest.mark.parametrize(
    ("word", "reply", "tokens"), [("off", 2_048, 120), ("on", 8_192, 1_000), ("512", 1_536, 632)]
)
def test_the_dry_run_gets_the_judges_limits(
    tmp_path: Path, base: Path, word: str, reply: int, tokens: float
):
    """Its context as its server lists it, and the most that a reply may take of it."""
    models = {"data": [{"id": "other", "max_model_len": 9}, {"id": JUDGE, "max_model_len": 4_096}]}
    with FaultServer(usual=Answer(body=json.dumps(models).encode())) as served:
        env = {"DECOMPOSERL_JUDGE_URL": served.url, "DECOMPOSERL_JUDGE_THINKING": word}
        profile = profile_from_environment({"DECOMPOSERL_PROFILE": "paper"} | env)
        facts = judge_facts(run_of(tmp_path / "run", base), profile)
    assert (4_096, reply) == (facts.judge_context, facts.judge_reply)
    assert facts.judge_tokens is not None
    assert tokens == facts.judge_tokens.reply


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"data": [{"id": 1}]}', b"<html>", b'{"data": 1}']
)
def test_a_list_without_a_context_says_nothing(body: bytes):
    """None, whatever the endpoint says; and where nobody listens."""
    with FaultServer(usual=Answer(body=body)) as served:
        url = served.url
        assert served_context(url, JUDGE, SecretStr("")) is None
    assert served_context(url, JUDGE, SecretStr("")) is None


def test_of_several_processes_each_knows_its_place():
    """As ``accelerate launch`` sets it; alone without it."""
    assert (0, 1) == process_rank({})
    assert (3, 4) == process_rank({"RANK": "3", "WORLD_SIZE": "4"})
