"""Diversity: do the questions repeat each other (paper, section 3.2, (4))?

    R_div = -(1/n) * sum over i = 2..n of max over j < i of cos(q_i, q_j)

The redundancy half of maximal marginal relevance. n = 0 and n = 1 score -1, the worst: read
literally one question would score best, and the task asks for two.

Left out deliberately: embedding; the case brings the unit vectors of its questions.
"""

from collections.abc import Sequence

import numpy as np

from decomposerl.rewards.reward import Case, QuestionScore, Score
from decomposerl.rewards.settings import RewardSettings

_FEWEST = 2


def diversity(cases: Sequence[Case], settings: RewardSettings) -> list[Score]:  # noqa: ARG001 - every reward takes settings
    """-1..(n-1)/n; a question's value is minus its cosine to the nearest earlier one.

    Raises:
        ValueError: a case with two questions or more has not one vector a question.
    """
    return [_score(case) for case in cases]


def _score(case: Case) -> Score:
    asked = len(case.rollout.trace.cycles)
    if asked < _FEWEST:
        return Score(-1.0, questions=(QuestionScore(None, "alone"),) * asked)
    if case.vectors is None or case.vectors.shape[0] != asked:
        found = "none" if case.vectors is None else str(case.vectors.shape[0])
        raise ValueError(f"diversity needs {asked} question vectors, there are {found}")
    vectors = case.vectors.astype(np.float64)
    cosines = np.clip(vectors @ vectors.T, -1.0, 1.0)
    cosines[np.triu_indices(asked)] = -np.inf  # only earlier questions count
    nearest = cosines.max(axis=1)[1:]
    later = (QuestionScore(-float(cosine), "compared") for cosine in nearest)
    return Score(-float(nearest.sum()) / asked, questions=(QuestionScore(0.0, "first"), *later))
