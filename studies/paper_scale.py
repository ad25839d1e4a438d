"""The funnel at the paper's size, through the real assets, with replayed engines.

``python -m studies.paper_scale [--rows N] [--folder DIR] [--report docs/benchmarks.md]`` writes
the pool (not timed), runs the funnel in a process of its own, checks what was planted, prints
Markdown and writes ``perf/paper_scale.json``.

Left out deliberately: models. Entities, probabilities, vectors and questions are read from
tables; the embedded entity recogniser is timed beside it on a sample.
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
from studies.paper_facts import planted_facts
from studies.paper_plan import COUNTS, PAPER_ROWS

MOST_S, MOST_MB = 180.0, 6_000.0
SAMPLE, WARM = 5_000, 200
RESULTS = Path(__file__).resolve().parent / "paper_scale.json"
PAPER_KEPT = {"difficulty_band": 1, "silver_decomposed": 2}


def main() -> None:
    """Write, run, check, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=PAPER_ROWS, help="claims in the pool")
    parser.add_argument("--folder", type=Path, default=ROOT / "data" / "paper_scale")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    folder = options.folder.resolve()
    written = run_fresh("studies.paper_inputs", str(folder), str(options.rows))
    found = run_funnel(folder) | {"rows": options.rows, "writing_s": written["seconds"]}
    RESULTS.write_text(json.dumps(found, indent=1))
    text = report(found)
    print(text)
    if options.report:
        write_between_markers(options.report, "paper-scale", text)


def run_funnel(folder: Path) -> dict[str, Any]:
    """The run in a fresh process, the entity sample and the planted facts."""
    started = time.perf_counter()
    found = run_fresh("studies.paper_run", str(folder))
    found["process_s"] = time.perf_counter() - started
    found["entities"] = _entity_sample(folder)
    found["facts"] = planted_facts(folder).to_dicts()
    return found


def _entity_sample(folder: Path) -> dict[str, float]:
    """Claims a second of the embedded recogniser, and seconds for all that reach it."""
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


def report(found: dict[str, Any]) -> str:
    """The run as Markdown."""
    met = found["process_s"] <= MOST_S and found["peak_mb"] <= MOST_MB
    entities = found["entities"]
    busy = load_beside()
    verdict = (
        f"{found['rows']:,} claims, end to end in **{found['process_s']:.0f} s** "
        f"(bound {MOST_S:.0f}) with at most **{found['peak_mb'] / 1000:.2f} GB** "
        f"(bound {MOST_MB / 1000:.0f}): {'met' if met else '**missed**'}. Counted from the start "
        f"of the process to its end; checks took {found['checks_s']:.1f} s of it"
        + (f", load average at the end {busy:.1f}" if busy is not None else "")
        + f". Checks that did not pass: {', '.join(found['checks_failed']) or 'none'}."
    )
    beside = (
        f"Not in that time: writing the inputs ({found['writing_s']:.0f} s), and entity "
        f"recognition, whose answers were replayed. The embedded recogniser reads "
        f"{entities['claims_a_s']:,.0f} of these claims a second, so the {entities['reached']:,} "
        f"claims that reach it would take {entities['all_s']:.0f} s more (a sample of "
        f"{SAMPLE:,}, extrapolated)."
    )
    return "\n".join(
        [verdict, "", beside, "", *_steps(found), "", *_facts(found), "", description()]
    )


def _steps(found: dict[str, Any]) -> list[str]:
    lines = [
        "| step | rows in | kept | paper | stage s | step s | peak MB | engine |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for step in found["steps"]:
        column = PAPER_KEPT.get(step["step"])
        paper = "" if column is None else f"{sum(row[column] for row in COUNTS.values()):,}"
        paper = "5,464" if step["step"] == "training_claims" else paper
        counts = ["" if step[key] is None else f"{step[key]:,}" for key in ("rows_in", "rows_kept")]
        seconds = "" if step["stage_s"] is None else f"{step['stage_s']:.2f}"
        lines.append(
            f"| {step['step']} | {' | '.join(counts)} | {paper} | {seconds} "
            f"| {step['step_s']:.2f} | {step['peak_mb']:,.0f} | {step['engine'] or ''} |"
        )
    return lines


def _facts(found: dict[str, Any]) -> list[str]:
    lines = [
        "| planted | reached the stage | removed | as expected | recall |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for fact in found["facts"]:
        recall = "" if fact["recall"] is None else f"{fact['recall']:.4f}"
        lines.append(
            f"| {fact['planted']} | {fact['reached']:,} | {fact['removed']:,} "
            f"| {fact['as_expected']:,} | {recall} |"
        )
    return lines


if __name__ == "__main__":
    main()
