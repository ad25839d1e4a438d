import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError
from decomposerl.kernels import set_join
from decomposerl.kernels.matches import Matches, exact_threshold
from decomposerl.kernels.set_join import (
    count_candidates,
    count_candidates_across,
    count_candidates_of_kept,
    cross_matches,
    jaccard_pairs,
    keep_first_duplicates,
)
from decomposerl.kernels.threads import Team
from decomposerl.kernels.word_sets import pack_sets, shingle_sets, word_sets
from strategies import LAW, any_text

LETTERS = "abcdefgh"
texts = st.lists(
    st.lists(st.sampled_from(LETTERS), max_size=6).map(" ".join) | any_text, max_size=20
)
thresholds = st.sampled_from((0.1, 0.3, 1 / 3, 0.5, 2 / 3, 0.7, 0.8, 1.0))


def jaccard(a: frozenset[str], b: frozenset[str]) -> Fraction:
    return Fraction(len(a & b), len(a | b))


def best(
    text: frozenset[str], others: Sequence[tuple[int, frozenset[str]]], threshold: float
) -> tuple[int, float]:
    """Highest Jaccard at or above the threshold, lowest index first; (-1, 0) if none."""
    near = [(-jaccard(text, other), i) for i, other in others]
    near = [pair for pair in near if -pair[0] >= exact_threshold(threshold)]
    return (min(near)[1], float(-min(near)[0])) if near else (-1, 0.0)


def brute_force(rows: Sequence[str], threshold: float) -> Matches:
    return brute_force_over(word_sets(rows), threshold)


def brute_force_over(sets: Sequence[frozenset[str]], threshold: float) -> Matches:
    kept: list[tuple[int, frozenset[str]]] = []
    found = Matches.none(len(sets))
    for row, text in enumerate(sets):
        found.matched[row], found.similarity[row] = best(text, kept, threshold)
        if found.matched[row] < 0:
            kept.append((row, text))
    return found


def same(expected: Matches, actual: Matches) -> bool:
    return np.array_equal(expected.matched, actual.matched) and np.array_equal(
        expected.similarity, actual.similarity
    )


@LAW
@given(texts, thresholds)
def test_the_join_equals_brute_force(rows: list[str], threshold: float):
    """Keep first, nearest kept row, ties to the lowest: the definition, row by row."""
    assert same(brute_force(rows, threshold), keep_first_duplicates(rows, threshold))


@LAW
@given(texts, texts, thresholds)
def test_the_cross_join_equals_brute_force(left: list[str], right: list[str], threshold: float):
    """Each left text gets its nearest right text at or above the threshold."""
    sides = list(enumerate(word_sets(right)))
    expected = [best(text, sides, threshold) for text in word_sets(left)]
    found = cross_matches(left, right, threshold)
    assert expected == list(zip(found.matched.tolist(), found.similarity.tolist(), strict=True))


def test_the_join_equals_brute_force_on_a_larger_templated_set():
    """400 long claims that share templates: many candidates, ties and chains of copies."""
    random = np.random.default_rng(5)
    pool = np.array([f"w{i}" for i in range(40)])
    rows = [" ".join(random.choice(pool[:14], 9)) for _ in range(400)]
    assert same(brute_force(rows, 0.7), keep_first_duplicates(rows, 0.7))


@LAW
@given(texts, thresholds)
def test_survivors_have_no_duplicates_among_them(rows: list[str], threshold: float):
    """Running the join on what it kept removes nothing."""
    kept = keep_first_duplicates(rows, threshold).matched < 0
    survivors = [row for row, stays in zip(rows, kept, strict=True) if stays]
    assert not keep_first_duplicates(survivors, threshold).is_matched.any()


def test_a_removed_row_removes_nobody():
    """The third text is near the second alone, and stays once the second has gone."""
    rows = ["a b c d", "a b c d e f", "c d e f b g"]
    assert [-1, 0, -1] == keep_first_duplicates(rows, 0.6).matched.tolist()


def test_a_pair_exactly_at_the_threshold_is_a_duplicate():
    """7 of 10 words in common is 0.7, whatever binary fractions make of it."""
    rows = ["a b c d e f g h", "a b c d e f g x y"]
    assert jaccard(*word_sets(rows)) == Fraction(7, 10)
    assert [-1, 0] == keep_first_duplicates(rows, 0.7).matched.tolist()
    assert [-1, -1] == keep_first_duplicates(rows, 0.700001).matched.tolist()


def test_texts_without_words_duplicate_each_other_alone():
    """Two empty sets have Jaccard 1; an empty and a full one have 0."""
    assert [-1, -1, 0] == keep_first_duplicates(["...", "word", ""], 0.7).matched.tolist()
    assert [1, -1] == cross_matches(["!", "x"], ["word", "?"], 0.1).matched.tolist()


@pytest.mark.parametrize("rows", [[], ["one"], ["same words"] * 65, [f"w{i}" for i in range(65)]])
def test_edge_sizes_are_answered(rows: list[str]):
    """No row, one row, all equal, none equal."""
    expected = 0 if len(set(rows)) == len(rows) else len(rows) - 1
    found = keep_first_duplicates(rows, 0.7)
    assert expected == int(found.is_matched.sum())
    assert len(rows) == len(found.matched) == len(found.similarity)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, float("nan")])
def test_a_threshold_outside_its_range_is_refused(threshold: float):
    """Zero would make every pair a duplicate; above one, none."""
    with pytest.raises(ValueError, match="not in"):
        keep_first_duplicates(["a"], threshold)


def test_thresholds_are_read_as_written():
    """0.7 is seven tenths and 1/3 is a third, not the nearest binary fraction."""
    assert Fraction(7, 10) == exact_threshold(0.7)
    assert Fraction(1, 3) == exact_threshold(1 / 3)


