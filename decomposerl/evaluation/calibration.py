"""A verdict's confidence, and its calibration: how often such a verdict is right.

The confidence is read from the log probabilities of the verdict's tokens. The verdict is located by
character offset, because the end of a tag may share a token with the word: after the last opening
verification tag; in a reply without one, in the last ``Verdict: ...`` line, else in the last line
with a letter if it says nothing else. The words of a pair differ in their first letter, so the
first token decides: the probabilities of all tokens that begin one word are summed. Where a trace
argued before the verdict these numbers saturate.

A ``Calibration`` is fitted to confidences on a dev split, never on a benchmark. It is valid for one
model with one prompt only: another model's logits have another temperature.

Its temperature divides the log odds of the confidence (with two labels the difference of their
logits) and is fitted by maximum likelihood. Reported errors are cross-fitted.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from decomposerl.chat import Token
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.metrics import (
    BINS,
    Codes,
    Numbers,
    bin_numbers,
    brier,
    calibration_error,
)
from decomposerl.evaluation.scored_claims import HAS_EVIDENCE, SHARED_EVIDENCE, in_turns
from decomposerl.replies.wordings import Wordings
from decomposerl.schemas import CALIBRATIONS
from decomposerl.traces.trace import Verdict

READING = 2
"""Part of the prompt's hash. Raise it whenever this file reads another number, or none, from the
same tokens: stored claims are then not reused."""
TAG = "<verification>"
PAIRS = (("supported", "refuted"), ("yes", "no"), ("true", "false"))
"""Words for Supported and for Refuted; a trace uses the first pair only."""
SMALLEST_REST = 1e-6
"""Least probability of all unlisted tokens: log probabilities come in single precision."""
_SPELLED = Wordings("spelled")


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence of a verdict's token, all 0..1.

    ``raw`` is the probability of the printed word, as the paper seems to print; ``normalised`` the
    same over the two words alone. ``lower_bound``: the other word was not among the listed tokens,
    and ``normalised`` assumes the greatest probability that it can have had. ``verdict`` is the one
    that the tokens spell.
    """

    raw: float
    normalised: float
    lower_bound: bool
    verdict: Verdict


def read_confidence(tokens: Sequence[Token]) -> Confidence | None:
    """The confidence of the verdict that these tokens spell.

    None where it is unavailable: no verdict is spelled, or the tokens have no top log
    probabilities.
    """
    texts = [token.text for token in tokens]
    text = "".join(texts)
    if (tag := text.rfind(TAG)) >= 0:
        said = _SPELLED["label"].match(text, tag + len(TAG))
    else:
        lines = [*_SPELLED["last_named"].finditer(text)] or [*_SPELLED["line"].finditer(text)]
        said = _SPELLED["said"].fullmatch(text, *lines[-1].span("rest")) if lines else None
    if said is None:
        return None
    ends = list(accumulate(map(len, texts)))
    index = bisect_right(ends, said.start("word"))
    token = tokens[index]
    if not token.alternatives:
        return None
    before = said.start("word") - (ends[index] - len(token.text))
    return _read_token(token, token.text[:before].strip(), said["word"].lower())


def _read_token(token: Token, head: str, word: str) -> Confidence:
    """Sum the tokens that begin ``word`` and those that begin its rival.

    ``head`` is the text before the word in the same token.
    """
    pair = next(pair for pair in PAIRS if word in pair)
    listed = list(token.alternatives)
    if all(text != token.text for text, _ in listed):
        listed.append((token.text, token.logprob))
    chances = {
        begun: [math.exp(logprob) for text, logprob in listed if _begins(text, head, begun)]
        for begun in pair
    }
    rival = chances[pair[1 - pair.index(word)]]
    own, against = min(sum(chances[word]), 1.0), sum(rival)
    if not rival:
        # An unlisted token has at most the least listed probability, and at most the mass left.
        every = [math.exp(logprob) for _, logprob in listed]
        against = min(*every, max(1.0 - math.fsum(every), SMALLEST_REST))
    verdict: Verdict = "Supported" if word == pair[0] else "Refuted"
    total = own + against
    return Confidence(own, own / total if total else 0.5, not rival, verdict)


