"""Tables and arrays on disk: whole or not at all, and the same bytes wherever they are cut.

No more is in memory than a few batches; what killed writers leave is removed by the next.
"""

import itertools
import os
import subprocess
import sys
import time
from errno import ENOSPC
from pathlib import Path

import dagster as dg
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from decomposerl.errors import EngineError, SchemaError
from decomposerl.funnel import catalogue
from decomposerl.funnel.parts import text_parts
from decomposerl.funnel.settings import DedupSettings, RuleSettings
from decomposerl.kernels.cosine_filter import keep_first_cosine
from decomposerl.kernels.cosine_parts import VectorBlocks, keep_first_in_blocks
from decomposerl.kernels.set_join import keep_first_duplicates
from decomposerl.kernels.set_parts import keep_first_in_parts
from decomposerl.reports.stage_tally import StageTally
from decomposerl.schemas import ATTRITION, CLAIMS, DROPS, PAIRS, RULE_FILTERED
from decomposerl.table import Column, Table
from fakes import CapitalisedWords, WordCounter
from perf.inputs import clustered_vectors, synthetic_claims
from project import ROOT
from resources.corpora.bundled_sample import ensure_sample, fingerprint
from resources.mapper.pools import InProcessMapper, ProcessMapper
from resources.store.integrity import file_sha256, run_path
from resources.store.parquet import (
    DataFolder,
    ParquetTables,
    StageOutput,
    StageRun,
    table_of,
    write_parquet,
)
from resources.store.rows import (
    GROUP_BYTES,
    GROUP_ROWS,
    RowsWriter,
    StoredRows,
    batches_of,
    row_sizes,
)
from resources.store.stage_writer import FolderArrays, StageWriter, shared_tasks
from resources.store.temporary import aside, remove_abandoned, replace_file
from sample import Sample
from strategies import FRAME_LAW, example_row, frame_of, frames, law
from toy_corpus import write_sample

RULES = RuleSettings(min_tokens=6, max_tokens=25, min_entities=1)


def claims(rows: int) -> pl.DataFrame:
    """Claims of different lengths, some without a document."""
    filled = [
        example_row(
            claim=f"Ilva Marrek opened bridge {row}",
            evidence="It was 1921. " * (row % 7),
            document_id=None if row % 3 else f"d{row}",
        )
        for row in range(rows)
    ]
    return frame_of(CLAIMS, filled)


def written(path: Path, frame: pl.DataFrame, batch: int, **bounds: int) -> StoredRows:
    """``frame`` in a file, added ``batch`` rows at a time."""
    with RowsWriter(path, CLAIMS, **bounds) as writer:
        for part in frame.iter_slices(batch):
            writer.add(part)
        return writer.finish()


@pytest.mark.parametrize("bounds", [{"most_bytes": 2_000}, {"most_rows": 13}, {}])
def test_a_file_is_the_same_bytes_wherever_batches_were_cut(tmp_path: Path, bounds: dict[str, int]):
    """And its row groups end where their bound is reached, so that none is large."""
    frame = claims(60)
    files = [written(tmp_path / f"{size}", frame, size, **bounds) for size in (1, 7, 13, 60)]
    assert 1 == len({file_sha256(rows.path) for rows in files})
    assert_frame_equal(frame, files[0].read())
    with pq.ParquetFile(files[0].path) as file:
        groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    assert 60 == sum(groups)
    starts = np.cumsum([0, *groups])
    for start, end in itertools.pairwise(starts.tolist()):
        sizes = row_sizes(frame[start:end])
        assert sizes[:-1].sum() < bounds.get("most_bytes", GROUP_BYTES)
        assert len(sizes) <= bounds.get("most_rows", GROUP_ROWS)
    assert (len(groups) > 3) == bool(bounds)


def test_batches_are_the_rows_in_order_and_small(tmp_path: Path):
    """Of one file, and of several, which share a batch where they are small."""
    frame = claims(60)
    first, second = written(tmp_path / "a", frame[:45], 45), written(tmp_path / "b", frame[45:], 45)
    batches = list(batches_of([first, second], most_bytes=2_000))
    assert_frame_equal(frame, pl.concat(batches))
    assert 2 == len(batches)
    assert [60] == [batch.height for batch in batches_of([first, second])]
    assert [0] == [batch.height for batch in batches_of([written(tmp_path / "c", claims(0), 1)])]


