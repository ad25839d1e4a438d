"""Page databases from made dumps of the published layouts, and how they are read."""

import bz2
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.claim import Draft
from decomposerl.claims.page_dumps import PAGE_SETS, PageSet, named_pages, title_key
from decomposerl.claims.source import DamagedPage
from decomposerl.errors import ConfigError, SourceFileError
from decomposerl.progress import Bar, watched
from made_dumps import (
    FEVER_PAGES,
    LAKES,
    TAR,
    fever_zip,
    hotpot_line,
    hotpot_tar,
    jsonl_zip,
    made_dump,
    rows_in,
    write_claims,
)
from project import PYTHONPATH, SUPPORT
from resources.corpora.folder import FolderCorpora
from resources.corpora.page_build import BuildSettings, build_pages
from resources.corpora.pages import CACHED_CHARACTERS, SqlitePages, spellings
from resources.store.run_lock import file_lock, lock_path

SETS = {one.name: one for one in PAGE_SETS}
MANY = {
    f"A{folder}/wiki_{file:02}.bz2": [
        (f"Page {folder}-{file}-{n}" if n else "Repeated", [f"Text {folder}.", f" Number {n}."])
        for n in range(20)
    ]
    for folder in "AB"
    for file in range(15)
}


def child(*arguments: object) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, str(SUPPORT / "page_build_child.py"), *map(str, arguments)]
    return subprocess.run(
        line, env={"PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False
    )


def evidence(pages: PageSet, corpora: Path) -> list[tuple[str, ...]]:
    """The passages of every claim that the corpus's adapter reads."""
    files = FolderCorpora(corpora)
    every = [one for one in (*SOURCES, *BENCHMARKS) if one.name == pages.name]
    read = [draft for one in every for file in one.files for draft in one.read(files, file)]
    assert all(isinstance(draft, Draft) for draft in read)
    return [draft.passages for draft in read if isinstance(draft, Draft)]


@pytest.mark.parametrize("pages", PAGE_SETS, ids=lambda pages: pages.name)
def test_the_adapter_reads_its_evidence_from_the_built_database(pages: PageSet, tmp_path: Path):
    """Whole or only what is needed: the same passages; the latter has the named pages alone."""
    dump = made_dump(pages.name, tmp_path)
    write_claims(pages.name, tmp_path)
    assert [()] == evidence(pages, tmp_path)
    whole = build_pages(pages, dump, tmp_path / pages.target)
    passages = evidence(pages, tmp_path)
    assert passages[0]
    assert all(any("deep" in text or "Caf" in text for text in one) for one in passages)
    corpora = [one for one in (*SOURCES, *BENCHMARKS) if one.name == pages.name]
    needed = named_pages(corpora, FolderCorpora(tmp_path))
    again = BuildSettings(replace=True)
    part = build_pages(pages, dump, tmp_path / pages.target, needed, again)
    assert passages == evidence(pages, tmp_path)
    assert part.pages == part.needed == len(needed) < whole.pages
    assert () == part.missing
    assert set(needed) == {title_key(str(row[1])) for row in rows_in(part.target)}


def test_the_pages_of_claims_in_the_hubs_form_are_named(tmp_path: Path):
    """Their titles are found where the native file is not there."""
    fact = {"key": "Blue Lake", "value": 0}
    row = {"uid": "u", "claim": "C.", "supporting_facts": [fact], "label": 1, "num_hops": 2}
    path = tmp_path / "hover/default/train/0000.parquet"
    path.parent.mkdir(parents=True)
    pl.DataFrame([row]).write_parquet(path)
    corpora = [one for one in SOURCES if one.name == "hover"]
    assert ["Blue Lake"] == list(named_pages(corpora, FolderCorpora(tmp_path)).values())


def test_the_database_has_the_layout_and_the_ids_of_the_published_one(tmp_path: Path):
    """HoVer: two columns, ids decomposed, entities as in the dump, sentences joined as they are."""
    built = build_pages(SETS["hover"], made_dump("hover", tmp_path), tmp_path / "hover.db")
    assert (5, 1, 0) == (built.pages, built.repeated, built.unreadable)
    assert [
        (1, "Blue Lake", "Blue Lake is deep. It is cold."),
        (2, "Other", "No."),
        (3, "Sugar &amp; Spice", "It is a caf\u00e9."),
        (4, "Cafe\u0301 Noir", "A song."),
        (5, "Tide", "Tide is red."),
    ] == rows_in(built.target)
    assert built.size == built.target.stat().st_size
    assert not list(tmp_path.glob("*.partial*"))


def test_a_title_is_found_with_and_without_entities(tmp_path: Path):
    """Ex-FEVER writes ``&`` where HotpotQA's dump, and so HoVer's database, has ``&amp;``."""
    built = build_pages(SETS["ex_fever"], made_dump("ex_fever", tmp_path), tmp_path / "pages.db")
    pages = SqlitePages(built.target)
    assert pages.sentences("Sugar_&_Spice") == pages.sentences("Sugar &amp; Spice") is not None
    assert 'A "b" & c' in set(spellings("A_&quot;b&quot;_&amp;_c"))
    found = list(spellings("A_(b)"))
    assert "A_(b)" == found[0]  # the literal title is tried first
    assert {"A (b)", "A_-LRB-b-RRB-", "A -LRB-b-RRB-"} <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize(("commit_s", "at"), [(0, 1), (0, 421), (60, 130), (0, 599)])
def test_a_killed_build_continues_and_gives_the_same_rows(tmp_path: Path, commit_s: int, at: int):
    """Killed at some line: nothing is lost, nothing is there twice, the order is the same."""
    dump = hotpot_tar(tmp_path / TAR, MANY)
    straight = build_pages(SETS["hover"], dump, tmp_path / "straight.db")
    target = tmp_path / "killed.db"
    killed = child("hover", dump, target, commit_s, f"kill:{at}")
    assert -signal.SIGKILL == killed.returncode
    assert not target.exists()
    done = build_pages(SETS["hover"], dump, target)
    assert (0 if commit_s else (at - 1) // 20) == done.continued
    assert rows_in(straight.target) == rows_in(target)
    assert (571, 29) == (done.pages, done.repeated) == (straight.pages, straight.repeated)


def test_a_build_that_was_killed_before_its_rename_is_only_renamed(tmp_path: Path):
    """All rows are in: the dump is not read again."""
    dump = fever_zip(tmp_path / "wiki-pages.zip")
    built = build_pages(SETS["fever"], dump, tmp_path / "a.db")
    rows = rows_in(built.target)
    built.target.rename(tmp_path / "b.db.partial")
    with zipfile.ZipFile(dump, "w") as archive:
        archive.writestr("wiki-pages/wiki-001.jsonl", "")
    again = build_pages(SETS["fever"], dump, tmp_path / "b.db")
    assert (2, rows) == (again.pages, rows_in(again.target))


def test_a_dump_that_was_downloaded_again_continues(tmp_path: Path):
    """A truncated archive stops the build with its name and the member; the whole one ends it."""
    whole = hotpot_tar(tmp_path / "whole.tar", MANY)
    dump = tmp_path / "abstracts.tar"
    dump.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    settings = BuildSettings(commit_s=0)
    with pytest.raises(SourceFileError, match=r"abstracts\.tar.*: damaged"):
        build_pages(SETS["hover"], dump, tmp_path / "h.db", settings=settings)
    shutil.copy(whole, dump)
    done = build_pages(SETS["hover"], dump, tmp_path / "h.db")
    assert 0 < done.continued < len(MANY)
    straight = build_pages(SETS["hover"], whole, tmp_path / "straight.db")
    assert rows_in(straight.target) == rows_in(done.target)


def test_another_dump_does_not_continue_a_build(tmp_path: Path):
    """The members that are done must be the same; the message names the file to delete."""
    dump = hotpot_tar(tmp_path / TAR, MANY)
    child("hover", dump, tmp_path / "h.db", 0, "kill:300")
    other = {**MANY, "AA/wiki_01.bz2": [("Other", ["Text."])]}
    hotpot_tar(dump, other)
    with pytest.raises(ConfigError, match=r"AA/wiki_01\.bz2.*h\.db\.partial"):
        build_pages(SETS["hover"], dump, tmp_path / "h.db")
    with pytest.raises(ConfigError, match=r"other pages"):
        build_pages(SETS["hover"], dump, tmp_path / "h.db", {"Page A00": "Page A00"})


def flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_member_of_a_zip_is_named(tmp_path: Path):
    """The archive's checksum tells; no row of the member stays."""
    pages = [{**FEVER_PAGES[1], "id": f"Page_{n}"} for n in range(300)]
    files = {"wiki-pages/wiki-001.jsonl": pages, "wiki-pages/wiki-002.jsonl": pages[:9]}
    dump = jsonl_zip(tmp_path / "wiki-pages.zip", files)
    with zipfile.ZipFile(dump) as archive:
        info = archive.getinfo("wiki-pages/wiki-001.jsonl")
    flipped(dump, info.header_offset + info.compress_size // 2 + 60)
    with pytest.raises(SourceFileError, match=r"wiki-pages\.zip: .*wiki-001\.jsonl: damag"):
        build_pages(SETS["fever"], dump, tmp_path / "f.db")
    assert [] == rows_in(tmp_path / "f.db.partial")


def test_a_damaged_tar_is_named(tmp_path: Path):
    """A broken member of a whole archive, and one cut between two: no page is just missing."""
    dump = tmp_path / "abstracts.tar"
    good, bad = (bytearray(bz2.compress(hotpot_line("A", ["B."]).encode())) for _ in range(2))
    bad[len(bad) // 2] ^= 0xFF
    with tarfile.open(dump, "w") as archive:
        for name, data in (("r/AA/wiki_00.bz2", good), ("r/AA/wiki_01.bz2", bad)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(bytes(data)))
    with pytest.raises(SourceFileError, match=r"abstracts\.tar: r/AA/wiki_01\.bz2: damaged"):
        build_pages(SETS["hover"], dump, tmp_path / "h.db")
    cut = hotpot_tar(tmp_path / TAR, LAKES)
    plain = bz2.decompress(cut.read_bytes())
    at = plain.index(b"AA/wiki_01.bz2") - len(f"{TAR.removesuffix('.tar.bz2')}/")
    cut.write_bytes(bz2.compress(plain[:at]))
    with pytest.raises(SourceFileError, match="damaged"):
        build_pages(SETS["hover"], cut, tmp_path / "c.db")


def test_files_that_are_no_dump_of_these_pages_are_refused(tmp_path: Path):
    """A text file, a cut zip, an archive without pages, the dump of another corpus."""
    fever, target = fever_zip(tmp_path / "wiki-pages.zip"), tmp_path / "x.db"
    cut = tmp_path / "cut.zip"
    cut.write_bytes(fever.read_bytes()[:-40])
    database = tmp_path / "wiki.db"
    database.write_bytes(b"SQLite format 3\0" * 100)
    empty = jsonl_zip(tmp_path / "empty.zip", {"other/notes.jsonl": [{}]})
    cases = [
        (cut, r"cut\.zip"),
        (database, "database"),
        (empty, r"feverous-wiki-pages\.zip"),
        (fever, r"wiki-001\.jsonl: 2 of 2 lines .*feverous: line 1: .*'title'"),
    ]
    for dump, message in cases:
        with pytest.raises(SourceFileError, match=message):
            build_pages(SETS["feverous"], dump, target)
        Path(f"{target}.partial").unlink(missing_ok=True)
    assert not target.exists()


def test_single_unreadable_lines_are_counted(tmp_path: Path):
    """One bad line of many is left out and reported; so is one without text."""
    good = "".join(hotpot_line(f"P{n}", ["T."]) + "\n" for n in range(60))
    (tmp_path / "wiki_00").write_text(f'{good}{{"title": "X"}}\nno JSON\n\n', "utf-8")
    built = build_pages(SETS["hover"], tmp_path, tmp_path / "h.db")
    assert (60, 2) == (built.pages, built.unreadable)


def test_what_is_there_is_replaced_only_on_request(tmp_path: Path):
    """An existing database is kept, also by a build that fails."""
    dump, target = fever_zip(tmp_path / "wiki-pages.zip"), tmp_path / "f.db"
    target.write_text("mine")
    with pytest.raises(ConfigError, match="--replace"):
        build_pages(SETS["fever"], dump, target)
    flipped(dump, 100)
    with pytest.raises(SourceFileError):
        build_pages(SETS["fever"], dump, target, settings=BuildSettings(replace=True))
    assert "mine" == target.read_text()


def test_one_process_builds_at_a_time(tmp_path: Path):
    """A second one is refused while the first holds the lock."""
    dump, target = fever_zip(tmp_path / "wiki-pages.zip"), tmp_path / "f.db"
    with file_lock(lock_path(tmp_path, "f.db"), "it"):
        second = child("fever", dump, target, 0)
    assert 2 == second.returncode
    assert f"DecomposeRLError: {target} " in second.stdout


def large_zip(path: Path, megabytes: int, line: bytes = b"") -> Path:
    """One member of this size: pages of 1 MB, or ``line`` in the place of the first."""
    page = json.dumps({"id": "N", "text": "t" * 1_000_000, "lines": "0\tt"}).encode()
    name = "wiki-pages/wiki-001.jsonl"
    archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open(name, "w", force_zip64=True) as file:
        file.write(line)
        for number in range(megabytes):
            file.write(page.replace(b'"N"', b'"N%d"' % number) + b"\n")
    return path


def test_memory_does_not_grow_with_a_member(tmp_path: Path):
    """190 MB in one member, one line of 90 MB: 120 MB of address space are enough."""
    endless = b'{"id": "' + b"a" * 90_000_000 + b"\n"
    dump = large_zip(tmp_path / "wiki-pages.zip", 100, endless)
    built = child("fever", dump, tmp_path / "f.db", 60, f"memory:{120_000_000}")
    assert (0, "100 0 0\n") == (built.returncode, built.stdout), built.stderr
    rows = [(f"N{number}", 1_000_000) for number in (0, 99)]
    with sqlite3.connect(tmp_path / "f.db") as opened:
        query = "SELECT id, length(text) FROM documents WHERE id IN ('N0', 'N99') ORDER BY rowid"
        assert rows == opened.execute(query).fetchall()
    opened.close()


def test_a_full_disk_says_how_much_is_needed_and_the_build_continues(tmp_path: Path):
    """The estimate follows from the share of the dump that was read."""
    files = {
        f"wiki-pages/wiki-{number:03}.jsonl": [
            {**FEVER_PAGES[1], "id": f"P{number}-{n}", "text": f"{number}{n}" * 40}
            for n in range(400)
        ]
        for number in range(12)
    }
    dump = jsonl_zip(tmp_path / "wiki-pages.zip", files)
    full = child("fever", dump, tmp_path / "f.db", 0, "file:500000")
    assert (2, "") == (full.returncode, full.stderr)
    assert "SourceError: " in full.stdout
    found = full.stdout.partition("needs about ")[2].split()
    straight = build_pages(SETS["fever"], dump, tmp_path / "straight.db")
    assert 0.7 < float(found[0]) * 1e6 / straight.size < 1.4, full.stdout
    done = build_pages(SETS["fever"], dump, tmp_path / "f.db")
    assert done.continued > 0
    assert rows_in(straight.target) == rows_in(done.target)


def packed(path: Path, database: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(database, "feverous_wikiv1.db")
    return path


def test_a_packed_database_is_unpacked_and_checked(tmp_path: Path):
    """FEVEROUS' other archive; bytes that a killed process wrote are kept and compared."""
    pages = SETS["feverous"]
    built = build_pages(pages, made_dump("feverous", tmp_path), tmp_path / "from_lines.db")
    dump = packed(tmp_path / "feverous-wiki-pages-db.zip", built.target)
    target = tmp_path / "db.db"
    target.with_name("db.db.partial").write_bytes(built.target.read_bytes()[:9000])
    assert 2 == build_pages(pages, dump, target).pages
    assert built.target.read_bytes() == target.read_bytes()
    Path(f"{tmp_path / 'other.db'}.partial").write_bytes(b"something else")
    with pytest.raises(ConfigError, match=r"other\.db"):
        build_pages(pages, dump, tmp_path / "other.db")
    with pytest.raises(ConfigError, match=r"feverous-wiki-pages\.zip"):
        build_pages(pages, dump, tmp_path / "part.db", {"Tide": "Tide"})
    wrong = build_pages(SETS["fever"], fever_zip(tmp_path / "wiki-pages.zip"), tmp_path / "f.db")
    with pytest.raises(SourceFileError, match=r"feverous .*fever"):
        build_pages(pages, packed(tmp_path / "wrong.zip", wrong.target), tmp_path / "w.db")


def test_a_packed_database_that_does_not_fit_continues(tmp_path: Path):
    """The message says what is needed; what was written is kept."""
    pages = [
        {"title": f"P{n}", "order": ["sentence_0"], "sentence_0": os.urandom(500).hex()}
        for n in range(3000)
    ]
    lines = jsonl_zip(tmp_path / "lines.zip", {"FeverousWikiv1/wiki_000.jsonl": pages})
    built = build_pages(SETS["feverous"], lines, tmp_path / "from_lines.db")
    dump = packed(tmp_path / "feverous-wiki-pages-db.zip", built.target)
    full = child("feverous", dump, tmp_path / "db.db", 0, "file:2500000")
    assert 2 == full.returncode
    assert "SourceError: " in full.stdout
    assert 2_000_000 < (tmp_path / "db.db.partial").stat().st_size <= 2_500_000
    assert 3000 == build_pages(SETS["feverous"], dump, tmp_path / "db.db").pages
    assert built.target.read_bytes() == (tmp_path / "db.db").read_bytes()


def test_a_damaged_database_is_not_published(tmp_path: Path):
    """The integrity check comes before the rename."""
    dump = made_dump("feverous", tmp_path)
    built = build_pages(SETS["feverous"], dump, tmp_path / "a.db")
    partial = built.target.rename(tmp_path / "b.db.partial")
    with sqlite3.connect(partial) as opened:
        opened.execute("DELETE FROM wiki WHERE id = 'Tide'")
    opened.close()
    with pytest.raises(SourceFileError, match=r"b\.db\.partial .*1 rows .*2"):
        build_pages(SETS["feverous"], dump, tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_unpacked_files_are_read_like_the_archive(tmp_path: Path):
    """A folder of the archive's files gives the same rows; each may be unpacked as well."""
    dump = hotpot_tar(tmp_path / TAR, MANY)
    straight = build_pages(SETS["hover"], dump, tmp_path / "a.db")
    with tarfile.open(dump) as archive:
        archive.extractall(tmp_path / "folder", filter="data")
    first = next((tmp_path / "folder").rglob("wiki_03.bz2"))
    first.with_suffix("").write_bytes(bz2.decompress(first.read_bytes()))
    first.unlink()
    built = build_pages(SETS["hover"], tmp_path / "folder", tmp_path / "b.db")
    assert rows_in(straight.target) == rows_in(built.target)


@pytest.fixture
def bars() -> Iterator[dict[str, Bar]]:
    """Every bar that was open, by its name."""
    seen: dict[str, Bar] = {}
    with watched(lambda shown: seen.update((one.what, one) for one in shown)):
        yield seen


def test_progress_is_in_megabytes_of_the_dump(tmp_path: Path, bars: dict[str, Bar]):
    """The bar ends at the dump's size, so that rate and time left are those of the dump."""
    files = {
        f"wiki-pages/wiki-00{member}.jsonl": [
            {"id": f"{member}-{n}", "text": os.urandom(2_000).hex(), "lines": ""}
            for n in range(900)
        ]
        for member in range(3)
    }
    dump = jsonl_zip(tmp_path / "wiki-pages.zip", files)
    build_pages(SETS["fever"], dump, tmp_path / "f.db")
    bar = bars["fever pages"]
    assert ("MB", dump.stat().st_size // 1_000_000) == (bar.unit, bar.total)
    assert 5 <= bar.total - 1 <= bar.done <= bar.total


# Reading


def cell(name: str, value: str) -> dict[str, object]:
    return {"id": name, "value": value, "is_header": name.startswith("header")}


HEADERS = [cell("header_cell_0_0_0", "Lake"), cell("header_cell_0_0_1", "Depth")]
CELLS = [cell("cell_0_1_0", "[[Blue_Lake|Blue]]"), cell("cell_0_1_1", "40 m")]
FEVEROUS_PAGE = {
    "title": "Blue Lake",
    "order": ["sentence_0", "section_0", "sentence_1", "table_0", "list_0"],
    "sentence_0": "Blue Lake lies in [[Upper_Valley|Upper Valley]].",
    "sentence_1": "It is deep.",
    "section_0": {"value": "Geography", "level": 2},
    "table_0": {"type": "table", "caption": "Depth of [[Lake|lakes]]", "table": [HEADERS, CELLS]},
    "list_0": {"type": "unordered_list", "list": [{"id": "item_0_0", "value": "a fish"}]},
}


def database(path: Path, table: str, rows: Iterable[tuple[object, ...]]) -> Path:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {table}")
    name = table.partition("(")[0]
    for row in rows:
        marks = ",".join("?" * len(row))
        connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)  # noqa: S608
    connection.commit()
    connection.close()
    return path


def test_fever_pages_keep_sentence_numbers(tmp_path: Path):
    """Empty native sentences keep their place, links are left out, strays are ignored."""
    lines = "0\tFirst one.\tlink\tlink\n1\t\n2\tThird.\nstray text\n99999999\tjunk"
    pages = SqlitePages(
        database(
            tmp_path / "fever.db",
            "documents(id PRIMARY KEY, text, lines)",
            [("Blue_-LRB-lake-RRB-", "First one. Third.", lines), ("Empty", "", "")],
        )
    )
    assert ("First one.", "", "Third.") == pages.sentences("Blue_-LRB-lake-RRB-")
    assert ("First one.", "", "Third.") == pages.sentences("Blue (lake)")
    assert () == pages.sentences("Empty")
    assert pages.sentences("Absent") is None
    assert "Third." == pages.element("Blue (lake)", "sentence_2")
    assert pages.element("Blue (lake)", "sentence_9") is None


def test_text_pages_give_their_lines(tmp_path: Path):
    """HoVer and Ex-FEVER databases: titles with spaces, decomposed accents, bad bytes."""
    rows = [("Cafe\u0301 Noir (song)", "One paragraph.\nAnother."), ("Bad", b"caf\xe9")]
    pages = SqlitePages(database(tmp_path / "wiki.db", "documents(id PRIMARY KEY, text)", rows))
    assert "text" == pages.layout
    assert ("One paragraph.", "Another.") == pages.sentences("Caf\u00e9 Noir (song)")
    assert ("One paragraph.", "Another.") == pages.sentences("Caf\u00e9_Noir_-LRB-song-RRB-")


def test_feverous_elements_are_found_by_id(tmp_path: Path):
    """Every kind of element has its text, with links reduced to their anchors."""
    rows = [("Blue Lake", json.dumps(FEVEROUS_PAGE)), ("Broken", "{")]
    pages = SqlitePages(database(tmp_path / "wiki.db", "wiki(id PRIMARY KEY, data)", rows))
    expected = {
        "title": "Blue Lake",
        "sentence_0": "Blue Lake lies in Upper Valley.",
        "section_0": "Geography",
        "header_cell_0_0_1": "Depth",
        "cell_0_1_0": "Blue",
        "table_caption_0": "Depth of lakes",
        "table_0": "Lake | Depth\nBlue | 40 m",
        "item_0_0": "a fish",
        "list_0": "a fish",
        "cell_0_9_9": None,
        "table_caption_7": None,
        "sentence_9": None,
        "odd": None,
    }
    assert expected == {key: pages.element("Blue Lake", key) for key in expected}
    assert ("Blue Lake lies in Upper Valley.", "It is deep.") == pages.sentences("Blue Lake")
    with pytest.raises(DamagedPage, match="not JSON"):
        pages.element("Broken", "sentence_0")
    assert pages.element("Absent", "title") is None


def test_the_corpora_folder_opens_pages_read_only(tmp_path: Path):
    """An absent database is None; an open one cannot be written; other files are refused."""
    corpora = FolderCorpora(tmp_path)
    assert corpora.pages("wiki.db") is None
    database(tmp_path / "wiki.db", "documents(id PRIMARY KEY, text)", [("A", "a")])
    pages = corpora.pages("wiki.db")
    assert pages is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        pages._connection.execute("DELETE FROM documents")
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough" * 40)
    with pytest.raises(SourceFileError, match=r"text\.db"):
        SqlitePages(tmp_path / "text.db")
    with pytest.raises(SourceFileError, match="no table"):
        SqlitePages(database(tmp_path / "other.db", "things(id, value)", []))


@pytest.mark.parametrize("table", ["documents(id PRIMARY KEY, text)", "wiki(id PRIMARY KEY, data)"])
def test_large_pages_are_not_kept_without_end(tmp_path: Path, table: str):
    """28 pages of 2 MB: what is kept stays within its characters, and every page is read."""
    body = "a" * 2_000_000
    text = json.dumps({"sentence_0": body}) if table.startswith("wiki") else body
    pages = SqlitePages(database(tmp_path / "p.db", table, ((str(n), text) for n in range(28))))
    tracemalloc.start()
    for number in range(28):
        assert (body,) == pages.sentences(str(number))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2.2 * CACHED_CHARACTERS
    assert (body,) == pages.sentences("0")
