"""Laws of the catalogue of corpora: every member keeps them, whoever adds one.

Its addresses are complete, exact, and each stands with the page it was read from.
"""

import hashlib
import re
from pathlib import Path

import polars as pl
import pytest

from decomposerl.claims.addresses import ACCESS, corpus_named
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of, source_of
from decomposerl.claims.downloads import listed, size_text
from decomposerl.claims.forms import NOT_CHECKED
from decomposerl.claims.source import FORMAT_OF_ENDING, in_form, with_hub
from decomposerl.claims.sources import scifact
from decomposerl.errors import SourceFileError
from fakes import MemoryCorpora
from native_rows import MEMBERS, SOURCE, all_files
from project import ROOT
from resources.corpora.folder import FolderCorpora
from studies.reference import corpora_status
from studies.reference.corpora_status import REAL_FILES

REAL = ROOT.parent / "shared" / "corpora"
CURATE = (ROOT / "docs/how-to/curate.md").read_text("utf-8")
PINNED = re.compile(r"https://github\.com/[^/]+/[^/]+/(blob|tree)/[0-9a-f]{40}/.")
PAPER_ROWS = (
    "ex_fever 36841, llm_aggrefact 30420, feverous 26928, hover 18171, foolmetwice 11588, "
    "faviq_a 10924, pubhealth 9096, ambifc 4912, pubhealthtab 2664, scifact 1295, scitab 868, "
    "wice 785, claimdecomp 569, pubmedclaim 445"
)


def test_the_sources_stand_in_the_order_of_the_papers_table():
    """Fourteen sources with the paper's raw counts, largest first, 155,506 rows in all."""
    assert PAPER_ROWS == ", ".join(f"{one.name} {one.paper_raw}" for one in SOURCES)
    assert sum(one.paper_raw or 0 for one in SOURCES) == 155_506


def test_nine_benchmarks_are_in_domain_and_two_are_not():
    """The paper's split of its eleven test sets; what the terms forbid is off for training."""
    assert len(BENCHMARKS) == 11
    assert [one.name for one in BENCHMARKS if not one.in_domain] == ["coverbench", "llm_aggrefact"]
    assert ["llm_aggrefact"] == [one.name for one in SOURCES if one.training_off]
    assert "coverbench" not in {one.name for one in SOURCES}


def test_every_member_states_its_names_terms_and_labels():
    """A name is an asset key: unique in its list. A label has one side; both verdicts have one."""
    for members in (SOURCES, BENCHMARKS):
        assert len(members) == len({one.name for one in members})
    for one in MEMBERS:
        assert one.name.isidentifier(), one.name
        assert one.name == one.name.lower()
        stated = (one.title, one.domain, one.homepage, one.license, one.terms)
        assert all(text.strip() for text in stated), one.name
        assert one.homepage.startswith("https://"), one.name
        labels = one.labels
        assert min(len(labels.supported), len(labels.refuted)) > 0, one.name
        assert not labels.supported & labels.refuted, one.name
        assert not (labels.supported | labels.refuted) & labels.middle, one.name


def test_files_are_distinct_plain_and_of_one_form_each():
    """Paths are relative, leave compression to the reader, and hold the forms of one file alone.

    Else one file would be read as two splits; every other form has a format by its ending.
    """
    nowhere = MemoryCorpora({})
    for one in MEMBERS:
        files = all_files(one)
        assert files
        assert len(files) == len(set(files)), one.name
        places = [path for file in files for path in (file.path, *file.also)]
        assert len(places) == len(set(places)), one.name
        assert all(not Path(path).is_absolute() and ".." not in path for path in places)
        assert all(not path.endswith(".gz") for path in places), one.name
        others = {Path(path).suffix for file in files for path in file.also}
        assert others <= set(FORMAT_OF_ENDING), one.name
        assert [] == [row for file in files for row in one.read(nowhere, file)], "absent: no rows"


def test_a_benchmark_names_an_existing_source():
    """Its source exists, shares its labels, reader and split files, and finds its way back."""
    for benchmark in BENCHMARKS:
        source = source_of(benchmark)
        assert (source is None) == (benchmark.source is None)
        assert set(benchmark.shared) <= set(source.files if source else ()), benchmark.name
        if source is not None:
            assert (benchmark.read, benchmark.labels) == (source.read, source.labels)
            assert benchmark is benchmark_of(source)


def test_no_source_lists_test_files():
    """Files that a benchmark uses whole, and claim lists, are nowhere training files."""
    tested = {file for one in BENCHMARKS for file in (*one.files, *one.claim_lists)}
    for source in SOURCES:
        assert set() == tested & {*source.files, *source.extra}, source.name


def test_the_page_on_curation_lays_out_every_native_file():
    """In the row of its folder, by its path in there; each form that it names is a form.

    Of the hub's table and of the archive there are thirteen.
    """
    rows = {line.split("`")[1]: line for line in CURATE.splitlines() if line.startswith("| `")}
    paths = [file.path.partition("/") for one in MEMBERS for file in all_files(one)]
    assert [] == [path for folder, _, path in paths if f"`{path}`" not in rows[folder]]
    section = CURATE.split("### Files of the Hugging Face hub")[1].split("\n## ")[0]
    named = re.findall(r"`(\w+/\S+\.(?:parquet|tsv|jsonl))`", section)
    files = [file for one in MEMBERS for file in one.files]
    known = {path for file in (*files, scifact.CORPUS) for path in (file.path, *file.also)}
    assert (13, set()) == (len(named), set(named) - known)


