"""What the funnel costs at two pool sizes, on named hardware: hours, memory and money.

``python -m studies.scaling_costs`` prints the table of ``docs/how-to/scaling.md``; ``--write``
replaces it there. Rows, calls and tokens are the paper's pool scaled
(``decomposerl.reports.cost``), core seconds and memory those of ``studies.large_run``, prices and
speeds of models published ones (``dagster_project.public_figures``). Nothing is measured here.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dagster_project.doctor import funnel_costs
from dagster_project.environment import read_settings
from dagster_project.public_figures import Figure
from decomposerl.reports.cost import BENCHMARK_CLAIMS, PAPER, SECONDS_AN_HOUR, CostLine, Workload
from decomposerl.reports.tables import markdown_table
from perf.pages import write_between_markers
from studies.growth import exponent

SPACY_TRF_WORDS_A_SECOND = Figure(
    3_768.0, "spaCy's facts and figures: en_core_web_trf on a GPU of 2021"
)
SPACY_LG_WORDS_A_SECOND = Figure(
    10_014.0, "spaCy's facts and figures: en_core_web_lg on a CPU; en_core_sci_lg is as large"
)
H100_DOLLARS_AN_HOUR = Figure(
    3.0,
    "specialised clouds on demand, May 2026: 2.50 to 3.50 (mercatus-ai.com/blog/cloud-gpu-pricing)",
)
VCPU_DOLLARS_AN_HOUR = Figure(
    0.714 / 16, "AWS c7i.4xlarge on demand, us-east-1: 0.714 for 16 vCPUs; check the list price"
)

PAGE = Path(__file__).resolve().parent.parent / "docs/how-to/scaling.md"
MEASURED = PAGE.parent.parent / "results/large_run.json"
NAME = "scaling costs"
WORDS_A_TOKEN = 1 / 1.3
PAIRS_A_CORE_SECOND = 285e6
"""Exact cosines of 3,072 numbers on one core in int8 (docs/results/benchmarks.md)."""
OWN_DECOMPOSER = "Qwen3-32B on the cards, in place of gpt-5-mini"
AMONG, TO_TESTS = "deduplicated", "decontaminated"
COSINES = {AMONG: "cosines among claims", TO_TESTS: "cosines to test claims"}
BYTES_A_TOKEN, GB = 6, 1e9
EXACT_BELOW, LEAST_HOURS = 10, 0.05


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of ``claims``, and the hardware that it is given: H100 cards and vCPUs."""

    claims: int
    cards: int
    cores: int


POOLS = (Pool(155_506, 1, 16), Pool(10_000_000, 8, 64))


@dataclass(frozen=True, slots=True)
class Part:
    """One line: hours of cards or of cores, dollars paid for calls; None where none are."""

    name: str
    gpu_hours: float = 0.0
    core_hours: float = 0.0
    dollars: float = 0.0

    def money(self) -> float:
        """All of it in US dollars."""
        rented = self.gpu_hours * H100_DOLLARS_AN_HOUR.amount
        return self.dollars + rented + self.core_hours * VCPU_DOLLARS_AN_HOUR.amount

    def hours(self, pool: Pool) -> float:
        """On all cards and cores of the pool's hardware, if nothing waits."""
        return self.gpu_hours / pool.cards + self.core_hours / pool.cores


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    text = report(json.loads(MEASURED.read_text("utf-8")))
    if parser.parse_args().write:
        write_between_markers(PAGE, NAME, text)
    print(text)


def report(measured: Mapping[str, Any]) -> str:
    """The table over ``POOLS`` from the costs that ``studies.large_run`` stored."""
    columns = [parts(pool, measured) for pool in POOLS]
    lines: list[list[str]] = [["Hardware", *map(_hardware, POOLS)]]
    lines += [[row[0].name, *map(_cell, row)] for row in zip(*columns, strict=True)]
    lines.append(["All of it", *map(_total, POOLS, columns)])
    lines.append([OWN_DECOMPOSER, *(_cell(_own_decomposer(pool)) for pool in POOLS)])
    lines.append(["Memory of a process, at most", *(_memory(pool, measured) for pool in POOLS)])
    lines.append(["Evidence before compression", *map(_evidence, POOLS)])
    head = ["", *(f"{pool.claims:,} claims" for pool in POOLS)]
    return markdown_table(head, lines)


def parts(pool: Pool, measured: Mapping[str, Any]) -> list[Part]:
    """The lines of one pool: engines of the profile ``paper``, the stages' own work, cosines."""
    work = scaled(pool.claims)
    words = work.entities * work.claim_tokens * WORDS_A_TOKEN
    entities = Part(
        "entities, both spaCy models",
        words / SPACY_TRF_WORDS_A_SECOND.amount / SECONDS_AN_HOUR,
        words / SPACY_LG_WORDS_A_SECOND.amount / SECONDS_AN_HOUR,
    )
    settings = read_settings({"DECOMPOSERL_PROFILE": "paper"})
    paid = [_engine(line) for line in funnel_costs(settings, work) if line.port != "entities"]
    stages = Part("the stages' own work", core_hours=_stages(pool, measured) / SECONDS_AN_HOUR)
    claims, tests = float(work.decomposer), float(BENCHMARK_CLAIMS)
    pairs = (claims * claims / 2, claims * tests)
    rate = PAIRS_A_CORE_SECOND * SECONDS_AN_HOUR
    cosines = [
        Part(name, core_hours=count / rate)
        for name, count in zip(COSINES.values(), pairs, strict=True)
    ]
    return [entities, *paid, stages, *cosines]


