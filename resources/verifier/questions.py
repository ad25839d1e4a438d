"""What a verifier model reads about a pair, and how its scores become one probability.

A pair becomes (chunk, claim part) questions. The best chunk counts for each part of the claim,
and the weakest part counts for the claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.evaluation.entries import ClaimReading
from decomposerl.text.sentences import split_sentences
from resources.hub.locks import HUB_MODELS
from resources.verifier.chunks import Measure, chunks

Pair = tuple[str, str]
ClaimSplit = Literal["whole", "min_over_sentences"]
"""``whole``: the claim at once (the public code of 2024 and the leaderboard).
``min_over_sentences``: each sentence by itself (the public code of the 7B model and Granite since
August 2025)."""


def claim_split_of(model: str, reading: ClaimReading = "own") -> ClaimSplit:
    """How ``model`` reads a claim: as the setting says, by default as its publisher's code does.

    That is declared in ``models.toml``; a model without a declaration reads the whole claim.
    """
    if reading != "own":
        return reading
    declared: ClaimSplit = HUB_MODELS.get(model, {}).get("claim_split", "whole")
    return declared


@dataclass(frozen=True, slots=True)
class Questions:
    """All (chunk, claim part) questions, and each pair's (chunks, parts), in order."""

    asked: list[Pair]
    shapes: list[tuple[int, int]]


def combined(scores: NDArray[np.float64], shapes: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """One score per pair, shape (pairs,), from one score per question, shape (questions,).

    The maximum over chunks, then the minimum over parts; NaN where any is NaN, since an
    unanswered question might have changed either.
    """
    ends = np.cumsum([0, *(rows * parts for rows, parts in shapes)])
    return np.array(
        [
            scores[start:end].reshape(shape).max(axis=0).min()
            for (start, end), shape in zip(pairwise(ends), shapes, strict=True)
        ],
        dtype=np.float64,
    )


def questions(
    pairs: Sequence[Pair], budget: int, measure: Measure, claim_split: ClaimSplit
) -> Questions:
    """The questions of ``pairs``; blank evidence and a blank claim are asked as they are.

    So is a claim of one sentence: its questions are the same under each split.
    """
    asked: list[Pair] = []
    shapes: list[tuple[int, int]] = []
    for evidence, claim in pairs:
        documents = chunks(evidence, budget, measure) or [""]
        parts = [claim] if claim_split == "whole" else split_sentences(claim)
        parts = parts if len(parts) > 1 else [claim]
        asked += [(document, part) for document in documents for part in parts]
        shapes.append((len(documents), len(parts)))
    return Questions(asked, shapes)
