"""``make demo``: the whole graph on the bundled sample, then where to look.

Takes the environment like every other command, but always the sample; materializes the
``funnel`` job in this process with ``configs/demo.yaml`` and prints the attrition table, the
path of the DuckDB file and the line that opens the UI. Exits with 1 when the run fails.
"""

import dataclasses
import sys
import time
from pathlib import Path

import dagster as dg
import yaml
from rich.console import Console

from dagster_project.definitions import build_definitions
from dagster_project.profiles import fill_environment, profile_from_environment
from decomposerl.claims.catalogue import SOURCES
from decomposerl.reports.attrition import attrition_text, attrition_wide
from resources.tables import DataFolder

_CONFIG = Path(__file__).resolve().parent.parent / "configs" / "demo.yaml"


def main() -> int:
    """Run the demo; 0 on success."""
    console = Console()
    fill_environment()
    config = yaml.safe_load(_CONFIG.read_text("utf-8"))
    config["loggers"] = {"console": {"config": {"log_level": "INFO"}}}
    profile = dataclasses.replace(profile_from_environment(), corpora=None)
    started = time.perf_counter()
    with dg.DagsterInstance.get() as instance:
        job = build_definitions(profile).resolve_job_def("funnel")
        result = job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)
    if not result.success:
        console.print("[red]the run failed; its log is above and in the UI (make ui)[/red]")
        return 1
    folder = DataFolder(base_dir=str(profile.data))
    raw = {source.name: source.paper_raw for source in SOURCES if source.paper_raw is not None}
    wide = attrition_wide(folder.read("attrition"), raw, {s.name: s.title for s in SOURCES})
    console.print()
    console.print(attrition_text(wide), markup=False, highlight=False, soft_wrap=True)
    console.print(f"\nprofile={profile.name}; funnel took {time.perf_counter() - started:.1f} s")
    console.print(f"DuckDB    {folder.path / 'decomposerl.duckdb'}", soft_wrap=True)
    console.print("browse    .venv/bin/decomposerl explain CLAIM_ID")
    console.print("open UI   make ui   (then http://127.0.0.1:3000)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