def _own_decomposer(pool: Pool) -> Part:
    settings = read_settings({"DECOMPOSERL_PROFILE": "local"})
    lines = funnel_costs(settings, scaled(pool.claims))
    return next(_engine(line) for line in lines if line.port == "decomposer")


def scaled(claims: int) -> Workload:
    """The paper's pool with another number of claims; the test sets stay as large."""
    share = claims / PAPER.entities
    band = round(PAPER.decomposer * share)
    return replace(
        PAPER,
        entities=claims,
        verifier=round(PAPER.verifier * share),
        embedder=band + BENCHMARK_CLAIMS,
        decomposer=band,
    )


def _engine(line: CostLine) -> Part:
    return Part(f"{line.port}, {line.engine}", line.gpu_hours or 0.0, 0.0, line.dollars or 0.0)


def _stages(pool: Pool, measured: Mapping[str, Any]) -> float:
    """Core seconds of every stage but its cosines."""
    steps = list(_by_step(measured))
    a_pair = _seconds_a_pair(next(costs for costs in steps if costs[0][1]["step"] == AMONG))
    return sum(
        _at(pool.claims, [(size, _own_seconds(cost, a_pair)) for size, cost in costs])
        for costs in steps
    )


def _by_step(measured: Mapping[str, Any]) -> Iterable[list[tuple[int, dict[str, Any]]]]:
    """The costs of each step in every measured pool, smallest pool first; without the making."""
    pools = sorted((int(size), costs) for size, costs in measured["pools"].items())
    for place in range(1, len(pools[0][1])):
        yield [(size, costs[place]) for size, costs in pools]


def _seconds_a_pair(costs: Sequence[tuple[int, Mapping[str, Any]]]) -> float:
    """Of a cosine where the pools were measured: what grows with the square of the claims.

    From the last two pools, for seconds that are the sum of a share of the claims and of the pairs.
    """
    (few, less), (many, more) = [(cost["rows_in"], cost["cpu_s"]) for _, cost in costs[-2:]]
    return max(float(2 * (more / many - less / few) / (many - few)), 0.0)


def _own_seconds(cost: Mapping[str, Any], a_pair: float) -> float:
    if cost["step"] not in COSINES:
        return float(cost["cpu_s"])
    others = cost["rows_in"] / 2 if cost["step"] == AMONG else BENCHMARK_CLAIMS
    return max(float(cost["cpu_s"] - cost["rows_in"] * others * a_pair), 0.0)


def _at(claims: int, points: Sequence[tuple[int, float]]) -> float:
    """The measured amount; beyond the pools the power of the last two, at least linear."""
    known = dict(points)
    if claims in known:
        return known[claims]
    (small, low), (large, high) = points[-2:]
    slope = exponent([small, large], [low, high]) if low > 0 and high > 0 else 1.0
    return float(high * (claims / large) ** max(slope, 1.0))


def _memory(pool: Pool, measured: Mapping[str, Any]) -> str:
    """Of the stage that needs most: measured, else the straight line through the last two."""
    peaks = []
    for costs in _by_step(measured):
        known = {size: cost["peak_mb"] for size, cost in costs}
        (small, low), (large, high) = list(known.items())[-2:]
        slope = max((high - low) / (large - small), 0.0)
        peaks.append(known.get(pool.claims, high + slope * (pool.claims - large)))
    return f"{max(peaks) / 1_000:,.1f} GB"


def _hardware(pool: Pool) -> str:
    cards = f"{pool.cards} H100" + ("s" if pool.cards > 1 else "")
    return f"{cards}, {pool.cores:,} vCPUs"


def _evidence(pool: Pool) -> str:
    return f"{pool.claims * PAPER.evidence_tokens * BYTES_A_TOKEN / GB:,.1f} GB"


def _cell(part: Part) -> str:
    """Hours from 0.05 on, and dollars."""
    amounts = ((part.gpu_hours, "GPU-h"), (part.core_hours, "vCPU-h"))
    hours = [f"{_number(amount)} {unit}" for amount, unit in amounts if amount >= LEAST_HOURS]
    money = part.money()
    shown = f"{money:,.0f}" if money >= EXACT_BELOW else f"{money:,.2f}"
    return ", ".join([*hours, f"${shown}"])


def _number(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= EXACT_BELOW else f"{hours:,.1f}"


def _total(pool: Pool, lines: Sequence[Part]) -> str:
    hours, money = sum(line.hours(pool) for line in lines), sum(line.money() for line in lines)
    return f"{_number(hours)} h, ${money:,.0f}"


if __name__ == "__main__":
    main()
