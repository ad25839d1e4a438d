"""Recipes as TRL and peft finally receive them, and laws over all of them."""

import dataclasses
import json
import operator
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig
from transformers import get_scheduler
from trl import GRPOConfig

from decomposerl.errors import ConfigError
from decomposerl.rewards.composite import weights_of
from decomposerl.rewards.settings import RewardSettings
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
from decomposerl.training.experiments import PAPER_7B, RECIPES, TINY, experiment
from project import ROOT
from resources.training.process import Generation, TrainingRun
from resources.training.settings import grpo_arguments, lora_arguments

PAPER_CLAIMS = 5_464
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.name)
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


PAPERS_NUMBERS = {
    "optim": "adamw_torch",  # AdamW
    "learning_rate": 5e-6,
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr": 5e-7},
    "warmup_steps": 0.1,
    "weight_decay": 0.001,
    "max_grad_norm": 1.0,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 4,
    "generation_batch_size": 16,
    "num_train_epochs": 2.0,
    "max_steps": 5_464,
    "num_generations": 8,
    "epsilon": 0.2,
    "epsilon_high": 0.28,
    "loss_type": "bnpo",
    "beta": 0.0,
    "mask_truncated_completions": True,
    "multi_objective_aggregation": "sum_then_normalize",
    "bf16": True,
}
OUR_READINGS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "max_completion_length": 4_500,
    "vllm_max_model_length": 16_000,
    "seed": 42,
    "data_seed": 42,
    "shuffle_dataset": True,
    "num_iterations": 1,
    "steps_per_generation": 4,
    "scale_rewards": "group",
    "importance_sampling_level": "token",
    "delta": None,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "top_entropy_quantile": 1.0,
    "entropy_coef": 0.0,
    "off_policy_mask_threshold": None,
    "sync_ref_model": False,
    "use_vllm": False,
    "vllm_importance_sampling_correction": True,
    "vllm_importance_sampling_mode": "sequence_mask",
    "vllm_importance_sampling_clip_max": 3.0,
    "vllm_importance_sampling_clip_min": None,
    "use_transformers_continuous_batching": False,
    "disable_dropout": False,
    "remove_unused_columns": False,
    "ddp_find_unused_parameters": False,
    "fp16": False,
    "reward_weights": None,
}


@pytest.mark.parametrize(("name", "value"), [*PAPERS_NUMBERS.items(), *OUR_READINGS.items()])
def test_trl_receives_the_papers_numbers(name: str, value: object):
    """Every number of section 4 and of the appendix, after TRL has read its arguments."""
    assert value == getattr(received(PAPER_7B), name)


