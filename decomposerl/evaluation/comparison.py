"""Pairwise comparison of systems on the same claims: differences, intervals, corrected p-values.

For each pair and test set the difference in balanced accuracy over the claims that both predicted,
with its interval (``evaluation.intervals``), the p-value of a paired bootstrap, and McNemar's exact
test; for each mean of the leaderboard whose parts both have, the difference of the means. A missing
verdict counts as wrong. No verdict of "better" is given.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from decomposerl.claims.doubtful import WITHOUT
from decomposerl.evaluation.intervals import (
    DRAWS,
    Clusters,
    clusters_of,
    difference_interval,
    generator,
    mean_interval,
    resampled_sums,
)
from decomposerl.evaluation.metrics import (
    Codes,
    Numbers,
    balanced_accuracy,
    codes_of,
    indicators,
    outcome_table,
)
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scored_claims import SHARED_EVIDENCE, classes_of
from decomposerl.schemas import COMPARISON
from decomposerl.settings import Settings

LIMITED = "limited run"
LEAST_DIFFERING = 6
"""Documents on which two systems must differ: with five no sign test is below 2 / 2**5 = 0.06."""
LEAST_OF_A_LABEL = 10
"""Documents that each label must have."""
Predictions = Mapping[str, Mapping[str, pl.DataFrame]]
"""Test set to system to its ``PREDICTIONS``."""


class ComparisonSettings(Settings):
    """Which systems are compared, and how."""

    against: list[str] = Field(
        default=[], description="systems to compare every other one with; empty: all pairs"
    )
    draws: int = Field(default=DRAWS, ge=100, description="of the paired bootstrap")
    seed: int = Field(default=42, description="of the draws")


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One system's balanced accuracy minus another's, -1..1, with its 95 % interval.

    ``draws`` (draws,) are the differences of the paired bootstrap.
    ``p_bootstrap`` and ``p_mcnemar`` are two-sided; the latter is None for a mean of several
    benchmarks. ``differing`` counts the documents on which the systems differ, ``of_a_label`` those
    with a claim of the rarer label (for a mean: in the benchmark with the fewest).
    """

    rows: int
    difference: float
    low: float
    high: float
    p_bootstrap: float
    p_mcnemar: float | None
    differing: int
    of_a_label: int
    draws: Numbers

    @property
    def p(self) -> float:
        """The larger p-value: each test is too small where its assumptions fail."""
        return self.p_bootstrap if self.p_mcnemar is None else max(self.p_bootstrap, self.p_mcnemar)

    @property
    def too_small(self) -> str:
        """Why no p-value should be shown; empty if one may be shown."""
        if self.of_a_label < LEAST_OF_A_LABEL:
            return f"n = {self.of_a_label} of a label < {LEAST_OF_A_LABEL}"
        if self.differing < LEAST_DIFFERING:
            return f"n = {self.differing} differ < {LEAST_DIFFERING}"
        return ""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A pair on a test set or mean; ``limited``: a limited run of either is in it."""

    outcome: Difference
    engines: tuple[str, str]
    limited: bool

    @property
    def no_p(self) -> str:
        """Why there is no p-value; empty if there is one."""
        return LIMITED if self.limited else self.outcome.too_small


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
    ``no_p``. Holm's correction is over the test sets of a pair; the means are a family of their
    own, and so are the test sets without the claims that ``doubtful`` names for them. A test set
    with a single label gives no row.
    """
    chosen = settings or ComparisonSettings()
    labelled = {name: frame.drop_nulls("label") for name, frame in claims.items()}
    for name, doubted in (doubtful or {}).items():
        if doubted and name in labelled:
            labelled[f"{name}{WITHOUT}"] = labelled[name].filter(~pl.col("claim_id").is_in(doubted))
    systems = sorted({system for by_system in predictions.values() for system in by_system})
    rows: list[dict[str, object]] = []
    for pair in _pairs(systems, chosen.against):
        short = {name for system, name in limited if system in pair}
        sets: dict[str, _Compared] = {}
        for name, frame in labelled.items():
            base = name.removesuffix(WITHOUT)
            ours, theirs = (predictions.get(base, {}).get(system) for system in pair)
            if ours is not None and theirs is not None:
                both = _joined(frame, ours, theirs)
                rng = generator(chosen.seed, "comparison", name)
                # A balanced accuracy needs both labels.
                if both["label"].n_unique() > 1:
                    sets[name] = _compared(both, rng, chosen.draws, limited=base in short)
        rows += _rows(*pair, sets)
    return COMPARISON.conform(pl.DataFrame(rows, schema=COMPARISON.schema))


def _pairs(systems: Sequence[str], against: Sequence[str]) -> list[tuple[str, str]]:
    if not against:
        return list(combinations(systems, 2))
    return [(system, other) for other in against for system in systems if system != other]


