"""Recipes: as TRL and peft finally receive them, laws over all of them, and what each changes."""

import dataclasses
import json
import operator
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import torch
from peft import LoraConfig
from transformers import get_scheduler
from trl import GRPOConfig

from decomposerl.errors import ConfigError
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.scoring import active_rewards, reward_batch
from decomposerl.rewards.settings import PRINTED, RewardSettings
from decomposerl.traces.trace import Cycle
from decomposerl.training.estimate import batch_problems
from decomposerl.training.experiment import (
    BASE_POLICY,
    EvidenceView,
    Experiment,
    Grpo,
    Lora,
    from_plain,
    plain_values,
    steps_of,
)
from decomposerl.training.experiments import (
    BEYOND,
    EMBEDDED,
    EXPERIMENTS,
    PAPER_7B,
    RECIPES,
    SEEDS,
    SMOL,
    TINY,
    experiment,
    run_name,
    with_seed,
)
from project import ROOT
from resources.training.process import Generation, TrainingRun
from resources.training.settings import grpo_arguments, lora_arguments
from reward_parts import NEI, R, S, case, numbered, rollout, signals, unit
from tables import value_beside

PAPER_CLAIMS = 5_464
ON_THE_CPU = {
    "use_cpu": True,
    "optim": "adamw_torch",
    "activation_checkpointing": False,
    "dataloader_pin_memory": False,
}
"""What a machine without a GPU changes; nothing of it is a number of the paper."""


def run_of(recipe: Experiment, device: str = "cuda") -> TrainingRun:
    path = Path("/nowhere")
    return TrainingRun(recipe, "0" * 16, claims=path, base="", folder=path, device=device)


def arguments(recipe: Experiment, device: str = "cuda") -> dict[str, Any]:
    return grpo_arguments(run_of(recipe, device), Path("/nowhere"), PAPER_CLAIMS)


def received(recipe: Experiment, generation: Generation | None = None) -> GRPOConfig:
    """The real configuration, as it is after TRL's and transformers' own checks."""
    run = replace(run_of(recipe, "cpu"), generation=generation or Generation())
    return GRPOConfig(**grpo_arguments(run, Path("/nowhere"), PAPER_CLAIMS))


NUMBERS = value_beside(__file__, "paper_recipe")


def test_trl_receives_the_papers_numbers():
    """Every number of section 4 and of the appendix, after TRL has read its arguments."""
    config, numbers = received(PAPER_7B), NUMBERS["the paper's"] | NUMBERS["our readings"]
    assert numbers == {name: getattr(config, name) for name in numbers}


