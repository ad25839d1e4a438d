"""Pairwise comparison of systems on the same claims: differences, intervals, corrected p-values.

For each pair and test set the difference in balanced accuracy over the claims that both predicted;
for each mean of the leaderboard whose parts both have, the difference of the means. A missing
verdict counts as wrong. No verdict of "better" is given.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import polars as pl

from decomposerl.evaluation.bootstrap import DRAWS, clusters_of, generator
from decomposerl.evaluation.doubtful import base_of, claims_without_doubtful, column_of
from decomposerl.evaluation.metrics import Numbers, codes_of
from decomposerl.evaluation.paired import Difference, compare, holm, mean_difference
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scored_claims import SHARED_EVIDENCE
from decomposerl.evaluation.subset import classes_of
from decomposerl.schemas import COMPARISON

LIMITED = "limited run"
Predictions = Mapping[str, Mapping[str, pl.DataFrame]]
"""Test set to system to its ``PREDICTIONS``."""
_Outcome = tuple[Difference, Numbers]


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """``against``: systems that every other one is compared with; empty for all pairs."""

    against: tuple[str, ...] = ()
    draws: int = DRAWS
    seed: int = 42


@dataclass(slots=True)
class _Pair:
    """A pair's differences and engines by test set or mean, and which of them are limited."""

    system: str
    other: str
    outcomes: dict[str, _Outcome] = field(default_factory=dict)
    engines: dict[str, tuple[str, str]] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)


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
    labelled |= claims_without_doubtful(labelled, doubtful or {})
    systems = sorted({system for by_system in predictions.values() for system in by_system})
    rows: list[dict[str, object]] = []
    for system, other in _pairs(systems, chosen.against):
        pair = _Pair(system, other)
        short = {name for one, name in limited if one in {system, other}}
        pair.limited = short | {column_of(name) for name in short}
        for name, frame in labelled.items():
            _add(pair, name, frame, predictions.get(base_of(name) or name, {}), chosen)
        rows += _rows(pair)
    return COMPARISON.conform(pl.DataFrame(rows, schema=COMPARISON.schema))


def _pairs(systems: Sequence[str], against: Sequence[str]) -> list[tuple[str, str]]:
    if not against:
        return list(combinations(systems, 2))
    return [(one, other) for other in against for one in systems if one != other]


def _add(
    pair: _Pair,
    name: str,
    claims: pl.DataFrame,
    predictions: Mapping[str, pl.DataFrame],
    settings: ComparisonSettings,
) -> None:
    """Compare the pair on one test set, if both have predictions of it."""
    ours, theirs = predictions.get(pair.system), predictions.get(pair.other)
    if ours is None or theirs is None:
        return
    both = _joined(claims, ours, theirs)
    if both["label"].n_unique() < 2:  # noqa: PLR2004 - a balanced accuracy needs both labels
        return
    classes = classes_of(both["label"])
    columns = ("label", "verdict", "other_verdict")
    labels, ours_read, theirs_read = (codes_of(both[one].to_list(), classes) for one in columns)
    outcome = compare(
        labels,
        ours_read,
        theirs_read,
        clusters_of(labels, both["document"].to_list()),
        generator(settings.seed, "comparison", name),
        settings.draws,
        classes,
    )
    pair.outcomes[name] = outcome
    pair.engines[name] = both["engine"][0], both["other_engine"][0]


def _joined(claims: pl.DataFrame, ours: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """The claims that both predicted, in a fixed order, with both verdicts and engines."""
    other = theirs.select("claim_id", pl.col("verdict", "engine").name.prefix("other_"))
    return (
        claims.select("claim_id", "label", document=SHARED_EVIDENCE)
        .join(ours.select("claim_id", "verdict", "engine"), on="claim_id")
        .join(other, on="claim_id")
        .sort("claim_id")
    )


def _rows(pair: _Pair) -> list[dict[str, object]]:
    sets = {
        name: outcome
        for name, (outcome, _) in pair.outcomes.items()
        if not math.isnan(outcome.difference)
    }
    means = _means(pair)
    whole = {name: outcome for name, outcome in sets.items() if not base_of(name)}
    rest = {name: outcome for name, outcome in sets.items() if base_of(name)}
    return [row for family in (whole, means, rest) for row in _family(pair, family)]


def _means(pair: _Pair) -> dict[str, Difference]:
    """The differences of the means of which both have every part."""
    means: dict[str, Difference] = {}
    for mean, parts in MEANS.items():
        if all(part in pair.outcomes for part in parts):
            means[mean] = mean_difference([pair.outcomes[part] for part in parts])
            pair.engines[mean] = _joint([pair.engines[part] for part in parts])
            if not pair.limited.isdisjoint(parts):
                pair.limited.add(mean)
    return means


def _joint(engines: Sequence[tuple[str, str]]) -> tuple[str, str]:
    ours, theirs = ("; ".join(sorted(set(side))) for side in zip(*engines, strict=True))
    return ours, theirs


def _family(pair: _Pair, differences: Mapping[str, Difference]) -> list[dict[str, object]]:
    """The rows of one family of tests, whose p-values are corrected together."""
    no_p = {
        name: LIMITED if name in pair.limited else difference.too_small
        for name, difference in differences.items()
    }
    tested = [name for name in differences if not no_p[name]]
    corrected = dict(zip(tested, holm([differences[name].p for name in tested]), strict=True))
    return [
        {
            "benchmark": name,
            "system": pair.system,
            "other": pair.other,
            "engine": pair.engines[name][0],
            "other_engine": pair.engines[name][1],
            "rows": outcome.rows,
            "limited": name in pair.limited,
            "difference": 100 * outcome.difference,
            "low": 100 * outcome.low,
            "high": 100 * outcome.high,
            "p_bootstrap": None if no_p[name] else outcome.p_bootstrap,
            "p_mcnemar": None if no_p[name] else outcome.p_mcnemar,
            "p_holm": corrected.get(name),
            "no_p": no_p[name] or None,
        }
        for name, outcome in differences.items()
    ]
