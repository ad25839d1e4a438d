"""The funnel on the real corpora: no leak, planted leaks found; the ledger has its counts."""

import json
import os
import shutil
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from dagster_project.definitions import build_definitions
from decomposerl.claims.catalogue import BENCHMARKS, source_of
from decomposerl.claims.load import LoadSettings, load_benchmark
from decomposerl.kernels.set_join import cross_matches
from decomposerl.kernels.text_scan import content_words, normalise_claim, words
from environment import settings_of
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.embedder.resource import EmbedderResource
from resources.store.parquet import DataFolder
from shared_runs import QUIET
from toy_corpus import SOURCE

CORPORA = ROOT.parent / "shared" / "corpora"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not CORPORA.is_dir(), reason="the real corpora are not on this machine"),
    pytest.mark.timeout(1_800),  # the shared run embeds 17,131 texts: minutes on an old processor
]

BUDGET = 150
PER_KIND = 120
TOML = SOURCE.replace('"toy"', '"planted"').replace("toy/", "planted/")
TOML = TOML.replace('["yes"]', '["Supported"]').replace('["no"]', '["Refuted"]')


def exact(claim: str) -> str:
    """The same claim in other punctuation and spacing."""
    return f"“{claim.rstrip('.')}” !"


def lexical(claim: str) -> str:
    """The same claim with one word more."""
    return f"Reportedly {claim}"


def semantic(claim: str) -> str:
    """The content words alone, in order: other words, nearly the same vector."""
    kept = content_words(claim)
    return " ".join(word for word in claim.split() if set(words(word)) & kept)


def planted_rows() -> list[dict[str, object]]:
    """Held-out claims of two benchmarks, disguised in three ways, each claim once."""
    files, rows = FolderCorpora(CORPORA), []
    by_name = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    for name in ("hover", "foolmetwice"):
        benchmark = by_name[name]
        loaded = load_benchmark(benchmark, source_of(benchmark), files, LoadSettings()).claims
        usable = loaded.filter(pl.col("label").is_not_null(), pl.col("evidence").is_not_null())
        disguises = (exact, lexical, semantic)
        for number, row in enumerate(usable.head(PER_KIND * 3 // 2).to_dicts()):
            disguise = disguises[number % 3]
            rows.append(
                {
                    "id": f"{disguise.__name__}-{row['claim_id']}",
                    "claim": disguise(row["claim"]),
                    "evidence": row["passages"],
                    "label": row["label"],
                }
            )
    return rows


@pytest.fixture(scope="module")
def vectors(request: pytest.FixtureRequest) -> Path | None:
    """A folder for the vectors of the embedder that survives the run of the tests.

    The engine's name and each text are the key, so another model or text is embedded anew.
    None without pytest's cache.
    """
    cache = getattr(request.config, "cache", None)
    return None if cache is None else cache.mkdir("vectors") / "embedder"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, vectors: Path | None) -> DataFolder:
    corpora, data = tmp_path_factory.mktemp("corpora"), tmp_path_factory.mktemp("data")
    stored = data / "engine_results" / "embedder"
    if vectors is not None and vectors.is_dir():
        shutil.copytree(vectors, stored)
    for entry in CORPORA.iterdir():
        (corpora / entry.name).symlink_to(entry)
    (corpora / "planted").mkdir()
    (corpora / "planted" / "source.toml").write_text(TOML, "utf-8")
    lines = "\n".join(json.dumps(row) for row in planted_rows())
    (corpora / "planted" / "claims.jsonl").write_text(lines, "utf-8")
    definitions = build_definitions(settings_of(data, corpora))
    ops = {"diversity_selected": {"config": {"budget_per_label": BUDGET}}}
    with dg.instance_for_test() as instance:
        job = definitions.resolve_job_def("funnel")
        assert job.execute_in_process(run_config=QUIET | {"ops": ops}, instance=instance).success
    if vectors is not None:
        copy = shutil.copytree(stored, vectors.with_name(f"copy-{os.getpid()}"))
        shutil.rmtree(vectors, ignore_errors=True)
        copy.rename(vectors)  # whole or not at all
    return DataFolder(base_dir=str(data))


def test_no_benchmark_claim_survives(folder: DataFolder):
    """No training claim equals a test claim or shares 0.7 of its words."""
    training = folder.read("training_claims")["claim"].to_list()
    tests = pl.concat(
        [folder.read(f"benchmark/{benchmark.name}", ["claim"]) for benchmark in BENCHMARKS]
    )["claim"].to_list()
    assert set() == {normalise_claim(c) for c in training} & {normalise_claim(c) for c in tests}
    assert not cross_matches(training, tests, 0.7).is_matched.any()
    embedder = EmbedderResource(results_dir=str(folder.path / "engine_results")).open()
    cosines = embedder.embed(training) @ embedder.embed(tests).T
    assert embedder.calls == 0
    assert cosines.max() < 0.90


def test_all_three_prongs_fire_on_planted_real_claims(folder: DataFolder):
    """Disguised test claims leave by the prong that their disguise calls for."""
    drops = folder.read("drops/decontaminated").filter(source="planted")
    planted = folder.read("claims/planted", ["claim_id", "native_id"]).with_columns(
        kind=pl.col("native_id").str.split("-").list.first()
    )
    fired = drops.join(planted, on="claim_id").select("kind", "reason").unique().rows()
    prongs = {(kind, f"{kind}_match") for kind in ("exact", "lexical", "semantic")}
    assert prongs <= set(fired)
    assert drops["matched_source"].str.starts_with("benchmark/").all()
    entered = folder.read("deduplicated", ["claim_id"]).join(planted, on="claim_id")
    reworded = entered.filter(kind="semantic")["claim_id"]
    assert reworded.is_in(drops["claim_id"].implode()).mean() >= 0.5
    survivors = folder.read("decontaminated", ["claim_id"]).join(planted, on="claim_id")
    assert {"exact", "lexical"} & set(survivors["kind"]) == set()
