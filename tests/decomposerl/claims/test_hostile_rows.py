"""A hostile value in any field of any corpus costs its row at most: nothing raises or is lost."""

import json
import sqlite3
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora_parts import assert_conserved, own_toml, rejected
from decomposerl.claims.generic import parse_corpus_toml
from decomposerl.claims.load import (
    MAX_BYTES,
    MAX_ITEMS,
    LoadedClaims,
    LoadSettings,
    load_benchmark,
    load_source,
)
from decomposerl.claims.passages import sentence_passages, without_links
from decomposerl.claims.source import DamagedPage, Source
from fakes import MemoryCorpora
from native_rows import MEMBERS, SOUND, SOURCE, Member, named, only, read
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.corpora.pages import MAX_PAGE_BYTES, SqlitePages
from strategies import EACH_LAW

LENIENT = LoadSettings(max_reject_share=1, allow_training_off=True)
PAGE = (ROOT / "docs/how-to/add-a-corpus.md").read_text("utf-8")
OWN = own_toml(
    '["text", "table.rows"]',
    'id = "id"\ndocument = "page"\nsubset = "part"\nnum_hops = "hops"',
)
OWN_ROW: dict[str, object] = {
    "claim": "C.", "text": "One.", "table": {"rows": [["a", 1]]}, "label": "yes",
    "id": 1, "page": "P", "part": "x", "hops": 2,
}  # fmt: skip


def nested(depth: int, *, keyed: bool = False) -> object:
    """Lists in lists, or objects in objects."""
    value: object = 1
    for _ in range(depth):
        value = {"a": value} if keyed else [value]
    return value


every_member = pytest.mark.parametrize("member", MEMBERS, ids=named)
HOSTILE: dict[str, object] = {
    "null": None,
    "true": True,
    "zero": -0.0,
    "infinite": float("inf"),
    "no number": float("nan"),
    "5,000 digits": 10**5_000,
    "5,000 digits as text": "9" * 5_000,
    "beyond 64 bits": 2**63,
    "negative": -(10**30),
    "empty text": "",
    "blank": " \t\n",
    "lone surrogate": "a\ud800b",
    "NUL": "a\0b",
    "control and bidi": "a\x1b]52;c;AA\x07\u202eb",
    "1e400 as text": "1e400",
    "one long word": "x" * 110_000,
    "long blanks": "a" + " " * 90_000 + "b",
    "open links": "[[a|" * 20_000,
    "brackets": "[" * 90_000,
    "quotes": "'\\" * 40_000,
    "minus signs": "-" * 100_000 + "1",
    "a printed dict": "{[]: 1}",
    "no items": [],
    "object": {},
    "other keys": {"": {"": None}},
    "deep lists": nested(900),
    "deep objects": nested(900, keyed=True),
    "deeper than the stack": nested(100_000),
    "many passages": ["p"] * 60_000,
    "mixed items": [None, 1, "x", {}, [[]], True, "\udfff"],
    "bytes": b"\xff",
}
SYMMETRIC = {"id": 1, "sentence1": "One.", "sentence2": "C.", "gold_label": "SUPPORTS"}
NATIVE = {"id": 1, "claim": "C.", "label": "SUPPORTS", "evidence": [[[1, 2, "P", 0]]]}
ROWS: dict[str, list[Mapping[str, object]]] = {name: [row] for name, (_, row) in SOUND.items()}
ROWS["feverous"].append({**NATIVE, "evidence": [{"content": ["P_sentence_0"]}]})
ROWS["fever"] = [NATIVE, SYMMETRIC]
ROWS["coverbench"] = [{"claim": "C.", "context": "One. Two.", "label": True}]


def with_value(row: Mapping[str, object], path: tuple[str | int, ...], value: object) -> Any:  # noqa: ANN401 - any JSON
    """The row with another value at a path."""
    if not path:
        return value
    head, *rest = path
    inner = row[head]  # type: ignore[index]
    changed = with_value(inner, tuple(rest), value)  # type: ignore[arg-type]
    if isinstance(row, list):
        return [*row[: int(head)], changed, *row[int(head) + 1 :]]
    return {**row, head: changed}


