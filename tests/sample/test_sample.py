"""The bundled sample: deterministic, readable by every adapter, and without marks."""

import re
from itertools import combinations
from pathlib import Path

import polars as pl
import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of, source_of
from decomposerl.claims.load import LoadSettings, load_benchmark, load_source
from resources.corpora.bundled_sample import ensure_sample
from resources.corpora.folder import FolderCorpora
from sample import Sample, generate, paths
from sample.plan import COPIES, LEAKS, PLANTED, SIZES
from toy_corpus import write_sample

KINDS = {*PLANTED, *COPIES, *LEAKS, "ordinary", "middle", "reject", "benchmark"}


@pytest.fixture(scope="module")
def files(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> FolderCorpora:
    return FolderCorpora(write_sample(sample, tmp_path_factory.mktemp("sample")))


@pytest.fixture(scope="module")
def loaded(files: FolderCorpora) -> dict[str, pl.DataFrame]:
    """Claims, drops and rejects of all sources."""
    each = [load_source(one, benchmark_of(one), files, LoadSettings()) for one in SOURCES]
    return {
        name: pl.concat([getattr(one, name) for one in each])
        for name in ("claims", "drops", "rejects")
    }


@pytest.fixture(scope="module")
def tests_sets(files: FolderCorpora) -> pl.DataFrame:
    return pl.concat(
        load_benchmark(one, source_of(one), files, LoadSettings()).claims for one in BENCHMARKS
    )


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def jaccard(one: str, other: str) -> float:
    return len(words(one) & words(other)) / len(words(one) | words(other))


def test_a_seed_gives_the_same_bytes_and_another_one_another_world(sample: Sample):
    """A stage's data version must not change because the sample was written again."""
    again, other = generate(), generate(8)
    assert sample.files == again.files
    assert sample.answer_key.equals(again.answer_key)
    assert paths() == set(sample.files) == set(other.files), "known without the content"
    name = "hover/hover_train_release_v1.1.json"
    assert sample.files[name] != other.files[name]


def test_size(sample: Sample):
    """Two to three thousand claims in less than 12 MB; every planted kind often enough."""
    assert 2_000 <= sample.answer_key.height <= 3_000
    assert sum(map(len, sample.files.values())) < 12_000_000
    assert min(SIZES.values()) >= 40
    counts = dict(sample.answer_key.group_by("kind").len().iter_rows())
    assert set(counts) == KINDS
    assert all(counts[kind] >= 25 for kind in (*PLANTED, *COPIES, *LEAKS))
    assert 5 <= counts["reject"] <= 10


def test_the_answer_key_joins_every_training_row_once(
    sample: Sample, loaded: dict[str, pl.DataFrame]
):
    """Each claim or drop of a source is one row of the answer key, and the other way round."""
    planned = sample.answer_key.filter(
        pl.col("source").is_in(list(SIZES))
        & ~pl.col("kind").is_in(["benchmark", "reject"])
        & (pl.col("source") != "llm_aggrefact")
    )
    middle = planned.filter(pl.col("kind") == "middle").height
    kept = loaded["claims"].join(planned, on=["source", "native_id"], how="inner")
    assert loaded["claims"].height == kept.height == planned.height - middle
    assert middle == loaded["drops"].height


def test_the_answer_key_knows_every_test_claim(sample: Sample, tests_sets: pl.DataFrame):
    """The claims of the eleven test sets are those of the answer key, one to one."""
    planned = sample.answer_key.filter(pl.col("kind") == "benchmark").select("source", "native_id")
    joined = tests_sets.join(planned, on=["source", "native_id"], how="inner")
    assert planned.height == tests_sets.height == joined.height
    assert {one.name for one in BENCHMARKS} == set(tests_sets["source"])


def test_broken_rows_are_the_only_rejects(sample: Sample, loaded: dict[str, pl.DataFrame]):
    """Each malformed row is quarantined with the reason it was broken for."""
    planned = sample.answer_key.filter(pl.col("kind") == "reject")
    expected = sorted(planned.select("source", "expected_reason").iter_rows())
    assert expected == sorted(loaded["rejects"].select("source", "reason").iter_rows())


def test_labels_are_about_balanced(loaded: dict[str, pl.DataFrame]):
    """Neither label is much more common than the other, in any source."""
    shares = loaded["claims"].group_by("source").agg((pl.col("label") == "Supported").mean())
    assert shares["label"].is_between(0.35, 0.65).all()


def test_ordinary_claims_are_within_the_rules_and_unlike(
    sample: Sample, loaded: dict[str, pl.DataFrame]
):
    """Three sentences and 200 to 2,000 estimated tokens; no two share 0.7 of their words."""
    plain = sample.answer_key.filter(pl.col("kind") == "ordinary")
    rows = loaded["claims"].join(plain, on=["source", "native_id"], how="semi")
    tokens = rows["evidence"].str.split(" ").list.len() * 1.3
    assert tokens.is_between(200, 2_000).all()
    assert rows["evidence"].str.count_matches(r"\.(\s|$)|\n").min() >= 2
    sets = [words(claim) for claim in rows["claim"]]
    for one, other in combinations(sets, 2):
        assert len(one & other) < 0.7 * len(one | other)


def test_copies_are_as_near_as_their_kind_says(
    sample: Sample, loaded: dict[str, pl.DataFrame], tests_sets: pl.DataFrame
):
    """Exact copies share all words, near ones at least 0.7 of them, paraphrases mostly less."""
    texts = {
        (source, native): claim
        for frame in (tests_sets, loaded["claims"])
        for source, native, claim in frame.select("source", "native_id", "claim").iter_rows()
    }
    copies = sample.answer_key.filter(pl.col("partner_source").is_not_null())
    found: dict[str, list[float]] = {}
    for row in copies.iter_rows(named=True):
        claim = texts[row["source"], row["native_id"]]
        original = texts[row["partner_source"], row["partner_native_id"]]
        found.setdefault(row["kind"], []).append(jaccard(claim, original))
    assert all(share == 1.0 for kind in ("duplicate_exact", "leak_exact") for share in found[kind])
    assert all(share >= 0.7 for kind in ("duplicate_near", "leak_near") for share in found[kind])
    for kind in ("duplicate_paraphrase", "leak_paraphrase"):
        assert sum(share < 0.7 for share in found[kind]) >= 0.8 * len(found[kind])


def test_no_file_holds_a_mark_of_the_generator(sample: Sample):
    """Kinds, groups and expectations stay out of the native files and their names."""
    marks = [kind for kind in KINDS if "_" in kind] + ["mislabelled", "planted", "expected_stage"]
    for name, content in sample.files.items():
        assert not [mark for mark in marks if mark.encode() in content or mark in name]


def test_the_sample_is_written_once(sample: Sample, tmp_path: Path):
    """A second call finds the folder of the first and writes nothing; no answer key is there."""
    first = ensure_sample(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert first == ensure_sample(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert [first] == list(tmp_path.iterdir())
    written = {path for path in first.rglob("*") if path.is_file()}
    assert sample.files == {str(path.relative_to(first)): path.read_bytes() for path in written}
