"""Compiled loops of ``set_parts``; imported inside functions, never at start-up.

A part of the join owns the tokens from ``low`` to below ``high``. It has every row whose prefix
holds one of them, in row order and with all of the row's tokens. A pair of rows belongs to the
part of the first token that both have: no other part counts it.
"""

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, inlined
from decomposerl.kernels.set_join_loops import Index, Ints, Tokens, count_shared, may_share

Bits = NDArray[np.uint64]
Flags = NDArray[np.uint8]
Part = tuple[Tokens, Ints, Tokens, Tokens, Bits]
"""Tokens, where each row starts, from and to where its prefix holds tokens of this part (counted
from the row's start), its signature."""
Quads = tuple[Ints, Ints, Tokens, Tokens]
"""Per pair the earlier row, the later, the shared and the united number of tokens."""
Best = tuple[Ints, Tokens, Tokens]
"""Per row the matched row (-1: none), the shared and the united number of tokens."""

UNDECIDED, KEPT, REMOVED, WAITING = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)


@compiled
def spread_rows(
    sets: tuple[Tokens, Ints, Tokens],
    shared: Flags,
    bounds: Ints,
    used: tuple[Ints, Ints],
    out: tuple[Tokens, Tokens, Tokens],
) -> None:
    """Count a row's copies per part, or write them where ``out`` has room.

    ``sets`` are tokens, starts and prefix lengths; ``shared`` tells which tokens another row's
    prefix has too; part p owns the tokens from ``bounds[p]`` on. ``used`` are rows and tokens
    per part, the next free places when writing; ``out`` rows, their sizes, and their tokens.
    """
    tokens, starts, prefixes = sets
    rows_used, tokens_used = used
    rows, sizes, copies = out
    for row in range(prefixes.size):
        start, size = starts[row], starts[row + 1] - starts[row]
        part, last = 0, -1
        for position in range(start, start + prefixes[row]):
            if not shared[tokens[position]]:
                continue
            while tokens[position] >= bounds[part + 1]:  # tokens ascend
                part += 1
            if part == last:
                continue
            last = part
            if rows.size:
                rows[rows_used[part]], sizes[rows_used[part]] = row, size
                for index in range(size):
                    copies[tokens_used[part] + index] = tokens[start + index]
            rows_used[part] += 1
            tokens_used[part] += size


@compiled
def find_runs(
    sets: tuple[Tokens, Ints, Tokens], low: int, runs: tuple[Tokens, Tokens], counts: Ints
) -> None:
    """Where the part's tokens stand in each row's prefix, and how many rows have each token.

    ``counts`` has one entry per token of the part, from ``low`` on.
    """
    tokens, starts, prefixes = sets
    begins, ends = runs
    for row in range(prefixes.size):
        position = 0
        while position < prefixes[row] and tokens[starts[row] + position] < low:
            position += 1
        begins[row] = position
        while position < prefixes[row] and tokens[starts[row] + position] < low + counts.size:
            counts[tokens[starts[row] + position] - low] += 1
            position += 1
        ends[row] = position


@inlined
def near_shared(
    part: Part, row: int, position: int, index: Index, posting: int, least_of: Tokens
) -> int:
    """How many tokens a row shares with a posting's row; 0 if too few or if not this part's pair.

    ``position`` is where the row has the posting's token.
    """
    tokens, starts, _, _, signatures = part
    _, _, owners, sizes, rests, bits = index
    size = starts[row + 1] - starts[row]
    rest, least, shared = size - position, least_of[size + sizes[posting]], 0
    if min(rest, rests[posting]) >= least and may_share(
        signatures[row], bits[posting], size, sizes[posting], least
    ):
        other = owners[posting]
        mine, others = starts[row] + position, starts[other + 1] - rests[posting]
        # A token in common before this one: the pair was, or is elsewhere, counted there.
        if count_shared(tokens, starts[row], mine, starts[other], others, 1) == 0:
            counted = count_shared(tokens, mine, starts[row + 1], others, starts[other + 1], least)
            shared = counted if counted >= least else 0
    return shared


@inlined
def enter_run(part: Part, row: int, low: int, index: Index) -> None:
    """Append the row to the postings of the part's tokens in its prefix."""
    tokens, starts, begins, ends, signatures = part
    firsts, lengths, owners, sizes, rests, bits = index
    size = starts[row + 1] - starts[row]
    for position in range(begins[row], ends[row]):
        token = tokens[starts[row] + position] - low
        posting = firsts[token] + lengths[token]
        owners[posting], sizes[posting], rests[posting] = row, size, size - position
        bits[posting] = signatures[row]
        lengths[token] += 1


