"""How a claim's words, names, numbers and polarity stand against its evidence.

Takes a claim and an evidence text, gives a ``Match``: the best lexical sentence and the
feature vector that the lexical verifier weighs. All features lie in about -1..1 and rise
or fall with one plain fact each (``FEATURES`` names them in order).

Left out deliberately: weights and probabilities (``lexical_verifier``), meaning beyond
words (the one embedding feature is filled in by the verifier), corpus statistics.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from decomposerl.text.words import Sentence, has_opposite, parse, split_sentences

FEATURES = (
    "best_overlap",  # share of the claim's content words in its best sentence
    "best3_overlap",  # ... in the three sentences that together cover most
    "all_overlap",  # ... anywhere in the evidence
    "bigrams",  # share of the claim's word pairs that stand in the best sentence
    "aligned",  # share of the claim's words that line up with the best sentence in order
    "numbers_missing_best",  # share of the claim's numbers absent from the best sentence
    "numbers_missing_all",  # ... from the evidence
    "names_missing_best",
    "names_missing_all",
    "swapped_number",  # in the alignment another number stands in the place of the claim's
    "swapped_name",
    "swapped_word",
    "negation_mismatch",  # exactly one of claim and best sentence is negated
    "opposite",  # the best sentence holds the opposite of a claim word it lacks
    "claim_negated",
    "exclusive",  # only, never, always, all, first ... in the claim, not in the sentence
    "comparison",  # the claim compares
    "length",  # logarithm of the claim's content words
    "missing_words",  # logarithm of the content words absent from the best sentence
    "cosine",  # MiniLM cosine of claim and best sentence
    # From here on 0 for most claims of the corpora, and fitted on made claims.
    "doubt_best",  # the best sentence calls something false, a hoax, unproven ...
    "doubt_all",  # how many sentences of the evidence do, three or more count as 1
    "near",  # how far the claim repeats the best sentence, swapped places counted in
    "near_number",
    "near_name",
    "near_word",
    "near_negation",
    "near_opposite",
    "near_doubt",
)
COSINE = FEATURES.index("cosine")
RULES = 1
"""Raised whenever a feature changes, so that old weights and stored results are not mixed."""
RARE = FEATURES.index("doubt_best")
"""Index of the first feature that is 0 for most claims of the corpora."""
MOST_ALIGNED = 1_000_000
"""Stems of a claim times stems of its best sentence that are aligned at most; the longest of the
corpora have 3,000. Of more, the claim's first 1,000 and the part that holds most of them are."""
_FRAME, _ALIGNED = 0.75, 0.6
"""Least frame, and least share of words really in place, of a near repetition."""


@dataclass(frozen=True, slots=True)
class Match:
    """The evidence sentence nearest in words, and the features (``cosine`` still 0)."""

    sentence: str
    features: NDArray[np.float64]


@lru_cache(maxsize=64)
def index_evidence(evidence: str) -> tuple[Sentence, ...]:
    """The parsed sentences of an evidence text; claims on one document come together."""
    return tuple(parse(text) for text in split_sentences(evidence))


def match(evidence: str, claim: str) -> Match:
    """Compare one claim with one evidence text; blank evidence gives a blank sentence."""
    wanted = parse(claim)
    sentences = index_evidence(evidence) or (parse(""),)
    best = max(sentences, key=lambda sentence: _nearness(wanted, sentence))
    return Match(best.text, _features(wanted, best, sentences))


def _nearness(claim: Sentence, sentence: Sentence) -> tuple[float, float]:
    shared = claim.content & sentence.content
    return len(shared) + 0.5 * len(shared & claim.names), -len(sentence.content)


