"""The one ``Definitions``: assets, checks, jobs and resources of the chosen profile.

Loads without torch, spaCy or any other engine package; engines import theirs when asked.
Runs execute in one process: a process a step costs seconds each and loads engines anew.
"""

import gc
import sys

# What is loaded here lasts: collecting among it would take a fifth of the time and free nothing.
was_collecting = gc.isenabled()
gc.disable()

import dagster as dg

from assets.base_policy import base_policy
from assets.benchmarks import benchmark_assets
from assets.calibrations import calibrations_asset
from assets.catalog import attrition_asset, catalog_asset, chat_replies
from assets.checks import all_checks
from assets.evaluation import evaluation_assets
from assets.evaluation_checks import evaluation_checks
from assets.funnel import funnel_assets
from assets.sources import source_assets
from assets.training import policy_asset
from assets.training_checks import training_health_check
from assets.training_sets import training_claims_random
from dagster_project import last_word
from dagster_project.jobs import JOBS
from dagster_project.profiles import (
    Profile,
    benchmarks_for,
    profile_from_environment,
    resources_for,
    sources_for,
)
from dagster_project.selection import guarded, refuse_unmatched, typed_selection
from dagster_project.terminal import ends_soon_from_terminal
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.systems import systems
from decomposerl.training.experiments import EXPERIMENTS


def build_definitions(profile: Profile) -> dg.Definitions:
    """The whole project for one profile: its corpora folder, data folder and engines."""
    sources, benchmarks = sources_for(profile), benchmarks_for(profile)
    source_names = [source.name for source in sources]
    benchmark_names = [benchmark.name for benchmark in benchmarks]
    evaluated = systems(METHODS, [experiment.name for experiment in EXPERIMENTS])
    resources = resources_for(profile)
    resources["io_manager"] = guarded(resources["io_manager"], lambda: made)
    made = dg.Definitions(
        assets=[
            *source_assets(sources, benchmarks),
            *benchmark_assets(benchmarks, sources),
            *funnel_assets(source_names, benchmark_names, profile.engines.pools),
            training_claims_random,
            base_policy,
            policy_asset(EXPERIMENTS, profile.engines.pools.get("policy")),
            *evaluation_assets(benchmarks, evaluated, profile.engines.pools.get("predictions")),
            calibrations_asset(evaluated, profile.engines.pools.get("predictions")),
            attrition_asset(sources),
            chat_replies,
            catalog_asset(sources, benchmarks),
        ],
        asset_checks=[
            *all_checks(source_names, benchmark_names),
            training_health_check(EXPERIMENTS),
            *evaluation_checks(benchmark_names, evaluated),
        ],
        jobs=JOBS,
        resources=resources,
        executor=dg.in_process_executor,
    )
    return made


if last_word.runs_the_graph(sys.argv):
    last_word.install()
ends_soon_from_terminal()
defs = build_definitions(profile_from_environment())
selection = typed_selection(sys.argv)
if selection is not None:
    refuse_unmatched(selection, defs)
if was_collecting:
    gc.enable()
