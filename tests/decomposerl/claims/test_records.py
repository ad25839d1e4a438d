"""Rows of native files, damaged, cut and empty: a bad line costs itself, a bad array its file."""

import gzip
import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from corpora_parts import assert_conserved, load, read, rejected, rows, toy_draft, write_jsonl
from dagster_project.environment import corpora_for
from decomposerl.claims import passages, records
from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import NativeRow, each_row, leave_out
from decomposerl.claims.load import LoadSettings
from decomposerl.claims.records import (
    delimited_records,
    json_records,
    jsonl_records,
)
from decomposerl.claims.source import CorpusFiles, FileFormat, NativeFile
from decomposerl.errors import ConfigError, ConservationError, SourceFileError, TooManyRejects
from environment import settings_of
from resources.corpora import folder as corpora
from resources.corpora.folder import FolderCorpora
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
    return outcomes_of(delimited_records(PATH, io.BytesIO(data), ","))


def array(data: bytes) -> list[Outcome]:
    return outcomes_of(json_records(PATH, data))


def keyed(data: bytes) -> list[Outcome]:
    return outcomes_of(json_records(PATH, data, keyed=True))


READERS = {"lines": jsonl, "array": array, "object": keyed, "table": csv}
CASES = json.loads(Path(__file__).with_name("records.json").read_text("utf-8"))
"""By reader and name: the bytes of a file as Latin-1, and what it gives."""


@pytest.mark.parametrize("kind", READERS)
def test_a_bad_line_costs_itself_and_a_bad_array_its_file(kind: str):
    """Row by row what a file gives; row 0 means the file."""
    for name, (data, expected) in CASES[kind].items():
        assert [*map(tuple, expected)] == READERS[kind](data.encode("latin-1")), name


def test_what_no_parser_can_hold_is_a_reject():
    """Deep nesting and endless numbers; a byte order mark is skipped."""
    nested, endless = b"[" * 100_000, b'{"a": ' + b"1" * 5000 + b"}"
    lines = b'\xef\xbb\xbf{"a": 1}\n' + nested + b"\n" + endless
    assert [(1, {"a": 1}), (2, MALFORMED), (3, MALFORMED)] == jsonl(lines)
    assert UNREADABLE == array(nested)


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
    others = [outcome for outcome in seen if outcome[0] != victim + 1]
    assert [(i + 1, row) for i, row in enumerate(ROWS) if i != victim] == others


def test_a_cut_array_is_refused_with_the_place():
    """Wherever an array or object is cut: what is behind the cut cannot be told."""
    for keyed, whole in ((False, ROWS), (True, {"a": ROWS[0], "b": ROWS[1]})):
        data = json.dumps(whole).encode()
        for length in range(len(data)):
            (reject,) = json_records(PATH, data[:length], keyed=keyed)
            assert isinstance(reject, Reject)
            assert (0, "unreadable_file") == (reject.row, reject.reason)
            assert not length or "(char " in reject.detail


@law(300)
@given(st.integers(0, 4), st.sampled_from(["text", "id"]), st.binary(min_size=1, max_size=12))
def test_corrupting_one_element_loses_no_other_in_silence(victim: int, field: str, noise: bytes):
    """Arbitrary bytes in a string or number: all others are read, or the file is refused."""
    mark = "MARK" if field == "text" else 987654321
    rows = [{**row, field: mark} if i == victim else row for i, row in enumerate(ROWS)]
    data = json.dumps(rows, ensure_ascii=False).encode().replace(str(mark).encode(), noise)
    seen = array(data)
    survivors = [fields for _, fields in seen if isinstance(fields, dict)]
    assert seen == UNREADABLE or all(row in survivors for i, row in enumerate(ROWS) if i != victim)


@law(300)
@given(st.binary(max_size=200))
def test_no_bytes_raise(noise: bytes):
    """Every reader ends on every input, with records and rejects only."""
    for outcomes in (jsonl, csv, array, keyed):
        for prefix in (b"", b"[", b'{"a":', b'a,b\n"'):
            outcomes(prefix + noise)


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


def test_quotes_that_never_close_refuse_the_file():
    """Each line closes the quote of the one before: read again from each, they took minutes."""
    lines = [b"a,b\n", b"1,2\n", *[b'x","y\n'] * 6_000, b"1,2\n"]
    started = time.process_time()
    found = outcomes_of(delimited_records("a.csv", lines, ","))
    assert [(2, {"a": "1", "b": "2"}), (3, MALFORMED)] == found[:2]
    assert UNREADABLE == found[-1:]
    assert time.process_time() - started < 8


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz"])
def test_a_line_over_the_limit_is_one_reject(tmp_path: Path, name: str):
    """Its neighbours are read; no more than the limit of it is kept."""
    long = b" " * (records.MAX_LINE_BYTES + 5)
    if "csv" in name:
        data = b"claim,label\nOne.,yes\n" + long + b"\nTwo.,yes\n"
    else:
        row = b'{"claim": "%s.", "label": "yes"}'
        data = b"\n".join((row % b"One", b'{"a": 1' + long + b"}", row % b"Two"))
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


