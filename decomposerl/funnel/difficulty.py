"""Keep claims of middle difficulty (paper, "Difficulty-Based Filtering").

The step adds ``support_probability`` p and ``label_confidence``: p where the label is
Supported, else 1 - p. Above the band the claim is too easy; below it, the label is likely
wrong.
"""

import numpy as np
import polars as pl

from decomposerl.errors import EngineError
from decomposerl.funnel.settings import DifficultySettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, where
from decomposerl.ports import Verifier

TOO_EASY, MISLABELLED = "too_easy", "likely_mislabelled"
DECIMALS = 12  # so that 1 - 0.7 is not above a bound of 0.3 by a rounding error


def difficulty_step(settings: DifficultySettings, verifier: Verifier) -> Step:
    """Drop a claim whose ``label_confidence`` is outside ``low``..``high``, inclusive."""

    def judge(frame: pl.DataFrame) -> StepDecision:
        probability = _probabilities(frame, verifier)
        scored = frame.with_columns(support_probability=probability).with_columns(
            label_confidence=pl.when(pl.col("label") == "Supported")
            .then("support_probability")
            .otherwise(1.0 - pl.col("support_probability"))
            .round(DECIMALS)
        )
        confidence = scored["label_confidence"]
        easy, hard = confidence > settings.high, confidence < settings.low
        return StepDecision(
            scored,
            drop=easy | hard,
            reason=where(easy, TOO_EASY, MISLABELLED),
            value=confidence,
            threshold=where(easy, settings.high, settings.low),
            engine=verifier.engine,
            close=sum(
                int(((confidence - bound).abs() < ROUNDING).sum())
                for bound in (settings.low, settings.high)
            ),
        )

    return Step("difficulty", judge, (TOO_EASY, MISLABELLED))


def _probabilities(frame: pl.DataFrame, verifier: Verifier) -> pl.Series:
    pairs = frame.select("evidence", "claim").rows()
    values = np.zeros(0)
    if pairs:
        values = np.asarray(verifier.support_probability(pairs), dtype=np.float64)
    if values.shape != (len(pairs),) or not np.all((values >= 0) & (values <= 1)):
        raise EngineError(
            f"verifier '{verifier.engine}': expected {len(pairs)} probabilities in 0..1"
        )
    return pl.Series(values)
