"""Diversity: do the questions repeat each other (paper, section 3.2, (4))?

    R_div = -(1/n) * sum over i = 2..n of max over j < i of cos(q_i, q_j)

The redundancy half of maximal marginal relevance. n = 0 and n = 1 give -1, the worst, as the task
requires two questions; ``diversity = literal`` gives n = 1 the formula's 0. The case holds the unit
vectors of its questions. A trace that is too long is not compared, and gets -1.
"""

import numpy as np

from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult, by_case
from decomposerl.rewards.settings import RewardSettings

_FEWEST = 2
_FIRST = QuestionResult(0.0, "first")


@by_case
def diversity(case: RewardCase, settings: RewardSettings) -> RewardResult:
    """-1..(n-1)/n; a question's value is minus its cosine to the nearest earlier one.

    Raises:
        ValueError: a case with two or more questions lacks a finite vector for one of them.
    """
    number, vectors = len(case.cycles), case.vectors
    if number < _FEWEST:
        value = 0.0 if number and settings.diversity == "literal" else -1.0
        return RewardResult(value, questions=(QuestionResult(None, "alone"),) * number)
    if vectors is None or len(vectors) != number:
        given = "none" if vectors is None else str(len(vectors))
        raise ValueError(f"diversity needs {number} question vectors, there are {given}")
    if not np.isfinite(vectors).all():
        raise ValueError("a question vector is not finite")
    wide = vectors.astype(np.float64)
    cosines = np.clip(wide @ wide.T, -1.0, 1.0)
    cosines[np.triu_indices(number)] = -1.0  # only earlier questions count
    nearest = cosines.max(axis=1)[1:].tolist()
    # Subtracted from 0, since a negated 0 prints as -0.
    questions = (_FIRST, *(QuestionResult(0.0 - cosine, "compared") for cosine in nearest))
    return RewardResult(0.0 - sum(nearest) / number, questions=questions)
