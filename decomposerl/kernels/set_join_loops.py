"""The compiled loops of ``set_join``; imported by it on first use, never at start-up.

Takes and gives arrays alone. Row i is the ascending run ``tokens[starts[i]:starts[i + 1]]``;
an inverted index over the first ``prefixes[i]`` tokens of each indexed row is a linked list
per token (``head``, ``after``, ``owner``), grown row by row.

Left out deliberately: everything about texts.
"""

import numpy as np
from numba import njit  # noqa: TID253 - this module is itself imported inside a function
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Tokens = NDArray[np.int32]
Flags = NDArray[np.bool_]
Postings = tuple[Ints, Ints, Ints]


def _count_shared(tokens: Tokens, i: int, i_end: int, j: int, j_end: int) -> int:
    """Number of tokens that two ascending runs of ``tokens`` have in common."""
    shared = 0
    while i < i_end and j < j_end:
        if tokens[i] == tokens[j]:
            shared += 1
            i += 1
            j += 1
        elif tokens[i] < tokens[j]:
            i += 1
        else:
            j += 1
    return shared


count_shared = njit(cache=True)(_count_shared)


def _collect(prefix: Tokens, row: int, postings: Postings, seen: Ints, found: Ints) -> int:
    """Write the indexed rows that share a prefix token into ``found``; gives their number."""
    head, after, owner = postings
    count = 0
    for token in prefix:
        entry = head[token]
        while entry >= 0:
            other = owner[entry]
            if seen[other] != row:
                seen[other] = row
                found[count] = other
                count += 1
            entry = after[entry]
    return count


collect = njit(cache=True)(_collect)


def _best_match(
    tokens: Tokens, starts: Ints, row: int, found: Ints, exact: tuple[int, int]
) -> tuple[int, int, int]:
    """The row of ``found`` with the highest Jaccard at or above ``exact``, and its counts.

    Gives (-1, 0, 1) where none reaches it; ties go to the lowest row. Sizes are compared
    crosswise in integers, so no rounding decides.
    """
    numerator, denominator = exact
    matched, best_shared, best_united = -1, 0, 1
    size = starts[row + 1] - starts[row]
    for other in found:
        other_size = starts[other + 1] - starts[other]
        if min(size, other_size) * denominator < max(size, other_size) * numerator:
            continue
        shared = count_shared(
            tokens, starts[row], starts[row + 1], starts[other], starts[other + 1]
        )
        united = size + other_size - shared
        if shared * denominator < united * numerator:
            continue
        ahead = shared * best_united - best_shared * united
        if ahead > 0 or (ahead == 0 and other < matched):
            matched, best_shared, best_united = other, shared, united
    return matched, best_shared, best_united


best_match = njit(cache=True)(_best_match)


def _add(prefix: Tokens, row: int, postings: Postings, used: int) -> int:
    """Index the prefix tokens of one row; gives the number of postings now used."""
    head, after, owner = postings
    for token in prefix:
        owner[used] = row
        after[used] = head[token]
        head[token] = used
        used += 1
    return used


add = njit(cache=True)(_add)


def _join(
    sets: tuple[Tokens, Ints, Ints],
    vocabulary: int,
    roles: tuple[Flags, Flags],
    exact: tuple[int, int],
) -> tuple[Ints, Ints, Ints]:
    """Match each ``probing`` row with the rows indexed before it, in row order.

    Each ``indexed`` row that found no match then joins the index. ``sets`` is
    tokens, starts, prefixes; ``exact`` the threshold as numerator and denominator.
    Gives per row the matched row (-1: none), the shared and the united number of tokens.
    """
    tokens, starts, prefixes = sets
    probing, indexed = roles
    rows, entries = prefixes.size, prefixes.sum()
    postings = (np.full(vocabulary, -1), np.empty(entries, np.int64), np.empty(entries, np.int64))
    seen, found = np.full(rows, -1), np.empty(rows, np.int64)
    matched, shared, united = np.full(rows, -1), np.zeros(rows, np.int64), np.ones(rows, np.int64)
    used = 0
    for row in range(rows):
        prefix = tokens[starts[row] : starts[row] + prefixes[row]]
        if probing[row]:
            count = collect(prefix, row, postings, seen, found)
            best = best_match(tokens, starts, row, found[:count], exact)
            matched[row], shared[row], united[row] = best
        if indexed[row] and matched[row] < 0:
            used = add(prefix, row, postings, used)
    return matched, shared, united


join = njit(cache=True)(_join)
