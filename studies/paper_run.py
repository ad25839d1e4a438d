"""Materialize the funnel over ``studies.paper_inputs`` in this process and print its cost.

``python -m studies.paper_run FOLDER`` runs the real assets, checks, attrition and catalogue on
the real tables with replayed engines. The last line of output is JSON: ``seconds`` of the run,
peak memory, and per step rows, seconds, memory and engine.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.catalog import attrition_asset, catalog_asset
from assets.checks import guard_checks, label_balance, leakage_check, stage_checks
from assets.funnel import funnel_assets
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.funnel.catalogue import STAGES
from perf.machine import peak_mb
from perf.memory_watch import MemoryWatch
from resources.mapper.resource import MapperResource
from resources.store.parquet import DataFolder, ParquetTables
from resources.tokens.resource import TokensResource
from studies.paper_plan import COUNTS, TESTS
from studies.replay import replay_resources

ROOT = Path(__file__).resolve().parent.parent
JOB = "funnel"
STEPS = (*STAGES, "attrition", "catalog")


def funnel_cost(folder: Path) -> dict[str, Any]:
    """Materialize everything after the sources; returns the cost in total and per step."""
    job = dg.build_reconstructable_job(
        "studies.paper_run", "funnel_job", (str(folder),), {}, str(ROOT)
    )
    with dg.instance_for_test() as instance, MemoryWatch() as watch:
        started = time.time()
        with dg.execute_job(job, instance, _quiet(), raise_on_error=True) as result:
            seconds = time.time() - started
            spans = _spans(instance, result.run_id)
            failed = [e.check_name for e in result.get_asset_check_evaluations() if not e.passed]
    steps = [_step(folder, name, spans[name], watch) for name in STEPS]
    checks = [name for name in spans if name not in STEPS]
    checked = sum(spans[name][1] - spans[name][0] for name in checks)
    return {
        "seconds": seconds,
        "peak_mb": peak_mb(),
        "steps": steps,
        "checks_s": checked,
        "checks_failed": sorted(set(failed)),
    }


def funnel_job(folder: str) -> dg.JobDefinition:
    """The funnel over one folder, as commands and the UI run it."""
    replayed = replay_resources(Path(folder) / "made_answers")
    return funnel_definitions(Path(folder), replayed).resolve_job_def(JOB)


def funnel_definitions(folder: Path, engines: Mapping[str, Any]) -> dg.Definitions:
    """The funnel with its checks over one folder, with these engines as resources."""
    names, tests = list(COUNTS), list(TESTS)
    sources = [source for source in SOURCES if source.name in COUNTS]
    benchmarks = [benchmark for benchmark in BENCHMARKS if benchmark.name in TESTS]
    written = [["claims", name] for name in names] + [["benchmark", name] for name in tests]
    return dg.Definitions(
        assets=[
            *(dg.AssetSpec(key) for key in written),
            *funnel_assets(names, tests),
            attrition_asset(sources),
            catalog_asset(sources, benchmarks),
        ],
        asset_checks=[
            *stage_checks(names),
            *guard_checks(),
            leakage_check(tests),
            label_balance,
        ],
        resources={
            "io_manager": ParquetTables(base_dir=str(folder)),
            "data_folder": DataFolder(base_dir=str(folder)),
            "tokens": TokensResource(),
            "mapper": MapperResource(),
            **engines,
        },
        jobs=[dg.define_asset_job(JOB, dg.AssetSelection.all())],
        executor=dg.in_process_executor,
    )


def _quiet() -> dict[str, Any]:
    return {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}


def _spans(instance: dg.DagsterInstance, run_id: str) -> dict[str, tuple[float, float]]:
    """Start and end of each step, by name."""
    started: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    for entry in instance.all_logs(run_id):
        event = entry.dagster_event
        if event is None or event.step_key is None:
            continue
        if event.event_type_value == "STEP_START":
            started[event.step_key] = entry.timestamp
        elif event.event_type_value in {"STEP_SUCCESS", "STEP_FAILURE"}:
            spans[event.step_key] = (started[event.step_key], entry.timestamp)
    return spans


def _step(folder: Path, name: str, span: tuple[float, float], watch: MemoryWatch) -> dict[str, Any]:
    record = DataFolder(base_dir=str(folder)).run(name) if name != "catalog" else {}
    return {
        "step": name,
        "rows_in": record.get("rows_in"),
        "rows_kept": record.get("rows_kept"),
        "stage_s": record.get("seconds"),
        "step_s": span[1] - span[0],
        "peak_mb": watch.peak_mb(*span),
        "engine": record.get("engine"),
    }


def main(arguments: Sequence[str]) -> None:
    """Run the funnel and print its cost."""
    print(json.dumps(funnel_cost(Path(arguments[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
