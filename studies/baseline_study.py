"""Every baseline with rule engines on the test sets of a corpora folder: accuracy and calls.

``DECOMPOSERL_CORPORA=... DECOMPOSERL_DATA=... python -m studies.baseline_study --limit 200 --report
docs/results/baselines.md`` reads the test sets, runs every baseline of the embedded engines in both
protocols on at most ``--limit`` claims per set, scores and ranks them, and writes the two tables
of the page. Finished predictions are reused, so it can be interrupted at any time.

The table shows that the methods work on real claims, not how well a language model would do.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.environment import read_settings, titles_for
from dagster_project.job_runs import JobRuns
from dagster_project.settings import Settings
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.systems import System, systems
from perf.pages import write_between_markers
from resources.store.parquet import DataFolder
from studies.baseline_report import baseline_page

ENGINES = {"rules", "lexical"}


def main(words: Sequence[str] | None = None) -> int:
    """Run what is missing, then report; returns 1 if a run failed."""
    options = _options(words)
    settings = read_settings()
    chosen = [one for one in systems(METHODS, []) if one.model.key in ENGINES]
    if not options.report_only and not _run(settings, chosen, options.limit):
        return 1
    page = baseline_page(
        DataFolder(base_dir=str(settings.paths.data)), chosen, titles_for(settings)
    )
    print(page)
    if options.report:
        write_between_markers(options.report, "baselines", page)
    return 0


def _run(settings: Settings, chosen: Sequence[System], limit: int) -> bool:
    """Read the test sets, predict and score every system, rank them."""
    with dg.DagsterInstance.get() as instance:
        runs = JobRuns(settings, instance)
        if not runs.run("test_sets", log_level="ERROR"):
            return False
        for one in chosen:
            started = time.perf_counter()
            if not runs.run("evaluate", _limited(settings, limit), one.key, "ERROR"):
                return False
            print(f"{one.key}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        return runs.run("rank", log_level="ERROR")


def _limited(settings: Settings, limit: int) -> dict[str, Any]:
    config = {"config": {"limit": limit}}
    return {"ops": {f"predictions__{name}": config for name in titles_for(settings)}}


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=200, help="most claims per test set")
    parser.add_argument(
        "--report", type=Path, help="Markdown file with the two markers 'baselines'"
    )
    parser.add_argument("--report-only", action="store_true", help="only write the report")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
