"""Rows of native files: every good row survives beside every bad one."""

import gzip
import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from corpora_parts import load, rejected, rows
from decomposerl.claims import passages, records
from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.delimited import delimited_records
from decomposerl.claims.json_elements import CREDIT, CREDIT_PER_CHAR, array_records, object_records
from decomposerl.claims.json_siblings import Siblings, balanced_end
from decomposerl.claims.records import Cut, jsonl_records
from resources.corpora import folder as corpora
from strategies import law

PATH = "corpus/file"
Outcome = tuple[int, object]
MALFORMED = ":malformed_line"
UNREADABLE: list[Outcome] = [(0, ":unreadable_file")]


def outcomes_of(outcomes: Iterable[Record | Reject]) -> list[Outcome]:
    """Row and fields of a record, row and ``field:reason`` of a reject."""
    return [
        (o.row, dict(o.fields)) if isinstance(o, Record) else (o.row, f"{o.field}:{o.reason}")
        for o in outcomes
    ]


def jsonl(data: bytes) -> list[Outcome]:
    return outcomes_of(jsonl_records(PATH, data.split(b"\n")))


def csv(data: bytes) -> list[Outcome]:
    return outcomes_of(delimited_records(PATH, data.splitlines(keepends=True), ","))


def array(data: bytes) -> list[Outcome]:
    return outcomes_of(array_records(PATH, data))


def keyed(data: bytes) -> list[Outcome]:
    return outcomes_of(object_records(PATH, data))


