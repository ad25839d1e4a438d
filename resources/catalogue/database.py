"""The DuckDB catalogue: one small file to browse the whole data folder with SQL.

``decomposerl.duckdb`` has views over the Parquet, with paths relative to the data folder, and small
results as tables. What is not materialized is an empty view or table with the right columns, and a
column that files of an earlier version lack reads as null. Views over trained policies show, where
several attempts of a run sampled a step, the rows of the attempt that counts: one that resumed from
step r replaces everything that earlier ones sampled from r on. The
file is built under another name and renamed over the old one, so an open reader is not disturbed.

DuckDB is imported in functions: loaded before torch, it prints a page of warnings at exit.
"""

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import polars as pl

from decomposerl import schemas
from decomposerl.claims.source import Benchmark, Source
from decomposerl.errors import ConfigError, DecomposeRLError, SchemaError
from decomposerl.evaluation.leaderboard import wide_leaderboard
from decomposerl.funnel.lineage import STAGE_TABLES
from decomposerl.reports.attrition import STAGES, StageFrames, attrition, attrition_wide
from decomposerl.table import Column, Table
from resources.store.integrity import read_parquet, read_record, verified
from resources.store.rows import counted_rows
from resources.store.temporary import aside

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_SQL_TYPES = {
    pl.String(): "VARCHAR",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
}


def rows_of(
    patterns: Sequence[str], columns: Sequence[Column], computed: str = "", read: str = "*"
) -> str:
    """The query for all rows of the files; without a pattern one of the same types and no row.

    A column that some file lacks is null there. ``computed`` are further expressions, each ended
    by a comma, that may use the column ``filename``; ``read`` are the columns taken from the files.
    """
    typed = ", ".join(f'NULL::{_sql_type(one.dtype)} AS "{one.name}"' for one in columns)
    if not patterns:
        return f"SELECT {typed} WHERE false"
    listed = ", ".join("'" + pattern.replace("'", "''") + "'" for pattern in patterns)
    files = f"read_parquet([{listed}], union_by_name = true, filename = true)"
    return (
        f"SELECT {quoted_names(columns)} FROM (SELECT {computed}{read} FROM {files} "  # noqa: S608 - constants of this package
        f"UNION ALL BY NAME SELECT {typed} WHERE false)"
    )


def quoted_names(columns: Iterable[Column]) -> str:
    """The columns' names, quoted and comma-separated."""
    return ", ".join(f'"{one.name}"' for one in columns)


def matching(data: Path, patterns: Iterable[str]) -> list[str]:
    """The patterns that match a file: DuckDB refuses one that matches none."""
    return [pattern for pattern in patterns if any(data.glob(pattern))]


def _sql_type(dtype: object) -> str:
    if isinstance(dtype, pl.Struct):
        fields = dtype.to_schema().items()
        return f"STRUCT({', '.join(f'{name} {_sql_type(kind)}' for name, kind in fields)})"
    if isinstance(dtype, pl.List):
        return f"{_sql_type(dtype.inner)}[]"
    return _SQL_TYPES[cast("pl.DataType", dtype)]


ATTEMPTS = Table(
    "training_attempts",
    (
        Column("experiment", pl.String(), "name of the recipe"),
        Column("attempt", pl.Int64(), "which start of the run, from 1"),
        Column("resumed_from", pl.Int64(), "optimizer steps done before it"),
    ),
    unique=("experiment", "attempt"),
)
_PLACED = (
    Column("experiment", pl.String(), "name of the recipe"),
    Column("split", pl.String(), "train, held_out_sampled or held_out_greedy"),
    Column("step", pl.Int64(), "optimizer steps done"),
    Column("attempt", pl.Int64(), "which start of the run sampled it"),
)
_SPLITS = ("held_out_sampled", "held_out_greedy")
_FILE = r"policy/([^/]+)/(?:(held_out_[a-z]+)/)?([a-z_]+)/step-(\d+)\.attempt-(\d+)\.parquet$"


