"""The set join in tasks: the same bytes as the join of one process, however it is split."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineError
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.set_join import cross_matches, keep_first_duplicates
from decomposerl.kernels.set_parts import cross_matches_in_parts, keep_first_in_parts
from decomposerl.kernels.set_spread import TextPart, Words, merged_words
from decomposerl.kernels.word_sets import Shingle
from decomposerl.ports import Tasks
from fakes import MemoryArrays, ShuffledMapper
from strategies import LAW, any_text

texts = st.lists(
    st.lists(st.sampled_from("abcdefgh"), max_size=6).map(" ".join) | any_text, max_size=30
)
thresholds = st.sampled_from((0.1, 0.3, 1 / 3, 0.5, 2 / 3, 0.7, 0.8, 1.0))
few, orders = st.integers(1, 12), st.integers(0, 9)
shingles: st.SearchStrategy[Shingle] = st.sampled_from(("word", "char_5"))


def parts_of(rows: Sequence[str], size: int) -> list[TextPart]:
    return [partial(list, rows[start : start + size]) for start in range(0, len(rows), size)]


def tasks_in(order: int) -> Tasks:
    return Tasks(ShuffledMapper(order), MemoryArrays(), threads=1)


def same(expected: Matches, actual: Matches) -> bool:
    return (
        np.array_equal(expected.matched, actual.matched)
        and np.array_equal(expected.similarity, actual.similarity)
        and expected.engine == actual.engine
    )


@LAW
@given(texts, thresholds, shingles, few, few, st.sampled_from((0, 1, 3, 1_000)), orders)
def test_the_split_join_is_the_join_of_one_process(
    rows: list[str],
    threshold: float,
    shingle: Shingle,
    size: int,
    postings: int,
    pairs: int,
    order: int,
):
    """Any parts, ranges, rooms for pairs and orders of the tasks: same matches, same engine."""
    split = keep_first_in_parts(
        parts_of(rows, size),
        threshold,
        tasks_in(order),
        shingle=shingle,
        postings=postings,
        pairs=pairs,
    )
    assert same(keep_first_duplicates(rows, threshold, engine="exact", shingle=shingle), split)


@pytest.mark.parametrize("pairs", [20, 200, 100_000])
def test_templates_chains_and_copies_are_decided_alike_in_rounds(pairs: int):
    """2,000 claims of which most are near others: decided by pairs, or in rounds without them."""
    random = np.random.default_rng(3)
    words = np.array([f"w{number}" for number in range(60)])
    rows = [" ".join(random.choice(words[:16], 9)) for _ in range(1_000)]
    rows += [" ".join(words[first : first + 20]) for first in range(40)] * 10  # chains of copies
    rows += [" ".join((*words[20:31], f"town {number}")) for number in range(600)]  # one template
    rows = [rows[number] for number in random.permutation(len(rows))]
    split = keep_first_in_parts(parts_of(rows, 300), 0.7, tasks_in(1), postings=2_000, pairs=pairs)
    assert same(keep_first_duplicates(rows, 0.7), split)


@LAW
@given(texts, texts, thresholds, shingles, few, orders)
def test_the_split_cross_join_is_the_join_of_one_process(
    left: list[str], right: list[str], threshold: float, shingle: Shingle, size: int, order: int
):
    """Each left part against all of the right side."""
    tasks = tasks_in(order)
    split = cross_matches_in_parts(parts_of(left, size), right, threshold, tasks, shingle=shingle)
    assert same(cross_matches(left, right, threshold, engine="exact", shingle=shingle), split)


def test_a_task_holds_only_its_range():
    """With 40 ranges no task opens more than a fraction of the copies, and nothing stays stored."""
    random = np.random.default_rng(5)
    words = np.array([f"w{number}" for number in range(4_000)])
    rows = [" ".join(random.choice(words, 20)) for _ in range(3_000)]
    sizes: list[int] = []

    class Watched(MemoryArrays):
        def write(self, name: str, arrays):  # noqa: ANN001, ANN202 - as above
            if name.startswith("copies"):
                sizes.append(len(arrays["rows"]))
            super().write(name, arrays)

    tasks = Tasks(ShuffledMapper(), Watched(), 1)
    keep_first_in_parts(parts_of(rows, 3_000), 0.7, tasks, postings=500)
    assert len(sizes) > 30
    assert max(sizes) <= 500 + 30  # a word has about 5 prefix entries
    assert tasks.arrays.groups == {}


def test_two_words_with_one_hash_are_an_error():
    """The join would take them for one word; a second hash tells them apart."""
    one, two = np.array([7, 9], np.uint64), np.array([1, 2], np.uint64)
    counts = np.array([1, 1])
    merged = merged_words([Words(one, two, counts), Words(one[1:], two[1:], counts[1:])])
    assert [7, 9] == merged.hashes.tolist()
    assert [1, 2] == merged.counts.tolist()
    with pytest.raises(EngineError, match="same 64-bit hash"):
        merged_words([Words(one, two, counts), Words(one, two[::-1], counts)])