LINES: dict[str, tuple[bytes, list[Outcome]]] = {
    "blank lines are no rows; not JSON, no object and broken UTF-8 are rejected by line": (
        b'{"a": 1}\n{"a": \n\n[1]\n{"a": "\xff"}\n{"a": 2}\r\n',
        [(1, {"a": 1}), (2, MALFORMED), (4, MALFORMED), (5, "a:broken_encoding"), (6, {"a": 2})],
    ),
    "a lone surrogate is rejected by field; a pair is fine": (
        b'{"a": "\\ud83d"}\n{"a": "\\ud83d\\ude00"}',
        [(1, "a:broken_encoding"), (2, {"a": "😀"})],
    ),
    "deep nesting and endless numbers are rejects, a byte order mark is skipped": (
        b'\xef\xbb\xbf{"a": 1}\n' + b"[" * 100_000 + b'\n{"a": ' + b"1" * 5000 + b"}",
        [(1, {"a": 1}), (2, MALFORMED), (3, MALFORMED)],
    ),
}
ARRAYS: dict[str, tuple[bytes, list[Outcome]]] = {
    "elements come in order": (
        b' [ {"a":1} ,\n{"a":{"b":[]}} ] ',
        [(1, {"a": 1}), (2, {"a": {"b": []}})],
    ),
    "nothing in it": (b"[]", []),
    "JSON lines, as some corpora are published": (
        b'{"a": 1}\nnonsense\n{"a": 2}\n',
        [(1, {"a": 1}), (2, MALFORMED), (3, {"a": 2})],
    ),
    "a broken first element": (b'[{"id": "}, {"id": 2}]', [(1, MALFORMED), (2, {"id": 2})]),
    "a broken last element: not cut": (
        b'[{"id": 1}, {"id": "}]',
        [(1, {"id": 1}), (2, MALFORMED)],
    ),
    "objects inside a broken element are no rows": (
        b'[{"id": 1, "e": [{"t": 1}, {"t": 2}], "x": oops}, {"id": 2, "e": []}]',
        [(1, MALFORMED), (2, {"id": 2, "e": []})],
    ),
    "a bad byte rejects its element and names the field": (
        b'[{"id": 1}, {"id": 2, "t": "\xc3("}, {"id": 3, "t": "\xc3\xa9"}]',
        [(1, {"id": 1}), (2, "t:broken_encoding"), (3, {"id": 3, "t": "é"})],
    ),
    "junk behind a closed array does not vanish": (
        b'[{"a": 1}]]]',
        [(1, {"a": 1}), (2, MALFORMED)],
    ),
    "empty": (b"", UNREADABLE),
    "a scalar": (b"12", UNREADABLE),
}
OBJECTS: dict[str, tuple[bytes, list[Outcome]]] = {
    "values gain their key; repeated keys stay visible": (
        b'{"k": {"a": 1}, "k": {"a": 2}}',
        [(1, {"a": 1, "_key": "k"}), (2, {"a": 2, "_key": "k"})],
    ),
    "reading goes on at the next key whose value opens like its siblings": (
        b'{"p": {"q": 1, "t": ["x"]}, "r": {"q": "a"b"}, "s": {"q": 2}}',
        [(1, {"q": 1, "t": ["x"], "_key": "p"}), (2, MALFORMED), (3, {"q": 2, "_key": "s"})],
    ),
    "a list where an object was promised": (b'[{"a": 1}]', UNREADABLE),
}
REST: list[Outcome] = [(3, {"a": "2", "b": 'say "x"'}), (4, {"a": "3", "b": "y"})]
TAIL = b'2,"say ""x"""\n3,y\n'
TABLES: dict[str, tuple[bytes, list[Outcome]]] = {
    "cells hold delimiters, quotes and line breaks; a row's number is its first line": (
        b'id,text\r\n1,"a, ""b""\nc"\r\n\r\n2,5" pipe\r\n3,\r\n',
        [
            (2, {"id": "1", "text": 'a, "b"\nc'}),
            (5, {"id": "2", "text": '5" pipe'}),
            (6, {"id": "3", "text": ""}),
        ],
    ),
    "too few and too many cells": (
        b"a,b\n1\n1,2,3\n1,2\n",
        [(2, MALFORMED), (3, MALFORMED), (4, {"a": "1", "b": "2"})],
    ),
    "lines inside a closed cell are no rows of their own": (
        b'a,b\n1,"x\ny\nz",3\n1,2\n',
        [(2, MALFORMED), (5, {"a": "1", "b": "2"})],
    ),
    "reading resumes on the line after an open quote": (
        b'a,b\n1,"open\n' + TAIL,
        [(2, MALFORMED), *REST],
    ),
    "an open quote at the end": (
        b"a,b\n" + TAIL + b'9,"open\n',
        [*((row - 1, fields) for row, fields in REST), (4, MALFORMED)],
    ),
    "an open quote and no other": (
        b'a,b\n1,"open\n2,x\n',
        [(2, MALFORMED), (3, {"a": "2", "b": "x"})],
    ),
    "broken UTF-8 names the column": (
        b"a,b\n1,\xff\n2,\xc3\xa9\n",
        [(2, "b:broken_encoding"), (3, {"a": "2", "b": "é"})],
    ),
    "a quoted line break in a name, and the unnamed columns of a spreadsheet": (
        b'"a\r\nb",c,,\r\n1,2,,\r\n',
        [(3, {"a\r\nb": "1", "c": "2", "": ""})],
    ),
    "empty": (b"", UNREADABLE),
    "blank": (b"\n\n", UNREADABLE),
    "a header that is no line": (b'"open\n', UNREADABLE),
    "a header that is no text": (b"\xff\xfe,b\n1,2\n", UNREADABLE),
}
READERS = {"lines": (jsonl, LINES), "array": (array, ARRAYS), "object": (keyed, OBJECTS),
           "table": (csv, TABLES)}  # fmt: skip


@pytest.mark.parametrize("kind", READERS)
def test_every_good_row_survives_beside_every_bad_one(kind: str):
    """Row by row what a file gives; row 0 means the file."""
    read, cases = READERS[kind]
    for name, (data, expected) in cases.items():
        assert expected == read(data), name


