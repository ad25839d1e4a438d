"""Compiled loops of ``minhash_join``: band keys, and verified matches within buckets."""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled
from decomposerl.kernels.set_join_loops import Ints, Sets, Tokens, count_shared, may_share

Hashes = NDArray[np.uint64]
Keys = NDArray[np.uint32]
_MIX, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@compiled
def band_keys(
    tokens: Tokens,
    starts: Ints,
    hashes: Hashes,
    permutations: tuple[Hashes, Hashes],
    keys: Keys,
) -> None:
    """Fill ``keys`` (bands, rows): per row and band a hash of that band's minima.

    ``permutations`` holds the odd factors and the terms of a multiply-add-shift of an
    element's hash, band by band.
    """
    factors, terms = permutations
    bands = keys.shape[0]
    minima, per_band = np.empty(factors.size, np.uint64), factors.size // bands
    for row in range(starts.size - 1):
        minima[:] = np.uint64(0xFFFFFFFFFFFFFFFF)
        for index in range(starts[row], starts[row + 1]):
            element = hashes[tokens[index]]
            for number in range(factors.size):
                # Overflow is the modulo. The low bits of such a product are poor, so the minima
                # below contribute their upper half only.
                minima[number] = min(minima[number], element * factors[number] + terms[number])
        for band in range(bands):
            state = np.uint64(band)
            for number in range(band * per_band, (band + 1) * per_band):
                state = (state ^ (minima[number] >> _HALF)) * _MIX
                state ^= state >> _HALF
            keys[band, row] = np.uint32(state >> _HALF)


@compiled
def best_of_bucket(
    sets: Sets,
    row: int,
    members: Tokens,
    seen: Tokens,
    least_of: Tokens,
    best: tuple[int, int, int],
) -> tuple[int, int, int]:
    """The nearer of ``best`` and the bucket's kept rows: matched, shared, united."""
    tokens, starts, _, signatures = sets
    start, end, (matched, best_shared, best_united) = starts[row], starts[row + 1], best
    for other in members:
        if seen[other] == row:  # they also met in the bucket of an earlier band
            continue
        seen[other] = row
        other_start, other_end = starts[other], starts[other + 1]
        sizes = end - start + other_end - other_start
        least = least_of[sizes]
        mine, others = signatures[row], signatures[other]
        if not may_share(mine, others, end - start, other_end - other_start, least):
            continue
        shared = count_shared(tokens, start, end, other_start, other_end, least)
        ahead = shared * best_united - best_shared * (sizes - shared)
        if shared >= least and (ahead > 0 or (ahead == 0 and other < matched)):
            matched, best_shared, best_united = int(other), shared, sizes - shared
    return matched, best_shared, best_united


@compiled
def match_in_buckets(
    sets: Sets, buckets: Tokens, firsts: Ints, least_of: Tokens, indexed: int
) -> tuple[Ints, Ints, Ints]:
    """Match rows with rows that share a bucket, each pair compared exactly.

    Rows from ``indexed`` on are matched with the rows before; if ``indexed`` is 0, each row
    is matched with the unmatched rows before it, which is the keep-first greedy.

    ``buckets`` (bands, rows) numbers each row's bucket, -1 if the row is alone in it;
    ``firsts`` holds where a bucket's kept rows start. A full bucket takes no further row.
    Returns matched, shared and united as the exact join does.
    """
    rows = buckets.shape[1]
    members, taken = np.empty(firsts[-1], np.int32), np.zeros(firsts.size, np.int32)
    seen, matched = np.full(rows, -1, np.int32), np.full(rows, -1)
    shared, united = np.zeros(rows, np.int64), np.ones(rows, np.int64)
    for row in range(rows):
        best = (-1, 0, 1)
        for bucket in buckets[:, row]:
            if bucket >= 0 and row >= indexed:
                kept = members[firsts[bucket] : firsts[bucket] + taken[bucket]]
                best = best_of_bucket(sets, row, kept, seen, least_of, best)
        matched[row], shared[row], united[row] = best
        enters = row < indexed or (indexed == 0 and matched[row] < 0)
        for bucket in buckets[:, row]:
            room = bucket >= 0 and taken[bucket] < firsts[bucket + 1] - firsts[bucket]
            if enters and room:
                members[firsts[bucket] + taken[bucket]] = row
                taken[bucket] += 1
    return matched, shared, united
