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

SINGLE_CALL = "single_call"


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls of one system over all test sets: counted, expected, and claims that differ."""

    claims: int
    counted: int
    expected: int
    differing: int
    unparsed: int


def baseline_page(folder: DataFolder, systems: Sequence[System], titles: Mapping[str, str]) -> str:
    """Both tables, with a line on engines and claims; systems of equal scores share a row."""
    sets = [name for name in titles if _claims(folder, name, systems)]
    by_scores: dict[tuple[str, ...], list[System]] = {}
    for one in systems:
        cells = tuple(_score(folder, name, one.key) for name in sets)
        by_scores.setdefault(cells, []).append(one)
    return "\n".join(
        [
            _about(folder, sets, titles, systems),
            "",
            f"| Systems | {' | '.join(titles[name] for name in sets)} |",
            f"| --- |{' ---: |' * len(sets)}",
            *(
                f"| {' | '.join([_names(same, systems), *cells])} |"
                for cells, same in by_scores.items()
            ),
            "",
            *_call_lines(folder, systems, sets),
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
    return f"{row['score']:.1f} [{row['low']:.1f}–{row['high']:.1f}]"


def _names(same: Sequence[System], systems: Sequence[System]) -> str:
    """The titles, those of the single-call protocol after the others."""
    steps, single = (
        [one.title for one in same if (one.protocol == SINGLE_CALL) is single]
        for single in (False, True)
    )
    every = sum(one.protocol == SINGLE_CALL for one in systems)
    in_one = ["all"] if 1 < len(single) == every else single
    words = [", ".join(steps), f"in one call: {', '.join(in_one)}" if single else ""]
    return "; ".join(filter(None, words))


def _call_lines(folder: DataFolder, systems: Sequence[System], sets: Sequence[str]) -> list[str]:
    """Sums over all systems, and a table of the faithful ones."""
    calls = [_calls(folder, one, sets) for one in systems]
    claims, unparsed = sum(one.claims for one in calls), sum(one.unparsed for one in calls)
    differing = sum(one.differing for one in calls)
    sums = f"Of {claims:,} predictions, {unparsed:,} have no verdict"
    return [
        f"{sums}, and the counted calls of {differing:,} differ from the formula.",
        "",
        "| Step by step | Calls per claim | Mean |",
        "| --- | --- | ---: |",
        *(
            f"| {one.title} | {_method(one).calls} | {made.counted / made.claims:.2f} |"
            for one, made in zip(systems, calls, strict=True)
            if one.protocol != SINGLE_CALL
        ),
    ]


def _calls(folder: DataFolder, system: System, sets: Sequence[str]) -> CallCounts:
    frames = [folder.read(f"predictions/{name}/{system.key}") for name in sets]
    return calls_of(_method(system), system.protocol, pl.concat(frames))


def _method(system: System) -> Method:
    (method,) = [one for one in METHODS if one.name == system.method]
    return method
