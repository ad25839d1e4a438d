"""The named recipes: the paper's run, one per row of its ablations, and the tiny ones.

Every ablation is the paper's run with one part replaced. To add one: a line in ``RECIPES``, whose
property tests cover it. ``EXPERIMENTS`` has each of them once more with every seed of ``SEEDS``.
"""

from dataclasses import replace
from typing import Any

from decomposerl.errors import ConfigError
from decomposerl.evaluation.systems import SEED_MARK
from decomposerl.prompts.template import THREE_WAY
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.settings import PRINTED, STRICT, UNGUARDED
from decomposerl.training.experiment import (
    BASE_POLICY,
    CLEAN_POLICY,
    DEFAULT_SEED,
    SMALL_POLICY,
    THREE_WAY_POLICY,
    EvidenceView,
    Experiment,
    Grpo,
    HeldOut,
    Lora,
    Optimization,
    RolloutSampling,
)

PAPER_7B = Experiment(
    name="paper_7b",
    title="The paper's policy",
    paper="main results, 7B at s = 1.0",
    held_out=HeldOut(claims=128, every=1_000),  # our reading: the paper describes none
)
PAPER_7B_LITERAL = replace(
    PAPER_7B,
    name="paper_7b_literal",
    title="The paper's policy, every formula and prompt contract as printed",
    paper="",
    rewards=PRINTED,
    verdict_rule="paper",
)
PAPER_3B = replace(
    PAPER_7B,
    name="paper_3b",
    title="The same on a 3B base",
    paper="ablation of the policy's size",
    model="Qwen/Qwen2.5-3B-Instruct",
)

TINY_VIEW = EvidenceView(most_sentences=2)
"""As much as in the lessons of the tiny policy's warm start."""
TINY = Experiment(
    name="tiny",
    title="A policy that two cores train in minutes",
    model=BASE_POLICY,
    lora=Lora(dtype="float32"),
    optimization=Optimization(learning_rate=4e-4, least_learning_rate=4e-5, steps=30),
    grpo=Grpo(per_device_batch=32, global_batch=32, mask_truncated=False),
    sampling=RolloutSampling(max_prompt_tokens=400, max_completion_tokens=420),
    evidence_view=TINY_VIEW,
    held_out=HeldOut(claims=128),
)
"""The embedded profile's run; its figures are not comparable with the paper's."""


TINY_CLEAN = replace(
    TINY, name="tiny_clean", title="Tiny, from the clean warm start", model=CLEAN_POLICY
)
"""What the embedded ablations are compared with: training cannot merely undo planted flaws."""


SMOL = Experiment(
    name="smol",
    title="A small instruct model, to rehearse the real path on two cores",
    model="HuggingFaceTB/SmolLM2-135M-Instruct",
    lora=Lora(dtype="float32"),
    optimization=Optimization(learning_rate=2e-4, least_learning_rate=2e-5, steps=12),
    grpo=Grpo(mask_truncated=False),
    sampling=RolloutSampling(temperature=0.6, max_prompt_tokens=1_200, max_completion_tokens=160),
    evidence_view=TINY_VIEW,
    held_out=HeldOut(claims=32),
)
"""The paper's adapter and batch on 135 million parameters, with short evidence and traces.

At temperature 1 the base writes no trace at all.
"""


def _without(reward: str, row: str) -> Experiment:
    """The paper's run with one reward switched off."""
    return replace(
        PAPER_7B,
        name=f"no_{reward}",
        title=f"Without {row}",
        paper=f"reward ensemble ablation, without {row}",
        rewards=replace(PAPER_7B.rewards, weights={reward: 0.0}),
    )


def _supervised(percent: int) -> Experiment:
    """The paper's run with labels on a share of the claims."""
    share = percent / 100
    return replace(
        PAPER_7B,
        name=f"supervision_{percent}",
        title=f"Labels on {percent} % of the claims",
        paper=f"supervision-rate sweep, s = {share}",
        supervision=share,
    )


def _tiny(name: str, title: str, **changed: Any) -> Experiment:  # noqa: ANN401 - fields of a recipe
    """The tiny run from the clean warm start with one part changed."""
    return replace(TINY_CLEAN, name=f"tiny_{name}", title=f"Tiny, {title}", **changed)


def _tiny_without(reward: str) -> Experiment:
    weights = replace(TINY.rewards, weights={reward: 0.0})
    return _tiny(f"no_{reward}", f"without {reward.replace('_', ' ')}", rewards=weights)


