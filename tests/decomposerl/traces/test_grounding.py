"""The evidence sentences behind an answer: word for word, in order, none where none is near."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.text.sentences import split_sentences
from decomposerl.traces.grounding import (
    MOST_SENTENCES,
    grounded_answer,
    grounds,
    sentence_spans,
    sentences_behind,
)

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

EVIDENCE = (
    "The Osk bridge was designed by Oskar Lund. It opened in 1871. It opened again after a fire.\n"
    "Lund was born in Odense. The bridge was closed in 1902.\n"
    'She is "Ada". She was born in Odense.'
)
DESIGNED, OPENED, AGAIN, BORN, CLOSED, ADA, SHE = split_sentences(EVIDENCE)


@pytest.mark.parametrize(("question", "answer", "behind"), TABLES["what an answer rests on"])
def test_what_an_answer_rests_on(question: str, answer: str, behind: list[str]):
    """Quoted sentences alone, else the nearest that hold its numbers; no other number."""
    assert tuple(behind) == sentences_behind(question, answer, EVIDENCE)


TEXTS = st.text(alphabet="AbCd 1937.!?\"“”\n'", max_size=80)


@pytest.mark.parametrize(("question", "answer", "status"), TABLES["the status of an answer"])
def test_the_status_of_an_answer(question: str, answer: str, status: str):
    """A sentence about the same thing with another year, or what is denied, is a contradiction."""
    assert status == grounded_answer(question, answer, EVIDENCE).status


def test_what_a_status_rests_on():
    """A contradiction names its sentence; a quotation grounds; without evidence nothing does."""
    closed = "When was the bridge closed?"
    (found,) = grounded_answer(closed, "1903", EVIDENCE).grounds
    assert CLOSED == EVIDENCE[slice(*found.evidence)]
    quoted = f'The text says "{CLOSED}", which is 903 years before 2805.'
    assert "quotes_evidence" == grounded_answer(closed, quoted, EVIDENCE).status
    assert "unknown" == grounded_answer("When?", "In 1871.", " \n").status


@pytest.mark.parametrize(("answer", "said", "stretch", "match"), TABLES["where a ground stands"])
def test_where_a_ground_stands(answer: str, said: str | None, stretch: str, match: str):
    """Offsets point into the answer and the evidence as they are."""
    (found,) = grounds("Is it?", answer, EVIDENCE)
    assert (stretch, match) == (EVIDENCE[slice(*found.evidence)], found.match)
    if said is not None:
        assert found.answer is not None
        assert said == answer[slice(*found.answer)]


@given(TEXTS, TEXTS, st.lists(st.sampled_from([DESIGNED, OPENED, BORN, "x\u2028y.", " "]) | TEXTS))
def test_every_offset_is_inside(question: str, answer: str, parts: list[str]):
    """On any texts: few sentences in the order of the evidence, stretches are not empty."""
    evidence = "\n".join(parts)
    behind, rest = sentences_behind(question, answer, evidence), iter(split_sentences(evidence))
    assert len(behind) <= MOST_SENTENCES
    assert all(sentence in rest for sentence in behind)
    found = grounded_answer(question, answer, evidence)
    assert (found.status in {"quotes_evidence", "contradicted"}) == bool(found.grounds)
    for one in found.grounds:
        assert 0 <= one.evidence[0] < one.evidence[1] <= len(evidence)
        assert one.answer is None or 0 <= one.answer[0] < one.answer[1] <= len(answer)
    every = [evidence[slice(*span)] for span in sentence_spans(evidence)]
    assert split_sentences(evidence) == every
