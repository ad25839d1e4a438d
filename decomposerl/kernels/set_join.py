"""Set-similarity joins: duplicates and matches by Jaccard of words or shingles.

The join is exact. A prefix filter chooses candidates (two sets that reach the threshold share
one of their rarest elements), bounds on what they can share discard most of them, and an
integer comparison decides. Memory grows with the number of elements, not of pairs. Above
``candidate_budget``, MinHash proposes the candidates; ``Matches.engine`` names what ran.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import ConfigError
from decomposerl.kernels.matches import Matches, Pairs, exact_threshold, min_shared
from decomposerl.kernels.minhash_join import (
    minhash_duplicates,
    minhash_matches,
    verified_duplicates,
    verified_matches,
)
from decomposerl.kernels.threads import Team
from decomposerl.kernels.word_sets import PackedSets, Shingle, pack_sets

if TYPE_CHECKING:
    from decomposerl.kernels.set_join_loops import Index, Sets

LexicalEngine = Literal["auto", "exact", "minhash_verified", "minhash"]
Counts = NDArray[np.int64]
"""Per row the matched row (-1: none), the shared and the united number of elements: (3, n)."""

MOST_PAIRS = 50_000_000
ROWS_A_BLOCK, PARTS_OF_A_BLOCK = 8_192, 8
_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def keep_first_duplicates(
    texts: Sequence[str],
    threshold: float,
    *,
    engine: LexicalEngine = "auto",
    shingle: Shingle = "word",
    candidate_budget: int | None = None,
    num_perm: int = 128,
    threads: int = 0,
) -> Matches:
    """Greedy duplicates in input order: a row is removed iff an earlier KEPT row is near.

    Near means Jaccard of the sets >= ``threshold`` (0..1]; a removed row removes no other. A
    removed row is matched to the kept row with the highest Jaccard, ties to the lowest
    index (paper, "Deduplication and Decontamination").

    ``auto`` is the exact join up to ``candidate_budget`` estimated candidate pairs (None: no
    limit). Above, it is ``minhash_verified``: candidates from MinHash with ``num_perm``
    permutations, each decided exactly, which may miss some pairs. ``minhash`` is plain LSH.
    """
    exact_threshold(threshold)
    if engine == "minhash":
        return minhash_duplicates(texts, threshold, num_perm, shingle=shingle)
    sets = pack_sets(texts, shingle, threads)
    over_budget = engine == "auto" and _over_budget(sets, threshold, candidate_budget)
    if over_budget or engine == "minhash_verified":
        return verified_duplicates(sets, threshold, num_perm, shingle, threads)
    return matches_of(keep_first_counts(sets, threshold, no_matches(len(texts)), threads), shingle)


def keep_first_counts(sets: PackedSets, threshold: float, given: Counts, threads: int) -> Counts:
    """The exact ``keep_first_duplicates`` of rows of which some match an earlier row outside.

    These matches are ``given``, and stay unless a kept row of ``sets`` is strictly nearer.
    """
    # Row 0, the lowest number: of equally near rows the given one stays.
    best = np.concatenate((np.minimum(given[:1], 0), given[1:]))
    with Team(threads if len(sets.sizes) > ROWS_A_BLOCK else 1) as team:
        return _keep_first(_prepared(sets, threshold), best, team)


def _keep_first(
    ready: "_Ready", best: Counts, team: Team, rows_a_block: int = ROWS_A_BLOCK
) -> Counts:
    """Block by block: all rows of a block against the index in parallel, then in row order."""
    from decomposerl.kernels.set_join_loops import match_rows

    rows, none = len(ready.sets[2]), np.zeros_like(ready.index[1])
    work = [(_unseen(rows), ready.least_of) for _ in range(PARTS_OF_A_BLOCK + 1)]
    for start in range(0, rows, rows_a_block):
        stop = min(start + rows_a_block, rows)
        cuts = np.linspace(start, stop, PARTS_OF_A_BLOCK + 1).astype(int).tolist()
        team.run(
            partial(match_rows, ready.sets, a, ready.index, none, own, (*best[:, a:b],), False)
            for (a, b), own in zip(pairwise(cuts), work, strict=False)
        )
        # Rows of one block may duplicate each other: one thread goes through them again and looks
        # at what joined the index since. So the result is that of a single pass.
        before, block = ready.index[1].copy(), (*best[:, start:stop],)
        match_rows(ready.sets, start, ready.index, before, work[-1], block, True)
    return best


def cross_matches(
    left: Sequence[str],
    right: Sequence[str],
    threshold: float,
    *,
    engine: LexicalEngine = "auto",
    shingle: Shingle = "word",
    candidate_budget: int | None = None,
    num_perm: int = 128,
    threads: int = 0,
) -> Matches:
    """Per left text the right text with the highest Jaccard >= ``threshold``.

    ``matched`` indexes ``right``; ties go to the lowest index. Engines are those of
    ``keep_first_duplicates``.
    """
    exact_threshold(threshold)
    if engine == "minhash":
        return minhash_matches(left, right, threshold, num_perm, shingle=shingle)
    if engine != "minhash_verified" and not (left and right):
        return Matches.none(len(left), engine_name(shingle))
    sets, budget = pack_sets([*right, *left], shingle, threads), candidate_budget
    over_budget = (
        engine == "auto"
        and budget is not None
        and (count_candidates_across(sets, threshold, len(right)) > budget)
    )
    if over_budget or engine == "minhash_verified":
        return verified_matches(sets, len(right), threshold, num_perm, shingle, threads)
    return matches_of(cross_counts(sets, len(right), threshold, threads), shingle)


def cross_counts(sets: PackedSets, rights: int, threshold: float, threads: int) -> Counts:
    """The exact ``cross_matches`` of the rows from ``rights`` on with the rows before."""
    with Team(threads if len(sets.sizes) - rights > ROWS_A_BLOCK else 1) as team:
        return _best_across(_prepared(sets, threshold, rights), rights, team)


def _best_across(ready: "_Ready", rights: int, team: Team) -> Counts:
    from decomposerl.kernels.set_join_loops import match_rows

    best = no_matches(len(ready.sets[2]) - rights)
    none = np.zeros_like(ready.index[1])
    every, work = np.full_like(none, rights), (_unseen(rights), ready.least_of)
    # With every posting skipped no right row finds a match, so all of them join the index.
    match_rows(ready.sets, 0, ready.index, every, work, (*no_matches(rights),), True)

    def match(first: int) -> None:
        rows = best[:, first : first + ROWS_A_BLOCK]
        work = _unseen(rights), ready.least_of
        match_rows(ready.sets, rights + first, ready.index, none, work, (*rows,), False)

    team.run(partial(match, first) for first in range(0, best.shape[1], ROWS_A_BLOCK))
    return best


def jaccard_pairs(
    texts: Sequence[str],
    floor: float,
    *,
    shingle: Shingle = "word",
    threads: int = 0,
    most: int = MOST_PAIRS,
) -> Pairs:
    """Every pair of texts with Jaccard >= ``floor`` (0..1], none left out.

    Raises:
        ConfigError: there are more than ``most`` pairs.
    """
    exact_threshold(floor)
    sets = pack_sets(texts, shingle, threads)
    count, columns = _collected(sets, floor, 4 * len(texts))
    if count > most:
        raise ConfigError(
            f"{count:,} pairs of claims have Jaccard {floor} or more, and {most:,} can be "
            "kept; raise pairs_floor"
        )
    if count > columns.shape[1]:  # the room was a guess; now the number is known
        count, columns = _collected(sets, floor, count)
    earlier, later, shared, united = columns[:, :count].astype(np.int64)
    order = np.lexsort((earlier, later))
    return Pairs(earlier[order], later[order], shared[order] / united[order], engine_name(shingle))


def _collected(sets: PackedSets, floor: float, room: int) -> tuple[int, NDArray[np.int32]]:
    """The number of pairs, and as many of them as there is room for, shape (4, room)."""
    from decomposerl.kernels.set_join_loops import collect

    ready, columns = _prepared(sets, floor), np.empty((4, room), np.int32)
    seen = _unseen(len(sets.sizes))
    return collect(ready.sets, ready.index, seen, ready.least_of, (*columns,)), columns


def count_candidates(sets: PackedSets, threshold: float) -> int:
    """Upper bound of the candidate pairs of the exact join: per element, pairs of postings.

    A pair that shares several rare elements is counted once for each, and a removed row is
    counted though it is never indexed.
    """
    postings = np.diff(_postings(sets, _prefixes(sets.sizes, threshold)))
    return int((postings * (postings - 1) // 2).sum())


def count_candidates_of_kept(sets: PackedSets, threshold: float) -> int:
    """``count_candidates`` if only the first of equal rows is indexed, as the join does."""
    prefixes = _prefixes(sets.sizes, threshold)
    every = np.diff(_postings(sets, prefixes))
    distinct = np.diff(_postings(sets, np.where(_first_of_equals(sets), prefixes, 0)))
    copies = (every - distinct) * distinct
    return int((distinct * (distinct - 1) // 2 + copies).sum())


def _over_budget(sets: PackedSets, threshold: float, budget: int | None) -> bool:
    # Finding copies costs a pass over all rows, so the quicker estimate is tried first.
    if budget is None or count_candidates(sets, threshold) <= budget:
        return False
    return count_candidates_of_kept(sets, threshold) > budget


def count_candidates_across(sets: PackedSets, threshold: float, indexed: int) -> int:
    """Upper bound of the candidate pairs of the rows from ``indexed`` on with those before."""
    prefixes = _prefixes(sets.sizes, threshold)
    before = np.arange(len(prefixes)) < indexed
    left, right = (np.diff(_postings(sets, np.where(s, prefixes, 0))) for s in (~before, before))
    return int((left * right).sum())


def _first_of_equals(sets: PackedSets) -> NDArray[np.bool_]:
    """Whether a row is the first with its elements; each row has one or more."""
    # Compared by a 64-bit sum that does not depend on order. A collision would only make the
    # estimate too low by one row; no decision depends on it.
    mixed = (sets.tokens.astype(np.uint64) + _ODD) * _ODD
    mixed ^= mixed >> _HALF
    first = np.zeros(len(sets.sizes), np.bool_)
    first[np.unique(np.add.reduceat(mixed * _ODD, sets.starts[:-1]), return_index=True)[1]] = True
    return first


def engine_name(shingle: Shingle) -> str:
    """What ``Matches.engine`` says of the exact join."""
    return f"exact join ({shingle})"


@dataclass(frozen=True, slots=True)
class _Ready:
    """Sets with prefixes and signatures, an index with room for them, and ``min_shared``."""

    sets: "Sets"
    index: "Index"
    least_of: NDArray[np.int32]


def _prepared(sets: PackedSets, threshold: float, indexed: int | None = None) -> _Ready:
    """Ready to be joined; the index has room for the first ``indexed`` rows (None: all)."""
    from decomposerl.kernels.set_join_loops import sign

    prefixes = _prefixes(sets.sizes, threshold)
    signatures = np.zeros(len(sets.sizes), np.uint64)
    sign(sets.tokens, sets.starts, signatures)
    joined = (sets.tokens, sets.starts, prefixes, signatures)
    firsts = _postings(sets, prefixes[:indexed])
    owners, sizes, rests = (np.empty(int(firsts[-1]), np.int32) for _ in range(3))
    bits, lengths = np.empty(len(owners), np.uint64), np.zeros(len(firsts), np.int32)
    index = (firsts, lengths, owners, sizes, rests, bits)
    return _Ready(joined, index, min_shared(int(sets.sizes.max(initial=0)), threshold))


def matches_of(best: Counts, shingle: Shingle) -> Matches:
    """The matches of the exact join, with their Jaccard."""
    matched, shared, united = best
    return Matches(matched, shared / united, engine_name(shingle))


def no_matches(rows: int) -> Counts:
    """No row has a match: no shared and one united element."""
    # One, so that a similarity without a match is 0 / 1 and no division by zero.
    return np.repeat(np.array([[-1], [0], [1]]), rows, axis=1)


def _unseen(rows: int) -> NDArray[np.int32]:
    """Scratch space of a loop: which row was last compared with each row."""
    return np.full(rows, -1, np.int32)


def _prefixes(sizes: NDArray[np.int64], threshold: float) -> NDArray[np.int32]:
    """Length of each row's prefix, its rarest elements, shape (n,)."""
    # A near row shares at least ``needed`` elements, so at most ``size - needed`` are missing:
    # one of the first ``size - needed + 1`` must be among the shared ones.
    exact = exact_threshold(threshold)
    needed = (sizes * exact.numerator + exact.denominator - 1) // exact.denominator
    return (sizes - needed + 1).astype(np.int32)


def _postings(sets: PackedSets, prefixes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each token's postings start if all prefixes are indexed, shape (tokens + 1,)."""
    from decomposerl.kernels.set_join_loops import count_postings

    counts = np.zeros(len(sets.hashes), np.int64)
    count_postings(sets.tokens, sets.starts, prefixes, counts)
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
