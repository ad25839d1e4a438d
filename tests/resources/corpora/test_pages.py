"""Wikipedia databases in their three published layouts."""

import json
import sqlite3
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from decomposerl.claims.source import DamagedPage
from decomposerl.errors import SourceFileError
from resources.corpora.folder import FolderCorpora
from resources.corpora.pages import CACHED_CHARACTERS, SqlitePages, spellings

FEVEROUS_PAGE = {
    "title": "Blue Lake",
    "order": ["sentence_0", "section_0", "sentence_1", "table_0", "list_0"],
    "sentence_0": "Blue Lake lies in [[Upper_Valley|Upper Valley]].",
    "sentence_1": "It is deep.",
    "section_0": {"value": "Geography", "level": 2},
    "table_0": {
        "type": "table",
        "caption": "Depth of [[Lake|lakes]]",
        "table": [
            [
                {"id": "header_cell_0_0_0", "value": "Lake", "is_header": True},
                {"id": "header_cell_0_0_1", "value": "Depth", "is_header": True},
            ],
            [
                {"id": "cell_0_1_0", "value": "[[Blue_Lake|Blue]]", "is_header": False},
                {"id": "cell_0_1_1", "value": "40 m", "is_header": False},
            ],
        ],
    },
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
    """An absent database is None; an open one cannot be written."""
    corpora = FolderCorpora(tmp_path)
    assert corpora.pages("wiki.db") is None
    database(tmp_path / "wiki.db", "documents(id PRIMARY KEY, text)", [("A", "a")])
    pages = corpora.pages("wiki.db")
    assert pages is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        pages._connection.execute("DELETE FROM documents")


def test_other_files_are_refused_by_name(tmp_path: Path):
    """A file that is no database and a database of another layout are source file errors."""
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough" * 40)
    with pytest.raises(SourceFileError, match=r"text\.db"):
        SqlitePages(tmp_path / "text.db")
    with pytest.raises(SourceFileError, match="no table"):
        SqlitePages(database(tmp_path / "other.db", "things(id, value)", []))


def test_spellings_begin_with_the_title_itself():
    """The literal title is tried first and no spelling twice."""
    found = list(spellings("A_(b)"))
    assert "A_(b)" == found[0]
    assert {"A (b)", "A_-LRB-b-RRB-", "A -LRB-b-RRB-"} <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("table", ["documents(id PRIMARY KEY, text)", "wiki(id PRIMARY KEY, data)"])
def test_large_pages_are_not_kept_without_end(tmp_path: Path, table: str):
    """24 pages of 2 MB: what is kept stays within its characters, and every page is read."""
    body = "a" * 2_000_000
    text = json.dumps({"sentence_0": body}) if table.startswith("wiki") else body
    pages = SqlitePages(database(tmp_path / "p.db", table, ((str(n), text) for n in range(24))))
    tracemalloc.start()
    for number in range(24):
        assert (body,) == pages.sentences(str(number))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2.2 * CACHED_CHARACTERS
    assert (body,) == pages.sentences("0")