def _begins(text: str, head: str, word: str) -> bool:
    """Whether a token, after ``head``, begins ``word``."""
    written = text.lstrip()
    if not written.startswith(head):
        return False
    rest = written[len(head) :].lstrip().lower()
    if len(rest) <= len(word):
        return rest != "" and word.startswith(rest)
    return rest.startswith(word) and not rest[len(word)].isalnum()


LEAST_VERDICTS, FOLDS = 20, 5
CLIP = 1e-6
"""Confidences are kept this far from 0 and 1: log probabilities come in single precision."""
_SHARPEST, _FLATTEST = 100.0, 1e-3  # bounds of 1 / temperature
NO_CONFIDENCE = (
    "no verdict has token probabilities to calibrate. Rules and verifiers have no tokens; an "
    "endpoint must return top log-probabilities; and some methods conclude without a model"
)


def dev_split(
    pool: pl.DataFrame, used: Iterable[pl.Series], count: int, seed: int
) -> tuple[pl.DataFrame, str]:
    """At most ``count`` claims of ``pool`` (``SILVER_DECOMPOSED``) with evidence, none in ``used``.

    Each label gets half, the first one more where ``count`` is odd; where one label has too few
    the other fills up. The order is that of a hash over seed and id, so a larger split begins with
    the smaller one. The funnel removed every test claim from the pool before. With them comes the
    name that a calibration records: sizes, seed, and 16 hex digits over the claims' ids.
    """
    taken = pl.concat([pool["claim_id"].clear(), *used]).unique()
    free = pool.filter(HAS_EVIDENCE, ~pl.col("claim_id").is_in(taken.implode()))

    def order(claim_id: str) -> str:
        return hashlib.sha256(f"calibration:{seed}:{claim_id}".encode()).hexdigest()

    drawn = in_turns(free.sort(pl.col("claim_id").map_elements(order, pl.String)), count)
    digest = hashlib.sha256("".join(drawn["claim_id"].sort()).encode()).hexdigest()[:16]
    sizes = f"{drawn.height:,} of {free.height:,} unused claims of silver_decomposed"
    return drawn, f"{sizes} ({pool.height:,}), seed {seed}, claims {digest}"


class Calibration(BaseModel):
    """A fitted temperature, and the model and prompt it is valid for.

    ``error_*`` are expected calibration errors on the dev split, ``brier_*`` Brier scores;
    ``*_after`` are cross-fitted over ``folds`` folds.
    """

    # Temperatures of earlier versions have the fields of a curve, which are empty.
    model_config = ConfigDict(frozen=True, extra="ignore")

    method: Literal["temperature"] = "temperature"
    model: str = Field(min_length=1)
    prompt_hash: str = Field(min_length=1)
    fitted_on: str = Field(min_length=1)
    rows: int = Field(ge=1)
    temperature: float = Field(gt=0.0, allow_inf_nan=False)
    error_before: float = Field(ge=0.0, le=1.0)
    error_after: float = Field(ge=0.0, le=1.0)
    brier_before: float = Field(ge=0.0, le=1.0)
    brier_after: float = Field(ge=0.0, le=1.0)
    folds: int = Field(ge=2)

    def misfit(self, model: str, prompt_hash: str) -> str:
        """Why it must not be applied to this model and prompt; empty where it may."""
        bound = ("model", self.model, model), ("prompt hash", self.prompt_hash, prompt_hash)
        for what, own, given in bound:
            if own != given:
                return f"was fitted to {what} {own}, not {given}: fit one for it"
        return ""

    def apply(self, confidences: Numbers) -> Numbers:
        """Calibrated confidences of the model and prompt it is valid for, same shape, 0..1.

        NaN stays NaN.
        """
        return _chance(_log_odds(confidences) / self.temperature)


def _log_odds(chances: Numbers) -> Numbers:
    inside = np.clip(chances, CLIP, 1 - CLIP)
    odds: Numbers = np.log(inside) - np.log1p(-inside)
    return odds


def _chance(log_odds: Numbers) -> Numbers:
    chance: Numbers = (1.0 + np.tanh(log_odds / 2)) / 2  # tanh never overflows
    return chance