def paths(value: object) -> list[tuple[str | int, ...]]:
    """Every place in a row, the row itself left out."""
    inner: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [(k, *rest) for k, each in inner for rest in [(), *paths(each)]]


def loaded(member: Member, rows: list[Mapping[str, object]]) -> LoadedClaims:
    """What loading gives where every file of the member holds the rows."""
    files = MemoryCorpora({file.path: rows for file in member.native_files})
    load = load_source if isinstance(member, Source) else load_benchmark
    return load(member, None, files, LENIENT)  # type: ignore[arg-type]


@every_member
def test_a_hostile_value_costs_its_row_alone(member: Member):
    """In every place of a sound row, with a sound neighbour that must survive."""
    for row in ROWS[member.name]:
        for path, kind in product(paths(row), HOSTILE):
            found = loaded(member, [row, with_value(row, path, HOSTILE[kind])])
            assert_conserved(found)
            assert found.claims.height + found.drops.height >= 1, (path, kind)


def test_a_users_corpus_survives_hostile_values():
    """The reader of a TOML file keeps the same law, and the neighbour is a claim."""
    source = parse_corpus_toml(OWN, "x.toml")[0]
    for path, kind in product(paths(OWN_ROW), HOSTILE):
        bad = with_value(OWN_ROW, path, HOSTILE[kind])
        found = loaded(source, [bad, {**OWN_ROW, "id": "sound"}])
        assert_conserved(found)
        assert "sound" in found.claims["native_id"].to_list(), (path, kind)
        assert 2 == found.rows_read


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@EACH_LAW
@given(st.data())
@every_member
def test_any_json_in_any_place_is_conserved(member: Member, data: st.DataObject):
    """Drawn values, in one or two places at once."""
    row: Any = data.draw(st.sampled_from(ROWS[member.name]))
    bad = row
    for _ in range(data.draw(st.integers(1, 2))):
        bad = with_value(bad, data.draw(st.sampled_from(paths(bad))), data.draw(JSON))
    assert_conserved(loaded(member, [bad, row, bad]))


def test_every_member_of_the_catalogue_is_under_these_laws():
    """A new corpus needs one sound row here."""
    assert {one.name for one in MEMBERS} == set(ROWS)


def test_each_text_has_the_limit_that_the_page_states():
    """A text at its limit in UTF-8 is sound, one byte more is a reject; the page says both."""
    column = {"id": "id", "claim": "claim", "label": "label", "document": "page", "subset": "part"}
    for field, most in MAX_BYTES.items():
        long = "é" * (most // 2)
        source = parse_corpus_toml(OWN.replace('"no"', f'"no", "{long}"'), "x.toml")[0]
        sound = {**OWN_ROW, column[field]: long}
        found = loaded(source, [sound, {**OWN_ROW, "id": "2", column[field]: f"{long}x"}])
        assert [(2, field, "field_too_large")] == rejected(found)
        assert 1 == found.claims.height
    limits = MAX_BYTES | MAX_ITEMS | {"a page of a database": MAX_PAGE_BYTES}
    assert [] == [name for name, most in limits.items() if f"| {name} | {most:,} " not in PAGE]


def database(path: Path, table: str, *rows: tuple[object, ...]) -> SqlitePages:
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE TABLE {table}")
        name = table.partition("(")[0]
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)  # noqa: S608
    connection.close()
    return SqlitePages(path)


DAMAGED = ("[" * 100_000, "{", "[1]", 7, 1.5, '{"sentence_0": ' + "9" * 5_000 + "}")


