"""The Parquet IO manager: atomic, schema-checked, content-hashed.

An asset's ``StageOutput`` is stored as ``<key>.parquet`` (a partition's as
``<key>/<partition>.parquet``) with its drops, rejects, pairs, selection cells, calls and run
record beside it. Each file is renamed into place, side tables first and the run record last, so
a killed run leaves the previous data or the new data. The SHA-256 of the Parquet file is the
asset's data version.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import dagster as dg
import polars as pl
from pydantic import PrivateAttr
from upath import UPath

from decomposerl import schemas
from decomposerl.errors import SchemaError, SourceFileError, TooManyRejects
from decomposerl.funnel.lineage import STAGE_TABLES
from decomposerl.table import Table
from decomposerl.training.studies import STUDIES
from resources.profile_defaults import ProfileDefaults
from resources.store.integrity import (
    SIDE_OF,
    file_sha256,
    note_written,
    read_parquet,
    read_record,
    record_again,
    run_path,
    write_record,
)
from resources.store.paths import LocalPath
from resources.store.rows import StoredRows, counted_rows
from resources.store.temporary import aside, flush, naming, replace_file

_TABLES = {
    **STAGE_TABLES,
    "chat_replies": schemas.CHAT_REPLIES,
    "attrition": schemas.ATTRITION,
    "calibrations": schemas.CALIBRATIONS,
    "leaderboard": schemas.LEADERBOARD,
    "comparison": schemas.COMPARISON,
    "judge_distillation": schemas.JUDGE_EXAMPLES,
    "tiny_judge_agreement": schemas.JUDGE_AGREEMENT,
    "study/judge_rewards": schemas.JUDGE_STUDY,
    "study/selectors": schemas.SELECTOR_STUDY,
    **{f"study/{one.name}": schemas.TRAINING_STUDY for one in STUDIES},
}
_FOLDERS = {
    "claims": schemas.CLAIMS,
    "benchmark": schemas.BENCHMARK_CLAIMS,
    "predictions": schemas.PREDICTIONS,
    "scores": schemas.SCORES,
}


def table_of(key: str) -> Table:
    """The table that an asset's frame must conform to (``key`` has slashes).

    Raises:
        SchemaError: no table is declared for the key.
    """
    folder, _, name = key.partition("/")
    table = _TABLES.get(key) or (_FOLDERS.get(folder) if name else None)
    if table is None:
        raise SchemaError(f"no table is declared for asset '{key}'")
    return table


@dataclass(frozen=True, slots=True)
class StageRun:
    """Record of one materialization; the columns of ``schemas.STAGE_RUNS``."""

    stage: str
    run_id: str
    finished_at: str
    seconds: float
    rows_in: int
    rows_kept: int
    rows_dropped: int
    rows_rejected: int
    engine: str | None
    engine_calls: int
    engine_hits: int
    config: str
    step_engines: str = "{}"
    status: str = "ok"
    data_version: str = ""
    entry: str = ""


@dataclass(frozen=True, slots=True)
class StageOutput:
    """A stage's frame with its drops (``DROPS``), rejects (``REJECTS``) and run record.

    ``StoredRows`` are in a temporary file beside the target, which is renamed.
    ``pairs`` (``PAIRS``) is set where the run keeps them, ``cells`` (``SELECTION_CELLS``) where
    the stage selects, ``calls`` (``CALLS``) where it predicts, ``doubtful`` (``DOUBTFUL``) where a
    test set has a list of doubtful labels.
    """

    kept: pl.DataFrame | StoredRows
    run: StageRun
    drops: pl.DataFrame | StoredRows | None = None
    rejects: pl.DataFrame | None = None
    pairs: pl.DataFrame | None = None
    cells: pl.DataFrame | None = None
    calls: pl.DataFrame | None = None
    doubtful: pl.DataFrame | None = None


def write_parquet(frame: pl.DataFrame, target: Path) -> None:
    """Write one frame atomically: zstd, with statistics, rows in order."""
    replace_file(target, lambda path: _write(frame, path))


def _write(frame: pl.DataFrame, path: Path) -> None:
    frame.rechunk().write_parquet(path, compression="zstd", statistics=True)


@contextmanager
def _written(rows: pl.DataFrame | StoredRows, table: Table, target: Path) -> Iterator[Path]:
    """A complete file of ``table`` beside ``target``, which is removed unless it is renamed.

    Raises:
        SchemaError: a frame does not conform; written rows were checked when they were.
    """
    if isinstance(rows, StoredRows):
        yield rows.path
        return
    frame = table.conform(rows)
    target.parent.mkdir(parents=True, exist_ok=True)
    with aside(target) as temporary:
        with naming(target):
            _write(frame, temporary)
        yield temporary


class DataFolder(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """Reads the files under ``DECOMPOSERL_DATA``; the IO manager writes them."""

    base_dir: LocalPath

    @property
    def path(self) -> Path:
        """The folder itself."""
        return Path(self.base_dir)

    def file(self, key: str) -> Path:
        """The Parquet file of a key; it need not be there."""
        return self.path / f"{key}.parquet"

    def read(self, key: str, columns: list[str] | None = None) -> pl.DataFrame:
        """Some columns of one Parquet file by key, e.g. ``drops/rule_filtered``."""
        return read_parquet(self.file(key), columns)

    def counts(self, keys: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
        """Rows of some files by the values of ``columns``; ``rows`` counts them."""
        return counted_rows([self.file(key) for key in keys], columns)

    def exists(self, key: str) -> bool:
        """Whether the Parquet file of a key exists."""
        return self.file(key).is_file()

    @contextmanager
    def keeping_rejects(self, key: str) -> Iterator[None]:
        """Write the rejects of a corpus that has too many, and re-raise its error."""
        try:
            yield
        except TooManyRejects as error:
            path = self.path / "rejects" / f"{key.removeprefix(SIDE_OF['rejects'])}.parquet"
            if isinstance(error.rejects, pl.DataFrame):
                write_parquet(schemas.REJECTS.conform(error.rejects), path)
                record_again(self.path, key, path)
                raise TooManyRejects(f"{error}; all of them: {path}", error.rejects) from error
            raise

    def run(self, key: str) -> dict[str, Any]:
        """The run record of an asset (``schemas.STAGE_RUNS``)."""
        return read_record(run_path(self.path, key))


class ParquetTables(ProfileDefaults, dg.ConfigurableIOManager, dg.UPathIOManager):
    """Stores each asset's ``StageOutput`` under ``base_dir`` and loads frames back."""

    base_dir: LocalPath
    # Pydantic takes an unannotated class attribute for a field.
    extension: ClassVar[str | None] = ".parquet"  # type: ignore[misc]
    _base_path: UPath = PrivateAttr()

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Resolve the base folder once a run."""
        self._base_path = UPath(self.base_dir)

    def dump_to_path(self, context: dg.OutputContext, obj: StageOutput, path: UPath) -> None:
        """Write side tables, then the frame, then the run record, each atomically.

        The record has the digest of each.

        Raises:
            SchemaError: a frame does not conform to its table.
        """
        try:
            self._dump(context, obj, Path(str(path)))
        finally:
            for rows in (obj.kept, obj.drops):
                if isinstance(rows, StoredRows):  # still there if something failed
                    rows.path.unlink(missing_ok=True)

    def _dump(self, context: dg.OutputContext, obj: StageOutput, target: Path) -> None:
        base, key = Path(self.base_dir), "/".join(context.asset_key.path)
        table = table_of(key)
        if context.has_asset_partitions:
            key = f"{key}/{context.asset_partition_key}"
        sides = (
            ("drops", obj.drops, schemas.DROPS),
            ("rejects", obj.rejects, schemas.REJECTS),
            ("pairs", obj.pairs, schemas.PAIRS),
            ("selection_cells", obj.cells, schemas.SELECTION_CELLS),
            ("calls", obj.calls, schemas.CALLS),
            ("doubtful", obj.doubtful, schemas.DOUBTFUL),
        )
        with ExitStack() as open_files:
            written: dict[Path, Path] = {}
            for folder, rows, side_table in (*sides, ("", obj.kept, table)):
                side = base / folder / f"{key.removeprefix(SIDE_OF.get(folder, ''))}.parquet"
                if rows is not None:
                    file = side if folder else target
                    written[file] = open_files.enter_context(_written(rows, side_table, file))
                elif folder in {"pairs", "doubtful"}:  # an earlier run's do not belong to this one
                    side.unlink(missing_ok=True)
            digests = {file: file_sha256(temporary) for file, temporary in written.items()}
            for temporary in written.values():
                flush(temporary)
            # Renamed together: until the record follows, they do not agree with it.
            for file, temporary in written.items():
                with naming(file):
                    temporary.replace(file)
        run = dataclasses.replace(obj.run, data_version=digests[target])
        files = {file.relative_to(base).as_posix(): digest for file, digest in digests.items()}
        write_record(run_path(base, key), dataclasses.asdict(run), files)
        for file in written:
            note_written(file)
        version = dg.DataVersion(digests[target])
        context.step_context.set_data_version(context.asset_key, version)
        context.add_output_metadata({"dagster/uri": target.absolute().as_uri()})

    def load_from_path(self, context: dg.InputContext, path: UPath) -> pl.DataFrame | StoredRows:
        """Read one asset's frame and check it against its table.

        An input whose type is ``StoredRows`` is checked but not read into memory.

        Raises:
            SourceFileError: the file does not exist, or cannot be read.
            SchemaError: the file holds another table than its key declares.
        """
        key = "/".join(context.asset_key.path)
        try:
            file = Path(str(path))
            if context.dagster_type.typing_type is StoredRows:
                return StoredRows.checked(file, table_of(key))
            return table_of(key).conform(read_parquet(file))
        except FileNotFoundError as error:
            raise SourceFileError(f"{path} is not there; materialize '{key}' first") from error
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SourceFileError(
                f"{path} cannot be read ({error}); materialize '{key}' again"
            ) from error
        except SchemaError as error:
            hint = f"if an earlier version wrote {path}, materialize '{key}' again"
            raise SchemaError(f"{error}; {hint}") from error