def test_every_corpus_says_where_its_files_are():
    """Each file that its reader takes is fetched, placed by a person, or named with a reason."""
    for corpus in MEMBERS:
        access = ACCESS[corpus.name]
        obtained = {*access.files(), *(path for path, reason in access.other if reason)}
        native = {one.path for one in all_files(corpus)}
        assert native | set(corpus.beside) <= obtained, corpus.name
        assert set() == native & set(access.page_files)
        assert (access.how == "manual") == bool(access.placed)
        assert (access.how == "hub") == (access.hub is not None)
        assert access.how != "manual" or access.step


def test_the_table_names_nothing_that_no_reader_takes():
    """Names, paths and addresses are those of the catalogue, each once."""
    assert {one.name for one in MEMBERS} == set(ACCESS)
    read = {file.path for one in MEMBERS for file in all_files(one)}
    read |= {path for one in MEMBERS for path in one.beside}
    paths = [path for one in ACCESS.values() for path in one.files()]
    assert read == {*paths, *(path for one in ACCESS.values() for path, _ in one.other)}
    assert len(paths) == len(set(paths))


def test_addresses_are_exact_and_say_where_they_were_read():
    """HTTPS, a commit where there is one, well-formed checksums, a public page."""
    for access in ACCESS.values():
        for one in access.downloads:
            assert one.url.startswith("https://")
            assert one.checked_in.startswith("https://github.com/")
            assert one.git_blob == "" or len(bytes.fromhex(one.git_blob)) == 20
            assert one.sha256 == "" or len(bytes.fromhex(one.sha256)) == 32
            assert ("raw.githubusercontent.com" in one.url) == bool(one.git_blob)
        assert access.sources
        assert all(PINNED.match(source) for source in access.sources), access.name
        rows = listed(access, corpus_named(access.name))["files"]
        assert [row["path"] for row in rows] == list(access.files())


def test_every_layout_says_where_its_columns_were_read():
    """A page for each layout of each form, or that none was found; a native one always has one."""
    hosts = ("https://huggingface.co/", "https://fever.ai")
    for corpus in MEMBERS:
        for name, page in (one for form in corpus.forms for one in form.layouts):
            read = PINNED.match(page) or page.startswith(hosts)
            assert read or (name, page) == ("hub", NOT_CHECKED), (corpus.name, name)


def test_the_page_of_checked_files_names_files_of_the_catalogue():
    """Each once, with the split that reads it, and got as many rows as expected."""
    known = {(file.path, file.split) for one in MEMBERS for file in all_files(one)}
    shown = [(one.path, one.split) for one in REAL_FILES]
    assert set(shown) <= known
    assert len(shown) == len(set(shown))
    assert all(one.rows == one.got for one in REAL_FILES)
    rows = [line for line in corpora_status.page().splitlines() if line.startswith("| ")]
    assert len(MEMBERS) + 2 * len(("head", "rule")) == len(rows)


def test_a_size_says_what_is_known_of_it():
    """Published sizes are summed; what is not published is said."""
    names = ("hover", "ex_fever", "faviq_a", "claimdecomp", "fever")
    assert [
        "12.3 MB; pages about 2.2 GB",
        "3.4 MB and more; pages about 2.2 GB",
        "about 13 MB",
        "size not published",
        "4.8 MB; pages of unknown size",
    ] == [size_text(ACCESS[name]) for name in names]


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="the real corpora are not beside this folder")
def test_the_published_facts_are_those_of_the_real_files():
    """Size and Git object of each file that is a byte-for-byte copy of its repository's."""
    checked = 0
    for download in (one for access in ACCESS.values() for one in access.downloads):
        path = REAL / download.files[0][1]
        if download.git_blob and path.is_file():
            content = path.read_bytes()
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
            assert (len(content), blob.hexdigest()) == (download.size, download.git_blob), path
            checked += 1
    assert 11 == checked


def test_the_form_that_is_read_is_stable(tmp_path: Path):
    """Asked again for its own answer, nothing changes; an absent file stays as it is."""
    file = with_hub(SOURCE["scitab"].files[0])
    files = FolderCorpora(tmp_path)
    assert file == in_form(files, file)
    (tmp_path / "scitab").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "scitab/train.parquet")
    found = in_form(files, file)
    assert ("scitab/train.parquet", "parquet", ()) == (found.path, found.format, found.also)
    assert found == in_form(files, found)


@pytest.mark.parametrize("shards", [("0000", "0001"), ("x-00000-of-00002", "x-00001-of-00002")])
def test_several_shards_are_refused_and_not_read_in_part(tmp_path: Path, shards: tuple[str, str]):
    """The error names a shard and the file that would be read; a native file comes first."""
    file = with_hub(SOURCE["scitab"].files[0])
    folder = "default/train" if shards[0] == "0000" else "data"
    names = [f"{name.replace('x', 'train')}.parquet" for name in shards]
    (tmp_path / "scitab" / folder).mkdir(parents=True)
    for name in names:
        pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "scitab" / folder / name)
    with pytest.raises(SourceFileError, match=rf"{folder}/{names[1]} .* scitab/train\.parquet"):
        in_form(FolderCorpora(tmp_path), file)
    (tmp_path / file.path).write_text("[]", "utf-8")
    assert file.path == in_form(FolderCorpora(tmp_path), file).path
