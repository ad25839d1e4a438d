"""Laws of the catalogue of corpora: every member keeps them, whoever adds one.

Addresses are exact, and every form and page dump in which a corpus is published is read.
"""

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from corpora_parts import LENIENT, assert_conserved, rejected
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of, source_of
from decomposerl.claims.claim import Draft
from decomposerl.claims.downloads import ACCESS
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.passages import with_entities, without_entities
from decomposerl.claims.source import (
    FORMAT_OF_ENDING,
    Benchmark,
    in_form,
    with_hub,
)
from decomposerl.claims.sources import scifact
from decomposerl.errors import SourceFileError
from fakes import MemoryCorpora
from made_dumps import FEVER_PAGES, FEVEROUS_PAGES, hotpot_line
from native_rows import BENCHMARK, MEMBERS, SOURCE, Member, named
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.page_build import PAGE_SETS, PageSet, row_of, title_key
from resources.corpora.pages import spellings
from resources.corpora.status import corpora_status
from studies.reference import corpora_status as page_of_files

REAL = ROOT.parent / "shared" / "corpora"
CURATE = (ROOT / "docs/how-to/curate.md").read_text("utf-8")
PINNED = re.compile(r"https://github\.com/[^/]+/[^/]+/(blob|tree)/[0-9a-f]{40}/.")


def test_the_sources_stand_in_the_order_of_the_papers_table():
    """Fourteen sources with the paper's raw counts, largest first, 155,506 rows in all."""
    raw = [one.paper_raw or 0 for one in SOURCES]
    assert (14, 155_506) == (len(raw), sum(raw))
    assert sorted(raw, reverse=True) == raw


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
    """Relative paths without .gz, the forms of one file alone (never two splits), known endings."""
    nowhere = MemoryCorpora({})
    for one in MEMBERS:
        files = one.native_files
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
    """In its folder's row, by its path in there; the thirteen forms that it names are forms."""
    rows = {line.split("`")[1]: line for line in CURATE.splitlines() if line.startswith("| `")}
    paths = [file.path.partition("/") for one in MEMBERS for file in one.native_files]
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
        obtained = {*access.files(), *(path for path, reason in access.other.items() if reason)}
        native = {one.path for one in corpus.native_files}
        assert native | set(corpus.beside) <= obtained, corpus.name
        assert native <= obtained - {one.name for one in access.downloads if one.pages}
        placed = not all(one.url for one in access.downloads)
        assert (access.obtained == "manual") == placed
        assert access.obtained.startswith("hub") == any(one.repo_id for one in access.downloads)
        assert access.obtained.endswith("in part") == bool(access.step and not placed)
        assert not placed or access.step


def test_the_table_names_nothing_that_no_reader_takes():
    """Names, paths and addresses are those of the catalogue, each once."""
    assert {one.name for one in MEMBERS} == set(ACCESS)
    read = {file.path for one in MEMBERS for file in one.native_files}
    read |= {path for one in MEMBERS for path in one.beside}
    paths = [path for one in ACCESS.values() for path in one.files()]
    assert read == {*paths, *(path for one in ACCESS.values() for path in one.other)}
    assert len(paths) == len(set(paths))


def test_addresses_are_exact_and_say_where_they_were_read():
    """HTTPS, a commit where there is one, well-formed checksums, a public page."""
    for access in ACCESS.values():
        for one in access.downloads:
            assert one.url.startswith("https://") or access.obtained == "manual"
            assert one.checked_in.startswith("https://github.com/")
            assert one.git_blob == "" or len(bytes.fromhex(one.git_blob)) == 20
            assert one.sha256 == "" or len(bytes.fromhex(one.sha256)) == 32
            assert ("raw.githubusercontent.com" in one.url) == bool(one.git_blob)
            assert PINNED.match(one.checked_in), access.name


def test_every_layout_says_where_its_columns_were_read():
    """A page for each layout of each form, or that none was found; a native one always has one."""
    hosts = ("https://huggingface.co/", "https://fever.ai")
    for corpus in MEMBERS:
        for name, page in page_of_files.layouts(corpus):
            read = PINNED.match(page) or page.startswith(hosts)
            assert read or (name, page) == ("hub", page_of_files.NOT_CHECKED), (corpus.name, name)


