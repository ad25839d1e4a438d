"""The set join: its definition, its split into tasks, its fallback, and the sets it reads."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError
from decomposerl.kernels import set_join
from decomposerl.kernels.matches import Matches, exact_threshold
from decomposerl.kernels.minhash_join import generous_bands, minhash_duplicates, minhash_matches
from decomposerl.kernels.set_join import (
    count_candidates,
    count_candidates_across,
    count_candidates_of_kept,
    cross_matches,
    jaccard_pairs,
    keep_first_duplicates,
)
from decomposerl.kernels.set_parts import TextPart, cross_matches_in_parts, keep_first_in_parts
from decomposerl.kernels.threads import Team
from decomposerl.kernels.word_sets import Shingle, pack_sets, shingle_sets, word_sets
from decomposerl.ports import Tasks
from fakes import MemoryArrays, ShuffledMapper
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


def brute_force(sets: Sequence[frozenset[str]], threshold: float) -> Matches:
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
@given(texts, thresholds, st.integers(1, 7))
def test_the_join_equals_brute_force(rows: list[str], threshold: float, rows_a_block: int):
    """Nearest kept row, ties to the lowest: in one block and several, of words and of shingles."""
    expected = brute_force(word_sets(rows), threshold)
    assert same(expected, keep_first_duplicates(rows, threshold))
    ready = set_join._prepared(pack_sets(rows), threshold)
    with Team(2) as team:
        blocks = set_join._keep_first(ready, set_join.no_matches(len(rows)), team, rows_a_block)
        assert same(expected, set_join.matches_of(blocks, "word"))
    shingled = keep_first_duplicates(rows, threshold, shingle="char_5")
    assert same(brute_force(shingle_sets(rows), threshold), shingled)


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
    assert same(brute_force(word_sets(rows), 0.7), keep_first_duplicates(rows, 0.7))


def test_texts_without_words_and_all_equal_or_distinct_rows_are_answered():
    """Two empty sets have Jaccard 1; an empty and a full one have 0."""
    assert [-1, -1, 0] == keep_first_duplicates(["...", "word", ""], 0.7).matched.tolist()
    assert [1, -1] == cross_matches(["!", "x"], ["word", "?"], 0.1).matched.tolist()
    assert 64 == keep_first_duplicates(["same words"] * 65, 0.7).is_matched.sum()
    assert 0 == keep_first_duplicates([f"w{row}" for row in range(65)], 0.7).is_matched.sum()


def test_thresholds_are_read_as_written():
    """0.7 is seven tenths and 7 of 10 words reach it; zero would make every pair a duplicate."""
    for threshold in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="not in"):
            keep_first_duplicates(["a"], threshold)
    assert Fraction(7, 10) == exact_threshold(0.7)
    assert Fraction(1, 3) == exact_threshold(1 / 3)
    rows = ["a b c d e f g h", "a b c d e f g x y"]
    assert jaccard(*word_sets(rows)) == Fraction(7, 10)
    assert [-1, 0] == keep_first_duplicates(rows, 0.7).matched.tolist()
    assert [-1, -1] == keep_first_duplicates(rows, 0.700001).matched.tolist()


def test_another_process_loads_no_engine_before_a_kernel_runs_and_answers_alike():
    """String sets iterate in another order in every process; the matches stay."""
    code = (
        "import sys, decomposerl.funnel.catalogue, decomposerl.kernels.selectors\n"
        "from decomposerl.kernels.set_join import keep_first_duplicates as f\n"
        "print({'numba', 'sklearn', 'datasketch', 'torch', 'scipy'} & set(sys.modules))\n"
        "print(f(['a b c', 'c b d', 'd c b', 'a c b d'] * 3, 0.5).matched.tolist())"
    )
    command, seed = [sys.executable, "-c", code], {"PYTHONHASHSEED": "1"}
    done = subprocess.run(command, env=seed, capture_output=True, text=True, check=True)
    here = keep_first_duplicates(["a b c", "c b d", "d c b", "a c b d"] * 3, 0.5).matched.tolist()
    assert ["set()", str(here)] == done.stdout.splitlines()


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
    """Never fewer than the duplicates among rows and kept rows, nor more than without copies."""
    sets, kept = word_sets(rows), keep_first_duplicates(rows, threshold).matched < 0
    met = sum(
        bool(kept[j]) and jaccard(sets[i], sets[j]) >= exact_threshold(threshold)
        for i in range(len(rows))
        for j in range(i)
    )
    ready = pack_sets(rows)
    assert met <= count_candidates_of_kept(ready, threshold) <= count_candidates(ready, threshold)
    assert len(jaccard_pairs(rows, threshold).earlier) <= count_candidates(ready, threshold)


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


def test_threads_change_nothing():
    """5,000 rows in parts and blocks: the same matches from one thread and from four."""
    random = np.random.default_rng(8)
    rows = [" ".join(f"w{n}" for n in random.integers(0, 60, 6)) for _ in range(5_000)]
    one, four = (keep_first_duplicates(rows, 0.7, threads=threads) for threads in (1, 4))
    assert same(one, four)


few, orders = st.integers(1, 12), st.integers(0, 9)
shingles: st.SearchStrategy[Shingle] = st.sampled_from(("word", "char_5"))


def parts_of(rows: Sequence[str], size: int) -> list[TextPart]:
    return [partial(list, rows[start : start + size]) for start in range(0, len(rows), size)]


def tasks_in(order: int) -> Tasks:
    return Tasks(ShuffledMapper(order), MemoryArrays())


def identical(expected: Matches, actual: Matches) -> bool:
    return same(expected, actual) and expected.engine == actual.engine


@LAW
@given(texts, thresholds, shingles, few, orders)
def test_the_split_join_is_the_join_of_one_process(
    rows: list[str], threshold: float, shingle: Shingle, size: int, order: int
):
    """Any parts and orders of the tasks: same matches, same engine."""
    split = keep_first_in_parts(parts_of(rows, size), threshold, tasks_in(order), shingle=shingle)
    assert identical(keep_first_duplicates(rows, threshold, engine="exact", shingle=shingle), split)


@pytest.mark.parametrize("size", [300, 900, 3_000])
def test_templates_chains_and_copies_are_decided_alike_in_parts(size: int):
    """2,000 claims of which most are near others, in one part and in several."""
    random = np.random.default_rng(3)
    words = np.array([f"w{number}" for number in range(60)])
    rows = [" ".join(random.choice(words[:16], 9)) for _ in range(1_000)]
    rows += [" ".join(words[first : first + 20]) for first in range(40)] * 10  # chains of copies
    rows += [" ".join((*words[20:31], f"town {number}")) for number in range(600)]  # one template
    rows = [rows[number] for number in random.permutation(len(rows))]
    split = keep_first_in_parts(parts_of(rows, size), 0.7, tasks_in(1))
    assert identical(keep_first_duplicates(rows, 0.7), split)


@LAW
@given(texts, texts, thresholds, shingles, few, orders)
def test_the_split_cross_join_is_the_join_of_one_process(
    left: list[str], right: list[str], threshold: float, shingle: Shingle, size: int, order: int
):
    """Each left part against all of the right side."""
    tasks = tasks_in(order)
    split = cross_matches_in_parts(parts_of(left, size), right, threshold, tasks, shingle=shingle)
    assert identical(cross_matches(left, right, threshold, engine="exact", shingle=shingle), split)


def test_a_task_gets_two_parts_and_a_removed_row_is_compared_once():
    """Rows that an earlier part removed are no part of a later comparison."""
    batches: list[tuple[int, int]] = []

    class Watched(ShuffledMapper):
        def map(self, function, given):  # noqa: ANN001, ANN202 - the port's
            every = [*given]
            batches.extend((len(left()), len(kept)) for left, _, kept in every)
            return super().map(function, every)

    rows = [f"town {number % 25} lies by the river {number % 25}" for number in range(100)]
    found = keep_first_in_parts(parts_of(rows, 40), 1.0, Tasks(Watched(), MemoryArrays()))
    assert [(40, 25), (20, 25), (20, 0)] == batches
    assert [row % 25 for row in range(25, 100)] == found.matched[25:].tolist()


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


def assert_verified(found: Matches, left: Sequence[str], right: Sequence[str]) -> None:
    ends = word_sets(left), word_sets(right)
    for row in np.flatnonzero(found.is_matched):
        a, b = ends[0][row], ends[1][found.matched[row]]
        assert len(a & b) / len(a | b) == found.similarity[row] >= THRESHOLD


def recall(found: Matches, exact: Matches) -> float:
    return float((found.is_matched & exact.is_matched).sum() / exact.is_matched.sum())


def test_verified_minhash_invents_nothing_and_misses_little(claims: list[str]):
    """Every match reaches the threshold; at least 97 % of exact removals are found."""
    exact = keep_first_duplicates(claims, THRESHOLD)
    found = verified_minhash_duplicates(claims, THRESHOLD)
    assert_verified(found, claims, claims)
    assert recall(found, exact) >= 0.97


def test_plain_minhash_finds_most_of_the_exact_removals(claims: list[str]):
    """The paper's engine: most removals, matched to rows that it kept itself."""
    exact = keep_first_duplicates(claims, THRESHOLD)
    found = minhash_duplicates(claims, THRESHOLD)
    assert recall(found, exact) >= 0.6
    assert not found.is_matched[found.matched[found.is_matched]].any()


