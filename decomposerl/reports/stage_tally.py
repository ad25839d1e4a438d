"""What a stage's page and figures need of its rows: counts and a few examples, without evidence.

The tallies of a stage's parts add up to the tally of the whole, so a stage that takes its rows in
batches holds no more than this. Parts may be cut anywhere and added in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import polars as pl

from decomposerl.schemas import DROPS

SAMPLE_ROWS = 5
_SHOWN = ("claim_id", "source", "label", "claim", "evidence")
_KEPT = ("source", "label")
_DROPPED = ("source", "label", "step", "reason", "engine")


@dataclass(frozen=True, slots=True)
class StageTally:
    """Counts of a stage's rows, and its examples.

    ``entered``, ``kept`` (``source``, ``label``, ``rows``) and ``dropped`` (also ``step``,
    ``reason``, ``engine``) are counts. ``sample`` are the first kept rows by ``claim_id``,
    ``closest`` the drops nearest to their threshold (``DROPS`` and ``distance``), at most
    ``SAMPLE_ROWS`` each.
    """

    entered: pl.DataFrame
    kept: pl.DataFrame
    dropped: pl.DataFrame
    sample: pl.DataFrame
    closest: pl.DataFrame

    @classmethod
    def of(
        cls,
        rows_in: pl.DataFrame | None = None,
        kept: pl.DataFrame | None = None,
        drops: pl.DataFrame | None = None,
    ) -> Self:
        """The tally of some rows of a stage; what is None is empty.

        ``rows_in`` needs ``source`` and ``label``; ``kept`` also ``claim_id``, ``claim`` and
        ``evidence`` as far as the sample shows them; ``drops`` is ``DROPS``.
        """
        nothing = DROPS.empty()
        kept = nothing.select("claim_id", *_KEPT) if kept is None else kept
        drops = nothing if drops is None else drops
        return cls(
            _counted(nothing if rows_in is None else rows_in, _KEPT),
            _counted(kept, _KEPT),
            _counted(drops, _DROPPED),
            _sampled(kept),
            _nearest(drops),
        )

    def __add__(self, other: "StageTally") -> "StageTally":
        """The tally of the rows of both."""
        return StageTally.total([self, other])

    @classmethod
    def total(cls, parts: Sequence["StageTally"]) -> "StageTally":
        """The tally of the rows of all parts."""
        parts = parts or [StageTally.of()]
        widest = max((part.sample for part in parts), key=lambda sample: sample.width)
        samples = [part.sample for part in parts if part.sample.height] or [widest]
        return cls(
            _counted(pl.concat([part.entered for part in parts]), _KEPT),
            _counted(pl.concat([part.kept for part in parts]), _KEPT),
            _counted(pl.concat([part.dropped for part in parts]), _DROPPED),
            _sampled(pl.concat(samples)),
            _first_of(pl.concat([part.closest for part in parts])),
        )

    @property
    def rows_in(self) -> int:
        """Rows that entered."""
        return int(self.entered["rows"].sum())

    @property
    def rows_kept(self) -> int:
        """Rows that stayed."""
        return int(self.kept["rows"].sum())

    @property
    def rows_dropped(self) -> int:
        """Rows that left."""
        return int(self.dropped["rows"].sum())


def counts_by(frame: pl.DataFrame, column: str) -> dict[str, int]:
    """Rows by the values of a column, most frequent first; ``frame`` may be counts (``rows``)."""
    counted = _counted(frame, (column,)).sort(["rows", column], descending=[True, False])
    return {str(value): rows for value, rows in counted.iter_rows()}


def _counted(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    rows = pl.col("rows").sum() if "rows" in frame.columns else pl.len().cast(pl.Int64())
    return frame.group_by(keys).agg(rows.alias("rows"))


def _sampled(kept: pl.DataFrame) -> pl.DataFrame:
    # Ids are hashes, so the first by id are a random sample that is stable.
    ids = kept["claim_id"].bottom_k(SAMPLE_ROWS)
    shown = [name for name in _SHOWN if name in kept.columns]
    few = kept.filter(pl.col("claim_id").is_in(ids.implode())).select(shown)
    return _copied(few.sort("claim_id").head(SAMPLE_ROWS))


def _nearest(drops: pl.DataFrame) -> pl.DataFrame:
    """Drops by their distance to the threshold, relative to it.

    Exact matches (1 of 1) and claims without a number are no close calls.
    """
    near = drops.filter(
        pl.col("threshold") > 0,
        pl.col("value").is_not_null(),
        (pl.col("value") != 1) | (pl.col("threshold") != 1),
    )
    return _first_of(near.with_columns(distance=(pl.col("value") / pl.col("threshold") - 1).abs()))


def _first_of(drops: pl.DataFrame) -> pl.DataFrame:
    return _copied(drops.sort("distance", "claim_id").head(SAMPLE_ROWS))


def _copied(few: pl.DataFrame) -> pl.DataFrame:
    """The rows in memory of their own: polars would keep the texts of the whole batch."""
    return pl.DataFrame(few.rows(), few.schema, orient="row")
