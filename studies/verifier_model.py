"""Fitting the verifier's logistic model: signed weights, two parts, one calibration.

Takes examples by corpus, gives ``VerifierWeights``. Every feature that can only speak for a
claim has a weight of 0 or more, every one that can only speak against it 0 or less: with
few corpora a free sign would learn a corpus's habits. The first part is fitted on labelled
and made claims and calibrated on corpora that its weights did not see; the second, features
that are 0 for most claims of the corpora, mostly by made claims and on top of the first.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from resources.verifier.evidence_match import FEATURES, RARE, RULES
from resources.verifier.lexical import VerifierWeights
from studies.verifier_data import Examples

Floats = NDArray[np.float64]
Training = Mapping[str, Sequence[Examples]]

_FOR = {"overlap", "overlap_all", "near"}
_LEAST = {"doubt": -2.0}
"""Made claims overstate the one remark of doubt that they plant; documents are milder."""
_LEAST_SCALE = 1e-6
_RIDGE, _RIDGE_RARE = 0.3, 1e-4
_MADE, _MADE_RARE = 0.1, 5.0
"""Weight of a corpus's made claims beside its own, in the first and the second part."""


def fit(training: Training) -> VerifierWeights:
    """The calibrated model of these corpora."""
    features, supported, weight = _stacked(training, _MADE)
    means, scales = features[:, :RARE].mean(0), features[:, :RARE].std(0) + 1e-9
    scaled = (features[:, :RARE] - means) / scales
    first = _logistic(scaled, supported, weight, _RIDGE, _bounds(FEATURES[:RARE]))
    slope, shift = _calibration(training)
    first = first * slope + np.append(np.zeros(RARE), shift)
    offset = scaled @ first[:-1] + first[-1]
    _, _, weight = _stacked(training, _MADE_RARE)
    rare = _bounds(FEATURES[RARE:])
    second = _logistic(features[:, RARE:], supported, weight, _RIDGE_RARE, rare, offset=offset)
    pad = len(FEATURES) - RARE
    return VerifierWeights(
        features=FEATURES,
        means=_rounded([*means, *np.zeros(pad)]),
        # Rounded, the scale of a feature that never varies would be 0.
        scales=_rounded([*np.maximum(scales, _LEAST_SCALE), *np.ones(pad)]),
        weights=_rounded([*first[:-1], *second[:-1]]),
        intercept=round(float(first[-1]), 6),
        rules=RULES,
        fitted_on={
            name: {"labelled": len(parts[0].claims.pairs), "made": len(parts[1].claims.pairs)}
            for name, parts in training.items()
        },
    )


def _calibration(training: Training) -> tuple[float, float]:
    """Slope and shift (Platt) of the first part on labelled claims of corpora left out."""
    logits, labels, weights = [], [], []
    for name, (own, _) in training.items():
        rest = {other: parts for other, parts in training.items() if other != name}
        features, supported, weight = _stacked(rest, _MADE)
        means, scales = features[:, :RARE].mean(0), features[:, :RARE].std(0) + 1e-9
        bounds = _bounds(FEATURES[:RARE])
        found = _logistic((features[:, :RARE] - means) / scales, supported, weight, _RIDGE, bounds)
        logits.append((own.features[:, :RARE] - means) / scales @ found[:-1] + found[-1])
        labels.append(own.claims.supported)
        weights.append(np.full(len(labels[-1]), len(labels[-1]) ** -0.5))
    x = np.concatenate(logits)[:, None]
    line = _logistic(x, np.concatenate(labels), np.concatenate(weights), 0.0, [(0.0, None)])
    return float(line[0]), float(line[1])


def _stacked(training: Training, made: float) -> tuple[Floats, Floats, Floats]:
    """Features, labels and weights; a corpus weighs as the root of its size, labels even."""
    parts = [part for pair in training.values() for part in pair]
    labels = np.concatenate([part.claims.supported for part in parts])
    return (
        np.vstack([part.features for part in parts]),
        labels,
        np.concatenate(
            [_weights(part.claims.supported, made if part.claims.made else 1.0) for part in parts]
        ),
    )


def _weights(supported: Floats, factor: float) -> Floats:
    share = supported.mean()
    even = np.where(supported == 1.0, 0.5 / share, 0.5 / (1.0 - share))
    return np.asarray(factor * even * len(supported) ** -0.5)


def _bounds(features: Sequence[str]) -> list[tuple[float | None, float | None]]:
    return [(0.0, None) if name in _FOR else (_LEAST.get(name), 0.0) for name in features]


def _logistic(
    features: Floats,
    supported: Floats,
    weight: Floats,
    ridge: float,
    bounds: list[tuple[float | None, float | None]],
    *,
    offset: Floats | None = None,
) -> Floats:
    """Ridge logistic weights, the intercept last; with an offset the intercept stays 0."""
    from scipy.optimize import minimize
    from scipy.special import expit

    design = np.hstack([features, np.ones((len(features), 1))])
    share = weight / weight.sum()
    penalty = np.append(np.full(features.shape[1], ridge), 0.0)
    base = np.zeros(len(features)) if offset is None else offset
    free = (None, None) if offset is None else (0.0, 0.0)

    def loss(found: Floats) -> tuple[float, Floats]:
        logits = design @ found + base
        value = share @ (np.logaddexp(0.0, logits) - supported * logits)
        gradient = design.T @ (share * (expit(logits) - supported)) + penalty * found
        return value + 0.5 * float(penalty @ (found * found)), gradient

    start = np.zeros(design.shape[1])
    solved = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, free])
    return np.asarray(solved.x)


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)
