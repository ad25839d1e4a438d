"""Lexical duplicates by MinHash LSH: the paper's method, plain or verified.

Takes texts, gives ``Matches`` with the same keep-first meaning as ``set_join``. *Plain*
takes the index's word for it: it misses pairs near the threshold and invents others.
*Verified* asks a more generous index for candidates and decides each by exact Jaccard; it
can miss a pair, never invent one.

Left out deliberately: the cross-collection form; decontamination uses the exact join.
"""

from collections.abc import Callable, Sequence
from typing import Any

from decomposerl.kernels.matches import Matches, exact_threshold
from decomposerl.kernels.set_join import word_sets

SEED = 1
WANTED_RECALL = 0.99
Similarity = Callable[[int, int], float | None]


def minhash_duplicates(texts: Sequence[str], threshold: float, num_perm: int = 128) -> Matches:
    """Keep-first duplicates on the raw answers of datasketch's ``MinHashLSH``.

    ``threshold`` is a Jaccard in (0..1]; the index chooses its own bands for it. A row for
    which the index names any kept row is removed; ``similarity`` is the estimated Jaccard
    from ``num_perm`` permutations and may lie below the threshold.
    """
    from datasketch import MinHashLSH

    exact_threshold(threshold)
    signatures = _signatures(word_sets(texts), num_perm)
    index = MinHashLSH(threshold=threshold, num_perm=num_perm)
    return _keep_first(index, signatures, lambda i, j: signatures[i].jaccard(signatures[j]))


def verified_minhash_duplicates(
    texts: Sequence[str], threshold: float, num_perm: int = 128
) -> Matches:
    """Keep-first duplicates among MinHash candidates, each confirmed by exact Jaccard.

    The bands are chosen so that a pair exactly at ``threshold`` is a candidate with
    probability of at least 0.99.
    """
    from datasketch import MinHashLSH

    exact = exact_threshold(threshold)
    sets = word_sets(texts)

    def confirmed(i: int, j: int) -> float | None:
        shared = len(sets[i] & sets[j])
        united = len(sets[i]) + len(sets[j]) - shared
        near = shared * exact.denominator >= united * exact.numerator
        return shared / united if near else None

    index = MinHashLSH(num_perm=num_perm, params=generous_bands(threshold, num_perm))
    return _keep_first(index, _signatures(sets, num_perm), confirmed)


def generous_bands(threshold: float, num_perm: int) -> tuple[int, int]:
    """Bands and rows a band: the longest rows that still find a pair at the threshold.

    *Find* means with probability >= 0.99 where ``num_perm`` allows it, else rows of 1.
    """
    for rows in range(num_perm, 1, -1):
        bands = num_perm // rows
        if 1 - (1 - threshold**rows) ** bands >= WANTED_RECALL:
            return bands, rows
    return num_perm, 1


def _signatures(sets: Sequence[frozenset[str]], num_perm: int) -> list[Any]:
    from datasketch import MinHash

    encoded = ([word.encode("utf-8", "surrogatepass") for word in sorted(row)] for row in sets)
    return list(MinHash.generator(encoded, num_perm=num_perm, seed=SEED))


def _keep_first(index: Any, signatures: Sequence[Any], similarity: Similarity) -> Matches:  # noqa: ANN401 - datasketch has no types
    found = Matches.none(len(signatures))
    for row, signature in enumerate(signatures):
        scored = [
            (-score, kept)
            for kept in index.query(signature)
            if (score := similarity(row, kept)) is not None
        ]
        if scored:
            score, found.matched[row] = min(scored)
            found.similarity[row] = -score
        else:
            index.insert(row, signature)
    return found