def test_the_page_of_checked_files_names_files_of_the_catalogue():
    """Each once, with the split that reads it, and got as many rows as expected."""
    known = {(file.path, file.split) for one in MEMBERS for file in one.native_files}
    shown = [(one.path, one.split) for one in page_of_files.REAL_FILES]
    assert set(shown) <= known
    assert len(shown) == len(set(shown))
    assert all(one.rows == one.got for one in page_of_files.REAL_FILES)
    rows = [line for line in page_of_files.page().splitlines() if line.startswith("| ")]
    assert len(MEMBERS) + 2 * len(("head", "rule")) == len(rows)


def real(test: Callable[..., None]) -> Callable[..., None]:
    """A test of the real corpora, where they are beside this folder."""
    return pytest.mark.real(pytest.mark.skipif(not REAL.is_dir(), reason="no real corpora")(test))


@real
def test_the_published_facts_are_those_of_the_real_files():
    """Size and Git object of each file that is a byte-for-byte copy of its repository's."""
    checked = 0
    for download in (one for access in ACCESS.values() for one in access.downloads):
        path = REAL / download.name
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
    assert file == in_form(files.exists, file)
    (tmp_path / "scitab").mkdir()
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "scitab/train.parquet")
    found = in_form(files.exists, file)
    assert ("scitab/train.parquet", "parquet", ()) == (found.path, found.format, found.also)
    assert found == in_form(files.exists, found)


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
        in_form(FolderCorpora(tmp_path).exists, file)
    (tmp_path / file.path).write_text("[]", "utf-8")
    assert file.path == in_form(FolderCorpora(tmp_path).exists, file).path


Rows = Sequence[Mapping[str, Any]]
KEPT = ["claim_id", "native_id", "split", "claim", "passages", "label", "document_id"]
ABSTRACTS = [{"doc_id": 31, "abstract": ["One.", "Two."]}, {"doc_id": 32, "abstract": ["Three."]}]


@dataclass(frozen=True)
class Form:
    """Rows of a corpus as its own file has them and, at ``path``, as the hub has them."""

    member: Member
    native: Any
    path: str
    hub: Rows


FILE = Path(__file__).with_name("forms.json")
FORMS = {
    name: Form({named(one): one for one in MEMBERS}[rows.pop("member")], **rows)
    for name, rows in json.loads(FILE.read_text("utf-8")).items()
}


def write(path: Path, rows: Any) -> None:  # noqa: ANN401 - a JSON file of any shape
    """Rows in the format of the file's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), "utf-8")
    elif path.suffix == ".tsv":
        pl.DataFrame(rows).write_csv(path, separator="\t")
    else:
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")


def pages(path: Path, table: str, column: str, texts: Mapping[str, str]) -> None:
    """A page database of the corpus's own layout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE {table} (id TEXT PRIMARY KEY, {column} TEXT)")
        database.executemany(f"INSERT INTO {table} VALUES (?, ?)", texts.items())  # noqa: S608


def load(root: Path, one: Member) -> LoadedClaims:
    files = FolderCorpora(root)
    settings = LENIENT.model_copy(update={"allow_training_off": True})
    if isinstance(one, Benchmark):
        return load_benchmark(one, None, files, settings)
    return load_source(one, None, files, settings)


def beside(root: Path) -> None:
    """What the claim files of several corpora refer to."""
    write(root / "pubmedqa/test_ground_truth.json", {"14": "yes"})
    write(root / "scifact/corpus.jsonl", ABSTRACTS)
    lines = {"Orla": "0\tShe met Bram.\n1\tTwice.", "Bram": "0\tHe was late."}
    pages(root / "fever/fever.db", "documents", "lines", lines)
    orla = {
        "title": "Orla",
        "order": ["sentence_0", "table_0"],
        "sentence_0": "She met Bram.",
        "table_0": {"table": [[{"id": "cell_0_1_1", "value": "1901"}]]},
    }
    pages(root / "feverous/feverous_wikiv1.db", "wiki", "data", {"Orla": json.dumps(orla)})
    texts = {"Orla": "She met Bram.", "Bram": "He was late."}
    pages(root / "hover/wiki_wo_links.db", "documents", "text", texts)


