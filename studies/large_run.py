"""The whole funnel on millions of made claims with evidence, under a memory limit.

``python -m studies.large_run --claims 10000000 --folder DIR [--memory-gb 8] [--discard]
[--report PAGE]`` writes the pool, then materializes each stage with its checks through the real
assets, each in a process of its own that ends if it holds more than the limit. A step that is done
is not done again, so a run that was ended goes on. ``--discard`` empties the evidence of a table
once the stage after it is complete. The costs are ``large_run.json`` in a folder for each pool, and
a table; of several pools (``--claims 100000,400000``) also how they grow. ``--report`` also
writes ``large_run.json`` beside the page, which ``studies.scaling_costs`` reads.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from decomposerl.funnel.catalogue import STAGES
from decomposerl.funnel.lineage import BEFORE, CLAIMS
from perf.bench_process import run_fresh
from perf.machine import description, peak_mb
from perf.memory_watch import MemoryWatch
from perf.pages import write_between_markers
from resources.store.integrity import record_again
from resources.store.parquet import DataFolder, table_of
from resources.store.rows import StoredRows
from studies import growth
from studies.large_engines import made_resources
from studies.large_inputs import without_evidence, write_pool
from studies.paper_plan import COUNTS
from studies.paper_run import funnel_definitions

POOL = "pool"
STEPS = (POOL, *STAGES, "attrition", "catalog")
DIMENSIONS = 384
_NEEDED_TWICE = {"silver_decomposed": "training_claims"}
_HEADS = (
    "| step | rows in | kept | seconds | core s | peak MB | disk GB |",
    "| --- |" + " ---: |" * 6,
)


def main() -> None:
    """Do every step that is not done yet, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--claims", default="10000000", help="claims in the pools, by commas")
    parser.add_argument("--folder", type=Path, required=True, help="where everything is written")
    parser.add_argument("--memory-gb", type=float, default=8.0, help="most memory of a process")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS, help="numbers of a vector")
    parser.add_argument("--discard", action="store_true", help="empty evidence that was used")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    parser.add_argument("--step", choices=STEPS, help="do one step, in this process")
    options = parser.parse_args()
    if options.step:
        print(json.dumps(_step(options)))
        return
    pools = [int(size) for size in options.claims.split(",")]
    costs = {pool: _all_steps(pool, options) for pool in pools}
    text = report(pools[-1], costs[pools[-1]], options)
    if len(pools) > 1:
        lines = [
            {"pool": pool, "stage": cost["step"], **cost} for pool in pools for cost in costs[pool]
        ]
        text += "\n\n" + growth.report(lines)
    print(text)
    if options.report:
        write_between_markers(options.report, "large-run", text)
        measured = {"dimensions": options.dimensions, "pools": costs}
        options.report.with_name("large_run.json").write_text(json.dumps(measured, indent=1) + "\n")


def _all_steps(pool: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The cost of each step, from an earlier run where there is one."""
    folder = options.folder.resolve() / str(pool)
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "large_run.json"
    done: list[dict[str, Any]] = json.loads(results.read_text()) if results.is_file() else []
    for step in STEPS[len(done) :]:
        given = {"--claims": pool, "--folder": folder, "--step": step}
        given |= {"--memory-gb": options.memory_gb, "--dimensions": options.dimensions}
        words = [str(word) for pair in given.items() for word in pair]
        cost = run_fresh("studies.large_run", *words)
        cost["disk_gb"] = _disk_gb(folder)
        if options.discard and step in STAGES:
            discard(folder, step)
        done.append(cost)
        results.write_text(json.dumps(done, indent=1))
        print(json.dumps(cost), file=sys.stderr, flush=True)
    return done


def _step(options: argparse.Namespace) -> dict[str, Any]:
    """One step in this process, and its cost."""
    started = time.perf_counter()
    with MemoryWatch(options.memory_gb * 1e3) as watch:
        failed: list[str] = []
        if options.step == POOL:
            write_pool(options.folder, int(options.claims))
        else:
            failed = materialize(options.folder, options.step, options.dimensions)
    record = {} if options.step in {POOL, "catalog"} else _record(options.folder, options.step)
    return {
        "step": options.step,
        "rows_in": record.get("rows_in"),
        "rows_kept": record.get("rows_kept"),
        "seconds": time.perf_counter() - started,
        "cpu_s": time.process_time(),
        "peak_mb": max(watch.peak_mb(), peak_mb()),
        "checks_failed": failed,
    }


def materialize(folder: Path, step: str, dimensions: int) -> list[str]:
    """Materialize one asset with its checks; the names of checks that did not pass."""
    definitions = funnel_definitions(folder, made_resources(dimensions))
    with dg.instance_for_test() as instance:
        result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            asset_selection=[dg.AssetKey(step)],
            instance=instance,
            run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
        )
    return sorted({e.check_name for e in result.get_asset_check_evaluations() if not e.passed})


def _record(folder: Path, step: str) -> dict[str, Any]:
    return DataFolder(base_dir=str(folder)).run(step)


def discard(folder: Path, step: str) -> None:
    """Empty the evidence of the tables that no later stage reads."""
    before = BEFORE[step]
    if _NEEDED_TWICE.get(before, step) != step:
        return
    keys = [f"claims/{name}" for name in COUNTS] if before == CLAIMS else [before]
    for key in keys:
        table = StoredRows(folder / f"{key}.parquet", table_of(key))
        without_evidence(table)
        record_again(folder, key, table.path)  # else a later stage refuses it as damaged


def _disk_gb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e9


def report(pool: int, steps: Sequence[dict[str, Any]], options: argparse.Namespace) -> str:
    """The run over one pool as Markdown."""
    peak = max(step["peak_mb"] for step in steps) / 1_000
    hours, core_hours = (sum(step[name] for step in steps) / 3_600 for name in ("seconds", "cpu_s"))
    failed = sorted({name for step in steps for name in step["checks_failed"]})
    head = (
        f"{pool:,} made claims in **{hours:.2f} h** ({core_hours:.2f} core hours) with at most "
        f"**{peak:.2f} GB** of resident memory (limit {options.memory_gb:g} GB a process); engines "
        f"answer at once, vectors have {options.dimensions} numbers. Checks that did not pass: "
        f"{', '.join(failed) or 'none'}."
    )
    rows = [
        f"| {step['step']} | {_count(step['rows_in'])} | {_count(step['rows_kept'])} "
        f"| {step['seconds']:.0f} | {step['cpu_s']:.0f} | {step['peak_mb']:,.0f} "
        f"| {step['disk_gb']:.1f} |"
        for step in steps
    ]
    return "\n".join([head, "", *_HEADS, *rows, "", description()])


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


if __name__ == "__main__":
    main()
