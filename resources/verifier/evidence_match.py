"""How a claim's words, names, numbers and polarity compare with its evidence.

Takes a claim and an evidence text, gives the features that the lexical verifier weighs. Each
lies in 0..1 and rises with one plain fact (``FEATURES`` names them in order).
"""

import math
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import Sentence, has_opposite, parse

FEATURES = (
    "overlap",  # share of the claim's words in the three sentences that together cover most
    "overlap_all",  # ... anywhere in the evidence
    "numbers_missing",  # share of the claim's numbers that the evidence lacks
    "names_missing",
    "swapped_number",  # in the alignment another number replaces the claim's
    "swapped_name",
    "swapped_word",
    "negation_mismatch",  # exactly one of claim and best sentence is negated
    "opposite",  # the best sentence holds the opposite of a claim word it lacks
    "claim_negated",
    # From here on 0 for most claims of the corpora, and fitted on made claims.
    "doubt",  # sentences that call something false, a hoax, unproven ...: three or more are 1
    "near",  # how far the claim repeats the best sentence, swapped parts counted in
    "near_number",
    "near_name",
    "near_word",
    "near_negation",
    "near_opposite",
    "near_doubt",
)
RULES = 2
"""Raised whenever a feature changes, so that old weights and stored results are not mixed."""
RARE = FEATURES.index("doubt")
"""Index of the first feature that is 0 for most claims of the corpora."""
MOST_ALIGNED = 1_000_000
"""Stems of a claim times stems of its best sentence that are aligned at most; the longest of the
corpora have 3,000. Of more, the claim's first 1,000 and the part that holds most of them are."""
_FRAME, _ALIGNED = 0.75, 0.6
"""Least frame, and least share of words really in place, of a near repetition."""


@lru_cache(maxsize=64)
def index_evidence(evidence: str) -> tuple[Sentence, ...]:
    """The parsed sentences of an evidence text; claims on one document come together."""
    return tuple(parse(text) for text in split_sentences(evidence))


def match(evidence: str, claim: str) -> tuple[float, ...]:
    """The features of one claim beside one evidence text, in the order of ``FEATURES``."""
    wanted = parse(claim)
    sentences = index_evidence(evidence) or (parse(""),)
    best = max(sentences, key=lambda sentence: _nearness(wanted, sentence))
    aligned, frame, swapped = _align(wanted, best)
    near = max(frame - _FRAME, 0.0) / (1.0 - _FRAME) if aligned >= _ALIGNED else 0.0
    doubts = 0 if wanted.doubts else sum(sentence.doubts for sentence in sentences)
    negation = float(wanted.negated != best.negated)
    opposite = float(has_opposite(wanted.words - best.words, best.words - wanted.words))
    doubt = min(doubts, 3) / 3
    near_doubt = 1.0 if best.doubts and not wanted.doubts else doubt
    speaks_against = (*swapped, negation, opposite)
    return (
        *_coverage(wanted, best, sentences),
        *speaks_against,
        float(wanted.negated),
        doubt,
        near,
        *(near * flag for flag in (*speaks_against, near_doubt)),
    )


def _nearness(claim: Sentence, sentence: Sentence) -> tuple[float, float]:
    shared = claim.content & sentence.content
    return len(shared) + 0.5 * len(shared & claim.names), -len(sentence.content)


def _coverage(claim: Sentence, best: Sentence, sentences: Sequence[Sentence]) -> tuple[float, ...]:
    """The features from ``overlap`` to ``names_missing``."""
    everything = frozenset[str]().union(*(sentence.content for sentence in sentences))
    numbers = frozenset[str]().union(*(sentence.numbers for sentence in sentences))
    return (
        _share(claim.content, _best_three(claim, best, sentences), empty=0.0),
        _share(claim.content, everything, empty=0.0),
        1.0 - _share(claim.numbers, numbers),
        1.0 - _share(claim.names, everything),
    )


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
            in_number = bool(new & claim.numbers) and not best.numbers.isdisjoint(there)
            in_name = bool(new & claim.names) and not best.names.isdisjoint(there)
            plain = new - claim.numbers - claim.names
            in_word = bool(plain) and len(there) == len(here) == 1
            filled += len(here) if in_number or in_name or in_word else 0
            number, name, word = number or in_number, name or in_name, word or in_word
    total = len(wanted)
    return same / total, (same + filled) / total, (float(number), float(name), float(word))


def _alignable(found: tuple[str, ...], claim: Sentence) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stems of a sentence and of the claim; of too many, the parts named above."""
    if len(found) * len(claim.stems) <= MOST_ALIGNED:
        return found, claim.stems
    wanted = claim.stems[: math.isqrt(MOST_ALIGNED)]
    size = MOST_ALIGNED // len(wanted)
    shared = np.cumsum([0, *(stem in claim.content for stem in found)])
    start = int(np.argmax(shared[size:] - shared[:-size])) if len(found) > size else 0
    return found[start : start + size], wanted


def _share(wanted: frozenset[str], held: frozenset[str], empty: float = 1.0) -> float:
    return len(wanted & held) / len(wanted) if wanted else empty


def _best_three(claim: Sentence, best: Sentence, sentences: Sequence[Sentence]) -> frozenset[str]:
    covered = claim.content & best.content
    for _ in range(2):
        rest = claim.content - covered
        covered |= max((rest & sentence.content for sentence in sentences), key=len)
    return covered


def feature_matrix(pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """The features of each ``(evidence, claim)`` pair, shape (n, len(FEATURES))."""
    rows = [match(evidence, claim) for evidence, claim in pairs]
    return np.array(rows, dtype=np.float64).reshape(-1, len(FEATURES))