def test_the_answer_does_not_depend_on_the_hash_seed():
    """String sets iterate in another order in every process; the matches stay."""
    code = (
        "from decomposerl.kernels.set_join import keep_first_duplicates as f;"
        "print(f(['a b c', 'c b d', 'd c b', 'a c b d'] * 3, 0.5).matched.tolist())"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


def test_importing_the_kernels_and_the_funnel_loads_no_engine():
    """numba, scikit-learn and datasketch are loaded when a kernel runs, not before."""
    code = (
        "import sys, decomposerl.funnel.catalogue, decomposerl.kernels.selectors;"
        "print({'numba', 'sklearn', 'datasketch', 'torch', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@LAW
@given(texts, st.sampled_from((0.3, 0.5, 0.7, 1.0)))
def test_pairs_are_all_pairs(rows: list[str], floor: float):
    """Every pair at or above the floor, once, by later row; none below."""
    sets = word_sets(rows)
    expected = [
        (i, j, float(jaccard(sets[i], sets[j])))
        for j in range(len(rows))
        for i in range(j)
        if jaccard(sets[i], sets[j]) >= exact_threshold(floor)
    ]
    found = jaccard_pairs(rows, floor)
    assert expected == list(
        zip(found.earlier.tolist(), found.later.tolist(), found.similarity.tolist(), strict=True)
    )


def test_more_pairs_than_first_guessed_are_all_found_and_too_many_refused():
    """30 equal texts make 435 pairs, more than the room at first; a limit is reported."""
    rows = ["the same words"] * 30
    assert len(jaccard_pairs(rows, 0.7).earlier) == 30 * 29 // 2
    with pytest.raises(ConfigError, match="435 pairs of claims"):
        jaccard_pairs(rows, 0.7, most=434)


@LAW
@given(texts, thresholds)
def test_shingles_join_like_words(rows: list[str], threshold: float):
    """Over runs of five characters the join keeps its definition."""
    sets = shingle_sets(rows)
    found = keep_first_duplicates(rows, threshold, shingle="char_5")
    assert same(brute_force_over(sets, threshold), found)


def test_above_the_candidate_budget_the_candidates_come_from_minhash():
    """The estimate bounds the candidates; the answer says who ran, and is exact here."""
    rows = [f"shared words of a template w{i // 2} v{i // 2}" for i in range(200)]
    estimate = count_candidates_of_kept(pack_sets(rows), 0.7)
    exact = keep_first_duplicates(rows, 0.7, candidate_budget=estimate)
    fallen = keep_first_duplicates(rows, 0.7, candidate_budget=estimate - 1)
    assert exact.engine == "exact join (word)"
    assert fallen.engine.startswith("verified MinHash (word, ")
    assert same(exact, fallen)
    assert same(exact, keep_first_duplicates(rows, 0.7))


@LAW
@given(texts, thresholds)
def test_the_estimate_with_copies_bounds_what_the_greedy_meets(rows: list[str], threshold: float):
    """Pairs of a row and an earlier kept row: never more than estimated, nor than without."""
    sets, kept = word_sets(rows), keep_first_duplicates(rows, threshold).matched < 0
    met = sum(
        bool(kept[j]) and jaccard(sets[i], sets[j]) >= exact_threshold(threshold)
        for i in range(len(rows))
        for j in range(i)
    )
    ready = pack_sets(rows)
    assert met <= count_candidates_of_kept(ready, threshold) <= count_candidates(ready, threshold)


def test_copies_of_one_text_stay_with_the_exact_join():
    """They cost one comparison each, however many pairs they make."""
    rows = ["the same few words"] * 3_000
    assert count_candidates(pack_sets(rows), 0.7) > 4_000_000
    found = keep_first_duplicates(rows, 0.7, candidate_budget=20_000)
    assert found.engine == "exact join (word)"
    assert found.is_matched.sum() == 2_999


@LAW
@given(texts, texts, thresholds)
def test_the_estimate_across_bounds_the_near_pairs(
    left: list[str], right: list[str], threshold: float
):
    """No two sides have more near pairs than estimated candidates."""
    ends = word_sets(left), word_sets(right)
    near = sum(jaccard(a, b) >= exact_threshold(threshold) for a in ends[0] for b in ends[1])
    sets = pack_sets([*right, *left])
    assert near <= count_candidates_across(sets, threshold, len(right))
    found = cross_matches(left, right, threshold, candidate_budget=near)
    assert same(cross_matches(left, right, threshold), found) or "MinHash" in str(found.engine)


@LAW
@given(texts, thresholds)
def test_the_estimate_bounds_what_the_join_meets(rows: list[str], threshold: float):
    """No set of texts has more duplicate pairs than estimated candidates."""
    pairs = jaccard_pairs(rows, threshold)
    assert count_candidates(pack_sets(rows), threshold) >= len(pairs.earlier)


@LAW
@given(texts, thresholds, st.integers(1, 7))
def test_blocks_cannot_be_told_apart(rows: list[str], threshold: float, rows_a_block: int):
    """What a block is matched with before it and what in itself: together the definition."""
    ready = set_join._prepared(pack_sets(rows), threshold)
    with Team(2) as team:
        found = set_join._keep_first(ready, "", team, rows_a_block)
    assert same(brute_force(rows, threshold), found)


def test_threads_change_nothing():
    """20,000 rows in parts and blocks: the same matches from one thread and from four."""
    random = np.random.default_rng(8)
    rows = [" ".join(f"w{n}" for n in random.integers(0, 60, 6)) for _ in range(20_000)]
    assert same(
        keep_first_duplicates(rows, 0.7, threads=1), keep_first_duplicates(rows, 0.7, threads=4)
    )