def test_files_of_earlier_versions_are_read_in_batches(tmp_path: Path):
    """One row group may hold all rows."""
    frame = claims(1_200)
    write_parquet(frame, tmp_path / "old.parquet")
    rows = StoredRows.checked(tmp_path / "old.parquet", CLAIMS)
    batches = list(rows.batches(most_bytes=2_000))
    assert_frame_equal(frame, pl.concat(batches))
    assert 3 == len(batches)


def two_batches(path: Path, first: pl.DataFrame, second: pl.DataFrame) -> None:
    """Write each as a row group."""
    with RowsWriter(path, CLAIMS, most_rows=1) as writer:
        writer.add(first)
        writer.add(second)
        writer.finish()


def test_a_repeated_claim_and_a_missing_value_are_refused(tmp_path: Path):
    """Also across batches; a block that fails leaves no file."""
    frame = claims(4)
    null = frame.with_columns(claim=pl.lit(None, pl.String()))
    for second, said in ((frame[:1], "1 rows repeat claim_id"), (null[:1], "'claim' has 1 nulls")):
        with pytest.raises(SchemaError, match=said):
            two_batches(tmp_path / "a", frame, second)
    assert [] == list(tmp_path.iterdir())


def test_a_file_with_nulls_is_refused_as_it_is_read(tmp_path: Path):
    """Columns and keys are checked at once, values with their batch."""
    write_parquet(claims(3).with_columns(claim=pl.lit(None, dtype=pl.String())), tmp_path / "a")
    rows = StoredRows.checked(tmp_path / "a", CLAIMS)
    for read in (lambda: list(rows.batches()), lambda: rows.read(["claim_id", "claim"])):
        with pytest.raises(SchemaError, match="'claim' has 3 nulls"):
            read()
    assert 3 == rows.read(["claim_id"]).height
    write_parquet(claims(3).drop("claim"), tmp_path / "b")
    write_parquet(pl.concat([claims(3), claims(1)]), tmp_path / "c")
    for name, said in (("b", "'claim'"), ("c", "1 rows repeat")):
        with pytest.raises(SchemaError, match=said):
            StoredRows.checked(tmp_path / name, CLAIMS)