READINGS = [
    [cell.strip(" `") for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs/explanation/paper-readings.md").read_text("utf-8").splitlines()
    if re.match(r"\| `[a-z_.0-9]+` \|", line)
]


def test_the_page_on_readings_says_what_the_code_does():
    """Each line of the table: the recipe's value, TRL's argument and TRL's own default.

    It has each field of adapter, optimization, GRPO and sampling but names, counts, the schedule.
    """
    config = received(PAPER_7B)
    defaults = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    for path, _, shown, trl in READINGS:
        argument, _, default = trl.partition(" = ")
        value = json.loads(default if shown == "default" else shown)
        assert value == operator.attrgetter(path)(PAPER_7B), path
        if argument != "–":
            assert value == getattr(config, argument), path
            assert json.loads(default) == defaults[argument], path
    parts = {"lora", "optimization", "grpo", "sampling"}
    fields = {name for name in ALTERED if name.partition(".")[0] in parts}
    assert {"lora.projections", "optimization.steps"} == fields - {row[0] for row in READINGS}


def test_a_cpu_changes_no_number_of_the_paper():
    """Between a GPU's arguments and those tested above differ the ones listed, and no other."""
    there, here = arguments(PAPER_7B), arguments(PAPER_7B, "cpu")
    assert {name: value for name, value in here.items() if value != there[name]} == ON_THE_CPU
    assert there["activation_checkpointing"] is True
    assert there["optim"] == "adamw_torch_fused"


def test_every_argument_is_one_that_trl_has_and_keeps():
    """No argument is deprecated (warnings are errors here), unknown, or changed by TRL."""
    given, config = arguments(PAPER_7B, "cpu"), received(PAPER_7B)
    changed = {
        name: getattr(config, name) for name in given if getattr(config, name) != given[name]
    }
    assert changed == {"report_to": []}


def test_a_tracker_is_passed_on_with_the_name_of_the_run():
    """By default there is none; the name is the partition's."""
    run = replace(run_of(PAPER_7B, "cpu"), report_to="trackio")
    given = grpo_arguments(run, Path("/nowhere"), PAPER_CLAIMS)
    assert ("trackio", "paper_7b", "decomposerl") == (
        given["report_to"], given["run_name"], given["project"]
    )  # fmt: skip
    config = GRPOConfig(**given)
    assert (["trackio"], "paper_7b") == (config.report_to, config.run_name)


def test_peft_receives_the_papers_adapter():
    """Rank 64 and alpha 128 on all seven projections, nothing else trained."""
    config = LoraConfig(**lora_arguments(PAPER_7B.lora))
    assert (64, 128, 0.0) == (config.r, config.lora_alpha, config.lora_dropout)
    projections = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert projections == config.target_modules
    assert ("none", None, "CAUSAL_LM") == (config.bias, config.modules_to_save, config.task_type)
    assert PAPER_7B.lora.dtype == "bfloat16"


def test_the_learning_rate_warms_up_and_falls_to_its_floor():
    """0 at the start, 5e-6 after a tenth of the steps, 5e-7 at the end: by the real scheduler."""
    config = received(PAPER_7B)
    steps, warmup = config.max_steps, config.get_warmup_steps(config.max_steps)
    optimizer = torch.optim.AdamW([torch.zeros(1, requires_grad=True)], lr=config.learning_rate)
    scheduler = get_scheduler(
        config.lr_scheduler_type,
        optimizer,
        num_warmup_steps=warmup,
        num_training_steps=steps,
        scheduler_specific_kwargs=config.lr_scheduler_kwargs,
    )
    (rate,) = scheduler.lr_lambdas
    assert 547 == warmup
    assert [0.0, 5e-6, 5e-7] == pytest.approx(
        [5e-6 * rate(step) for step in (0, warmup, steps)], rel=1e-9
    )
    assert all(rate(step) >= rate(step + 1) for step in range(warmup, steps))


def test_the_papers_run_has_the_papers_steps():
    """5,464 claims, two epochs, two claims a step: 5,464 steps, and half in one epoch."""
    assert 5_464 == steps_of(experiment("paper_7b"), PAPER_CLAIMS)
    assert 2_732 == steps_of(experiment("one_epoch"), PAPER_CLAIMS)


ABLATED: dict[str, dict[str, Any]] = {
    "paper_7b": {},
    "paper_3b": {"model": "Qwen/Qwen2.5-3B-Instruct"},
    **{
        f"no_{reward}": {"rewards": RewardSettings(weights={reward: 0.0})}
        for reward in ("necessity", "coverage", "diversity", "joint", "question_count")
    },
    **{f"supervision_{s}": {"supervision": s / 100} for s in (10, 30, 50, 70)},
    "random_sampling": {"claims": "training_claims_random"},
    "one_epoch": {"optimization": replace(PAPER_7B.optimization, epochs=1.0)},
    "tiny_judge": {"judge": "tiny"},
}


def test_an_ablation_changes_its_one_part():
    """Beside name, title and row it is the paper's run with what its name says."""
    for name, changed in ABLATED.items():
        recipe = experiment(name)
        assert recipe.paper
        described = {"name": name, "title": recipe.title, "paper": recipe.paper}
        assert replace(PAPER_7B, **described, **changed) == recipe


def test_the_literal_recipe_is_the_papers_run_as_printed():
    """Every reading that has a printed form has it, and silence is no refutation."""
    literal = experiment("paper_7b_literal")
    described = {"name": literal.name, "title": literal.title, "paper": ""}
    printed = replace(PAPER_7B, **described, rewards=PRINTED, verdict_rule="paper")
    assert printed == literal
    readings = dataclasses.asdict(literal.rewards)
    ours = {"necessity": "min", "atomicity": "fraction", "votes": "judge", "failures": "drop_group"}
    same = {"weights": {}, "own": ""} | ours
    assert same | dict.fromkeys(readings.keys() - same.keys(), "literal") == readings


def test_each_removed_reward_is_one_of_the_papers_seven():
    """In ``no_<reward>`` that one is off; recipes of the paper's tables change no other weight."""
    before = weights_of(PAPER_7B)
    assert 7 == sum(before.values())
    for recipe in RECIPES:
        after = weights_of(recipe)
        off = [name for name in before if after.get(name) != before[name]]
        name = recipe.name.removeprefix("tiny_")
        removed = [name.removeprefix("no_")] * name.startswith("no_")
        assert removed == [name for name in off if name not in after]
        assert removed == off or not recipe.paper


def weights_of(recipe: Experiment) -> dict[str, float]:
    """Of its active rewards."""
    return {reward.name: reward.weight for reward in active_rewards(recipe.rewards)}


def test_the_controls_of_the_tiny_run_differ_from_it_in_one_part():
    """One has a tenth of the labels, the other rewards that say nothing."""
    labels = replace(TINY, name="tiny_s10", title=experiment("tiny_s10").title, supervision=0.1)
    shuffled = experiment("tiny_shuffled")
    assert labels == experiment("tiny_s10")
    assert replace(TINY, name=shuffled.name, title=shuffled.title, shuffle_rewards=True) == shuffled
    assert (BASE_POLICY, "float32") == (TINY.model, TINY.lora.dtype)


def test_every_recipe_comes_back_from_its_json_and_reaches_trl():
    """What ``config.json`` holds is the whole recipe; so it is through a run's JSON.

    Batches hold whole groups, and TRL accepts the arguments and takes the recipe's steps.
    """
    for recipe in RECIPES:
        assert recipe == from_plain(json.loads(json.dumps(plain_values(recipe))))
        assert recipe.digest == from_plain(plain_values(recipe)).digest
        run = replace(run_of(recipe), held_out=Path("/held"))
        assert run == TrainingRun.from_json(run.to_json())
        assert [] == batch_problems(recipe.grpo)
        config = received(recipe)
        assert 0 == config.generation_batch_size % config.num_generations, recipe.name
        assert recipe.grpo.global_batch == config.generation_batch_size, recipe.name
        assert steps_of(recipe, PAPER_CLAIMS) == config.max_steps, recipe.name


OTHERWISE = {
    "necessity": "mean",
    "abstention": "literal",
    "atomicity": "strict",
    "votes": "policy",
    "failures": "raise",
    "grounding": "required",
    "silence": "refutes",
    "restating": "marked",
    "format": "literal",
    "diversity": "literal",
    "correctness": "literal",
    "weights": {"joint": 2.0},
    "projections": ("q_proj",),
    "evidence_view": EvidenceView(),
    "judge_thinking": True,
    "verdict_rule": "paper",
}
"""Other values of the fields that are no number, word or switch."""


def other_value(name: str, old: object) -> object:
    if name in OTHERWISE:
        return OTHERWISE[name]
    if isinstance(old, bool):
        return not old
    return f"{old}x" if isinstance(old, str) else operator.add(old, 1)


def altered(recipe: object) -> dict[str, Any]:
    """The recipe with one field changed, for each field of it and of its parts."""
    variants: dict[str, Any] = {}
    for field in dataclasses.fields(recipe):
        old = getattr(recipe, field.name)
        if dataclasses.is_dataclass(old):
            parts = {f"{field.name}.{name}": part for name, part in altered(old).items()}
        else:
            parts = {field.name: other_value(field.name, old)}
        variants |= {name: replace(recipe, **{field.name: part}) for name, part in parts.items()}
    return variants


ALTERED = altered(PAPER_7B)


def test_the_digest_knows_every_field_but_title_and_row():
    """Two recipes that could train differently never share a digest."""
    assert PAPER_7B not in ALTERED.values()
    same = {name for name, changed in ALTERED.items() if changed.digest == PAPER_7B.digest}
    assert {"title", "paper"} == same


def test_the_engine_of_rollouts_is_the_runs():
    """Each engine reaches TRL; the correction is off only where a run asks for it."""
    url = "http://127.0.0.1:8003"
    colocate = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4}
    server = {"vllm_mode": "server", "vllm_server_base_url": url}
    correction = "vllm_importance_sampling_correction"
    for generation, expected in (
        (Generation(), {"use_vllm": False, "use_transformers_continuous_batching": False}),
        (Generation("vllm_colocate", memory_share=0.4), colocate),
        (Generation("vllm_colocate", sleep_mode=True), {"vllm_enable_sleep_mode": True}),
        (
            Generation("vllm_server", url=url, importance_correction=False),
            server | {correction: False},
        ),
    ):
        config = received(PAPER_7B, generation)
        assert expected == {name: getattr(config, name) for name in expected}


