"""Exact lazy greedy for facility location: which rows best represent all rows.

f(S) = sum over rows i of max(0, max over s in S of sim(s, i)) (paper, "Diversity Selection");
similarities below 0 count as 0. Laziness changes no pick, not even in ties, and neither does
the number of threads.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.threads import Team

Singles = NDArray[np.float32]
Floats = Singles | NDArray[np.float64]
Rows = NDArray[np.int64]

MATRIX_BYTES = 2 * 1024**3  # similarities in memory at a time: a cell of up to 23,170 rows
TILE = 512


class Greedy(NamedTuple):
    """What the greedy picked.

    ``picks`` int64 (k,) in order of choice, ``gains`` float64 (k,) what each added,
    ``evaluations`` the number of gains computed, ``cover`` (n,) each row's similarity to its
    nearest pick, at least 0: f(S) is the sum of the gains and of the cover.
    """

    picks: Rows
    gains: NDArray[np.float64]
    evaluations: int
    cover: Floats


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

    A matrix of more than ``matrix_bytes`` is never built: see ``facility_lists``.
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
    from decomposerl.kernels.facility_lists import ListedCell

    k = min(k, len(vectors))
    picks, gains = np.empty(k, np.int64), np.empty(k)
    cell = ListedCell(vectors, team, list_bytes)
    if k:
        cell.pick(picks, gains)
    return Greedy(picks, gains, cell.evaluations, cell.cover)