def staged(
    data: Path, rows: list[StoredRows], most_bytes: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What the rules keep and drop, through a stage writer."""
    options = {"drops": True, "most_bytes": most_bytes}
    with StageWriter(data, "rule_filtered", RULE_FILTERED, rows, **options) as out:
        for batch in out.batches():
            done = catalogue.rule_filter(batch, RULES, WordCounter(), CapitalisedWords())
            out.add(batch, done)
        kept, drops = out.finish()
    assert drops is not None
    assert kept.rows == out.tally.rows_kept
    assert drops.rows == out.tally.rows_dropped
    return kept.read(), drops.read()


@law(5)
@given(frames(CLAIMS))
def test_a_stage_writes_what_it_makes_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, frame: pl.DataFrame
):
    """Kept rows in order, drops by step and then by row, in several batches or in one."""
    data = tmp_path_factory.mktemp("stage")
    rows = [written(data / f"{at}", frame[at : at + 3], 3) for at in range(0, frame.height + 1, 3)]
    whole = catalogue.rule_filter(frame, RULES, WordCounter(), CapitalisedWords())
    for most_bytes in (1, 1_000_000):
        kept, drops = staged(data, rows, most_bytes)
        assert_frame_equal(whole.kept, kept)
        assert_frame_equal(whole.drops, drops)


@FRAME_LAW
@given(frames(CLAIMS), st.integers(0, 8))
def test_tallies_of_parts_add_up_to_the_tally_of_the_whole(frame: pl.DataFrame, cut: int):
    """Counts and examples, in either order of the parts."""
    done = catalogue.rule_filter(frame, RULES, WordCounter(), CapitalisedWords())
    first, second = (
        StageTally.of(part, done.kept[slice(*at)], done.drops[slice(*at)])
        for part, at in ((frame[:cut], (0, cut)), (frame[cut:], (cut, None)))
    )
    whole = StageTally.of(frame, done.kept, done.drops)
    for added in (first + second, second + first):
        for name in ("entered", "kept", "dropped"):
            one, other = getattr(whole, name), getattr(added, name)
            assert_frame_equal(one, other, check_row_order=False)
        assert_frame_equal(whole.sample, added.sample)
        assert whole.closest.equals(added.closest)


def test_a_failed_stage_leaves_no_file(tmp_path: Path):
    """Neither kept rows, nor drops, nor those that await their order."""
    rows = written(tmp_path / "claims.parquet", claims(3), 3)
    data = tmp_path / "data"

    def fail() -> None:
        with StageWriter(data, "rule_filtered", RULE_FILTERED, [rows], drops=True) as out:
            batch = next(out.batches())
            out.add(batch, catalogue.rule_filter(batch, RULES, WordCounter(), CapitalisedWords()))
            raise EngineError("no more")

    with pytest.raises(EngineError, match="no more"):
        fail()
    assert [] == [path for path in data.rglob("*") if path.is_file()]


_WIDE = """
import sys
from pathlib import Path
import polars as pl
from decomposerl.schemas import CLAIMS
from perf.frames import claims_frame
from perf.memory_watch import MemoryWatch
from resources.store.rows import RowsWriter, batches_of
folder, passages = Path(sys.argv[1]), ["It was 1921. " * 800] * 4
with RowsWriter(folder / "in", CLAIMS) as writer:
    for part in range(96):
        rows = claims_frame(f"s{part}", ["a"] * 200, [passages] * 200, ["Refuted"] * 200)
        writer.add(rows)
    stored = writer.finish()
with MemoryWatch() as watch, RowsWriter(folder / "out", CLAIMS) as writer:
    for rows in batches_of([stored]):
        writer.add(rows.filter(pl.int_range(pl.len()) % 50 == 0))
    writer.finish()
print(stored.rows * 2 * len("".join(passages)) / 1e6, watch.peak_mb())
"""


def test_evidence_larger_than_memory_passes_through(tmp_path: Path):
    """1.6 GB of one evidence pass at a peak of some batches, also where few rows are kept."""
    command = [sys.executable, "-c", _WIDE, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    megabytes, peak = map(float, done.stdout.split())
    assert megabytes > 1_500
    assert peak < 900


# The Parquet IO manager


def attrition_rows(rows: int) -> pl.DataFrame:
    """A small attrition frame: any declared table serves to test the IO manager."""
    texts = {"stage": "s", "source": "x", "label": "Supported", "outcome": "kept"}
    return pl.DataFrame(
        {"stage_order": list(range(rows))}
        | {name: [text] * rows for name, text in (texts | {"step": "", "reason": ""}).items()}
        | {"rows": [1] * rows},
        schema_overrides=ATTRITION.schema,
    ).select(*ATTRITION.schema)


def graph(frame: pl.DataFrame, pairs: pl.DataFrame | None = None) -> list[dg.AssetsDefinition]:
    """An asset ``attrition`` that gives ``frame``, and a reader downstream of it."""

    @dg.asset
    def attrition() -> dg.MaterializeResult[StageOutput]:
        run = StageRun("attrition", "r", "now", 0.0, 0, 0, 0, 0, None, 0, 0, "{}")
        output = StageOutput(frame, run, DROPS.empty(), pairs=pairs)
        return dg.MaterializeResult(value=output)

    @dg.asset
    def reader(attrition: pl.DataFrame) -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata={"rows": attrition.height})

    return [attrition, reader]


def materialize(
    folder: Path, frame: pl.DataFrame, pairs: pl.DataFrame | None = None, **options: list[str]
) -> dg.ExecuteInProcessResult:
    """Materialize the graph of ``frame`` into ``folder``."""
    tables = {"io_manager": ParquetTables(base_dir=str(folder))}
    return dg.materialize(graph(frame, pairs), resources=tables, raise_on_error=True, **options)


def test_a_frame_comes_back_as_it_was_with_side_tables_and_a_run_record(tmp_path: Path):
    """Asset, drops and run record lie where the contract says; the data version is the hash."""
    result = materialize(tmp_path, attrition_rows(3))
    folder = DataFolder(base_dir=str(tmp_path))
    version = file_sha256(tmp_path / "attrition.parquet")
    assert attrition_rows(3).equals(folder.read("attrition"))
    assert folder.read("drops/attrition").height == 0
    assert version == folder.run("attrition")["data_version"]
    (event,) = result.asset_materializations_for_node("attrition")
    assert event.tags is not None
    assert version == event.tags["dagster/data_version"]


def test_pairs_of_an_earlier_run_never_stay(tmp_path: Path):
    """A run that keeps pairs writes them; the next one that keeps none removes them."""
    materialize(tmp_path, attrition_rows(2), PAIRS.empty())
    folder = DataFolder(base_dir=str(tmp_path))
    assert PAIRS.schema == folder.read("pairs/attrition").schema
    materialize(tmp_path, attrition_rows(2))
    assert not folder.exists("pairs/attrition")


def test_equal_frames_give_equal_bytes_however_they_were_put_together(tmp_path: Path):
    """Chunks and slices of a frame leave no trace in the file."""
    whole = attrition_rows(5)
    pieces = pl.concat([whole[:2], whole[2:]], rechunk=False)
    write_parquet(whole, tmp_path / "a.parquet")
    write_parquet(pieces, tmp_path / "b.parquet")
    write_parquet(pl.concat([attrition_rows(3), whole])[3:], tmp_path / "c.parquet")
    assert 1 == len({file_sha256(tmp_path / f"{name}.parquet") for name in "abc"})


def test_a_frame_of_another_table_is_refused_and_the_old_file_stays(tmp_path: Path):
    """Before anything is replaced; a table of an earlier version is named, not loaded."""
    materialize(tmp_path, attrition_rows(2))
    before = file_sha256(tmp_path / "attrition.parquet")
    with pytest.raises(SchemaError, match="'rows'"):
        materialize(tmp_path, attrition_rows(2).drop("rows"))
    assert before == file_sha256(tmp_path / "attrition.parquet")
    write_parquet(DROPS.empty(), tmp_path / "attrition.parquet")
    run_path(tmp_path, "attrition").unlink()
    with pytest.raises(SchemaError, match="attrition"):
        materialize(tmp_path, attrition_rows(2), selection=["reader"])


def test_conform_names_every_kind_of_fault():
    """Repeated keys, nulls, wrong types and unknown columns; an asset without a table."""
    table = Table("t", (Column("a", pl.String(), "key"),), unique=("a",))
    for frame, fault in (
        (pl.DataFrame({"a": ["x", "x"]}), "rows repeat a"),
        (pl.DataFrame({"a": [None]}, schema={"a": pl.String}), "'a' .*1 nulls"),
        (pl.DataFrame({"a": [1]}), "'a' .*String"),
        (pl.DataFrame({"a": ["x"], "b": [1]}), "'b'"),
    ):
        with pytest.raises(SchemaError, match=fault):
            table.conform(frame)
    with pytest.raises(SchemaError, match="nowhere"):
        table_of("nowhere")


# Temporary files


WRITER = """
import sys, time
from pathlib import Path
from resources.store.temporary import aside
with aside(Path(sys.argv[1]), sys.argv[2]) as temporary:
    if sys.argv[2] == "writing":
        temporary.mkdir()
        temporary = temporary / "part"
    temporary.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def writer(target: Path, ending: str = "partial") -> subprocess.Popen[str]:
    """A process in the middle of writing."""
    words = [sys.executable, "-c", WRITER, str(target), ending]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    return process


def kill(process: subprocess.Popen[str]) -> None:
    """As the system does when memory runs out."""
    process.kill()
    process.communicate()


@pytest.mark.parametrize("ending", ["partial", "building", "writing"])
def test_what_a_killed_writer_left_is_removed_and_a_living_ones_is_not(tmp_path: Path, ending: str):
    """By the next writer into the folder, whatever that one writes; the old file stays."""
    (tmp_path / "dead").write_text("old")
    dead, living = writer(tmp_path / "dead", ending), writer(tmp_path / "living", ending)
    try:
        kill(dead)
        assert "old" == (tmp_path / "dead").read_text()
        assert 3 == len(list(tmp_path.iterdir()))
        replace_file(tmp_path / "other", lambda path: path.write_text("whole"))
        (left,) = [path for path in tmp_path.iterdir() if path.name not in {"other", "dead"}]
        assert left.name.startswith(".living.")
    finally:
        kill(living)
    remove_abandoned(tmp_path)
    assert {"other", "dead"} == {path.name for path in tmp_path.iterdir()}


def test_a_process_with_the_number_of_a_dead_one_removes_its_files(tmp_path: Path):
    """In a container every start may have the same number; its own files are in use."""
    with aside(tmp_path / "a") as own:
        start = own.name.split("-")[2].split(".")[0]
        own.write_text("in use")
        earlier = own.with_name(own.name.replace(start, "0" * 8))
        earlier.write_text("left")
        remove_abandoned(tmp_path)
        assert (True, False) == (own.exists(), earlier.exists())
    assert [] == list(tmp_path.iterdir())


def test_files_of_another_machine_and_of_earlier_versions_go_after_an_hour(tmp_path: Path):
    """Whether their writers live is not known; nothing that is no temporary name is touched."""
    names = [f".a.{'0' * 8}-1-{'1' * 8}.partial", ".a.parquet.99.partial", ".writing-abc"]
    names += [f".decomposerl.duckdb.{'2' * 32}.building.wal"]
    kept = [".a.partial", "a.partial", ".gitignore", "x.1-2-3.partial", ".hidden"]
    for name in (*names, *kept):
        (tmp_path / name).write_text("")
    remove_abandoned(tmp_path)
    assert len(names) + len(kept) == len(list(tmp_path.iterdir()))
    hours_ago = time.time() - 2 * 3600
    for path in tmp_path.iterdir():
        os.utime(path, (hours_ago, hours_ago))
    remove_abandoned(tmp_path)
    assert set(kept) == {path.name for path in tmp_path.iterdir()}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    """A full disk, for one, is reported without a name: the target's is added."""
    target = tmp_path / "a"
    target.write_text("old")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        replace_file(target, fail)
    assert [("a", "old")] == [(path.name, path.read_text()) for path in tmp_path.iterdir()]


def test_the_next_start_finds_the_sample_without_left_overs(sample: Sample, tmp_path: Path):
    """What a killed generator left is gone, even where nothing is written."""
    target = write_sample(sample, tmp_path / fingerprint())
    kill(writer(target, "writing"))
    assert 2 == len(list(tmp_path.iterdir()))
    assert target == ensure_sample(tmp_path)
    assert [target] == list(tmp_path.iterdir())


# Arrays that the workers of a step share


def test_groups_are_written_replaced_mapped_and_removed(tmp_path: Path):
    """What is read is on disk and read-only; replacing one array of a group leaves the others."""
    arrays = FolderArrays(tmp_path)
    arrays.write("a", {"x": np.arange(5), "y": np.ones((0, 3), np.float32)})
    before = arrays.read("a")["x"]
    arrays.write("a", {"x": np.arange(9)})
    assert isinstance(before, np.memmap)
    assert not before.flags.writeable
    assert [0, 1, 2, 3, 4] == before.tolist()  # a reader keeps what it has mapped
    assert {"x": 9, "y": 0} == {name: len(array) for name, array in arrays.read("a").items()}
    arrays.remove("a")
    assert [] == list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        arrays.read("a")


def test_the_folder_goes_with_the_step_also_after_an_error(tmp_path: Path):
    """Nothing stays on disk."""

    def fails() -> None:
        with shared_tasks(InProcessMapper(), tmp_path / "tasks") as tasks:
            tasks.arrays.write("a", {"x": np.arange(5)})
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert [] == list((tmp_path / "tasks").iterdir())


def test_mapped_files_serve_all_searches(tmp_path: Path):
    """Processes join a frame's texts; cosines of blocks; nothing stays on disk."""
    claims, vectors = pl.Series(synthetic_claims(1_500)), clustered_vectors(300, 48)
    settings = DedupSettings(task_memory_mb=1)
    with shared_tasks(ProcessMapper(2), tmp_path) as tasks:
        parts = text_parts(claims, settings)
        words = keep_first_in_parts(parts, 0.7, tasks)
    with shared_tasks(InProcessMapper(), tmp_path) as tasks:
        split = (vectors[start : start + 125] for start in range(0, len(vectors), 125))
        blocks = VectorBlocks.write(tasks.arrays, "vectors", split)
        meaning = keep_first_in_blocks(blocks, 0.7, tasks)
        blocks.remove()
        assert [] == list(tmp_path.glob("*/*"))
    assert len(parts) > 2
    assert np.array_equal(keep_first_duplicates(claims.to_list(), 0.7).matched, words.matched)
    assert np.array_equal(keep_first_cosine(vectors, 0.7).matched, meaning.matched)
