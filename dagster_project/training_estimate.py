"""The cost of training an experiment with a profile's engines, for the doctor.

Judge calls and questions to embed are counted over the training claims in the data folder, or the
paper's where there are none.
"""

from pathlib import Path

from dagster_project.public_figures import (
    SERVED,
    TINY_JUDGE_TOKENS_A_SECOND,
    Figure,
    card_rates,
)
from dagster_project.settings import Role, Settings
from decomposerl.errors import ConfigError
from decomposerl.reports.cost import FREE, Amount, CostLine, Rate
from decomposerl.reports.readiness import CostEstimate
from decomposerl.reports.training_plan import judging_cost
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    TINY_JUDGE_TOKENS,
    ClaimFacts,
    JudgeTokens,
    RunEstimate,
    estimate_run,
)
from decomposerl.training.experiment import Experiment
from decomposerl.training.experiments import PAPER_7B, TINY, experiment
from resources.preflight.workload import claim_facts

QUESTIONS, TINY_JUDGE = "Qwen/Qwen3-Embedding-8B", "answerdotai/ModernBERT-large"
"""The models of the measured and of the published speeds."""
SAMPLE = "profile paper has no corpora but the bundled sample, whose claims are invented"
CORPORA_FIX = "set DECOMPOSERL_CORPORA (docs/how-to/curate.md#lay-out-real-corpora)"
BOUND = 512
"""Tokens of a bounded thought in the doctor's comparison of readings."""


def training_estimate(settings: Settings, name: str = "") -> CostEstimate:
    """The estimate of an experiment, by default of the profile's own.

    Raises:
        ConfigError: there is no experiment with this name.
    """
    recipe = experiment(name) if name else default_recipe(settings)
    data = settings.paths.data
    facts = claim_facts(data / f"{recipe.claims}.parquet")
    basis = _basis(recipe, facts)
    estimate = estimate_run(recipe, facts or PAPER_CLAIMS, judge_tokens(settings, recipe))
    rates = card_rates(data)
    judge = _judge(settings, recipe, estimate, rates.get("tiny_judge", TINY_JUDGE_TOKENS_A_SECOND))
    lines = (judge, _embedder(settings, estimate, rates.get("embedder")))
    return CostEstimate(basis, None, lines, f"Training {recipe.name}")


def training_amounts(recipe: Experiment, data: Path, seconds_per_step: float) -> RunEstimate:
    """Steps, completions, judge calls and hours over the claims in ``data``, or the paper's."""
    facts = claim_facts(data / f"{recipe.claims}.parquet") or PAPER_CLAIMS
    return estimate_run(recipe, facts, seconds_per_step=seconds_per_step)


def default_recipe(settings: Settings) -> Experiment:
    """The recipe that a profile is made for: the paper's, or the tiny one without a judge."""
    return PAPER_7B if settings.judge.in_use else TINY


def _basis(recipe: Experiment, facts: ClaimFacts | None) -> str:
    if facts is None:
        return (
            f"the paper's {PAPER_CLAIMS.claims:,} claims (mean n* {PAPER_CLAIMS.questions}; "
            f"{PAPER_CLAIMS.evidence_tokens:,.0f} tokens of evidence assumed)"
        )
    return f"the {facts.claims:,} {recipe.claims} in the data folder (n* and lengths measured)"


def judge_tokens(settings: Settings, recipe: Experiment) -> JudgeTokens:
    """Lengths of the judge's calls; a recipe's thinking takes the place of the profile's."""
    if recipe.judge == "tiny":
        return TINY_JUDGE_TOKENS
    judge = settings.judge
    thinks = judge.thinks is not False if recipe.judge_thinking is None else recipe.judge_thinking
    bound = judge.thinking_tokens if judge.bound_thinking else 0
    return JudgeTokens().thinking(bound) if thinks else JudgeTokens()


def judge_hours() -> dict[str, float]:
    """GPU-hours of ``paper_7b`` with Qwen3-32B, by its thinking."""
    plain = JudgeTokens()
    readings = {"off": plain, str(BOUND): plain.thinking(BOUND), "on": plain.thinking()}
    rate = Rate(tokens_per_s=SERVED["Qwen/Qwen3-32B"].amount)
    return {
        word: judging_cost(estimate_run(PAPER_7B, PAPER_CLAIMS, tokens), word, rate).gpu_hours
        or 0.0
        for word, tokens in readings.items()
    }


def rate_of(role: Role, figure: Figure | None = None, cards: int = 0) -> Rate:
    """What a model's tokens cost by ``figure``, else a published one, on ``cards`` or one a URL."""
    known = None if role.at_openai else figure or SERVED.get(role.model)
    speed, cards = known.amount if known else None, cards or max(len(role.base_url), 1)
    missing: Amount = "dollars" if role.at_openai else "gpu_hours"
    return Rate(role.price, speed, None if known or role.price else missing, cards)


def _judge(settings: Settings, recipe: Experiment, estimate: RunEstimate, tiny: Figure) -> CostLine:
    role, encoder = settings.judge, settings.training.encoder
    if recipe.judge == "tiny":
        speed = tiny.amount if encoder == TINY_JUDGE else None
        return judging_cost(estimate, f"tiny judge on {encoder}", Rate(tokens_per_s=speed))
    return judging_cost(estimate, *((role.model, rate_of(role)) if role.in_use else ("rules",)))


def _embedder(settings: Settings, estimate: RunEstimate, measured: Figure | None) -> CostLine:
    """At most each question of each rollout: those that repeat are embedded once."""
    role, calls = settings.questions, estimate.questions
    engine, rate = settings.embedder.model or "MiniLM", FREE
    if role.in_use:
        engine, rate = role.model, rate_of(role, measured if role.model == QUESTIONS else None)
    return rate.line("embedder", engine, calls, calls * JudgeTokens().question, 0)


def refuse_sample(settings: Settings) -> None:
    """Refuse the paper's profile without corpora: its models would learn from invented claims.

    Raises:
        ConfigError: that is so.
    """
    if settings.profile == "paper" and settings.paths.corpora is None:
        raise ConfigError(f"{SAMPLE}: {CORPORA_FIX}")
