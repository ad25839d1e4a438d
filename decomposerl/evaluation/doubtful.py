"""Scores without the claims whose label is doubtful: ``<test set>_without_doubtful``.

A test set with a list of doubtful labels (``claims.doubtful``) has a further metric in ``SCORES``
and a further column in the leaderboard and the comparison. It is part of no mean.
"""

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scores import BALANCED, WITHOUT_DOUBTFUL

_ENDING = "_without_doubtful"


def column_of(benchmark: str) -> str:
    """The column of a test set without its doubtful claims."""
    return f"{benchmark}{_ENDING}"


def base_of(column: str) -> str | None:
    """The test set of such a column; None for any other column."""
    return column.removesuffix(_ENDING) if column.endswith(_ENDING) else None


def parts_of(column: str) -> Sequence[str]:
    """The test sets that a column of the leaderboard is made of."""
    return MEANS.get(column, (base_of(column) or column,))


def title_of(column: str, titles: Mapping[str, str]) -> str:
    """The title of a test set or of its column without doubtful claims."""
    base = base_of(column)
    return titles.get(column) or (f"{titles.get(base, base)} without doubtful" if base else column)


def scores_without_doubtful(scores: pl.DataFrame) -> pl.DataFrame:
    """The scores without doubtful claims, as balanced accuracies of test sets of their own."""
    return scores.filter(metric=WITHOUT_DOUBTFUL).with_columns(
        benchmark=pl.col("benchmark") + _ENDING, metric=pl.lit(BALANCED)
    )


def claims_without_doubtful(
    claims: Mapping[str, pl.DataFrame], doubtful: Mapping[str, Collection[str]]
) -> dict[str, pl.DataFrame]:
    """By the name of its column, each test set that has doubtful claims, without them."""
    return {
        column_of(name): frame.filter(~pl.col("claim_id").is_in(list(doubtful[name])))
        for name, frame in claims.items()
        if doubtful.get(name)
    }
