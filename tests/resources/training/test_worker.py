"""The process that trains, as a person or Ray starts it: ``python -m dagster_project.worker``."""

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

from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from dagster_project.worker import judge_facts, main
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineMissing
from decomposerl.training.experiment import Optimization
from environment import thinking
from fault_server import Answer, FaultServer
from project import ROOT
from resources.chat.endpoint import config_of
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


def steps(number: int) -> Optimization:
    return Optimization(learning_rate=1e-2, least_learning_rate=1e-3, steps=number)


def engines(folder: Path) -> tuple[str, str]:
    """The names of the embedded judge and embedder."""
    embedder = EmbedderResource(results_dir=str(folder / "engine_results")).open().engine
    return RuleJudge().engine, embedder


def planned(tmp_path: Path, base: Path, **changes: object) -> TrainingRun:
    """A run of the embedded profile with its true key; its claims lie beside its folder."""
    run = run_of(tmp_path / "run", base, optimization=steps(2), limits=PATIENT, **changes)
    files = run.claims, run.held_out
    key = run_key(run.experiment, files, run.base, engines(tmp_path), run.prompts)
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
    """Exit status, and all that was printed, of a run in this process."""
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


def test_a_run_learns_from_its_own_copies_and_goes_on_after_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """No rewritten claim or base reaches it; SIGTERM leaves a checkpoint for the next start."""
    data = DataFolder(base_dir=str(tmp_path))
    frame = pl.read_parquet(claims_file(tmp_path / "training_claims.parquet"))
    held_out_file(tmp_path / "silver_decomposed.parquet")
    tiny_policy(tmp_path / "base_policy")
    recipe = replace(EXPERIMENT, optimization=steps(16), held_out=SOME_HELD_OUT)
    inputs = gather_inputs(data, recipe, engines(tmp_path))
    run = PolicyTrainerResource(module="m").plan_run(inputs, stop_unhealthy=False)
    run = replace(run, limits=PATIENT, folder=tmp_path / "run")

    process = start(run)
    while "Before training tests" not in process.stdout.readline():
        assert process.poll() is None
    ids = [*pl.read_parquet(inputs.held_out)["claim_id"], *frame["claim_id"]][: frame.height]
    other = frame.with_columns(claim=pl.col("claim") + " again", claim_id=pl.Series(ids))
    write_parquet(other, data.path / "training_claims.parquet")
    tiny_policy(data.path / "base_policy", seed=1)
    wait_for_steps(run, process, 2)
    process.send_signal(signal.SIGTERM)
    status, printed = ended(process)
    assert 128 + signal.SIGTERM == status, printed
    assert "SIGTERM" in printed
    (checkpoint,) = run.folder.glob("checkpoints/step-*")
    done = int(checkpoint.name.removeprefix("step-"))
    assert done >= 2

    status, printed = answered(run, capsys)
    assert 0 == status, printed
    assert f"step {done} of 16" not in printed
    said = ("step 16 of 16", "held-out claims, greedy", str(run.folder / "adapter"))
    assert [] == [words for words in said if words not in printed]
    assert [0, done] == [one.resumed_from for one in read_attempts(run.folder)]
    assert set(read_log(run.folder, "rollouts")["claim"]) <= set(frame["claim"])
    assert read_outcome(RunFolder(run.folder)).before
    assert (run.folder / "adapter/adapter_model.safetensors").is_file()
    curves = pl.read_parquet(run.folder / "curves.parquet")
    assert {"train", "held_out_sampled", "held_out_greedy"} == set(curves["split"])
    (tmp_path / "data/policy").mkdir(parents=True)
    run.folder.rename(tmp_path / "data/policy/run")
    assert [] == unlisted(tmp_path / "data")  # docs/reference/files.md has every file


