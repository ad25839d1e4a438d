"""The one ``Definitions``: assets, checks, jobs and resources of the chosen profile.

Loads without torch, spaCy or any other engine package; engines import theirs when asked.
Runs execute in one process: a process a step costs seconds each and loads engines anew.
"""

import dagster as dg

from assets.benchmarks import benchmark_assets
from assets.catalog import attrition_asset, catalog
from assets.checks import all_checks
from assets.funnel import funnel_assets
from assets.sources import source_assets
from dagster_project.jobs import JOBS
from dagster_project.profiles import profile_from_environment, resources_for, sources_for
from decomposerl.claims.catalogue import BENCHMARKS

_PROFILE = profile_from_environment()
_SOURCES = sources_for(_PROFILE)
_SOURCE_NAMES = [source.name for source in _SOURCES]
_BENCHMARK_NAMES = [benchmark.name for benchmark in BENCHMARKS]

defs = dg.Definitions(
    assets=[
        *source_assets(_SOURCES),
        *benchmark_assets(BENCHMARKS),
        *funnel_assets(_SOURCE_NAMES, _BENCHMARK_NAMES),
        attrition_asset(_SOURCE_NAMES),
        catalog,
    ],
    asset_checks=all_checks(_SOURCE_NAMES, _BENCHMARK_NAMES),
    jobs=JOBS,
    resources=resources_for(_PROFILE),
    executor=dg.in_process_executor,
)
