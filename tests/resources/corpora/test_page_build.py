"""Page databases from made dumps of the published layouts, and how they are read."""

import bz2
import json
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.claim import Draft
from decomposerl.claims.source import DamagedPage
from decomposerl.errors import ConfigError, SourceFileError
from made_dumps import (
    DUMPS,
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
from project import PYTHONPATH
from resources.corpora.folder import FolderCorpora
from resources.corpora.page_build import (
    PAGE_SETS,
    PageSet,
    build_pages,
    named_pages,
    title_key,
)
from resources.corpora.pages import CACHED_PAGES, SqlitePages
from resources.store.run_lock import file_lock, lock_path

MANY = {
    f"A{folder}/wiki_{file:02}.bz2": [
        (f"Page {folder}-{file}-{n}" if n else "Repeated", [f"Text {folder}.", f" Number {n}."])
        for n in range(20)
    ]
    for folder in "AB"
    for file in range(15)
}


# Builds in a process that is killed at a row, or whose memory or files are limited.
CHILD = """
import os, resource, signal, sys
from dataclasses import replace
from pathlib import Path
from decomposerl.errors import DecomposeRLError
from resources.corpora.page_build import PAGE_SETS, build_pages
name, dump, target, kind, size = sys.argv[1:]
pages, size, made = PAGE_SETS[name], int(size), 0
def row(page):
    global made
    made += 1
    if kind == "kill" and made == size:
        os.kill(os.getpid(), signal.SIGKILL)
    return pages.row(page)
if kind == "memory":  # beyond what the imports took
    size += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
if kind == "file":
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    built = build_pages(replace(pages, row=row), Path(dump), Path(target))
except DecomposeRLError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(built.pages, built.repeated)
"""


def child(
    name: str, dump: Path, target: Path, kind: str = "", size: int = 0
) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-c", CHILD, *map(str, (name, dump, target, kind, size))]
    env = {"PYTHONPATH": PYTHONPATH}
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False)


def evidence(pages: PageSet, corpora: Path) -> list[tuple[str, ...]]:
    """The passages of every claim that the corpus's adapter reads."""
    files = FolderCorpora(corpora)
    every = [one for one in (*SOURCES, *BENCHMARKS) if one.name == pages.name]
    read = [draft for one in every for file in one.files for draft in one.read(files, file)]
    assert all(isinstance(draft, Draft) for draft in read)
    return [draft.passages for draft in read if isinstance(draft, Draft)]


@pytest.mark.parametrize("pages", PAGE_SETS.values(), ids=PAGE_SETS)
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
    needed = named_pages(corpora, tmp_path)
    part = build_pages(pages, dump, tmp_path / pages.target, needed, replace=True)
    assert passages == evidence(pages, tmp_path)
    assert part.pages == len(needed) < whole.pages
    assert () == part.missing
    assert set(needed) == {title_key(str(row[1])) for row in rows_in(part.target)}


def test_the_database_has_the_layout_and_the_ids_of_the_published_one(tmp_path: Path):
    """HoVer: two columns, ids decomposed, entities as in the dump, sentences joined as they are."""
    built = build_pages(PAGE_SETS["hover"], made_dump("hover", tmp_path), tmp_path / "hover.db")
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
    built = build_pages(
        PAGE_SETS["ex_fever"], made_dump("ex_fever", tmp_path), tmp_path / "pages.db"
    )
    pages = SqlitePages(built.target)
    assert pages.sentences("Sugar_&_Spice") == pages.sentences("Sugar &amp; Spice") is not None


