"""Real steps of TRL on a tiny policy: what is summed, normalised, masked, measured and written."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.table import TOTAL
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.training.process import TrainingRun
from resources.training.rollout_log import read_log
from resources.training.run_store import RunFolder, read_outcome
from resources.training.train import load_policy, prepare, train
from resources.training.trl_hooks import closing_trainer
from training_parts import (
    EXPERIMENT,
    PATIENT,
    SOME_HELD_OUT,
    FailingJudge,
    alike,
    logged,
    run_of,
    trained,
    weights,
)
from training_parts import tiny_policy as make_policy

NAMES = [reward.name for reward in REWARDS if reward.weight]
STEEP = replace(EXPERIMENT.optimization, warmup_ratio=0.0)
ONE_GROUP = replace(EXPERIMENT.grpo, group_size=8, per_device_batch=8)
# One step whose length follows the gradient's; AdamW's own is the same for any gradient.
PROPORTIONAL = replace(STEEP, steps=1, adam_epsilon=1.0)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def run(base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """Two steps that are done."""
    folder = tmp_path_factory.mktemp("done") / "run"
    made = run_of(folder, base, optimization=STEEP, held_out_claims=SOME_HELD_OUT)
    trained(made)
    return made


def trainer_logs(run: TrainingRun) -> list[dict[str, Any]]:
    """What TRL logged of each step."""
    state = run.folder / "checkpoints" / "step-000002" / "trainer_state.json"
    logs = json.loads(state.read_text("utf-8"))["log_history"]
    return [one for one in logs if "loss" in one]


def test_two_steps_move_the_adapter_and_nothing_needs_a_gpu(run: TrainingRun):
    """The run is whole: adapters, config, curves, outcome; no GPU package was imported."""
    folder = RunFolder(run.folder)
    first = folder.adapter_at(0)
    assert not alike(first, folder.adapter)
    assert set(weights(folder.adapter)) == set(weights(first))
    assert (folder.adapter / "tokenizer.json").is_file()
    assert not (folder.adapter / "training_args.bin").exists()
    config = json.loads(folder.config.read_text("utf-8"))
    assert "bnpo" == config["grpo"]["loss_type"]
    assert {"used": 6, "too_long": 0} == config["claims"]
    assert run.key == config["key"]
    outcome = read_outcome(folder)
    assert (2, 0, "") == (outcome.steps, outcome.resumed_from, outcome.stopped)
    assert outcome.before.keys() == outcome.after.keys() > {"held_out_greedy/balanced_accuracy"}
    assert {"vllm", "deepspeed", "flash_attn"}.isdisjoint(sys.modules)


def test_our_composite_is_what_the_trainer_sums(run: TrainingRun):
    """Mean and spread of the total, and each reward's mean, are TRL's at every step."""
    rollouts = read_log(run.folder, "rollouts")
    curves = read_log(run.folder, "curves")
    for step, entry in enumerate(trainer_logs(run)):
        totals = rollouts.filter(step=step)["total"].to_numpy()
        assert 8 == len(totals)
        assert totals.mean() == pytest.approx(entry["reward"], abs=1e-6)
        assert totals.std(ddof=1) == pytest.approx(entry["reward_std"], abs=1e-6)
        means = dict(curves.filter(step=step).select("measure", "mean").iter_rows())
        for name in NAMES:
            assert means[name] == pytest.approx(entry[f"rewards/{name}/mean"], abs=1e-6)
        assert means[TOTAL] == pytest.approx(entry["reward"], abs=1e-6)
        assert means["truncated"] == pytest.approx(entry["completions/clipped_ratio"])
        assert means["loss"] == entry["loss"]
        assert means["zero_spread_groups"] == pytest.approx(entry["frac_reward_zero_std"])


def test_advantages_are_the_papers(base: Path, tmp_path: Path):
    """Each total less its group's mean, over the group's standard deviation."""
    run = run_of(tmp_path / "run", base)
    monitor = prepare(run, load_policy(run), RuleJudge(), BagOfWordsEmbedder(), lambda _: None)
    with closing_trainer(monitor.trainer):
        monitor.trainer.train()
    rollouts = read_log(run.folder, "rollouts").filter(step=1)
    totals = rollouts["total"].to_numpy().reshape(2, 4)
    assert [1, 1] == [rollouts["group"][4 * index : 4 * index + 4].n_unique() for index in (0, 1)]
    mean, spread = totals.mean(1, keepdims=True), totals.std(1, ddof=1, keepdims=True)
    expected = ((totals - mean) / (spread + 1e-4)).ravel()
    assert np.abs(expected).max() > 0
    assert expected == pytest.approx(np.array(monitor.trainer._logs["advantages"]), abs=1e-5)


def test_a_lost_ruling_switches_the_reward_off_for_its_group(base: Path, tmp_path: Path):
    """Under ``drop_group`` one lost ruling gives the update of a run without that reward."""

    def updated(name: str, judge: Any, settings: RewardSettings) -> Path:  # noqa: ANN401 - any judge
        made = run_of(
            tmp_path / name,
            base,
            grpo=ONE_GROUP,
            optimization=PROPORTIONAL,
            rewards=settings,
            limits=PATIENT,
        )
        trained(made, judge)
        return made.folder

    plain = RewardSettings()
    lost = updated("lost", FailingJudge("answerability"), plain)
    off = updated("off", FailingJudge("coverage", 0), RewardSettings(weights={"joint": 0}))
    whole = updated("whole", FailingJudge("coverage", 0), plain)
    calls = read_log(lost, "judge_calls")
    assert 1 == calls.filter(pl.col("failure").is_not_null())["call_key"].n_unique()
    assert read_log(lost, "rollouts")["completion"].equals(
        read_log(whole, "rollouts")["completion"]
    )
    assert alike(lost / "adapter", off / "adapter")
    assert not alike(lost / "adapter", whole / "adapter")


def test_truncated_completions_move_nothing(tmp_path: Path):
    """Where the limit ends all of them, masking leaves the adapter as it was."""
    endless = make_policy(tmp_path / "base", end=-40.0)
    for mask in (True, False):
        masking = replace(EXPERIMENT.grpo, mask_truncated=mask)
        made = run_of(
            tmp_path / str(mask),
            endless,
            optimization=replace(STEEP, weight_decay=0.0),
            grpo=masking,
            limits=PATIENT,
        )
        trained(made)
        assert read_log(made.folder, "rollouts")["truncated"].all()
        assert 1.0 == trainer_logs(made)[0]["completions/clipped_ratio"]
        assert mask is alike(made.folder / "adapter", made.folder / "adapter_step_0")


def test_unlabelled_claims_train_on_the_groups_vote(base: Path, tmp_path: Path):
    """At s = 0 nothing is verified, the other six rewards move the policy, the log keeps labels."""
    made = run_of(tmp_path / "run", base, supervision=0.0, optimization=STEEP)
    reports = trained(made)
    rollouts, curves = logged(made.folder)
    assert not rollouts["labelled"].any()
    assert 0 == rollouts["label"].null_count()
    assert [None, None] == curves.filter(measure="verification")["mean"].to_list()
    assert 0 == curves.filter(measure="coverage")["mean"].null_count()
    assert all(0.0 <= (one.means["pseudo_label_agreement"] or 0.0) <= 1.0 for one in reports)
    assert not alike(made.folder / "adapter", made.folder / "adapter_step_0")


def test_held_out_claims_leave_the_training_as_it_is(run: TrainingRun, base: Path, tmp_path: Path):
    """With and without them the run samples the same rollouts and learns the same weights."""
    without = run_of(tmp_path / "run", base, optimization=STEEP)
    without = replace(without, claims=run.claims)
    trained(without)
    assert alike(run.folder / "adapter", without.folder / "adapter")
    first, second = logged(run.folder)[0], logged(without.folder)[0]
    assert first.equals(second)
    greedy, sampled = (logged(run.folder, s)[0] for s in ("held_out_greedy", "held_out_sampled"))
    assert [0, 1, 2] == greedy["step"].unique(maintain_order=True).to_list()
    assert (6, 12) == (greedy.height, sampled.height)
    assert set(greedy["group"]).isdisjoint(first["group"])


def test_the_adapter_of_a_measured_step_is_kept(run: TrainingRun):
    """Between both ends, so that held-out claims can choose it; it is that step's."""
    folder = RunFolder(run.folder)
    between = {1: run.folder / "adapter_step_1"}
    assert between == folder.measured_adapters()
    assert set(weights(between[1])) == set(weights(folder.adapter))
    for other in (folder.adapter_at(0), folder.adapter):
        assert not alike(between[1], other)
    steps = read_log(run.folder, "curves", "held_out_greedy")["step"]
    assert {0, 1, 2} == set(steps)


