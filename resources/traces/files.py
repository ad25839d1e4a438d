"""Files of predictions and of results as traces, read some claims at a time.

One that cannot be read is named, or left out with a warning.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from decomposerl.errors import ConfigError, SourceFileError
from decomposerl.reports.shown_confidence import stored_confidence
from decomposerl.reports.trace_page.items import TraceItem, TraceOrigin
from decomposerl.reports.trace_page.results import ClaimNames, result_line
from decomposerl.schemas import PREDICTIONS
from decomposerl.traces.grammar import labels_behind, parse_trace
from decomposerl.traces.trace import Cycle
from resources.evaluation.results_folder import read_required
from resources.store.integrity import scan_parquet, verified
from resources.store.parquet import DataFolder

_CLAIM = ["claim_id", "claim", "evidence", "label", "source"]
_POLICY = "decomposerl"
_TABLE = "table of predictions"
_UNUSED = {"questions", "abstentions", "calls", "basis"}
_NEEDED = [name for name in PREDICTIONS.schema if name != "basis"]
"""Tables of earlier versions have no basis, which follows from the trace."""
Read = TypeVar("Read")
Warn = Callable[[str], object]
"""Receives a line for each file that is left out."""
_OF_ANOTHER_FORM = (KeyError, ValueError, AttributeError, TypeError)
"""What rows or JSON of another version, or of no version, lead to."""


def no_warning(_: str) -> None:
    """Leaves files out without a word."""


def read_named(path: Path, read: Callable[[Path], Read]) -> Read:
    """What ``read`` makes of a file.

    Raises:
        SourceFileError: it cannot be read, or has another form; the message names it.
    """
    with naming(path):
        return read(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in what reading it raises.

    Raises:
        SourceFileError: it cannot be read, or has another form.
    """
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceFileError(f"{path} cannot be read: {error}") from error
    except _OF_ANOTHER_FORM as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise SourceFileError(f"{path} is cut off or of another version: {why}") from error


def require_columns(path: Path, columns: Iterable[str], what: str) -> None:
    """Check a Parquet file's columns without reading its rows.

    Raises:
        SourceFileError: it cannot be read, or is no ``what``, since it lacks a column.
    """
    schema = read_named(path, lambda file: pl.read_parquet_schema(verified(file)))
    missing = sorted(set(columns) - set(schema))
    if missing:
        raise SourceFileError(f"{path} is no {what}: it has no '{missing[0]}'")


def readable(path: Path, columns: Iterable[str], what: str, warn: Warn) -> bool:
    """Whether a Parquet file has these columns; if not, ``warn`` receives why."""
    try:
        require_columns(path, columns, what)
    except SourceFileError as error:
        warn(f"left out: {error}")
        return False
    return True


@dataclass(slots=True)
class BenchmarkClaims:
    """The claims of test sets, each read once."""

    data: Path
    known: dict[str, pl.DataFrame] = field(default_factory=dict)

    def of(self, benchmark: str) -> pl.DataFrame:
        """The claims of a test set; none where it is not on disk."""
        if benchmark not in self.known:
            try:
                folder = DataFolder(base_dir=str(self.data))
                read = read_required(folder, f"benchmark/{benchmark}").select(_CLAIM)
            except (ConfigError, pl.exceptions.PolarsError, OSError):
                read = pl.DataFrame(schema=dict.fromkeys(_CLAIM, pl.String))
            self.known[benchmark] = read
        return self.known[benchmark]


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """The predictions of one system on one test set, at most ``limit`` claims (0: all)."""

    path: Path
    benchmark: str
    system: str
    claims: BenchmarkClaims
    limit: int = 0

    @classmethod
    def at(cls, path: Path, claims: BenchmarkClaims, limit: int = 0) -> "PredictionFile":
        """A file of predictions anywhere.

        Raises:
            SourceFileError: it cannot be read, or is no table of predictions.
        """
        require_columns(path, _NEEDED, _TABLE)
        head = read_named(path, lambda file: scan_parquet(file).head(1).collect())
        row = head.row(0, named=True) if head.height else {"benchmark": "", "system": path.stem}
        return cls(path, row["benchmark"], row["system"], claims, limit)

    @property
    def paths(self) -> list[Path]:
        """The file."""
        return [self.path]

    def claim_ids(self) -> list[str]:
        """The claims, in the order of the file.

        Raises:
            SourceFileError: it cannot be read.
        """

        def first(path: Path) -> pl.DataFrame:
            return scan_parquet(path).select("claim_id").slice(0, self.limit or None).collect()

        return read_named(self.path, first)["claim_id"].to_list()

    def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
        """The traces of these claims."""
        wanted = pl.col("claim_id").is_in(list(claim_ids))
        columns = [name for name in PREDICTIONS.schema if name not in _UNUSED]
        rows = read_named(
            self.path, lambda path: scan_parquet(path).filter(wanted).select(columns).collect()
        )
        claims = self.claims.of(self.benchmark).filter(wanted)
        by_id = {row["claim_id"]: row for row in claims.iter_rows(named=True)}
        for row in rows.iter_rows(named=True):
            with naming(self.path):
                item = _item(row, by_id.get(row["claim_id"], {}), str(self.path))
            yield item


