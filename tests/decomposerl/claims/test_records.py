"""Rows of native files: every good row survives beside every bad one."""

import json
from collections.abc import Iterable

from hypothesis import assume, given
from hypothesis import strategies as st

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.delimited import delimited_records
from decomposerl.claims.json_elements import array_records, object_records
from decomposerl.claims.records import Cut, jsonl_records
from strategies import law

PATH = "corpus/file"
Outcome = tuple[int, object]


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


# JSON lines


def test_a_malformed_line_costs_only_itself():
    """Not JSON, not an object and broken UTF-8 are rejected by line; blank lines are no rows."""
    data = b'{"a": 1}\n{"a": \n\n[1]\n{"a": "\xff"}\n{"a": 2}\r\n'
    expected = [
        (1, {"a": 1}),
        (2, ":malformed_line"),
        (4, ":malformed_line"),
        (5, "a:broken_encoding"),
        (6, {"a": 2}),
    ]
    assert expected == jsonl(data)


def test_a_lone_surrogate_escape_is_broken_encoding():
    """A value that UTF-8 cannot hold is rejected by field; a surrogate pair is fine."""
    data = b'{"a": "\\ud83d"}\n{"a": "\\ud83d\\ude00"}'
    assert [(1, "a:broken_encoding"), (2, {"a": "😀"})] == jsonl(data)


def test_hostile_lines_are_rejected_not_raised():
    """Deep nesting and endless numbers become rejects, a byte order mark is skipped."""
    data = b'\xef\xbb\xbf{"a": 1}\n' + b"[" * 100_000 + b"\n" + b'{"a": ' + b"1" * 5000 + b"}"
    expected = [(1, {"a": 1}), (2, ":malformed_line"), (3, ":malformed_line")]
    assert expected == jsonl(data)


def test_a_cut_stream_gives_one_truncated_file():
    """Rows before the cut survive; a rest that is a whole object is a row, too."""
    half = outcomes_of(jsonl_records(PATH, [b'{"a": 1}\n', Cut(b'{"a": 2', "cut")]))
    whole = outcomes_of(jsonl_records(PATH, [b'{"a": 1}\n', Cut(b'{"a": 2}', "cut")]))
    assert [(1, {"a": 1}), (2, ":truncated_file")] == half
    assert [(1, {"a": 1}), (2, {"a": 2}), (3, ":truncated_file")] == whole


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


# JSON arrays and objects


def test_sound_arrays_and_objects_give_every_element():
    """Elements come in order; an object's values gain their key; repeated keys stay visible."""
    assert [(1, {"a": 1}), (2, {"a": {"b": []}})] == array(b' [ {"a":1} ,\n{"a":{"b":[]}} ] ')
    assert [(1, {"a": 1, "_key": "k"}), (2, {"a": 2, "_key": "k"})] == keyed(
        b'{"k": {"a": 1}, "k": {"a": 2}}'
    )
    assert [] == array(b"[]")


def test_an_array_file_may_hold_json_lines():
    """Some corpora are published both ways; blank and broken lines behave as in JSON lines."""
    assert [(1, {"a": 1}), (2, ":malformed_line"), (3, {"a": 2})] == array(
        b'{"a": 1}\nnonsense\n{"a": 2}\n'
    )


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


def test_a_broken_first_or_last_element_is_malformed():
    """The place in the array does not matter, and a closed array is not called truncated."""
    assert [(1, ":malformed_line"), (2, {"id": 2})] == array(b'[{"id": "}, {"id": 2}]')
    assert [(1, {"id": 1}), (2, ":malformed_line")] == array(b'[{"id": 1}, {"id": "}]')


def test_a_broken_value_of_an_object_costs_only_itself():
    """Objects of rows resynchronise at the next key whose value opens like its siblings."""
    seen = keyed(b'{"p": {"q": 1, "t": ["x"]}, "r": {"q": "a"b"}, "s": {"q": 2}}')
    assert [
        (1, {"q": 1, "t": ["x"], "_key": "p"}),
        (2, ":malformed_line"),
        (3, {"q": 2, "_key": "s"}),
    ] == seen


def test_nested_objects_of_a_broken_element_are_not_rows():
    """The scanner does not take a list of objects inside a broken element for rows."""
    data = b'[{"id": 1, "e": [{"t": 1}, {"t": 2}], "x": oops}, {"id": 2, "e": []}]'
    assert [(1, ":malformed_line"), (2, {"id": 2, "e": []})] == array(data)


def test_broken_utf8_costs_only_its_element():
    """A bad byte rejects the element that holds it and names the field."""
    data = b'[{"id": 1}, {"id": 2, "t": "\xc3("}, {"id": 3, "t": "\xc3\xa9"}]'
    assert [(1, {"id": 1}), (2, "t:broken_encoding"), (3, {"id": 3, "t": "é"})] == array(data)