def test_a_cut_stream_gives_one_truncated_file():
    """Rows before the cut survive; a rest that is a whole object is a row, too."""
    half = outcomes_of(jsonl_records(PATH, [b'{"a": 1}\n', Cut(b'{"a": 2', "cut")]))
    whole = outcomes_of(jsonl_records(PATH, [b'{"a": 1}\n', Cut(b'{"a": 2}', "cut")]))
    assert [(1, {"a": 1}), (2, ":truncated_file")] == half
    assert [(1, {"a": 1}), (2, {"a": 2}), (3, ":truncated_file")] == whole
    trailer = outcomes_of(array_records(PATH, b'[{"a": 1}]', "cut"))
    assert [(1, {"a": 1}), (2, ":truncated_file")] == trailer, "a whole array"
    first = (2, {"a": "1", "b": "x"})
    for lines, rest in (([], b""), ([], b"2,y"), ([b'2,"open\n', b"still\n"], b"more")):
        stream = [b"a,b\n", b"1,x\n", *lines, Cut(rest, "cut")]
        assert [first, (3, ":truncated_file")] == outcomes_of(delimited_records(PATH, stream, ","))


ROWS = [
    {"id": i, "text": f"row {i} says “so”, {{and}} [more]", "n": [i, {"x": i}]} for i in range(5)
]


@law(200)
@given(st.integers(0, 4), st.binary(min_size=1, max_size=12), st.data())
def test_corrupting_one_line_loses_no_other(victim: int, noise: bytes, data: st.DataObject):
    """Arbitrary bytes written over part of one line never cost another line and never raise."""
    noise = noise.replace(b"\n", b" ")
    lines = [json.dumps(row, ensure_ascii=False).encode() for row in ROWS]
    start = data.draw(st.integers(0, len(lines[victim])))
    lines[victim] = lines[victim][:start] + noise + lines[victim][start + len(noise) :]
    seen = jsonl(b"\n".join(lines))
    assert [(i + 1, row) for i, row in enumerate(ROWS) if i != victim] == [
        outcome for outcome in seen if outcome[0] != victim + 1
    ]


def test_a_broken_element_costs_only_itself():
    """Garbage values, open strings, surplus brackets and scalars are rejected one by one."""
    broken = [
        b'{"id": xx, "t": "b"}',
        b'{"id": 2, "t": "b}',
        b'{"id": 2, "t": "b"c", "u": "d"}',
        b'{"id": 2]}, "t": "b"}',
        b'{"id": 2, "t": ["b", "c"}',
        b'{"id": 2}, "t": "b"}',
        b'{"id": 2, "t": "b\\", "u": "c"}',
        b"null",
        b'{"id": 2 "t": "b"}',
        b"{",
    ]
    for element in broken:
        seen = array(b'[{"id": 1, "t": "a"}, ' + element + b', {"id": 3, "t": "c, d"}]')
        assert (1, {"id": 1, "t": "a"}) == seen[0], element
        assert {"id": 3, "t": "c, d"} == seen[-1][1], element
        assert [(2, ":malformed_line")] == seen[1:-1], element


def test_a_cut_array_keeps_everything_before():
    """Wherever an array is cut, whole elements survive and one reject says so."""
    parts = [json.dumps(row).encode() for row in ROWS]
    data = b"[" + b", ".join(parts) + b"]"
    ends = [1 + sum(map(len, parts[: i + 1])) + 2 * i for i in range(len(parts))]
    for length in range(1, len(data)):
        whole = sum(end <= length for end in ends)
        rows = [(i + 1, row) for i, row in enumerate(ROWS[:whole])]
        assert [*rows, (whole + 1, ":truncated_file")] == array(data[:length])


@law(300)
@given(st.integers(0, 4), st.sampled_from(["text", "id"]), st.binary(min_size=1, max_size=12))
def test_corrupting_one_element_loses_no_other(victim: int, field: str, noise: bytes):
    """Arbitrary bytes in a string or number of one element never cost another, never raise."""
    mark = "MARK" if field == "text" else 987654321
    rows = [{**row, field: mark} if i == victim else row for i, row in enumerate(ROWS)]
    data = json.dumps(rows, ensure_ascii=False).encode().replace(str(mark).encode(), noise)
    # Bytes that spell a whole sibling would be another file, not a corrupted one.
    assume(b'"id"' not in noise)
    survivors = [fields for _, fields in array(data) if isinstance(fields, dict)]
    assert all(row in survivors for i, row in enumerate(ROWS) if i != victim)