def test_batches_that_do_not_divide_are_refused():
    """The message says which numbers do not fit; two devices accumulate half as often."""
    run = run_of(PAPER_7B, device="cuda")
    assert 2 == grpo_arguments(run, Path("/f"), 8, 2)["gradient_accumulation_steps"]
    with pytest.raises(ConfigError, match=r"4 .*3 devices"):
        grpo_arguments(run, Path("/f"), 8, 3)
    for grpo, said in (
        (Grpo(per_device_batch=5), "multiple of 5"),
        (Grpo(group_size=6), "groups of 6"),
        (Grpo(group_size=1), "compare"),
    ):
        with pytest.raises(ConfigError, match=said):
            arguments(replace(PAPER_7B, grpo=grpo))


def test_a_float32_base_trains_in_float32():
    """TRL's default of mixed precision is overruled where the base is not in bfloat16."""
    assert received(replace(PAPER_7B, lora=Lora(dtype="float32"))).bf16 is False


def test_names_are_unique_and_can_be_partitions():
    """Names are short words that Dagster takes as keys and a file system as folders."""
    names = [one.name for one in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,30}(-seed_\d+)?", name) for name in names)
    assert names == list(dg.StaticPartitionsDefinition(names).get_partition_keys())
    assert [experiment(name).name for name in names] == names
    assert len({one.digest for one in EXPERIMENTS}) == len(names)


