"""Compiled loops of facility location; imported inside functions, never at start-up.

A gain is the sum over columns of max(0, similarity - cover), in float64 and in one order
whatever form a row has: column c is added to lane c mod 32, columns ascending, and the lanes
are added up in order. So a list of the columns above the cover gives the same bits as the
whole row.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.jit import compiled, internal

LANES = 32  # as many independent sums as hide the latency of an addition
NO_LIST = -1
TOP: Any = np.int64(0)  # for a literal 0 the callees would be compiled a second time
PICKED = -1.0  # bound of a picked row: below every gain

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Floats = Singles | Doubles
Rows = NDArray[np.int64]
Lists = tuple[NDArray[np.int32], Singles, Rows]  # columns and values (n, most), lengths (n,)


@internal
def add_terms(row: Floats, cover: Floats, lanes: Doubles) -> None:
    """Add max(0, row - cover) to the lanes; ``row`` begins at a column divisible by 32."""
    for start in range(0, len(row), LANES):
        # Slices of equal length let the compiler keep the lanes in vector registers.
        part, covered = row[start : start + LANES], cover[start : start + LANES]
        for lane in range(len(part)):
            term = np.float64(part[lane]) - np.float64(covered[lane])
            lanes[lane] += max(0.0, term)  # adding 0 changes no sum: no branch


@internal
def sum_lanes(lanes: Doubles) -> float:
    """The sum of the lanes, first to last."""
    gain = 0.0
    for lane in range(LANES):
        gain += lanes[lane]
    return gain


@compiled
def sum_all_lanes(lanes: Doubles, sums: Doubles) -> None:
    """``sum_lanes`` of each row of lanes."""
    for row in range(len(lanes)):
        sums[row] = sum_lanes(lanes[row])


@internal
def gain_of(row: Floats, cover: Floats, lanes: Doubles) -> float:
    """What ``row`` adds to f(S) now; ``lanes`` is scratch."""
    lanes[:] = 0.0
    add_terms(row, cover, lanes)
    return sum_lanes(lanes)


@compiled
def raise_cover(row: Floats, cover: Floats) -> None:
    """Cover every column as well as ``row`` does."""
    for column in range(len(row)):
        cover[column] = max(cover[column], row[column])


@compiled
def replay(rows: Floats, cover: Floats, gains: Doubles) -> None:
    """What each row adds to f(S) when they are picked in order; raises the cover."""
    lanes = np.empty(LANES)
    for index in range(len(rows)):
        gains[index] = gain_of(rows[index], cover, lanes)
        raise_cover(rows[index], cover)


@internal
def comes_first(row: int, other: int, bounds: Doubles) -> bool:
    """Whether ``row`` comes before ``other``: by the higher bound, then the lower number."""
    higher: bool = bounds[row] > bounds[other]
    return higher or (bounds[row] == bounds[other] and row < other)


@internal
def sink(heap: Rows, bounds: Doubles, position: int) -> None:
    """Move the row at ``position`` of the heap down to where its bound belongs."""
    row, child = heap[position], 2 * position + 1
    while child < len(heap):
        if child + 1 < len(heap) and comes_first(heap[child + 1], heap[child], bounds):
            child += 1
        if comes_first(row, heap[child], bounds):
            break
        heap[position] = heap[child]
        position, child = child, 2 * child + 1
    heap[position] = row


@compiled
def build_heap(heap: Rows, bounds: Doubles) -> None:
    """Make a heap of ``heap``: the row that comes first is on top."""
    for position in range(len(heap) // 2 - 1, -1, -1):
        sink(heap, bounds, position)


@compiled
def pick_rows(matrix: Floats, cover: Floats, picks: Rows, gains: Doubles) -> int:
    """Lazy greedy over a square matrix: fills ``picks`` and ``gains``, raises the cover.

    Returns the number of gains evaluated.
    """
    rows, lanes = len(matrix), np.empty(LANES)
    bounds, heap, fresh_at = np.empty(rows), np.arange(rows), np.zeros(rows, np.int64)
    for row in range(rows):
        bounds[row] = gain_of(matrix[row], cover, lanes)
    build_heap(heap, bounds)
    evaluations = rows
    for rank in range(len(picks)):
        # Covers only grow, so each rounded term only shrinks, and sums in one order are monotone
        # in their terms: an old gain is never below the same gain now. A fresh one on top of the
        # heap is therefore the largest.
        while fresh_at[heap[0]] != rank:
            row = heap[0]
            bounds[row], fresh_at[row] = gain_of(matrix[row], cover, lanes), rank
            sink(heap, bounds, TOP)
            evaluations += 1
        row = heap[0]
        picks[rank], gains[rank] = row, bounds[row]
        raise_cover(matrix[row], cover)
        bounds[row] = PICKED
        sink(heap, bounds, TOP)
    return evaluations


@compiled
def add_tile(tile: Singles, rows: Rows, first: int, cover: Singles, lanes: Doubles) -> None:
    """Add the similarities of ``rows`` to the columns from ``first`` on to their lanes."""
    covered = cover[first : first + tile.shape[1]]
    for index in range(len(rows)):
        add_terms(tile[index], covered, lanes[rows[index]])


@compiled
def append_above(tile: Singles, rows: Rows, first: int, cover: Singles, lists: Lists) -> None:
    """Append the entries of ``tile`` above the cover to the rows' lists.

    A row whose list would outgrow its share loses it.
    """
    columns, values, lengths = lists
    columns_above = np.empty(tile.shape[1] + 1, np.int64)
    for index in range(len(rows)):
        row = rows[index]
        length = lengths[row]
        if length == NO_LIST:
            continue
        count = 0
        for column in range(tile.shape[1]):  # no branch: which ones stay is unpredictable
            columns_above[count] = column
            count += tile[index, column] > cover[first + column]
        if length + count > columns.shape[1]:
            lengths[row] = NO_LIST
            continue
        for entry in range(count):
            columns[row, length + entry] = first + columns_above[entry]
            values[row, length + entry] = tile[index, columns_above[entry]]
        lengths[row] = length + count


@internal
def gain_of_list(row: int, cover: Singles, lists: Lists, lanes: Doubles) -> float:
    """``gain_of`` for a row's list; removes the entries that are no longer above the cover."""
    columns, values, lengths = lists
    lanes[:] = 0.0
    kept = 0
    for entry in range(lengths[row]):
        column, value = columns[row, entry], values[row, entry]
        if value > cover[column]:
            lanes[column % LANES] += np.float64(value) - np.float64(cover[column])
            columns[row, kept], values[row, kept] = column, value
            kept += 1
    lengths[row] = kept
    return sum_lanes(lanes)


@compiled
def pick_listed(
    state: tuple[Rows, Doubles, Rows, Singles],
    lists: Lists,
    picks: Rows,
    gains: Doubles,
    rank: int,
) -> tuple[int, int]:
    """Lazy greedy from ``rank`` on for as long as the row on top of the heap has a list.

    ``state`` is the heap, the bounds, at which rank each was computed, and the cover.
    Returns the rank reached and the number of gains evaluated.
    """
    heap, bounds, fresh_at, cover = state
    columns, values, lengths = lists
    lanes, evaluations = np.empty(LANES), 0
    while rank < len(picks) and lengths[heap[0]] != NO_LIST:
        row = heap[0]
        if fresh_at[row] != rank:
            bounds[row], fresh_at[row] = gain_of_list(row, cover, lists, lanes), rank
            evaluations += 1
        else:
            picks[rank], gains[rank] = row, bounds[row]
            for entry in range(lengths[row]):
                column = columns[row, entry]
                cover[column] = max(cover[column], values[row, entry])
            bounds[row] = PICKED
            rank += 1
        sink(heap, bounds, TOP)
    return rank, evaluations
