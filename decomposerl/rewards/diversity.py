"""Diversity: do the questions repeat each other (paper, section 3.2, (4))?

    R_div = -(1/n) * sum over i = 2..n of max over j < i of cos(q_i, q_j)

The redundancy half of maximal marginal relevance. n = 0 and n = 1 give -1, the worst, as the task
requires two questions; ``diversity = literal`` gives n = 1 the formula's 0. The case holds the unit
vectors of its questions. A trace that is too long is not compared, and gets -1.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings

_FEWEST = 2
_FIRST = QuestionResult(0.0, "first")


def diversity(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """-1..(n-1)/n; a question's value is minus its cosine to the nearest earlier one.

    Raises:
        ValueError: a case with two or more questions lacks a finite vector for one of them.
    """
    results: dict[int, RewardResult] = {}
    for questions, members in _by_length(cases).items():
        if questions < _FEWEST:
            value = 0.0 if questions and settings.diversity == "literal" else -1.0
            alone = RewardResult(value, questions=(QuestionResult(None, "alone"),) * questions)
            results.update(dict.fromkeys(members, alone))
            continue
        nearest = _nearest(np.stack([_vectors(cases[index]) for index in members]))
        results.update(
            (index, _result(row)) for index, row in zip(members, nearest.tolist(), strict=True)
        )
    return [results[index] for index in range(len(cases))]


def _by_length(cases: Sequence[RewardCase]) -> dict[int, list[int]]:
    """Indices of the cases by their number of questions that are compared."""
    members: dict[int, list[int]] = defaultdict(list)
    for index, case in enumerate(cases):
        members[0 if case.too_long else len(case.rollout.trace.cycles)].append(index)
    return members


def _vectors(case: RewardCase) -> NDArray[np.float32]:
    needed = len(case.rollout.trace.cycles)
    if case.vectors is None or case.vectors.shape[0] != needed:
        given = "none" if case.vectors is None else str(case.vectors.shape[0])
        raise ValueError(f"diversity needs {needed} question vectors, there are {given}")
    return case.vectors


def _nearest(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """(g, n, d) to (g, n - 1): the cosine of each later question to its nearest earlier one."""
    if not np.isfinite(vectors).all():
        raise ValueError("a question vector is not finite")
    wide = vectors.astype(np.float64)
    cosines = np.clip(wide @ wide.transpose(0, 2, 1), -1.0, 1.0)
    cosines[:, *np.triu_indices(wide.shape[1])] = -1.0  # only earlier questions count
    return np.asarray(cosines.max(axis=2)[:, 1:])


def _result(nearest: Sequence[float]) -> RewardResult:
    # Subtracted from 0, since a negated 0 prints as -0.
    questions = (_FIRST, *(QuestionResult(0.0 - cosine, "compared") for cosine in nearest))
    return RewardResult(0.0 - sum(nearest) / len(questions), questions=questions)
