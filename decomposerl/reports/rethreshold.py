"""What other deduplication thresholds would have kept, computed from the stored pairs of a run.

Exact at or above the floor of the pairs, because a pair below both thresholds has no effect.
There is no search for the threshold that leaves a wanted number of rows: "keep first" is not
monotone, and a higher threshold may keep fewer.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.errors import ConfigError
from decomposerl.kernels.matches import Matches, Pairs, exact_threshold, keep_first_of_pairs
from decomposerl.reports.attrition import TOTAL
from decomposerl.reports.tables import frame_markdown, frame_text

LEXICAL, SEMANTIC = "lexical", "semantic"
COUNTS = ("rows_in", "kept", "kept_asked", "difference", "lexical", "semantic")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The least Jaccard and the least cosine similarity of a duplicate, both in (0, 1]."""

    lexical: float
    semantic: float


@dataclass(frozen=True)
class DedupRun:
    """Input and result of one run of the stage.

    ``rows`` has ``claim_id``, ``source`` and ``kept`` (what the run decided) in input order;
    ``pairs`` is ``PAIRS``, complete from ``floor`` up; ``ran`` are the run's own thresholds;
    ``exact`` is false if its lexical search may have missed a pair.
    """

    rows: pl.DataFrame
    pairs: pl.DataFrame
    floor: float
    ran: Thresholds
    exact: bool = True

    @cached_property
    def numbered(self) -> pl.DataFrame:
        """The pairs with the row numbers ``earlier`` and ``later``, computed once."""
        rows = pl.int_range(self.rows.height, dtype=pl.Int64(), eager=True)
        pairs = self.pairs
        for end in ("earlier", "later"):
            numbers = pl.DataFrame({f"{end}_id": self.rows["claim_id"], end: rows})
            pairs = pairs.join(numbers, on=f"{end}_id")
        return pairs


@dataclass(frozen=True, slots=True)
class DedupDecision:
    """The matches of both searches over the stage's rows; a row has at most one match."""

    lexical: Matches
    semantic: Matches

    @property
    def kept(self) -> pl.Series:
        """Whether each row is kept."""
        return pl.Series(~(self.lexical.is_matched | self.semantic.is_matched), dtype=pl.Boolean())


def decide_again(run: DedupRun, asked: Thresholds) -> DedupDecision:
    """What the stage would have decided at the thresholds ``asked``.

    Lexical duplicates first, then semantic ones among the survivors.

    Raises:
        ConfigError: a threshold is not in (0, 1], or below the floor of the pairs.
    """
    for kind, threshold in ((LEXICAL, asked.lexical), (SEMANTIC, asked.semantic)):
        _check(kind, threshold, run.floor)
    # The exact join compares integers with the fraction that the threshold represents.
    jaccard = float(exact_threshold(asked.lexical))
    lexical = keep_first_of_pairs(run.rows.height, _pairs(run.numbered, LEXICAL), jaccard)
    near = _among(_pairs(run.numbered, SEMANTIC), ~lexical.is_matched)
    return DedupDecision(lexical, keep_first_of_pairs(run.rows.height, near, asked.semantic))


def rethresholded(run: DedupRun, asked: Thresholds) -> pl.DataFrame:
    """One row per source, in input order, then ``total``.

    ``kept`` is what the run kept, ``kept_asked`` what ``asked`` keeps, ``difference`` the second
    minus the first; ``lexical`` and ``semantic`` count the rows that ``asked`` removes.
    """
    decision = decide_again(run, asked)
    rows = run.rows.with_columns(
        kept_asked=decision.kept,
        lexical=pl.Series(decision.lexical.is_matched),
        semantic=pl.Series(decision.semantic.is_matched),
    )
    sums = [
        pl.len().alias("rows_in"),
        *(pl.col(name).sum() for name in ("kept", "kept_asked", "lexical", "semantic")),
    ]
    counts = rows.group_by("source", maintain_order=True).agg(sums)
    total = rows.select(pl.lit(TOTAL).alias("source"), *sums)
    return (
        pl.concat([counts, total])
        .with_columns(pl.exclude("source").cast(pl.Int64))
        .with_columns(difference=pl.col("kept_asked") - pl.col("kept"))
        .select("source", *COUNTS)
    )


def disagreements(run: DedupRun) -> int:
    """Number of rows on which the run differs from its pairs at the run's own thresholds.

    0 after an exact search; MinHash misses a duplicate now and then.
    """
    return int((decide_again(run, run.ran).kept != run.rows["kept"]).sum())


def rethreshold_text(
    run: DedupRun, asked: Thresholds, frame: pl.DataFrame, *, markdown: bool = False
) -> str:
    """The table of ``rethresholded`` with readable headers and a note on both thresholds."""
    headers = ("Source", "In", "Kept", "Would keep", "Difference", "Lexical", "Semantic")
    shown = frame.rename(dict(zip(frame.columns, headers, strict=True)))
    table = frame_markdown(shown) if markdown else frame_text(shown, last_is_total=True)
    ran, engines = run.ran, ", ".join(run.pairs["engine"].unique().sort()) or "no pair"
    note = (
        f"Kept: at Jaccard {ran.lexical} and cosine {ran.semantic}. Would keep: at "
        f"{asked.lexical} and {asked.semantic}, which remove the rows counted under Lexical and "
        f"Semantic.\nFrom {run.pairs.height:,} pairs of at least {run.floor} ({engines})."
    )
    differing = 0 if run.exact else disagreements(run)
    if differing:
        note += (
            f"\nThe run's lexical search was approximate: on {differing:,} of "
            f"{run.rows.height:,} claims it decided otherwise than the pairs do."
        )
    return f"{table}\n\n{note}"


def _check(kind: str, threshold: float, floor: float) -> None:
    if not 0 < threshold <= 1:
        raise ConfigError(f"the {kind} threshold {threshold} is not above 0 and at most 1")
    if threshold < floor:
        raise ConfigError(
            f"the {kind} threshold {threshold} is below {floor}, the floor of the stored pairs; "
            f"run stage 'deduplicated' again with pairs_floor: {threshold} to ask for it"
        )


def _pairs(numbered: pl.DataFrame, kind: str) -> Pairs:
    of_kind = numbered.filter(kind=kind)
    earlier, later, similarity = (
        of_kind[name].to_numpy() for name in ("earlier", "later", "similarity")
    )
    return Pairs(earlier, later, similarity)


def _among(pairs: Pairs, alive: NDArray[np.bool_]) -> Pairs:
    both = alive[pairs.earlier] & alive[pairs.later]
    return Pairs(pairs.earlier[both], pairs.later[both], pairs.similarity[both])
