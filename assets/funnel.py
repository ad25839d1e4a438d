"""The data-curation funnel (paper, "Data Curation Funnel"): seven stages, one asset each.

Every asset reads the rows of the stage before from disk, writes the remaining claims with further
columns, and one row to its drops for each removed claim. Rows are read in batches; stages that
compare claims with each other hold the columns ``COMPARED`` of all of them. No stage holds more
evidence than that of a few batches. The decisions are in ``decomposerl/funnel``; here are only
names, settings and engines.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import dagster as dg
import polars as pl

from decomposerl.funnel import catalogue, settings
from decomposerl.funnel.duplicates import opposite_twins
from decomposerl.funnel.step import ROUNDING, StageResult
from decomposerl.reports.figures import selection_curve_png
from decomposerl.reports.stage_page import cells_markdown, selection_totals
from decomposerl.schemas import DROPS
from resources.decomposer.resource import DecomposerResource
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.mapper.resource import MapperResource
from resources.store.parquet import StageOutput
from resources.store.recording import StageRecorder, picture
from resources.store.rows import StoredRows
from resources.store.run_lock import locked_asset
from resources.store.stage_writer import StageWriter
from resources.tokens.resource import TokensResource
from resources.verifier.resource import VerifierResource

Result = dg.MaterializeResult[StageOutput]
_GROUP, _KINDS = "funnel", {"parquet"}
_OPPOSITE = (
    "{:,} of {:,} duplicates have another label than the claim that was kept in their place; "
    "keep_contrastive: true keeps both"
)
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


def _stored(folder: str, names: Sequence[str]) -> dict[str, dg.AssetIn]:
    """Inputs ``<folder>_<name>`` whose rows are read from disk as they are used."""
    return {
        f"{folder}_{name}": dg.AssetIn(key=[folder, name], dagster_type=StoredRows)
        for name in names
    }


def rule_filtered_asset(source_names: Sequence[str], pool: str | None) -> dg.AssetsDefinition:
    """The first stage, over the claims of all sources in catalogue order."""

    @dg.asset(ins=_stored("claims", source_names), group_name=_GROUP, kinds=_KINDS, pool=pool)
    @locked_asset
    def rule_filtered(
        context: dg.AssetExecutionContext,
        config: RuleConfig,
        tokens: TokensResource,
        entities: EntitiesResource,
        **claims: StoredRows,
    ) -> Result:
        """Claims with enough evidence, little lexical overlap and at least two entities."""
        recogniser, counter = entities.open(), tokens.open()
        stage = StageRecorder(context, config, recogniser)
        with stage.writing(*(claims[f"claims_{name}"] for name in source_names)) as out:
            for rows in out.batches():
                out.add(rows, catalogue.rule_filter(rows, config, counter, recogniser))
            return stage.result(out, {"texts whose tokens were counted": counter.counted})

    return rule_filtered


def difficulty_band(
    context: dg.AssetExecutionContext,
    config: DifficultyConfig,
    rule_filtered: StoredRows,
    verifier: VerifierResource,
) -> Result:
    """Claims whose label a verifier neither finds easy nor confidently contradicts."""
    scorer = verifier.open()
    stage = StageRecorder(context, config, scorer)
    with stage.writing(rule_filtered) as out:
        for rows in out.batches():
            out.add(rows, catalogue.difficulty_band(rows, config, scorer))
        verifier.close()  # its server frees the GPU before the pool admits another step
        return stage.result(out, _close(out))


def deduplicated(
    context: dg.AssetExecutionContext,
    config: DedupConfig,
    difficulty_band: StoredRows,
    embedder: EmbedderResource,
    mapper: MapperResource,
) -> Result:
    """The first of each group of lexical, then semantic, duplicates."""
    vectors = embedder.open()
    stage = StageRecorder(context, config, vectors)
    with stage.writing(difficulty_band) as out:
        claims = out.read(catalogue.COMPARED)
        with out.tasks(mapper.open()) as tasks:
            done = catalogue.deduplicate(claims, config, vectors, tasks)
        out.add_decided(claims, done)
        if opposite := opposite_twins(claims, done.drops):
            context.log.warning(_OPPOSITE.format(opposite, done.drops.height))
        extra = {"dropped beside a kept claim of another label": opposite}
        return stage.result(out, extra | _close(out), pairs=done.pairs)


def decontaminated_asset(benchmark_names: Sequence[str], pool: str | None) -> dg.AssetsDefinition:
    """The stage that compares every claim with all benchmarks."""

    @dg.asset(ins=_stored("benchmark", benchmark_names), group_name=_GROUP, kinds=_KINDS, pool=pool)
    @locked_asset
    def decontaminated(
        context: dg.AssetExecutionContext,
        config: DecontaminationConfig,
        deduplicated: StoredRows,
        embedder: EmbedderResource,
        mapper: MapperResource,
        **benchmarks: StoredRows,
    ) -> Result:
        """Claims that match no test claim exactly, lexically or semantically."""
        vectors = embedder.open()
        stage = StageRecorder(context, config, vectors)
        tests = {name: benchmarks[f"benchmark_{name}"] for name in benchmark_names}
        missing = [name for name, rows in tests.items() if not rows.rows]
        if missing:
            context.log.warning(f"not checked against (not on disk): {', '.join(missing)}")
        holdouts = pl.concat([rows.read(catalogue.COMPARED) for rows in tests.values()])
        with stage.writing(deduplicated) as out:
            claims = out.read(catalogue.COMPARED)
            with out.tasks(mapper.open()) as tasks:
                done = catalogue.decontaminate(claims, holdouts, config, vectors, tasks)
            out.add_decided(claims, done)
            extra = {
                "test claims checked against": holdouts.height,
                "benchmarks not checked against": dg.MetadataValue.json(missing),
            }
            return stage.result(out, extra | _close(out))

    return decontaminated


def silver_decomposed(
    context: dg.AssetExecutionContext,
    config: SilverConfig,
    decontaminated: StoredRows,
    decomposer: DecomposerResource,
) -> Result:
    """Claims with at least two silver sub-questions, and those questions."""
    writer = decomposer.open()
    stage = StageRecorder(context, config, writer)
    with stage.writing(decontaminated) as out:
        for rows in out.batches():
            out.add(rows, catalogue.silver_decompose(rows, config, writer))
        decomposer.close()
        return stage.result(out)


def diversity_selected(
    context: dg.AssetExecutionContext,
    config: SelectionConfig,
    silver_decomposed: StoredRows,
    embedder: EmbedderResource,
    mapper: MapperResource,
) -> Result:
    """A diverse, label-balanced subset under square-root source budgets.

    ``training_claims`` drops the other claims, except those with long evidence.
    """
    vectors = embedder.open()
    stage = StageRecorder(context, config, vectors)
    with stage.writing(silver_decomposed, drops=False) as out:
        claims = out.read(catalogue.COMPARED)
        with out.tasks(mapper.open()) as tasks:
            chosen = catalogue.select_diverse(claims, config, vectors, tasks)
        out.add_decided(claims, StageResult(chosen.kept, DROPS.empty()))
        extra: dict[str, Any] = {
            **selection_totals(chosen.cells),
            "selection cells": dg.MetadataValue.md(cells_markdown(chosen.cells)),
            "cover per cell": picture(selection_curve_png(chosen.kept, chosen.cells)),
        }
        engines = {"diversity_selection": f"{config.selector} of {vectors.engine}"}
        return stage.result(out, extra, engines, cells=chosen.cells)


def training_claims(
    context: dg.AssetExecutionContext,
    config: TrainingConfig,
    silver_decomposed: StoredRows,
    diversity_selected: StoredRows,
    tokens: TokensResource,
) -> Result:
    """The curated training set: the selection plus all other long-evidence claims."""
    stage = StageRecorder(context, config)
    counter = tokens.open()
    selected = diversity_selected.read(catalogue.SELECTION)
    with stage.writing(silver_decomposed) as out:
        for rows, done in catalogue.assemble_batches(out.batches(), selected, config, counter):
            out.add(rows, done)
        extra = {
            "rows selected": selected.height,
            "rows long_evidence": out.tally.rows_kept - selected.height,
            "texts whose tokens were counted": counter.counted,
        }
        return stage.result(out, extra)


def _close(out: StageWriter) -> dict[str, Any]:
    """Per step, the rows that another processor's rounding could decide differently."""
    counts = dg.MetadataValue.json(out.close_calls)
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
