"""The one ``Definitions``: assets, checks, jobs and resources of the chosen profile.

Loads without torch, spaCy or any other engine package; engines import theirs on first use.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg

from assets.catalog import attrition_asset, catalog_asset, chat_replies
from assets.checks import all_checks
from assets.corpora import corpus_assets
from assets.evaluation import evaluation_assets, evaluation_checks
from assets.funnel import funnel_assets
from assets.judge import JUDGE_ASSETS, tiny_judge_heads_asset
from assets.report import report_asset
from assets.studies import selectors, training_study_asset
from assets.training import policy_asset, training_health_check
from assets.training_inputs import base_policy_asset, training_claims_random
from dagster_project.asset_details import CodeFiles, Details, automation_sensor, this_code
from dagster_project.engine_resources import pools_of, resources_for
from dagster_project.environment import benchmarks_for, read_settings, sources_for, systems_for
from dagster_project.jobs import jobs_over
from dagster_project.public_figures import JUDGE_TOKENS_A_SECOND
from dagster_project.settings import Settings
from dagster_project.stages import refuse_unmatched, refuse_whole_graph, typed_selection
from decomposerl.claims.source import Benchmark, Source
from decomposerl.evaluation.systems import System
from decomposerl.training.experiment import TINY_BASES
from decomposerl.training.experiments import EXPERIMENTS
from decomposerl.training.studies import STUDIES


def build_definitions(
    settings: Settings,
    loggers: Mapping[str, dg.LoggerDefinition] | None = None,
    code: CodeFiles | None = None,
    *,
    prefilled: bool = True,
) -> dg.Definitions:
    """The whole project for one profile: its corpora folder, data folder and engines.

    ``loggers`` replace Dagster's by name; its own is ``console``. ``code`` is what code versions
    are read from, by default this project's. ``prefilled``: as ``jobs_over``.
    """
    sources, benchmarks = sources_for(settings), benchmarks_for(settings)
    source_names = [source.name for source in sources]
    benchmark_names = [benchmark.name for benchmark in benchmarks]
    evaluated = systems_for(settings)
    resources = resources_for(settings, mapped=True)
    details = _details(settings, sources, benchmarks, resources.copy(), code or this_code())
    resources["io_manager"] = refuse_whole_graph(resources["io_manager"], lambda: definitions)
    plain = _assets(settings, sources, benchmarks, evaluated)
    assets = [one.map_asset_specs(partial(details.added_to, one)) for one in plain]
    definitions = dg.Definitions(
        assets=assets,
        asset_checks=[
            *all_checks(source_names, benchmark_names),
            training_health_check(EXPERIMENTS),
            *evaluation_checks(benchmark_names, evaluated),
        ],
        jobs=jobs_over(assets, prefilled=prefilled),
        sensors=[automation_sensor()],
        resources=resources,
        loggers=loggers,
        # One process per step would cost seconds each and load the engines again.
        executor=dg.in_process_executor,
    )
    return definitions


def _details(
    settings: Settings,
    sources: Sequence[Source],
    benchmarks: Sequence[Benchmark],
    resources: dict[str, Any],
    code: CodeFiles,
) -> Details:
    return Details(
        data=settings.paths.data,
        served=settings.served,
        resources=resources,
        corpora={dg.AssetKey(["claims", one.name]): one for one in sources}
        | {dg.AssetKey(["benchmark", one.name]): one for one in benchmarks},
        code=code,
    )


def _assets(
    settings: Settings,
    sources: Sequence[Source],
    benchmarks: Sequence[Benchmark],
    evaluated: Sequence[System],
) -> list[dg.AssetsDefinition]:
    pool, pools = _prediction_pool(settings, evaluated), pools_of(settings)
    training = pools.get("policy")
    speeds = JUDGE_TOKENS_A_SECOND
    training_studies = [training_study_asset(one, speeds, training) for one in STUDIES]
    source_names = [source.name for source in sources]
    benchmark_names = [benchmark.name for benchmark in benchmarks]
    return [
        *corpus_assets(sources, benchmarks),
        *funnel_assets(source_names, benchmark_names, pools),
        *(training_claims_random, *map(base_policy_asset, TINY_BASES)),
        policy_asset(EXPERIMENTS, training),
        *JUDGE_ASSETS,
        tiny_judge_heads_asset(training),
        *evaluation_assets(benchmarks, evaluated, pool),
        attrition_asset(sources),
        chat_replies,
        catalog_asset(sources, benchmarks),
        selectors,
        *training_studies,
        report_asset(sources, benchmarks, evaluated, EXPERIMENTS),
    ]


def _prediction_pool(settings: Settings, evaluated: Sequence[System]) -> str | None:
    """The pool of predictions, if any system uses a shared device."""
    own = any(one.entry is not None and one.entry.uses_gpu for one in evaluated)
    return pools_of(settings).get("predictions") or ("gpu" if own else None)


if {"asset", "job"} & set(sys.argv[1:2]):  # a command that may run the graph, and print
    from dagster_project import run_errors
    from dagster_project.terminal import guard_dagster_run

    if run_errors.is_graph_command(sys.argv):
        run_errors.install()
    guard_dagster_run()
defs = build_definitions(read_settings())
selection = typed_selection(sys.argv)
if selection is not None:
    refuse_unmatched(selection, defs)
