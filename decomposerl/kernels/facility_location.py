"""Exact lazy greedy for facility location: which rows best represent all rows.

f(S) = sum over rows i of max(0, max over s in S of sim(s, i)) (paper, "Diversity Selection");
similarities below 0 count as 0. Laziness changes no pick, not even in ties, and neither does
the number of threads.

Where the similarity matrix does not fit into memory (``ListedCell``): an entry at or below its
column's cover never matters again, and after one pick few are above. So all similarities are
computed once, tile by tile; every row keeps a list of its entries above the cover, and later gains
are sums over these lists. Memory is ``list_bytes`` and, per row, 0.5 KiB of sums and 4 KiB of
products. Picks and gains equal those from the matrix, except where the linear-algebra library
rounds the product of two rows differently from one call to the next.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.threads import Team

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.int64]

TILE = 512  # rows and columns of one product; a multiple of the lanes, see ``add_terms``
STRIP = 128  # rows of one task that are multiplied with all
BATCH = 256  # rows computed at a time at first; doubled until the next pick is known
ENTRY_BYTES = 8  # column and similarity


class ListedCell:
    """The state of one cell's greedy; ``pick`` runs it."""

    def __init__(self, vectors: Singles, team: Team, list_bytes: int) -> None:
        """Allocate the lists; no similarity is computed before ``pick``."""
        from decomposerl.kernels import facility_loops

        self._loops, self._vectors, self._team = facility_loops, vectors, team
        rows = len(vectors)
        share = max(1, min(rows, list_bytes // (ENTRY_BYTES * rows)))
        self._lists = (
            np.empty((rows, share), np.int32),
            np.empty((rows, share), np.float32),
            np.full(rows, facility_loops.NO_LIST, np.int64),
        )
        self._lanes = np.zeros((rows, facility_loops.LANES))
        self._bounds, self._fresh_at = np.zeros(rows), np.zeros(rows, np.int64)
        self._computed = 0  # rows computed since the last pass
        self.cover = np.zeros(rows, np.float32)
        self.evaluations = 0

    def pick(self, picks: Rows, gains: Doubles) -> None:
        """Fill ``picks`` and ``gains`` (at least one) in order of choice."""
        rank = self._first_pick(picks, gains)
        heap = np.arange(len(self.cover))
        state = (heap, self._bounds, self._fresh_at, self.cover)
        batch, stuck_at = BATCH, -1
        while True:
            self._loops.build_heap(heap, self._bounds)
            rank, evaluated = self._loops.pick_listed(state, self._lists, picks, gains, rank)
            self.evaluations += evaluated
            if rank == len(picks):
                return
            row = int(heap[0])  # it has no list
            if self._fresh_at[row] == rank:
                picks[rank], gains[rank] = row, self._bounds[row]
                self._take(row)
                rank += 1
            else:
                batch = 2 * batch if stuck_at == rank else BATCH
                self._compute_best(batch, rank)
                stuck_at = rank

    def _first_pick(self, picks: Rows, gains: Doubles) -> int:
        """Guess the first pick and compute all lists under its cover; returns the next rank.

        The guess is the best of the rows nearest to the mean. If another row turns out better,
        only the gains over an empty cover are kept.
        """
        # Before the first pick nothing is covered, so every list would be a whole row.
        nearness = self._vectors @ self._vectors.sum(axis=0)
        likely = np.sort(np.argsort(-nearness, kind="stable")[:STRIP])
        self._compute(likely, 0)
        guess = int(likely[np.argmax(self._bounds[likely])])
        self._take(guess)
        uncovered, first = np.zeros_like(self._lanes), np.empty(len(self.cover))
        self._pass(1, uncovered)
        self._loops.sum_all_lanes(uncovered, first)
        self.evaluations += len(first)
        if np.argmax(first) == guess:
            picks[0], gains[0] = guess, first[guess]
            return 1
        self.cover[:], self._lists[2][:] = 0, self._loops.NO_LIST
        self._bounds[:], self._fresh_at[:], self._computed = first, 0, len(first)
        return 0

    def _take(self, row: int) -> None:
        """Cover every row as well as ``row`` does, and never pick it again."""
        # Twice, because the library multiplies, and rounds, a single row in another way.
        pair = self._vectors[[row, row]]
        products = (pair @ self._vectors.T)[0]
        products[row] = 1
        self._loops.raise_cover(products, self.cover)
        self._bounds[row] = self._loops.PICKED

    def _compute_best(self, most: int, rank: int) -> None:
        """Gains of the ``most`` likeliest next picks without a list, or of all rows."""
        # A pass computes each product for two rows: it is cheaper than half of the rows singly.
        if 2 * self._computed >= len(self._bounds):
            self._pass(rank)
            return
        stale = np.flatnonzero((self._fresh_at != rank) & (self._lists[2] == self._loops.NO_LIST))
        best = np.argsort(-self._bounds[stale], kind="stable")[:most]
        self._compute(np.sort(stale[best]), rank)

    def _compute(self, rows: Rows, rank: int) -> None:
        """Gains and lists of some rows, from products with all rows."""
        self._clear(rows)
        self._team.run([partial(self._strip, strip) for strip in _strips(rows)])
        self._settle(rows, rank)
        self._computed += len(rows)

    def _strip(self, rows: Rows) -> None:
        chosen = self._vectors[rows]
        for first in range(0, len(self._vectors), TILE):
            tile = chosen @ self._vectors[first : first + TILE].T
            own = np.flatnonzero((rows >= first) & (rows < first + TILE))
            tile[own, rows[own] - first] = 1
            self._add(tile, rows, first)

    def _pass(self, rank: int, uncovered: Doubles | None = None) -> None:
        """Gains and lists of all rows; the product of two rows is computed once.

        ``uncovered``: lanes for the gains over an empty cover, if these are wanted too.
        """
        # Column b of row a comes from the tile of (a, b), or from the transposed tile of (b, a)
        # if b < a. Bands run one after the other, so every row meets its columns in ascending
        # order, which fixes the order of its sums.
        rows = np.arange(len(self._vectors))
        self._clear(rows)
        waiting: list[Callable[[], Any]] = []
        for first in range(0, len(rows), TILE):
            band = rows[first : first + TILE]
            tasks = waiting + [
                partial(self._tile, band, rows[other : other + TILE], uncovered)
                for other in range(first, len(rows), TILE)
            ]
            done = self._team.run(tasks)[len(waiting) :]
            # A band's own columns wait for the next round, which keeps all threads busy.
            waiting = [partial(self._own, strip, first, done, uncovered) for strip in _strips(band)]
        self._team.run(waiting)
        self._settle(rows, rank)
        self._computed = 0

    def _tile(self, band: Rows, others: Rows, uncovered: Doubles | None) -> Singles:
        """The products of two bands of rows; adds the later band's columns."""
        first, start = int(band[0]), int(others[0])
        tile = self._vectors[first : first + TILE] @ self._vectors[start : start + TILE].T
        if start > first:
            self._add(np.ascontiguousarray(tile.T), others, first, uncovered)
        else:
            np.fill_diagonal(tile, 1)
        return tile

    def _own(self, rows: Rows, first: int, tiles: list[Singles], uncovered: Doubles | None) -> None:
        """Add the columns of the tiles of the band from ``first`` on to ``rows``."""
        start = int(rows[0]) - first
        for index, tile in enumerate(tiles):
            self._add(tile[start : start + STRIP], rows, first + index * TILE, uncovered)

    def _clear(self, rows: Rows) -> None:
        self._lists[2][rows], self._lanes[rows] = 0, 0

    def _add(self, tile: Singles, rows: Rows, first: int, uncovered: Doubles | None = None) -> None:
        """Add the columns from ``first`` on to the sums and lists of ``rows``."""
        self._loops.add_tile(tile, rows, first, self.cover, self._lanes)
        self._loops.append_above(tile, rows, first, self.cover, self._lists)
        if uncovered is not None:
            self._loops.add_tile(tile, rows, first, np.zeros_like(self.cover), uncovered)

    def _settle(self, rows: Rows, rank: int) -> None:
        """Set the gains of ``rows`` as of ``rank``; picked rows stay picked."""
        sums = np.empty(len(rows))
        self._loops.sum_all_lanes(self._lanes[rows], sums)
        picked = self._bounds[rows] == self._loops.PICKED
        self._bounds[rows] = np.where(picked, self._loops.PICKED, sums)
        self._fresh_at[rows] = rank
        self.evaluations += len(rows)


def _strips(rows: Rows) -> list[Rows]:
    return [rows[start : start + STRIP] for start in range(0, len(rows), STRIP)]


Floats = Singles | NDArray[np.float64]

MATRIX_BYTES = 2 * 1024**3  # similarities in memory at a time: a cell of up to 23,170 rows


class Greedy(NamedTuple):
    """What a selector picked.

    ``picks`` int64 (k,) are row numbers in order of choice, all different, ``gains`` float64
    (k,) is what each added to f(S), ``evaluations`` the number of gains computed, ``cover`` (n,)
    each row's similarity to its nearest pick, at least 0: f(S) is the sum of either.
    """

    picks: Rows
    gains: Doubles
    evaluations: int
    cover: Floats

    @property
    def objective(self) -> float:
        """f(S)."""
        return float(self.gains.sum())


def lazy_greedy(similarity: Floats, k: int) -> Greedy:
    """The ``min(k, m)`` rows that greedy facility location picks, ties to the lowest index.

    ``similarity`` is (m, n); row s says how well s represents each of n rows. The picks equal
    those of a greedy that evaluates every gain each time.
    """
    from decomposerl.kernels import facility_loops as loops

    k = min(k, len(similarity))
    picks, gains = np.empty(k, np.int64), np.empty(k)
    rows: NDArray[Any] = np.ascontiguousarray(similarity)
    cover: NDArray[Any] = np.zeros(rows.shape[1], rows.dtype)
    evaluations = loops.pick_rows(rows, cover, picks, gains) if k else 0
    return Greedy(picks, gains, evaluations, cover)


def facility_location(
    vectors: Singles, k: int, *, threads: int = 0, matrix_bytes: int = MATRIX_BYTES
) -> Greedy:
    """``lazy_greedy`` on the cosines of unit rows, shape (n, d).

    A matrix of more than ``matrix_bytes`` is never built: see ``ListedCell``.
    """
    whole = [(np.arange(len(vectors)), k)]
    return facility_locations(vectors, whole, threads=threads, matrix_bytes=matrix_bytes)[0]


def facility_locations(
    vectors: Singles,
    cells: Sequence[tuple[Rows, int]],
    *,
    threads: int = 0,
    matrix_bytes: int = MATRIX_BYTES,
) -> list[Greedy]:
    """``facility_location`` within each cell ``(rows, k)``; picks index ``rows``.

    Cells whose matrices fit together into ``matrix_bytes`` run in parallel, largest first.
    """
    done: dict[int, Greedy] = {}
    with Team(threads) as team:
        for group in _groups([len(rows) for rows, _ in cells], matrix_bytes):
            parts = [_part(vectors, cells[cell][0]) for cell in group]
            counts = [cells[cell][1] for cell in group]
            if len(group) == 1 and _matrix_bytes(len(parts[0])) > matrix_bytes:
                greedies = [_listed(parts[0], counts[0], team, matrix_bytes)]
            else:
                # All cores share the products; a gain is too short to share, so each greedy is
                # one task.
                tasks = zip(_cosines(parts, team), counts, strict=True)
                greedies = team.run([partial(lazy_greedy, *task) for task in tasks])
            done |= zip(group, greedies, strict=True)
    return [done[cell] for cell in range(len(cells))]


def cosine_matrix(vectors: Singles) -> Singles:
    """The similarities (n, n) that the greedy reads, to the bit: 1 on the diagonal, not clipped."""
    with Team(1) as team:
        return _cosines([vectors], team)[0]


def coverage_gains(
    vectors: Singles, picks: Sequence[int] | Rows
) -> tuple[NDArray[np.float64], Singles]:
    """What each pick, in this order, adds to f(S), shape (len(picks),), and the cover, (n,)."""
    from decomposerl.kernels import facility_loops as loops

    cover, gains = np.zeros(len(vectors), np.float32), np.empty(len(picks))
    for start in range(0, len(picks), TILE):
        part = np.asarray(picks[start : start + TILE], np.int64)
        products = vectors[part] @ vectors.T
        # Exactly 1, not the rounded square: two rows that are each other's nearest tie, and
        # rounding would decide between them, differently on another processor.
        products[np.arange(len(part)), part] = 1
        loops.replay(products, cover, gains[start : start + TILE])
    return gains, cover


def _part(vectors: Singles, rows: Rows) -> Singles:
    """The cell's vectors, copied unless the cell is everything."""
    whole = len(rows) == len(vectors) and bool((rows == np.arange(len(rows))).all())
    return vectors if whole else vectors[rows]


def _matrix_bytes(rows: int) -> int:
    return rows * rows * np.dtype(np.float32).itemsize


def _groups(sizes: Sequence[int], matrix_bytes: int) -> list[list[int]]:
    """Cells by falling size in groups that fit; one that never fits is alone."""
    groups: list[list[int]] = []
    room = -1
    for cell in sorted(range(len(sizes)), key=lambda cell: -sizes[cell]):
        room -= _matrix_bytes(sizes[cell])
        if room < 0:
            groups.append([])
            room = matrix_bytes - _matrix_bytes(sizes[cell])
        groups[-1].append(cell)
    return groups


def _cosines(parts: Sequence[Singles], team: Team) -> list[Singles]:
    """The matrix of each part; every product is computed once, one tile per task."""
    matrices = [np.empty((len(part), len(part)), np.float32) for part in parts]
    tiles = [
        partial(_tile, part, matrix, first, other)
        for part, matrix in zip(parts, matrices, strict=True)
        for first in range(0, len(part), TILE)
        for other in range(first, len(part), TILE)
    ]
    team.run(tiles)
    return matrices


def _tile(part: Singles, matrix: Singles, first: int, other: int) -> None:
    rows, columns = slice(first, first + TILE), slice(other, other + TILE)
    np.matmul(part[rows], part[columns].T, out=matrix[rows, columns])
    if other > first:
        matrix[columns, rows] = matrix[rows, columns].T
    else:
        np.fill_diagonal(matrix[rows, rows], 1)  # as in ``coverage_gains``


def _listed(vectors: Singles, k: int, team: Team, list_bytes: int) -> Greedy:
    k = min(k, len(vectors))
    picks, gains = np.empty(k, np.int64), np.empty(k)
    cell = ListedCell(vectors, team, list_bytes)
    if k:
        cell.pick(picks, gains)
    return Greedy(picks, gains, cell.evaluations, cell.cover)
