"""The cost of training an experiment with a profile's engines, for the doctor.

Judge calls and questions to embed are counted over the training claims in the data folder, or the
paper's where there are none.
"""

from dataclasses import replace
from pathlib import Path

from dagster_project.engine_choices import QUESTIONS, TINY_JUDGE, EngineChoices
from dagster_project.model_server import Server
from dagster_project.public_figures import (
    QWEN3_32B_TOKENS_A_SECOND,
    TINY_JUDGE_TOKENS_A_SECOND,
    Figure,
    card_rates,
)
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

BOUND = 512
"""Tokens of a bounded thought in the doctor's comparison of readings."""


def training_estimate(engines: EngineChoices, data: Path, name: str = "") -> CostEstimate:
    """The estimate of an experiment, by default of the profile's own.

    Raises:
        ConfigError: there is no experiment with this name.
    """
    recipe = experiment(name) if name else default_recipe(engines)
    facts = claim_facts(data / f"{recipe.claims}.parquet")
    basis = _basis(recipe, facts)
    estimate = estimate_run(recipe, facts or PAPER_CLAIMS, judge_tokens(engines, recipe))
    rates = card_rates(data)
    judge = _judge(engines, recipe, estimate, rates.get("tiny_judge", TINY_JUDGE_TOKENS_A_SECOND))
    lines = (judge, _embedder(engines, estimate, rates.get("embedder")))
    return CostEstimate(basis, None, lines, f"Training {recipe.name}")


def training_amounts(recipe: Experiment, data: Path, seconds_per_step: float) -> RunEstimate:
    """Steps, completions, judge calls and hours over the claims in ``data``, or the paper's."""
    facts = claim_facts(data / f"{recipe.claims}.parquet") or PAPER_CLAIMS
    return estimate_run(recipe, facts, seconds_per_step=seconds_per_step)


def default_recipe(engines: EngineChoices) -> Experiment:
    """The recipe that a profile is made for: the paper's, or the tiny one without a judge."""
    return PAPER_7B if engines.judge_server else TINY


def _basis(recipe: Experiment, facts: ClaimFacts | None) -> str:
    if facts is None:
        return (
            f"the paper's {PAPER_CLAIMS.claims:,} claims (mean n* {PAPER_CLAIMS.questions}; "
            f"{PAPER_CLAIMS.evidence_tokens:,.0f} tokens of evidence assumed)"
        )
    return f"the {facts.claims:,} {recipe.claims} in the data folder (n* and lengths measured)"


def judge_tokens(engines: EngineChoices, recipe: Experiment) -> JudgeTokens:
    """Lengths of the judge's calls; a recipe's thinking takes the place of the profile's."""
    if recipe.judge == "tiny":
        return TINY_JUDGE_TOKENS
    switched = {"off": False, "on": True, "default": True}[engines.judge_thinking]
    thinks = switched if recipe.judge_thinking is None else recipe.judge_thinking
    return JudgeTokens().thinking(engines.judge_thinking_tokens) if thinks else JudgeTokens()


def judge_hours() -> dict[str, float]:
    """GPU-hours of ``paper_7b`` with Qwen3-32B, by ``DECOMPOSERL_JUDGE_THINKING``."""
    plain = JudgeTokens()
    readings = {"off": plain, str(BOUND): plain.thinking(BOUND), "on": plain.thinking()}
    speed, hours = QWEN3_32B_TOKENS_A_SECOND.amount, {}
    for word, tokens in readings.items():
        line = judging_cost(estimate_run(PAPER_7B, PAPER_CLAIMS, tokens), word, None, speed)
        hours[word] = line.gpu_hours or 0.0
    return hours


def _judge(
    engines: EngineChoices, recipe: Experiment, estimate: RunEstimate, tiny: Figure
) -> CostLine:
    server = engines.judge_server
    if recipe.judge == "tiny":
        known = engines.judge_encoder == TINY_JUDGE
        speed = tiny.amount if known else None
        return judging_cost(estimate, f"tiny judge on {engines.judge_encoder}", None, speed)
    if server is None:
        return judging_cost(estimate, "rules")
    ours = not server.needs_key and server.model == "Qwen/Qwen3-32B"
    speed = QWEN3_32B_TOKENS_A_SECOND.amount if ours else None
    line = judging_cost(estimate, server.model, server.price, speed)
    return replace(line, unknown=None if ours else server.unpriced)


def _embedder(engines: EngineChoices, estimate: RunEstimate, measured: Figure | None) -> CostLine:
    """At most each question of each rollout: those that repeat are embedded once."""
    server: Server | None = engines.question_server
    tokens = round(estimate.questions * JudgeTokens().question)
    model = engines.sentence_model or "MiniLM" if server is None else server.model
    if server is None:
        return CostLine("embedder", model, estimate.questions, tokens, 0, None, None)
    dollars = None if server.price is None else server.price.dollars(tokens, 0)
    ours = measured is not None and not server.needs_key and model == QUESTIONS
    hours = tokens / measured.amount / SECONDS_AN_HOUR if measured and ours else None
    unknown = None if ours else server.unpriced
    return CostLine("embedder", model, estimate.questions, tokens, 0, dollars, hours, unknown)