@pytest.mark.parametrize("at", [1, 421, 599])
def test_a_killed_build_begins_again_and_gives_the_same_rows(tmp_path: Path, at: int):
    """Killed at some line: the target is not there, and nothing of the first try stays."""
    dump, target = hotpot_tar(tmp_path / TAR, MANY), tmp_path / "killed.db"
    straight = build_pages(PAGE_SETS["hover"], dump, tmp_path / "straight.db")
    assert -signal.SIGKILL == child("hover", dump, target, "kill", at).returncode
    assert not target.exists()
    done = build_pages(PAGE_SETS["hover"], dump, target)
    assert rows_in(straight.target) == rows_in(target)
    assert (571, 29) == (done.pages, done.repeated) == (straight.pages, straight.repeated)
    assert not list(tmp_path.glob(".*.partial*"))


def flipped(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path, kept: int) -> Path:
    path.write_bytes(path.read_bytes()[:kept])
    return path


def damaged_zip(folder: Path) -> Path:
    """FEVER's archive with a wrong byte in its first member."""
    pages = [{**FEVER_PAGES[1], "id": f"Page_{n}"} for n in range(300)]
    files = {"wiki-pages/wiki-001.jsonl": pages, "wiki-pages/wiki-002.jsonl": pages[:9]}
    dump = jsonl_zip(folder / "wiki-pages.zip", files)
    flipped(dump, dump.stat().st_size // 3)
    return dump


def tar_cut_between_members(folder: Path) -> Path:
    dump = hotpot_tar(folder / TAR, LAKES)
    plain = bz2.decompress(dump.read_bytes())
    at = plain.index(b"AA/wiki_01.bz2") - len(f"{TAR.removesuffix('.tar.bz2')}/")
    dump.write_bytes(bz2.compress(plain[:at]))
    return dump


REFUSED: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "zip member": ("fever", damaged_zip, r"wiki-pages\.zip: .*wiki-001\.jsonl: damag"),
    "between": ("hover", tar_cut_between_members, "damaged"),
    "cut zip": ("fever", lambda to: cut(fever_zip(to / "cut.zip"), 300), r"cut\.zip"),
    "no pages": (
        "feverous",
        lambda to: jsonl_zip(to / "empty.zip", {"other/notes.jsonl": [{}]}),
        r"feverous-wiki-pages\.zip",
    ),
    "other corpus": (
        "feverous",
        lambda to: fever_zip(to / "wiki-pages.zip"),
        r"wiki-001\.jsonl: 2 of 2 lines .*feverous: line 1: title: ",
    ),
}


