"""What is shown of a verdict's confidence: of a claim just verified and of a stored one alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decomposerl.evaluation.calibration import Confidence
from decomposerl.schemas import Verdict

_VERIFIER = "the verifier's probability of the verdict"
_TOKEN = "raw is the probability of the verdict's word after the trace"  # noqa: S105 - a token of text
_BOUND = " (the other word was not among the listed tokens)"
_UNFITTED = "it is usually near 1, and says little until it is calibrated"
_FITTED = "calibrated is the share of right verdicts at such a confidence"


@dataclass(frozen=True, slots=True)
class VerdictConfidence:
    """Confidence in the verdict, 0..1 each. ``meaning`` says what the numbers are.

    ``raw`` is the probability of the verdict's word, ``normalised`` its share of both words; of a
    verifier both are the probability of the verdict. ``calibrated`` is the share of verdicts with
    such a confidence that were right on a dev split, None where no calibration was fitted.
    """

    raw: float
    normalised: float
    calibrated: float | None = None
    meaning: str = ""


def confidence_of(
    verdict: Verdict | None,
    support: float | None,
    tokens: Confidence | None,
    calibrated: float | None,
    fit: str = "",
) -> VerdictConfidence | None:
    """What is shown of a verdict's confidence: a verifier's probability, else that of its tokens.

    ``fit`` says of which claims the calibration is.
    """
    if verdict is not None and support is not None:
        chance = support if verdict == "Supported" else 1.0 - support
        return VerdictConfidence(chance, chance, calibrated, _VERIFIER)
    if tokens is None:
        return None
    meaning = f"{_TOKEN}{_BOUND if tokens.lower_bound else ''}; "
    meaning += _UNFITTED if calibrated is None else f"{_FITTED}{fit}"
    return VerdictConfidence(tokens.raw, tokens.normalised, calibrated, meaning)


def stored_confidence(row: Mapping[str, Any]) -> VerdictConfidence | None:
    """What is shown of the confidence in a row of ``PREDICTIONS``."""
    raw, normalised = row["confidence_raw"], row["confidence_normalised"]
    known = raw is not None and normalised is not None
    bound, verdict = bool(row["confidence_bound"]), row["verdict"]
    tokens = Confidence(raw, normalised, bound, verdict) if known else None
    return confidence_of(verdict, row["support_score"], tokens, row["confidence_calibrated"])
