"""The DuckDB catalogue: one small file to browse the whole data folder with SQL.

``decomposerl.duckdb`` has views over the Parquet, with paths relative to the data folder, and small
results as tables. What is not materialized is an empty view or table with the right columns. The
file is built under another name and renamed over the old one, so an open reader is not disturbed.

DuckDB is imported in functions: loaded before torch, it prints a page of warnings at exit.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from decomposerl import schemas
from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import ConfigError, DecomposeRLError, SchemaError
from decomposerl.evaluation.leaderboard import wide_leaderboard
from decomposerl.reports.attrition import STAGES, StageFrames, attrition, attrition_wide
from decomposerl.table import Table
from resources.catalogue.views import ATTEMPTS, Current, attempts, views
from resources.store.integrity import read_parquet, read_record, verified
from resources.store.rows import counted_rows
from resources.store.temporary import aside

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FILE = "decomposerl.duckdb"
_KEPT = ("source", "label")
_DROPPED = (*_KEPT, "step", "reason")


def build_catalogue(
    data: Path,
    sources: Sequence[Source] | None = None,
    benchmarks: Sequence[Benchmark] | None = None,
) -> Path:
    """Build the catalogue of ``data`` and swap it in; returns its path.

    Only files of these ``sources`` and ``benchmarks`` count (default: every file in the folder,
    also of removed corpora). Titles and the paper's raw counts are those of ``sources`` (default:
    the built-in catalogue).

    Raises:
        ConfigError: the folder's path has a character that is a pattern for DuckDB.
        SchemaError: a file of the folder does not have the schema of its path.
    """
    import duckdb

    from decomposerl.claims.catalogue import SOURCES

    data = data.resolve()
    unusable = sorted(set(str(data)) & set(",*?["))
    if unusable:
        raise ConfigError(f"DuckDB cannot take {unusable[0]!r} in a path: rename the folder {data}")
    data.mkdir(parents=True, exist_ok=True)
    with _swapped_in(data / FILE) as building:
        try:
            connection = duckdb.connect(building, config={"file_search_path": str(data)})
            with connection:
                titled = SOURCES if sources is None else sources
                _fill(connection, data, titled, Current(_names(sources), _names(benchmarks)))
        except (duckdb.Error, pl.exceptions.PolarsError) as error:
            raise SchemaError(f"the catalogue of {data} cannot be built: {error}") from error
    return data / FILE


def open_catalogue(data: Path) -> "DuckDBPyConnection":
    """The catalogue of ``data``, read-only; independent of the working directory.

    Raises:
        DecomposeRLError: there is no catalogue yet, it is damaged, or another program writes to it.
    """
    import duckdb

    path = data.resolve() / FILE
    if not path.is_file():
        raise DecomposeRLError(
            f"there is no catalogue in {data.resolve()}. Build it with: "
            "decomposerl run catalog --upstream"
        )
    try:
        config = {"file_search_path": str(path.parent)}
        return duckdb.connect(path, read_only=True, config=config)
    except duckdb.Error as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: Exception) -> DecomposeRLError:
    why = "is damaged; the tables are not. Build it again with: decomposerl run catalog"
    if "lock on file" in str(error):
        why = f"is open for writing in a program (open it there with 'duckdb -readonly {FILE}')"
    return DecomposeRLError(f"{path} {why}: {error}")


def read_table(data: Path, name: str) -> pl.DataFrame:
    """One of the catalogue's small tables as a frame.

    Raises:
        DecomposeRLError: as ``open_catalogue``; or the catalogue lacks the table.
    """
    import duckdb

    with open_catalogue(data) as connection:
        try:
            frame: pl.DataFrame = connection.table(name).pl()
        except duckdb.CatalogException as error:
            raise SchemaError(f"the catalogue of {data} has no table '{name}'") from error
        except duckdb.Error as error:
            raise _unusable(data / FILE, error) from error
        return frame


def engines_of(data: Path) -> list[str]:
    """The engines that made the funnel's current data, each once, sorted.

    Raises:
        DecomposeRLError: as ``open_catalogue``.
    """
    runs = read_table(data, "stage_runs")
    evaluated = pl.col("stage").str.contains("^(predictions|calibrations)/")
    engines = runs.filter(~evaluated)["engine"].drop_nulls()
    return sorted({name.strip() for joined in engines for name in joined.split(",")} - {""})


def read_stages(data: Path, current: Current | None = None) -> list[StageFrames]:
    """The materialized stages of ``data``, in funnel order.

    ``kept`` and ``drops`` are counts. Stage ``claims`` is all ``current`` sources together, by
    default all with files in the folder.
    """
    current = Current() if current is None else current
    stages = []
    claims = current.files(data, "claims")
    if claims:
        stages.append(
            StageFrames(
                STAGES[0],
                0,
                counted_rows(claims, _KEPT),
                _dropped(current.files(data, "drops/claims")),
                _all(current.files(data, "rejects"), schemas.REJECTS),
            )
        )
    for order, stage in enumerate(STAGES[1:], start=1):
        if (data / f"{stage}.parquet").is_file():
            kept = counted_rows([data / f"{stage}.parquet"], _KEPT)
            drops = _dropped(data.glob(f"drops/{stage}.parquet"))
            stages.append(StageFrames(stage, order, kept, drops))
    return stages


def _names(corpora: Sequence[Source] | Sequence[Benchmark] | None) -> frozenset[str] | None:
    return None if corpora is None else frozenset(corpus.name for corpus in corpora)


def _fill(
    connection: "DuckDBPyConnection", data: Path, sources: Sequence[Source], current: Current
) -> None:
    runs = _stage_runs(data, current)  # first, as it compares every file with its record
    _store(connection, ATTEMPTS.name, attempts(data))  # the views on training read it
    for statement in views(data, current):
        connection.execute(statement)
    counted = attrition(read_stages(data, current))
    raw = {s.name: s.paper_raw for s in sources if s.paper_raw is not None}
    tables = {
        "attrition": counted,
        "attrition_wide": attrition_wide(counted, raw, {s.name: s.title for s in sources}),
        "drops_by_reason": _reasons(counted),
        "stage_runs": runs,
        **_evaluation(data),
    }
    for name, frame in tables.items():
        _store(connection, name, frame)
    connection.execute("CHECKPOINT")


def _evaluation(data: Path) -> dict[str, pl.DataFrame]:
    """The leaderboard in both forms, and the comparison; empty where there is none."""
    board = _all(data.glob("leaderboard.parquet"), schemas.LEADERBOARD)
    return {
        "leaderboard": board,
        "leaderboard_wide": wide_leaderboard(board),
        "comparison": _all(data.glob("comparison.parquet"), schemas.COMPARISON),
    }


def _store(connection: "DuckDBPyConnection", name: str, frame: pl.DataFrame) -> None:
    connection.register("incoming", frame.to_arrow())
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")  # noqa: S608 - constants of this module
    connection.unregister("incoming")


def _reasons(counted: pl.DataFrame) -> pl.DataFrame:
    return (
        counted.filter(pl.col("outcome") != "kept")
        .group_by("stage_order", "stage", "outcome", "step", "reason", "source")
        .agg(pl.col("rows").sum())
        .sort(["stage_order", "rows", "reason", "source"], descending=[False, True, False, False])
    )


def _stage_runs(data: Path, current: Current) -> pl.DataFrame:
    records = sorted(filter(current.counts, data.glob("stage_runs/*.json")))
    rows = [read_record(path) for path in records]
    for name in (name for record in rows for name in record.pop("files", ())):
        verified(data / name)
    frame = pl.DataFrame(rows, schema=schemas.STAGE_RUNS.schema)
    return schemas.STAGE_RUNS.conform(frame)


def _dropped(paths: Iterable[Path]) -> pl.DataFrame:
    """Counts of dropped rows; empty where no file is there."""
    none = schemas.DROPS.empty().select(*_DROPPED, rows=pl.lit(0, dtype=pl.Int64()))
    return counted_rows(files, _DROPPED) if (files := list(paths)) else none


def _all(paths: Iterable[Path], table: Table) -> pl.DataFrame:
    """All rows; a column missing in a file of an earlier version is null."""
    frames = [table.empty(), *(read_parquet(path) for path in paths)]
    return pl.concat(frames, how="diagonal").select(list(table.schema))


@contextmanager
def _swapped_in(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target``, renamed over it unless the body raises."""
    with aside(target, "building") as building:
        yield building
        # A write-ahead log of a program that wrote to the old file must not apply to the new one.
        target.with_name(f"{target.name}.wal").unlink(missing_ok=True)
        building.replace(target)
