"""Calibration: how often a verdict given with some confidence is right.

Takes confidences of verdicts on a dev split with whether they were right, gives a
``Calibration`` that turns a confidence into that share. It holds for one model with one prompt:
applied to another it is refused, because a temperature says nothing of another model's logits.

``temperature`` divides the log odds of the confidence, which for two labels is the difference of
their logits, and is fitted by maximum likelihood; ``isotonic`` is the nondecreasing step curve
with the least squared error, interpolated between steps, and needs ``LEAST_ISOTONIC`` verdicts.

Left out deliberately: files (``Calibration`` is a pydantic model: JSON both ways), and which split
is the dev split; benchmarks are never it.
"""

from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.metrics import Numbers, calibration_error
from decomposerl.settings import Settings

LEAST_ISOTONIC = 500
LEAST_TEMPERATURE = 20
CLIP = 1e-6
"""Confidences are read as this far from 0 and 1: log probabilities come in single precision."""
_SHARPEST, _FLATTEST = 100.0, 1e-3  # bounds of 1 / temperature
_STEPS = 200

Method = Literal["temperature", "isotonic"]


class Calibration(Settings):
    """A fitted curve and what it is bound to.

    ``confidences`` and ``shares`` are the corners of an isotonic curve, empty for a temperature.
    ``error_before`` and ``error_after`` are expected calibration errors on the dev split.
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

    def apply(self, confidences: Numbers, *, model: str, prompt_hash: str) -> Numbers:
        """Calibrated confidences of this model with this prompt, same shape, 0..1; NaN stays.

        Raises:
            EvaluationError: model or prompt are others than it was fitted to.
        """
        for what, own, given in (
            ("model", self.model, model),
            ("prompt hash", self.prompt_hash, prompt_hash),
        ):
            if own != given:
                raise EvaluationError(
                    f"the calibration was fitted to {what} {own}, not {given}: fit one for it"
                )
        if self.method == "isotonic":
            return _curve(confidences, np.array(self.confidences), np.array(self.shares))
        return _softened(confidences, 1.0 / self.temperature)


def fit_calibration(  # noqa: PLR0913 - what it is fitted to, and what it is bound to
    confidences: Numbers,
    right: NDArray[np.bool_],
    method: Method,
    *,
    model: str,
    prompt_hash: str,
    fitted_on: str,
) -> Calibration:
    """Fit a calibration to the verdicts of a dev split, named ``fitted_on``.

    Raises:
        EvaluationError: too few verdicts for the method, or a confidence outside 0..1.
    """
    _check(confidences, method)
    corners: tuple[Numbers, Numbers] = np.empty(0), np.empty(0)
    sharpness = 1.0
    if method == "isotonic":
        corners = isotonic_curve(confidences, right)
        found = _curve(confidences, *corners)
    else:
        sharpness = _sharpness(confidences, right)
        found = _softened(confidences, sharpness)
    return Calibration(
        method=method,
        model=model,
        prompt_hash=prompt_hash,
        fitted_on=fitted_on,
        rows=len(confidences),
        temperature=1.0 / sharpness,
        confidences=tuple(corners[0].tolist()),
        shares=tuple(corners[1].tolist()),
        error_before=calibration_error(confidences, right),
        error_after=calibration_error(found, right),
    )


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


def _curve(values: Numbers, places: Numbers, heights: Numbers) -> Numbers:
    """Between corners along the line, beyond them flat."""
    found: Numbers = np.interp(values, places, heights)
    return found


def _softened(confidences: Numbers, sharpness: float) -> Numbers:
    return _chance(_log_odds(confidences) * sharpness)


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
