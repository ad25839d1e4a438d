"""The evidence sentences behind an answer: word for word, in order, none where none is near."""

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

EVIDENCE = (
    "The Osk bridge was designed by Oskar Lund. It opened in 1871. It opened again after a fire.\n"
    "Lund was born in Odense. The bridge was closed in 1902.\n"
    'She is "Ada". She was born in Odense.'
)
DESIGNED, OPENED, AGAIN, BORN, CLOSED, ADA, SHE = split_sentences(EVIDENCE)
LONG = "On which Danish island and in what trading town did the celebrated engineer see daylight?"


@pytest.mark.parametrize(
    ("question", "answer", "behind"),
    [
        ("When did it open?", "It opened in 1871.", (OPENED,)),
        ("When did it open?", 'The text says "opened in 1871" and no more.', (OPENED,)),
        ("Is it?", "Lund was born in Odense. The bridge opened in 1871.", (OPENED, BORN)),
        ("Was it designed by Lund?", "Yes, Oskar Lund designed the Osk bridge.", (DESIGNED,)),
        ("When was the bridge closed?", "1902", (CLOSED,)),
        ("Where was Lund born?", "Odense.", (BORN,)),
        ("When was the bridge closed?", "1903", ()),
        ("When did it open?", "It opened in 1872.", ()),
        ("Is it?", f"Yes, {DESIGNED} {BORN} 1990", (DESIGNED, BORN)),
        ("Is it?", f"{ADA} {SHE}", (ADA, SHE)),
        ("Who painted it?", "A painter from Graz covered all its walls.", ()),
        ("Who painted it?", "I don't know.", ()),
        ("Who painted it?", "", ()),
        ("Was it designed by Lund?", "Yes.", ()),
        (LONG, "Odense.", (BORN,)),
        (LONG, "In 1902", (CLOSED,)),
        (LONG, "Odense Lund", ()),
        (LONG, "It", ()),
        ("Is it open?", f'"{CLOSED}" So it did not stay open, as Lund, born in Odense.', (CLOSED,)),
    ],
)
def test_what_an_answer_rests_on(question: str, answer: str, behind: tuple[str, ...]):
    """Quoted sentences alone, else the nearest that hold its numbers; no other number."""
    assert behind == sentences_behind(question, answer, EVIDENCE)


TEXTS = st.text(alphabet="AbCd 1937.!?\"“”\n'", max_size=80)


@pytest.mark.parametrize(
    ("question", "answer", "status"),
    [
        ("When did it open?", "It opened in 1871.", "grounded"),
        ("When did it open?", "It opened in 1872.", "contradicted"),
        ("When was the bridge closed?", "1903", "contradicted"),
        ("Was Lund born in Odense?", "Lund was not born in Odense.", "contradicted"),
        ("Was Lund born in Odense?", "No, Lund was never born in Odense.", "contradicted"),
        ("When?", "The bridge was closed in 1902, not in 1903.", "not_in_evidence"),
        ("When did it close?", "The bridge was not closed until 1902.", "grounded"),
        ("How many arches has it?", "It has 12 arches.", "not_in_evidence"),
        ("When was Lund born in Odense?", "In 12 towns.", "not_in_evidence"),
        ("Who painted it?", "A painter from Graz covered all its walls.", "not_in_evidence"),
        ("Who painted it?", "I don't know.", "abstained"),
        ("Who painted it?", "", "abstained"),
        ("Was it designed by Lund?", "Yes.", "unknown"),
        ("Was it designed by Lund?", "No, it is false.", "unknown"),
        ("Does the evidence support the claim?", "Supported", "unknown"),
        ("Is the claim supported?", "The claim is refuted by the evidence.", "unknown"),
        ("Who painted it?", "Yes, a painter.", "not_in_evidence"),
        (LONG, "Odense.", "grounded"),
    ],
)
def test_the_status_of_an_answer(question: str, answer: str, status: str):
    """A sentence about the same thing with another year, or what is denied, is a contradiction."""
    assert status == grounded_answer(question, answer, EVIDENCE).status


def test_what_a_status_rests_on():
    """A contradiction names its sentence; a quotation grounds; without evidence nothing does."""
    closed = "When was the bridge closed?"
    (found,) = grounded_answer(closed, "1903", EVIDENCE).grounds
    assert CLOSED == EVIDENCE[slice(*found.evidence)]
    quoted = f'The text says "{CLOSED}", which is 903 years before 2805.'
    assert "grounded" == grounded_answer(closed, quoted, EVIDENCE).status
    assert "unknown" == grounded_answer("When?", "In 1871.", " \n").status


@pytest.mark.parametrize(
    ("answer", "said", "stretch", "match"),
    [
        (f"Yes: {BORN}", BORN, BORN, "exact"),
        ("Yes: Lund  was born\nin Odense.", "Lund  was born\nin Odense.", BORN, "normalised"),
        ('It "opened in 1871", no?', "opened in 1871", "opened in 1871", "exact"),
        ("It “OPENED in 1871”, no?", "OPENED in 1871", "opened in 1871", "normalised"),
        ("Yes, Oskar Lund  made the Osk bridge.", None, DESIGNED, "near"),
    ],
)
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
    assert (found.status in {"grounded", "contradicted"}) == bool(found.grounds)
    for one in found.grounds:
        assert 0 <= one.evidence[0] < one.evidence[1] <= len(evidence)
        assert one.answer is None or 0 <= one.answer[0] < one.answer[1] <= len(answer)
    every = [evidence[slice(*span)] for span in sentence_spans(evidence)]
    assert split_sentences(evidence) == every