def test_every_recipe_has_further_seeds_under_names_of_their_own():
    """The default seed keeps the recipe's name; a further one changes name and seed, no more."""
    assert RECIPES == EXPERIMENTS[: len(RECIPES)]
    assert {42} == {one.seed for one in RECIPES}
    assert len(RECIPES) * (1 + len(SEEDS)) == len(EXPERIMENTS)
    for recipe in RECIPES:
        for seed in SEEDS:
            other = experiment(f"{recipe.name}-seed_{seed}")
            assert replace(recipe, name=other.name, seed=seed) == other == with_seed(recipe, seed)
        assert recipe == with_seed(recipe, 42)
    assert ["a-seed_3", "a"] == [run_name("a-seed_1", seed) for seed in (3, 42)]


def test_every_recipe_holds_claims_out():
    """Else a run has no before and after, and no checkpoint can be chosen."""
    few = {one.name for one in RECIPES if one.held_out.claims != 128}
    assert ({"smol"}, 32) == (few, experiment("smol").held_out.claims)
    long = [one for one in EXPERIMENTS if steps_of(one, PAPER_CLAIMS) > one.held_out.every > 0]
    large = [one for one in EXPERIMENTS if not (one.on_tiny_base or one.model == SMOL.model)]
    assert {one.name for one in large} == {one.name for one in long}


def test_an_unknown_experiment_is_refused_with_the_names_there_are():
    """The message has every recipe's name once, and how a seed is added."""
    with pytest.raises(ConfigError, match=r"paper_7b.*tiny_shuffled.*-seed_N.* 1, 2, 3, 4"):
        experiment("paper_8b")
    with pytest.raises(ConfigError, match="'tiny-seed_7'"):
        experiment("tiny-seed_7")


TINY_CHANGED: dict[str, dict[str, Any]] = {
    "tiny_clean": {},
    **{
        f"tiny_no_{reward.name}": {"rewards": RewardSettings(weights={reward.name: 0.0})}
        for reward in REWARDS
        if reward.weight
    },
    **{f"tiny_supervision_{s}": {"supervision": s / 100} for s in (10, 30, 50, 70)},
    "tiny_random_sampling": {"claims": "training_claims_random"},
    "tiny_one_epoch": {"optimization": replace(TINY.optimization, steps=15)},
    "tiny_small": {"model": "base_policy_small"},
    "tiny_clean_classifiers": {"judge": "tiny"},
}


