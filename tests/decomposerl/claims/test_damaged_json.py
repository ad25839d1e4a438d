"""Arrays damaged on purpose: every element is counted and time stays linear in the file."""

import gzip
import json
import time
from collections import Counter
from pathlib import Path

import pytest

from corpora_parts import load, rows
from decomposerl.claims import records
from decomposerl.claims.claim import Record
from decomposerl.claims.delimited import delimited_records
from decomposerl.claims.json_elements import CREDIT, CREDIT_PER_CHAR, array_records, object_records
from decomposerl.claims.json_siblings import Siblings, balanced_end
from resources.corpora import folder as corpora

MANY = 20_000
# Shape, and how many records and rejects of MANY elements it must give.
SHAPES = {
    "broken value": (b'{"id": %d, "t": oops}', 0, MANY),
    "open list": (b'{"id": %d, "t": ["b", "c"}', 0, MANY),
    "open string": (b'{"id": %d, "t": "b}', 0, MANY),
    "nested and open": (b'{"a": [{"b": %d}', 0, MANY),
    "a key of its own": (b'{"k%d": oops}', 0, MANY),
    "closed too early": (b'{"k%d" x},1 ', 0, 2 * MANY),
    "no element": (b"%d", 0, MANY),
}


def counted(data: bytes) -> tuple[Counter[str], float]:
    """Records and rejects of an array, and the seconds that reading took."""
    started = time.perf_counter()
    seen = Counter(type(one).__name__ for one in array_records("a.json", data))
    return seen, time.perf_counter() - started


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shape", SHAPES)
def test_many_broken_elements_are_one_reject_each(shape: str):
    """20,000 of one kind: minutes to hours where each looked at the rest of the file."""
    element, sound, broken = SHAPES[shape]
    data = b"[" + b",".join(element % i for i in range(MANY)) + b"]"
    seen, seconds = counted(data)
    assert (sound, broken) == (seen["Record"], seen["Reject"])
    assert seconds < 60


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
def test_megabytes_of_one_mark_end(text: bytes):
    """Depth, open strings and blanks cost a pass each, not one a character."""
    for read in (array_records, object_records):
        for opening in (b"[", b'[{"a": 1},', b'{"k": {"a": 1},'):
            assert len(list(read("a.json", opening + text * (1_000_000 // len(text) // 4)))) >= 1


def test_looking_ahead_stays_within_its_credit():
    """The steps beyond the place where reading goes on grow with the file, no faster."""
    for many in (2_000, 20_000):
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
    assert [({"csv": 3}.get(name[2:5], 2), "malformed_line")] == found.rejects.select(
        "row", "reason"
    ).rows()


def test_an_array_over_the_limit_is_refused_as_a_whole(tmp_path: Path):
    """It is not read into memory, and the reject says what to do (the file has no blocks)."""
    with (tmp_path / "a.json").open("wb") as stream:
        stream.truncate(corpora.MAX_WHOLE_BYTES + 1)
    found = load(tmp_path, "a.json", "json_array")
    assert [(0, "unreadable_file")] == found.rejects.select("row", "reason").rows()
    assert "1,000,000,000 bytes; split it" in found.rejects["detail"][0]


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_packed_file_reads_like_the_plain_one_in_any_chunks(tmp_path: Path, kind: str):
    """Unpacking in pieces loses nothing where a piece ends."""
    many = [{**row, "pad": "x" * 997} for row in rows(9_000)]
    text = json.dumps(many) if kind == "json" else "\n".join(map(json.dumps, many))
    (tmp_path / f"a.{kind}.gz").write_bytes(gzip.compress(text.encode()))
    found = load(tmp_path, f"a.{kind}", "json_array" if kind == "json" else "jsonl")
    assert ("ok", 9_000, 0) == (found.status, found.claims.height, found.rejects.height)
