"""Abstentions: tables of wordings, and laws that no list of wordings can state."""

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.replies.abstention import MOST_WORDS, abstains, asserts_nothing
from strategies import LAW

WORDINGS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("abstentions.json").read_text("utf-8")
)
"""In any dress ("plain"), and with the reasons and facts that strong models put beside them."""
PLAIN, NATURAL = WORDINGS["plain abstentions"], WORDINGS["natural abstentions"]
ANSWERS = WORDINGS["plain answers"]
LEAST = 0.9
honest = st.sampled_from([text for text in PLAIN if "know" in text.lower()])
anything = st.text(st.characters(), max_size=80)


@pytest.mark.parametrize("kind", WORDINGS)
def test_nine_in_ten_wordings_are_told_from_answers(kind: str):
    """Not knowing, with a reason that names what lacks, abstains; a fact beside it answers.

    Policies optimise against the rule; one that looks for the phrase alone reads half of them.
    """
    right = [abstains(text) is kind.endswith("abstentions") for text in WORDINGS[kind]]
    assert sum(right) >= LEAST * len(right)


def test_order_does_not_hide_a_fact():
    """A fact before or after an abstention makes an answer; a mere connective does not."""
    facts = ("It opened in 1912.", "Probably Holm.", "Yes.", "No.", "So.")
    texts = [
        (text, fact == "So.")
        for fact, answer in product(facts, NATURAL[::5])
        for text in (f"{fact} {answer}", f"{answer} {fact}")
    ]
    assert [] == [text for text, silent in texts if abstains(text) != silent]


@LAW
@given(honest, st.integers(1000, 2999), st.sampled_from(["It was {}.", "{}.", "But in {}."]))
def test_a_value_after_an_abstention_makes_an_answer(text: str, year: int, fact: str):
    """Whatever the abstention, a later sentence with a value asserts something."""
    assert not abstains(f"{text.rstrip('.')}. {fact.format(year)}")


@LAW
@given(st.sampled_from(PLAIN + ANSWERS), st.sampled_from("*_"), st.integers(1, 3))
def test_letter_case_and_markup_do_not_matter(text: str, mark: str, width: int):
    """The same words in capitals, in bold, or with space around them mean the same."""
    expected = abstains(text)
    assert expected == abstains(text.upper())
    assert expected == abstains(f" \n{text}\t")
    assert expected == abstains(f"{mark * width}{text}{mark * width}")
    assert expected == abstains(text.replace("'", "’"))


@LAW
@given(anything)
def test_any_text_is_ruled_on(text: str):
    """No text raises; with letters and without the word it answers, with a value it does."""
    abstains(f"I don't know{text}")
    assert not abstains(f"{text.lower().replace('know', '')}x")
    assert not abstains(f"I don't know. {text} 1857")


@LAW
@given(st.from_regex(r"[a-z]{4,9}( [a-z]{4,9}){2,5}", fullmatch=True))
def test_an_unknown_clause_counts_as_an_assertion(clause: str):
    """Doubt goes to the judge: random words are not recognised, so they are an answer."""
    assert not asserts_nothing(clause)
    assert not abstains(f"I don't know. {clause}.")


def test_a_long_text_is_an_answer():
    """Below the limit a long list is one thing that is not known; above it, it says something."""
    thing = "I don't know what countries the monkey lives in" + " Ghana" * (MOST_WORDS - 9)
    assert abstains(thing)
    assert not abstains(f"{thing} Ghana")
