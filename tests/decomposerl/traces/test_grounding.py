"""The evidence sentences behind an answer: word for word, in order, none where none is near."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.text.sentences import split_sentences
from decomposerl.traces.grounding import MOST_SENTENCES, sentences_behind

EVIDENCE = (
    "The Osk bridge was designed by Oskar Lund. It opened in 1871. It opened again after a fire.\n"
    "Lund was born in Odense. The bridge was closed in 1902.\n"
    'She is "Ada". She was born in Odense.'
)
DESIGNED, OPENED, AGAIN, BORN, CLOSED, ADA, SHE = split_sentences(EVIDENCE)


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
    ],
)
def test_what_an_answer_rests_on(question: str, answer: str, behind: tuple[str, ...]):
    """Quoted sentences, else the nearest that hold its numbers; another number is no support."""
    assert behind == sentences_behind(question, answer, EVIDENCE)


def test_quotations_come_alone():
    """Where an answer quotes, its other words choose no sentence."""
    answer = f'"{CLOSED}" So it did not stay open, as Lund, born in Odense, left.'
    assert (CLOSED,) == sentences_behind("Is it open?", answer, EVIDENCE)


TEXTS = st.text(alphabet="AbCd 1937.!?\"“”\n'", max_size=80)


@given(TEXTS, TEXTS, st.lists(st.sampled_from([DESIGNED, OPENED, BORN, "x\u2028y.", " "]) | TEXTS))
def test_sentences_are_the_evidences_own(question: str, answer: str, parts: list[str]):
    """On any texts: few, distinct places, in the order of the evidence."""
    evidence = "\n".join(parts)
    every = split_sentences(evidence)
    behind = sentences_behind(question, answer, evidence)
    assert len(behind) <= MOST_SENTENCES
    rest = iter(every)
    assert all(sentence in rest for sentence in behind)
