"""Sentences, words, overlap and normal forms: compiled passes give what is defined."""

import sys
import time
import unicodedata
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.kernels import code_points
from decomposerl.kernels.evidence_scan import ROWS_A_BLOCK, Scan, scan
from decomposerl.kernels.text_scan import (
    best_overlap,
    content_words,
    evidence_units,
    normalise_claim,
    sentences,
    words,
)
from decomposerl.kernels.word_sets import pack_sets
from decomposerl.normal_form import LONGEST_RUN, Form, normalised
from decomposerl.replies.abstention import abstains
from resources.corpora.pages import spellings
from resources.judge.rule_words import clean
from strategies import LAW, any_text, law, passages, sentence

OPENED = "The bridge of Torbeck opened in 1921"


SENTENCES = """
One is here.|Two is there.
Is it?|Yes!|3 of them…|Done.
Dr. Marrek met Mr. Osk.|They left.
J. R. Osk and J.-P. Marrek won.
The U.S. Senate, e.g. Torbeck's, sat.
It rose 3.5 points.|No. 5 fell.
The answer was no.|He left.
He said "stop."|Then he left.
He left.|"Why?" she asked.
It ended (in 1921.)|(They knew.)
1. The first rule.|2. The second.
ends mid. lower case goes on
Ärger kam.|Ödland blieb."""


def test_sentences_end_where_a_reader_would_end_them():
    """Full stops of abbreviations, initials, numbers and list markers end no sentence."""
    for expected in SENTENCES.strip().splitlines():
        assert expected.split("|") == sentences(expected.replace("|", " "))
    lines = "a first line\nno stop here\r\n\n third"
    assert ["a first line", "no stop here", "third"] == sentences(lines)
    assert [] == sentences("   \n\t") == sentences("")


@LAW
@given(st.text(alphabet="aB1 .!?…\"'()\n\tDr", max_size=60) | any_text)
def test_sentences_lose_nothing_but_white_space(text: str):
    """The sentences joined hold every non-space character in order; none is empty."""
    found = sentences(text)
    assert "".join(text.split()) == "".join("".join(found).split())
    assert all(part == part.strip() != "" for part in found)


def test_words_are_lower_cased_runs_of_word_characters():
    """Apostrophes inside stay, possessives go, accents agree; of stop words ``not`` counts."""
    assert "don't touch o'neill co owner".split() == words("Don't touch O'Neill’s co-owner!")
    assert ["3", "5", "of", "école"] == words("3.5% of ÉCOLE")
    assert ["école"] == words("e\u0301cole")
    assert ["quoted"] == words("'quoted' -- ’")
    assert {"bridge", "not", "opened"} == content_words("The bridge was not opened by them")


def test_sentences_are_counted_over_all_passages_and_rows_of_tables():
    """Text is split into sentences; a table counts its non-empty lines."""
    assert ["One.", "Two.", "Three"] == evidence_units("One. Two.\nThree", table=False)
    assert ["a | b. C", "d | e"] == evidence_units("a | b. C\n\nd | e\n", table=True)
    assert [] == evidence_units("", table=False)


def test_overlap_is_the_share_inside_the_best_single_sentence():
    """Words of several sentences or table rows do not add up; stop words do not count."""
    for claim, evidence, expected in (
        (OPENED, "The bridge is old. Torbeck opened it in 1921.", 0.75),
        (OPENED, "In Torbeck, the bridge opened: 1921.", 1.0),
        (OPENED, "Nothing here", 0.0),
        ("It was the one that they had", "It was the one that they had", 1.0),
        ("Was it?", "Was it?", 0.0),
    ):
        assert expected == best_overlap(claim, evidence), evidence
    table = "bridge | 1921\nTorbeck | opened"
    assert 0.5 == best_overlap("bridge Torbeck opened 1921", table, table=True)


@LAW
@given(st.lists(st.tuples(sentence, passages), max_size=5))
def test_overlap_equals_the_plain_definition(rows: list[tuple[str, list[str]]]):
    """Passages joined by line breaks score as each would alone; all values are in 0..1."""
    expected = [
        max(len(wanted & set(words(part))) for text in texts for part in sentences(text))
        / len(wanted)
        if (wanted := content_words(claim))
        else 0.0
        for claim, texts in rows
    ]
    found = [best_overlap(claim, "\n".join(texts)) for claim, texts in rows]
    assert expected == found
    assert all(0 <= value <= 1 for value in found)


def test_normalised_claims_differ_in_more_than_case_and_punctuation():
    """Case, compatibility forms, punctuation and spacing do not tell claims apart."""
    assert normalise_claim("The  Bridge, opened!") == normalise_claim("the bridge opened")
    assert normalise_claim("ﬁve STRASSE") == normalise_claim("five straße")
    assert normalise_claim("“Quoted” – dash") == normalise_claim('"quoted" - dash')
    assert normalise_claim("...") == normalise_claim("")


@LAW
@given(any_text)
def test_normalising_twice_changes_nothing(text: str):
    """The normal form is its own normal form and has single inner spaces."""
    once = normalise_claim(text)
    assert once == normalise_claim(once)
    assert once == " ".join(once.split())


