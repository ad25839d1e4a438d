"""Abstentions: the table of wordings, and laws that no list of wordings can state."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import LAW

from decomposerl.traces.abstention import MOST_WORDS, abstains
from decomposerl.traces.nothing_said import asserts_nothing

ABSTENTIONS = [
    "",
    "  \n",
    "...",
    "**",
    "\u200b",
    "I don't know",
    "I don't know.",
    "I don’t know.",
    "I don`t know!",
    "i dont know",
    "I DO NOT KNOW",
    "I do not know.",
    "**I don't know.**",
    "*I don't know* where the Vervet monkey ranges.",
    "__I don't know__",
    '"I don\'t know."',
    "“I don’t know.”",
    "'I don't know'",
    "<b>I don't know</b>",
    "- I don't know",
    "> I don't know",
    "Answer: I don't know",
    "Sorry, I don't know.",
    "Sorry. I don't know.",
    "I'm sorry, but I don't know.",
    "Unfortunately, I do not know.",
    "Based on the given document, I don't know.",
    # The paper's monkey, told in other words.
    "I don't know the ranges of Vervet monkeys from the evidence document that was given.",
    "I don't know from the document alone.",
    "I don't know exactly.",
    "I don't know for sure.",
    "I don't know yet.",
    "I don't know Orwell's year of birth.",
    "I don't know whether Dr. Smith won the 2001 race.",
    "I don't know if he was in the U.S. team.",
    "I don't know the range in Ghana, Togo, or Benin.",
    "I don't know what the document says about this.",
    "I don't know who wrote it, and the document doesn't say.",
    "I don't know when it opened, since no date is given.",
    "I don't know, as the document does not say.",
    "I don't know because the evidence doesn't mention July 1, 1867.",
    "I don't know; the passage is silent on that.",
    "I don't know (not stated in the document).",
    "I don't know – the table does not list it.",
    "I don't know, sorry.",
    # What the text is about is why it cannot tell: no value that a judge could use.
    "I don't know. The text only covers Tantalus monkeys.",
    "I don't know. The document does not mention Vervet monkeys.",
    'I don\'t know. The document does not mention "Vervet monkeys".',
    "I don't know. The Vervet monkey is not mentioned in the text.",
    "I don't know. This is not stated in the passage.",
    "I don't know. There is no information about this in the document.",
    "I don't know. It cannot be determined from the document.",
    "I don't know. More information is needed.",
    "I don't know. I cannot find it.",
    "I don't know. Not mentioned.",
    "I don't know. None of the passages mention it.",
    "I don't know. This information is missing from the document.",
    "I don't know. That isn't in the document.",
    "I don't know. Without further information, I cannot say.",
    "I don't know. The given document only discusses one monkey and does not mention the other.",
    "I don't know. The document does not mention it, so it cannot be determined.",
    "I don't know. I will move on.",
    "I don't know\nThe document does not say.",
]
ANSWERS = [
    "I don't know exactly, but the document says 1857.",
    "I don't know. The document says 1857.",
    "I don't know.The text gives 1857.",
    "I don't know the month the document states only 1857.",
    "I don't know the date and the document says it was 1857.",
    "I don't know, maybe 1857.",
    "I don't know: 1857",
    "I don't know - it's Ghana",
    "I don't know (probably Ghana).",
    "I don't know, Orwell.",
    "I don't know Ghana",
    "I don't know George Brown led it in 1857.",
    "I don't know\n1857",
    "I don't know. 1857.",
    "I don't know. Perhaps Ghana.",
    "I don't know. Not in Kenya.",
    "I don't know. It was George Orwell.",
    "I don't know for sure. He was born in 1903 in India.",
    "I don't know whether it has vitamin C. It is in oranges.",
    'I don\'t know. "He was born in 1903."',
    "I don't know; however, it is in Kenya.",
    "I don't know, although the evidence lists Ghana.",
    "I don't know. The text only says 1857.",
    "I don't know. The text only mentions that he lives in Ghana.",
    "I don't know. The text only covers the year 1857.",
    "I don't know. There are five golfers in it.",
    "I don't know. The document does not mention July, it gives 1857.",
    "I don't know. The document does not mention it but 1857 is likely.",
    "I don't know. Orwell was not given the Nobel Prize.",
    "I don't know. There is no Nobel Prize for mathematics.",
    "I don't know the author, who was born in 1903.",
    "I don't know. Therefore the claim is refuted.",
    "I don't know, the document doesn't mention the date, only that it was founded in 1857.",
    "I don't know. The document contains nothing on its range, but it mentions Kenya.",
    "I don't know. Nothing in the document says he won, yet he did.",
    "I don't know the date, which was 1857.",
    "Yes, I don't know.",
    "The document does not say.",
    "The document has 1857 alone; July 1, 1867 is never mentioned.",
    "It is unknown.",
    "They don't know.",
    "I knowingly do not answer.",
    "I don't knowingly answer",
    "I know.",
    'George said "I don\'t know" in 1857.',
    "No.",
    "1857",
    "✓",
]
honest = st.sampled_from([text for text in ABSTENTIONS if "know" in text.lower()])
anything = st.text(st.characters(), max_size=80)


@pytest.mark.parametrize("answer", ABSTENTIONS)
def test_an_answer_that_asserts_nothing_abstains(answer: str):
    """Not knowing, in any dress, with a reason that the document does not tell."""
    assert abstains(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_asserts_something_does_not(answer: str):
    """A dodge that then states a fact is an answer, and so is any other wording."""
    assert not abstains(answer)


@LAW
@given(honest, st.integers(1000, 2999), st.sampled_from(["It was {}.", "{}.", "But in {}."]))
def test_a_value_after_an_abstention_makes_an_answer(text: str, year: int, fact: str):
    """Whatever the abstention, a later sentence with a value asserts something."""
    assert not abstains(f"{text.rstrip('.')}. {fact.format(year)}")


@LAW
@given(st.sampled_from(ABSTENTIONS + ANSWERS), st.sampled_from("*_"), st.integers(1, 3))
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


@pytest.mark.parametrize(
    "unit", ["I don't know ", "sorry ", "(", "'", ".", " \n", "a", "from the,", "\ud800", "*a"]
)
@pytest.mark.parametrize("start", ["", "I don't know. ", "I don't know. It is not "])
def test_time_grows_with_length_and_no_faster(start: str, unit: str):
    """300,000 letters take seconds at worst; a quadratic scan would take hours."""
    started = time.perf_counter()
    abstains(start + unit * (300_000 // len(unit)))
    assert time.perf_counter() - started < 10
