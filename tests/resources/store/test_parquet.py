"""The Parquet IO manager: what it writes it reads, whole or not at all, the same bytes twice."""

from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from decomposerl.errors import SchemaError
from decomposerl.schemas import ATTRITION, DROPS, PAIRS
from decomposerl.table import Column, Table
from resources.store.parquet import (
    DataFolder,
    ParquetTables,
    StageOutput,
    StageRun,
    file_sha256,
    table_of,
    write_parquet,
)


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
    """The asset, its drops and its run record lie where the data contract says.

    Staleness follows the data: the event's data version is the file's SHA-256.
    """
    result = materialize(tmp_path, attrition_rows(3))
    folder, version = (
        DataFolder(base_dir=str(tmp_path)),
        file_sha256(tmp_path / "attrition.parquet"),
    )
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
    """A schema fault stops the write before anything is replaced."""
    materialize(tmp_path, attrition_rows(2))
    before = file_sha256(tmp_path / "attrition.parquet")

    with pytest.raises(SchemaError, match="'rows'"):
        materialize(tmp_path, attrition_rows(2).drop("rows"))

    assert before == file_sha256(tmp_path / "attrition.parquet")


def test_a_file_swapped_under_the_graph_is_refused_on_reading(tmp_path: Path):
    """A Parquet file that holds another table is named, not loaded."""
    materialize(tmp_path, attrition_rows(2))
    write_parquet(DROPS.empty(), tmp_path / "attrition.parquet")

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