def _features(claim: Sentence, best: Sentence, all_: Sequence[Sentence]) -> NDArray[np.float64]:
    aligned, frame, swapped = _align(claim, best)
    near = max(frame - _FRAME, 0.0) / (1.0 - _FRAME) if aligned >= _ALIGNED else 0.0
    doubt, doubt_all = _doubts(claim, best, all_)
    negation = float(claim.negated != best.negated)
    opposite = float(has_opposite(claim.words - best.words, best.words - claim.words))
    values = (
        *_coverage(claim, best, all_, aligned),
        *swapped,
        negation,
        opposite,
        float(claim.negated),
        min(len(claim.exclusive - best.words), 2) / 2,
        float(claim.compares),
        math.log1p(len(claim.content)) / 4,
        math.log1p(len(claim.content - best.content)) / 4,
        0.0,
        doubt,
        doubt_all,
        near,
        *(near * flag for flag in swapped),
        near * negation,
        near * opposite,
        near * max(doubt, doubt_all),
    )
    return np.array(values)


def _coverage(
    claim: Sentence, best: Sentence, all_: Sequence[Sentence], aligned: float
) -> tuple[float, ...]:
    """The features from ``best_overlap`` to ``names_missing_all``."""
    everything = frozenset[str]().union(*(sentence.content for sentence in all_))
    numbers = frozenset[str]().union(*(sentence.numbers for sentence in all_))
    pairs = claim.pairs
    return (
        _share(claim.content, best.content),
        _share(claim.content, _best_three(claim, best, all_)),
        _share(claim.content, everything),
        len(pairs & best.pairs) / len(pairs) if pairs else 0.0,
        aligned,
        1.0 - _share(claim.numbers, best.numbers, empty=1.0),
        1.0 - _share(claim.numbers, numbers, empty=1.0),
        1.0 - _share(claim.names, best.content, empty=1.0),
        1.0 - _share(claim.names, everything, empty=1.0),
    )


def _doubts(claim: Sentence, best: Sentence, all_: Sequence[Sentence]) -> tuple[float, float]:
    """Whether the best sentence, and how far the evidence, calls something false."""
    if claim.doubts:
        return 0.0, 0.0
    return float(best.doubts), min(sum(sentence.doubts for sentence in all_), 3) / 3


def _align(claim: Sentence, best: Sentence) -> tuple[float, float, tuple[float, float, float]]:
    """How the claim's stems line up with the sentence's.

    Gives the share of stems in common order, the same with swapped places counted in
    (the frame), and whether a number, a name, a plain word is swapped.
    """
    if not claim.stems:
        return 0.0, 0.0, (0.0, 0.0, 0.0)
    found, wanted = _alignable(best.stems, claim)
    matcher = SequenceMatcher(None, found, wanted, autojunk=False)
    same, filled, number, name, word = 0, 0, False, False, False
    for kind, i, j, k, m in matcher.get_opcodes():
        there, here = found[i:j], wanted[k:m]
        if kind == "equal":
            same += len(here)
        elif kind == "replace":
            new = set(here) - best.content
            number_here = bool(new & claim.numbers) and not best.numbers.isdisjoint(there)
            name_here = bool(new & claim.names) and not best.names.isdisjoint(there)
            plain = new - claim.numbers - claim.names
            word_here = bool(plain) and len(there) == len(here) == 1
            filled += len(here) if number_here or name_here or word_here else 0
            number, name, word = number or number_here, name or name_here, word or word_here
    total = len(wanted)
    return same / total, (same + filled) / total, (float(number), float(name), float(word))


def _alignable(found: tuple[str, ...], claim: Sentence) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stems of a sentence and of the claim; of too many, the parts named above."""
    if len(found) * len(claim.stems) <= MOST_ALIGNED:
        return found, claim.stems
    wanted = claim.stems[: math.isqrt(MOST_ALIGNED)]
    size = MOST_ALIGNED // len(wanted)
    held = np.cumsum([0, *(stem in claim.content for stem in found)])
    start = int(np.argmax(held[size:] - held[:-size])) if len(found) > size else 0
    return found[start : start + size], wanted


def _share(wanted: frozenset[str], found: frozenset[str], empty: float = 0.0) -> float:
    return len(wanted & found) / len(wanted) if wanted else empty


def _best_three(claim: Sentence, best: Sentence, all_: Sequence[Sentence]) -> frozenset[str]:
    covered = claim.content & best.content
    for _ in range(2):
        rest = claim.content - covered
        if not rest:
            break
        covered |= max((rest & sentence.content for sentence in all_), key=len)
    return covered
