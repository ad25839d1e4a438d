"""The data-curation funnel (paper, "Data Curation Funnel"): seven stages, one asset each.

Every asset takes the frame of the stage before, gives the remaining claims with further columns,
and writes one row to its drops for each removed claim. The decisions are in ``decomposerl/funnel``;
here are only names, settings and engines.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import dagster as dg
import polars as pl

from decomposerl.funnel import catalogue, settings
from decomposerl.funnel.step import ROUNDING, StageResult
from decomposerl.reports.figures import selection_curve_png
from decomposerl.reports.stage_page import cells_markdown, selection_totals
from resources.decomposer.resource import DecomposerResource
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.store.parquet import StageOutput
from resources.store.recording import StageRecorder, picture
from resources.store.run_lock import locked_asset
from resources.tokens.resource import TokensResource
from resources.verifier.resource import VerifierResource

Result = dg.MaterializeResult[StageOutput]
_GROUP, _KINDS = "funnel", {"parquet"}
_NO_POOLS: Mapping[str, str] = MappingProxyType({})


class RuleConfig(settings.RuleSettings, dg.Config):
    """``RuleSettings`` as Dagster configuration."""


class DifficultyConfig(settings.DifficultySettings, dg.Config):
    """``DifficultySettings`` as Dagster configuration."""


class DedupConfig(settings.DedupSettings, dg.Config):
    """``DedupSettings`` as Dagster configuration."""


class DecontaminationConfig(settings.DecontaminationSettings, dg.Config):
    """``DecontaminationSettings`` as Dagster configuration."""


class SilverConfig(settings.SilverSettings, dg.Config):
    """``SilverSettings`` as Dagster configuration."""


class SelectionConfig(settings.SelectionSettings, dg.Config):
    """``SelectionSettings`` as Dagster configuration."""


class TrainingConfig(settings.TrainingSettings, dg.Config):
    """``TrainingSettings`` as Dagster configuration."""


def rule_filtered_asset(source_names: Sequence[str], pool: str | None) -> dg.AssetsDefinition:
    """The first stage, over the claims of all sources in catalogue order."""
    ins = {f"claims_{name}": dg.AssetIn(key=["claims", name]) for name in source_names}

    @dg.asset(ins=ins, group_name=_GROUP, kinds=_KINDS, pool=pool)
    @locked_asset
    def rule_filtered(
        context: dg.AssetExecutionContext,
        config: RuleConfig,
        tokens: TokensResource,
        entities: EntitiesResource,
        **claims: pl.DataFrame,
    ) -> Result:
        """Claims with enough evidence, little lexical overlap and at least two entities."""
        recogniser = entities.open()
        stage = StageRecorder(context, config, recogniser)
        pool = pl.concat([claims[f"claims_{name}"] for name in source_names])
        counter = tokens.open()
        done = catalogue.rule_filter(pool, config, counter, recogniser)
        extra = {"texts whose tokens were counted": counter.counted}
        return stage.result(pool, done.kept, done.drops, extra, done.engines)

    return rule_filtered


def difficulty_band(
    context: dg.AssetExecutionContext,
    config: DifficultyConfig,
    rule_filtered: pl.DataFrame,
    verifier: VerifierResource,
) -> Result:
    """Claims whose label a verifier neither finds easy nor confidently contradicts."""
    scorer = verifier.open()
    stage = StageRecorder(context, config, scorer)
    done = catalogue.difficulty_band(rule_filtered, config, scorer)
    verifier.close()  # its server frees the GPU before the pool admits another step
    return stage.result(rule_filtered, done.kept, done.drops, _close(done), done.engines)


def deduplicated(
    context: dg.AssetExecutionContext,
    config: DedupConfig,
    difficulty_band: pl.DataFrame,
    embedder: EmbedderResource,
) -> Result:
    """The first of each group of lexical, then semantic, duplicates."""
    vectors = embedder.open()
    stage = StageRecorder(context, config, vectors)
    done = catalogue.deduplicate(difficulty_band, config, vectors)
    return stage.result(
        difficulty_band, done.kept, done.drops, _close(done), done.engines, pairs=done.pairs
    )


def decontaminated_asset(benchmark_names: Sequence[str], pool: str | None) -> dg.AssetsDefinition:
    """The stage that compares every claim with all benchmarks."""
    ins = {f"benchmark_{name}": dg.AssetIn(key=["benchmark", name]) for name in benchmark_names}

    @dg.asset(ins=ins, group_name=_GROUP, kinds=_KINDS, pool=pool)
    @locked_asset
    def decontaminated(
        context: dg.AssetExecutionContext,
        config: DecontaminationConfig,
        deduplicated: pl.DataFrame,
        embedder: EmbedderResource,
        **benchmarks: pl.DataFrame,
    ) -> Result:
        """Claims that match no test claim exactly, lexically or semantically."""
        vectors = embedder.open()
        stage = StageRecorder(context, config, vectors)
        tests = {name: benchmarks[f"benchmark_{name}"] for name in benchmark_names}
        holdouts = pl.concat(tests.values())
        missing = [name for name, frame in tests.items() if frame.is_empty()]
        if missing:
            context.log.warning(f"not checked against (not on disk): {', '.join(missing)}")
        done = catalogue.decontaminate(deduplicated, holdouts, config, vectors)
        extra = {
            "test claims checked against": holdouts.height,
            "benchmarks not checked against": dg.MetadataValue.json(missing),
            **_close(done),
        }
        return stage.result(deduplicated, done.kept, done.drops, extra, done.engines)

    return decontaminated


def silver_decomposed(
    context: dg.AssetExecutionContext,
    config: SilverConfig,
    decontaminated: pl.DataFrame,
    decomposer: DecomposerResource,
) -> Result:
    """Claims with at least two silver sub-questions, and those questions."""
    writer = decomposer.open()
    stage = StageRecorder(context, config, writer)
    done = catalogue.silver_decompose(decontaminated, config, writer)
    decomposer.close()
    return stage.result(decontaminated, done.kept, done.drops, engines=done.engines)


def diversity_selected(
    context: dg.AssetExecutionContext,
    config: SelectionConfig,
    silver_decomposed: pl.DataFrame,
    embedder: EmbedderResource,
) -> Result:
    """A diverse, label-balanced subset under square-root source budgets.

    ``training_claims`` drops the other claims, except those with long evidence.
    """
    vectors = embedder.open()
    stage = StageRecorder(context, config, vectors)
    chosen = catalogue.select_diverse(silver_decomposed, config, vectors)
    extra = {
        **selection_totals(chosen.cells),
        "selection cells": dg.MetadataValue.md(cells_markdown(chosen.cells)),
        "cover per cell": picture(selection_curve_png(chosen.kept, chosen.cells)),
    }
    engines = {"diversity_selection": f"{config.selector} of {vectors.engine}"}
    return stage.result(silver_decomposed, chosen.kept, None, extra, engines, cells=chosen.cells)


def training_claims(
    context: dg.AssetExecutionContext,
    config: TrainingConfig,
    silver_decomposed: pl.DataFrame,
    diversity_selected: pl.DataFrame,
    tokens: TokensResource,
) -> Result:
    """The curated training set: the selection plus all other long-evidence claims."""
    stage = StageRecorder(context, config)
    counter = tokens.open()
    done = catalogue.assemble_training(silver_decomposed, diversity_selected, config, counter)
    extra = {
        f"rows {origin}": done.kept.filter(pl.col("origin") == origin).height
        for origin in ("selected", "long_evidence")
    }
    extra["texts whose tokens were counted"] = counter.counted
    return stage.result(silver_decomposed, done.kept, done.drops, extra, done.engines)


def _close(done: StageResult) -> dict[str, Any]:
    """Per step, the rows that another processor's rounding could decide differently."""
    counts = dg.MetadataValue.json(dict(done.close))
    return {f"decisions within {ROUNDING:g} of a threshold": counts}


def funnel_assets(
    source_names: Sequence[str],
    benchmark_names: Sequence[str],
    pools: Mapping[str, str] = _NO_POOLS,
) -> list[dg.AssetsDefinition]:
    """All stages in order, over the named sources and benchmarks.

    ``pools`` has the pool of each stage whose engine shares a device.
    """

    def stage(function: Callable[..., Any]) -> dg.AssetsDefinition:
        pool = pools.get(function.__name__)
        return dg.asset(locked_asset(function), group_name=_GROUP, kinds=_KINDS, pool=pool)

    return [
        rule_filtered_asset(source_names, pools.get("rule_filtered")),
        stage(difficulty_band),
        stage(deduplicated),
        decontaminated_asset(benchmark_names, pools.get("decontaminated")),
        stage(silver_decomposed),
        stage(diversity_selected),
        stage(training_claims),
    ]
