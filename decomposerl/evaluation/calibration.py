"""Calibration: how often a verdict given with some confidence is right.

Takes confidences of verdicts on a dev split with whether they were right, gives a
``Calibration`` that turns a confidence into that share. It holds for one model with one prompt:
applied to another it is refused, because a temperature says nothing of another model's logits.

``temperature`` divides the log odds of the confidence, which for two labels is the difference of
their logits, and is fitted by maximum likelihood; ``isotonic`` is the nondecreasing step curve
with the least squared error, interpolated between steps, and needs ``LEAST_ISOTONIC`` verdicts.

What it is worth is told by cross-fitting: each verdict's confidence by a curve that was fitted
without it and without verdicts on the same evidence. On the rows that a curve was fitted to, an
isotonic one has no error at all.

Left out deliberately: files (``Calibration`` is a pydantic model: JSON both ways), and which split
is the dev split (``evaluation.dev_split``); benchmarks are never it.
"""

from typing import Literal, NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.metrics import Codes, Numbers, bin_numbers, brier, calibration_error
from decomposerl.settings import Settings

LEAST_ISOTONIC = 500
LEAST_TEMPERATURE = 20
FOLDS = 5
CLIP = 1e-6
"""Confidences are read as this far from 0 and 1: log probabilities come in single precision."""
_SHARPEST, _FLATTEST = 100.0, 1e-3  # bounds of 1 / temperature
_STEPS = 200

Method = Literal["temperature", "isotonic"]


class Calibration(Settings):
    """A fitted curve and what it is bound to.

    ``confidences`` and ``shares`` are the corners of an isotonic curve, empty for a temperature.
    ``error_*`` are expected calibration errors on the dev split, ``brier_*`` Brier scores;
    ``*_after`` are cross-fitted in ``folds``.
    """

    method: Method
    model: str = Field(min_length=1)
    prompt_hash: str = Field(min_length=1)
    fitted_on: str = Field(min_length=1)
    rows: int = Field(ge=1)
    temperature: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    confidences: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    error_before: float = Field(ge=0.0, le=1.0)
    error_after: float = Field(ge=0.0, le=1.0)
    brier_before: float = Field(ge=0.0, le=1.0)
    brier_after: float = Field(ge=0.0, le=1.0)
    folds: int = Field(ge=2)

    @model_validator(mode="after")
    def _is_a_curve(self) -> Self:
        corners = np.array([self.confidences, self.shares]) if self._paired() else None
        if corners is None or not ((corners >= 0) & (corners <= 1)).all():
            raise ValueError("confidences and shares must be as many, each 0..1")
        if (np.diff(corners[0]) <= 0).any() or (np.diff(corners[1]) < 0).any():
            raise ValueError("confidences must rise and shares must not fall")
        if (self.method == "isotonic") != (len(self.shares) > 0):
            raise ValueError("an isotonic curve has corners, a temperature none")
        return self

    def _paired(self) -> bool:
        return len(self.confidences) == len(self.shares)

    def refuse_others(self, *, model: str, prompt_hash: str) -> None:
        """Pass where these are what it was fitted to.

        Raises:
            EvaluationError: model or prompt are others.
        """
        for what, own, given in (
            ("model", self.model, model),
            ("prompt hash", self.prompt_hash, prompt_hash),
        ):
            if own != given:
                raise EvaluationError(
                    f"the calibration was fitted to {what} {own}, not {given}: fit one for it"
                )

    def apply(self, confidences: Numbers, *, model: str, prompt_hash: str) -> Numbers:
        """Calibrated confidences of this model with this prompt, same shape, 0..1; NaN stays.

        Raises:
            EvaluationError: as ``refuse_others``.
        """
        self.refuse_others(model=model, prompt_hash=prompt_hash)
        corners = np.array(self.confidences), np.array(self.shares)
        return _Curve(1.0 / self.temperature, *corners).applied(confidences)


class _Curve(NamedTuple):
    """What was fitted: corners, or where there are none a factor of the log odds."""

    sharpness: float
    places: Numbers
    heights: Numbers

    def applied(self, confidences: Numbers) -> Numbers:
        if not len(self.places):
            return _chance(_log_odds(confidences) * self.sharpness)
        found: Numbers = np.interp(confidences, self.places, self.heights)  # beyond corners flat
        return found


def fit_calibration(  # noqa: PLR0913 - what it is fitted to, and what it is bound to
    confidences: Numbers,
    right: NDArray[np.bool_],
    method: Method,
    *,
    model: str,
    prompt_hash: str,
    fitted_on: str,
    evidence: Codes | None = None,
) -> Calibration:
    """Fit a calibration to the verdicts of a dev split, named ``fitted_on``.

    ``evidence`` has the same number for verdicts on the same evidence; without it each has its
    own.

    Raises:
        EvaluationError: too few verdicts for the method, all on the same evidence, or a
            confidence outside 0..1.
    """
    _check(confidences, method)
    alone = np.arange(len(confidences)) if evidence is None else evidence
    after = cross_fitted(confidences, right, alone, method)
    curve = _fitted(confidences, right, method)
    return Calibration(
        method=method,
        model=model,
        prompt_hash=prompt_hash,
        fitted_on=fitted_on,
        rows=len(confidences),
        temperature=1.0 / curve.sharpness,
        confidences=tuple(curve.places.tolist()),
        shares=tuple(curve.heights.tolist()),
        error_before=calibration_error(confidences, right),
        error_after=calibration_error(after, right),
        brier_before=brier(confidences, right),
        brier_after=brier(after, right),
        folds=len(np.unique(_folds(alone))),
    )


