"""``claims/<source>``: one asset a training corpus, from the catalogue.

Each reads its native files and gives the ``CLAIMS`` table; what it left out stands in
``drops/claims/<source>`` and ``rejects/<source>``.
"""

from collections.abc import Sequence

import dagster as dg

from decomposerl.claims.catalogue import benchmark_of
from decomposerl.claims.load import load_source
from decomposerl.claims.source import Benchmark, Source
from resources.corpora.resource import CorporaResource
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset


def source_assets(
    sources: Sequence[Source], benchmarks: Sequence[Benchmark]
) -> list[dg.AssetsDefinition]:
    """One asset a source, in order; ``benchmarks`` are the test sets it may share files with."""
    return [_source_asset(source, benchmark_of(source, benchmarks)) for source in sources]


def _source_asset(source: Source, benchmark: Benchmark | None) -> dg.AssetsDefinition:
    @dg.asset(
        key=["claims", source.name],
        group_name="sources",
        config_schema={},
        kinds={"parquet"},
        description=f"Claims of {source.title} ({source.domain}), read from its native files.",
        metadata={
            "license": source.license,
            "terms of use": source.terms,
            "homepage": dg.MetadataValue.url(source.homepage),
            "used for training": source.training_off or "yes",
            "rows in the paper's table": source.paper_raw or 0,
        },
        tags={"domain": _tag(source.domain)},
    )
    @locked_asset
    def claims(
        context: dg.AssetExecutionContext, corpora: CorporaResource, data_folder: DataFolder
    ) -> dg.MaterializeResult[StageOutput]:
        stage = StageRecorder(context, corpora.settings)
        with data_folder.keeping_rejects("/".join(context.asset_key.path)):
            loaded = load_source(source, benchmark, corpora.files(), corpora.settings)
        return stage.loaded(loaded, {"terms of use": source.terms, "license": source.license})

    return claims


def _tag(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text.casefold()).strip("_")