def test_links_become_their_anchor():
    """The anchor stays, brackets inside it included."""
    for marked, plain in (
        ("a [[B_c|d e]] f", "a d e f"),
        ("[[B_c]]!", "B c!"),
        ("[[Irish|[ˈul]]] x", "[ˈul] x"),
        ("[[a|b]] [[c|d]]", "b d"),
        ("[[unclosed|x", "[[unclosed|x"),
    ):
        assert plain == passages.without_links(marked)


GROUP = 1000


@pytest.mark.parametrize("bad", [0, 1, 4])
def test_a_damaged_page_refuses_the_file_with_the_place(tmp_path: Path, bad: int):
    """Rows before it are read; the corpus fails, and its message says how far it was read."""
    path = tmp_path / "a.parquet"
    table = pa.Table.from_pylist(rows(5 * GROUP))
    parquet.write_table(table, path, row_group_size=GROUP, use_dictionary=False)
    column = parquet.ParquetFile(path).metadata.row_group(bad).column(0)
    start, size = column.data_page_offset, column.total_compressed_size
    data = bytearray(path.read_bytes())
    data[start : start + size] = b"\xff" * size  # the data page of one column of one group
    path.write_bytes(bytes(data))
    loaded = load(tmp_path, "a.parquet", "parquet")
    kept = loaded.claims["claim"].to_list()
    assert [f"Claim {i}." for i in range(1, len(kept) + 1)] == kept
    assert len(kept) <= bad * GROUP
    assert [(0, "unreadable_file")] == rejected(loaded, "row", "reason")
    assert_conserved(loaded)
    place = rf"after row {len(kept)}: " if kept else "a.parquet"
    with pytest.raises(TooManyRejects, match=place):
        load(tmp_path, "a.parquet", "parquet", config=LoadSettings())


def test_a_value_out_of_range_in_an_unused_column_costs_its_row(tmp_path: Path):
    """Such a value is no reason to lose its neighbours, and the reject names the column."""
    table = pa.Table.from_pylist(rows(5000))
    days = pa.array([10**9 if i == 2999 else 1 for i in range(5000)], pa.int32()).cast(pa.date32())
    parquet.write_table(table.append_column("day", days), tmp_path / "a.parquet")
    loaded = load(tmp_path, "a.parquet", "parquet")
    assert [(3000, "day", "malformed_line")] == rejected(loaded)
    assert 4999 == loaded.claims.height
    assert_conserved(loaded)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json_array", "parquet"])
def test_a_cut_or_damaged_gzip_refuses_the_file_with_the_place(tmp_path: Path, kind: FileFormat):
    """Lines before the place are read; of a file that is read whole there are none."""
    table = pa.Table.from_pylist(rows(900))
    parquet.write_table(table, tmp_path / "a")
    content = {
        "jsonl": "\n".join(map(json.dumps, rows(900))).encode(),
        "csv": b"claim,label\n" + b"\n".join(b"Claim %d.,yes" % i for i in range(1, 901)),
        "json_array": json.dumps(rows(900)).encode(),
        "parquet": (tmp_path / "a").read_bytes(),
    }[kind]
    packed = gzip.compress(content)
    half = len(packed) // 2
    for damaged in (packed[:half], packed[:-4], packed[:half] + b"\xff" * half, content):
        (tmp_path / "a.x.gz").write_bytes(damaged)
        loaded = load(tmp_path, "a.x", kind)
        kept = loaded.claims["claim"].to_list()
        garbage = b"\xff" * half in damaged  # unpacks to some bytes of its own
        assert garbage or [f"Claim {number}." for number in range(1, len(kept) + 1)] == kept
        assert (0, "unreadable_file") == rejected(loaded, "row", "reason")[-1]
        assert damaged is content or "after " in loaded.rejects["detail"][-1]
        with pytest.raises(TooManyRejects, match=r"a\.x"):
            load(tmp_path, "a.x", kind, config=LoadSettings())


def test_a_file_without_rows_is_told_by_the_status(tmp_path: Path):
    """A file that is there and holds nothing is neither absent nor sound."""
    kinds: tuple[tuple[FileFormat, str], ...] = (
        *(("jsonl", ""), ("jsonl", "\n\n"), ("csv", "claim,label\n"), ("json_array", "[]")),
    )
    for kind, content in kinds:
        (tmp_path / "a.x").write_text(content)
        loaded = load(tmp_path, "a.x", kind)
        assert ("empty", 0, 0) == (loaded.status, loaded.rows_read, loaded.rejects.height)