def test_an_embedded_ablation_is_the_tiny_run_from_the_clean_base_with_its_one_part():
    """Beside name and title; none claims to reproduce a row of the paper."""
    clean = replace(TINY, name="tiny_clean", model="base_policy_clean")
    assert set(TINY_CHANGED) == {one.name for one in EMBEDDED}
    for recipe in EMBEDDED:
        changed = TINY_CHANGED[recipe.name]
        described = {"name": recipe.name, "title": recipe.title}
        assert replace(clean, **described, **changed) == recipe


def test_the_recipe_on_the_page_on_training_is_one():
    """As printed it changes base and two weights, is no row of the paper, and has its steps."""
    page = (ROOT / "docs/how-to/train.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"replace": replace, "PAPER_7B": PAPER_7B, "RewardSettings": RewardSettings}
    (recipe,) = eval(f"({block})", names)  # noqa: S307 - our own page
    weights = {**weights_of(PAPER_7B), "joint": 2.0, "diversity": 0.5}
    assert (weights, "") == (weights_of(recipe), recipe.paper)
    assert experiment("paper_3b").model == recipe.model
    assert steps_of(recipe, 5_464) == steps_of(PAPER_7B, 5_464)


CHANGED = {
    "tiny_normalise_then_sum": ("tiny_clean", {"grpo.aggregation": "normalize_then_sum"}),
    "tiny_vote_policy": ("tiny_supervision_10", {"rewards.votes": "policy"}),
    "tiny_necessity_mean": ("tiny_clean", {"rewards.necessity": "mean"}),
    "tiny_literal": ("tiny_clean", {"rewards.abstention": "literal"}),
    "tiny_three_way": (
        "tiny_clean",
        {"model": "base_policy_three_way", "verdict_rule": "three_way"},
    ),
    "tiny_long": (
        "tiny",
        {"optimization.steps": 200, "rewards.abstention": "literal", "rewards.necessity": "mean"},
    ),
}


def leaves(name: str) -> dict[str, Any]:
    """A recipe's numbers by dotted name, but for what only names it."""
    plain = plain_values(experiment(name))
    return {
        f"{part}.{field}" if isinstance(values, dict) else part: value
        for part, values in plain.items()
        if part not in {"name", "title", "paper"}
        for field, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


def test_a_reading_changes_its_one_part():
    """Compared with the run that it stands beside, nothing else differs; each has every seed."""
    for name, (against, expected) in CHANGED.items():
        before = leaves(against)
        assert expected == {key: v for key, v in leaves(name).items() if before[key] != v}, name
    names = {one.name for one in EXPERIMENTS}
    assert {one.name for one in BEYOND} < set(CHANGED)
    assert {with_seed(one, seed).name for one in BEYOND for seed in SEEDS} < names
    config = received(experiment("tiny_normalise_then_sum"))
    assert "normalize_then_sum" == config.multi_objective_aggregation


def rewards_of(name: str, cases: list[RewardCase]) -> list[float | None]:
    settings = RewardSettings() if name == "tiny" else experiment(name).rewards
    return list(reward_batch(numbered(cases), settings).totals)


def dodging() -> RewardCase:
    """Two abstentions on questions that the document answers."""
    sampled = rollout((Cycle("What of it?", "I don't know."), Cycle("Who?", "I don't know.")))
    ruled = replace(signals(2, NEI), correct=(None, None), abstained=(True, True))
    return RewardCase(sampled, ruled, unit((1, 0), (0, 1)))


def test_each_reading_pays_something_else():
    """One case for each setting where its total differs from that of the plain run."""
    for name, one in (("tiny_necessity_mean", case(R, (S, R))), ("tiny_literal", dodging())):
        assert rewards_of("tiny", [one]) != rewards_of(name, [one]), name


def test_the_policys_votes_make_another_pseudo_label():
    """Two of three rollouts say Refuted, while the judge reads Supported from all answers."""
    group = [case(S, label=None, verdict=verdict) for verdict in (R, R, S)]
    by_judge = reward_batch(numbered(group), experiment("tiny_supervision_10").rewards)
    by_policy = reward_batch(numbered(group), experiment("tiny_vote_policy").rewards)
    assert {1.0} == set(by_judge.counted["coverage"])
    assert {0.0} == set(by_policy.counted["coverage"])