def test_a_damaged_page_costs_the_row_that_asks_for_it(tmp_path: Path):
    """The claim of that page is a reject with the page's fault, its neighbour a claim."""
    pages = [("Good", json.dumps({"sentence_0": "One."}))]
    pages += [(f"Bad {place}", content) for place, content in enumerate(DAMAGED)]
    (tmp_path / "feverous").mkdir()
    path = tmp_path / "feverous/feverous_wikiv1.db"
    opened = database(path, "wiki(id PRIMARY KEY, data)", *pages)
    rows = []
    for number, (page, _) in enumerate(pages):
        evidence = [{"content": [f"{page}_sentence_0"]}]
        rows.append({**NATIVE, "id": number, "claim": f"C {number}.", "evidence": evidence})
        if number:
            with pytest.raises(DamagedPage, match=r"JSON|int|float"):
                opened.element(page, "sentence_0")
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "feverous/feverous_train_challenges.jsonl").write_text(lines)
    found = load_source(SOURCE["feverous"], None, FolderCorpora(tmp_path), LENIENT)
    bad = range(2, 2 + len(DAMAGED))
    assert [(row, "evidence", "damaged_page") for row in bad] == rejected(found)
    assert ["Good: One."] == found.claims["evidence"].to_list()


@pytest.mark.parametrize(
    "page",
    [
        {"table_0": {"table": 5}, "list_0": {"list": 5}, "section_0": 5, "sentence_0": 5},
        {"table_0": {"table": [5, [5]], "caption": []}, "list_0": {"list": [5]}},
        {"table_0": [], "list_0": "x", f"sentence_{'9' * 5_000}": "x", "sentence_²": "x"},
        {"sentence_0": "[[" * 200_000, "table_0": {"table": [[{"id": [], "value": "[[a|" * 9}]]}},
    ],
)
def test_wrong_shapes_inside_a_page_are_no_text(tmp_path: Path, page: dict[str, object]):
    """Numbers where lists belong, endless digits and open links neither raise nor hang."""
    pages = database(tmp_path / "a.db", "wiki(id PRIMARY KEY, data)", ("P", json.dumps(page)))
    for name in ("sentence_0", "section_0", "table_0", "table_caption_0", "cell_0_0_0",
                 "header_cell_0_0_0", "list_0", "item_0_0", f"sentence_{'9' * 5_000}"):  # fmt: skip
        assert isinstance(pages.element("P", name), str | None)
    assert isinstance(pages.sentences("P"), tuple)


@pytest.mark.parametrize("table", ["documents(id PRIMARY KEY, text)", "documents(id, lines)"])
def test_blobs_nulls_and_odd_titles_are_pages_like_others(tmp_path: Path, table: str):
    """Text as bytes is text, null is empty, a title that no database holds is absent."""
    rows = [("B", b"0\tcaf\xe9"), ("N", None), ("D", "9" * 5_000 + "\tx")]
    pages = database(tmp_path / "a.db", table, *rows)
    assert "caf\ufffd" in (pages.sentences("B") or ("",))[0]
    assert () == pages.sentences("N")
    assert pages.sentences("D") is not None
    assert pages.element("B", f"sentence_{'9' * 5_000}") is None
    for title in ("a\ud800", "a\0b", "x" * 100_000, ""):
        assert pages.sentences(title) is None


def test_texts_that_once_took_quadratic_time():
    """Blanks, links that never close and strings that never close, a million characters each."""
    assert ("a", "b") == sentence_passages("a" + " " * 1_000_000 + "\n b")
    assert ("a" + " " * 1_000_000 + "b",) == sentence_passages("a" + " " * 1_000_000 + "b")
    assert "[[a|" * 250_000 == without_links("[[a|" * 250_000)
    assert "x [[a|b" == without_links("[[P|x]] [[a|b")
    index, row = SOUND["scifact"]
    corpus = [{"doc_id": "31", "abstract": "['" + "\\'" * 500_000}]
    outcomes = read("scifact", [row], index, {"scifact/corpus_train.csv": corpus})
    assert "abstract" in {getattr(one, "field", "") for one in outcomes}
    assert only(read("scifact", [row], index)).claim == "C."
