"""What the page on costs says of evaluation: its figures, and how to limit it."""

import re
from pathlib import Path

import dagster as dg
import yaml

from dagster_project.profiles import profile_from_environment, resources_for
from dagster_project.public_figures import PRICES
from decomposerl.evaluation.published import TEST_SET_SIZES
from decomposerl.reports.cost import BENCHMARK_CLAIMS, PAPER, PER_PRICE
from project import ROOT

PAGE, BASELINES, PROMPTS = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("how-to/costs.md", "results/baselines.md", "reference/prompts.md")
)
REPLY, LONG_REPLY = 40, 300
SINGLE_CALLS, POLICIES = 8, 2


def calls_a_claim() -> dict[str, float]:
    """By system, the mean that the study of baselines counted."""
    table = BASELINES.split("| Step by step | Calls per claim | Mean |")[1].split("<!--")[0]
    rows = re.findall(r"^\| (\w[^|]*?) \| .* \| ([\d.]+) \|$", table, re.MULTILINE)
    return {name: float(mean) for name, mean in rows}


def tokens(section: str) -> int:
    """Of a section of Self-Ask's prompt."""
    return int(re.findall(rf"\(#self_ask-{section}\) \| `\w+` \| (\d+) ", PROMPTS)[0])


def rows() -> list[tuple[str, ...]]:
    """Calls per claim, calls, prompt tokens and dollars of each row."""
    counted = calls_a_claim()
    assert 11 == len(counted)
    price, text = PRICES["gpt-4.1-mini"], PAPER.claim_tokens + PAPER.evidence_tokens
    steps = text + (tokens("transcript") + tokens("answer")) / 2
    paid = ((counted["Self-Ask"], steps, REPLY), (1.0, text + tokens("single_call"), LONG_REPLY))
    found = []
    for each, prompt, reply in paid:
        calls = BENCHMARK_CLAIMS * each
        dollars = price.dollars(calls * prompt, calls * reply)
        amount = f"{calls * prompt / PER_PRICE:,.0f} M"
        found.append((f"{each:g}", f"{calls:,.0f}", amount, f"{dollars:,.0f}"))
    whole = sum(counted.values()) + SINGLE_CALLS + POLICIES
    calls = BENCHMARK_CLAIMS * whole
    amount = f"≥ {calls * text / PER_PRICE:,.0f} M"
    return [*found, (f"{whole:g}", f"{calls:,.0f}", amount, "")]


def test_the_table_is_calculated_from_what_the_page_names():
    """Claims, counted calls, prompts and list prices give each cell, and the sum elsewhere."""
    section = PAGE.split("## Evaluation\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    printed = [tuple(cell.strip() for cell in line.split("|")[2:-1]) for line in lines]
    assert rows() == printed
    assert f"{BENCHMARK_CLAIMS:,} test claims" in section
    assert f"{sum(one.rows for one in TEST_SET_SIZES.values()):,} in the four" in section
    dollars = sum(float(row[-1]) for row in printed[:2])
    tables = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    assert f"about {round(dollars, -1):.0f} dollars" in tables


def test_the_ceiling_on_the_page_is_a_valid_configuration(tmp_path: Path):
    """The run has it, and keeps the model's prices, without which nothing would be counted."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    given = yaml.safe_load(block)["resources"]["evaluation_model"]
    env = {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_DATA": str(tmp_path)}
    made = resources_for(profile_from_environment(env))["evaluation_model"]
    resource_config = {"evaluation_model": given}
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_resources({"evaluation_model": made}, instance, resource_config) as found,
    ):
        openai = found.evaluation_model.openai
    price = PRICES["gpt-4.1-mini"]
    assert (20.0, price.prompt, price.completion) == (
        openai.dollar_ceiling, openai.prompt_price, openai.completion_price
    )  # fmt: skip
