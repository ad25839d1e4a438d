"""Scores of one system on one benchmark: every metric with its interval, overall and by slice.

Scores are percent, except ``*_per_claim``. Every labelled claim counts, also without a
verdict. Metrics of confidence are over the claims whose verdict has that confidence (``rows``),
for all claims together only: ``auroc_*`` tells right verdicts from wrong ones by confidence,
``auroc_support`` Supported claims from Refuted ones by support score.
``balanced_accuracy_mean_of_subsets`` is the uniform mean over the benchmark's subsets,
``balanced_accuracy_without_doubtful`` leaves out the claims whose label is doubtful.
``silent_rate`` is the share of silent verdicts among those with a basis (``traces.basis``).

Intervals (``evaluation.metrics``) are in closed form, those of calibration errors bootstrapped.
"""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import polars as pl

from decomposerl.claims.doubtful import WITHOUT
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.metrics import (
    BALANCED,
    BINS,
    NAMES,
    Estimate,
    auroc,
    bin_numbers,
    bootstrapped,
    codes_of,
    mean_of,
    ratio,
    share,
    shared_evidence,
    summed,
    verdict_estimates,
)
from decomposerl.evaluation.scored_claims import (
    beyond_context,
    scored_claims,
    slices,
    without_dropped,
)
from decomposerl.schemas import BASES, LABELS, SCORES, VERDICTS

CONFIDENCES = ("raw", "normalised", "calibrated")
MEAN_OF_SUBSETS = "balanced_accuracy_mean_of_subsets"
BEYOND_RATE = "beyond_context_rate"
BY_BASIS = "accuracy_"
"""Before the name of a basis: the accuracy of the verdicts that rest on it."""
_COUNT = "_per_claim"
_EACH, _TRACED = pl.lit(1), pl.col("trace").is_not_null()
_BASIS = pl.when(pl.col("verdict").is_not_null()).then("basis")
_HAS = {basis: _BASIS.eq_missing(pl.lit(basis)) for basis in BASES}
_RIGHT = pl.col("verdict").eq_missing(pl.col("label"))
_Ratios = dict[str, tuple[pl.Expr, pl.Expr]]
_RATIOS: _Ratios = {
    "parse_rate": (pl.col("parse_status") == "parsed", _EACH),
    "truncation_rate": (pl.col("parse_status") == "truncated", _EACH),
    "failure_rate": (pl.col("parse_status") == "failed", _EACH),
    "calls_per_claim": (pl.col("calls"), _EACH),
    "questions_per_claim": (pl.col("questions") * _TRACED, _TRACED),
    "abstention_rate": (pl.col("abstentions") * _TRACED, pl.col("questions") * _TRACED),
    "silent_rate": (_HAS["silent"], _BASIS.is_not_null()),
    **{f"{BY_BASIS}{basis}": (has & _RIGHT, has) for basis, has in _HAS.items()},
}
_LONG: _Ratios = {BEYOND_RATE: (beyond_context().is_not_null(), _EACH)}
_Rows = Iterator[dict[str, Any]]


