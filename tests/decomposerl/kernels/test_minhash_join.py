from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from decomposerl.kernels.matches import Matches
from decomposerl.kernels.minhash_join import (
    generous_bands,
    minhash_duplicates,
    minhash_matches,
)
from decomposerl.kernels.set_join import cross_matches, keep_first_duplicates
from decomposerl.kernels.word_sets import Shingle, word_sets

THRESHOLD = 0.7
Engine = Callable[[Sequence[str], float], Matches]
verified_minhash_duplicates = partial(keep_first_duplicates, engine="minhash_verified")
verified_minhash_matches = partial(cross_matches, engine="minhash_verified")


@pytest.fixture(scope="module")
def claims() -> list[str]:
    """600 claims of 12 words; every third copies an earlier one with 1 to 4 words changed."""
    random = np.random.default_rng(11)
    rows: list[list[str]] = []
    for index in range(600):
        if index % 3 == 2:
            row = list(rows[random.integers(index)])
            for position in random.choice(12, random.integers(1, 5), replace=False):
                row[position] = f"w{random.integers(3_000)}"
        else:
            row = [f"w{number}" for number in random.integers(3_000, size=12)]
        rows.append(row)
    return [" ".join(row) for row in rows]


def test_verified_minhash_invents_nothing_and_misses_little(claims: list[str]):
    """Every match reaches the threshold; at least 97 % of exact removals are found."""
    exact = keep_first_duplicates(claims, THRESHOLD)
    found = verified_minhash_duplicates(claims, THRESHOLD)
    sets = word_sets(claims)
    for row in np.flatnonzero(found.is_matched):
        a, b = sets[row], sets[found.matched[row]]
        assert len(a & b) / len(a | b) == found.similarity[row] >= THRESHOLD
    recall = (found.is_matched & exact.is_matched).sum() / exact.is_matched.sum()
    assert recall >= 0.97


def test_plain_minhash_finds_most_of_the_exact_removals(claims: list[str]):
    """The paper's engine: most removals, matched to rows that it kept itself."""
    exact = keep_first_duplicates(claims, THRESHOLD)
    found = minhash_duplicates(claims, THRESHOLD)
    assert (found.is_matched & exact.is_matched).sum() / exact.is_matched.sum() >= 0.6
    assert not found.is_matched[found.matched[found.is_matched]].any()


@pytest.mark.parametrize("engine", [minhash_duplicates, verified_minhash_duplicates])
@pytest.mark.parametrize("rows", [[], ["one"], ["same words here"] * 9, ["...", "", "!"]])
def test_edge_sizes_are_answered(engine: Engine, rows: list[str]):
    """No row, one row, all equal, no words: the first stays, its copies match it."""
    found = engine(rows, THRESHOLD)
    assert [-1, *[0] * (len(rows) - 1)][: len(rows)] == found.matched.tolist()
    assert [0.0, *[1.0] * (len(rows) - 1)][: len(rows)] == found.similarity.tolist()


@pytest.mark.parametrize("engine", [minhash_duplicates, verified_minhash_duplicates])
def test_the_answer_is_repeatable(engine: Engine, claims: list[str]):
    """Two runs give the same matches: the permutations have a fixed seed."""
    first, second = engine(claims[:200], THRESHOLD), engine(claims[:200], THRESHOLD)
    assert first.matched.tolist() == second.matched.tolist()


@pytest.mark.parametrize(("num_perm", "expected"), [(128, (32, 4)), (16, (8, 2))])
def test_the_bands_find_pairs_at_the_threshold(num_perm: int, expected: tuple[int, int]):
    """A pair at Jaccard 0.7 is a candidate with probability of at least 0.99."""
    bands, rows = generous_bands(THRESHOLD, num_perm)
    assert expected == (bands, rows)
    assert 1 - (1 - THRESHOLD**rows) ** bands >= 0.99


def test_a_crowded_bucket_costs_no_more_than_its_first_rows():
    """3,000 claims on one template: nobody is invented, copies of early rows still leave."""
    rows = [f"one two three four five six seven w{i} v{i}" for i in range(3_000)]
    rows += rows[:40]
    found = verified_minhash_duplicates(rows, 0.9)
    assert not found.is_matched[:3_000].any()
    assert list(range(40)) == found.matched[3_000:].tolist()


@pytest.mark.parametrize("shingle", ["word", "char_5"])
def test_threads_and_other_rows_change_no_match(claims: list[str], shingle: Shingle):
    """The permutations are fixed and hash an element by its bytes alone."""
    rows = claims * 30
    one = verified_minhash_duplicates(rows, THRESHOLD, shingle=shingle, threads=1)
    many = verified_minhash_duplicates(rows, THRESHOLD, shingle=shingle, threads=3)
    assert np.array_equal(one.matched, many.matched)
    few = verified_minhash_duplicates(claims, THRESHOLD, shingle=shingle)
    assert np.array_equal(few.is_matched, one.is_matched[: len(claims)])


def test_engines_name_themselves_with_their_bands(claims: list[str]):
    """Rates differ between tools because bands do: they are part of the name."""
    assert minhash_duplicates(claims, 0.7).engine == ("datasketch MinHashLSH (word, 14 bands of 9)")
    assert verified_minhash_duplicates(claims, 0.7).engine == (
        "verified MinHash (word, 32 bands of 4)"
    )


def test_matches_across_are_exact_where_found(claims: list[str]):
    """Verified: nothing invented, at least 97 % of the leaks found, the nearest one named."""
    left, right = claims[:400], claims[300:]
    exact = cross_matches(left, right, THRESHOLD)
    found = verified_minhash_matches(left, right, THRESHOLD)
    assert found.engine == verified_minhash_duplicates(claims, THRESHOLD).engine
    ends = word_sets(left), word_sets(right)
    for row in np.flatnonzero(found.is_matched):
        a, b = ends[0][row], ends[1][found.matched[row]]
        assert len(a & b) / len(a | b) == found.similarity[row] >= THRESHOLD
    assert (found.similarity <= exact.similarity).all()
    assert (found.is_matched & exact.is_matched).sum() / exact.is_matched.sum() >= 0.97


def test_plain_matches_across_find_most_leaks(claims: list[str]):
    """The paper's engine names a test claim for most leaks, and copies match at 1."""
    left, right = claims[:400], claims[300:]
    exact = cross_matches(left, right, THRESHOLD)
    found = minhash_matches(left, right, THRESHOLD)
    assert (found.is_matched & exact.is_matched).sum() / exact.is_matched.sum() >= 0.6
    assert (found.similarity[300:] == 1).all()


@pytest.mark.parametrize("engine", [minhash_matches, verified_minhash_matches])
@pytest.mark.parametrize("left", [[], ["one two"], ["one two", "", "two one"]])
@pytest.mark.parametrize("right", [[], ["two one"], ["x", "one two", "two one"]])
def test_edge_sizes_across_are_answered(
    engine: Callable[..., Matches], left: list[str], right: list[str]
):
    """Nothing on one side matches nothing; ties go to the first."""
    first = {"one two": 0 if right[:1] == ["two one"] else 1}
    first["two one"] = first["one two"]
    expected = [first.get(text, -1) if right else -1 for text in left]
    assert expected == engine(left, right, THRESHOLD).matched.tolist()
