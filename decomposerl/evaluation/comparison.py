"""Pairwise comparison of systems on the same claims: differences, intervals, corrected p-values.

For each pair and test set the difference in balanced accuracy over the claims that both predicted,
with its interval (``evaluation.intervals``); for each mean of the leaderboard whose parts both
have, the difference of the means. The p-value is that of the interval: it is below 0.05 where the
95 % interval excludes 0 and nowhere else, so a page never calls significant what its interval does
not show. A missing verdict counts as wrong. No verdict of "better" is given.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from decomposerl.claims.doubtful import WITHOUT
from decomposerl.evaluation.intervals import (
    LEVEL,
    Bounds,
    Clusters,
    Interval,
    clusters_of,
    difference_interval,
    mean_interval,
)
from decomposerl.evaluation.metrics import Codes, balanced_accuracy, codes_of, outcome_table
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scored_claims import SHARED_EVIDENCE, classes_of
from decomposerl.schemas import COMPARISON
from decomposerl.settings import Settings

LIMITED = "limited run"
LEAST_DIFFERING = 6
"""Documents on which two systems must differ: with five no sign test is below 2 / 2**5 = 0.06."""
LEAST_OF_A_LABEL = 10
"""Documents that each label must have."""
_HALVINGS = 20  # down to p = 1e-7
Predictions = Mapping[str, Mapping[str, pl.DataFrame]]
"""Test set to system to its ``PREDICTIONS``."""


class ComparisonSettings(Settings):
    """Which systems are compared, and how."""

    against: list[str] = Field(
        default=[], description="systems to compare every other one with; empty: all pairs"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One system's balanced accuracy minus another's, -1..1, with its interval at any level.

    ``differing`` counts the documents on which the systems differ, ``of_a_label`` those with a
    claim of the rarer label (for a mean: in the benchmark with the fewest). ``engines`` are those
    of both; ``limited``: a limited run of either is in it.
    """

    rows: int
    difference: float
    interval: Interval
    differing: int
    of_a_label: int
    engines: tuple[str, str] = ("", "")
    limited: bool = False

    @property
    def bounds(self) -> Bounds:
        """The 95 % interval."""
        return self.interval(LEVEL)

    @property
    def p(self) -> float:
        """The two-sided p-value, at least that of an exact sign test over ``differing``."""
        return max(inverted_p(self.interval), min(1.0, 2.0 ** (1 - self.differing)))

    @property
    def no_p(self) -> str:
        """Why no p-value should be shown; empty if one may be shown."""
        if self.limited:
            return LIMITED
        if self.of_a_label < LEAST_OF_A_LABEL:
            return f"n = {self.of_a_label} of a label < {LEAST_OF_A_LABEL}"
        if self.differing < LEAST_DIFFERING:
            return f"n = {self.differing} differ < {LEAST_DIFFERING}"
        return ""


def compare_systems(
    claims: Mapping[str, pl.DataFrame],
    predictions: Predictions,
    settings: ComparisonSettings | None = None,
    limited: Collection[tuple[str, str]] = frozenset(),
    doubtful: Mapping[str, Collection[str]] | None = None,
) -> pl.DataFrame:
    """Every pair of systems on every test set that both were run on, as ``COMPARISON``.

    ``claims`` are the test sets as ``BENCHMARK_CLAIMS``; unlabelled claims do not count.
    ``limited`` names limited runs by (system, test set). A row based on one, also as a part of a
    mean, is ``limited``; such a row, and one of too few documents, has no p-value and says why in
    ``no_p``. Holm's correction is over all pairs of a test set or mean, which are read together.
    ``doubtful`` names claims without which a test set is compared again. A test set with a single
    label gives no row.
    """
    against = settings.against if settings else []
    labelled = {name: frame.drop_nulls("label") for name, frame in claims.items()}
    for name, doubted in (doubtful or {}).items():
        if doubted and name in labelled:
            labelled[f"{name}{WITHOUT}"] = labelled[name].filter(~pl.col("claim_id").is_in(doubted))
    systems = sorted({system for by_system in predictions.values() for system in by_system})
    pairs = [(system, other) for other in against for system in systems if system != other]
    rows: list[dict[str, Any]] = []
    for pair in pairs if against else combinations(systems, 2):
        sets: dict[str, Difference] = {}
        for name, frame in labelled.items():
            base = name.removesuffix(WITHOUT)
            ours, theirs = (predictions.get(base, {}).get(system) for system in pair)
            if ours is not None and theirs is not None:
                short = any((system, base) in limited for system in pair)
                if compared := _on_shared_claims(frame, ours, theirs, limited=short):
                    sets[name] = compared
        means = {
            name: mean_difference([sets[part] for part in parts])
            for name, parts in MEANS.items()
            if all(part in sets for part in parts)
        }
        whole = {name: one for name, one in sets.items() if not name.endswith(WITHOUT)}
        every = {**whole, **means, **sets}  # those without doubtful claims come last
        rows += [_row(*pair, name, difference) for name, difference in every.items()]
    for name in {row["benchmark"] for row in rows}:
        family = [row for row in rows if row["benchmark"] == name and row["p"] is not None]
        for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
            row["p_holm"] = p
    return COMPARISON.conform(pl.DataFrame(rows, schema=COMPARISON.schema))