@pytest.mark.parametrize("engine", [minhash_duplicates, verified_minhash_duplicates])
def test_edge_sizes_are_answered_by_minhash_and_its_answer_is_repeatable(
    engine: Engine, claims: list[str]
):
    """No row, one row, all equal, no words: copies match the first. A second run gives the same."""
    for rows in ([], ["one"], ["same words here"] * 9, ["...", "", "!"]):
        found = engine(rows, THRESHOLD)
        assert [-1, *[0] * (len(rows) - 1)][: len(rows)] == found.matched.tolist()
        assert [0.0, *[1.0] * (len(rows) - 1)][: len(rows)] == found.similarity.tolist()
    first, second = engine(claims[:200], THRESHOLD), engine(claims[:200], THRESHOLD)
    assert first.matched.tolist() == second.matched.tolist()


def test_the_bands_find_pairs_at_the_threshold_and_are_named(claims: list[str]):
    """A pair at Jaccard 0.7 is a candidate with a probability of 0.99; engines tell their bands."""
    assert ((32, 4), (8, 2)) == (generous_bands(THRESHOLD, 128), generous_bands(THRESHOLD, 16))
    assert min(1 - (1 - THRESHOLD**4) ** 32, 1 - (1 - THRESHOLD**2) ** 8) >= 0.99
    assert minhash_duplicates(claims, 0.7).engine == "datasketch MinHashLSH (word, 14 bands of 9)"
    verified = verified_minhash_duplicates(claims, 0.7).engine
    assert verified == "verified MinHash (word, 32 bands of 4)"


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
    rows = claims * 8
    one = verified_minhash_duplicates(rows, THRESHOLD, shingle=shingle, threads=1)
    many = verified_minhash_duplicates(rows, THRESHOLD, shingle=shingle, threads=3)
    assert np.array_equal(one.matched, many.matched)
    few = verified_minhash_duplicates(claims, THRESHOLD, shingle=shingle)
    assert np.array_equal(few.is_matched, one.is_matched[: len(claims)])


