"""Cosine searches tile by tile: low-precision products propose, exact cosines decide.

Every pair that a product cannot rule out is computed in double precision in one fixed order
(``cosine_loops.dot``), so results depend neither on the engine nor on tiles or threads.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import ConfigError
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.products import Encoded, Floats, Hits, Picked, Products
from decomposerl.kernels.threads import Team

Doubles = NDArray[np.float64]
Rows = NDArray[np.int64]
BestRows = tuple[Rows, Rows, Doubles]
"""Row numbers in the left slice, their best right rows, cosines."""
PairColumns = tuple[Rows, Rows, Doubles]
"""Earlier rows, later rows, cosines."""

ENCODED_AT_A_TIME = 512
PARTS_OF_A_BLOCK = 4
TILES_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Side:
    """Rows to compare: the vectors, their squared lengths, and their encoding for the engine."""

    vectors: Floats
    squares: Doubles
    encoded: Encoded

    @classmethod
    def of(cls, vectors: Floats, engine: Products, team: Team) -> "Side":
        """Measure and encode all rows, a few at a time."""
        from decomposerl.kernels.cosine_loops import squared_lengths

        squares, encoded = np.empty(len(vectors)), engine.room(vectors)

        def encode(rows: slice) -> None:
            squared_lengths(vectors[rows], squares[rows])
            engine.encode(vectors[rows], squares[rows], encoded.take(rows))

        team.run(partial(encode, rows) for rows in row_slices(0, len(vectors), ENCODED_AT_A_TIME))
        return cls(vectors, squares, encoded)

    def exact(self, rows: slice = slice(None)) -> tuple[Floats, Doubles]:
        """What exact cosines need of some rows."""
        return self.vectors[rows], self.squares[rows]


def best_of_tile(
    engine: Products, sides: tuple[Side, Side], rows: tuple[slice, Picked], threshold: float
) -> BestRows:
    """Per left row its best right row at or above ``threshold``, among some rows of each side."""
    from decomposerl.kernels.cosine_loops import best_of_hits

    (left, right), (some, others) = sides, rows
    hits = engine.near(left.encoded.take(some), right.encoded.take(others), threshold)
    numbers = np.arange(len(right.vectors))[others] if isinstance(others, slice) else others
    best: BestRows = best_of_hits(hits, left.exact(some), right.exact(), numbers, threshold)
    return best


def keep_first(
    side: Side, threshold: float, engine: Products, team: Team, given: Matches | None = None
) -> Matches:
    """The keep-first greedy: each block against the rows kept before it, then within itself.

    A row that ``given`` has a match for is not kept; the match stays unless a nearer row is kept.
    """
    from decomposerl.kernels.cosine_loops import keep_in_block

    matches = Matches.none(len(side.vectors), f"cosine_{engine.name}")
    if given is not None:
        matches.matched[:], matches.similarity[:] = given.matched, given.similarity
    kept, count = np.empty(len(side.vectors), np.int64), 0
    for block in row_slices(0, len(side.vectors), engine.block):
        parts = list(row_slices(block.start, block.stop, engine.block // PARTS_OF_A_BLOCK))
        tasks: list[Callable[[], Any]] = [
            partial(_hits_within, engine, side, block, part, threshold) for part in parts
        ]
        tasks += [
            partial(best_of_tile, engine, (side, side), (block, kept[tile]), threshold)
            for tile in row_slices(0, count, engine.tile)
        ]
        results = team.run(tasks)
        # Sequential from here: which rows of the block stay depends on each other.
        for result in results[len(parts) :]:
            _record(matches, block.start, result)
        hits = results[: len(parts)]
        rows, columns, most = (np.concatenate(column) for column in zip(*hits, strict=True))
        matched, similarity = matches.matched[block], matches.similarity[block]
        keep_in_block(
            (rows, columns, most), side.exact(block), threshold, matched, similarity, block.start
        )
        fresh = block.start + np.flatnonzero(matched < 0)
        kept[count : count + len(fresh)] = fresh
        count += len(fresh)
    return matches


def best_across(
    left: Side, others: Floats, threshold: float, engine: Products, team: Team
) -> Matches:
    """Per left row its best among ``others``, which are encoded a few tiles at a time."""
    matches = Matches.none(len(left.vectors), f"cosine_{engine.name}")
    blocks = list(row_slices(0, len(left.vectors), engine.block))
    for chunk in row_slices(0, len(others), engine.tile * TILES_AT_A_TIME):
        right = Side.of(others[chunk], engine, team)
        distinct = _first_copies(right)
        tiles = [
            (block, distinct[tile])
            for tile in row_slices(0, len(distinct), engine.tile)
            for block in blocks
        ]
        results = team.run(
            partial(best_of_tile, engine, (left, right), tile, threshold) for tile in tiles
        )
        for (block, _), (rows, matched, cosines) in zip(tiles, results, strict=True):
            _record(matches, block.start, (rows, chunk.start + matched, cosines))
    return matches


def all_pairs(side: Side, floor: float, engine: Products, team: Team, most: int) -> PairColumns:
    """Every (earlier row, later row, cosine) at or above ``floor``, by later, then earlier.

    Raises:
        ConfigError: there are more than ``most``.
    """
    from decomposerl.kernels.cosine_loops import pair_cosines

    total = 0

    def pairs_of_tile(rows: slice, others: slice) -> PairColumns:
        nonlocal total
        hits = engine.near(side.encoded.take(rows), side.encoded.take(others), floor)
        earlier, later = rows.start + hits[0].astype(np.int64), others.start + hits[1]
        ordered = earlier < later  # tiles on the diagonal hold each pair twice
        earlier, later = earlier[ordered], later[ordered].astype(np.int64)
        cosines = pair_cosines(side.exact(), earlier, side.exact(), later)
        near = cosines >= floor
        total += int(near.sum())
        if total > most:  # at once: the pairs of a wrong floor would fill the memory
            raise ConfigError(
                f"more than {most:,} pairs of claims have cosine {floor} or more; raise pairs_floor"
            )
        return earlier[near], later[near], cosines[near]

    rows = len(side.vectors)
    tiles = team.run(
        partial(pairs_of_tile, block, tile)
        for block in row_slices(0, rows, engine.block)
        for tile in row_slices(block.start, rows, engine.tile)
    )
    earlier, later, cosines = (np.concatenate(column) for column in zip(*tiles, strict=True))
    order = np.lexsort((earlier, later))
    return earlier[order], later[order], cosines[order]


def row_slices(first: int, last: int, size: int) -> Iterator[slice]:
    """``first`` to ``last`` in slices of at most ``size``."""
    for start in range(first, last, size):
        yield slice(start, min(start + size, last))


def _hits_within(engine: Products, side: Side, block: slice, part: slice, threshold: float) -> Hits:
    """Pairs of a row in ``part`` and one in the rest of its block, numbered within the block."""
    rest = slice(part.start, block.stop)
    rows, columns, most = engine.near(side.encoded.take(part), side.encoded.take(rest), threshold)
    offset = np.int32(part.start - block.start)
    return rows + offset, columns + offset, most


def _record(matches: Matches, start: int, best: BestRows) -> None:
    """Keep what is better than before; of equal matches the earlier stays."""
    rows, matched, cosines = best
    better = cosines > matches.similarity[start + rows]
    rows = start + rows[better]
    matches.matched[rows], matches.similarity[rows] = matched[better], cosines[better]


def _first_copies(side: Side) -> Rows:
    """The rows of ``side`` without later copies, so that equal rows are searched once."""
    # Equal rows have bit-equal lengths, so sorting by length puts copies next to each other. A
    # copy separated from its equals by another row of that length stays, which costs only time.
    order = np.argsort(side.squares, kind="stable")
    first, second = order[:-1], order[1:]
    alike = np.flatnonzero(side.squares[first] == side.squares[second])
    copies = [
        index
        for index in alike.tolist()
        if np.array_equal(side.vectors[first[index]], side.vectors[second[index]])
    ]
    return np.setdiff1d(order, second[copies])