READINGS = [
    [cell.strip(" `") for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs/explanation/paper-readings.md").read_text("utf-8").splitlines()
    if re.match(r"\| `[a-z_.0-9]+` \|", line)
]


@pytest.mark.parametrize("row", READINGS, ids=lambda row: row[0])
def test_the_page_on_readings_says_what_the_code_does(row: list[str]):
    """Each line of the table: the recipe's value, TRL's argument and TRL's own default."""
    path, _, shown, trl = row
    argument, _, default = trl.partition(" = ")
    value = default if shown == "default" else shown
    assert json.loads(value) == operator.attrgetter(path)(PAPER_7B)
    if argument != "–":
        assert json.loads(value) == getattr(received(PAPER_7B), argument)
        defaults = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
        assert json.loads(default) == defaults[argument]


def test_the_page_on_readings_lists_every_number_of_the_recipe():
    """Each field of adapter, optimization, GRPO and sampling but names, counts and the schedule."""
    listed = {row[0] for row in READINGS}
    parts = {"lora", "optimization", "grpo", "sampling"}
    fields = {name for name in ALTERED if name.partition(".")[0] in parts}
    assert {"lora.projections", "optimization.steps"} == fields - listed


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


@pytest.mark.parametrize("name", ABLATED)
def test_an_ablation_changes_its_one_part(name: str):
    """Beside name, title and row it is the paper's run with what its name says."""
    recipe = experiment(name)
    assert recipe.paper
    described = {"name": name, "title": recipe.title, "paper": recipe.paper}
    assert replace(PAPER_7B, **described, **ABLATED[name]) == recipe


def test_each_removed_reward_is_one_of_the_papers_seven():
    """In ``no_<reward>`` that one is off; recipes of the paper's tables change no other weight."""
    before = weights_of(PAPER_7B.rewards)
    assert 7 == sum(before.values())
    for recipe in RECIPES:
        after = weights_of(recipe.rewards)
        off = [name for name in before if after[name] != before[name]]
        name = recipe.name.removeprefix("tiny_")
        removed = [name.removeprefix("no_")] * name.startswith("no_")
        assert removed == [name for name in off if not after[name]]
        assert removed == off or not recipe.paper


def test_the_controls_of_the_tiny_run_differ_from_it_in_one_part():
    """One has a tenth of the labels, the other rewards that say nothing."""
    labels = replace(TINY, name="tiny_s10", title=experiment("tiny_s10").title, supervision=0.1)
    shuffled = experiment("tiny_shuffled")
    assert labels == experiment("tiny_s10")
    assert replace(TINY, name=shuffled.name, title=shuffled.title, shuffle_rewards=True) == shuffled
    assert (BASE_POLICY, "float32") == (TINY.model, TINY.lora.dtype)


@every_recipe
def test_a_recipe_comes_back_from_its_own_json(recipe: Experiment):
    """What ``config.json`` holds is the whole recipe; so it is through a run's JSON."""
    assert recipe == from_plain(json.loads(json.dumps(plain_values(recipe))))
    assert recipe.digest == from_plain(plain_values(recipe)).digest
    run = replace(run_of(recipe), held_out=Path("/held"))
    assert run == TrainingRun.from_json(run.to_json())


@every_recipe
def test_every_recipe_divides_and_reaches_trl(recipe: Experiment):
    """Batches hold whole groups, and TRL accepts the arguments and takes the recipe's steps."""
    assert [] == batch_problems(recipe.grpo)
    config = received(recipe)
    assert 0 == config.generation_batch_size % config.num_generations
    assert recipe.grpo.global_batch == config.generation_batch_size
    assert steps_of(recipe, PAPER_CLAIMS) == config.max_steps


OTHERWISE = {
    "necessity": "mean",
    "abstention": "literal",
    "atomicity": "strict",
    "votes": "policy",
    "failures": "zero",
    "grounding": "required",
    "silence": "refutes",
    "restating": "marked",
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


@pytest.mark.parametrize("name", ALTERED)
def test_the_digest_knows_every_field_but_title_and_row(name: str):
    """Two recipes that could train differently never share a digest."""
    changed = ALTERED[name]
    assert changed != PAPER_7B
    assert (changed.digest == PAPER_7B.digest) == (name in {"title", "paper"})


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        (Generation(), {"use_vllm": False, "use_transformers_continuous_batching": False}),
        (
            Generation(paged=True, memory_share=0.2),
            {
                "use_transformers_continuous_batching": True,
                "transformers_continuous_batching_config": {"max_memory_percent": 0.2},
                "bf16": False,
            },
        ),
        (
            Generation("vllm_colocate", memory_share=0.4, paged=True),
            {
                "use_vllm": True,
                "vllm_mode": "colocate",
                "vllm_gpu_memory_utilization": 0.4,
                "use_transformers_continuous_batching": False,
            },
        ),
        (
            Generation("vllm_server", url="http://127.0.0.1:8003", importance_correction=False),
            {
                "vllm_mode": "server",
                "vllm_server_base_url": "http://127.0.0.1:8003",
                "vllm_importance_sampling_correction": False,
            },
        ),
    ],
)
def test_the_engine_of_rollouts_is_the_runs(generation: Generation, expected: dict[str, Any]):
    """Each engine reaches TRL; the correction is off only where a run asks for it."""
    config = received(PAPER_7B, generation)
    assert expected == {name: getattr(config, name) for name in expected}


def test_several_devices_share_the_global_batch():
    """Two devices accumulate half as often; three cannot share 16 completions."""
    run = run_of(PAPER_7B, device="cuda")
    assert 2 == grpo_arguments(run, Path("/f"), 8, 2)["gradient_accumulation_steps"]
    with pytest.raises(ConfigError, match="no multiple of 4 a device on 3 devices"):
        grpo_arguments(run, Path("/f"), 8, 3)


@pytest.mark.parametrize(
    ("grpo", "said"),
    [
        (Grpo(per_device_batch=5), "no multiple of 5"),
        (Grpo(group_size=6), "no whole number of groups of 6"),
        (Grpo(group_size=1), "nothing to compare"),
    ],
)
def test_batches_that_do_not_divide_are_refused(grpo: Grpo, said: str):
    """The message says which numbers do not fit; TRL is not called."""
    with pytest.raises(ConfigError, match=said):
        arguments(replace(PAPER_7B, grpo=grpo))


def test_a_float32_base_trains_in_float32():
    """TRL's default of mixed precision is overruled where the base is not in bfloat16."""
    assert received(replace(PAPER_7B, lora=Lora(dtype="float32"))).bf16 is False
