"""The regression gate: today's leaderboard against the accepted one in ``accepted.json``.

Only ``decomposerl accept`` writes that file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from decomposerl.errors import ConfigError

VERSION = 1
REMEDY = "start over with: decomposerl accept --fresh"
Kind = Literal[
    "below",  # worse than the accepted interval
    "above",  # better than it: accept it, or find out why
    "other_engine",  # answered by another program or model: not comparable
    "other_claims",  # over another number of claims: not comparable
    "missing",  # accepted before, not on the leaderboard now
]


class AcceptedScore(BaseModel):
    """One accepted score with its interval, in percent."""

    # NaN and infinite bounds would let every score pass, or none.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    system: str
    benchmark: str
    engine: str
    rows: int
    score: float
    low: float
    high: float

    @property
    def key(self) -> tuple[str, str]:
        """System and benchmark."""
        return self.system, self.benchmark


class _AcceptedFile(BaseModel):
    version: Literal[1]
    cells: list[AcceptedScore]


@dataclass(frozen=True, slots=True)
class Departure:
    """A difference from an accepted score. ``score`` is today's, None where there is none."""

    kind: Kind
    accepted: AcceptedScore
    score: float | None
    detail: str

    @property
    def sentence(self) -> str:
        """The departure as a sentence for a reader."""
        return f"{self.accepted.system} on {self.accepted.benchmark}: {self.detail}"


def acceptable_scores(leaderboard: pl.DataFrame) -> list[AcceptedScore]:
    """The scores of a leaderboard that can be accepted: of full runs, with an interval.

    A system in several tables counts once. Means over seeds are left out: they have no interval,
    and their runs are accepted one by one.
    """
    scored = leaderboard.filter(
        pl.col("status") == "scored", pl.col("low").is_not_null(), pl.col("seeds") == 1
    )
    names = list(AcceptedScore.model_fields)
    rows = scored.select(names).unique(["system", "benchmark"], keep="first", maintain_order=True)
    return [AcceptedScore(**row) for row in rows.sort("system", "benchmark").iter_rows(named=True)]


def departures(leaderboard: pl.DataFrame, accepted: Iterable[AcceptedScore]) -> list[Departure]:
    """How today's leaderboard departs from the accepted scores, in the order of ``accepted``.

    A score departs where it lies outside the accepted interval, ends included. Scores of another
    engine or number of claims are reported as such and not compared. Whether the claims are the
    same is not checked beyond their number.
    """
    now = {
        (row["system"], row["benchmark"]): row
        for row in leaderboard.filter(pl.col("score").is_not_null()).iter_rows(named=True)
    }
    compared = (_departure(one, now.get(one.key)) for one in accepted)
    return [departure for departure in compared if departure is not None]


def _departure(cell: AcceptedScore, row: Mapping[str, Any] | None) -> Departure | None:
    if row is None:
        return Departure("missing", cell, None, "accepted before, not scored now")
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
    """The accepted scores with new ones replacing those of the same key, sorted by key."""
    both = {score.key: score for score in (*before, *new)}
    return [both[key] for key in sorted(both)]


def accepted_json(accepted: Iterable[AcceptedScore], accepted_at: str, note: str) -> dict[str, Any]:
    """The content of ``accepted.json``."""
    plain = [score.model_dump() for score in accepted]
    return {"version": VERSION, "accepted_at": accepted_at, "note": note, "cells": plain}


def accepted_from(value: object) -> list[AcceptedScore]:
    """The scores of ``accepted_json``.

    Raises:
        ConfigError: it is not what ``accepted_json`` writes; the message says the remedy.
    """
    try:
        return _AcceptedFile.model_validate(value).cells
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "content"
        raise ConfigError(
            f"accepted.json is damaged at {where}: {first['msg']}; {REMEDY}"
        ) from error