def _on_shared_claims(
    claims: pl.DataFrame, ours: pl.DataFrame, theirs: pl.DataFrame, *, limited: bool
) -> Difference | None:
    """The difference over the claims that both predicted; None where one of the labels is missing.

    Without one of its labels a test set has no balanced accuracy.
    """
    other = theirs.select("claim_id", pl.col("verdict", "engine").name.prefix("other_"))
    both = (
        claims.select("claim_id", "label", document=SHARED_EVIDENCE)
        .join(ours.select("claim_id", "verdict", "engine"), on="claim_id")
        .join(other, on="claim_id")
        .sort("claim_id")
    )
    classes = classes_of(both["label"])
    if both["label"].n_unique() < classes:
        return None
    labels, verdicts, others = (
        codes_of(both[column].to_list(), classes)
        for column in ("label", "verdict", "other_verdict")
    )
    clusters = clusters_of(labels, both["document"].to_list())
    engines = both["engine"][0], both["other_engine"][0]
    outcome = compare(labels, verdicts, others, clusters, classes)
    return replace(outcome, engines=engines, limited=limited)


def _row(system: str, other: str, name: str, one: Difference) -> dict[str, Any]:
    low, high = one.bounds
    return {
        "benchmark": name,
        "system": system,
        "other": other,
        "engine": one.engines[0],
        "other_engine": one.engines[1],
        "rows": one.rows,
        "limited": one.limited,
        "difference": 100 * one.difference,
        "low": 100 * low,
        "high": 100 * high,
        "p": None if one.no_p else one.p,
        "p_holm": None,
        "no_p": one.no_p or None,
    }


def compare(
    labels: Codes, verdicts: Codes, others: Codes, clusters: Clusters, classes: int = 2
) -> Difference:
    """The difference of two systems on the same claims; verdicts are codes of ``metrics``."""
    ours, theirs = (outcome_table(labels, codes, classes) for codes in (verdicts, others))
    gained = (verdicts == labels).astype(np.int64) - (others == labels)
    of_label = [labels == label for label in range(classes)]
    by_cluster = clusters.sums(np.stack([gained * own for own in of_label], axis=1))
    return Difference(
        len(labels),
        float(balanced_accuracy(ours) - balanced_accuracy(theirs)),
        partial(difference_interval, labels, verdicts, others, clusters, classes=classes),
        int(by_cluster.any(axis=1).sum()),
        min(map(clusters.fewest, of_label)),
    )


def mean_difference(parts: Sequence[Difference]) -> Difference:
    """The difference of uniform means over one benchmark or more, whose claims are independent."""
    differences = [part.difference for part in parts]
    ours, theirs = map(set, zip(*(part.engines for part in parts), strict=True))

    def interval(level: float) -> Bounds:
        lows, highs = zip(*(part.interval(level) for part in parts), strict=True)
        return mean_interval(differences, lows, highs)

    return Difference(
        sum(part.rows for part in parts),
        float(np.mean(differences)),
        interval,
        sum(part.differing for part in parts),
        min(part.of_a_label for part in parts),
        ("; ".join(sorted(ours)), "; ".join(sorted(theirs))),
        any(part.limited for part in parts),
    )


def inverted_p(interval: Interval) -> float:
    """The p-value of no difference: the least 1 - level whose interval excludes 0, never 0."""
    kept, excluded = 0.0, 1.0
    # The interval that is shown is tried first, so that p cannot disagree with it.
    tried = 1 - LEVEL
    for _ in range(_HALVINGS):
        low, high = interval(1 - tried)
        if low > 0 or high < 0:
            excluded = tried
        else:
            kept = tried
        tried = (kept + excluded) / 2
    return excluded


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of a family of p-values, in the order given."""
    corrected = [1.0] * len(p_values)
    least = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = least
    return corrected