def test_matches_across_are_exact_where_found(claims: list[str]):
    """Verified: nothing invented, at least 97 % of the leaks found, the nearest one named."""
    left, right = claims[:400], claims[300:]
    exact = cross_matches(left, right, THRESHOLD)
    found = verified_minhash_matches(left, right, THRESHOLD)
    assert found.engine == verified_minhash_duplicates(claims, THRESHOLD).engine
    assert_verified(found, left, right)
    assert (found.similarity <= exact.similarity).all()
    assert recall(found, exact) >= 0.97


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


ASCII = st.text(alphabet="aZs_09'’é .\n-\x00\x1f\x7f", max_size=24)
LONG_WORDS = st.lists(
    st.sampled_from(
        ["seven77", "eight888", "nine99999", "nine99998", "éclair7", "ééééé", "it's's"]
    ),
    max_size=8,
).map(" ".join)
any_rows = st.lists(ASCII | LONG_WORDS | any_text, max_size=12)


def same_sets(expected: Sequence[frozenset[str]], rows: Sequence[str], shingle: Shingle) -> bool:
    """Whether the packed rows share elements exactly as the expected sets do."""
    sets = pack_sets(rows, shingle)
    tokens = [sets.tokens[a:b].tolist() for a, b in zip(sets.starts, sets.starts[1:], strict=False)]
    if tokens != [sorted(set(row)) for row in tokens]:
        return False
    shared = [[len(set(a) & set(b)) for b in tokens] for a in tokens]
    return shared == [[len(a & b) for b in expected] for a in expected]


