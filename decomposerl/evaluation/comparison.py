"""Pairwise comparison of systems on the same claims: differences, intervals, corrected p-values.

For each pair and test set the difference in balanced accuracy over the claims that both predicted,
with its interval (``evaluation.metrics``); for each mean of the leaderboard whose parts both
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

from decomposerl.evaluation.metrics import (
    LEVEL,
    Bounds,
    Codes,
    Estimate,
    Interval,
    balanced_accuracy,
    codes_of,
    difference_interval,
    fewest,
    inverted_p,
    mean_of,
    shared_evidence,
    summed,
)
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scored_claims import SHARED_EVIDENCE, classes_of
from decomposerl.schemas import COMPARISON

LIMITED = "limited run"
LEAST_DIFFERING = 6
"""Documents on which two systems must differ: with five no sign test is below 2 / 2**5 = 0.06."""
LEAST_OF_A_LABEL = 10
"""Documents that each label must have."""
Predictions = Mapping[str, Mapping[str, pl.DataFrame]]
"""Test set to system to its ``PREDICTIONS``."""


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
    against: Sequence[str] = (),
    limited: Collection[tuple[str, str]] = frozenset(),
) -> pl.DataFrame:
    """Every pair of systems on every test set that both were run on, as ``COMPARISON``.

    ``claims`` are the test sets as ``BENCHMARK_CLAIMS``; unlabelled claims do not count.
    ``against`` are systems to compare every other one with; empty: all pairs.
    ``limited`` names limited runs by (system, test set). A row based on one, also as a part of a
    mean, is ``limited``; such a row, and one of too few documents, has no p-value and says why in
    ``no_p``. Holm's correction is over all pairs of a test set or mean, which are read together.
    A test set with a single label gives no row.
    """
    systems = sorted({system for by_system in predictions.values() for system in by_system})
    pairs = [(system, other) for other in against for system in systems if system != other]
    rows: list[dict[str, Any]] = []
    for pair in pairs if against else combinations(systems, 2):
        sets: dict[str, Difference] = {}
        for name, frame in claims.items():
            ours, theirs = (predictions.get(name, {}).get(system) for system in pair)
            if ours is None or theirs is None:
                continue
            if difference := _on_shared_claims(frame, ours, theirs):
                short = any((system, name) in limited for system in pair)
                sets[name] = replace(difference, limited=short)
        for name, names in MEANS.items():
            if all(part in sets for part in names):
                sets[name] = mean_difference([sets[part] for part in names])
        rows += [_row(pair, name, difference) for name, difference in sets.items()]
    for name in {row["benchmark"] for row in rows}:
        family = [row for row in rows if row["benchmark"] == name and row["p"] is not None]
        for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
            row["p_holm"] = p
    return COMPARISON.conform(pl.DataFrame(rows, schema=COMPARISON.schema))


def _on_shared_claims(
    claims: pl.DataFrame, ours: pl.DataFrame, theirs: pl.DataFrame
) -> Difference | None:
    """The difference over the labelled claims that both predicted; None where a label is missing.

    Without one of its labels a test set has no balanced accuracy.
    """
    both = (
        claims.drop_nulls("label")
        .select("claim_id", "label", document=SHARED_EVIDENCE)
        .join(ours.select("claim_id", "verdict"), on="claim_id")
        .join(theirs.select("claim_id", other_verdict="verdict"), on="claim_id")
        .sort("claim_id")
    )
    classes = classes_of(both["label"])
    if both["label"].n_unique() < classes:
        return None
    labels, verdicts, others = (
        codes_of(both[column].to_list(), classes)
        for column in ("label", "verdict", "other_verdict")
    )
    evidence = shared_evidence(both["document"].to_list())
    outcome = compare(labels, verdicts, others, evidence, classes)
    return replace(outcome, engines=(ours["engine"][0], theirs["engine"][0]))


def _row(pair: tuple[str, str], name: str, difference: Difference) -> dict[str, Any]:
    low, high = difference.bounds
    no_p = difference.no_p
    return {
        "benchmark": name,
        "system": pair[0],
        "other": pair[1],
        "engine": difference.engines[0],
        "other_engine": difference.engines[1],
        "rows": difference.rows,
        "limited": difference.limited,
        "difference": 100 * difference.difference,
        "low": 100 * low,
        "high": 100 * high,
        "p": None if no_p else difference.p,
        "p_holm": None,
        "no_p": no_p or None,
    }


def compare(
    labels: Codes, verdicts: Codes, others: Codes, evidence: Codes, classes: int = 2
) -> Difference:
    """The difference of two systems on the same claims; verdicts are codes of ``metrics``."""
    ours, theirs = (balanced_accuracy(labels, codes, classes) for codes in (verdicts, others))
    gained = (verdicts == labels).astype(np.int64) - (others == labels)
    of_label = [labels == label for label in range(classes)]
    by_evidence = summed(evidence, *(gained * own for own in of_label))
    return Difference(
        len(labels),
        ours - theirs,
        partial(difference_interval, labels, verdicts, others, evidence, classes=classes),
        int(by_evidence.any(axis=0).sum()),
        min(fewest(evidence, own) for own in of_label),
    )


def mean_difference(parts: Sequence[Difference]) -> Difference:
    """The difference of uniform means over one benchmark or more, whose claims are independent."""
    ours, theirs = map(set, zip(*(part.engines for part in parts), strict=True))

    def interval(level: float) -> Bounds:
        return mean_of([Estimate(part.difference, *part.interval(level)) for part in parts])[1:3]

    return Difference(
        sum(part.rows for part in parts),
        float(np.mean([part.difference for part in parts])),
        interval,
        sum(part.differing for part in parts),
        min(part.of_a_label for part in parts),
        ("; ".join(sorted(ours)), "; ".join(sorted(theirs))),
        any(part.limited for part in parts),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of a family of p-values, in the order given."""
    corrected = [1.0] * len(p_values)
    least = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = least
    return corrected