def prediction_files(
    data: Path,
    systems: Sequence[str] = (),
    benchmarks: Sequence[str] = (),
    limit: int = 0,
    warn: Warn = no_warning,
) -> list[PredictionFile]:
    """The files of a data folder, by test set and system; empty filters take all.

    Damaged files and those of another version are left out; ``warn`` receives a line for each.
    """
    claims = BenchmarkClaims(data)
    paths = sorted((data / "predictions").glob("*/*.parquet"))
    return [
        PredictionFile(path, path.parent.name, path.stem, claims, limit)
        for path in paths
        if (not systems or path.stem in systems)
        and (not benchmarks or path.parent.name in benchmarks)
        and readable(path, _NEEDED, _TABLE, warn)
    ]


def _item(row: Mapping[str, Any], claim: Mapping[str, Any], file: str) -> TraceItem:
    trace = row["trace"] or {"opening": "", "cycles": []}
    warnings = () if claim else (f"claim {row['claim_id']} is not in the test set on disk",)
    own = row["method"] == _POLICY
    parsed = parse_trace(row["reply"], labels_behind(row["verdict"])) if own else None
    return TraceItem(
        claim_id=row["claim_id"],
        claim=claim.get("claim") or f"(claim {row['claim_id']}, whose text is not on disk)",
        evidence=claim.get("evidence") or "",
        origin=TraceOrigin(
            system=row["system"],
            engine=row["engine"],
            benchmark=row["benchmark"],
            source=claim.get("source") or file,
            method=row["method"],
            model=row["model"],
            protocol=row["protocol"],
            prompt_hash=row["prompt_hash"],
            seed=row["seed"],
        ),
        verdict=row["verdict"],
        status=row["parse_status"],
        cycles=tuple(Cycle(**cycle) for cycle in trace["cycles"] or ()),
        opening=trace["opening"] or "",
        reply=row["reply"],
        gold=claim.get("label"),
        confidence=stored_confidence(row),
        faults=() if parsed is None else tuple(fault.kind for fault in parsed.faults),
        warnings=warnings,
        notes="" if row["notes"] == "{}" else row["notes"],
    )


@dataclass(slots=True)
class ResultFile:
    """One JSONL file of results; at most ``limit`` claims (0: all).

    Files that are shown together share ``names``, so that an id means one claim in all of them.
    """

    path: Path
    limit: int = 0
    names: ClaimNames = field(default_factory=ClaimNames)
    _lines: dict[str, list[tuple[int, int]]] = field(default_factory=dict, init=False)

    @property
    def paths(self) -> list[Path]:
        """The file."""
        return [self.path]

    def claim_ids(self) -> list[str]:
        """The claim of each result, in the order of the file.

        Raises:
            SourceFileError: a line is no result, or there is none; names file and line.
        """
        self._lines = {}
        every = []
        for number, start, text in self._texts():
            name = self._item(text, number).claim_id
            if not self.limit or name in self._lines or len(self._lines) < self.limit:
                self._lines.setdefault(name, []).append((number, start))
                every.append(name)
        if not every:
            raise SourceFileError(f"{self.path} holds no result of 'decomposerl verify --json'")
        return every

    def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
        """The traces of these claims."""
        with self.path.open("rb") as file:
            for name in claim_ids:
                for number, start in self._lines.get(name, ()):
                    file.seek(start)
                    yield self._item(_text(file.readline()), number)

    def _item(self, text: str, number: int) -> TraceItem:
        return self.names.named(result_line(text, str(self.path), number))

    def _texts(self) -> Iterator[tuple[int, int, str]]:
        """Number, offset and text of each line that is not blank."""
        start = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, start, _text(line)
                start += len(line)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