MANY = law(250)
PIECES = (
    *"aBsS1²½٣_.!?…\"'“”‘’«»([{)]}—–-,;: \n\r\t\v\x1c\x85\xa0\u2028\u2000\u3000",
    *"éÉßſΣσςİıКк好𝐀²Ω\u212a\u212bǅⅧⒶ\U00020000\U0002f800\U000e0101\u0301\u0308\u1112\u1161\u11ab",
    *"e\u0301| Mr.| no.| Ph.D.| U.S.| J.-P.|. A|.' \"|'s|’s| the| bridge| Bridge's| o'neill".split(
        "|"
    ),
    *"E\u0301.| O’Neill’s| don't| opened| 1921|1.|a.".split("|"),
    *"中|文字|。|！|」|あ|ー|ｱ|々|ก|ที่| ๆ |ประเทศไทยและเมืองหลวงที่มีประชากรมากที่สุด ก|中.".split("|"),
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


def test_a_sliced_column_is_read_from_its_own_start_and_no_text_has_nothing():
    """A slice has its own rows alone; nothing has no sentence, no word, no overlap."""
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
    assert scanned([], [], []).overlap.tolist() == []
    found = scanned(["", "Ilva"], [[], ["", ""]], [False, True])
    assert (found.sentences.sum(), found.words.sum(), found.overlap.sum()) == (0, 0, 0)


KINDS: dict[int, Callable[[str], bool]] = {
    code_points.WORD: lambda c: c.isalnum() or c == "_",
    code_points.SPACE: str.isspace,
    code_points.BREAK: lambda c: len(f"a{c}b".splitlines()) > 1,
    code_points.UPPER: str.isupper,
    code_points.DIGIT: str.isdigit,
    code_points.DECIMAL: str.isdecimal,
}


def test_every_code_point_is_what_python_says():
    """The table agrees with ``str`` on all of Unicode, planes without letters included."""
    kinds, _ = code_points.code_points()
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    for kind, holds in KINDS.items():
        expected = np.fromiter(map(holds, every), np.bool_)
        assert np.array_equal(expected, kinds & kind > 0), kind


def test_a_character_that_is_not_hard_lowers_and_composes_by_itself():
    """What is not marked has one lower-case character and is what it is in any text."""
    kinds, lower = code_points.code_points()
    plain = kinds & code_points.HARD == 0
    easy = [chr(code) for code in np.flatnonzero(plain)]
    assert [c for c in easy if c != "’" and ord(c.lower()) != lower[ord(c)]] == []
    assert [c for c in easy if not unicodedata.is_normalized("NFC", c)] == []
    assert [c for c in easy if unicodedata.combining(c)] == []
    assert all(kinds[ord(odd)] & code_points.HARD for odd in code_points.ODD_CAPITALS)
    word = kinds & code_points.WORD
    assert np.array_equal(word[lower][plain], word[plain])


FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
marked = st.text(st.sampled_from("ab \u0301\u0327\u0344\u0f73\u3099가각ﷺé\U0001d15e"), max_size=600)
MARKS = 30_000
RUNS = {
    "alternating": "\u0301\u0327",
    "that decompose": "\u0f73",
    "of two": "\u0344\u0327",
    "of one kind": "\u0301",
    "with a letter now and then": "\u0301\u0327" * 400 + "e",
}


@LAW
@given(st.sampled_from(FORMS), st.text() | marked)
def test_text_without_a_long_run_comes_out_as_from_the_standard_library(form: Form, text: str):
    """And whatever the text, normalising twice changes nothing."""
    found = normalised(form, text)
    assert found == normalised(form, found)
    if len(text) < LONGEST_RUN:
        assert unicodedata.normalize(form, text) == found


@pytest.mark.parametrize("marks", RUNS.values(), ids=RUNS)
def test_a_long_run_of_marks_is_read_by_all_who_normalise(marks: str):
    """The library sorts a run by insertion: on "that decompose", seconds for each form."""
    text = "War e" + marks * (MARKS // len(marks)) + " ended."
    started = time.process_time()
    for form in FORMS:
        assert len(normalised(form, text)) >= MARKS
    assert normalise_claim(text).startswith("war")
    assert pack_sets([text, "war ended"]).starts.size
    assert clean(text).sentences
    assert not abstains(text)
    assert len(set(spellings(text))) >= 2
    assert time.process_time() - started < 2


LENGTH = 200_000
REPEATED = (
    *(".", "!", "…", ". ", '. "', "( . ", '.")', "1", "1. ", "Mr. ", "A.B.C. ", " ", "ก ", "。"),
    *("(" * (LENGTH // 2) + "Mr. " * (LENGTH // 8), "1" * (LENGTH // 2) + " Mr." * (LENGTH // 8)),
)


@pytest.mark.parametrize("shape", REPEATED, ids=lambda shape: shape[:7])
def test_no_repetition_takes_much_longer_than_prose(shape: str):
    """Of one length: a quadratic scan takes hundreds of times as long."""
    prose = "The bridge opened in 1921. Its twin came later, and nobody paid. "

    def spent(unit: str) -> float:
        text = (unit * (LENGTH // len(unit)))[:LENGTH]
        started = time.process_time()
        sentences(text)
        return time.process_time() - started

    assert spent(shape) < 40 * max(spent(prose), 0.002)