@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_same_claims(name: str, tmp_path: Path):
    """Ids, splits, texts, labels, documents and drops; every row is counted in both."""
    form = FORMS[name]
    member, loaded = form.member, []
    for folder, file, rows in (
        ("a", member.files[0].path, form.native),
        ("b", form.path, form.hub),
    ):
        beside(tmp_path / folder)
        write(tmp_path / folder / file, rows)
        loaded.append(load(tmp_path / folder, member))
        assert file in loaded[-1].files
        assert [] == loaded[-1].rejects.rows()
    ours, theirs = loaded
    assert 0 < ours.claims.height
    assert [text for passages in ours.claims["passages"] if len(passages) for text in passages]
    assert ours.claims.select(KEPT).rows() == theirs.claims.select(KEPT).rows()
    assert ours.drops.rows() == theirs.drops.rows()
    assert_conserved(theirs)


def test_rows_of_one_claim_that_disagree_are_one_reject(tmp_path: Path):
    """A claim with two labels is neither; it counts once, as a claim of several rows does."""
    first, second, *others = FORMS["fever"].hub
    changed = [first, {**second, "label": "REFUTES"}, *others]
    write(tmp_path / "fever/v1.0/paper_test.parquet", changed)
    loaded = load(tmp_path, BENCHMARK["fever"])
    assert [(1, "label", "conflicting_rows")] == rejected(loaded)
    detail = loaded.rejects["detail"][0]
    assert ["1", "SUPPORTS", "2", "REFUTES", "1", "2", "3"] == re.findall(r"\d|[A-Z]{4,}", detail)
    assert ["2", "3"] == loaded.claims["native_id"].to_list()
    assert_conserved(loaded)


def test_several_forms_in_one_folder_are_read_once(tmp_path: Path):
    """The native file wins; the others are named, and no row is a repeat."""
    beside(tmp_path)
    names = [
        "hover/hover_train_release_v1.1.json",
        "hover/default/train/0000.parquet",
        "hover/train.jsonl",
    ]
    form = FORMS["hover"]
    for name in names:
        write(tmp_path / name, form.native if name == names[0] else form.hub)
    loaded = load(tmp_path, SOURCE["hover"])
    assert ((names[0],), {names[0]: tuple(names[1:])}) == (loaded.files, loaded.unread)
    assert (2, 2, 0) == (loaded.claims.height, loaded.rows_read, loaded.drops.height)
    (tmp_path / names[0]).unlink()
    again = load(tmp_path, SOURCE["hover"])
    assert {names[1]: (names[2],)} == again.unread
    assert loaded.claims.rows() == again.claims.rows()
    (status,) = corpora_status(FolderCorpora(tmp_path).exists, [SOURCE["hover"]])
    assert [names[1]] == status["present"]
    assert ["hover/hover_dev_release_v1.1.json"] == status["missing"]


@pytest.mark.parametrize("member", MEMBERS, ids=named)
def test_an_unknown_form_is_refused_with_the_known_ones(member: Member, tmp_path: Path):
    """For every corpus of the catalogue: the file, its columns, and each form with its columns."""
    file = (*member.files, *getattr(member, "claim_lists", ()))[0]
    write(tmp_path / "pubmedqa/test_ground_truth.json", {"14": "yes"})
    row = {"text_a": "C.", "verdict_b": 1}
    rows: Any = {"1": row} if file.format == "json_object" else [row]
    if file.format == "csv":
        (tmp_path / file.path).parent.mkdir(parents=True)
        pl.DataFrame(rows).write_csv(tmp_path / file.path)
    else:
        write(tmp_path / file.path, rows)
    with pytest.raises(SourceFileError) as caught:
        load(tmp_path, member)
    message = str(caught.value)
    assert message.startswith(f"{member.name}: {file.path}: ")
    assert "text_a, verdict_b" in message.replace("_key, ", "").replace(", _key", "")
    assert member.forms
    assert all(", ".join(sorted(form.columns)) in message for form in member.forms)


def test_a_file_of_half_a_form_is_unknown_and_a_row_of_half_a_form_is_a_reject(tmp_path: Path):
    """Where one row has all columns, the form is known, and a row without one is its own fault."""
    whole, _, other, _ = FORMS["pubhealth"].native
    half = {name: value for name, value in other.items() if name != "main_text"}
    path = tmp_path / "pubhealth/train.jsonl"
    write(path, [half, half])
    with pytest.raises(SourceFileError, match="claim_id, claim, label;"):
        load(tmp_path, SOURCE["pubhealth"])
    write(path, [half, whole])
    loaded = load(tmp_path, SOURCE["pubhealth"])
    assert [(1, "main_text", "missing_field")] == rejected(loaded)
    assert 1 == loaded.claims.height


PARTS = ["a", "B", "-LRB-", "(", ")", "[", "_", " ", '"', "&", "&amp;", "lt;", "\u00e9", "e\u0301"]
TITLES = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)