def test_a_cut_array_keeps_everything_before():
    """Wherever an array is cut, whole elements survive and one reject says so."""
    parts = [json.dumps(row).encode() for row in ROWS]
    data = b"[" + b", ".join(parts) + b"]"
    ends = [1 + sum(map(len, parts[: i + 1])) + 2 * i for i in range(len(parts))]
    for length in range(1, len(data)):
        whole = sum(end <= length for end in ends)
        rows = [(i + 1, row) for i, row in enumerate(ROWS[:whole])]
        assert [*rows, (whole + 1, ":truncated_file")] == array(data[:length])


def test_a_cut_stream_is_told_even_where_the_array_is_whole():
    """A gzip cut inside its trailer still gives its truncated_file."""
    assert [(1, {"a": 1}), (2, ":truncated_file")] == outcomes_of(
        array_records(PATH, b'[{"a": 1}]', "cut")
    )


def test_a_file_of_another_shape_is_unreadable_as_a_whole():
    """Row 0 means the file: empty, a scalar, or a list where an object was promised."""
    assert [(0, ":unreadable_file")] == array(b"")
    assert [(0, ":unreadable_file")] == array(b"12")
    assert [(0, ":unreadable_file")] == keyed(b'[{"a": 1}]')


def test_text_after_the_end_is_rejected():
    """Junk behind a closed array does not vanish silently."""
    assert [(1, {"a": 1}), (2, ":malformed_line")] == array(b'[{"a": 1}]]]')


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


# Delimited text


def test_quoted_cells_hold_delimiters_quotes_and_line_breaks():
    """The row's number is the line on which it begins; CRLF is a line break like any other."""
    data = b'id,text\r\n1,"a, ""b""\nc"\r\n\r\n2,5" pipe\r\n3,\r\n'
    expected = [
        (2, {"id": "1", "text": 'a, "b"\nc'}),
        (5, {"id": "2", "text": '5" pipe'}),
        (6, {"id": "3", "text": ""}),
    ]
    assert expected == csv(data)


def test_a_wrong_number_of_cells_is_malformed():
    """Too few and too many cells cost their row only."""
    expected = [(2, ":malformed_line"), (3, ":malformed_line"), (4, {"a": "1", "b": "2"})]
    assert expected == csv(b"a,b\n1\n1,2,3\n1,2\n")


def test_a_multi_line_row_with_wrong_cells_is_one_reject():
    """Lines inside a closed cell are not taken for rows of their own."""
    expected = [(2, ":malformed_line"), (5, {"a": "1", "b": "2"})]
    assert expected == csv(b'a,b\n1,"x\ny\nz",3\n1,2\n')


def test_an_unclosed_quote_costs_only_the_row_that_opens_it():
    """Reading resumes on the next physical line, also past later quotes and at the end."""
    rows = [(3, {"a": "2", "b": 'say "x"'}), (4, {"a": "3", "b": "y"})]
    tail = b'2,"say ""x"""\n3,y\n'
    assert [(2, ":malformed_line"), *rows] == csv(b'a,b\n1,"open\n' + tail)
    assert [*((r - 1, f) for r, f in rows), (4, ":malformed_line")] == csv(
        b"a,b\n" + tail + b'9,"open\n'
    )
    assert [(2, ":malformed_line"), (3, {"a": "2", "b": "x"})] == csv(b'a,b\n1,"open\n2,x\n')


def test_broken_utf8_in_a_cell_costs_its_row():
    """The reject names the column."""
    assert [(2, "b:broken_encoding"), (3, {"a": "2", "b": "é"})] == csv(
        b"a,b\n1,\xff\n2,\xc3\xa9\n"
    )


def test_a_file_without_header_is_unreadable():
    """Nothing can be said about rows without column names."""
    for data in (b"", b"\n\n", b'"open\n', b"\xff\xfe,b\n1,2\n"):
        assert [(0, ":unreadable_file")] == csv(data)


def test_a_huge_cell_is_read():
    """A cell of several megabytes with many lines is one cell, read in linear time."""
    text = ("word " * 20 + "\n") * 50_000
    seen = csv(b'a,b\n1,"' + text.encode() + b'"\n2,x\n')
    assert [(2, {"a": "1", "b": text}), (50_003, {"a": "2", "b": "x"})] == seen


def test_a_cut_table_gives_one_truncated_file():
    """A cut between rows, inside a row and inside a quoted cell all keep the rows before."""
    first = (2, {"a": "1", "b": "x"})
    for lines, rest in (([], b""), ([], b"2,y"), ([b'2,"open\n', b"still\n"], b"more")):
        stream = [b"a,b\n", b"1,x\n", *lines, Cut(rest, "cut")]
        assert [first, (3, ":truncated_file")] == outcomes_of(delimited_records(PATH, stream, ","))


@law(200)
@given(st.lists(st.tuples(*[st.text(alphabet='ab,"\né ', max_size=6)] * 2), min_size=1, max_size=6))
def test_quoting_round_trips(rows: list[tuple[str, str]]):
    """Any cells, quoted in full, come back as they were."""
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    seen = csv(("a,b\n" + "\n".join(quoted) + "\n").encode())
    assert [{"a": a, "b": b} for a, b in rows] == [fields for _, fields in seen]
