"""``benchmark/<name>``: one asset a test set, from the catalogue.

Each gives the ``BENCHMARK_CLAIMS`` table: labelled claims with evidence where the files
have them, bare claims otherwise. Decontamination reads them all; evaluation will read
those with a label and evidence.
"""

from collections.abc import Sequence

import dagster as dg

from decomposerl.claims.catalogue import source_of
from decomposerl.claims.load import load_benchmark
from decomposerl.claims.source import Benchmark, Source
from resources.corpora.resource import CorporaResource
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset


def benchmark_assets(
    benchmarks: Sequence[Benchmark], sources: Sequence[Source]
) -> list[dg.AssetsDefinition]:
    """One asset a benchmark, in order; ``sources`` are the corpora it may share files with."""
    return [_benchmark_asset(benchmark, source_of(benchmark, sources)) for benchmark in benchmarks]


def _benchmark_asset(benchmark: Benchmark, source: Source | None) -> dg.AssetsDefinition:
    place = "in-domain" if benchmark.in_domain else "out-of-domain"

    @dg.asset(
        key=["benchmark", benchmark.name],
        group_name="benchmarks",
        config_schema={},
        kinds={"parquet"},
        description=f"Test claims of {benchmark.title} ({benchmark.domain}, {place}).",
        metadata={
            "license": benchmark.license,
            "terms of use": benchmark.terms,
            "homepage": dg.MetadataValue.url(benchmark.homepage),
            "notes": "; ".join(benchmark.notes) or "none",
        },
    )
    @locked_asset
    def claims(
        context: dg.AssetExecutionContext, corpora: CorporaResource, data_folder: DataFolder
    ) -> dg.MaterializeResult[StageOutput]:
        stage = StageRecorder(context, corpora.settings)
        with data_folder.keeping_rejects("/".join(context.asset_key.path)):
            loaded = load_benchmark(benchmark, source, corpora.files(), corpora.settings)
        return stage.loaded(loaded, {"terms of use": benchmark.terms, "license": benchmark.license})

    return claims
