"""What an answer quotes and rests on: what counts as a quotation, and that offsets never lie."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from decomposerl.normal_form import normalised
from decomposerl.text.sentences import split_sentences
from decomposerl.traces.grounding import (
    MOST_QUOTATIONS,
    MOST_SENTENCES,
    grounded_answer,
    grounds,
    quotations,
    quotes,
    sentence_spans,
    sentences_behind,
)
from strategies import law

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

EVIDENCE = (
    "The Osk bridge was designed by Oskar Lund. It opened in 1871. It opened again after a fire.\n"
    "Lund was born in Odense. The bridge was closed in 1902.\n"
    'She is "Ada". She was born in Odense.'
)
DESIGNED, OPENED, _, BORN, *_ = split_sentences(EVIDENCE)
QUOTED = (
    "George Brown re\u00adorganised the Old Guard (Whig) Party in 1857 — and asked, among other"
    " things,\nfor the separation of school and state. He did not found it. Marko Dmitrović keeps"
    " goal for “SD Eibar”, a club in the Basque town of that name."
)
# Letters that other spellings change: ligatures, wide and composed forms, sharp s, Korean.
LETTERS = "aAbß éE\u0301e\u0301ﬁ½Ａ⑴…\u00ad\u200b\t“'\"—-.(İſ\u1112\u1161\u11abｶﾞ\ud800\0 "
words = st.lists(st.sampled_from("the Bridge was opened in 1857 not by Ilva Torbeck".split()))
prose = words.map(" ".join) | st.text(st.sampled_from(LETTERS), max_size=40) | st.text(max_size=40)


@pytest.mark.parametrize(("answer", "expected"), TABLES["what counts as a quotation"])
def test_what_counts_as_a_quotation(answer: str, expected: list[str]):
    """Marks of one kind around letters or digits; apostrophes and inches are none."""
    assert expected == [answer[start:end] for start, end in quotations(answer)]


def test_how_long_a_quotation_may_be():
    """Marks far apart are a stray pair, and a hostile answer cannot buy work without end."""
    assert [] == quotations(f'"{"x" * 2_001}"')
    assert [(1, 2_001)] == quotations(f'"{"x" * 2_000}"')
    many = [*quotes('"a" ' * 1_000, "a")]
    assert (MOST_QUOTATIONS, ((1, 2), ((0, 1), "exact"))) == (len(many), many[0])


@pytest.mark.parametrize(("answer", "expected"), TABLES["how a quotation is found"])
def test_how_a_quotation_is_found(answer: str, expected: list[str] | None):
    """Exact before another spelling; a changed word is no match, however near."""
    ((_, hit),) = quotes(answer, QUOTED)
    assert expected == (hit and [hit[1], QUOTED[slice(*hit[0])]])


def letters_of(text: str) -> str:
    """Small, in compatible form and without accents."""
    return "".join(filter(str.isalnum, normalised("NFKD", text.lower()).lower()))


@law(200)
@given(st.lists(prose | st.sampled_from([" ", ". "]), max_size=4), prose, st.integers(0, 4))
def test_quotations_point_into_the_originals(around: list[str], quoted: str, marks: int):
    """Exact means equal; any other match differs in case, marks, spaces and edges alone."""
    mark = ("“”", '""', "«»", "''", "‘’")[marks]
    evidence = " ".join(around)
    answer = f"It says {mark[0]}{quoted}{mark[1]}, and «{evidence[3:12]}»."
    for span, hit in quotes(answer, evidence):
        quotation = answer[slice(*span)]
        assert quotation == quotation.strip()
        if hit is None:
            continue
        place, match = hit
        assert 0 <= place[0] < place[1] <= len(evidence)
        window = evidence[slice(*place)]
        assert letters_of(window) == letters_of(quotation)
        assert (match == "exact") == (window == quotation)


@law(200)
@given(prose, st.data())
def test_a_quotation_of_whole_words_is_found_exactly(evidence: str, data: st.DataObject):
    """Whatever the evidence, its own words in quotation marks lead back to themselves."""
    pieces = [piece for piece in evidence.split() if piece.isalnum()]
    assume(pieces)
    piece = data.draw(st.sampled_from(pieces))
    ((_, hit),) = quotes(f"It says «{piece}».", evidence)
    assert hit is not None
    assert ("exact", piece) == (hit[1], evidence[slice(*hit[0])])


@pytest.mark.parametrize(("question", "answer", "behind"), TABLES["what an answer rests on"])
def test_what_an_answer_rests_on(question: str, answer: str, behind: list[str]):
    """Quoted sentences alone, else the nearest that hold its numbers; no other number."""
    assert tuple(behind) == sentences_behind(question, answer, EVIDENCE)


@pytest.mark.parametrize(("question", "answer", "status"), TABLES["the status of an answer"])
def test_the_status_of_an_answer(question: str, answer: str, status: str):
    """With the stretches that it rests on; without evidence there is neither."""
    found = grounds(question, answer, EVIDENCE) if status == "quotes_evidence" else ()
    assert (status, found) == grounded_answer(question, answer, EVIDENCE)
    without = "abstained" if status == "abstained" else "unknown"
    assert (without, ()) == grounded_answer(question, answer, " \n")


@pytest.mark.parametrize(("answer", "said", "stretch", "match"), TABLES["where a ground stands"])
def test_where_a_ground_stands(answer: str, said: str, stretch: str, match: str):
    """Offsets point into the answer and the evidence as they are."""
    (found,) = grounds("Is it?", answer, EVIDENCE)
    assert (stretch, match) == (EVIDENCE[slice(*found.evidence)], found.match)
    assert said == answer[slice(*found.answer)]


TEXTS = st.text(alphabet="AbCd 1937.!?\"“”\n'", max_size=80)


@given(TEXTS, TEXTS, st.lists(st.sampled_from([DESIGNED, OPENED, BORN, "x\u2028y.", " "]) | TEXTS))
def test_every_offset_is_inside(question: str, answer: str, parts: list[str]):
    """On any texts: few sentences in the order of the evidence, stretches are not empty."""
    evidence = "\n".join(parts)
    behind, rest = sentences_behind(question, answer, evidence), iter(split_sentences(evidence))
    assert len(behind) <= MOST_SENTENCES
    assert all(sentence in rest for sentence in behind)
    status, found = grounded_answer(question, answer, evidence)
    assert (status == "quotes_evidence") == bool(found)
    for one in found:
        assert 0 <= one.evidence[0] < one.evidence[1] <= len(evidence)
        assert 0 <= one.answer[0] < one.answer[1] <= len(answer)
    every = [evidence[slice(*span)] for span in sentence_spans(evidence)]
    assert split_sentences(evidence) == every


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ('"a" ' * 100_000, "ba" * 100_000),
        (f'"{"a " * 900}b"', "a " * 50_000),
        (f'"{"é " * 140}b"', "e\u0301 " * 20_000),
        (f'"{"a" * 1_900}"', "a" * 300_000),
        ("It is so. " * 20_000, "It is so, and it was. It is so. " * 200),
    ],
    ids="inside long odd letters repeated".split(),
)
def test_time_is_bounded(answer: str, evidence: str):
    """Ten thousand words of evidence and any answer take seconds at worst."""
    started = time.process_time()
    list(quotes(answer, evidence))
    grounds("Is it?", answer, evidence)
    assert time.process_time() - started < 20
