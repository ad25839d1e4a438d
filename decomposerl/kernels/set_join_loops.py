"""The compiled loops of ``set_join``; imported by it on first use, never at start-up.

Takes and gives arrays alone. Row i is the ascending run ``tokens[starts[i]:starts[i + 1]]``;
the inverted index holds, per token, the rows whose prefix has it, in the order they joined.

A pair is looked at no further once one of three bounds says that it cannot reach the
threshold: the sizes; where the first shared token stands in both rows; and the bits of the
two rows' signatures (a bit that only one row has is a token that only this row has).
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined

Ints = NDArray[np.int64]
Tokens = NDArray[np.int32]
Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Sets = tuple[Tokens, Ints, Tokens, Bits]
"""Tokens, where each row starts, how long its prefix is, its signature."""
Index = tuple[Ints, Tokens, Tokens, Tokens, Tokens, Bits]
"""Where a token's postings start and how many there are; per posting its row, the row's
size, how many of the row's tokens stand at or after this one, and the row's signature."""
Best = tuple[int, int, int]
"""The matched row (-1: none), the shared and the united number of tokens."""
Counts = tuple[Ints, Ints, Ints]
"""Per row the matched row (-1: none), the shared and the united number of tokens."""
Work = tuple[Tokens, Tokens]
"""Per indexed row which row looked at it last; fewest shared tokens per sum of two sizes."""
Quads = tuple[Tokens, Tokens, Tokens, Tokens]
"""Per pair the earlier row, the later, the shared and the united number of tokens."""

_ONES, _TWOS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FOURS, _BYTES = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@inlined
def count_bits(bits: np.uint64) -> np.int64:
    """Number of ones (the compiler knows this form as one instruction)."""
    bits -= (bits >> np.uint64(1)) & _ONES
    bits = (bits & _TWOS) + ((bits >> np.uint64(2)) & _TWOS)
    bits = (bits + (bits >> np.uint64(4))) & _FOURS
    return np.int64((bits * _BYTES) >> np.uint64(56))


@compiled
def sign(tokens: Tokens, starts: Ints, signatures: Bits) -> None:
    """Fill in each row's signature: 64 bits, one set by each token."""
    for row in range(starts.size - 1):
        for place in range(starts[row], starts[row + 1]):
            spread = np.uint64(tokens[place]) * _SPREAD
            signatures[row] |= np.uint64(1) << (spread >> np.uint64(58))


@compiled
def count_postings(tokens: Tokens, starts: Ints, prefixes: Tokens, counts: Ints) -> None:
    """Add up, per token, the rows that have it in their prefix."""
    for row in range(prefixes.size):
        for place in range(starts[row], starts[row] + prefixes[row]):
            counts[tokens[place]] += 1


@inlined
def count_shared(tokens: Tokens, i: int, i_end: int, j: int, j_end: int, least: int) -> int:
    """Number of tokens that two ascending runs share; too small a number if under ``least``."""
    shared = 0
    while i < i_end and j < j_end and shared + min(i_end - i, j_end - j) >= least:
        a, b = tokens[i], tokens[j]
        shared += a == b
        i += a <= b
        j += b <= a
    return shared


@inlined
def may_share(mine: np.uint64, others: np.uint64, size: int, other_size: int, least: int) -> bool:
    """Whether rows with these signatures and sizes can share ``least`` tokens.

    A bit that only one row has is a token that only this row has.
    """
    rest = size - count_bits(mine & ~others)
    other_rest = other_size - count_bits(others & ~mine)
    return bool(min(rest, other_rest) >= least)


@inlined
def best_match(sets: Sets, row: int, index: Index, skipped: Tokens, work: Work, best: Best) -> Best:
    """The better of ``best`` and the indexed row with the highest Jaccard that reaches it.

    Of each token's postings the first ``skipped`` are passed over. Ties go to the lowest
    row. Sizes are compared crosswise in integers, so no rounding decides.
    """
    seen, least_of = work
    tokens, starts, prefixes, signatures = sets
    firsts, lengths, owners, sizes, rests, bits = index
    start, end, mine = starts[row], starts[row + 1], signatures[row]
    size = end - start
    matched, best_shared, best_united = best
    for place in range(prefixes[row]):
        token = tokens[start + place]
        rest = size - place
        first = firsts[token]
        for posting in range(first + skipped[token], first + lengths[token]):
            least = least_of[size + sizes[posting]]
            # The bound of the sizes, and of where the shared token stands in the two rows.
            if min(rest, rests[posting]) < least:
                continue
            if not may_share(mine, bits[posting], size, sizes[posting], least):
                continue
            other = owners[posting]
            if seen[other] == row:
                continue
            seen[other] = row
            other_end = starts[other + 1]
            shared = count_shared(
                tokens, end - rest, end, other_end - rests[posting], other_end, least
            )
            if shared < least:
                continue
            united = size + sizes[posting] - shared
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
    for place in range(prefixes[row]):
        token = tokens[starts[row] + place]
        posting = firsts[token] + lengths[token]
        owners[posting], sizes[posting], rests[posting] = row, size, size - place
        bits[posting] = signatures[row]
        lengths[token] += 1


@compiled
def match_rows(
    sets: Sets, first: int, index: Index, skipped: Tokens, work: Work, found: Counts, enters: bool
) -> None:
    """Match the rows from ``first`` on with the rows of the index.

    ``found`` holds what is known before, and gets the better of that and what the postings
    behind ``skipped`` give. Where ``enters``, a row that stays unmatched joins the index:
    all of them where every posting is skipped.
    """
    matched, shared, united = found
    for place in range(matched.size):
        best = (matched[place], shared[place], united[place])
        best = best_match(sets, first + place, index, skipped, work, best)
        matched[place], shared[place], united[place] = best
        if enters and best[0] < 0:
            enter(sets, first + place, index)


@compiled
def collect(sets: Sets, index: Index, seen: Tokens, least_of: Tokens, found: Quads) -> int:
    """Write every pair that reaches ``least_of``, by later row; fills an empty index.

    Gives the number of pairs there are, of which as many are written as there is room.
    """
    earlier, later, shared_of, united_of = found
    tokens, starts, prefixes, signatures = sets
    firsts, lengths, owners, sizes, rests, bits = index
    count = 0
    for row in range(starts.size - 1):
        size = starts[row + 1] - starts[row]
        for place in range(prefixes[row]):
            token, rest = tokens[starts[row] + place], size - place
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
