"""Synthetic claims as the frames that stages take, and engines that answer immediately.

Builds ``CLAIMS``, ``BENCHMARK_CLAIMS`` and ``DIFFICULTY_BAND`` frames and the four ports,
all in memory.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, DIFFICULTY_BAND, LABELS
from decomposerl.table import Table
from perf.inputs import Vectors, clustered_vectors


def claims_frame(
    source: str,
    claims: Sequence[str],
    passages: Sequence[Sequence[str]],
    labels: Sequence[str],
) -> pl.DataFrame:
    """``CLAIMS`` of one source, with numbered ids; evidence is the passages, one per line."""
    columns = {
        "claim": claims,
        "evidence": ["\n".join(row) for row in passages],
        "passages": passages,
        "label": labels,
        "native_label": labels,
    }
    return _filled(CLAIMS, columns, source=source, split="train")


def benchmark_frame(name: str, claims: Sequence[str]) -> pl.DataFrame:
    """``BENCHMARK_CLAIMS`` with claims only, without labels and evidence."""
    columns = {"claim": claims, "passages": [[]] * len(claims)}
    return _filled(BENCHMARK_CLAIMS, columns, source=name, split="test")


def _filled(
    table: Table, columns: Mapping[str, Sequence[object]], *, source: str, split: str
) -> pl.DataFrame:
    numbers = [str(row) for row in range(len(columns["claim"]))]
    ids = [f"{source}-{split}-{number}" for number in numbers]
    given = {**columns, "claim_id": ids, "native_id": numbers}
    fixed = {"source": source, "split": split, "evidence_kind": "text", "label_rule": "drop_middle"}
    rest = {column.name: None for column in table.columns if column.name not in given} | fixed
    frame = pl.DataFrame(given, schema={name: table.schema[name] for name in given})
    return table.conform(
        frame.with_columns(
            pl.lit(value).cast(table.schema[name]).alias(name) for name, value in rest.items()
        )
    )


def band_frame(claims: Sequence[str], sources: Sequence[str], seed: int = 7) -> pl.DataFrame:
    """``DIFFICULTY_BAND`` with one word of evidence per row: enough for the later stages."""
    rng = np.random.default_rng([seed, 9])
    labels = np.array(LABELS)[rng.integers(0, 2, len(claims))].tolist()
    frame = claims_frame("pool", claims, [["Evidence."]] * len(claims), labels)
    tokens = np.exp(rng.normal(np.log(700), 0.93, len(claims))).astype(np.int64)
    return DIFFICULTY_BAND.conform(
        frame.with_columns(
            source=pl.Series(sources, dtype=pl.String()),
            evidence_words=pl.Series(tokens),
            evidence_tokens=pl.Series(tokens),
            token_unit=pl.lit("words_x1.3"),
            overlap=pl.lit(0.2),
            entities=pl.lit(["a", "b"]),
            support_probability=pl.lit(0.5),
            label_confidence=pl.lit(0.5),
        )
    )


@dataclass(frozen=True)
class SameEntities:
    """The same two entities for every text."""

    engine: str = "synthetic"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """The same two for each text."""
        return [["a", "b"] for _ in texts]


@dataclass(frozen=True)
class SameProbability:
    """Probability 0.5 for every pair."""

    engine: str = "synthetic"

    def support_probability(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """0.5 for each pair."""
        return np.full(len(pairs), 0.5)


@dataclass(frozen=True)
class SameQuestions:
    """The same three questions for every claim."""

    engine: str = "synthetic"

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """The same three for each pair."""
        return [["Who?", "Where?", "When?"] for _ in pairs]


@dataclass
class MadeVectors:
    """Clustered vectors for any texts, and the seconds spent generating them.

    Every call has clusters of its own around the common direction.
    """

    dimensions: int
    engine: str = "synthetic"
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    calls: int = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors by row, not by text: equal texts get different vectors."""
        started, cpu = time.perf_counter(), time.process_time()
        vectors = clustered_vectors(len(texts), self.dimensions, seed=7 + self.calls)
        self.calls += 1
        self.seconds += time.perf_counter() - started
        self.cpu_seconds += time.process_time() - cpu
        return vectors
