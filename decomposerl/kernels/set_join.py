"""Exact set-similarity joins on word sets: who duplicates whom by Jaccard.

Takes texts, gives ``Matches``. Exact: a prefix filter (two sets that reach the threshold
share one of their rarest words) and a length filter choose candidates, an integer
comparison decides. Only kept rows are indexed, so many copies of one text cost no more
than one comparison each. Memory grows with the number of words, not of pairs.

Left out deliberately: other shingles than words, and approximate candidates
(``minhash_join``). The loops are compiled on first use (``set_join_loops``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.matches import Matches, exact_threshold
from decomposerl.kernels.text_scan import words

_EMPTY = ""  # no text has it among its words; two texts without words share it


def word_sets(texts: Sequence[str]) -> list[frozenset[str]]:
    """The set of lower-cased words of each text.

    A text without any word gets the set of one reserved word, so that two such texts are
    duplicates of each other (Jaccard 1) and of nothing else.
    """
    return [frozenset(words(text)) or frozenset((_EMPTY,)) for text in texts]


def keep_first_duplicates(texts: Sequence[str], threshold: float) -> Matches:
    """Greedy duplicates in input order: a row is removed iff an earlier KEPT row is near.

    Near means Jaccard of the word sets >= ``threshold`` (0..1]; a removed row removes
    nobody. A removed row is matched to the kept row with the highest Jaccard, ties to the
    lowest index (paper, "Deduplication and Decontamination").
    """
    everyone = np.ones(len(texts), np.bool_)
    return _join(word_sets(texts), threshold, probing=everyone, indexed=everyone)


def cross_matches(left: Sequence[str], right: Sequence[str], threshold: float) -> Matches:
    """Per left text the right text with the highest Jaccard >= ``threshold``.

    ``matched`` indexes ``right``; ties go to the lowest index.
    """
    indexed = np.zeros(len(right) + len(left), np.bool_)
    indexed[: len(right)] = True
    sets = word_sets([*right, *left])
    found = _join(sets, threshold, probing=~indexed, indexed=indexed)
    return Matches(found.matched[len(right) :], found.similarity[len(right) :])


@dataclass(frozen=True, slots=True)
class _Sets:
    """Sets as one array: row i holds ``tokens[starts[i]:starts[i + 1]]``, rarest first."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    vocabulary: int


def _join(
    sets: Sequence[frozenset[str]],
    threshold: float,
    *,
    probing: NDArray[np.bool_],
    indexed: NDArray[np.bool_],
) -> Matches:
    exact = exact_threshold(threshold)
    if not sets:
        return Matches.none(0)
    from decomposerl.kernels.set_join_loops import join

    encoded = _encode(sets)
    sizes = np.diff(encoded.starts)
    prefixes = sizes - (sizes * exact.numerator + exact.denominator - 1) // exact.denominator + 1
    matched, shared, united = join(
        (encoded.tokens, encoded.starts, prefixes),
        encoded.vocabulary,
        (probing, indexed),
        (exact.numerator, exact.denominator),
    )
    return Matches(matched, shared / united)


def _encode(sets: Sequence[frozenset[str]]) -> _Sets:
    """Number the words by how few sets hold them (ties by first spelling in order)."""
    numbers: dict[str, int] = {}
    sizes = np.fromiter((len(row) for row in sets), np.int64, len(sets))
    flat = np.fromiter(
        (numbers.setdefault(word, len(numbers)) for row in sets for word in row),
        np.int64,
        int(sizes.sum()),
    )
    frequency = np.bincount(flat, minlength=len(numbers))
    rank = np.empty(len(numbers), np.int64)
    rank[np.lexsort((_alphabetical(numbers), frequency))] = np.arange(len(numbers))
    rows = np.repeat(np.arange(len(sets)), sizes)
    ranked = rank[flat]
    tokens = ranked[np.lexsort((ranked, rows))].astype(np.int32)
    return _Sets(tokens, np.concatenate(([0], np.cumsum(sizes))), len(numbers))


def _alphabetical(numbers: dict[str, int]) -> NDArray[np.int64]:
    """Place of each numbered word in sorted order: sets iterate in no stable order."""
    places = np.empty(len(numbers), np.int64)
    for place, word in enumerate(sorted(numbers)):
        places[numbers[word]] = place
    return places
