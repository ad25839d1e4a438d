"""Damaged, cut and empty files: what is lost is counted and reported, and nothing more is lost."""

import gzip
import json
import os
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from pyarrow import parquet

from corpora_parts import assert_conserved, load, read, rejected, rows, toy_draft, write_jsonl
from dagster_project.profiles import Profile, sources_for
from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import NativeRow, each_row
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.claims.source import CorpusFiles, FileFormat, NativeFile
from decomposerl.claims.sources import ambifc, feverous, pubmedclaim
from decomposerl.errors import ConfigError, ConservationError, SourceFileError, TooManyRejects
from resources.corpora.folder import FolderCorpora

GROUP = 1000


def damaged_parquet(path: Path, groups: int, bad: int) -> None:
    """``groups`` row groups, of which the data page of one column of one group is garbage."""
    table = pa.Table.from_pylist(rows(groups * GROUP))
    parquet.write_table(table, path, row_group_size=GROUP, use_dictionary=False)
    column = parquet.ParquetFile(path).metadata.row_group(bad).column(0)
    start, size = column.data_page_offset, column.total_compressed_size
    data = bytearray(path.read_bytes())
    data[start : start + size] = b"\xff" * size
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("bad", [0, 1, 4])
def test_a_damaged_page_costs_its_row_group_and_every_lost_row_counts(tmp_path: Path, bad: int):
    """Groups before and after it are read; the lost rows are rejects that fail the corpus."""
    damaged_parquet(tmp_path / "a.parquet", 5, bad)
    loaded = load(tmp_path, "a.parquet", "parquet")
    lost = range(bad * GROUP + 1, (bad + 1) * GROUP + 1)
    assert [f"Claim {i}." for i in range(1, 5 * GROUP + 1) if i not in lost] == loaded.claims[
        "claim"
    ].to_list()
    assert list(lost) == loaded.rejects["row"].to_list()
    assert {"unreadable_file"} == set(loaded.rejects["reason"])
    assert f"rows {lost[0]}-{lost[-1]} (1000 rows)" in loaded.rejects["detail"][0]
    assert 5 * GROUP == loaded.rows_read
    assert_conserved(loaded)
    with pytest.raises(TooManyRejects, match=r"20\.0%"):
        load(tmp_path, "a.parquet", "parquet", config=LoadSettings())
    most = LoadSettings(max_reject_share=0.2)
    assert 4 * GROUP == load(tmp_path, "a.parquet", "parquet", config=most).claims.height


def test_an_index_that_promises_endless_rows_is_unreadable(tmp_path: Path):
    """A trillion rows that are not there are one reject of the file, beside the sound rows."""
    parquet.write_table(pa.Table.from_pylist(rows(1000)), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    # Row counts are zigzag varints: 1,000 becomes 2**40.
    footer = data[-8 - size : -8].replace(b"\xd0\x0f", b"\x80\x80\x80\x80\x80\x40")
    end = len(footer).to_bytes(4, "little") + b"PAR1"
    (tmp_path / "a.parquet").write_bytes(data[: -8 - size] + footer + end)
    loaded = load(tmp_path, "a.parquet", "parquet")
    assert [(0, "unreadable_file")] == rejected(loaded, "row", "reason")
    assert 1000 == loaded.claims.height


def test_a_value_out_of_range_in_an_unused_column_costs_its_row(tmp_path: Path):
    """Such a value is no reason to lose its neighbours, and the reject names the column."""
    table = pa.Table.from_pylist(rows(5000))
    days = pa.array([10**9 if i == 2999 else 1 for i in range(5000)], pa.int32()).cast(pa.date32())
    parquet.write_table(table.append_column("day", days), tmp_path / "a.parquet")
    loaded = load(tmp_path, "a.parquet", "parquet")
    assert [(3000, "day", "malformed_line")] == rejected(loaded)
    assert 4999 == loaded.claims.height
    assert_conserved(loaded)


def test_a_cut_gzip_of_parquet_is_told(tmp_path: Path):
    """Only the gzip trailer is missing: every row is there, and the cut is one reject."""
    table = pa.Table.from_pylist(rows(10))
    parquet.write_table(table, tmp_path / "a.parquet")
    packed = gzip.compress((tmp_path / "a.parquet").read_bytes())
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "a.parquet.gz").write_bytes(packed[:-4])
    loaded = load(tmp_path, "a.parquet", "parquet")
    assert ("truncated", 10) == (loaded.status, loaded.claims.height)
    assert [(11, "truncated_file")] == rejected(loaded, "row", "reason")