@law(300)
@given(st.binary(max_size=200))
def test_no_bytes_raise(noise: bytes):
    """Every reader ends on every input, with records and rejects only."""
    for read in (jsonl, csv, array, keyed):
        for prefix in (b"", b"[", b'{"a":', b'a,b\n"'):
            read(prefix + noise)


def test_a_huge_cell_is_read():
    """A cell of several megabytes with many lines is one cell, read in linear time."""
    text = ("word " * 20 + "\n") * 50_000
    seen = csv(b'a,b\n1,"' + text.encode() + b'"\n2,x\n')
    assert [(2, {"a": "1", "b": text}), (50_003, {"a": "2", "b": "x"})] == seen


@law(200)
@given(st.lists(st.tuples(*[st.text(alphabet='ab,"\né ', max_size=6)] * 2), min_size=1, max_size=6))
def test_quoting_round_trips(rows: list[tuple[str, str]]):
    """Any cells, quoted in full, come back as they were."""
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    seen = csv(("a,b\n" + "\n".join(quoted) + "\n").encode())
    assert [{"a": a, "b": b} for a, b in rows] == [fields for _, fields in seen]


MANY = 6_000
# Shape, and how many rejects each of MANY elements must give.
SHAPES = {
    "broken value": (b'{"id": %d, "t": oops}', 1),
    "open list": (b'{"id": %d, "t": ["b", "c"}', 1),
    "open string": (b'{"id": %d, "t": "b}', 1),
    "nested and open": (b'{"a": [{"b": %d}', 1),
    "a key of its own": (b'{"k%d": oops}', 1),
    "closed too early": (b'{"k%d" x},1 ', 2),
    "no element": (b"%d", 1),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_many_broken_elements_are_one_reject_each(shape: str):
    """6,000 of one kind: minutes where each looked at the rest of the file."""
    element, rejects = SHAPES[shape]
    started = time.process_time()
    found = list(array_records("a.json", b"[" + b",".join(element % i for i in range(MANY)) + b"]"))
    assert (MANY * rejects, {Reject}) == (len(found), {type(one) for one in found})
    assert time.process_time() - started < 8


@pytest.mark.timeout(300)
def test_sound_elements_among_broken_ones_all_survive():
    """Every second one is broken and no two open with the same key."""
    parts = [b'{"k%d": 1}' % i if i % 2 else b'{"k%d": oops}' % i for i in range(MANY)]
    found = list(array_records("a.json", b"[" + b",".join(parts) + b"]"))
    keys = [next(iter(one.fields)) for one in found if isinstance(one, Record)]
    assert [f"k{i}" for i in range(1, MANY, 2)] == keys
    assert MANY == len(found)
    keyed = [b'"n%d": {"k%d": %s}' % (i, i, b"1" if i % 2 else b"oops") for i in range(MANY)]
    found = list(object_records("a.json", b"{" + b",".join(keyed) + b"}"))
    assert [MANY // 2, MANY] == [sum(isinstance(one, Record) for one in found), len(found)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "text", [b"[", b"[{", b'{"a":', b'"', b'{"', b"]", b" ", b'{"\\"', b'["', b",{"]
)
def test_a_long_run_of_one_mark_ends(text: bytes):
    """Depth, open strings and blanks cost a pass each, not one a character."""
    for read in (array_records, object_records):
        for opening in (b"[", b'[{"a": 1},', b'{"k": {"a": 1},'):
            assert len(list(read("a.json", opening + text * (100_000 // len(text))))) >= 1


def test_looking_ahead_stays_within_its_credit():
    """The steps beyond the place where reading goes on grow with the file, no faster."""
    for many in (1_000, 8_000):
        text = "[" + ",".join('{"id": 1, "t": ["b"' for _ in range(many)) + "]"
        siblings = Siblings(text, keyed=False)
        start = 1
        while (found := balanced_end(siblings, start, "]", brief=True)).sibling is not None:
            start = found.sibling
        assert siblings.spent <= CREDIT_PER_CHAR * len(text) + CREDIT
        assert start > len(text) - 40


@pytest.mark.timeout(300)
def test_quotes_that_never_close_take_linear_time():
    """Each line closes the quote of the one before and opens another."""
    lines = [b"a,b\n", *[b'x","y\n'] * MANY, b"1,2\n"]
    found = list(delimited_records("a.csv", lines, ","))
    assert MANY + 1 == len(found)
    assert [(MANY + 2, {"a": "1", "b": "2"})] == [
        (one.row, one.fields) for one in found if isinstance(one, Record)
    ]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz"])
def test_a_line_over_the_limit_is_one_reject(tmp_path: Path, name: str):
    """Its neighbours are read; no more than the limit of it is kept."""
    long = b" " * (records.MAX_LINE_BYTES + 5)
    if "csv" in name:
        data = b"claim,label\nOne.,yes\n" + long + b"\nTwo.,yes\n"
    else:
        data = (
            b'{"claim": "One.", "label": "yes"}\n{"a": 1'
            + long
            + b'}\n{"claim": "Two.", "label": "yes"}'
        )
    (tmp_path / name).write_bytes(gzip.compress(data, 1) if name.endswith("gz") else data)
    found = load(tmp_path, name.removesuffix(".gz"), "csv" if "csv" in name else "jsonl")
    assert ["One.", "Two."] == found.claims["claim"].to_list()
    assert [({"csv": 3}.get(name[2:5], 2), "malformed_line")] == rejected(found, "row", "reason")


def test_an_array_over_the_limit_is_refused_as_a_whole(tmp_path: Path):
    """It is not read into memory, and the reject says what to do (the file has no blocks)."""
    with (tmp_path / "a.json").open("wb") as stream:
        stream.truncate(corpora.MAX_WHOLE_BYTES + 1)
    found = load(tmp_path, "a.json", "json_array")
    assert [(0, "unreadable_file")] == rejected(found, "row", "reason")
    assert "1,000,000,000 bytes; split it" in found.rejects["detail"][0]


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_packed_file_reads_like_the_plain_one_in_any_chunks(tmp_path: Path, kind: str):
    """Unpacking in pieces loses nothing where a piece or a member ends."""
    many = [{**row, "pad": "x" * 997} for row in rows(3_000)]
    text = json.dumps(many) if kind == "json" else "\n".join(map(json.dumps, many))
    data, half = text.encode(), len(text) // 2
    packed = gzip.compress(data[:half], 1) + gzip.compress(data[half:], 1)
    (tmp_path / f"a.{kind}.gz").write_bytes(packed)
    found = load(tmp_path, f"a.{kind}", "json_array" if kind == "json" else "jsonl")
    assert ("ok", 3_000, 0) == (found.status, found.claims.height, found.rejects.height)


@given(st.text())
def test_sentences_keep_every_word(text: str):
    """Splitting loses nothing but white space, and gives no blank sentence."""
    found = passages.sentence_passages(text)
    assert text.split() == " ".join(found).split()
    assert all(sentence.strip() for sentence in found)


@given(st.text(), st.text(alphabet="ab |[]_", max_size=30))
def test_link_removal_leaves_plain_text_alone(text: str, marks: str):
    """Text without an opening mark is untouched, and nothing fails on odd marks."""
    plain = text.replace("[[", "")
    assert plain == passages.without_links(plain)
    assert len(passages.without_links(marks)) <= len(marks)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("a [[B_c|d e]] f", "a d e f"),
        ("[[B_c]]!", "B c!"),
        ("[[Irish|[ˈul]]] x", "[ˈul] x"),
        ("[[a|b]] [[c|d]]", "b d"),
        ("[[unclosed|x", "[[unclosed|x"),
    ],
)
def test_links_become_their_anchor(marked: str, plain: str):
    """The anchor stays, brackets inside it included."""
    assert plain == passages.without_links(marked)