def cross_fitted(
    confidences: Numbers, right: NDArray[np.bool_], evidence: Codes, method: Method
) -> Numbers:
    """Each confidence by the curve of all verdicts outside its fold; evidence is in one fold.

    Raises:
        EvaluationError: all verdicts are on the same evidence.
    """
    folds = _folds(evidence)
    found = np.full(len(confidences), np.nan)
    for fold in np.unique(folds):
        held = folds == fold
        found[held] = _fitted(confidences[~held], right[~held], method).applied(confidences[held])
    return found


def _folds(evidence: Codes) -> Codes:
    """The fold of each verdict, 0 to ``FOLDS`` - 1, by turns over the pieces of evidence."""
    _, pieces = np.unique(evidence, return_inverse=True)
    if not pieces.any():
        raise EvaluationError("a calibration needs verdicts on more than one piece of evidence")
    folds: Codes = pieces % FOLDS
    return folds


def _fitted(confidences: Numbers, right: NDArray[np.bool_], method: Method) -> _Curve:
    if method == "isotonic":
        return _Curve(1.0, *isotonic_curve(confidences, right))
    return _Curve(_sharpness(confidences, right), np.empty(0), np.empty(0))


def _check(confidences: Numbers, method: Method) -> None:
    least = LEAST_ISOTONIC if method == "isotonic" else LEAST_TEMPERATURE
    if len(confidences) < least:
        raise EvaluationError(
            f"{len(confidences):,} verdicts are too few to fit {method} calibration: {least:,}"
        )
    if not ((confidences >= 0) & (confidences <= 1)).all():
        raise EvaluationError("a confidence to calibrate lies outside 0..1")


def isotonic_curve(values: Numbers, happened: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Corners of the nondecreasing curve with the least squared error: pool adjacent violators.

    Values rise strictly; each block of equal shares keeps its two ends.
    """
    places, where = np.unique(values, return_inverse=True)
    weights = np.bincount(where).astype(np.float64)
    shares = np.bincount(where, weights=happened) / weights
    blocks: list[tuple[float, float, int]] = []  # share, weight, number of places
    for share, weight in zip(shares.tolist(), weights.tolist(), strict=True):
        block = (share, weight, 1)
        while blocks and blocks[-1][0] >= block[0]:
            before = blocks.pop()
            total = before[1] + block[1]
            mean = (before[0] * before[1] + block[0] * block[1]) / total
            block = (mean, total, before[2] + block[2])
        blocks.append(block)
    ends = np.cumsum([count for _, _, count in blocks])
    starts = np.concatenate([[0], ends[:-1]])
    corners = np.unique(np.concatenate([starts, ends - 1]))
    heights = np.repeat([share for share, _, _ in blocks], [count for _, _, count in blocks])
    return places[corners], heights[corners]


def reliability(confidences: Numbers, right: NDArray[np.bool_]) -> pl.DataFrame:
    """Columns ``bin``, ``low``, ``high``, ``rows``, ``confidence``, ``right``, in rising bins.

    Bins hold equally many verdicts, as those of the calibration error; ``low`` and ``high`` are
    the least and greatest confidence in it, ``confidence`` their mean, ``right`` the share.
    """
    rows = pl.DataFrame(
        {"bin": bin_numbers(confidences, "mass"), "confidence": confidences, "right": right},
        schema={"bin": pl.Int64, "confidence": pl.Float64, "right": pl.Boolean},
    )
    return (
        rows.group_by("bin")
        .agg(
            low=pl.col("confidence").min(),
            high=pl.col("confidence").max(),
            rows=pl.len().cast(pl.Int64),
            confidence=pl.col("confidence").mean(),
            right=pl.col("right").mean(),
        )
        .sort("bin")
    )


def _log_odds(chances: Numbers) -> Numbers:
    inside = np.clip(chances, CLIP, 1 - CLIP)
    odds: Numbers = np.log(inside) - np.log1p(-inside)
    return odds


def _chance(log_odds: Numbers) -> Numbers:
    chance: Numbers = (1.0 + np.tanh(log_odds / 2)) / 2  # overflows nowhere
    return chance


def _sharpness(confidences: Numbers, right: NDArray[np.bool_]) -> float:
    """1 / temperature of the greatest likelihood: where its falling slope crosses 0."""
    odds = _log_odds(confidences)

    def slope(sharpness: float) -> float:
        return float((odds * (right - _chance(odds * sharpness))).sum())

    low, high = _FLATTEST, _SHARPEST
    if slope(low) <= 0 or slope(high) >= 0:
        return low if slope(low) <= 0 else high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2
