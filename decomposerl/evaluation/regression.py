"""The regression gate: today's leaderboard against the one that a person accepted.

Takes ``LEADERBOARD`` frames, gives the cells that were accepted and what departs from them. A cell
holds where its score lies within the accepted cell's own interval, both ends included. Only like is
held against like: another engine, or another number of claims (a short run, another corpus), is
said and not judged, because neither better nor worse would mean anything. Engine's name and number
are all that is compared: other claims in the same number are judged as if they were the same.

Left out deliberately: the file (``accepted.json``, written by ``decomposerl accept`` alone), and
what a finding does to a run (``assets``).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import polars as pl

from decomposerl.errors import ConfigError

VERSION = 1
REMEDY = "begin anew with: decomposerl accept --fresh"
Kind = Literal[
    "below",  # worse than the accepted interval
    "above",  # better than it: accept, or find out why
    "other_engine",  # answered by another program or model; not judged
    "other_claims",  # in another number; not judged
    "missing",  # accepted once, not on the leaderboard now
]


@dataclass(frozen=True, slots=True)
class AcceptedScore:
    """One accepted score with its interval, in percent."""

    system: str
    benchmark: str
    engine: str
    rows: int
    score: float
    low: float
    high: float

    @property
    def place(self) -> tuple[str, str]:
        """What it is the score of."""
        return self.system, self.benchmark


@dataclass(frozen=True, slots=True)
class Departure:
    """A departure. ``score`` is today's, None where there is none."""

    kind: Kind
    accepted: AcceptedScore
    score: float | None
    detail: str

    @property
    def sentence(self) -> str:
        """What a reader is told."""
        return f"{self.accepted.system} on {self.accepted.benchmark}: {self.detail}"


def acceptable_scores(leaderboard: pl.DataFrame) -> list[AcceptedScore]:
    """The scores of a leaderboard that can be accepted: whole runs, with an interval.

    A system that stands in several tables is taken once.
    """
    scored = leaderboard.filter(pl.col("status") == "scored", pl.col("low").is_not_null())
    names = list(AcceptedScore.__dataclass_fields__)
    rows = scored.select(names).unique(["system", "benchmark"], keep="first", maintain_order=True)
    return [AcceptedScore(**row) for row in rows.sort("system", "benchmark").iter_rows(named=True)]


def departures(leaderboard: pl.DataFrame, accepted: Iterable[AcceptedScore]) -> list[Departure]:
    """Every accepted cell that today's leaderboard departs from, in the order of ``accepted``."""
    now = {
        (row["system"], row["benchmark"]): row
        for row in leaderboard.filter(pl.col("score").is_not_null()).iter_rows(named=True)
    }
    held = (_finding(cell, now.get(cell.place)) for cell in accepted)
    return [finding for finding in held if finding is not None]


def _finding(cell: AcceptedScore, row: Mapping[str, Any] | None) -> Departure | None:
    if row is None:
        return Departure("missing", cell, None, "accepted once, not scored now")
    score = float(row["score"])
    if row["engine"] != cell.engine:
        detail = f"answered by {row['engine']}, accepted from {cell.engine}"
        return Departure("other_engine", cell, score, detail)
    if row["rows"] != cell.rows:
        detail = f"over {row['rows']:,} claims, accepted over {cell.rows:,}"
        return Departure("other_claims", cell, score, detail)
    interval = f"the accepted {cell.score:.1f} has {cell.low:.1f} to {cell.high:.1f}"
    if score < cell.low:
        return Departure("below", cell, score, f"{score:.1f}; {interval}")
    if score > cell.high:
        return Departure("above", cell, score, f"{score:.1f}; {interval}")
    return None


def merge_accepted(
    before: Iterable[AcceptedScore], new: Iterable[AcceptedScore]
) -> list[AcceptedScore]:
    """The accepted cells with the new ones in place of those of the same place, in order."""
    both = {cell.place: cell for cell in (*before, *new)}
    return [both[place] for place in sorted(both)]


def accepted_json(accepted: Iterable[AcceptedScore], accepted_at: str, note: str) -> dict[str, Any]:
    """What ``accepted.json`` holds."""
    plain = [asdict(cell) for cell in accepted]
    return {"version": VERSION, "accepted_at": accepted_at, "note": note, "cells": plain}


def accepted_from(value: object) -> list[AcceptedScore]:
    """The cells of ``accepted_json``, after a look at each.

    Raises:
        ConfigError: it is not what ``accepted_json`` writes; the message says the remedy.
    """
    if not isinstance(value, Mapping) or value.get("version") != VERSION:
        raise ConfigError(f"accepted.json is not of version {VERSION}; {REMEDY}")
    found = value.get("cells")
    if not isinstance(found, list):
        raise ConfigError(f"accepted.json has no list of cells; {REMEDY}")
    try:
        return [_cell(plain) for plain in found]
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise ConfigError(f"accepted.json holds a cell that is none ({error}); {REMEDY}") from error


def _cell(plain: Mapping[str, Any]) -> AcceptedScore:
    return AcceptedScore(
        system=str(plain["system"]),
        benchmark=str(plain["benchmark"]),
        engine=str(plain["engine"]),
        rows=int(plain["rows"]),
        score=_finite(plain, "score"),
        low=_finite(plain, "low"),
        high=_finite(plain, "high"),
    )


def _finite(plain: Mapping[str, Any], name: str) -> float:
    """A bound that is no number would let every score pass."""
    number = float(plain[name])
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}")
    return number
