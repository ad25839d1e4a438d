"""The three-way test set: claims with the label Supported, Refuted or Not Enough Information.

The third label is the middle class of a corpus (not enough information, mixture, partly supported),
which the paper drops. One test set, ``three_way``, has the claims of every test set that has such
claims with evidence; its scores are sliced by test set. It is in no mean and no table of the paper.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import polars as pl

from decomposerl.claims.claim import KEEP_MIDDLE, LabelMap, apply_rule
from decomposerl.evaluation.intervals import mean_interval
from decomposerl.evaluation.scored_claims import THREE_WAY_SET
from decomposerl.evaluation.subset import evaluation_subset
from decomposerl.evaluation.systems import System
from decomposerl.schemas import BENCHMARK_CLAIMS, THREE_WAY, VERDICTS

TITLE = "Three-way: Supported, Refuted, Not Enough Information"
CLASSES = len(VERDICTS)
POOLED, MEAN = "all", "mean"
"""What a row is over beside test sets: all claims, and the uniform mean of the test sets."""
MEASURES = (
    *("balanced_accuracy", "macro_f1"),
    *("recall_supported", "recall_refuted", "recall_not_enough_info"),
)


def three_way_claims(test_sets: Iterable[tuple[LabelMap, pl.DataFrame]]) -> pl.DataFrame:
    """The claims of ``BENCHMARK_CLAIMS`` frames under ``keep_middle``, with label and evidence.

    A test set of which no middle class has evidence stays two-way and is left out. Subsets are
    dropped: the slices are the test sets.
    """
    parts = [_relabelled(labels, claims) for labels, claims in test_sets]
    kept = [part for part in parts if (part["label"] == VERDICTS[2]).any()]
    return BENCHMARK_CLAIMS.conform(pl.concat([BENCHMARK_CLAIMS.empty(), *kept]))


def _relabelled(labels: LabelMap, claims: pl.DataFrame) -> pl.DataFrame:
    natives = claims["native_label"].drop_nulls().unique().to_list()
    sides = {native: labels.side(native) for native in natives}
    kept = {native: apply_rule(side, KEEP_MIDDLE) for native, side in sides.items() if side}
    relabelled = claims.with_columns(
        label=pl.col("native_label").replace_strict(kept, default=None, return_dtype=pl.String),
        label_rule=pl.lit(KEEP_MIDDLE),
        subset=pl.lit(None, pl.String),
    )
    return evaluation_subset(relabelled).claims


def three_way_board(
    scores: pl.DataFrame,
    systems: Iterable[System],
    third: Collection[str],
    limited: Collection[str] = (),
) -> pl.DataFrame:
    """``THREE_WAY`` of the scores of ``three_way``, best balanced accuracy over all claims first.

    ``third`` are the systems that may end with the third verdict; the others have recall 0 there.
    ``limited`` are short runs.
    """
    titles = {one.key: one.reader_title for one in systems}
    own = scores.filter(pl.col("benchmark") == THREE_WAY_SET, pl.col("metric").is_in(MEASURES))
    rows = [
        {"title": titles[system], "third": system in third, "limited": system in limited} | row
        for (system,), part in own.group_by("system", maintain_order=True)
        for row in _rows(str(system), part)
    ]
    board = THREE_WAY.conform(pl.DataFrame(rows, THREE_WAY.schema))
    best = pl.col("score").filter(metric=MEASURES[0], test_set=POOLED).first().over("system")
    return board.sort(
        best, "system", descending=[True, False], nulls_last=True, maintain_order=True
    )


def _rows(system: str, part: pl.DataFrame) -> Iterable[dict[str, Any]]:
    columns = ("engine", "metric", "score", "low", "high", "rows")
    whole, sliced = part.filter(slice="all"), part.filter(slice="source")
    for row in whole.select(columns).iter_rows(named=True):
        yield {"system": system, "test_set": POOLED, **row}
    for row in sliced.select(*columns, test_set="value").iter_rows(named=True):
        yield {"system": system, **row}
    for (metric,), rows in sliced.group_by("metric", maintain_order=True):
        score, low, high = (rows[name].to_list() for name in ("score", "low", "high"))
        if None not in (*score, *low, *high):
            mean = dict(zip(("low", "high"), mean_interval(score, low, high), strict=True))
            named = {"system": system, "test_set": MEAN, "engine": rows["engine"][0]}
            yield (
                named
                | mean
                | {
                    "metric": metric,
                    "score": sum(score) / len(score),
                    "rows": int(rows["rows"].sum()),
                }
            )


def middle_maps(test_sets: Mapping[str, LabelMap]) -> dict[str, LabelMap]:
    """The test sets whose corpus has a middle class."""
    return {name: labels for name, labels in test_sets.items() if labels.middle}
