"""``claims/<source>`` and ``benchmark/<name>``: one asset per corpus, from the catalogue.

Each reads the corpus's native files. A source gives the ``CLAIMS`` table, a benchmark the
``BENCHMARK_CLAIMS`` table (bare claims where the files have no label or evidence). Dropped rows go
to ``drops/<asset key>``, rejected rows to ``rejects/<source>`` or ``rejects/benchmark/<name>``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from decomposerl.claims.addresses import ACCESS
from decomposerl.claims.catalogue import benchmark_of, source_of
from decomposerl.claims.claim_collector import Sink
from decomposerl.claims.downloads import how_to_obtain
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.paper_counts import difference_of
from decomposerl.claims.source import Benchmark, Corpus, CorpusFiles, Source, ignored_reading
from resources.corpora.resource import CorporaResource
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset

_NOT_READ_AS = (
    "{0}: the reading '{1}' is not used, as your copy (source.toml, replaces = true) has its own"
)


def source_assets(
    sources: Sequence[Source], benchmarks: Sequence[Benchmark]
) -> list[dg.AssetsDefinition]:
    """One asset per source, in order; ``benchmarks`` are the test sets it may share files with."""
    return [_source_asset(source, benchmark_of(source, benchmarks)) for source in sources]


def benchmark_assets(
    benchmarks: Sequence[Benchmark], sources: Sequence[Source]
) -> list[dg.AssetsDefinition]:
    """One asset per benchmark, in order; ``sources`` are the corpora it may share files with."""
    return [_benchmark_asset(benchmark, source_of(benchmark, sources)) for benchmark in benchmarks]


def _source_asset(source: Source, benchmark: Benchmark | None) -> dg.AssetsDefinition:
    return _corpus_asset(
        source,
        lambda files, settings, sink: load_source(source, benchmark, files, settings, sink),
        key=["claims", source.name],
        group="sources",
        description=f"Claims of {source.title} ({source.domain}), read from its native files. "
        f"{_obtained(source)}".rstrip(),
        metadata={
            "used for training": source.training_off or "yes",
            "rows in the paper's table": source.paper_raw or 0,
        },
        tags={"domain": _tag(source.domain)},
    )


def _benchmark_asset(benchmark: Benchmark, source: Source | None) -> dg.AssetsDefinition:
    domain = "in-domain" if benchmark.in_domain else "out-of-domain"

    def load(files: CorpusFiles, settings: LoadSettings, sink: Sink) -> LoadedClaims:
        loaded = load_benchmark(benchmark, source, files, settings)
        sink(loaded.claims)
        return loaded

    return _corpus_asset(
        benchmark,
        load,
        key=["benchmark", benchmark.name],
        group="benchmarks",
        description=f"Test claims of {benchmark.title} ({benchmark.domain}, {domain}). "
        f"{_obtained(benchmark)}".rstrip(),
        metadata={"notes": "; ".join(benchmark.notes) or "none"},
        tags={},
    )


def _corpus_asset(
    corpus: Source | Benchmark,
    load: Callable[[CorpusFiles, LoadSettings, Sink], LoadedClaims],
    *,
    key: Sequence[str],
    group: str,
    description: str,
    metadata: Mapping[str, Any],
    tags: Mapping[str, str],
) -> dg.AssetsDefinition:
    terms = {"terms of use": corpus.terms, "license": corpus.license}
    homepage = {"homepage": dg.MetadataValue.url(corpus.homepage)}
    beside = _against_paper(corpus)

    @dg.asset(
        key=key,
        group_name=group,
        config_schema={},
        kinds={"parquet"},
        description=description,
        metadata={**terms, **homepage, **beside, **metadata},
        tags=tags,
    )
    @locked_asset
    def claims(
        context: dg.AssetExecutionContext, corpora: CorporaResource, data_folder: DataFolder
    ) -> dg.MaterializeResult[StageOutput]:
        stage = StageRecorder(context, corpora.recorded())
        if reading := ignored_reading(corpus, corpora.settings.readings):
            context.log.warning(_NOT_READ_AS.format(corpus.name, reading))
        key = "/".join(context.asset_key.path)
        with data_folder.keeping_rejects(key), stage.writing(drops=False) as out:
            loaded = load(corpora.files(), corpora.settings, out.add_claims)
            return stage.loaded(out, loaded, {**terms, **beside})

    return claims


def _obtained(corpus: Corpus) -> str:
    """How the catalogue's files are obtained; a user's copy has files of its own."""
    return how_to_obtain(None if corpus.replaces else ACCESS.get(corpus.name))


def _against_paper(corpus: Source | Benchmark) -> dict[str, str]:
    """Why the catalogue's rows are not the paper's, once a name; nothing on a user's copy."""
    if corpus.replaces or (isinstance(corpus, Benchmark) and corpus.source is not None):
        return {}
    known = difference_of(corpus.name)
    return {} if known is None else {"against the paper": known.text}


def _tag(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text.casefold()).strip("_")
