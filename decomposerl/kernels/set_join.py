"""Exact set-similarity joins: who duplicates whom by Jaccard of words or shingles.

Takes texts, gives ``Matches`` or ``Pairs``. Exact: a prefix filter (two sets that reach the
threshold share one of their rarest elements) chooses candidates, bounds on what they can
share throw most of them out, an integer comparison decides. Only kept rows are indexed, so
many copies of one text cost no more than one comparison each. Memory grows with the number
of elements, not of pairs.

Where common elements make too many candidates (``candidate_budget``), the keep-first form
takes its candidates from MinHash instead and still decides each exactly; ``Matches.engine``
says which of the two ran.

Left out deliberately: how texts become sets (``word_sets``). The loops are compiled on
first use (``set_join_loops``).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import ConfigError
from decomposerl.kernels.matches import Matches, Pairs, exact_threshold
from decomposerl.kernels.minhash_join import verified_duplicates
from decomposerl.kernels.word_sets import PackedSets, Shingle, packed

MOST_PAIRS = 50_000_000
Flags = NDArray[np.bool_]
JoinSets = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]


def keep_first_duplicates(  # noqa: PLR0913 - each is a setting of the stage
    texts: Sequence[str],
    threshold: float,
    *,
    shingle: Shingle = "word",
    candidate_budget: int | None = None,
    num_perm: int = 128,
    threads: int = 0,
) -> Matches:
    """Greedy duplicates in input order: a row is removed iff an earlier KEPT row is near.

    Near means Jaccard of the sets >= ``threshold`` (0..1]; a removed row removes nobody. A
    removed row is matched to the kept row with the highest Jaccard, ties to the lowest
    index (paper, "Deduplication and Decontamination").

    Above ``candidate_budget`` estimated candidate pairs (None: no limit) the candidates
    come from MinHash with ``num_perm`` permutations, which may miss some pairs.
    """
    exact_threshold(threshold)
    sets = packed(texts, shingle, threads)
    if candidate_budget is not None and candidates(sets, threshold) > candidate_budget:
        return verified_duplicates(sets, threshold, num_perm, shingle, threads)
    everyone = np.ones(len(texts), np.bool_)
    return _join(sets, threshold, _name(shingle), probing=everyone, indexed=everyone)


def cross_matches(
    left: Sequence[str],
    right: Sequence[str],
    threshold: float,
    *,
    shingle: Shingle = "word",
    threads: int = 0,
) -> Matches:
    """Per left text the right text with the highest Jaccard >= ``threshold``.

    ``matched`` indexes ``right``; ties go to the lowest index.
    """
    indexed = np.zeros(len(right) + len(left), np.bool_)
    indexed[: len(right)] = True
    sets = packed([*right, *left], shingle, threads)
    found = _join(sets, threshold, _name(shingle), probing=~indexed, indexed=indexed)
    return Matches(found.matched[len(right) :], found.similarity[len(right) :], found.engine)


def pairs_above(
    texts: Sequence[str],
    floor: float,
    *,
    shingle: Shingle = "word",
    threads: int = 0,
    most: int = MOST_PAIRS,
) -> Pairs:
    """Every pair of texts with Jaccard >= ``floor`` (0..1], none left out.

    Raises:
        ConfigError: there are more than ``most`` pairs.
    """
    from decomposerl.kernels.set_join_loops import collect

    exact_threshold(floor)
    prepared = _prepared(packed(texts, shingle, threads), floor)
    found = np.empty((4, 4 * len(texts)), np.int32)
    count = collect(*prepared, (found[0], found[1], found[2], found[3]))
    if count > most:
        raise ConfigError(
            f"{count:,} pairs of claims have Jaccard {floor} or more, and {most:,} can be "
            "kept; raise pairs_floor"
        )
    if count > found.shape[1]:  # now it is known how many there are
        found = np.empty((4, count), np.int32)
        collect(*prepared, (found[0], found[1], found[2], found[3]))
    earlier, later, shared, united = found[:, :count].astype(np.int64)
    order = np.lexsort((earlier, later))
    return Pairs(earlier[order], later[order], shared[order] / united[order], _name(shingle))


def candidates(sets: PackedSets, threshold: float) -> int:
    """Most candidate pairs that the exact join can meet: per element, pairs of postings.

    A pair that shares several rare elements is counted once for each, and a removed row is
    counted though it is never indexed: an upper bound, found before anything is compared.
    """
    postings = np.diff(_postings(sets, _prefixes(sets, threshold)))
    return int((postings * (postings - 1) // 2).sum())


def _name(shingle: Shingle) -> str:
    return f"exact join ({shingle})"


def _join(
    sets: PackedSets, threshold: float, engine: str, *, probing: Flags, indexed: Flags
) -> Matches:
    if not len(sets.sizes):
        return Matches.none(0, engine)
    from decomposerl.kernels.set_join_loops import join

    packed_sets, firsts, least_of = _prepared(sets, threshold)
    matched, shared, united = join(packed_sets, firsts, (probing, indexed), least_of)
    return Matches(matched, shared / united, engine)


def _prepared(
    sets: PackedSets, threshold: float
) -> tuple[JoinSets, NDArray[np.int64], NDArray[np.int32]]:
    """The sets with prefixes and signatures, where postings start, and what must be shared."""
    from decomposerl.kernels.set_join_loops import least_shared, sign

    exact, prefixes = exact_threshold(threshold), _prefixes(sets, threshold)
    signatures = np.zeros(len(sets.sizes), np.uint64)
    sign(sets.tokens, sets.starts, signatures)
    largest = int(sets.sizes.max(initial=0))
    least_of = least_shared(largest, (exact.numerator, exact.denominator))
    return (sets.tokens, sets.starts, prefixes, signatures), _postings(sets, prefixes), least_of


def _prefixes(sets: PackedSets, threshold: float) -> NDArray[np.int32]:
    """How many of a row's rarest elements a near row must share one of, shape (n,)."""
    exact, sizes = exact_threshold(threshold), sets.sizes
    needed = (sizes * exact.numerator + exact.denominator - 1) // exact.denominator
    return (sizes - needed + 1).astype(np.int32)


def _postings(sets: PackedSets, prefixes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where the postings of each token start if every row is indexed, shape (tokens + 1,)."""
    from decomposerl.kernels.set_join_loops import count_postings

    counts = np.zeros(len(sets.hashes), np.int64)
    count_postings(sets.tokens, sets.starts, prefixes, counts)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
