"""The attrition table, the chat replies, and the DuckDB catalogue."""

from collections.abc import Sequence

import dagster as dg
import polars as pl

from decomposerl.claims.source import Benchmark, Source
from decomposerl.funnel.catalogue import STAGES
from decomposerl.reports import figures
from decomposerl.reports.attrition import (
    StageFrames,
    attrition_markdown,
    attrition_unfolded,
    attrition_wide,
    funnel_bars,
)
from decomposerl.reports.attrition import attrition as attrition_table
from decomposerl.reports.tables import markdown_text
from resources.catalogue.database import build_catalogue
from resources.chat.endpoint import ChatCacheFile
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded, picture
from resources.store.run_lock import locked_asset

_KEPT = ["source", "label"]
_DROPPED = [*_KEPT, "step", "reason"]


def attrition_asset(sources: Sequence[Source]) -> dg.AssetsDefinition:
    """The attrition of every stage over these sources."""
    source_names = [source.name for source in sources]
    deps = [dg.AssetKey(["claims", name]) for name in source_names] + [*STAGES]

    @dg.asset(deps=deps, group_name="catalog", kinds={"parquet"}, config_schema={})
    @locked_asset
    def attrition(
        context: dg.AssetExecutionContext, data_folder: DataFolder
    ) -> dg.MaterializeResult[StageOutput]:
        """Rows kept, dropped by reason and rejected, per stage, source and label."""
        recorder = StageRecorder(context)
        stages = [_sources(data_folder, source_names), *_stages(data_folder)]
        frame = attrition_table(stages)
        raw = {s.name: s.paper_raw for s in sources if s.paper_raw is not None}
        wide = attrition_wide(frame, raw, {s.name: s.title for s in sources})
        final = frame.filter(stage="training_claims", outcome="kept")["rows"].sum()
        metadata = {
            "funnel": dg.MetadataValue.md(funnel_bars(wide)),
            "by source": dg.MetadataValue.md(attrition_unfolded(wide)),
            "funnel, drawn": picture(figures.funnel_png(frame)),
            "attrition": folded(attrition_markdown(wide)),
            "training claims": int(final),
        }
        return recorder.table(frame, metadata)

    return attrition


def _sources(folder: DataFolder, names: Sequence[str]) -> StageFrames:
    kept = folder.counts([f"claims/{name}" for name in names], _KEPT)
    drops = folder.counts([f"drops/claims/{name}" for name in names], _DROPPED)
    rejects = pl.concat([folder.read(f"rejects/{name}") for name in names])
    return StageFrames("claims", 0, kept, drops, rejects)


def _stages(folder: DataFolder) -> list[StageFrames]:
    empty = folder.counts([f"drops/{STAGES[0]}"], _DROPPED).clear()
    return [
        StageFrames(
            stage,
            order,
            folder.counts([stage], _KEPT),
            folder.counts([f"drops/{stage}"], _DROPPED)
            if folder.exists(f"drops/{stage}")
            else empty,
        )
        for order, stage in enumerate(STAGES, start=1)
    ]


@dg.asset(
    deps=["difficulty_band", "silver_decomposed"],
    group_name="catalog",
    kinds={"parquet"},
    config_schema={},
)
@locked_asset
def chat_replies(
    context: dg.AssetExecutionContext, chat_cache: ChatCacheFile
) -> dg.MaterializeResult[StageOutput]:
    """Every reply of chat models so far, with its tokens; empty where none was called."""
    recorder = StageRecorder(context)
    frame = chat_cache.replies()
    spent = frame.group_by("model", "template").agg(
        pl.len().alias("replies"), pl.col("prompt_tokens", "completion_tokens").sum()
    )
    by_model = "\n".join(
        f"- {markdown_text(f'{model}, {template}')}: {replies:,} replies, "
        f"{read or 0:,} tokens in, {written or 0:,} tokens out"
        for model, template, replies, read, written in spent.sort("model", "template").iter_rows()
    )
    metadata = {"replies": frame.height, "by model": dg.MetadataValue.md(by_model)}
    return recorder.table(frame, metadata)


def catalog_asset(
    sources: Sequence[Source], benchmarks: Sequence[Benchmark]
) -> dg.AssetsDefinition:
    """The DuckDB catalogue over these sources and benchmarks."""

    @dg.asset(
        deps=["attrition", "chat_replies"],
        group_name="catalog",
        kinds={"duckdb"},
        config_schema={},
    )
    @locked_asset
    def catalog(data_folder: DataFolder) -> dg.MaterializeResult[None]:
        """The DuckDB file over all Parquet, rebuilt and swapped in atomically."""
        path = build_catalogue(data_folder.path, sources, benchmarks)
        return dg.MaterializeResult(
            metadata={
                "path": dg.MetadataValue.path(str(path)),
                "browse": f"cd {data_folder.path} && duckdb -readonly {path.name}",
            }
        )

    return catalog
