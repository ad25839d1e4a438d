"""Compiled loops of ``set_join``; imported inside functions, never at start-up.

Row i is the ascending run ``tokens[starts[i]:starts[i + 1]]``. The inverted index holds, per
token, the rows whose prefix has it, in the order in which they joined.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined

Ints = NDArray[np.int64]
Tokens = NDArray[np.int32]
Bits = NDArray[np.uint64]
Sets = tuple[Tokens, Ints, Tokens, Bits]
"""Tokens, where each row starts, how long its prefix is, its signature."""
Index = tuple[Ints, Tokens, Tokens, Tokens, Tokens, Bits]
"""Where a token's postings start and their number; per posting its row, the row's size, how
many of the row's tokens are at or after this one, and the row's signature."""
Best = tuple[int, int, int]
"""The matched row (-1: none), the shared and the united number of tokens."""
Counts = tuple[Ints, Ints, Ints]
"""Per row the matched row (-1: none), the shared and the united number of tokens."""
Work = tuple[Tokens, Tokens]
"""Per indexed row the row it was last compared with; ``min_shared`` per sum of two sizes."""
Quads = tuple[Tokens, Tokens, Tokens, Tokens]
"""Per pair the earlier row, the later, the shared and the united number of tokens."""

_ONES, _TWOS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FOURS, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@inlined
def count_bits(bits: np.uint64) -> np.int64:
    """Number of ones."""
    # The compiler recognises this form and emits one instruction.
    bits -= (bits >> np.uint64(1)) & _ONES
    bits = (bits & _TWOS) + ((bits >> np.uint64(2)) & _TWOS)
    bits = (bits + (bits >> np.uint64(4))) & _FOURS
    return np.int64((bits * _BYTES) >> np.uint64(56))


@compiled
def sign(tokens: Tokens, starts: Ints, signatures: Bits) -> None:
    """Fill in each row's signature: 64 bits; each token sets one."""
    for row in range(starts.size - 1):
        for position in range(starts[row], starts[row + 1]):
            spread = np.uint64(tokens[position]) * _SPREAD
            signatures[row] |= np.uint64(1) << (spread >> np.uint64(58))


@compiled
def count_postings(tokens: Tokens, starts: Ints, prefixes: Tokens, counts: Ints) -> None:
    """Add up, per token, the rows that have it in their prefix."""
    for row in range(prefixes.size):
        for position in range(starts[row], starts[row] + prefixes[row]):
            counts[tokens[position]] += 1


@inlined
def count_shared(tokens: Tokens, i: int, i_end: int, j: int, j_end: int, least: int) -> int:
    """Number of tokens that two ascending runs share; too small a number if below ``least``."""
    shared = 0
    # No branch inside: which of two tokens is smaller is unpredictable.
    while i < i_end and j < j_end and shared + min(i_end - i, j_end - j) >= least:
        a, b = tokens[i], tokens[j]
        shared += a == b
        i += a <= b
        j += b <= a
    return shared


@inlined
def may_share(mine: np.uint64, others: np.uint64, size: int, other_size: int, least: int) -> bool:
    """Whether rows with these signatures and sizes can share ``least`` tokens."""
    # A bit that only one row has comes from a token that only this row has.
    rest = size - count_bits(mine & ~others)
    other_rest = other_size - count_bits(others & ~mine)
    return bool(min(rest, other_rest) >= least)


@inlined
def best_match(sets: Sets, row: int, index: Index, skipped: Tokens, work: Work, best: Best) -> Best:
    """The better of ``best`` and the nearest indexed row; ties go to the lowest row.

    The first ``skipped`` of each token's postings are skipped.
    """
    seen, least_of = work
    tokens, starts, prefixes, signatures = sets
    firsts, lengths, owners, sizes, rests, bits = index
    start, end, mine = starts[row], starts[row + 1], signatures[row]
    size = end - start
    matched, best_shared, best_united = best
    for position in range(prefixes[row]):
        token = tokens[start + position]
        rest = size - position
        first = firsts[token]
        for posting in range(first + skipped[token], first + lengths[token]):
            least = least_of[size + sizes[posting]]
            # Bounds from cheap to costly: the sizes and the positions of the shared token in both
            # rows, then the signatures, and only then the tokens themselves.
            if min(rest, rests[posting]) < least:
                continue
            if not may_share(mine, bits[posting], size, sizes[posting], least):
                continue
            other = owners[posting]
            if seen[other] == row:
                continue
            seen[other] = row
            # Before its first common token a row shares nothing: counting starts there.
            other_end = starts[other + 1]
            shared = count_shared(
                tokens, end - rest, end, other_end - rests[posting], other_end, least
            )
            if shared < least:
                continue
            united = size + sizes[posting] - shared
            # Fractions compared crosswise in integers: no rounding decides.
            ahead = shared * best_united - best_shared * united
            if ahead > 0 or (ahead == 0 and other < matched):
                matched, best_shared, best_united = other, shared, united
    return matched, best_shared, best_united


@inlined
def enter(sets: Sets, row: int, index: Index) -> None:
    """Append the row to the postings of its prefix tokens."""
    tokens, starts, prefixes, signatures = sets
    firsts, lengths, owners, sizes, rests, bits = index
    size = starts[row + 1] - starts[row]
    for position in range(prefixes[row]):
        token = tokens[starts[row] + position]
        posting = firsts[token] + lengths[token]
        owners[posting], sizes[posting], rests[posting] = row, size, size - position
        bits[posting] = signatures[row]
        lengths[token] += 1


@compiled
def match_rows(
    sets: Sets, first: int, index: Index, skipped: Tokens, work: Work, best_of: Counts, enters: bool
) -> None:
    """Improve the best matches of the rows from ``first`` on by the rows of the index.

    ``best_of`` holds the best matches known before. The first ``skipped`` of each token's
    postings are skipped. If ``enters``, a row that stays unmatched joins the index.
    """
    matched, shared, united = best_of
    for position in range(matched.size):
        best = (matched[position], shared[position], united[position])
        best = best_match(sets, first + position, index, skipped, work, best)
        matched[position], shared[position], united[position] = best
        if enters and best[0] < 0:
            enter(sets, first + position, index)


@compiled
def collect(sets: Sets, index: Index, seen: Tokens, least_of: Tokens, pairs: Quads) -> int:
    """Write every pair that reaches ``least_of``, by later row; fills an empty index.

    Returns the number of pairs; only as many as there is room for are written.
    """
    earlier, later, shared_of, united_of = pairs
    tokens, starts, prefixes, signatures = sets
    firsts, lengths, owners, sizes, rests, bits = index
    count = 0
    for row in range(starts.size - 1):
        size = starts[row + 1] - starts[row]
        for position in range(prefixes[row]):
            token, rest = tokens[starts[row] + position], size - position
            for posting in range(firsts[token], firsts[token] + lengths[token]):
                other, least = owners[posting], least_of[size + sizes[posting]]
                if min(rest, rests[posting]) < least or seen[other] == row:
                    continue
                if not may_share(signatures[row], bits[posting], size, sizes[posting], least):
                    continue
                seen[other] = row
                end, other_end = starts[row + 1], starts[other + 1]
                shared = count_shared(
                    tokens, end - rest, end, other_end - rests[posting], other_end, least
                )
                if shared >= least and count < earlier.size:
                    earlier[count], later[count] = other, row
                    shared_of[count], united_of[count] = shared, size + sizes[posting] - shared
                count += shared >= least
        enter(sets, row, index)
    return count
