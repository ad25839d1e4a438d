"""Lexical duplicates by MinHash LSH, the paper's method, plain or verified.

*Plain* trusts the index: it misses pairs near the threshold and reports others below it.
*Verified* takes candidates from a more generous index and decides each by exact Jaccard: it
can miss a pair but never reports a wrong one.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.matches import Matches, exact_threshold, min_shared
from decomposerl.kernels.threads import Team
from decomposerl.kernels.word_sets import PackedSets, Shingle, shingle_sets, word_sets

SEED = 1  # of the permutations: the same claims always give the same candidates
WANTED_RECALL = 0.99
ROWS_A_TASK = 16_384
BUCKET_ROWS = 64  # more would make a template with many claims quadratic


def minhash_duplicates(
    texts: Sequence[str], threshold: float, num_perm: int = 128, *, shingle: Shingle = "word"
) -> Matches:
    """Keep-first duplicates by the raw answers of datasketch's ``MinHashLSH``.

    ``threshold`` is a Jaccard in (0..1]; the index chooses its bands for it. A row is removed
    if the index returns any kept row; ``similarity`` is the Jaccard estimated from
    ``num_perm`` permutations and may be below the threshold.
    """
    return _plain(texts, None, threshold, num_perm, shingle)


def verified_duplicates(
    sets: PackedSets, threshold: float, num_perm: int, shingle: Shingle, threads: int
) -> Matches:
    """Keep-first duplicates among MinHash candidates, each confirmed by exact Jaccard.

    A pair exactly at ``threshold`` is a candidate with a probability of at least 0.99 (where
    ``num_perm`` allows it), a nearer one with more, unless its bucket is crowded: only the
    first 64 kept rows of a bucket are compared. No row is removed without a near kept row.
    """
    return _verified(sets, 0, threshold, num_perm, shingle, threads)


def minhash_matches(
    left: Sequence[str],
    right: Sequence[str],
    threshold: float,
    num_perm: int = 128,
    *,
    shingle: Shingle = "word",
) -> Matches:
    """Per left text the nearest of the right texts that datasketch's index returns."""
    both = _plain([*right, *left], len(right), threshold, num_perm, shingle)
    return Matches(both.matched[len(right) :], both.similarity[len(right) :], both.engine)


def verified_matches(
    sets: PackedSets, rights: int, threshold: float, num_perm: int, shingle: Shingle, threads: int
) -> Matches:
    """Per left row the nearest of the first ``rights`` rows among its MinHash candidates.

    Each candidate is confirmed by exact Jaccard.
    """
    if not rights:
        return Matches.none(len(sets.sizes), _verified_name(threshold, num_perm, shingle))
    both = _verified(sets, rights, threshold, num_perm, shingle, threads)
    return Matches(both.matched[rights:], both.similarity[rights:], both.engine)


def _verified(
    sets: PackedSets, indexed: int, threshold: float, num_perm: int, shingle: Shingle, threads: int
) -> Matches:
    """Match each row with the first ``indexed`` rows, or, if 0, with the rows kept before it."""
    from decomposerl.kernels.minhash_loops import match_in_buckets
    from decomposerl.kernels.set_join_loops import sign

    engine = _verified_name(threshold, num_perm, shingle)
    if not len(sets.sizes):
        return Matches.none(0, engine)
    with Team(threads) as team:
        keys = _band_keys(sets, *generous_bands(threshold, num_perm), team)
        buckets = np.stack(team.run([partial(_numbered, band) for band in keys]))
    firsts = _share_numbers(buckets)
    signatures = np.zeros(len(sets.sizes), np.uint64)
    sign(sets.tokens, sets.starts, signatures)
    prefixes = np.zeros(len(sets.sizes), np.int32)  # unused: buckets give the candidates
    joined = (sets.tokens, sets.starts, prefixes, signatures)
    least_of = min_shared(int(sets.sizes.max()), threshold)
    matched, shared, united = match_in_buckets(joined, buckets, firsts, least_of, indexed)
    return Matches(matched, shared / united, engine)


def _verified_name(threshold: float, num_perm: int, shingle: Shingle) -> str:
    bands, rows = generous_bands(threshold, num_perm)
    return f"verified MinHash ({shingle}, {bands} bands of {rows})"


def generous_bands(threshold: float, num_perm: int) -> tuple[int, int]:
    """Bands and rows a band: the longest rows that still find a pair at the threshold.

    *Find* means with probability >= 0.99 where ``num_perm`` allows it, else rows of 1.
    """
    for rows in range(num_perm, 1, -1):
        bands = num_perm // rows
        if 1 - (1 - threshold**rows) ** bands >= WANTED_RECALL:
            return bands, rows
    return num_perm, 1


def _band_keys(sets: PackedSets, bands: int, rows: int, team: Team) -> NDArray[np.uint32]:
    """Per band and row a hash of the band's minima, shape (bands, n)."""
    from decomposerl.kernels.minhash_loops import band_keys

    drawn = np.random.default_rng(SEED)
    factors, terms = drawn.integers(0, 2**64, (2, bands * rows), dtype=np.uint64)
    keys = np.empty((bands, len(sets.sizes)), np.uint32)
    team.run(
        partial(
            band_keys,
            sets.tokens,
            sets.starts[start : start + ROWS_A_TASK + 1],
            sets.hashes,
            (factors | np.uint64(1), terms),  # an odd factor permutes the 64-bit numbers
            keys[:, start : start + ROWS_A_TASK],
        )
        for start in range(0, len(sets.sizes), ROWS_A_TASK)
    )
    return keys


def _numbered(keys: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Per row the number of its bucket within one band, -1 if the row is alone in it."""
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    shared = counts > 1
    numbers = np.where(shared, np.cumsum(shared) - 1, -1).astype(np.int32)
    return numbers[inverse]


def _share_numbers(buckets: NDArray[np.int32]) -> NDArray[np.int64]:
    """Number the buckets of all bands in sequence, in place; returns where each one's rows start.

    A bucket has room for its rows, at most ``BUCKET_ROWS``.
    """
    sizes, used = [np.empty(0, np.int64)], 0
    for band in buckets:
        inside = band >= 0
        counts = np.bincount(band[inside])
        band[inside] += used
        used += len(counts)
        sizes.append(np.minimum(counts, BUCKET_ROWS))
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes))))


def _plain(
    texts: Sequence[str], indexed: int | None, threshold: float, num_perm: int, shingle: Shingle
) -> Matches:
    """Match each row with the first ``indexed`` rows, or, if None, with the rows kept before it."""
    from datasketch import MinHash, MinHashLSH

    exact_threshold(threshold)
    sets = word_sets(texts) if shingle == "word" else shingle_sets(texts)
    encoded = ([word.encode("utf-8", "surrogatepass") for word in sorted(row)] for row in sets)
    signatures = list(MinHash.generator(encoded, num_perm=num_perm, seed=SEED))
    try:
        index = MinHashLSH(threshold=threshold, num_perm=num_perm)
    except ValueError:  # near 1 it would take a single band, which it refuses
        index = MinHashLSH(num_perm=num_perm, params=(2, num_perm // 2))
    engine = f"datasketch MinHashLSH ({shingle}, {index.b} bands of {index.r})"
    matches = Matches.none(len(signatures), engine)
    for row, signature in enumerate(signatures):
        others = index.query(signature) if row >= (indexed or 0) else []
        if others:
            nearest = max(others, key=lambda at: (signature.jaccard(signatures[at]), -at))
            matches.matched[row] = nearest
            matches.similarity[row] = signature.jaccard(signatures[nearest])
        elif indexed is None or row < indexed:
            index.insert(row, signature)
    return matches
