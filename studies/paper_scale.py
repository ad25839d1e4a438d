"""The funnel at the paper's size, through the real assets, with replayed engines.

``python -m studies.paper_scale [--rows N] [--folder DIR] [--report PAGE]`` writes
the pool (not timed), runs the funnel in its own process, checks the planted claims, prints
Markdown and writes ``studies/paper_scale.json``. Entities, probabilities, vectors and questions
are read from tables; the embedded entity recogniser is timed separately on a sample.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import polars as pl

from perf.bench_process import ROOT, run_fresh
from perf.busy import load_beside
from perf.machine import description
from perf.pages import write_between_markers
from perf.timing import timed
from studies.paper_facts import EXPECTED, planted_facts
from studies.paper_plan import COUNTS, PAPER_ROWS

MOST_S, MOST_MB = 180.0, 6_000.0
SAMPLE, WARM = 5_000, 200
RESULTS = Path(__file__).resolve().parent / "paper_scale.json"
HEADS = (
    "| step | rows in | kept | paper | seconds | peak MB |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
)
PAPER_KEPT = {"difficulty_band": 1, "silver_decomposed": 2}


def main() -> None:
    """Write the pool, run the funnel, check, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=PAPER_ROWS, help="claims in the pool")
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "paper_scale")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    folder = options.folder.resolve()
    written = run_fresh("studies.paper_inputs", str(folder), str(options.rows))
    result = run_funnel(folder) | {"rows": options.rows, "writing_s": written["seconds"]}
    RESULTS.write_text(json.dumps(result, indent=1))
    text = report(result)
    print(text)
    if options.report:
        write_between_markers(options.report, "paper-scale", text)


def run_funnel(folder: Path) -> dict[str, Any]:
    """The run in a fresh process, the entity sample and the planted facts."""
    started = time.perf_counter()
    result = run_fresh("studies.paper_run", str(folder))
    result["process_s"] = time.perf_counter() - started
    result["entities"] = _entity_sample(folder)
    result["facts"] = planted_facts(folder).to_dicts()
    return result


def _entity_sample(folder: Path) -> dict[str, float]:
    """Claims per second of the embedded recogniser, and seconds for all claims that reach it."""
    from resources.entities.rule_engine import RuleEntities

    frames = [
        pl.read_parquet(folder / f"claims/{name}.parquet", columns=["claim"]) for name in COUNTS
    ]
    claims = pl.concat(frames)["claim"]
    texts = claims.sample(min(SAMPLE, len(claims)), seed=7).to_list()
    recogniser = RuleEntities()
    recogniser.entities(texts[:WARM])
    seconds, _ = timed(lambda: recogniser.entities(texts))
    drops = pl.read_parquet(folder / "drops/rule_filtered.parquet", columns=["step"])
    reached = len(claims) - drops.filter(pl.col("step") != "entities").height
    rate = len(texts) / seconds
    return {"claims_a_s": rate, "reached": reached, "all_s": reached / rate}


def report(result: dict[str, Any]) -> str:
    """The run as Markdown."""
    met = result["process_s"] <= MOST_S and result["peak_mb"] <= MOST_MB
    entities = result["entities"]
    busy = load_beside()
    verdict = (
        f"{result['rows']:,} claims in **{result['process_s']:.0f} s** "
        f"(bound {MOST_S:.0f}) with at most **{result['peak_mb'] / 1000:.2f} GB** "
        f"(bound {MOST_MB / 1000:.0f}): {'met' if met else '**missed**'}. The time covers the "
        f"whole process, with {result['checks_s']:.1f} s of checks"
        + (f"; load average at the end {busy:.1f}" if busy is not None else "")
        + f". Checks that did not pass: {', '.join(result['checks_failed']) or 'none'}."
    )
    not_timed = (
        f"Not included: entity recognition, about {entities['all_s']:.0f} s "
        f"({entities['claims_a_s']:,.0f} claims per second on a sample)."
    )
    return "\n".join(
        [verdict, "", not_timed, "", *_steps(result), "", *facts_of(result), "", description()]
    )


def _steps(result: dict[str, Any]) -> list[str]:
    lines = [*HEADS]
    for step in result["steps"]:
        column = PAPER_KEPT.get(step["step"])
        paper = "" if column is None else f"{sum(row[column] for row in COUNTS.values()):,}"
        paper = "5,464" if step["step"] == "training_claims" else paper
        counts = ["" if step[key] is None else f"{step[key]:,}" for key in ("rows_in", "rows_kept")]
        lines.append(
            f"| {step['step']} | {' | '.join(counts)} | {paper} "
            f"| {step['step_s']:.2f} | {step['peak_mb']:,.0f} |"
        )
    return lines


def facts_of(result: dict[str, Any]) -> list[str]:
    """One sentence, and a line for each kind with a wrong decision."""
    facts = result["facts"]
    planted = [fact for fact in facts if fact["planted"] in EXPECTED]
    reached, removed = (sum(fact[key] for fact in planted) for key in ("reached", "removed"))
    others = sum(fact["removed"] for fact in facts) - removed
    wrong = [fact for fact in facts if fact["recall"] not in {None, 1.0}]
    sentence = f"Of {reached:,} planted duplicates and leaks, {removed:,} were removed"
    return [
        f"{sentence}; of all other claims, {others:,}.",
        *(f"- {one['planted']}: {one['removed']:,} of {one['reached']:,} removed" for one in wrong),
    ]


if __name__ == "__main__":
    main()
