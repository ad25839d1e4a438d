"""The SQL of the DuckDB catalogue: its views over the Parquet, and ``explain``.

Takes the data folder, to see what is there, and the names of the current corpora
(``Current``), and gives statements whose paths are relative to that folder. A view without
a file gives no row, with the same columns and types; a column that files of an earlier
version lack reads as null.

Left out deliberately: the tables, which are counted in Python (``duckdb_catalogue.py``).
"""

import glob
from dataclasses import dataclass
from pathlib import Path

from decomposerl import schemas
from decomposerl.evaluation.derived import derived_from
from decomposerl.reports.attrition import STAGES
from decomposerl.table import Table
from resources.catalogue.evaluation_views import evaluation_views
from resources.catalogue.training_views import training_views
from resources.catalogue.types import listed, named, typed_nulls

_OF_BENCHMARKS = ("benchmark", "predictions", "scores")
_OF_SYSTEMS = "calibrations"
_STAGE_DROPS, _PAIRS, _CELLS = "drops", "pairs", "selection_cells"
_STAGE_TABLES = (
    schemas.RULE_FILTERED,
    schemas.DIFFICULTY_BAND,
    schemas.DEDUPLICATED,
    schemas.DECONTAMINATED,
    schemas.SILVER_DECOMPOSED,
    schemas.DIVERSITY_SELECTED,
    schemas.TRAINING_CLAIMS,
)


@dataclass(frozen=True, slots=True)
class Current:
    """The sources and benchmarks whose files count; None: every one that lies on disk.

    A corpus that was removed leaves its files in the data folder, and they must not be
    counted any more.
    """

    sources: frozenset[str] | None = None
    benchmarks: frozenset[str] | None = None

    @property
    def evaluated(self) -> frozenset[str] | None:
        """The test sets of predictions and scores: the benchmarks and what is derived from them."""
        names = self.benchmarks
        return names if names is None else names | derived_from(names).keys()

    def patterns(self, data: Path, folder: str) -> list[str]:
        """Glob patterns relative to ``data``, each of which matches a Parquet file.

        ``folder`` holds one file a corpus: a benchmark's where it is named ``benchmark``.
        """
        names = self._names(folder)
        stems = ["*"] if names is None else [glob.escape(name) for name in sorted(names)]
        candidates = [f"{folder}/{stem}.parquet" for stem in stems]
        return [pattern for pattern in candidates if any(data.glob(pattern))]

    def files(self, data: Path, folder: str) -> list[Path]:
        """The files of ``patterns``, sorted."""
        return sorted(p for pattern in self.patterns(data, folder) for p in data.glob(pattern))

    def counts(self, record: Path) -> bool:
        """Whether a run record is that of a stage or of a current corpus."""
        folder, _, name = record.stem.partition("__")
        names = self._names(folder) if name else None
        return names is None or name.partition("__")[0] in names

    def _names(self, folder: str) -> frozenset[str] | None:
        if folder in {_STAGE_DROPS, _PAIRS, _CELLS, _OF_SYSTEMS}:  # one file a stage, not a corpus
            return None
        return self.evaluated if folder.endswith(_OF_BENCHMARKS) else self.sources


@dataclass(frozen=True, slots=True)
class _View:
    """A view over the Parquet files of ``folders``, or over ``file`` alone.

    ``read_for`` adds a column of that name: ``source`` or ``benchmark``, by the folder.
    """

    name: str
    table: Table
    folders: tuple[str, ...] = ()
    read_for: bool = False

    def patterns(self, data: Path, current: Current) -> list[str]:
        if self.folders:
            return [p for folder in self.folders for p in current.patterns(data, folder)]
        file = f"{self.name}.parquet"
        return [file] if (data / file).is_file() else []


_VIEWS = (
    _View("claims", schemas.CLAIMS, ("claims",)),
    _View("benchmarks", schemas.BENCHMARK_CLAIMS, ("benchmark",)),
    # A row that a test set leaves to training is no drop from training: apart.
    _View("drops", schemas.DROPS, (_STAGE_DROPS, "drops/claims")),
    _View("benchmark_drops", schemas.DROPS, ("drops/benchmark",)),
    _View("pairs", schemas.PAIRS, (_PAIRS,)),
    _View("selection_cells", schemas.SELECTION_CELLS, (_CELLS,)),
    _View("rejects", schemas.REJECTS, ("rejects", "rejects/benchmark"), read_for=True),
    _View("chat_replies", schemas.CHAT_REPLIES),
    *(_View(table.name, table) for table in _STAGE_TABLES),
)

_READ_FOR = (
    "CASE WHEN regexp_matches(filename, 'benchmark/[^/]+$') THEN 'benchmark' ELSE 'source' END"
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
    created = [f"CREATE VIEW {view.name} AS {_select(view, data, current)}" for view in _VIEWS]
    journey = f"CREATE VIEW journey AS {_journey()}"
    of_runs = [*training_views(data), *evaluation_views(data, current.evaluated)]
    return [*created, journey, _EXPLAIN, *of_runs]


def _select(view: _View, data: Path, current: Current) -> str:
    """The query behind a view; without a file, one that gives no row of the same types."""
    typed = typed_nulls(view.table.columns)
    patterns = view.patterns(data, current)
    if not patterns:
        return f"SELECT {typed}{', NULL::VARCHAR AS read_for' * view.read_for} WHERE false"
    columns = named(view.table.columns)
    side = f", {_READ_FOR} AS read_for" if view.read_for else ""
    return (
        f"SELECT {columns}{side} FROM ("  # noqa: S608 - constants of this module
        f"FROM read_parquet([{listed(patterns)}], union_by_name = true, filename = true) "
        f"UNION ALL BY NAME SELECT {typed} WHERE false)"
    )


def _journey() -> str:
    """Every claim at every stage once: kept there, or dropped with its reason."""
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
