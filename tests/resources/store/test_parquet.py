"""The Parquet IO manager: what it writes it reads, whole or not at all, the same bytes twice."""

import os
import signal
import subprocess
import sys
from errno import ENOSPC
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from decomposerl.errors import SchemaError
from decomposerl.schemas import ATTRITION, DROPS, PAIRS
from decomposerl.table import Table
from resources.store.parquet import (
    DataFolder,
    ParquetTables,
    StageOutput,
    StageRun,
    file_sha256,
    replace_file,
    table_of,
    write_parquet,
)


def attrition_rows(rows: int) -> pl.DataFrame:
    """A small attrition frame: any declared table serves to test the IO manager."""
    return pl.DataFrame(
        {
            "stage": ["s"] * rows,
            "stage_order": list(range(rows)),
            "source": ["x"] * rows,
            "label": ["Supported"] * rows,
            "outcome": ["kept"] * rows,
            "step": [""] * rows,
            "reason": [""] * rows,
            "rows": [1] * rows,
        },
        schema=ATTRITION.schema,
    )


def run_record() -> StageRun:
    """A run record with nothing in it."""
    return StageRun("attrition", "r", "now", 0.0, 0, 0, 0, 0, None, 0, 0, "{}")


def graph(frame: pl.DataFrame, pairs: pl.DataFrame | None = None) -> list[dg.AssetsDefinition]:
    """An asset ``attrition`` that gives ``frame``, and a reader downstream of it."""

    @dg.asset
    def attrition() -> dg.MaterializeResult[StageOutput]:
        output = StageOutput(frame, run_record(), DROPS.empty(), pairs=pairs)
        return dg.MaterializeResult(value=output)

    @dg.asset
    def reader(attrition: pl.DataFrame) -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata={"rows": attrition.height})

    return [attrition, reader]


def materialize(
    folder: Path, frame: pl.DataFrame, pairs: pl.DataFrame | None = None
) -> dg.ExecuteInProcessResult:
    """Materialize the graph of ``frame`` into ``folder``."""
    return dg.materialize(
        graph(frame, pairs),
        resources={"io_manager": ParquetTables(base_dir=str(folder))},
        raise_on_error=True,
    )


def test_a_frame_comes_back_as_it_was_with_side_tables_and_a_run_record(tmp_path: Path):
    """The asset, its drops and its run record lie where the data contract says."""
    result = materialize(tmp_path, attrition_rows(3))

    assert result.success
    folder = DataFolder(base_dir=str(tmp_path))
    assert attrition_rows(3).equals(folder.read("attrition"))
    assert folder.read("drops/attrition").height == 0
    assert folder.run("attrition")["data_version"] == file_sha256(tmp_path / "attrition.parquet")


def test_pairs_of_an_earlier_run_never_stay(tmp_path: Path):
    """A run that keeps pairs writes them; the next one that keeps none removes them."""
    materialize(tmp_path, attrition_rows(2), PAIRS.empty())
    folder = DataFolder(base_dir=str(tmp_path))
    assert PAIRS.schema == folder.read("pairs/attrition").schema

    materialize(tmp_path, attrition_rows(2))

    assert not folder.exists("pairs/attrition")


def test_the_file_hash_is_the_data_version_dagster_sees(tmp_path: Path):
    """Staleness follows the data: the event's data version is the file's SHA-256."""
    result = materialize(tmp_path, attrition_rows(2))

    event = result.asset_materializations_for_node("attrition")[0]
    assert event.tags is not None
    assert file_sha256(tmp_path / "attrition.parquet") == event.tags["dagster/data_version"]


def test_equal_frames_give_equal_bytes_however_they_were_put_together(tmp_path: Path):
    """Chunks and slices of a frame leave no trace in the file."""
    whole = attrition_rows(5)
    pieces = pl.concat([whole[:2], whole[2:]], rechunk=False)
    write_parquet(whole, tmp_path / "a.parquet")
    write_parquet(pieces, tmp_path / "b.parquet")
    write_parquet(pl.concat([attrition_rows(3), whole])[3:], tmp_path / "c.parquet")

    assert 1 == len({file_sha256(tmp_path / f"{name}.parquet") for name in "abc"})


def test_a_frame_of_another_table_is_refused_and_the_old_file_stays(tmp_path: Path):
    """A schema fault stops the write before anything is replaced."""
    materialize(tmp_path, attrition_rows(2))
    before = file_sha256(tmp_path / "attrition.parquet")

    with pytest.raises(SchemaError, match="column 'rows' is missing"):
        materialize(tmp_path, attrition_rows(2).drop("rows"))

    assert before == file_sha256(tmp_path / "attrition.parquet")


def test_a_file_swapped_under_the_graph_is_refused_on_reading(tmp_path: Path):
    """A Parquet file that holds another table is named, not loaded."""
    materialize(tmp_path, attrition_rows(2))
    write_parquet(DROPS.empty(), tmp_path / "attrition.parquet")

    with pytest.raises(SchemaError, match=r"table 'attrition'.*materialize 'attrition' again"):
        dg.materialize(
            graph(attrition_rows(2)),
            selection=["reader"],
            resources={"io_manager": ParquetTables(base_dir=str(tmp_path))},
        )


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (pl.DataFrame({"a": ["x", "x"]}), "2 rows repeat a|1 rows repeat a"),
        (pl.DataFrame({"a": [None]}, schema={"a": pl.String}), "has 1 nulls"),
        (pl.DataFrame({"a": [1]}), "expected String"),
        (pl.DataFrame({"a": ["x"], "b": [1]}), "'b' is not in the table"),
    ],
)
def test_conform_names_every_kind_of_fault(frame: pl.DataFrame, fault: str):
    """Repeated keys, nulls, wrong types and unknown columns each have their sentence."""
    from decomposerl.table import Column

    table = Table("t", (Column("a", pl.String(), "key"),), unique=("a",))

    with pytest.raises(SchemaError, match=fault):
        table.conform(frame)


def test_an_undeclared_asset_has_no_table():
    """Every stored asset has a declared schema; a new one must declare its own."""
    with pytest.raises(SchemaError, match="no table is declared"):
        table_of("nowhere")


_WRITER = """
import sys, time
from pathlib import Path
from resources.store.temporary import replace_file
def slow(path):
    with path.open("wb") as handle:
        handle.write(b"half of the new")
        handle.flush()
        print("writing", flush=True)
        time.sleep(60)
replace_file(Path(sys.argv[1]), slow)
"""


def test_kill_in_the_middle_of_a_write_leaves_the_old_file(tmp_path: Path):
    """SIGKILL while the temporary file grows: the target still holds the old bytes."""
    target = tmp_path / "table.parquet"
    target.write_bytes(b"old")
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(target)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer.stdout:
        assert writer.stdout.readline() == "writing\n"
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(timeout=10)

    assert target.read_bytes() == b"old"


def test_a_write_that_fails_names_its_target(tmp_path: Path):
    """A full disk, for one, is reported without a name; nothing is left beside the target."""

    def full(_: Path) -> None:
        raise OSError(ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*table\.parquet'"):
        replace_file(tmp_path / "table.parquet", full)
    assert not list(tmp_path.iterdir())
