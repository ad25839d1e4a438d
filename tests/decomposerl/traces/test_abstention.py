"""Abstentions: the table of wordings, and laws that no list of wordings can state."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.traces.abstention import MOST_WORDS, abstains
from decomposerl.traces.nothing_said import asserts_nothing
from strategies import LAW

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
    # The paper's monkey, in other words.
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
    "I don't know. The document does not provide this information.",
    "I don't know. The evidence doesn't say.",
    "I don't know. The date is not mentioned in the document.",
    "I don't know, it is not stated.",
    "I don't know. The answer cannot be found in the document.",
    "I don't know. It cannot be found in the text.",
    "I don't know. This isn't mentioned.",
    "I don't know. This information is not provided.",
    "I don't know. The information was not provided in the document.",
    "I don't know. No information is given.",
    "I don't know. There is no mention of it.",
    "I don't know. There is not enough information to answer.",
    "I don't know. The document does not contain enough information.",
    "I don't know; it's not clear from the document.",
    "I don't know. It is not clear who wrote it.",
    "I don't know. The text says nothing about herons.",
    "I don't know. It only mentions Tantalus monkeys.",
    "I don't know. His birth date is not known.",
    "I don't know. Not specified.",
    "I don't know. Not given in the text.",
    "I don't know. The document lacks this information.",
    "I don't know. Nothing is said about it.",
    "I don't know. Nothing in the document mentions it.",
    "I don't know. The document provides no information about the year.",
    "I don't know. The document gives no details.",
    "I don't know why.",
    "I don't know when, where or how.",
    "I don't know the answer.",
    "I don't know. The passage does not mention it, and I can't verify it.",
    "I still don't know.",
    "I don't know. It doesn't provide that information.",
    "I don't know. It does not give a date.",
    "I don't know. It does not contain that information.",
    "I don't know. No details are provided about it.",
    "I don't know. It is not possible to determine this from the document.",
    "I don't know. The exact date is unknown.",
    "I don't know. No relevant information is available.",
    "I really don't know.",
    "I don't actually know.",
    "I don't know. The document gives no answer.",
    "I don't know, the document says nothing about it",
    "I don't know because the passage gives no date.",
    "I don't know. The document only lists the songs.",
    "I don't know. It's not stated.",
    "I don't know. It's unclear.",
    "I don't know. The document never mentions it.",
    "I don't know (not in the document).",
    "I don't know. The evidence is not clear about this.",
    "I don't know. The drug is not found in the document.",
    "I don't know. This information is not available.",
    "I don't know. The date of his birth is not given.",
    "I don't know. It does not say.",
    "I don't know whether it sold more than 1857 copies.",
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
    # What is denied of the world, and denials that turn into a fact.
    "I don't know. The Reed heron is not found in Portugal.",
    "I don't know. No herons are found in Portugal.",
    "I don't know. The drug is not available in Europe.",
    "I don't know. He was never found.",
    "I don't know. He was not included in the team.",
    "I don't know. It was never confirmed by the senate.",
    "I don't know. He was not identified by the police.",
    "I don't know. The document does not say that it was 1857, it was 1858.",
    "I don't know. The document does not mention it was 1857 and not 1858 when Smith founded Rome",
    "I don't know. There is no information that contradicts that Paris is the capital.",
    "I don't know. The document does not list anyone other than Smith as the founder",
    "I don't know. I cannot tell more than that Smith was the founder",
    "I don't know why, Paris was the capital",
    "I don't know of any other author than Stephen King.",
    "I don't know exactly, Orwell.",
    "I don't know. It does not contain vitamin C.",
    "I don't know. They did not support the war.",
    "I don't know. It lacks a king.",
    "I don't know. It covers Ghana and Kenya.",
    "I don't know. The ship could not be found.",
    "I don't know. No evidence was found by the police.",
    "I don't know. The document says nothing happened in Paris.",
    "I don't know. The document says no herons live in Portugal.",
    "I don't know. He was not mentioned in the will.",
    "I don't know. Nothing on Mars is alive.",
    "I don't know the month the document only lists the songs.",
    "I don't know. Smith founded Rome which is not stated in the document.",
    "I don't know. There is no evidence against Paris.",
    "I don't know. It was never found.",
    "I don't know. It is not available in Europe.",
    "I don't know. The city was not established by the Romans.",
    "I don't know. The document only lists Smith.",
    "I don't know. He was never mentioned by the senate.",
    "I don't know. The losses were not reported to the king.",
    "I don't know. They never gave the prize.",
    "I don't know. It is not in Portugal.",
    "I don't know. It's not 1857.",
    "I don't know. It is not known in Europe.",
    "I don't know. It was not given to Smith.",
    "I don't know. Not available in Europe.",
    "I don't know. It is not possible to fly to Mars.",
    "I don't know. Herons cannot be found in Portugal.",
    "I don't know. The author cannot be named other than Smith.",
    "I don't know. Nothing was found in Portugal.",
    "I don't know. There are no herons there.",
    "I don't know. No heron is there.",
    "I don't know. It has no name.",
    "I don't know. The document mentions nobody but Smith.",
    "I don't know. The document mentions no founder besides Smith.",
    "I don't know. The document doesn't say otherwise than Smith.",
    "I don't know. The document shows little Rome was the capital.",
    "I don't know. The document does not mention it, Smith founded Rome.",
    "I don't know. The document does not deny Smith.",
    "I don't know. The document does not say it was Paris, Rome was the capital.",
    "I don't know who, Smith.",
    "I don't know for sure, Smith.",
    "I don't know. The evidence gives little doubt that Paris won.",
    "I don't know. I don't have any doubt that Paris won.",
    "I don't know. I don't see anyone but Smith.",
    "I don't know. The document does not mention Paris, only Rome.",
    "I don't know. The document does not mention Paris but Rome.",
    "I don't know. The document mentions neither Paris; Rome won.",
    "I don't know. The document does not mention Paris, rather Rome.",
    "I don't know. The document never says it was 1857, 1858 it was.",
    "I don't know. It is silent.",
    "I don't know. They have no records.",
    "I don't know. It was not documented by Smith.",
    "I don't know. The senate did not confirm it.",
    "I don't know. Smith is not named.",
    "I don't know. Smith is not included.",
    "I don't know. The document does not name any king apart from Smith.",
    "I don't know. The document is about Smith, who won.",
    "I don't know. It is not there.",
    "I don't know. It does not give milk.",
    "I don't know. It does not include Ghana.",
    "I don't know. It is not possible to fly from the document.",
    "I don't know. The war is unknown.",
    "I don't know. No details are known in Europe.",
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
    "unit",
    [
        "I don't know ",
        "sorry ",
        "(",
        "'",
        ".",
        " \n",
        "a",
        "from the,",
        "\ud800",
        "*a",
        ",a ",
        "if",
    ],
)
@pytest.mark.parametrize("start", ["", "I don't know. ", "I don't know. It is not "])
def test_time_grows_with_length_and_no_faster(start: str, unit: str):
    """300,000 letters take seconds at worst; a quadratic scan would take hours."""
    started = time.perf_counter()
    abstains(start + unit * (300_000 // len(unit)))
    assert time.perf_counter() - started < 10
