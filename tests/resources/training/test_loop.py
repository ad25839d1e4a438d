"""Real steps of TRL on a tiny policy: what is sampled, summed, normalised, masked and written."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import TrainingError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.scoring import TOTAL
from decomposerl.rewards.settings import RewardSettings
from decomposerl.training.experiment import Experiment, Grpo, Optimization, steps_of
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.training.process import StepReport, TrainingRun
from resources.training.rollout_log import read_log
from resources.training.run_store import RunFolder, read_outcome
from resources.training.train import load_policy, prepare, train, write_adapter
from resources.training.trl_hooks import StepOrder
from training_parts import (
    EXPERIMENT,
    PATIENT,
    SOME_HELD_OUT,
    FailingJudge,
    alike,
    logged,
    run_of,
    tiny_policy,
    trained,
    weights,
)

NAMES = [reward.name for reward in REWARDS if reward.weight]
STEEP = replace(EXPERIMENT.optimization, warmup_ratio=0.0)
ONE_GROUP = replace(EXPERIMENT.grpo, group_size=8, per_device_batch=8)
# One step whose length follows the gradient's; AdamW's own is the same for any gradient.
PROPORTIONAL = replace(STEEP, steps=1, adam_epsilon=1.0)


@pytest.fixture(scope="module")
def run(base: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """Two steps that are done."""
    folder = tmp_path_factory.mktemp("done") / "run"
    made = run_of(folder, base, optimization=STEEP, held_out_claims=SOME_HELD_OUT)
    trained(made)
    return made


@dataclass(frozen=True)
class Plain:
    """The same two steps without held-out claims: its folder, reports and last advantages."""

    folder: Path
    reports: list[StepReport]
    advantages: list[float]


@pytest.fixture(scope="module")
def plain(run: TrainingRun, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    made = run_of(tmp_path_factory.mktemp("plain") / "run", base, optimization=STEEP)
    made, reports = replace(made, claims=run.claims), list[StepReport]()
    monitor = prepare(made, load_policy(made), RuleJudge(), BagOfWordsEmbedder(), reports.append)
    monitor.trainer.train()
    write_adapter(monitor.trainer, made.folder / "adapter")
    return Plain(made.folder, reports, list(monitor.trainer._logs["advantages"]))


def trainer_logs(run: TrainingRun) -> list[dict[str, Any]]:
    """What TRL logged of each step."""
    state = run.folder / "checkpoints" / "step-000002" / "trainer_state.json"
    logs = json.loads(state.read_text("utf-8"))["log_history"]
    return [one for one in logs if "loss" in one]


def test_two_steps_move_the_adapter_and_nothing_needs_a_gpu(run: TrainingRun):
    """The run is whole, with an adapter of each measured step; no GPU package was imported."""
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
    folder = RunFolder(run.folder)
    measured = sorted(path.name for path in run.folder.glob("adapter_step_*"))
    assert ["adapter_step_0", "adapter_step_1"] == measured
    assert set(weights(folder.adapter_at(1))) == set(weights(folder.adapter))
    for other in (folder.adapter_at(0), folder.adapter):
        assert not alike(folder.adapter_at(1), other)
    steps = read_log(run.folder, "curves", "held_out_greedy")["step"]
    assert {0, 1, 2} == set(steps)


def test_our_composite_is_what_the_trainer_sums(run: TrainingRun):
    """TRL's mean, spread and each reward's; verdicts given and right are as the rollouts say."""
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


def test_advantages_are_the_papers(plain: Plain):
    """Totals less the group's mean, over its deviation; reports count steps, time and phases."""
    rollouts = read_log(plain.folder, "rollouts").filter(step=1)
    totals = rollouts["total"].to_numpy().reshape(2, 4)
    assert [1, 1] == [rollouts["group"][4 * index : 4 * index + 4].n_unique() for index in (0, 1)]
    mean, spread = totals.mean(1, keepdims=True), totals.std(1, ddof=1, keepdims=True)
    expected = ((totals - mean) / (spread + 1e-4)).ravel()
    assert np.abs(expected).max() > 0
    assert expected == pytest.approx(np.array(plain.advantages), abs=1e-5)
    reports = plain.reports
    assert [(1, 2, 1), (2, 2, 1)] == [(one.step, one.steps, one.attempt) for one in reports]
    assert 0.0 == reports[-1].eta_s < reports[0].eta_s
    assert {"generation", "judging", "update"} == set(reports[0].seconds)
    assert all(spent > 0 for one in reports for spent in one.seconds.values())
    assert set(NAMES) < set(reports[0].means)