def test_a_cut_file_is_told_by_the_status(tmp_path: Path):
    """Rows before the cut are kept, whatever was lost: gzip, wherever it is cut, and JSON arrays.

    Garbage inside a compressed stream ends the file there, no sooner.
    """
    write_jsonl(tmp_path, 900)
    data = (tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "a.jsonl").unlink()
    packed = gzip.compress(data)
    half = len(packed) // 2
    damaged = [packed[: int(len(packed) * share)] for share in (0.2, 0.5, 0.9)]
    damaged.append(packed[:half] + b"\xff" * half)
    for content in (*damaged, json.dumps(rows(900))[:-2000].encode()):
        is_array = content.startswith(b"[")
        (tmp_path / ("a.json" if is_array else "a.jsonl.gz")).write_bytes(content)
        loaded = (
            load(tmp_path, "a.json", "json_array", config=LoadSettings())
            if is_array
            else load(tmp_path, "a.jsonl", "jsonl")
        )
        kept = loaded.claims["claim"].to_list()
        assert 50 < len(kept) < 900
        assert [f"Claim {number}." for number in range(1, len(kept) + 1)] == kept
        assert ("truncated", "truncated_file") == (loaded.status, loaded.rejects["reason"][-1])
        assert_conserved(loaded)


def test_a_file_without_rows_is_told_by_the_status(tmp_path: Path):
    """A file that is there and holds nothing is neither absent nor sound."""
    kinds: tuple[tuple[FileFormat, str], ...] = (
        *(("jsonl", ""), ("jsonl", "\n\n"), ("csv", "claim,label\n"), ("json_array", "[]")),
    )
    for kind, content in kinds:
        (tmp_path / "a.x").write_text(content)
        loaded = load(tmp_path, "a.x", kind)
        assert ("empty", 0, 0) == (loaded.status, loaded.rows_read, loaded.rejects.height)


def test_carriage_returns_alone_and_repeated_columns_are_unreadable(tmp_path: Path):
    """Neither gives rows that could be distinguished; the message says why."""
    for content, why in (
        (b"claim,label\rOne.,yes\rTwo.,no\r", "carriage return"),
        (b"claim,label,label\nOne.,yes,no\n", "label"),
    ):
        (tmp_path / "a.csv").write_bytes(content)
        loaded = load(tmp_path, "a.csv", "csv")
        assert [(0, "unreadable_file")] == rejected(loaded, "row", "reason")
        assert why in loaded.rejects["detail"][0]
        with pytest.raises(TooManyRejects, match=why):
            load(tmp_path, "a.csv", "csv", config=LoadSettings())


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
    """``None`` leaves a row out; rows of one native id may become one draft."""
    skips = each_row(lambda row: None if row.record.row == 1 else toy_draft(row))

    def joins(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
        found = {one.native_id: one for one in read(files, file) if isinstance(one, Draft)}
        yield from found.values()

    write_jsonl(tmp_path, 3)
    assert 2 == load(tmp_path, "a.jsonl", "jsonl", skips).rows_read
    path = tmp_path / "a.jsonl"
    path.write_text(path.read_text() * 2)
    assert 3 == load(tmp_path, "a.jsonl", "jsonl", joins).rows_read


def test_the_catalogue_leaves_out_and_joins_rows_on_purpose(tmp_path: Path):
    """FEVEROUS's header, PubMedQA's other half and AmbiFC's joined passages are no losses."""
    content: dict[str, object] = {"content": ["A_sentence_0"]}
    fact = {"id": 1, "claim": "C.", "label": "SUPPORTS", "evidence": [content]}
    passage = {"claim_id": 1, "claim": "C.", "wiki_page": "P", "labels": {"passage": "supporting"}}
    question = {"QUESTION": "Q?", "CONTEXTS": ["One."], "final_decision": "yes"}
    native: dict[str, list[object]] = {
        "feverous/feverous_train_challenges.jsonl": [{"id": "", "claim": ""}, fact],
        "ambifc/train.certain.jsonl": [{**passage, "wiki_passage": f"Text {i}."} for i in "ab"],
        "pubmedqa/ori_pqal.json": [{"1": question, "2": question}],
        "pubmedqa/test_ground_truth.json": [{"2": {"answer": "yes"}}],
    }
    for name, lines in native.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    for source in (feverous.SOURCE, ambifc.SOURCE, pubmedclaim.SOURCE):
        loaded = load_source(source, None, FolderCorpora(tmp_path), LoadSettings())
        assert ("ok", 1, 0) == (loaded.status, loaded.rows_read, loaded.rejects.height)


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
    """A pipe that nobody writes, a device without end: one reject that names the file.

    Where it is a description of a corpus, an error names its path; it is not passed over.
    """
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
        sources_for(Profile("embedded", tmp_path, tmp_path / "data"))


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
        sources_for(Profile("embedded", tmp_path, tmp_path / "data"))
