"""``claims/<source>`` and ``benchmark/<name>``: one asset per corpus, from the catalogue.

Each reads the corpus's native files. A source gives the ``CLAIMS`` table, a benchmark the
``BENCHMARK_CLAIMS`` table (bare claims where the files have no label or evidence). Dropped rows go
to ``drops/<asset key>``, rejected rows to ``rejects/<source>`` or ``rejects/benchmark/<name>``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from decomposerl.claims.catalogue import DIFFERENCES, benchmark_of, source_of
from decomposerl.claims.downloads import ACCESS, how_to_obtain
from decomposerl.claims.load import LoadedClaims, load_benchmark, load_source
from decomposerl.claims.source import Benchmark, Corpus, Source
from resources.corpora.resource import CorporaResource
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset

_NO_WORD = re.compile(r"\W")  # letters that no tag may hold


Loader = Callable[..., LoadedClaims]


def corpus_assets(
    sources: Sequence[Source], benchmarks: Sequence[Benchmark]
) -> list[dg.AssetsDefinition]:
    """One asset per source, then one per benchmark, in order; a source may share files with one."""
    return [
        *(_corpus_asset(one, benchmark_of(one, benchmarks), load_source) for one in sources),
        *(_corpus_asset(one, source_of(one, sources), load_benchmark) for one in benchmarks),
    ]


def _corpus_asset(
    corpus: Source | Benchmark, other: Corpus | None, load: Loader
) -> dg.AssetsDefinition:
    # A user's copy has files of its own.
    obtained = how_to_obtain(None if corpus.replaces else ACCESS.get(corpus.name))
    said = {"terms of use": corpus.terms, "license": corpus.license} | _against_paper(corpus)
    metadata: dict[str, Any] = {**said, "homepage": dg.MetadataValue.url(corpus.homepage)}
    if isinstance(corpus, Source):
        domain = _NO_WORD.sub("_", corpus.domain.casefold()).strip("_")
        key, group, tags = ["claims", corpus.name], "sources", {"domain": domain}
        what = f"Claims of {corpus.title} ({corpus.domain}), read from its native files."
        metadata["used for training"] = corpus.training_off or "yes"
        metadata["rows in the paper's table"] = corpus.paper_raw or 0
    else:
        key, group, tags = ["benchmark", corpus.name], "benchmarks", {}
        where = "in-domain" if corpus.in_domain else "out-of-domain"
        what = f"Test claims of {corpus.title} ({corpus.domain}, {where})."
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
        reading = corpora.settings.readings.get(corpus.name)
        if reading and corpus.replaces:
            own = "as your copy (source.toml, replaces = true) has its own"
            context.log.warning(f"{corpus.name}: the reading '{reading}' is not used, {own}")
        key = "/".join(context.asset_key.path)
        with data_folder.keeping_rejects(key), stage.writing(drops=False) as out:
            loaded = load(corpus, other, corpora.files(), corpora.settings, out.add_claims)
            return stage.loaded(out, loaded, said)

    return claims


def _against_paper(corpus: Source | Benchmark) -> dict[str, str]:
    """Why the catalogue's rows are not the paper's, once a name; nothing on a user's copy."""
    once = not (corpus.replaces or (isinstance(corpus, Benchmark) and corpus.source))
    known = DIFFERENCES.get(corpus.name) if once else None
    return {} if known is None else {"against the paper": known.text}
