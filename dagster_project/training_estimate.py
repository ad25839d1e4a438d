"""The cost of training an experiment with a profile's engines, for the doctor.

Judge calls and questions to embed are counted over the training claims in the data folder, or the
paper's where there are none.
"""

from dataclasses import replace
from pathlib import Path

from dagster_project.public_figures import (
    QWEN3_32B_TOKENS_A_SECOND,
    TINY_JUDGE_TOKENS_A_SECOND,
    Figure,
    card_rates,
)
from dagster_project.settings import Settings
from decomposerl.reports.cost import SECONDS_AN_HOUR, CostLine
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
    speed, hours = QWEN3_32B_TOKENS_A_SECOND.amount, {}
    for word, tokens in readings.items():
        line = judging_cost(estimate_run(PAPER_7B, PAPER_CLAIMS, tokens), word, None, speed)
        hours[word] = line.gpu_hours or 0.0
    return hours


def _judge(settings: Settings, recipe: Experiment, estimate: RunEstimate, tiny: Figure) -> CostLine:
    role, encoder = settings.judge, settings.training.encoder
    if recipe.judge == "tiny":
        speed = tiny.amount if encoder == TINY_JUDGE else None
        return judging_cost(estimate, f"tiny judge on {encoder}", None, speed)
    if not role.in_use:
        return judging_cost(estimate, "rules")
    ours = not role.at_openai and role.model == "Qwen/Qwen3-32B"
    speed = QWEN3_32B_TOKENS_A_SECOND.amount if ours else None
    line = judging_cost(estimate, role.model, role.price, speed)
    return replace(line, unknown=None if ours else role.unpriced)


def _embedder(settings: Settings, estimate: RunEstimate, measured: Figure | None) -> CostLine:
    """At most each question of each rollout: those that repeat are embedded once."""
    role, model = settings.questions, settings.questions.model
    tokens = round(estimate.questions * JudgeTokens().question)
    if not role.in_use:
        here = settings.embedder.model or "MiniLM"
        return CostLine("embedder", here, estimate.questions, tokens, 0, None, None)
    dollars = None if role.price is None else role.price.dollars(tokens, 0)
    ours = measured is not None and not role.at_openai and model == QUESTIONS
    hours = tokens / measured.amount / SECONDS_AN_HOUR if measured and ours else None
    unknown = None if ours else role.unpriced
    return CostLine("embedder", model, estimate.questions, tokens, 0, dollars, hours, unknown)