def score_predictions(
    predictions: pl.DataFrame,
    claims: pl.DataFrame,
    doubtful: Collection[str] = (),
    classes: int = len(LABELS),
) -> pl.DataFrame:
    """``SCORES`` of one system's predictions of one benchmark; empty where no claim has a label.

    ``doubtful`` are ids of claims with a doubtful label; where there are some, there is a metric
    over the others. ``classes`` counts the test set's labels: 3 for a three-way one, where means
    are over three and a verdict that was not read is wrong for its label and nobody else's.

    Raises:
        EvaluationError: predictions and claims do not match, predictions are of several systems, or
            a claim has another label.
    """
    frame = scored_claims(predictions, claims)
    if beyond := frame.height - frame["label"].is_in(VERDICTS[:classes]).sum():
        known = ", ".join(VERDICTS[:classes])
        raise EvaluationError(
            f"{beyond:,} claims have a label that this test set does not have: it has {known}"
        )
    frame = frame.with_columns(
        *(pl.Series(f"{word}_code", codes_of(frame[word].to_list(), classes))
          for word in ("label", "verdict")),
        evidence_code=pl.Series(shared_evidence(frame["document"].to_list())),
    )  # fmt: skip
    counted = without_dropped(frame)
    if not counted.height:
        return SCORES.empty()
    rows = [*_verdict_rows(counted, classes)]
    parts = [
        {"slice": name, "value": value} | row
        for name, value, part in slices(counted)
        for row in (*_verdict_rows(part, classes), *_ratio_rows(part, _RATIOS))
    ]
    subsets = [row for row in parts if (row["slice"], row["metric"]) == ("subset", BALANCED)]
    if subsets:
        bounds = [[row[end] / 100 for end in ("score", "low", "high")] for row in subsets]
        mean = mean_of([Estimate(*three) for three in bounds])
        rows.append(_row(MEAN_OF_SUBSETS, mean, counted.drop_nulls("subset")))
    sure = counted.filter(~pl.col("claim_id").is_in(list(doubtful)))
    if 0 < sure.height < counted.height:
        rows.append(next(_verdict_rows(sure, classes)) | {"metric": f"{BALANCED}{WITHOUT}"})
    rows += [*_ratio_rows(counted, _RATIOS), *_ratio_rows(frame, _LONG), *_confidence_rows(counted)]
    head = {name: frame[name][0] for name in ("benchmark", "system", "engine")}
    whole = head | {"slice": "all", "value": ""}
    table = pl.DataFrame([whole | row for row in (*rows, *parts)], SCORES.schema)
    return SCORES.conform(table.fill_nan(None))


def _row(metric: str, estimate: Estimate, claims: pl.DataFrame) -> dict[str, Any]:
    times = 1.0 if metric.endswith(_COUNT) else 100.0
    scaled = [number * times for number in estimate[:3]]
    return {
        "metric": metric,
        **dict(zip(("score", "low", "high"), scaled, strict=True)),
        "rows": claims.height,
        "supported": (claims["label"] == LABELS[0]).sum(),
    }


def _verdict_rows(claims: pl.DataFrame, classes: int) -> _Rows:
    """Every metric of verdicts, balanced accuracy first; a missing verdict counts as wrong."""
    labels, verdicts, evidence = (
        claims[f"{column}_code"].to_numpy() for column in ("label", "verdict", "evidence")
    )
    for metric, estimate in verdict_estimates(labels, verdicts, evidence, NAMES[:classes]).items():
        yield _row(metric, estimate, claims)


def _ratio_rows(claims: pl.DataFrame, ratios: _Ratios) -> _Rows:
    """Rates and counts a claim, where a claim is in them."""
    evidence = claims["evidence_code"].to_numpy()
    for metric, (above, below) in ratios.items():
        sums = claims.select(above=above.cast(pl.Int64), below=below.cast(pl.Int64)).to_numpy()
        hits, of = sums.T
        if of.any():
            estimate = (ratio if metric.endswith(_COUNT) else share)(hits, of, evidence)
            yield _row(metric, estimate, claims.filter(of > 0))


def _confidence_rows(claims: pl.DataFrame) -> _Rows:
    """Each metric over the claims that have the number; a confidence also needs a verdict."""
    for kind in ("support", *CONFIDENCES):
        column = "support_score" if kind == "support" else f"confidence_{kind}"
        known = claims.drop_nulls([column] if kind == "support" else [column, "verdict"])
        if not known.height:
            continue
        numbers, evidence = known[column].to_numpy(), known["evidence_code"].to_numpy()
        supported = (known["label"] == LABELS[0]).to_numpy()
        right = (known["label"] == known["verdict"]).to_numpy()
        estimate = auroc(numbers, supported if kind == "support" else right, evidence)
        yield _row(f"auroc_{kind}", estimate, known)
        if kind == "support":
            continue
        squares, each = (numbers - right) ** 2, np.ones(len(numbers))
        gaps = np.eye(BINS)[bin_numbers(numbers)] * (numbers - right)[:, None]
        sums = summed(evidence, *gaps.T, each)
        error = bootstrapped(lambda drawn: np.abs(drawn[:-1]).sum(axis=0) / drawn[-1], sums)
        yield _row(f"ece_{kind}", error, known)
        yield _row(f"brier_{kind}", ratio(squares, each, evidence), known)
