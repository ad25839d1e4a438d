"""Scores and calls of the baselines as Markdown tables.

Reads a data folder with predictions and scores. Expected calls are computed claim by claim from
the claim's outcome with the method's own formula, independently of the counted calls.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import Method, Verification
from decomposerl.evaluation.leaderboard import METRIC
from decomposerl.evaluation.systems import System
from decomposerl.traces.trace import Cycle
from resources.store.parquet import DataFolder


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls of one system over all test sets: counted, expected, and claims that differ."""

    claims: int
    counted: int
    expected: int
    differing: int
    unparsed: int


def baseline_page(folder: DataFolder, systems: Sequence[System], titles: Mapping[str, str]) -> str:
    """Both tables, with a line on engines and claims."""
    sets = [name for name in titles if _claims(folder, name, systems)]
    scores = [
        f"| {one.title} | {one.protocol} | "
        + " | ".join(_score(folder, name, one.key) for name in sets)
        + " |"
        for one in systems
    ]
    calls = [_calls_line(folder, one, sets) for one in systems]
    return "\n".join(
        [
            _about(folder, sets, titles, systems),
            "",
            f"| Method | Protocol | {' | '.join(titles[name] for name in sets)} |",
            f"| --- | --- |{' ---: |' * len(sets)}",
            *scores,
            "",
            "| Method | Protocol | Calls per claim | Expected | Counted | Differ | No verdict |",
            "| --- | --- | --- | ---: | ---: | ---: | ---: |",
            *calls,
        ]
    )


def calls_of(method: Method, protocol: str, predictions: pl.DataFrame) -> CallCounts:
    """Counted and expected calls over the ``PREDICTIONS`` of one system."""
    counted = predictions["calls"].to_list()
    expected = [
        method.expected_calls(_outcome(row), protocol) for row in predictions.iter_rows(named=True)
    ]
    return CallCounts(
        len(counted),
        sum(counted),
        sum(expected),
        sum(one != other for one, other in zip(counted, expected, strict=True)),
        predictions.filter(pl.col("verdict").is_null()).height,
    )


def _outcome(row: Mapping[str, Any]) -> Verification:
    """A claim's outcome as stored in a prediction: all that a formula reads."""
    cycles = row["trace"]["cycles"] if row["trace"] else []
    return Verification(
        row["verdict"],
        row["parse_status"],
        row["reply"],
        cycles=tuple(Cycle(**cycle) for cycle in cycles),
        notes=json.loads(row["notes"]),
    )


def _claims(folder: DataFolder, name: str, systems: Sequence[System]) -> int:
    key = f"predictions/{name}/{systems[0].key}"
    return folder.read(key, ["claim_id"]).height if folder.exists(key) else 0


def _about(
    folder: DataFolder, sets: Sequence[str], titles: Mapping[str, str], systems: Sequence[System]
) -> str:
    """Engines, and per test set the predicted claims of those available."""
    claims = []
    for name in sets:
        run = folder.run(f"predictions/{name}/{systems[0].key}")
        claims.append(f"{titles[name]} {_claims(folder, name, systems):,} of {run['rows_in']:,}")
    frames = [folder.read(f"predictions/{name}/{one.key}") for name in sets for one in systems]
    engines = sorted({str(name) for frame in frames for name in frame["engine"].unique()})
    words = ", ".join(f"`{engine}`" for engine in engines)
    return f"Engines: {words}. Claims: {', '.join(claims)}."


def _score(folder: DataFolder, name: str, system: str) -> str:
    scores = folder.read(f"scores/{name}/{system}").filter(metric=METRIC, slice="all")
    row = scores.row(0, named=True)
    return f"{row['score']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"


def _calls_line(folder: DataFolder, system: System, sets: Sequence[str]) -> str:
    (method,) = [one for one in METHODS if one.name == system.method]
    frames = [folder.read(f"predictions/{name}/{system.key}") for name in sets]
    calls = calls_of(method, system.protocol, pl.concat(frames))
    formula = method.calls if system.protocol == "faithful" else "1"
    cells = (
        system.title,
        system.protocol,
        formula,
        f"{calls.expected / calls.claims:.2f}",
        f"{calls.counted / calls.claims:.2f}",
        f"{calls.differing:,} of {calls.claims:,}",
        f"{calls.unparsed:,}",
    )
    return f"| {' | '.join(cells)} |"
