"""A study with the paper's models: the command of each run, and what its judge takes."""

from collections.abc import Mapping

from decomposerl.reports.cost import Rate
from decomposerl.reports.tables import markdown_table
from decomposerl.reports.training_plan import judging_cost
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    TINY_JUDGE_TOKENS,
    JudgeTokens,
    estimate_run,
)
from decomposerl.training.experiment import JudgeChoice
from decomposerl.training.experiments import experiment
from decomposerl.training.studies import Study

JudgeSpeeds = Mapping[JudgeChoice, float]
"""Tokens a second of each judge on one card."""
PAPER_FORM_HEAD = ("paper", "variant", "command", "judge calls", "judge GPU-hours")


def paper_form_rows(study: Study, speeds: JudgeSpeeds) -> list[tuple[str, str, str, str, str]]:
    """The study with the paper's policy: each run's command and what its judge takes.

    Sampling and updates come on top.
    """
    rows = []
    for variant in study.variants:
        if not variant.paper:
            continue
        recipe = experiment(variant.paper)
        lengths = TINY_JUDGE_TOKENS if recipe.judge == "tiny" else JudgeTokens()
        found = estimate_run(recipe, PAPER_CLAIMS, lengths)
        line = judging_cost(found, recipe.judge, Rate(tokens_per_s=speeds[recipe.judge]))
        calls, hours = f"{found.judge_calls:,}", f"{line.gpu_hours:,.1f}"
        command = f"decomposerl train {recipe.name}"
        rows.append((study.section, variant.title, command, calls, hours))
    return rows


def paper_form_markdown(study: Study, speeds: JudgeSpeeds) -> str:
    """``paper_form_rows`` as a table; a sentence where the paper has no such study."""
    rows = paper_form_rows(study, speeds)
    return markdown_table(PAPER_FORM_HEAD, rows) if rows else "The paper has no such study."
