"""The table of addresses: complete, exact, and each address with the page it was read from."""

import hashlib
import re

import pytest

from decomposerl.claims.addresses import ACCESS, corpus_named
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import Access, listed, size_text
from decomposerl.claims.forms import NOT_CHECKED
from decomposerl.claims.source import Benchmark, NativeFile, Source
from project import ROOT
from studies.reference import corpora_status
from studies.reference.corpora_status import REAL_FILES

REAL = ROOT.parent / "shared" / "corpora"
EVERY = (*SOURCES, *BENCHMARKS)
PINNED = re.compile(r"https://github\.com/[^/]+/[^/]+/(blob|tree)/[0-9a-f]{40}/.")


def native(corpus: Source | Benchmark) -> tuple[NativeFile, ...]:
    more = corpus.extra if isinstance(corpus, Source) else (*corpus.shared, *corpus.claim_lists)
    return (*corpus.files, *more)


@pytest.mark.parametrize("corpus", EVERY, ids=lambda one: f"{type(one).__name__}-{one.name}")
def test_every_corpus_says_where_its_files_are(corpus: Source | Benchmark):
    """Each file that its reader takes is fetched, placed by a person, or named with a reason."""
    access = ACCESS[corpus.name]
    obtained = {*access.files(), *(path for path, reason in access.other if reason)}
    read = {one.path for one in native(corpus)} | set(corpus.beside)
    assert read <= obtained
    assert set() == {one.path for one in native(corpus)} & set(access.page_files)
    assert (access.how == "manual") == bool(access.placed)
    assert (access.how == "hub") == (access.hub is not None)
    assert access.how != "manual" or access.step


def test_the_table_names_nothing_that_no_reader_takes():
    """Names, paths and addresses are those of the catalogue, each once."""
    assert {one.name for one in EVERY} == set(ACCESS)
    read = {file.path for one in EVERY for file in native(one)}
    read |= {path for one in EVERY for path in one.beside}
    paths = [path for one in ACCESS.values() for path in one.files()]
    assert read == {*paths, *(path for one in ACCESS.values() for path, _ in one.other)}
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("access", ACCESS.values(), ids=lambda one: one.name)
def test_addresses_are_exact_and_say_where_they_were_read(access: Access):
    """HTTPS, a commit where there is one, well-formed checksums, a public page."""
    for one in access.downloads:
        assert one.url.startswith("https://")
        assert one.checked_in.startswith("https://github.com/")
        assert one.git_blob == "" or len(bytes.fromhex(one.git_blob)) == 20
        assert one.sha256 == "" or len(bytes.fromhex(one.sha256)) == 32
        assert ("raw.githubusercontent.com" in one.url) == bool(one.git_blob)
    assert access.sources
    assert all(PINNED.match(source) for source in access.sources)
    rows = listed(access, corpus_named(access.name))["files"]
    assert [row["path"] for row in rows] == list(access.files())


@pytest.mark.parametrize("corpus", EVERY, ids=lambda one: f"{type(one).__name__}-{one.name}")
def test_every_layout_says_where_its_columns_were_read(corpus: Source | Benchmark):
    """A page for each layout of each form, or that none was found; a native one always has one."""
    for name, page in (one for form in corpus.forms for one in form.layouts):
        read = PINNED.match(page) or page.startswith(
            ("https://huggingface.co/", "https://fever.ai")
        )
        assert read or (name, page) == ("hub", NOT_CHECKED), name


def test_the_page_of_checked_files_names_files_of_the_catalogue():
    """Each once, with the split that reads it, and got as many rows as expected."""
    known = {(file.path, file.split) for one in EVERY for file in native(one)}
    shown = [(one.path, one.split) for one in REAL_FILES]
    assert set(shown) <= known
    assert len(shown) == len(set(shown))
    assert all(one.rows == one.got for one in REAL_FILES)
    rows = [line for line in corpora_status.page().splitlines() if line.startswith("| ")]
    assert len(EVERY) + 2 * len(("head", "rule")) == len(rows)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hover", "12.3 MB; pages about 2.2 GB"),
        ("ex_fever", "3.4 MB and more; pages about 2.2 GB"),
        ("faviq_a", "about 13 MB"),
        ("claimdecomp", "size not published"),
        ("fever", "4.8 MB; pages of unknown size"),
    ],
)
def test_a_size_says_what_is_known_of_it(name: str, said: str):
    """Published sizes are summed; what is not published is said."""
    assert said == size_text(ACCESS[name])


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