def test_a_lost_ruling_switches_the_reward_off_for_its_group(base: Path, tmp_path: Path):
    """Under ``drop_group`` one lost ruling gives the update of a run without that reward."""

    def updated(name: str, judge: Any, settings: RewardSettings) -> Path:  # noqa: ANN401 - any judge
        how = {"grpo": ONE_GROUP, "optimization": PROPORTIONAL, "limits": PATIENT}
        made = run_of(tmp_path / name, base, rewards=settings, **how)
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
    endless = tiny_policy(tmp_path / "base", end=-40.0)
    for mask in (True, False):
        grpo, steep = (
            replace(EXPERIMENT.grpo, mask_truncated=mask),
            replace(STEEP, weight_decay=0.0),
        )
        made = run_of(tmp_path / str(mask), endless, optimization=steep, grpo=grpo, limits=PATIENT)
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


def test_held_out_claims_leave_the_training_as_it_is(run: TrainingRun, plain: Plain):
    """With and without them the run samples the same rollouts and learns the same weights."""
    assert alike(run.folder / "adapter", plain.folder / "adapter")
    first = logged(run.folder)[0]
    assert first.equals(logged(plain.folder)[0])
    greedy, sampled = (logged(run.folder, s)[0] for s in ("held_out_greedy", "held_out_sampled"))
    assert [0, 1, 2] == greedy["step"].unique(maintain_order=True).to_list()
    assert (6, 12) == (greedy.height, sampled.height)
    assert set(greedy["group"]).isdisjoint(first["group"])


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


def test_a_batch_may_make_several_steps(base: Path, tmp_path: Path):
    """With two iterations every second step samples; checkpoints stand where one does."""
    twice = replace(EXPERIMENT.grpo, iterations=2)
    steps = replace(STEEP, steps=4)
    limits = replace(PATIENT, checkpoint_every=1)
    made = run_of(tmp_path / "run", base, grpo=twice, optimization=steps, limits=limits)
    trained(made)
    rollouts, curves = logged(made.folder)
    assert [0, 2] == rollouts["step"].unique(maintain_order=True).to_list()
    assert [0, 1, 2, 3] == curves.filter(measure="loss")["step"].to_list()
    assert [0, 2] == curves.filter(measure="total")["step"].to_list()
    names = sorted(path.name for path in (made.folder / "checkpoints").iterdir())
    assert ["step-000002", "step-000004"] == names


def order(claims: int, per_step: int, steps: int, seed: int = 1, **layout: int) -> StepOrder:
    return StepOrder(
        claims=claims, claims_a_step=per_step, group_size=3, steps=steps, seed=seed, **layout
    )


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 9))
def test_an_epoch_has_every_claim_and_no_step_has_one_twice(claims: int, per_step: int, seed: int):
    """Each epoch's steps hold all claims; claims that fill the last step come once more."""
    per_step = min(per_step, claims)
    batches = -(-claims // per_step)
    layout = order(claims, per_step, 2 * batches, seed)
    for epoch in range(2):
        steps = [layout.claims_of(epoch * batches + batch) for batch in range(batches)]
        assert all(len(set(step)) == per_step for step in steps)
        rows = [row for step in steps for row in step]
        assert set(range(claims)) == set(rows)
        assert set(range(claims)) == set(rows[:claims])


def test_epochs_differ_and_seeds_decide():
    """Equal seeds have equal orders, others do not; fewer claims than a step takes are refused."""
    first, second = ([order(9, 3, 6, s).claims_of(i) for i in range(6)] for s in (1, 2))
    assert first == [order(9, 3, 60, 1).claims_of(i) for i in range(6)]
    assert first != second
    assert first[:3] != first[3:]
    with pytest.raises(TrainingError, match="1 training claims can be used, one step takes 2"):
        order(1, 2, 1)


@given(st.integers(2, 12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 7))
def test_a_loader_reads_groups_in_a_row(claims: int, reads: int, iterations: int, steps: int):
    """Each step is read so many times, its claims repeated; a batch lasts its iterations."""
    layout = order(claims, 2, steps, reads=reads, iterations=iterations)
    rows = list(layout)
    assert len(layout) == len(rows) == steps * reads * 2 * 3
    for step in range(steps):
        first, second = layout.claims_of(step - step % iterations)
        whole = [first] * 3 + [second] * 3
        part = rows[step * reads * 6 : (step + 1) * reads * 6]
        assert whole * reads == part


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_steps_of_a_recipe_are_whole_epochs(iterations: int):
    """A recipe samples every claim as often as there are epochs, however often it uses a batch."""
    grpo = Grpo(group_size=8, global_batch=16, iterations=iterations)
    recipe = Experiment("e", "e", optimization=Optimization(epochs=2.0), grpo=grpo)
    steps = steps_of(recipe, 11)
    layout = order(11, 2, steps, iterations=iterations)
    sampled = [row for step in range(0, steps, iterations) for row in layout.claims_of(step)]
    assert 12 * iterations == steps
    counts = [sampled.count(row) for row in range(11)]
    assert (2, 2 * 11 + 2) == (min(counts), sum(counts))  # two fill the last steps
    assert 5464 * iterations == steps_of(recipe, 5464)
