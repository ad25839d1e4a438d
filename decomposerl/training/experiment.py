"""The recipe of a training run: every number that decides what is learned.

With the training claims, the base weights and the profile's engines an ``Experiment`` determines
the run. Defaults are the paper's numbers (section 4 "Model and training", appendix "Implementation
Details"); what the paper does not state is marked "our reading".
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from decomposerl.errors import ConfigError
from decomposerl.prompts.template import THREE_WAY, VerdictRule
from decomposerl.rewards.settings import RewardSettings

ClaimsTable = Literal["training_claims", "training_claims_random"]
JudgeChoice = Literal["profile", "tiny"]
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
DEFAULT_SEED = 42
BASE_POLICY = "base_policy"
"""``Experiment.model`` of the tiny model that the project warm-starts itself."""
CLEAN_POLICY, SMALL_POLICY = "base_policy_clean", "base_policy_small"
"""The same, warm-started on traces without planted flaws; and a smaller one, also without."""
THREE_WAY_POLICY = "base_policy_three_way"
"""The clean one, warm-started further until it writes the third verdict."""
TINY_BASES = (BASE_POLICY, CLEAN_POLICY, SMALL_POLICY, THREE_WAY_POLICY)
"""Each is an asset of this name, a folder of the data folder."""


@dataclass(frozen=True, slots=True)
class Lora:
    """The adapter on a frozen base. ``dtype`` is the base's, a torch name."""

    rank: int = 64
    alpha: int = 128
    dropout: float = 0.0  # our reading
    projections: tuple[str, ...] = PROJECTIONS
    dtype: Literal["bfloat16", "float32"] = "bfloat16"


@dataclass(frozen=True, slots=True)
class Optimization:
    """AdamW on a cosine schedule with a floor. ``steps`` overrides ``epochs`` where not 0."""

    learning_rate: float = 5e-6
    least_learning_rate: float = 5e-7
    warmup_ratio: float = 0.1
    weight_decay: float = 0.001
    max_grad_norm: float = 1.0
    epochs: float = 2.0
    steps: int = 0
    adam_beta1: float = 0.9  # our reading: AdamW's usual values, these three
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-8


@dataclass(frozen=True, slots=True)
class Grpo:
    """Group-relative policy optimization. Batches count completions, not prompts.

    ``global_batch`` completions, over all devices and accumulation, make one optimizer step.
    """

    group_size: int = 8
    per_device_batch: int = 4
    global_batch: int = 16
    epsilon: float = 0.2
    epsilon_high: float = 0.28
    beta: float = 0.0
    loss: Literal["bnpo", "grpo", "dapo", "dr_grpo"] = "bnpo"
    mask_truncated: bool = True
    scale_rewards: Literal["group", "batch", "none"] = "group"  # our reading
    aggregation: Literal["sum_then_normalize", "normalize_then_sum"] = "sum_then_normalize"
    iterations: int = 1  # our reading: each batch is used once


@dataclass(frozen=True, slots=True)
class RolloutSampling:
    """How rollouts are sampled. All our reading: the paper states none of it."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_prompt_tokens: int = 11_500
    max_completion_tokens: int = 4_500


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """Shows the policy the few evidence sentences that share entities with the claim.

    For models too small to read whole documents; the judge always sees the whole document.
    """

    most_sentences: int = 4


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Claims of the silver pool that no training set holds, sampled before and after training.

    ``claims`` is their number, 0 for none. ``every`` samples them again after this many steps
    (0: only at both ends) and keeps the adapter of that step. ``samples`` completions per claim
    at the training temperature, and one greedy; all are judged.
    """

    claims: int = 0
    every: int = 0
    samples: int = 1

    def measured(self, steps: int) -> int:
        """How often they are sampled in a run of ``steps`` steps, both ends included."""
        if not self.claims:
            return 0
        return 2 + (len(range(self.every, steps, self.every)) if self.every else 0)


@dataclass(frozen=True, slots=True)
class Experiment:
    """The recipe of one training run.

    ``name`` is its partition; a further seed has its own, ``paper_7b-seed_1``.
    ``model`` is a hub name, a folder, or one of ``TINY_BASES``. ``supervision`` is the share s of
    claims that keep their label (section 3.3). ``paper`` names the row of the paper that it
    reproduces. ``shuffle_rewards`` permutes reward vectors within each group: a control that must
    not learn. ``judge_thinking`` None keeps the profile's. ``verdict_rule`` is what the
    policy's prompt calls Refuted; under ``three_way`` it may end with a third verdict, and learns
    from claims that were read with ``label_rule = keep_middle``.

    Raises:
        ConfigError: a reading of the rewards contradicts the verdict rule.
    """

    name: str
    title: str
    paper: str = ""
    model: str = "Qwen/Qwen2.5-7B-Instruct"
    claims: ClaimsTable = "training_claims"
    judge: JudgeChoice = "profile"
    judge_thinking: bool | None = None
    verdict_rule: VerdictRule = "evidence"
    supervision: float = 1.0
    seed: int = DEFAULT_SEED
    lora: Lora = field(default_factory=Lora)
    optimization: Optimization = field(default_factory=Optimization)
    grpo: Grpo = field(default_factory=Grpo)
    sampling: RolloutSampling = field(default_factory=RolloutSampling)
    rewards: RewardSettings = field(default_factory=RewardSettings)
    evidence_view: EvidenceView | None = None
    held_out: HeldOut = field(default_factory=HeldOut)
    shuffle_rewards: bool = False

    def __post_init__(self) -> None:
        """Refuse to read silence as a refutation where it is a verdict."""
        if self.verdict_rule == THREE_WAY and self.rewards.silence != "literal":
            raise ConfigError(
                f"recipe '{self.name}': silence = {self.rewards.silence} reads an open part as "
                f"Refuted, and verdict_rule = {THREE_WAY} has a verdict for it; choose one"
            )

    @property
    def on_tiny_base(self) -> bool:
        """Whether its base is a tiny model of the data folder."""
        return self.model in TINY_BASES

    @property
    def digest(self) -> str:
        """16 hex digits of SHA-256 over every field but the title and the paper's row.

        Of the later settings of the rewards only those that are not the default: runs from before
        them are the same runs.
        """
        plain, usual = plain_values(self), asdict(RewardSettings())
        for name in ("format", "diversity", "correctness", "own"):
            if plain["rewards"][name] == usual[name]:
                del plain["rewards"][name]
        text = json.dumps({k: v for k, v in plain.items() if k not in {"title", "paper"}})
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain_values(experiment: Experiment) -> dict[str, Any]:
    """The recipe as nested dicts, lists and numbers, the form of ``config.json``."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(experiment), sort_keys=True))
    return plain


def steps_of(experiment: Experiment, claims: int) -> int:
    """Optimizer steps over ``claims`` training claims, rounded up.

    A batch has ``global_batch / group_size`` claims and makes ``iterations`` steps; 5,464
    claims, two epochs, two claims a batch and one step each make the paper's 5,464 steps.
    """
    if experiment.optimization.steps:
        return experiment.optimization.steps
    grpo = experiment.grpo
    batches = -(-claims // (grpo.global_batch // grpo.group_size))
    return math.ceil(batches * experiment.optimization.epochs) * grpo.iterations


def from_plain(plain: Mapping[str, Any]) -> Experiment:
    """The recipe back from ``plain_values``; a field that it lacks is the default.

    Raises:
        ValueError: a field has a value that it cannot have.
        ConfigError: a reading of the rewards is unknown.
    """
    return TypeAdapter(Experiment).validate_python(plain)
