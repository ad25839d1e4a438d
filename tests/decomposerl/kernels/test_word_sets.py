from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.kernels import word_sets
from decomposerl.kernels.word_sets import Shingle, pack_sets, shingle_sets
from strategies import LAW, any_text

ASCII = st.text(alphabet="aZs_09'’é .\n-\x00\x1f\x7f", max_size=24)
LONG_WORDS = st.lists(
    st.sampled_from(
        ["seven77", "eight888", "nine99999", "nine99998", "éclair7", "ééééé", "it's's"]
    ),
    max_size=8,
).map(" ".join)
texts = st.lists(ASCII | LONG_WORDS | any_text, max_size=12)


def same_sets(expected: Sequence[frozenset[str]], texts: Sequence[str], shingle: Shingle) -> bool:
    """Whether the packed rows share elements exactly as the expected sets do."""
    sets = pack_sets(texts, shingle)
    rows = [sets.tokens[a:b].tolist() for a, b in zip(sets.starts, sets.starts[1:], strict=False)]
    if rows != [sorted(set(row)) for row in rows]:
        return False
    shared = [[len(set(a) & set(b)) for b in rows] for a in rows]
    return shared == [[len(a & b) for b in expected] for a in expected]


@LAW
@given(texts)
def test_compiled_words_are_the_words_of_the_definition(rows: list[str]):
    """ASCII or not, with apostrophes, underscores and control characters: the same sets."""
    assert same_sets(word_sets.word_sets(rows), rows, "word")


@LAW
@given(texts)
def test_compiled_shingles_are_runs_of_five_characters(rows: list[str]):
    """Counted in characters, not bytes, in lower case, with spaces collapsed."""
    assert same_sets(shingle_sets(rows), rows, "char_5")


@LAW
@given(texts)
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
    expected = (word_sets.word_sets if shingle == "word" else shingle_sets)(rows)
    assert [len(row) for row in expected] == one.sizes.tolist()
    assert len(set().union(*expected)) == len(one.hashes)


def test_a_hash_depends_on_the_element_alone():
    """MinHash candidates must not change with the other rows of a run."""
    alone, among = pack_sets(["zebra"]), pack_sets(["quagga zebra", "quagga"])
    assert alone.hashes[0] in among.hashes


def test_texts_that_are_no_valid_unicode_are_sets_too():
    """A lone surrogate, as damaged JSON brings it, is a character like others."""
    assert [1, 2] == pack_sets(["\ud800a", "\ud800a b"], "word").sizes.tolist()