@dataclass(frozen=True, slots=True)
class _Log:
    """A view over the files of a log; each file is a step of an attempt."""

    name: str
    folder: str
    table: Table

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the files, after those read from their names."""
        own = {column.name for column in self.table.columns}
        placed = tuple(column for column in _PLACED if column.name not in own)
        return (*placed, *self.table.columns)


_LOGS = (
    _Log("rollouts", "rollouts", schemas.ROLLOUTS),
    _Log("training_rewards", "rewards", schemas.REWARDS),
    _Log("training_judge_calls", "judge_calls", schemas.JUDGE_CALLS),
)


def attempts(data: Path) -> pl.DataFrame:
    """Every start of every run in the folder, as ``ATTEMPTS``."""
    # Imported late: it loads Dagster, which browsing does not need.
    from resources.training.run_store import read_attempts

    rows = [
        (folder.parent.name, start.attempt, start.resumed_from)
        for folder in sorted(data.glob("policy/*/run.json"))
        for start in read_attempts(folder.parent)
    ]
    return pl.DataFrame(rows, schema=ATTEMPTS.schema, orient="row")


def training_views(data: Path) -> list[str]:
    """The statements; the views read the table ``training_attempts``."""
    return [f"CREATE VIEW curves AS {_curves(data)}"] + [
        f"CREATE VIEW {log.name} AS {_steps(log, data)}" for log in _LOGS
    ]


def _curves(data: Path) -> str:
    return rows_of(matching(data, ["policy/*/curves.parquet"]), schemas.CURVES.columns)


def _steps(log: _Log, data: Path) -> str:
    """The rows that count. A held-out measure at step r stays valid when a run resumes from r."""
    folders = ("", *(f"{split}/" for split in _SPLITS))
    candidates = [f"policy/*/{folder}{log.folder}/step-*.parquet" for folder in folders]
    patterns = matching(data, candidates)
    from_names = {column.name for column in _PLACED}
    own = quoted_names(column for column in log.table.columns if column.name not in from_names)
    rows = rows_of(patterns, log.columns, _FROM_NAMES, own)
    if not patterns:
        return rows
    return (
        f"{rows} AS placed "  # noqa: S608 - constants of this package
        "WHERE NOT EXISTS (SELECT 1 FROM training_attempts AS later "
        "WHERE later.experiment = placed.experiment AND later.attempt > placed.attempt "
        "AND later.resumed_from < placed.step + (placed.split = 'train')::INTEGER) "
        "QUALIFY attempt = max(attempt) OVER (PARTITION BY experiment, split, step)"
    )


def _part(number: int) -> str:
    return f"regexp_extract(filename, '{_FILE}', {number})"


_FROM_NAMES = (
    f"{_part(1)} AS experiment, coalesce(nullif({_part(2)}, ''), 'train') AS split, "
    f"{_part(4)}::BIGINT AS step, {_part(5)}::BIGINT AS attempt, "
)


_FILE_PARTS = ("benchmark", "system")
_OF_BENCHMARKS = ("benchmark", "predictions", "scores")
_OF_SYSTEMS = "calibrations"
_STAGE_DROPS, _PAIRS, _CELLS = "drops", "pairs", "selection_cells"
_STAGE_TABLES = {table.name: table for table in STAGE_TABLES.values()}.values()


@dataclass(frozen=True, slots=True)
class Current:
    """The sources and benchmarks whose files count; None: all that are on disk.

    A removed corpus leaves its files in the data folder; they must no longer be counted.
    """

    sources: frozenset[str] | None = None
    benchmarks: frozenset[str] | None = None

    def patterns(self, data: Path, folder: str) -> list[str]:
        """Glob patterns relative to ``data``, each of which matches a Parquet file.

        ``folder`` has one file per corpus: a benchmark's where its name ends with ``benchmark``.
        """
        return matching(data, _parquet(folder, self._names(folder)))

    def files(self, data: Path, folder: str) -> list[Path]:
        """The files of ``patterns``, sorted."""
        return sorted(p for pattern in self.patterns(data, folder) for p in data.glob(pattern))

    def counts(self, record: Path) -> bool:
        """Whether a run record is that of a stage or of a current corpus."""
        folder, _, name = record.stem.partition("__")
        names = self._names(folder) if name else None
        return names is None or name.partition("__")[0] in names

    def _names(self, folder: str) -> frozenset[str] | None:
        # One file per stage, not per corpus.
        if folder in {_STAGE_DROPS, _PAIRS, _CELLS, _OF_SYSTEMS}:
            return None
        return self.benchmarks if folder.endswith(_OF_BENCHMARKS) else self.sources


def _parquet(folder: str, names: Iterable[str] | None, file: str = ".parquet") -> list[str]:
    stems = ["*"] if names is None else [glob.escape(name) for name in sorted(names)]
    return [f"{folder}/{stem}{file}" for stem in stems]


@dataclass(frozen=True, slots=True)
class _View:
    """A view over the Parquet files of ``folders``, or over the file of its name."""

    name: str
    table: Table
    folders: tuple[str, ...] = ()

    def select(self, data: Path, current: Current) -> str:
        return rows_of(self._patterns(data, current), self.table.columns)

    def _patterns(self, data: Path, current: Current) -> list[str]:
        if self.folders:
            return [p for folder in self.folders for p in current.patterns(data, folder)]
        return matching(data, [f"{self.name}.parquet"])


@dataclass(frozen=True, slots=True)
class _RejectsView(_View):
    """A view with a further column ``read_for``: ``source`` or ``benchmark``, by the folder."""

    def select(self, data: Path, current: Current) -> str:
        columns = (*self.table.columns, Column("read_for", pl.String(), "by the folder"))
        computed = (
            "CASE WHEN regexp_matches(filename, 'benchmark/[^/]+$') "
            "THEN 'benchmark' ELSE 'source' END AS read_for, "
        )
        return rows_of(self._patterns(data, current), columns, computed)


@dataclass(frozen=True, slots=True)
class _SystemsView(_View):
    """A view over ``<name>/<benchmark>/<system>.parquet``.

    ``add_names``: benchmark and system are not in the files and are read from their names.
    """

    add_names: bool = False

    def select(self, data: Path, current: Current) -> str:
        patterns = matching(data, _parquet(self.name, current.benchmarks, "/*.parquet"))
        if not self.add_names:
            return rows_of(patterns, self.table.columns)
        columns = tuple(Column(name, pl.String(), "by the file") for name in _FILE_PARTS)
        computed = "".join(
            f"regexp_extract(filename, '/([^/]+)/([^/]+)\\.parquet$', {number}) AS {name}, "
            for number, name in enumerate(_FILE_PARTS, start=1)
        )
        return rows_of(patterns, (*columns, *self.table.columns), computed)


_VIEWS = (
    _View("claims", schemas.CLAIMS, ("claims",)),
    _View("benchmarks", schemas.BENCHMARK_CLAIMS, ("benchmark",)),
    # A row that a test set leaves to training is not dropped from training: a separate view.
    _View("drops", schemas.DROPS, (_STAGE_DROPS, "drops/claims")),
    _View("benchmark_drops", schemas.DROPS, ("drops/benchmark",)),
    _View("pairs", schemas.PAIRS, (_PAIRS,)),
    _View("selection_cells", schemas.SELECTION_CELLS, (_CELLS,)),
    _RejectsView("rejects", schemas.REJECTS, ("rejects", "rejects/benchmark")),
    _View("chat_replies", schemas.CHAT_REPLIES),
    *(_View(table.name, table) for table in _STAGE_TABLES),
)
_SYSTEMS_VIEWS = (
    _SystemsView("predictions", schemas.PREDICTIONS),
    _SystemsView("calls", schemas.CALLS, add_names=True),
    _SystemsView("scores", schemas.SCORES),
)
_EXPLAIN = """
CREATE MACRO explain(id) AS TABLE
SELECT j.*, m.claim AS matched_claim
FROM journey j
LEFT JOIN (
    SELECT claim_id, claim FROM claims UNION SELECT claim_id, claim FROM benchmarks
) m ON m.claim_id = j.matched_claim_id
WHERE starts_with(j.claim_id, id)
ORDER BY j.claim_id, j.stage_order
"""


def views(data: Path, current: Current) -> list[str]:
    """The statements that create every view and the macro, in an order that works."""
    stages, systems = (
        [f"CREATE VIEW {view.name} AS {view.select(data, current)}" for view in group]
        for group in (_VIEWS, _SYSTEMS_VIEWS)
    )
    journey = f"CREATE VIEW journey AS {_journey()}"
    return [*stages, journey, _EXPLAIN, *training_views(data), *systems]


def _journey() -> str:
    """Every claim once at every stage: kept, or dropped with its reason."""
    head = "claim_id, source, label"
    nothing = (
        "'kept' AS outcome, '' AS step, '' AS reason, NULL::DOUBLE AS value, "
        "NULL::DOUBLE AS threshold, NULL::VARCHAR AS matched_claim_id, "
        "NULL::VARCHAR AS matched_source, NULL::VARCHAR AS engine"
    )
    kept = [
        f"SELECT {head}, {order} AS stage_order, '{stage}' AS stage, {nothing} FROM {stage}"  # noqa: S608 - constants of this module
        for order, stage in enumerate(STAGES)
    ]
    orders = " ".join(f"WHEN '{stage}' THEN {i}" for i, stage in enumerate(STAGES))
    dropped = (
        f"SELECT {head}, CASE stage {orders} ELSE 0 END AS stage_order, stage, "  # noqa: S608 - constants of this module
        "'dropped' AS outcome, step, reason, value, threshold, matched_claim_id, "
        "matched_source, engine FROM drops"
    )
    return " UNION ALL ".join([*kept, dropped])


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
