import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.kernels.text_scan import (
    best_overlap,
    content_words,
    evidence_units,
    normalise_claim,
    sentences,
    words,
)
from strategies import LAW, any_text, passages, sentence

OPENED = "The bridge of Torbeck opened in 1921"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One is here. Two is there.", ["One is here.", "Two is there."]),
        ("Is it? Yes! 3 of them…  Done.", ["Is it?", "Yes!", "3 of them…", "Done."]),
        ("Dr. Marrek met Mr. Osk. They left.", ["Dr. Marrek met Mr. Osk.", "They left."]),
        ("J. R. Osk and J.-P. Marrek won.", ["J. R. Osk and J.-P. Marrek won."]),
        ("The U.S. Senate, e.g. Torbeck's, sat.", ["The U.S. Senate, e.g. Torbeck's, sat."]),
        ("It rose 3.5 points. No. 5 fell.", ["It rose 3.5 points.", "No. 5 fell."]),
        ("The answer was no. He left.", ["The answer was no.", "He left."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ('He left. "Why?" she asked.', ["He left.", '"Why?" she asked.']),
        ("It ended (in 1921.) (They knew.)", ["It ended (in 1921.)", "(They knew.)"]),
        ("a first line\nno stop here\r\n\n third", ["a first line", "no stop here", "third"]),
        ("1. The first rule. 2. The second.", ["1. The first rule.", "2. The second."]),
        ("ends mid. lower case goes on", ["ends mid. lower case goes on"]),
        ("Ärger kam. Ödland blieb.", ["Ärger kam.", "Ödland blieb."]),
        ("   \n\t", []),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, expected: list[str]):
    """Full stops of abbreviations, initials, numbers and list markers end no sentence."""
    assert expected == sentences(text)


@LAW
@given(st.text(alphabet="aB1 .!?…\"'()\n\tDr", max_size=60) | any_text)
def test_sentences_lose_nothing_but_white_space(text: str):
    """The sentences joined hold every non-space character in order; none is empty."""
    found = sentences(text)
    assert "".join(text.split()) == "".join("".join(found).split())
    assert all(part == part.strip() != "" for part in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't touch O'Neill’s co-owner!", ["don't", "touch", "o'neill", "co", "owner"]),
        ("3.5% of ÉCOLE", ["3", "5", "of", "école"]),
        ("e\u0301cole", ["école"]),
        ("'quoted' -- ’", ["quoted"]),
    ],
)
def test_words_are_lower_cased_runs_of_word_characters(text: str, expected: list[str]):
    """Inner apostrophes stay, possessives go, composed and decomposed accents agree."""
    assert expected == words(text)


def test_content_words_leave_out_function_words_but_keep_negations():
    """A denial is no copy of what it denies, so ``not`` counts."""
    assert {"bridge", "not", "opened"} == content_words("The bridge was not opened by them")


def test_sentences_are_counted_over_all_passages_and_rows_of_tables():
    """Text is split into sentences; a table counts its non-empty lines."""
    assert ["One.", "Two.", "Three"] == evidence_units("One. Two.\nThree", table=False)
    assert ["a | b. C", "d | e"] == evidence_units("a | b. C\n\nd | e\n", table=True)
    assert [] == evidence_units("", table=False)


@pytest.mark.parametrize(
    ("claim", "evidence", "expected"),
    [
        (
            "The bridge of Torbeck opened in 1921",
            "The bridge is old. Torbeck opened it in 1921.",
            0.75,
        ),
        (OPENED, "In Torbeck, the bridge opened: 1921.", 1.0),
        (OPENED, "Nothing here", 0.0),
        ("It was the one that they had", "It was the one that they had", 1.0),
        ("Was it?", "Was it?", 0.0),
    ],
)
def test_overlap_is_the_share_inside_the_best_single_sentence(
    claim: str, evidence: str, expected: float
):
    """Words scattered over sentences do not add up; stop words do not count."""
    assert expected == best_overlap(claim, evidence)


def test_overlap_reads_the_rows_of_a_table_as_sentences():
    """Two rows of one table passage are two sentences even without full stops."""
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


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The  Bridge, opened!", "the bridge opened"),
        ("ﬁve STRASSE", "five straße"),
        ("“Quoted” – dash", '"quoted" - dash'),
        ("...", ""),
    ],
)
def test_normalised_claims_differ_in_more_than_case_and_punctuation(left: str, right: str):
    """Case, compatibility forms, punctuation and spacing do not tell claims apart."""
    assert normalise_claim(left) == normalise_claim(right)


@LAW
@given(any_text)
def test_normalising_twice_changes_nothing(text: str):
    """The normal form is its own normal form and has single inner spaces."""
    once = normalise_claim(text)
    assert once == normalise_claim(once)
    assert once == " ".join(once.split())
