"""Lexical duplicates by MinHash LSH: the paper's method, plain or verified.

Takes texts, gives ``Matches`` with the same keep-first meaning as ``set_join``. *Plain*
takes the index's word for it: it misses pairs near the threshold and invents others.
*Verified* asks a more generous index for candidates and decides each by exact Jaccard; it
can miss a pair, never invent one.

Left out deliberately: the cross-collection form; decontamination uses the exact join.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.matches import Matches, exact_threshold, least_shared
from decomposerl.kernels.threads import Team
from decomposerl.kernels.word_sets import PackedSets, Shingle, packed, shingle_sets, word_sets

SEED = 1
WANTED_RECALL = 0.99
ROWS_A_TASK = 16_384
BUCKET_ROWS = 64
Similarity = Callable[[int, int], float]


def minhash_duplicates(
    texts: Sequence[str], threshold: float, num_perm: int = 128, *, shingle: Shingle = "word"
) -> Matches:
    """Keep-first duplicates on the raw answers of datasketch's ``MinHashLSH``.

    ``threshold`` is a Jaccard in (0..1]; the index chooses its own bands for it. A row for
    which the index names any kept row is removed; ``similarity`` is the estimated Jaccard
    from ``num_perm`` permutations and may lie below the threshold.
    """
    from datasketch import MinHashLSH

    exact_threshold(threshold)
    sets = word_sets(texts) if shingle == "word" else shingle_sets(texts)
    signatures = _signatures(sets, num_perm)
    index = MinHashLSH(threshold=threshold, num_perm=num_perm)
    engine = f"datasketch MinHashLSH ({shingle}, {index.b} bands of {index.r})"
    return _keep_first(index, signatures, lambda i, j: signatures[i].jaccard(signatures[j]), engine)


def verified_minhash_duplicates(
    texts: Sequence[str],
    threshold: float,
    num_perm: int = 128,
    *,
    shingle: Shingle = "word",
    threads: int = 0,
) -> Matches:
    """Keep-first duplicates among MinHash candidates, each confirmed by exact Jaccard.

    A pair exactly at ``threshold`` is a candidate with probability of at least 0.99 (where
    ``num_perm`` allows it), a nearer one with more, as long as no bucket is crowded: of the
    rows in a bucket the first 64 kept ones are compared. No row is removed that is not near
    the kept row it names.
    """
    exact_threshold(threshold)
    return verified_duplicates(
        packed(texts, shingle, threads), threshold, num_perm, shingle, threads
    )


def verified_duplicates(
    sets: PackedSets, threshold: float, num_perm: int, shingle: Shingle, threads: int
) -> Matches:
    """``verified_minhash_duplicates`` for rows that are sets already."""
    from decomposerl.kernels.minhash_loops import keep_first
    from decomposerl.kernels.set_join_loops import sign

    bands, rows = generous_bands(threshold, num_perm)
    engine = f"verified MinHash ({shingle}, {bands} bands of {rows})"
    if not len(sets.sizes):
        return Matches.none(0, engine)
    with Team(threads) as team:
        keys = _band_keys(sets, bands, rows, team)
        buckets = np.stack(team.run([partial(_numbered, band) for band in keys]))
    firsts = _share_numbers(buckets)
    signatures = np.zeros(len(sets.sizes), np.uint64)
    sign(sets.tokens, sets.starts, signatures)
    prefixes = np.zeros(len(sets.sizes), np.int32)  # buckets take their place
    joined = (sets.tokens, sets.starts, prefixes, signatures)
    least_of = least_shared(int(sets.sizes.max()), threshold)
    matched, shared, united = keep_first(joined, buckets, firsts, least_of)
    return Matches(matched, shared / united, engine)


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

    factors, terms = np.random.default_rng(SEED).integers(
        0, 2**64, (2, bands * rows), dtype=np.uint64
    )
    keys = np.empty((bands, len(sets.sizes)), np.uint32)
    team.run(
        partial(
            band_keys,
            sets.tokens,
            sets.starts[start : start + ROWS_A_TASK + 1],
            sets.hashes,
            (factors | np.uint64(1), terms),
            keys[:, start : start + ROWS_A_TASK],
        )
        for start in range(0, len(sets.sizes), ROWS_A_TASK)
    )
    return keys


def _numbered(keys: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Per row the number of its bucket within one band, -1 where it is alone in it."""
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    shared = counts > 1
    numbers = np.where(shared, np.cumsum(shared) - 1, -1).astype(np.int32)
    return numbers[inverse]


def _share_numbers(buckets: NDArray[np.int32]) -> NDArray[np.int64]:
    """Number the buckets of all bands in one run, in place; gives where each one's rows start.

    A bucket has places for all its rows, at most ``BUCKET_ROWS``.
    """
    sizes = [np.empty(0, np.int64)]
    used = 0
    for band in buckets:
        inside = band >= 0
        counts = np.bincount(band[inside])
        band[inside] += used
        used += len(counts)
        sizes.append(np.minimum(counts, BUCKET_ROWS))
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(sizes))))


def _signatures(sets: Sequence[frozenset[str]], num_perm: int) -> list[Any]:
    from datasketch import MinHash

    encoded = ([word.encode("utf-8", "surrogatepass") for word in sorted(row)] for row in sets)
    return list(MinHash.generator(encoded, num_perm=num_perm, seed=SEED))


def _keep_first(
    index: Any,  # noqa: ANN401 - datasketch has no types
    signatures: Sequence[Any],
    similarity: Similarity,
    engine: str,
) -> Matches:
    found = Matches.none(len(signatures), engine)
    for row, signature in enumerate(signatures):
        scored = [(-similarity(row, kept), kept) for kept in index.query(signature)]
        if scored:
            score, found.matched[row] = min(scored)
            found.similarity[row] = -score
        else:
            index.insert(row, signature)
    return found