@compiled
def collect_part(
    part: Part, low: int, index: Index, least_of: Tokens, states: Flags, pairs: Quads
) -> int:
    """Write the pairs of undecided rows with earlier ones that are not removed, by later row.

    Returns how many there are; stops at ``room + 1`` if they do not fit. Fills an empty index.
    """
    earlier, later, shared_of, united_of = pairs
    tokens, starts, begins, ends, _ = part
    firsts, lengths, owners, sizes, _, _ = index
    count = 0
    for row in range(begins.size):
        if states[row] == REMOVED:
            continue
        for position in range(begins[row], ends[row] if states[row] == UNDECIDED else 0):
            token = tokens[starts[row] + position] - low
            for posting in range(firsts[token], firsts[token] + lengths[token]):
                shared = near_shared(part, row, position, index, posting, least_of)
                if shared == 0:
                    continue
                if count == earlier.size:
                    return count + 1
                earlier[count], later[count], shared_of[count] = owners[posting], row, shared
                united_of[count] = starts[row + 1] - starts[row] + sizes[posting] - shared
                count += 1
        enter_run(part, row, low, index)
    return count


@compiled
def decide_part(
    part: Part, low: int, index: Index, least_of: Tokens, states: Flags, any_kept: bool
) -> None:
    """Decide what this part can about its undecided rows; fills an empty index.

    An undecided row becomes ``REMOVED`` if an earlier kept row is near, ``WAITING`` if only
    earlier undecided or waiting rows are. ``any_kept``: whether some row is kept already.
    """
    tokens, starts, begins, ends, _ = part
    firsts, lengths, owners, sizes, _, _ = index
    for row in range(begins.size):
        size, copied = starts[row + 1] - starts[row], False
        for position in range(begins[row], ends[row]):
            # Without kept rows nothing can be learnt after the first near one.
            if states[row] in (KEPT, REMOVED) or (states[row] == WAITING and not any_kept):
                break
            token = tokens[starts[row] + position] - low
            for posting in range(firsts[token], firsts[token] + lengths[token]):
                shared = near_shared(part, row, position, index, posting, least_of)
                if shared == 0:
                    continue
                if states[owners[posting]] == KEPT:
                    states[row] = REMOVED
                    break
                states[row] = WAITING
                # What is near this row is near its earlier copy too: one of them is enough.
                copied |= shared == size and shared == sizes[posting]
                if not any_kept:
                    break
        if states[row] != REMOVED and not copied:
            enter_run(part, row, low, index)


@compiled
def best_part(
    part: Part, low: int, index: Index, least_of: Tokens, states: Flags, best: Best
) -> None:
    """The nearest earlier kept row of each removed row, ties to the lowest; fills the index."""
    matched, shared_of, united_of = best
    tokens, starts, begins, ends, _ = part
    firsts, lengths, owners, sizes, _, _ = index
    for row in range(begins.size):
        if states[row] == KEPT:
            enter_run(part, row, low, index)
            continue
        for position in range(begins[row], ends[row]):
            token = tokens[starts[row] + position] - low
            for posting in range(firsts[token], firsts[token] + lengths[token]):
                shared = near_shared(part, row, position, index, posting, least_of)
                if shared == 0:
                    continue
                united = starts[row + 1] - starts[row] + sizes[posting] - shared
                ahead = np.int64(shared) * united_of[row] - np.int64(shared_of[row]) * united
                if ahead > 0 or (ahead == 0 and owners[posting] < matched[row]):
                    matched[row] = owners[posting]
                    shared_of[row], united_of[row] = shared, united


@compiled
def keep_first_of(
    earlier: Ints, later: Ints, shared: Tokens, united: Tokens, order: Ints, best: Best
) -> None:
    """The keep-first greedy over all pairs, taken in ``order``: by later row, any earlier ones."""
    matched, shared_of, united_of = best
    for pair in order:
        row, other = later[pair], earlier[pair]
        if matched[other] >= 0:  # the order has decided about every earlier row
            continue
        ahead = np.int64(shared[pair]) * united_of[row] - np.int64(shared_of[row]) * united[pair]
        if ahead > 0 or (ahead == 0 and other < matched[row]):
            matched[row], shared_of[row], united_of[row] = other, shared[pair], united[pair]
