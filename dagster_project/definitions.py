"""The one ``Definitions``: assets, checks, jobs and resources of the chosen profile.

Loads without torch, spaCy or any other engine package; engines import theirs on first use.
"""

import sys
from collections.abc import Mapping, Sequence

import dagster as dg

from assets.calibrations import calibrations_asset
from assets.catalog import attrition_asset, catalog_asset, chat_replies
from assets.checks import all_checks
from assets.corpora import benchmark_assets, source_assets
from assets.evaluation import evaluation_assets
from assets.evaluation_checks import evaluation_checks
from assets.funnel import funnel_assets
from assets.training import policy_asset, training_health_check
from assets.training_inputs import base_policy, training_claims_random
from dagster_project import run_errors
from dagster_project.asset_details import Details, automation_sensor, detailed
from dagster_project.code_reader import CodeReader, this_code
from dagster_project.jobs import JOBS
from dagster_project.profiles import (
    Profile,
    benchmarks_for,
    profile_from_environment,
    resources_for,
    sources_for,
    systems_for,
)
from dagster_project.selection import refuse_unmatched, refuse_whole_graph, typed_selection
from dagster_project.terminal import guard_dagster_run
from decomposerl.claims.source import Benchmark, Source
from decomposerl.evaluation.systems import System
from decomposerl.training.experiments import EXPERIMENTS


def build_definitions(
    profile: Profile,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    code: CodeReader | None = None,
) -> dg.Definitions:
    """The whole project for one profile: its corpora folder, data folder and engines.

    ``loggers`` replace Dagster's by name; its own is ``console``. ``code`` is what code versions
    are read from, by default this project's.
    """
    sources, benchmarks = sources_for(profile), benchmarks_for(profile)
    source_names = [source.name for source in sources]
    benchmark_names = [benchmark.name for benchmark in benchmarks]
    evaluated = systems_for(profile)
    resources = resources_for(profile)
    details = Details(
        data=profile.data,
        owners=profile.owners,
        engines=profile.engines,
        resources=resources.copy(),
        corpora={dg.AssetKey(["claims", one.name]): one for one in sources}
        | {dg.AssetKey(["benchmark", one.name]): one for one in benchmarks},
        code=code or this_code(),
    )
    resources["io_manager"] = refuse_whole_graph(resources["io_manager"], lambda: definitions)
    definitions = dg.Definitions(
        assets=detailed(_assets(profile, sources, benchmarks, evaluated), details),
        asset_checks=[
            *all_checks(source_names, benchmark_names),
            training_health_check(EXPERIMENTS),
            *evaluation_checks(benchmark_names, evaluated),
        ],
        jobs=JOBS,
        sensors=[automation_sensor()],
        resources=resources,
        loggers=loggers,
        # One process per step would cost seconds each and load the engines again.
        executor=dg.in_process_executor,
    )
    return definitions


def _assets(
    profile: Profile,
    sources: Sequence[Source],
    benchmarks: Sequence[Benchmark],
    evaluated: Sequence[System],
) -> list[dg.AssetsDefinition]:
    pools, pool = profile.engines.pools, _prediction_pool(profile, evaluated)
    names = [source.name for source in sources]
    return [
        *source_assets(sources, benchmarks),
        *benchmark_assets(benchmarks, sources),
        *funnel_assets(names, [benchmark.name for benchmark in benchmarks], pools),
        training_claims_random,
        base_policy,
        policy_asset(EXPERIMENTS, pools.get("policy")),
        *evaluation_assets(benchmarks, evaluated, pool),
        calibrations_asset(evaluated, pool),
        attrition_asset(sources),
        chat_replies,
        catalog_asset(sources, benchmarks),
    ]


def _prediction_pool(profile: Profile, evaluated: Sequence[System]) -> str | None:
    """The pool of predictions, if any system uses a shared device."""
    own = any(one.entry is not None and one.entry.uses_gpu for one in evaluated)
    return profile.engines.pools.get("predictions") or ("gpu" if own else None)


if run_errors.is_graph_command(sys.argv):
    run_errors.install()
guard_dagster_run()
defs = build_definitions(profile_from_environment())
selection = typed_selection(sys.argv)
if selection is not None:
    refuse_unmatched(selection, defs)
