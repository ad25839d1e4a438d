"""Predictions as traces: one Parquet file of a system on a test set, read some claims at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.errors import ConfigError
from decomposerl.reports.trace_page.items import TraceItem, TraceOrigin
from decomposerl.reports.verified import VerdictConfidence
from decomposerl.schemas import PREDICTIONS
from decomposerl.traces.grammar import labels_behind, parse_trace
from decomposerl.traces.trace import Cycle
from resources.evaluation.results_folder import read_test_claims
from resources.store.integrity import scan_parquet
from resources.store.parquet import DataFolder
from resources.traces.tables import Warn, naming, no_warning, read_named, readable, require_columns

_CLAIM = ["claim_id", "claim", "evidence", "label", "source"]
_VERIFIER = "the verifier's probability of the verdict"
_TOKEN = "raw is the probability of the verdict's word"  # noqa: S105 - a token of text
_BOUND = f"{_TOKEN} (the other word was not among the listed tokens)"
_CALIBRATED = f"{_TOKEN}; calibrated is the share of right verdicts at such a confidence"
_POLICY = "decomposerl"
_TABLE = "table of predictions"
_UNUSED = {"questions", "abstentions", "calls"}


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
                read = read_test_claims(folder, benchmark).select(_CLAIM)
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
        require_columns(path, PREDICTIONS.schema, _TABLE)
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
        and readable(path, PREDICTIONS.schema, _TABLE, warn)
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
        confidence=_confidence(row),
        agreement=row["agreement"],
        faults=() if parsed is None else tuple(fault.kind for fault in parsed.faults),
        warnings=warnings,
        notes="" if row["notes"] == "{}" else row["notes"],
    )


def _confidence(row: Mapping[str, Any]) -> VerdictConfidence | None:
    support, verdict = row["support_score"], row["verdict"]
    if support is not None and verdict is not None:
        chance = support if verdict == "Supported" else 1.0 - support
        return VerdictConfidence(chance, chance, row["confidence_calibrated"], _VERIFIER)
    raw, normalised = row["confidence_raw"], row["confidence_normalised"]
    if raw is None or normalised is None:
        return None
    calibrated = row["confidence_calibrated"]
    meaning = _BOUND if row["confidence_bound"] else _TOKEN
    return VerdictConfidence(
        raw, normalised, calibrated, meaning if calibrated is None else _CALIBRATED
    )