EMBEDDED: tuple[Experiment, ...] = (
    TINY_CLEAN,
    *(
        _tiny(f"supervision_{percent}", f"labels on {percent} %", supervision=percent / 100)
        for percent in (10, 30, 50, 70)
    ),
    *(_tiny_without(reward.name) for reward in REWARDS if reward.weight),
    _tiny("random_sampling", "claims drawn at random", claims="training_claims_random"),
    _tiny("one_epoch", "half the steps", optimization=replace(TINY.optimization, steps=15)),
    _tiny("small", "a smaller base", model=SMALL_POLICY),
    _tiny("clean_classifiers", "judged by the tiny judge's classifiers", judge="tiny"),
)
"""The paper's ablations on the tiny policy; ``training.studies`` has the paper's recipe of each."""


def _read(name: str, title: str, **changed: Any) -> Experiment:  # noqa: ANN401 - reward settings
    """The tiny run with another reading of the rewards."""
    return _tiny(name, title, rewards=replace(TINY.rewards, **changed))


BEYOND: tuple[Experiment, ...] = (
    _tiny(
        "normalise_then_sum",
        "each reward normalised in its group, then summed",
        grpo=replace(TINY.grpo, aggregation="normalize_then_sum"),
    ),
    replace(
        _read("vote_policy", "labels on 10 %, the policy's own verdicts vote", votes="policy"),
        supervision=0.1,
    ),
    _read("necessity_mean", "necessity is the mean over questions", necessity="mean"),
    _read("literal", "abstentions paid as the paper prints it", abstention="literal"),
    _tiny("three_way", "three verdicts", model=THREE_WAY_POLICY, verdict_rule=THREE_WAY),
)
"""Readings beyond the paper's run; ``tiny_vote_policy`` stands beside ``tiny_supervision_10``, and
``tiny_three_way`` needs claims of three labels."""


RECIPES: tuple[Experiment, ...] = (
    PAPER_7B,
    PAPER_7B_LITERAL,
    PAPER_3B,
    _without("necessity", "necessity"),
    _without("coverage", "coverage"),
    _without("diversity", "diversity"),
    _without("joint", "joint quality"),
    _without("question_count", "question count"),
    *(_supervised(percent) for percent in (10, 30, 50, 70)),
    replace(
        PAPER_7B,
        name="random_sampling",
        title="Claims drawn at random",
        paper="sampling ablation, random",
        claims="training_claims_random",
    ),
    replace(
        PAPER_7B,
        name="one_epoch",
        title="Half the budget",
        paper="compute scaling, half budget",
        optimization=replace(PAPER_7B.optimization, epochs=1.0),
    ),
    replace(
        PAPER_7B,
        name="tiny_judge",
        title="Judged by small classifiers",
        paper="tiny-judge ablation",
        judge="tiny",
    ),
    TINY,
    replace(TINY, name="tiny_s10", title="Tiny, labels on 10 % of the claims", supervision=0.1),
    replace(
        TINY,
        name="tiny_shuffled",
        title="Tiny, rewards shuffled within groups: must not learn",
        shuffle_rewards=True,
    ),
    replace(TINY, name="tiny_strict", title="Tiny, strict readings of the rewards", rewards=STRICT),
    *EMBEDDED,
    *BEYOND,
    replace(
        TINY,
        name="tiny_long",
        title="Tiny, 200 steps without guards: which tricks does it find?",
        optimization=replace(TINY.optimization, steps=200),
        rewards=UNGUARDED,
    ),
    SMOL,
)
"""Every recipe once, with the default seed."""
SEEDS = (1, 2, 3, 4)
"""Further seeds of every recipe: five runs in all. Another one is a number more."""


def run_name(recipe: str, seed: int) -> str:
    """The name of a recipe's run with this seed; ``recipe`` may be the name of another seed's."""
    name = recipe.partition(SEED_MARK)[0]
    return name if seed == DEFAULT_SEED else f"{name}{SEED_MARK}{seed}"


def with_seed(recipe: Experiment, seed: int) -> Experiment:
    """A recipe of ``RECIPES`` with another seed, under a name of its own."""
    name = run_name(recipe.name, seed)
    return recipe if name == recipe.name else replace(recipe, name=name, seed=seed)


EXPERIMENTS = (*RECIPES, *(with_seed(recipe, seed) for recipe in RECIPES for seed in SEEDS))
"""Every run that can be trained, in the order of the partitions: the default seed's first."""


def experiment(name: str) -> Experiment:
    """The recipe with this name, and with the seed in it.

    Raises:
        ConfigError: there is none; the message lists the names.
    """
    by_name = {recipe.name: recipe for recipe in EXPERIMENTS}
    if name not in by_name:
        names = ", ".join(recipe.name for recipe in RECIPES)
        seeds = ", ".join(map(str, SEEDS))
        raise ConfigError(
            f"there is no experiment '{name}'; the names are {names}, "
            f"each also with {SEED_MARK}N for N = {seeds}"
        )
    return by_name[name]