@LAW
@given(any_rows)
def test_compiled_words_and_shingles_are_those_of_the_definition(rows: list[str]):
    """ASCII or not; runs of five characters, not bytes, in lower case, with spaces collapsed."""
    assert same_sets(word_sets(rows), rows, "word")
    assert same_sets(shingle_sets(rows), rows, "char_5")


@LAW
@given(any_rows)
def test_a_text_written_in_ascii_and_beyond_gives_one_set(rows: list[str]):
    """A curly apostrophe or a space beyond ASCII changes the path, not the words."""
    beyond = [f"{row.replace(chr(39), '’')}\u2003" for row in rows]
    both = pack_sets([*rows, *beyond])
    half = len(rows)
    for row in range(half):
        first, second = (
            both.tokens[both.starts[i] : both.starts[i + 1]] for i in (row, half + row)
        )
        assert np.array_equal(first, second)


def test_the_rarest_element_stands_first():
    """Elements are numbered by how few rows hold them; ties by first appearance."""
    sets = pack_sets(["common rare", "common other", "common other"])
    assert [[0, 2], [1, 2], [1, 2]] == [
        sets.tokens[a:b].tolist() for a, b in zip(sets.starts, sets.starts[1:], strict=False)
    ]


def test_the_elements_of_a_long_text_ascend_too():
    """Short and long rows are sorted by different means."""
    generator = np.random.default_rng(4)
    rows = [" ".join(f"w{n}" for n in generator.integers(0, 9_000, 6_000)) for _ in range(3)]
    sets = pack_sets(rows)
    for first, last in zip(sets.starts, sets.starts[1:], strict=False):
        assert (np.diff(sets.tokens[first:last]) > 0).all()
    assert [len(set(row.split())) for row in rows] == sets.sizes.tolist()


@pytest.mark.parametrize("shingle", ["word", "char_5"])
def test_rows_cut_into_parts_are_numbered_as_one(shingle: Shingle):
    """20,000 rows, whatever the number of threads: the same bytes."""
    random = np.random.default_rng(3)
    rows = [f"w{a} w{b} Ünï{a % 7} w{a * b}" for a, b in random.integers(0, 900, (20_000, 2))]
    one, many = pack_sets(rows, shingle, threads=1), pack_sets(rows, shingle, threads=3)
    assert np.array_equal(one.tokens, many.tokens)
    assert np.array_equal(one.starts, many.starts)
    assert np.array_equal(one.hashes, many.hashes)
    expected = (word_sets if shingle == "word" else shingle_sets)(rows)
    assert [len(row) for row in expected] == one.sizes.tolist()
    assert len(set().union(*expected)) == len(one.hashes)


def test_a_hash_depends_on_the_element_alone():
    """Not on the other rows of a run; a lone surrogate is a character like others."""
    alone, among = pack_sets(["zebra"]), pack_sets(["quagga zebra", "quagga"])
    assert alone.hashes[0] in among.hashes
    assert [1, 2] == pack_sets(["\ud800a", "\ud800a b"], "word").sizes.tolist()