def _joined(claims: pl.DataFrame, ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """The claims that both predicted, in a fixed order, with both verdicts and engines."""
    other = theirs.select("claim_id", pl.col("verdict", "engine").name.prefix("other_"))
    return (
        claims.select("claim_id", "label", document=SHARED_EVIDENCE)
        .join(ours.select("claim_id", "verdict", "engine"), on="claim_id")
        .join(other, on="claim_id")
        .sort("claim_id")
    )


def _compared(
    both: pl.DataFrame, rng: np.random.Generator, draws: int, *, limited: bool
) -> _Compared:
    classes = classes_of(both["label"])
    labels, verdicts, others = (
        codes_of(both[column].to_list(), classes)
        for column in ("label", "verdict", "other_verdict")
    )
    clusters = clusters_of(labels, both["document"].to_list())
    outcome = compare(labels, verdicts, others, clusters, rng, draws, classes)
    return _Compared(outcome, (both["engine"][0], both["other_engine"][0]), limited)


def _rows(system: str, other: str, sets: Mapping[str, _Compared]) -> list[dict[str, object]]:
    """The rows of a pair by family of tests, whose p-values are corrected together."""
    means = {
        mean: _mean_of([sets[part] for part in parts])
        for mean, parts in MEANS.items()
        if all(part in sets for part in parts)
    }
    defined = {name: pair for name, pair in sets.items() if not math.isnan(pair.outcome.difference)}
    whole = {name: pair for name, pair in defined.items() if not name.endswith(WITHOUT)}
    rest = {name: pair for name, pair in defined.items() if name.endswith(WITHOUT)}
    rows: list[dict[str, object]] = []
    for family in (whole, means, rest):
        tested = [name for name, pair in family.items() if not pair.no_p]
        corrected = dict(
            zip(tested, holm([family[name].outcome.p for name in tested]), strict=True)
        )
        for name, pair in family.items():
            outcome = pair.outcome
            rows.append(
                {
                    "benchmark": name,
                    "system": system,
                    "other": other,
                    "engine": pair.engines[0],
                    "other_engine": pair.engines[1],
                    "rows": outcome.rows,
                    "limited": pair.limited,
                    "difference": 100 * outcome.difference,
                    "low": 100 * outcome.low,
                    "high": 100 * outcome.high,
                    "p_bootstrap": None if pair.no_p else outcome.p_bootstrap,
                    "p_mcnemar": None if pair.no_p else outcome.p_mcnemar,
                    "p_holm": corrected.get(name),
                    "no_p": pair.no_p or None,
                }
            )
    return rows


def _mean_of(parts: Sequence[_Compared]) -> _Compared:
    ours, theirs = (
        "; ".join(sorted(set(side))) for side in zip(*(part.engines for part in parts), strict=True)
    )
    outcome = mean_difference([part.outcome for part in parts])
    return _Compared(outcome, (ours, theirs), any(part.limited for part in parts))


def compare(
    labels: Codes,
    verdicts: Codes,
    others: Codes,
    clusters: Clusters,
    rng: np.random.Generator,
    draws: int = DRAWS,
    classes: int = 2,
) -> Difference:
    """The difference of two systems on the same claims; verdicts are codes of ``metrics``."""
    ours, theirs = (outcome_table(labels, codes, classes) for codes in (verdicts, others))
    both = np.hstack([indicators(labels, codes, classes) for codes in (verdicts, others)])
    tables = resampled_sums(both, clusters, rng, draws).reshape(draws, 2, classes, classes + 1)
    drawn = balanced_accuracy(tables[:, 0]) - balanced_accuracy(tables[:, 1])
    gained = (verdicts == labels).astype(np.int64) - (others == labels)
    of_label = [labels == label for label in range(classes)]
    by_cluster = clusters.sums(np.stack([gained * own for own in of_label], axis=1))
    differing = int(by_cluster.any(axis=1).sum())
    return Difference(
        len(labels),
        float(balanced_accuracy(ours) - balanced_accuracy(theirs)),
        *difference_interval(labels, verdicts, others, clusters, classes=classes),
        max(p_two_sided(drawn), _least_p(differing)),
        mcnemar(verdicts == labels, others == labels),
        differing,
        min(map(clusters.fewest, of_label)),
        drawn,
    )


def _least_p(differing: int) -> float:
    """The least p of an exact sign test over ``differing`` documents, a floor for any bootstrap."""
    return min(1.0, 2.0 ** (1 - differing))


def mean_difference(parts: Sequence[Difference]) -> Difference:
    """The difference of uniform means over benchmarks, each drawn independently.

    Raises:
        ValueError: no benchmark.
    """
    if not parts:
        raise ValueError("a mean over no benchmark")
    draws = np.mean([part.draws for part in parts], axis=0)
    differing = sum(part.differing for part in parts)
    differences, lows, highs = zip(*((p.difference, p.low, p.high) for p in parts), strict=True)
    return Difference(
        sum(part.rows for part in parts),
        float(np.mean(differences)),
        *mean_interval(differences, lows, highs),
        max(p_two_sided(draws), _least_p(differing)),
        None,
        differing,
        min(part.of_a_label for part in parts),
        draws,
    )


def p_two_sided(differences: Numbers) -> float:
    """Twice the share of draws at or beyond 0, never 0, at most 1."""
    defined = differences[~np.isnan(differences)]
    if not len(defined):
        return np.nan
    beyond = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (len(defined) + 1))


def mcnemar(right: NDArray[np.bool_], other_right: NDArray[np.bool_]) -> float:
    """Exact two-sided p of equal error rates: a sign test on the claims where one is wrong."""
    better = int((right & ~other_right).sum())
    worse = int((other_right & ~right).sum())
    every, fewer = better + worse, min(better, worse)
    ways = total = 1
    for k in range(fewer):  # binomial coefficients as whole numbers: exact for any count
        ways = ways * (every - k) // (k + 1)
        total += ways
    return min(1.0, float(Fraction(2 * total, 2**every)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of a family of p-values, in the order given."""
    corrected = [1.0] * len(p_values)
    least = 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = least
    return corrected
