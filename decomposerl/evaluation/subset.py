"""Which claims are used: the evaluation subset of a test set, the dev split of a calibration."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from decomposerl.schemas import LABELS, VERDICTS

NO_LABEL, NO_EVIDENCE = "no_label", "no_evidence"
_HAS_EVIDENCE = pl.col("evidence").fill_null("").str.strip_chars() != ""


@dataclass(frozen=True, slots=True)
class EvaluationSubset:
    """The claims of a test set to predict, in the test set's order.

    ``usable`` counts the claims that can be predicted, ``left_out`` those that cannot, by reason.
    """

    claims: pl.DataFrame
    usable: int
    left_out: dict[str, int]

    @property
    def limited(self) -> bool:
        """Whether the limit left out usable claims."""
        return self.claims.height < self.usable


def classes_of(labels: pl.Series) -> int:
    """How many of ``VERDICTS`` a test set has as labels: 3 with Not Enough Information, else 2.

    A corpus that was read with ``label_rule = keep_middle`` has its middle class as that label.
    """
    return len(VERDICTS) if (labels == VERDICTS[-1]).any() else len(LABELS)


def evaluation_subset(claims: pl.DataFrame, limit: int | None = None) -> EvaluationSubset:
    """The claims of ``BENCHMARK_CLAIMS`` with a label and evidence, at most ``limit`` of them.

    A limited run takes as many of each label, ordered by id. Ids are hashes, so this is a random
    draw that every run repeats, and a larger limit keeps the claims of a smaller one.
    A claim without a label and without evidence counts as without a label.
    """
    labelled = claims.filter(pl.col("label").is_not_null())
    usable = labelled.filter(_HAS_EVIDENCE)
    counts = {
        NO_LABEL: claims.height - labelled.height,
        NO_EVIDENCE: labelled.height - usable.height,
    }
    chosen = usable if limit is None else _first_by_id(usable, limit)
    left_out = {reason: count for reason, count in counts.items() if count}
    return EvaluationSubset(chosen, usable.height, left_out)


def _first_by_id(usable: pl.DataFrame, limit: int) -> pl.DataFrame:
    """The first by id of each label in turn; where one has too few, more of the others."""
    turns = usable.sort("claim_id").select(
        "claim_id", turn=pl.int_range(pl.len()).over("label"), label=_in_order()
    )
    chosen = turns.sort("turn", "label").head(limit)
    return usable.join(chosen, on="claim_id", how="semi", maintain_order="left")


def _in_order() -> pl.Expr:
    return pl.col("label").cast(pl.Enum(VERDICTS))


@dataclass(frozen=True, slots=True)
class DevSplit:
    """Labelled claims to fit a calibration on, in the order of the draw, with the pool's columns.

    ``free`` is how many could have been drawn, ``pool`` how many there are.
    """

    claims: pl.DataFrame
    free: int
    pool: int
    seed: int

    @property
    def name(self) -> str:
        """Recorded with the calibration: sizes, seed, and 16 hex digits over the claims' ids."""
        ids = "".join(self.claims["claim_id"].sort())
        digest = hashlib.sha256(ids.encode()).hexdigest()[:16]
        return (
            f"{self.claims.height:,} of {self.free:,} unused claims of silver_decomposed "
            f"({self.pool:,}), seed {self.seed}, claims {digest}"
        )


def dev_split(pool: pl.DataFrame, used: Iterable[pl.Series], count: int, seed: int) -> DevSplit:
    """At most ``count`` claims of ``pool`` (``SILVER_DECOMPOSED``) with evidence, none in ``used``.

    Each label gets half, the first one more where ``count`` is odd; where one label has too few
    the other fills up. The order is that of a hash over seed and id, so a larger split begins with
    the smaller one. The funnel removed every test claim from the pool before.
    """
    taken = pl.concat([pool["claim_id"].clear(), *used]).unique()
    free = pool.filter(_HAS_EVIDENCE, ~pl.col("claim_id").is_in(taken.implode()))
    hashes = [
        hashlib.sha256(f"calibration:{seed}:{claim_id}".encode()).hexdigest()
        for claim_id in free["claim_id"]
    ]
    drawn = (
        free.with_columns(_hash=pl.Series(hashes, dtype=pl.String))
        .sort("_hash")
        .with_columns(_turn=pl.int_range(pl.len()).over("label"))
        .sort("_turn", _in_order())
        .head(count)
        .drop("_hash", "_turn")
    )
    return DevSplit(drawn, free.height, pool.height, seed)
