"""The compiled pass over evidence gives the numbers of the readable definitions."""

import sys
import unicodedata

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.kernels.code_points import (
    BREAK,
    DECIMAL,
    DIGIT,
    HARD,
    ODD_CAPITALS,
    SPACE,
    UPPER,
    WORD,
    code_points,
)
from decomposerl.kernels.evidence_scan import ROWS_A_BLOCK, Scan, scan
from decomposerl.kernels.text_scan import best_overlap, evidence_units
from strategies import any_text, law, passages, sentence

MANY = law(250)
PIECES = (
    *"aBsS1²½٣_.!?…\"'“”‘’«»([{)]}—–-,;: \n\r\t\v\x1c\x85\xa0\u2028\u2000\u3000",
    *"éÉßſΣσςİıКк好𝐀²Ω\u212a\u212bǅⅧⒶ\U00020000\U0002f800\U000e0101\u0301\u0308\u1112\u1161\u11ab",
    *(
        "e\u0301",
        "E\u0301.",
        " Mr.",
        " no.",
        " Ph.D.",
        " U.S.",
        " J.-P.",
        ". A",
        ".' \"",
        "'s",
        "’s",
    ),
    *(
        " the",
        " bridge",
        " Bridge's",
        " o'neill",
        " O’Neill’s",
        " don't",
        " opened",
        " 1921",
        "1.",
        "a.",
    ),
)
adversarial = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
text = adversarial | any_text | sentence


def scanned(claims: list[str], evidence: list[list[str]], tables: list[bool], **more: int) -> Scan:
    joined = ["\n".join(row) for row in evidence]
    return scan(
        pl.Series(claims, dtype=pl.String()),
        pl.Series(joined, dtype=pl.String()),
        pl.Series(tables, dtype=pl.Boolean()),
        **more,
    )


def defined(
    claims: list[str], evidence: list[list[str]], tables: list[bool]
) -> tuple[list[int], list[float]]:
    """Sentences and overlap of each row by the definitions, passage by passage."""
    rows = list(zip(claims, evidence, tables, strict=True))
    counts = [sum(len(evidence_units(p, table=table)) for p in row) for _, row, table in rows]
    shares = [
        max((best_overlap(claim, passage, table=table) for passage in row), default=0.0)
        for claim, row, table in rows
    ]
    return counts, shares


def assert_as_defined(claims: list[str], evidence: list[list[str]], tables: list[bool]) -> None:
    found = scanned(claims, evidence, tables)
    assert [len("\n".join(row).split()) for row in evidence] == found.words.tolist()
    assert defined(claims, evidence, tables) == (found.sentences.tolist(), found.overlap.tolist())


@MANY
@given(st.lists(st.tuples(text, st.lists(text, max_size=3) | passages, st.booleans()), max_size=4))
def test_one_pass_gives_what_the_definitions_give(rows: list[tuple[str, list[str], bool]]):
    """Sentences, words and overlap agree on every text, whatever its script or breaks."""
    assert_as_defined(*([row[column] for row in rows] for column in range(3)))


@MANY
@given(adversarial, st.booleans())
def test_a_text_holds_all_of_itself(claim: str, table: bool):  # noqa: FBT001 - drawn
    """A claim against itself: every word is found, each once, in the definition's sentence."""
    assert_as_defined([claim, claim.upper()], [[claim], [claim]], [table, table])


def test_many_blocks_and_any_number_of_threads_give_the_same():
    """Rows keep their places over the borders of blocks."""
    rows = 2 * ROWS_A_BLOCK + 3
    claims = [f"Ilva opened bridge {row}" for row in range(rows)]
    evidence = [["One. " * (row % 7), f"Ilva saw é {row % 5}"] for row in range(rows)]
    tables = [row % 3 == 0 for row in range(rows)]
    alone = scanned(claims, evidence, tables, threads=1)
    beside = scanned(claims, evidence, tables, threads=3)
    assert defined(claims, evidence, tables) == (alone.sentences.tolist(), alone.overlap.tolist())
    for name in Scan.__slots__:
        assert np.array_equal(getattr(alone, name), getattr(beside, name))


def test_no_rows_and_empty_texts():
    """Nothing has nothing: no sentence, no word, no overlap."""
    assert scanned([], [], []).overlap.tolist() == []
    found = scanned(["", "Ilva"], [[], ["", ""]], [False, True])
    assert (found.sentences.sum(), found.words.sum(), found.overlap.sum()) == (0, 0, 0)


def test_a_sliced_column_is_read_from_its_own_start():
    """The rows of a slice are the rows of the slice, not of the column it was cut from."""
    whole = pl.DataFrame(
        {
            "claim": ["Ösk left", "Ilva left", "the river"],
            "evidence": ["One. Two.", "Ilva Ösk", "A river. The river left. So."],
            "table": [True, False, False],
        }
    )
    part = whole.slice(1)
    found = scan(*part.get_columns())
    assert [1, 3] == found.sentences.tolist()
    assert [0.5, 1.0] == found.overlap.tolist()


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (WORD, lambda c: c.isalnum() or c == "_"),
        (SPACE, str.isspace),
        (BREAK, lambda c: len(f"a{c}b".splitlines()) > 1),
        (UPPER, str.isupper),
        (DIGIT, str.isdigit),
        (DECIMAL, str.isdecimal),
    ],
)
def test_every_code_point_is_what_python_says(kind: int, holds: object):
    """The table agrees with ``str`` on all of Unicode, planes without letters included."""
    kinds, _ = code_points()
    assert callable(holds)
    expected = np.fromiter(map(holds, map(chr, range(sys.maxunicode + 1))), np.bool_)
    assert np.array_equal(expected, kinds & kind > 0)


def test_a_character_that_is_not_hard_lowers_and_composes_by_itself():
    """What is not marked has one lower-case character and is what it is in any text."""
    kinds, lower = code_points()
    easy = [chr(code) for code in np.flatnonzero(kinds & HARD == 0)]
    assert [c for c in easy if c != "’" and ord(c.lower()) != lower[ord(c)]] == []
    assert [c for c in easy if not unicodedata.is_normalized("NFC", c)] == []
    assert [c for c in easy if unicodedata.combining(c)] == []
    assert all(kinds[ord(odd)] & HARD for odd in ODD_CAPITALS)
    word = kinds & WORD
    assert np.array_equal(word[lower][kinds & HARD == 0], word[kinds & HARD == 0])
