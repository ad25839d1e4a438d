"""Which claims of a test set a system is asked: those with a label and evidence, all or some.

Takes ``BENCHMARK_CLAIMS`` and a limit, gives the claims and how many were left out, by reason. A
short run takes as many of either label as there are, in the order of their ids, which are hashes:
a draw that is the same each time, and of which a longer run asks all again and more.

Left out deliberately: who is asked (``evaluation.systems``).
"""

from dataclasses import dataclass

import polars as pl

from decomposerl.schemas import LABELS

NO_LABEL, NO_EVIDENCE = "no_label", "no_evidence"


@dataclass(frozen=True, slots=True)
class Examined:
    """The claims, in the test set's order, and why others are not among them.

    ``usable`` is how many could be asked, ``left_out`` how many could not, by reason.
    """

    claims: pl.DataFrame
    usable: int
    left_out: dict[str, int]

    @property
    def limited(self) -> bool:
        """Whether the limit left out some that could be asked."""
        return self.claims.height < self.usable


def examined(claims: pl.DataFrame, limit: int | None = None) -> Examined:
    """The claims that are asked, at most ``limit`` of them.

    Without a label nothing can be right or wrong; without evidence nothing can be verified, and
    that is counted only where there is a label.
    """
    labelled = claims.filter(pl.col("label").is_not_null())
    said = pl.col("evidence").fill_null("").str.strip_chars() != ""
    usable = labelled.filter(said)
    counts = {
        NO_LABEL: claims.height - labelled.height,
        NO_EVIDENCE: labelled.height - usable.height,
    }
    chosen = usable if limit is None else _some(usable, limit)
    return Examined(chosen, usable.height, {why: count for why, count in counts.items() if count})


def _some(usable: pl.DataFrame, limit: int) -> pl.DataFrame:
    """Half of either label, the first ones by id; where one has too few, more of the other."""
    ids = [
        usable.filter(pl.col("label") == label).sort("claim_id")["claim_id"].to_list()
        for label in LABELS
    ]
    supported, refuted = ids
    half = limit - limit // 2
    first = max(min(len(supported), half), min(len(supported), limit - len(refuted)))
    chosen = [*supported[:first], *refuted[: limit - first]]
    return usable.filter(pl.col("claim_id").is_in(chosen))
