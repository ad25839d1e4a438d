"""Laws of the catalogue of corpora: every member keeps them, whoever adds one."""

import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of, source_of
from decomposerl.claims.source import Benchmark, NativeFile, Source
from fakes import MemoryCorpora
from project import ROOT

MEMBERS = [pytest.param(one, id=f"source-{one.name}") for one in SOURCES]
MEMBERS += [pytest.param(one, id=f"benchmark-{one.name}") for one in BENCHMARKS]

PAPER_ROWS = {
    "ex_fever": 36_841,
    "llm_aggrefact": 30_420,
    "feverous": 26_928,
    "hover": 18_171,
    "foolmetwice": 11_588,
    "faviq_a": 10_924,
    "pubhealth": 9_096,
    "ambifc": 4_912,
    "pubhealthtab": 2_664,
    "scifact": 1_295,
    "scitab": 868,
    "wice": 785,
    "claimdecomp": 569,
    "pubmedclaim": 445,
}


def all_files(member: Source | Benchmark) -> list[NativeFile]:
    """Every native file that a member may read."""
    if isinstance(member, Source):
        return [*member.files, *member.extra]
    return [*member.files, *member.shared, *member.claim_lists]


def test_the_sources_stand_in_the_order_of_the_papers_table():
    """Fourteen sources with the paper's raw counts, largest first, 155,506 rows in all."""
    assert list(PAPER_ROWS.items()) == [(one.name, one.paper_raw) for one in SOURCES]
    assert sum(one.paper_raw or 0 for one in SOURCES) == 155_506


def test_nine_benchmarks_are_in_domain_and_two_are_not():
    """The paper's split of its eleven test sets."""
    assert len(BENCHMARKS) == 11
    assert [one.name for one in BENCHMARKS if not one.in_domain] == ["coverbench", "llm_aggrefact"]


@pytest.mark.parametrize("members", [SOURCES, BENCHMARKS], ids=["sources", "benchmarks"])
def test_names_are_unique_words(members: tuple[Source | Benchmark, ...]):
    """A name is an asset key and a file name: unique, lower case, no spaces."""
    names = [one.name for one in members]
    assert len(names) == len(set(names))
    assert all(name.isidentifier() and name == name.lower() for name in names)


@pytest.mark.parametrize("member", MEMBERS)
def test_licence_and_terms_are_stated(member: Source | Benchmark):
    """Every member says whose it is and on what terms, for the UI to show."""
    assert all(
        text.strip()
        for text in (member.title, member.domain, member.homepage, member.license, member.terms)
    )
    assert member.homepage.startswith("https://")


@pytest.mark.parametrize("member", MEMBERS)
def test_files_are_distinct_and_plain(member: Source | Benchmark):
    """No file is listed twice; paths are relative and leave compression to the reader."""
    files = all_files(member)
    assert files
    assert len(files) == len(set(files))
    assert all(not file.path.startswith("/") and ".." not in file.path for file in files)
    assert all(not file.path.endswith(".gz") for file in files)


@pytest.mark.parametrize("member", MEMBERS)
def test_label_sides_do_not_meet(member: Source | Benchmark):
    """A native label stands for one side, and both verdicts have a native label."""
    labels = member.labels
    assert labels.supported
    assert labels.refuted
    assert not labels.supported & labels.refuted
    assert not (labels.supported | labels.refuted) & labels.middle


@pytest.mark.parametrize("member", MEMBERS)
def test_an_empty_folder_gives_nothing(member: Source | Benchmark):
    """A file that is not on disk gives no rows and no rejects."""
    nowhere = MemoryCorpora({})
    assert [] == [row for file in all_files(member) for row in member.read(nowhere, file)]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_a_benchmark_names_an_existing_source(benchmark: Benchmark):
    """Its source exists, shares its labels and reader, and finds its way back."""
    source = source_of(benchmark)
    if benchmark.source is None:
        assert source is None
        return
    assert source is not None
    assert (benchmark.read, benchmark.labels) == (source.read, source.labels)
    assert benchmark is benchmark_of(source)


@pytest.mark.parametrize("source", SOURCES, ids=lambda one: one.name)
def test_no_source_lists_test_files(source: Source):
    """Files that a benchmark uses whole, and claim lists, are nowhere training files."""
    tested = {file for one in BENCHMARKS for file in (*one.files, *one.claim_lists)}
    assert set() == tested & {*source.files, *source.extra}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_shared_files_are_training_files_of_the_source(benchmark: Benchmark):
    """What a benchmark splits with its source stands among that source's files."""
    source = source_of(benchmark)
    assert set(benchmark.shared) <= set(source.files if source else ())


def test_what_the_terms_forbid_is_off_for_training():
    """LLM-AggreFact is off unless opted in, and CoverBench is no source at all."""
    assert ["llm_aggrefact"] == [one.name for one in SOURCES if one.training_off]
    assert "coverbench" not in {one.name for one in SOURCES}


@pytest.mark.parametrize("member", MEMBERS)
def test_the_page_on_curation_lays_out_every_native_file(member: Source | Benchmark):
    """In the row of its folder, by its path in there."""
    page = (ROOT / "docs/how-to/curate.md").read_text("utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    paths = [file.path.partition("/") for file in all_files(member)]
    assert [] == [path for folder, _, path in paths if f"`{path}`" not in rows[folder]]