@pytest.mark.parametrize("mark", [",", ";", "|", "\t"])
def test_a_csv_file_is_separated_as_its_header_is(tmp_path: Path, mark: str):
    """Spreadsheets write semicolons where the comma is a decimal sign."""
    (tmp_path / "a.csv").write_text(f"claim{mark}label\nOne.{mark}yes\n")
    assert ["One."] == load(tmp_path, "a.csv", "csv").claims["claim"].to_list()


def test_hops_beyond_64_bits_cost_their_row(tmp_path: Path):
    """The table of claims holds 64-bit integers; the extremes themselves are sound."""
    numbers = [2, 10**25, 2**63 - 1, -(2**63), -(2**63) - 1, 2**63]
    lines = [json.dumps({**row, "hops": n}) for row, n in zip(rows(6), numbers, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    loaded = load(tmp_path, "a.jsonl", "jsonl")
    assert [(row, "num_hops", "missing_field") for row in (2, 5, 6)] == rejected(loaded)
    assert [2, 2**63 - 1, -(2**63)] == loaded.claims["num_hops"].to_list()


def drafted(item: Record | Reject, file: NativeFile) -> Draft | Reject:
    return item if isinstance(item, Reject) else toy_draft(NativeRow(item.fields, item, file))


def loses_a_row(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """A faulty adapter: row 3 gives nothing."""
    for item in files.records(file):
        if item.row != 3:
            yield drafted(item, file)


def loses_a_draft(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """A faulty adapter: the draft of row 3 is made and not passed on."""
    return (one for one in read(files, file) if one.row != 3)


def stops_early(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """A faulty adapter: reads two rows."""
    return (drafted(item, file) for item in islice(files.records(file), 2))


def test_an_adapter_that_loses_a_row_is_found(tmp_path: Path):
    """Sound or broken, a row that was read must come out; the error says where it went in."""
    write_jsonl(tmp_path, 4)
    sound = (tmp_path / "a.jsonl").read_text().splitlines()
    for lines in (sound, [*sound[:2], "junk", sound[3]]):
        (tmp_path / "a.jsonl").write_text("\n".join(lines))
        for reader, why in ((loses_a_row, "3"), (loses_a_draft, "3"), (stops_early, "stopped")):
            with pytest.raises(ConservationError, match=rf"toy: a\.jsonl: .*{why}"):
                load(tmp_path, "a.jsonl", "jsonl", reader)


def test_rows_may_be_left_out_or_joined_on_purpose(tmp_path: Path):
    """``None`` leaves a row out; rows may become one draft with another."""
    skips = each_row(lambda row: None if row.record.row == 1 else toy_draft(row))

    def joins(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
        first, *more = (one for one in read(files, file) if isinstance(one, Draft))
        leave_out(files, more)
        yield first

    write_jsonl(tmp_path, 3)
    assert 2 == load(tmp_path, "a.jsonl", "jsonl", skips).rows_read
    assert 1 == load(tmp_path, "a.jsonl", "jsonl", joins).rows_read


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", ODD_FILES.values(), ids=ODD_FILES)
def test_what_is_no_file_is_unreadable_and_never_waited_for(
    tmp_path: Path, make: Callable[[Path], object]
):
    """One reject that names the file; as a description of a corpus, an error with its path."""
    make(tmp_path / "a.x")
    files = FolderCorpora(tmp_path)
    assert files.exists("a.x")
    for kind in get_args(FileFormat):
        (reject,) = files.records(NativeFile("a.x", kind, "train"))
        assert isinstance(reject, Reject)
        assert ("a.x", 0, "unreadable_file") == (reject.file, reject.row, reject.reason)
    with pytest.raises(SourceFileError, match=r"a\.x"):
        files.pages("a.x")
    (tmp_path / "own").mkdir()
    make(tmp_path / "own" / "source.toml")
    with pytest.raises(ConfigError, match=r"own/source\.toml"):
        corpora_for(settings_of(tmp_path / "data", tmp_path))


def test_a_gzipped_file_beside_what_is_no_file_is_read(tmp_path: Path):
    """As where nothing lies there."""
    (tmp_path / "a.jsonl").mkdir()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"claim": "C."}\n'))
    (record,) = FolderCorpora(tmp_path).records(NativeFile("a.jsonl", "jsonl", "train"))
    assert isinstance(record, Record)


def test_a_description_without_end_is_an_error(tmp_path: Path):
    """A large file is no TOML that somebody wrote."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "source.toml").write_bytes(b"# " * 500_001)
    with pytest.raises(ConfigError, match="1,000,000 bytes"):
        corpora_for(settings_of(tmp_path / "data", tmp_path))
