"""The cost of training an experiment with a profile's engines, for the doctor.

Judge calls and questions to embed are counted over the training claims in the data folder, or the
paper's where there are none.
"""

from dataclasses import replace
from pathlib import Path

from dagster_project.engine_choices import EngineChoices, Server
from dagster_project.public_figures import QWEN3_32B_TOKENS_A_SECOND
from decomposerl.reports.cost import CostLine
from decomposerl.reports.readiness import CostEstimate
from decomposerl.reports.training_plan import judging_cost
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    ClaimFacts,
    JudgeTokens,
    RunEstimate,
    estimate_run,
)
from decomposerl.training.experiment import Experiment
from decomposerl.training.experiments import PAPER_7B, TINY, experiment
from resources.preflight.workload import claim_facts

_REPLY_TOKENS = 20.0  # of a model that does not think: the tags and the ruling


def training_estimate(engines: EngineChoices, data: Path, name: str = "") -> CostEstimate:
    """The estimate of an experiment, by default of the profile's own.

    Raises:
        ConfigError: there is no experiment with this name.
    """
    recipe = experiment(name) if name else default_recipe(engines)
    facts = claim_facts(data / f"{recipe.claims}.parquet")
    basis = _basis(recipe, facts)
    estimate = estimate_run(recipe, facts or PAPER_CLAIMS, _judge_tokens(recipe))
    lines = (_judge(engines, recipe, estimate), _embedder(engines, estimate))
    return CostEstimate(basis, None, lines, f"Training {recipe.name}")


def training_amounts(recipe: Experiment, data: Path) -> RunEstimate:
    """Steps, completions and judge calls over the claims in ``data``, or the paper's."""
    return estimate_run(recipe, claim_facts(data / f"{recipe.claims}.parquet") or PAPER_CLAIMS)


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


def _judge_tokens(recipe: Experiment) -> JudgeTokens:
    """A model thinks unless the recipe switches it off."""
    tokens = JudgeTokens()
    return replace(tokens, reply=_REPLY_TOKENS) if recipe.judge_thinking is False else tokens


def _judge(engines: EngineChoices, recipe: Experiment, estimate: RunEstimate) -> CostLine:
    server = engines.judge_server
    if recipe.judge == "tiny":
        return judging_cost(estimate, "tiny judge")
    if server is None:
        return judging_cost(estimate, "rules")
    ours = not server.needs_key and server.model == "Qwen/Qwen3-32B"
    speed = QWEN3_32B_TOKENS_A_SECOND.amount if ours else None
    return judging_cost(estimate, server.model, server.price, speed)


def _embedder(engines: EngineChoices, estimate: RunEstimate) -> CostLine:
    """At most each question of each rollout: those that repeat are embedded once."""
    server: Server | None = engines.question_server
    tokens = round(estimate.questions * JudgeTokens().question)
    model = engines.sentence_model or "MiniLM" if server is None else server.model
    dollars = None
    if server is not None and server.price is not None:
        dollars = server.price.dollars(tokens, 0)
    return CostLine("embedder", model, estimate.questions, tokens, 0, dollars, None)
