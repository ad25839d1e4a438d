"""Cosine searches tile by tile: low-precision products propose, exact cosines decide.

Every pair that a product cannot rule out is computed in double precision in one fixed order
(``cosine_loops.dot``), so results depend neither on the engine nor on tiles or threads.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import ConfigError
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.products import Doubles, Encoded, Floats, Hits, Products
from decomposerl.kernels.threads import Team

Rows = NDArray[np.int64]
BestRows = tuple[Rows, Rows, Doubles]
"""Row numbers in the left slice, their best right rows, cosines."""
PairColumns = tuple[Rows, Rows, Doubles]
"""Earlier rows, later rows, cosines."""

ENCODED_AT_A_TIME = 512
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
            squares[rows] = squared_lengths(vectors[rows])
            engine.encode(vectors[rows], squares[rows], encoded.take(rows))

        team.run(partial(encode, rows) for rows in row_slices(0, len(vectors), ENCODED_AT_A_TIME))
        return cls(vectors, squares, encoded)

    def exact(self, rows: slice = slice(None)) -> tuple[Floats, Doubles]:
        """What exact cosines need of some rows."""
        return self.vectors[rows], self.squares[rows]


def best_of_tile(
    engine: Products,
    sides: tuple[Side, Side],
    rows: slice,
    others: tuple[Rows, Encoded],
    threshold: float,
) -> BestRows:
    """Per left row of ``rows`` its best right row at or above ``threshold`` among ``others``.

    These are numbers of right rows and their encoding.
    """
    from decomposerl.kernels.cosine_loops import best_of_hits

    (left, right), (numbers, encoded) = sides, others
    hits = engine.near(left.encoded.take(rows), encoded, threshold)
    best: BestRows = best_of_hits(hits, left.exact(rows), right.exact(), numbers, threshold)
    return best


def keep_first(
    side: Side, threshold: float, engine: Products, team: Team, given: Matches | None = None
) -> Matches:
    """The keep-first greedy: each block against the rows kept before it, then within itself.

    A row that ``given`` has a match for is not kept; the match stays unless a nearer row is kept.
    """
    matches = Matches.none(len(side.vectors), f"cosine_{engine.name}")
    if given is not None:
        matches.matched[:], matches.similarity[:] = given.matched, given.similarity
    search = _KeepFirst(side, threshold, engine, matches)
    # Which rows of a block stay depends on each other, so one worker decides. Meanwhile the others
    # compare the next block with the rows that are kept already.
    compared, early = 0, list[BestRows]()
    blocks = [*row_slices(0, len(side.vectors), engine.block)]
    for block, following in zip_longest(blocks, blocks[1:], fillvalue=slice(0, 0)):
        for best in early:
            _record(matches, block.start, best)
        late = search.against_kept(block, compared)
        results = team.run([*late, *search.within(block)])
        for best in results[: len(late)]:
            _record(matches, block.start, best)
        compared = search.count
        decide: Callable[[], Any] = partial(search.decide, block, results[len(late) :])
        _, *early = team.run([decide, *search.against_kept(following, 0)])
    return matches


class _KeepFirst:
    """The state of a keep-first search: the rows kept so far, in order, and the matches."""

    def __init__(self, side: Side, threshold: float, engine: Products, matches: Matches) -> None:
        self.side, self.threshold, self.engine, self.matches = side, threshold, engine, matches
        self.kept, self.count = np.empty(len(side.vectors), np.int64), 0
        # A device has the kept rows side by side; elsewhere a copy of all would double the memory.
        self.held = engine.room(side.vectors) if engine.on_device else None

    def against_kept(self, block: slice, first: int) -> list[Callable[[], Any]]:
        """Tasks that compare a block with the rows kept so far, from the ``first`` of them on."""
        return [
            partial(self._best_kept, block, tile)
            for tile in row_slices(first, self.count, self.engine.tile)
            if block.stop
        ]

    def within(self, block: slice) -> list[Callable[[], Hits]]:
        """Tasks that find pairs in a block whose earlier row has no match so far."""
        # Not those of other rows: they remove nothing, and copies would have a square of pairs.
        rows = block.start + np.flatnonzero(self.matches.matched[block] < 0)
        size = -(-(block.stop - block.start) // self.engine.parts)
        return [
            partial(self._hits_within, block, rows[part]) for part in row_slices(0, len(rows), size)
        ]

    def decide(self, block: slice, hits: list[Hits]) -> None:
        """Keep the rows of a block that are near no kept row, and match the others."""
        from decomposerl.kernels.cosine_loops import keep_in_block

        matched, similarity = self.matches.matched[block], self.matches.similarity[block]
        exact = self.side.exact(block)
        for part in hits:
            keep_in_block(part, exact, self.threshold, matched, similarity, block.start)
        fresh = block.start + np.flatnonzero(matched < 0)
        added = slice(self.count, self.count + len(fresh))
        self.kept[added] = fresh
        if self.held is not None:
            new, held = self.side.encoded.take(fresh), self.held.take(added)
            held.codes[:], held.scales[:], held.errors[:] = new.codes, new.scales, new.errors
        self.count = added.stop

    def _best_kept(self, block: slice, tile: slice) -> BestRows:
        rows, side = self.kept[tile], self.side
        encoded = side.encoded.take(rows) if self.held is None else self.held.take(tile)
        return best_of_tile(self.engine, (side, side), block, (rows, encoded), self.threshold)

    def _hits_within(self, block: slice, rows: Rows) -> Hits:
        """Pairs of one of these rows and a row of its block, numbered within the block."""
        others = slice(int(rows[0]), block.stop)
        coded = self.side.encoded
        left, right, most = self.engine.near(coded.take(rows), coded.take(others), self.threshold)
        numbers = (rows - block.start).astype(np.int32)
        return numbers[left], right + np.int32(others.start - block.start), most


def best_across(
    left: Side, others: Floats, threshold: float, engine: Products, team: Team
) -> Matches:
    """Per left row its best among ``others``, which are encoded a few tiles at a time."""
    matches = Matches.none(len(left.vectors), f"cosine_{engine.name}")
    blocks = list(row_slices(0, len(left.vectors), engine.block))
    for chunk in row_slices(0, len(others), engine.tile * TILES_AT_A_TIME):
        right = Side.of(others[chunk], engine, team)
        distinct = _first_copies(right)
        encoded = right.encoded.take(distinct)
        tiles = [
            (block, (distinct[tile], encoded.take(tile)))
            for tile in row_slices(0, len(distinct), engine.tile)
            for block in blocks
        ]
        results = team.run(
            partial(best_of_tile, engine, (left, right), *tile, threshold) for tile in tiles
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