def test_a_verdict_that_is_given_is_told_from_one_that_is_right(run: TrainingRun):
    """Both shares, over all completions and over those with a verdict, as the rollouts say."""
    for split in ("train", "held_out_sampled"):
        rollouts, curves = logged(run.folder, split)
        measured = {
            (step, name): (mean, rows)
            for step, name, mean, rows in curves.select("step", "measure", "mean", "rows").rows()
        }
        for (step,), each in rollouts.group_by("step"):
            given = each.filter(pl.col("verdict").is_not_null())
            share = given.height / each.height
            assert (share, each.height) == measured[step, "verdict_given"]
            mean, count = measured[step, "right_among_given"]
            assert count == given.height
            assert mean == (given["verdict"] == given["label"]).mean()


def test_shuffled_rewards_teach_something_else(run: TrainingRun, base: Path, tmp_path: Path):
    """The control sees the same rollouts at first, logs true rewards and learns other weights."""
    made = run_of(tmp_path / "run", base, optimization=STEEP, shuffle_rewards=True)
    trained(made)
    first, second = logged(run.folder)[0], logged(made.folder)[0]
    assert first.filter(step=0).equals(second.filter(step=0))
    assert not alike(run.folder / "adapter", made.folder / "adapter")


def test_a_run_that_is_done_does_nothing(run: TrainingRun):
    """Started again it gives its outcome, makes no call and writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    judge = FailingJudge("coverage")
    outcome = train(run, judge, BagOfWordsEmbedder(), lambda _: None)
    assert 2 == outcome.steps
    assert [] == judge.asked
    assert before == {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}


def test_prompts_that_are_too_long_are_left_out_and_counted(base: Path, tmp_path: Path):
    """None is cut; with too few left the run is refused."""
    made = run_of(tmp_path / "run", base)
    lengths = [row["prompt_tokens"] for row in load_policy(made).training.rows]
    assert 6 == len(lengths)
    limit = replace(EXPERIMENT.sampling, max_prompt_tokens=min(lengths) - 1)
    policy = load_policy(replace(made, experiment=replace(made.experiment, sampling=limit)))
    assert (0, 6) == (len(policy.training.rows), policy.training.left_out)


def test_reports_tell_every_step(base: Path, tmp_path: Path):
    """Steps count up, the time left falls to nothing, phases add up to the step."""
    reports = trained(run_of(tmp_path / "run", base))
    assert [(1, 2, 1), (2, 2, 1)] == [(one.step, one.steps, one.attempt) for one in reports]
    assert 0.0 == reports[-1].eta_s < reports[0].eta_s
    assert {"generation", "judging", "update"} == set(reports[0].seconds)
    assert all(spent > 0 for one in reports for spent in one.seconds.values())
    assert set(NAMES) < set(reports[0].means)


def test_a_batch_may_make_several_steps(base: Path, tmp_path: Path):
    """With two iterations every second step samples; checkpoints stand where one does."""
    twice = replace(EXPERIMENT.grpo, iterations=2)
    steps = replace(STEEP, steps=4)
    made = run_of(
        tmp_path / "run",
        base,
        grpo=twice,
        optimization=steps,
        limits=replace(PATIENT, checkpoint_every=1),
    )
    trained(made)
    rollouts, curves = logged(made.folder)
    assert [0, 2] == rollouts["step"].unique(maintain_order=True).to_list()
    assert [0, 1, 2, 3] == curves.filter(measure="loss")["step"].to_list()
    assert [0, 2] == curves.filter(measure="total")["step"].to_list()
    names = sorted(path.name for path in (made.folder / "checkpoints").iterdir())
    assert ["step-000002", "step-000004"] == names