@given(TITLES)
def test_every_spelling_of_a_lookup_has_one_key(title: str):
    """A page that the reader would find under any spelling is kept when only needed ones are."""
    assert {title_key(title)} == {title_key(one) for one in spellings(title)}


@given(st.text())
def test_entities_are_undone(title: str):
    """Whatever the title is, also one that holds an entity."""
    assert title == without_entities(with_entities(title))


def lines_of(pages: PageSet, title: str) -> bytes:
    """A page of this title as the dump has it."""
    if pages.name == "fever":
        return json.dumps({**FEVER_PAGES[1], "id": title}).encode()
    if pages.name == "feverous":
        return json.dumps({**FEVEROUS_PAGES[1], "title": title}, ensure_ascii=False).encode()
    return hotpot_line(title, ["One.", " Two."]).encode()


@pytest.mark.parametrize("pages", PAGE_SETS.values(), ids=PAGE_SETS)
@given(title=st.text(min_size=1), others=st.lists(TITLES, max_size=3))
def test_needed_pages_are_the_rows_of_all_pages_by_key(
    pages: PageSet, title: str, others: list[str]
):
    """A line is a row for the same titles as it is when all pages are."""
    line = lines_of(pages, title)
    whole = row_of(pages, line, None)
    needed = {title_key(one): one for one in others}
    assert row_of(pages, line, needed) == (whole if title_key(title) in needed else None)
    assert whole is not None
    assert whole == row_of(pages, line, {title_key(whole[0]): title})


def test_a_line_of_another_layout_is_refused():
    """With the field that is wrong; HotpotQA's full pages have lists of paragraphs."""
    for name, line, message in (
        ("hover", '{"title": "A"}', "text: "),
        ("hover", '{"title": "A", "text": [["A paragraph."]]}', "text: "),
        ("hover", "[]", "list"),
        ("hover", '{"title": 3, "text": []}', "title: "),
        ("hover", "[" * 100_000, "nested|recursion"),
        ("fever", '{"id": "A", "text": ""}', "lines: "),
        ("feverous", '{"title": "A", "text": ["B."]}', "order: "),
    ):
        with pytest.raises(ValueError, match=message):
            row_of(PAGE_SETS[name], line.encode(), None)


def test_pages_without_a_name_or_content_are_no_rows():
    """As upstream leaves them out; a lone surrogate, which SQLite cannot store, is replaced."""
    assert row_of(PAGE_SETS["fever"], json.dumps(FEVER_PAGES[0]).encode(), None) is None
    assert row_of(PAGE_SETS["feverous"], json.dumps(FEVEROUS_PAGES[0]).encode(), None) is None
    row = row_of(PAGE_SETS["hover"], b'{"title": "A\\ud800", "text": ["B\\udfff"]}', None)
    assert ("A?", "B?") == row


CLAIM_LISTS = (
    *("fever/paper_dev.jsonl", "hover/hover_test_release_v1.1.json", "ex_fever/mini_test.csv"),
)


@real
@pytest.mark.parametrize(
    "real", [one for one in page_of_files.REAL_FILES if one.kept], ids=lambda real: real.path
)
def test_every_file_gives_the_rows_that_the_page_states(real: page_of_files.RealFile):
    """None is rejected, ids are unique; lists are without text, others have documents."""
    (member, file), *_ = (
        (one, file)
        for one in MEMBERS
        for file in one.native_files
        if (file.path, file.split) == (real.path, real.split)
    )
    drafts = list(member.read(FolderCorpora(REAL), file))
    assert real.got == len({one.native_id for one in drafts if isinstance(one, Draft)})
    assert real.got == len(drafts)
    listed = real.path in CLAIM_LISTS
    assert listed != any(one.passages for one in drafts if isinstance(one, Draft))


@real
def test_scifact_of_rationales_is_the_papers_count():
    """957 rationales of train and 338 of dev: 1,295, where the default has 773 rows."""
    source, chosen = SOURCE["scifact"], LoadSettings(readings={"scifact": "rationales"})
    loaded = load_source(source, None, FolderCorpora(REAL), chosen)
    assert {"train": 957, "dev": 338} == dict(loaded.claims["split"].value_counts().rows())
    assert source.paper_raw == loaded.claims.height
    assert 773 == load_source(source, None, FolderCorpora(REAL), LoadSettings()).claims.height