@pytest.mark.parametrize(("name", "make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_whole_dump_of_these_pages_is_refused(
    tmp_path: Path, name: str, make: Callable[[Path], Path], said: str
):
    """The archive and its member are named; no page is just missing; what was there stays."""
    dump, target = make(tmp_path), tmp_path / "x.db"
    target.write_text("mine")
    with pytest.raises(ConfigError, match="--replace"):
        build_pages(PAGE_SETS[name], dump, target)
    with pytest.raises(SourceFileError, match=said):
        build_pages(PAGE_SETS[name], dump, target, replace=True)
    assert "mine" == target.read_text()
    assert not list(tmp_path.glob(".*.partial*"))


def test_single_unreadable_lines_are_counted(tmp_path: Path):
    """One bad line of many is left out and reported; so is one without text."""
    good = "".join(hotpot_line(f"P{n}", ["T."]) + "\n" for n in range(60))
    (tmp_path / "wiki_00").write_text(f'{good}{{"title": "X"}}\nno JSON\n\n', "utf-8")
    built = build_pages(PAGE_SETS["hover"], tmp_path, tmp_path / "h.db")
    assert (60, 2) == (built.pages, built.unreadable)


def test_one_process_builds_at_a_time(tmp_path: Path):
    """A second one is refused while the first holds the lock."""
    dump, target = fever_zip(tmp_path / "wiki-pages.zip"), tmp_path / "f.db"
    with file_lock(lock_path(tmp_path, "f.db"), "it"):
        second = child("fever", dump, target)
    assert f"DecomposeRLError: {target} " in second.stderr


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
    built = child("fever", dump, tmp_path / "f.db", "memory", 120_000_000)
    assert (0, "100 0\n") == (built.returncode, built.stdout), built.stderr
    rows = [(f"N{number}", 1_000_000) for number in (0, 99)]
    with sqlite3.connect(tmp_path / "f.db") as opened:
        query = "SELECT id, length(text) FROM documents WHERE id IN ('N0', 'N99') ORDER BY rowid"
        assert rows == opened.execute(query).fetchall()
    opened.close()


def test_a_full_disk_is_said_and_nothing_stays(tmp_path: Path):
    """With the file that was written; the command adds what to do."""
    files = {
        f"wiki-pages/wiki-{number:03}.jsonl": [
            {**FEVER_PAGES[1], "id": f"P{number}-{n}", "text": f"{number}{n}" * 40}
            for n in range(400)
        ]
        for number in range(12)
    }
    dump = jsonl_zip(tmp_path / "wiki-pages.zip", files)
    full = child("fever", dump, tmp_path / "f.db", "file", 500_000)
    assert f"No space left on device: '{tmp_path / 'f.db'}'" in full.stderr
    assert not list(tmp_path.glob("*f.db*"))


def test_unpacked_files_are_read_like_the_archive(tmp_path: Path):
    """A folder of the archive's files gives the same rows; each may be unpacked as well."""
    dump = hotpot_tar(tmp_path / TAR, MANY)
    straight = build_pages(PAGE_SETS["hover"], dump, tmp_path / "a.db")
    with tarfile.open(dump) as archive:
        archive.extractall(tmp_path / "folder", filter="data")
    first = next((tmp_path / "folder").rglob("wiki_03.bz2"))
    first.with_suffix("").write_bytes(bz2.decompress(first.read_bytes()))
    first.unlink()
    built = build_pages(PAGE_SETS["hover"], tmp_path / "folder", tmp_path / "b.db")
    assert rows_in(straight.target) == rows_in(built.target)


# Reading


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
    assert pages.element("Blue (lake)", "sentence_2") is None, "FEVEROUS alone has elements"


def test_text_pages_give_their_lines(tmp_path: Path):
    """HoVer and Ex-FEVER databases: titles with spaces, decomposed accents, bad bytes."""
    rows = [("Cafe\u0301 Noir (song)", "One paragraph.\nAnother."), ("Bad", b"caf\xe9")]
    pages = SqlitePages(database(tmp_path / "wiki.db", "documents(id PRIMARY KEY, text)", rows))
    assert "text" == pages.layout
    assert ("One paragraph.", "Another.") == pages.sentences("Caf\u00e9 Noir (song)")
    assert ("One paragraph.", "Another.") == pages.sentences("Caf\u00e9_Noir_-LRB-song-RRB-")


def test_feverous_elements_are_found_by_id(tmp_path: Path):
    """Every kind of element has its text, with links reduced to their anchors."""
    rows = [("Blue Lake", json.dumps(DUMPS["feverous_page"])), ("Broken", "{")]
    pages = SqlitePages(database(tmp_path / "wiki.db", "wiki(id PRIMARY KEY, data)", rows))
    expected = {
        "sentence_0": "Blue Lake lies in Upper Valley.",
        "section_0": "Geography",
        "header_cell_0_0_1": "Depth",
        "cell_0_1_0": "Blue",
        "table_caption_0": "Depth of lakes",
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
    assert pages.element("Absent", "sentence_0") is None


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
    """28 pages of 2 MB: the texts and objects of a few are kept, and every page is read."""
    body = "a" * 2_000_000
    text = json.dumps({"sentence_0": body}) if table.startswith("wiki") else body
    pages = SqlitePages(database(tmp_path / "p.db", table, ((str(n), text) for n in range(28))))
    tracemalloc.start()
    for number in range(28):
        assert (body,) == pages.sentences(str(number))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2.2 * CACHED_PAGES * len(body)
    assert (body,) == pages.sentences("0")