def test_a_look_or_a_refusal_trains_nothing(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
):
    """A look alone; or status 2 and what to change, said once: a problem, another key, no run."""
    run = planned(tmp_path, base)
    status, printed = answered(run, capsys, ["--dry-run-only"])
    assert 0 == status, printed
    assert "judge calls" in printed
    assert not run.folder.exists()
    run = planned(tmp_path, base)
    sampling = replace(run.experiment.sampling, max_prompt_tokens=1)
    (tmp_path / "empty.json").write_text("{}", "utf-8")
    missing, empty = str(tmp_path / "missing.json"), str(tmp_path / "empty.json")
    long = planned(tmp_path, base, sampling=sampling)
    cases: list[tuple[TrainingRun, list[str], tuple[str, str]]] = [
        (long, [], ("before the first step: prompts", "max_prompt_tokens")),
        (replace(run, key="0" * 16), [], ("the run's key is 0000000000000000", "")),
        (run, ["--run", missing], (f"{missing} holds no training run", "No such file")),
        (run, ["--run", empty], (f"{empty} holds no training run", "field '")),
    ]
    for refused, options, (said, why) in cases:
        status, printed = answered(refused, capsys, options)
        assert 2 == status, printed
        assert 1 == printed.count(said), printed
        assert why in printed, printed
        assert "Traceback" not in printed
    assert not run.folder.exists()


JUDGE = "Qwen/Qwen3-32B"


def test_the_recipe_decides_whether_the_judge_thinks(tmp_path: Path):
    """None leaves the profile's; thinking has tokens of its own; ``tiny`` is the data folder's."""
    at = config_of(Endpoint(model="m", base_url=("http://u/v1",), thinking_tokens=7_168))
    judge = JudgeResource(results_dir=str(tmp_path), engine="chat", endpoint=at)
    assert judge is judge_for(judge, EXPERIMENT)
    thinking, silent = (
        judge_for(judge, replace(EXPERIMENT, judge_thinking=thinks)) for thinks in (True, False)
    )
    assert (True, False) == (thinking.endpoint.thinks, silent.endpoint.thinks)
    assert "m" == thinking.endpoint.model
    quiet = at.model_copy(update={"thinking": "off"})
    off = JudgeResource(results_dir=str(tmp_path), engine="chat", endpoint=quiet)
    on = judge_for(off, replace(EXPERIMENT, judge_thinking=True))
    assert (1_024, 8_192) == tuple(one.sampling().max_tokens for one in (off, on))
    assert "max_tokens=1024 thinking=off" in off.open().engine
    assert "max_tokens=8192 thinking=on" in on.open().engine
    profile = read_settings({"DECOMPOSERL_DATA": str(tmp_path)})
    tiny = judge_for(resources_for(profile)["judge"], replace(EXPERIMENT, judge="tiny")).open()
    assert isinstance(tiny, TinyJudge)
    assert tmp_path / "tiny_judge" == tiny.folder
    with pytest.raises(EngineMissing, match="tiny judge"):
        _ = tiny.engine


def test_the_dry_run_gets_the_judges_limits(tmp_path: Path, base: Path):
    """The context that its server lists, if it does, and the most that a reply may take of it."""
    models = {"data": [{"id": "other", "max_model_len": 9}, {"id": JUDGE, "max_model_len": 4_096}]}
    run, limits = run_of(tmp_path / "run", base), []
    with FaultServer(usual=Answer(body=json.dumps(models).encode())) as served:
        for word in ("off", "on", "512"):
            env = {"DECOMPOSERL_JUDGE__BASE_URL": served.url} | thinking(word)
            profile = read_settings({"DECOMPOSERL_PROFILE": "paper"} | env)
            facts = judge_facts(run, profile)
            limits.append((facts.judge_context, facts.judge_reply, facts.judge_tokens.reply))
    assert [(4_096, 2_048, 120), (4_096, 8_192, 1_000), (4_096, 1_536, 632)] == limits
    bodies = [b"[]", b"{}", b'{"data": [{"id": 1}]}', b"<html>", b'{"data": 1}']
    with FaultServer([Answer(body=body) for body in bodies]) as served:
        url, key = served.url, SecretStr("")
        assert [None] * len(bodies) == [served_context(url, JUDGE, key) for _ in bodies]
        assert len(bodies) == len(served.asked)
    assert served_context(url, JUDGE, key) is None
