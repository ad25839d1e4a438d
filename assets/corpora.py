"""``claims/<source>`` and ``benchmark/<name>``: one asset per corpus, from the catalogue.

Each reads the corpus's native files. A source gives the ``CLAIMS`` table, a benchmark the
``BENCHMARK_CLAIMS`` table (bare claims where the files have no label or evidence). Dropped rows go
to ``drops/<asset key>``, rejected rows to ``rejects/<source>`` or ``rejects/benchmark/<name>``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from decomposerl.claims.catalogue import benchmark_of, source_of
from decomposerl.claims.downloads import ACCESS, how_to_obtain
from decomposerl.claims.load import LoadedClaims, load_benchmark, load_source
from decomposerl.claims.paper_counts import difference_of
from decomposerl.claims.source import Benchmark, Corpus, Source, ignored_reading
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
    return [
        _corpus_asset(one, benchmark_of(one, benchmarks), _obtained(one), load_source)
        for one in sources
    ]


def benchmark_assets(
    benchmarks: Sequence[Benchmark], sources: Sequence[Source]
) -> list[dg.AssetsDefinition]:
    """One asset per benchmark, in order; ``sources`` are the corpora it may share files with."""
    return [
        _corpus_asset(one, source_of(one, sources), _obtained(one), load_benchmark)
        for one in benchmarks
    ]


def _corpus_asset(
    corpus: Source | Benchmark,
    other: Corpus | None,
    obtained: str,
    load: Callable[..., LoadedClaims],
) -> dg.AssetsDefinition:
    terms = {"terms of use": corpus.terms, "license": corpus.license}
    beside = _against_paper(corpus)
    metadata: dict[str, Any] = {
        **terms,
        "homepage": dg.MetadataValue.url(corpus.homepage),
        **beside,
    }
    if isinstance(corpus, Source):
        key, group, tags = ["claims", corpus.name], "sources", {"domain": _tag(corpus.domain)}
        what = f"Claims of {corpus.title} ({corpus.domain}), read from its native files."
        metadata["used for training"] = corpus.training_off or "yes"
        metadata["rows in the paper's table"] = corpus.paper_raw or 0
    else:
        key, group, tags = ["benchmark", corpus.name], "benchmarks", {}
        domain = "in-domain" if corpus.in_domain else "out-of-domain"
        what = f"Test claims of {corpus.title} ({corpus.domain}, {domain})."
        metadata["notes"] = "; ".join(corpus.notes) or "none"

    @dg.asset(
        key=key,
        group_name=group,
        config_schema={},
        kinds={"parquet"},
        description=f"{what} {obtained}".rstrip(),
        metadata=metadata,
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
            loaded = load(corpus, other, corpora.files(), corpora.settings, out.add_claims)
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