def fit_on_predictions(
    predictions: pl.DataFrame, claims: pl.DataFrame, fitted_on: str
) -> tuple[Calibration, pl.DataFrame]:
    """Fit a calibration to a system's ``PREDICTIONS`` of labelled ``claims``, with a confidence.

    With it comes the reliability of these confidences as ``CALIBRATIONS``, before and cross-fitted
    after; verdicts on the same evidence are in one fold.

    Raises:
        EvaluationError: as ``fit_calibration``.
    """
    system, engine, prompt_hash = predictions.select("system", "engine", "prompt_hash").row(0)
    about = claims.select("claim_id", "label", document=pl.coalesce(SHARED_EVIDENCE, "claim_id"))
    joined = predictions.join(about, on="claim_id", maintain_order="left")
    rows = joined.drop_nulls("confidence_normalised")
    confidences = rows["confidence_normalised"].to_numpy()
    right = (rows["verdict"] == rows["label"]).to_numpy()
    evidence = rows["document"].rank("dense").to_numpy().astype(np.int64)
    named = {"model": engine, "prompt_hash": prompt_hash, "fitted_on": fitted_on}
    calibration, after = fit_calibration(confidences, right, evidence, **named)
    bins = [
        reliability(values, right).with_columns(reading=pl.lit(name))
        for name, values in (("normalised", confidences), ("calibrated", after))
    ]
    named_bins = pl.concat(bins).with_columns(system=pl.lit(system), engine=pl.lit(engine))
    return calibration, CALIBRATIONS.conform(named_bins)


def fit_calibration(
    confidences: Numbers, right: NDArray[np.bool_], evidence: Codes, **named: str
) -> tuple[Calibration, Numbers]:
    """Fit a calibration to the verdicts of a dev split, and calibrate each without its fold.

    ``evidence`` numbers the evidence of each verdict: verdicts on the same one are in one fold, so
    no temperature is tested on evidence that it was fitted to. ``named`` are the calibration's
    ``model``, ``prompt_hash`` and ``fitted_on``.

    Raises:
        EvaluationError: too few verdicts, or all on the same evidence.
    """
    if len(confidences) < LEAST_VERDICTS:
        raise EvaluationError(
            f"{len(confidences):,} verdicts are too few to fit a calibration: {LEAST_VERDICTS}"
        )
    pieces, numbers = np.unique(evidence, return_inverse=True)
    if len(pieces) == 1:
        raise EvaluationError("a calibration needs verdicts on more than one piece of evidence")
    odds, folds = _log_odds(confidences), numbers % FOLDS
    after = np.full(len(confidences), np.nan)
    for fold in np.unique(folds):
        inside = folds == fold
        after[inside] = _chance(odds[inside] / _temperature(odds[~inside], right[~inside]))
    calibration = Calibration(
        **named,
        rows=len(confidences),
        temperature=_temperature(odds, right),
        error_before=calibration_error(confidences, right),
        error_after=calibration_error(after, right),
        brier_before=brier(confidences, right),
        brier_after=brier(after, right),
        folds=min(FOLDS, len(pieces)),
    )
    return calibration, after


def _temperature(odds: Numbers, right: NDArray[np.bool_]) -> float:
    """The likeliest temperature within the bounds."""
    from scipy.optimize import brentq  # slow to import, and rarely needed

    def slope(sharpness: float) -> float:
        """Of the likelihood, which is concave: its maximum is where the slope is zero."""
        return float((odds * (right - _chance(odds * sharpness))).sum())

    if slope(_FLATTEST) <= 0:
        return 1.0 / _FLATTEST
    if slope(_SHARPEST) >= 0:
        return 1.0 / _SHARPEST
    return 1.0 / float(brentq(slope, _FLATTEST, _SHARPEST, xtol=1e-15))


def reliability(confidences: Numbers, right: NDArray[np.bool_], bins: int = BINS) -> pl.DataFrame:
    """The rows of a reliability diagram: how often verdicts of similar confidence were right.

    The columns of ``CALIBRATIONS`` from ``bin`` on, a row for each of at most ``bins`` bins that is
    not empty, in rising order. Bins are those of the calibration error by mass.
    """
    columns = {"bin": bin_numbers(confidences, bins), "confidence": confidences}
    kinds = {"bin": pl.Int64, "confidence": pl.Float64, "right": pl.Boolean}
    confidence = pl.col("confidence")
    return (
        pl.DataFrame(columns | {"right": right}, schema=kinds)
        .group_by("bin")
        .agg(
            low=confidence.min(),
            high=confidence.max(),
            rows=pl.len().cast(pl.Int64),
            confidence=confidence.mean(),
            right=pl.col("right").mean(),
        )
        .sort("bin")
    )
