"""Rule decomposition: one question a fact, each readable alone."""

from hypothesis import given
from hypothesis import strategies as st

from resources.decomposer.rule_engine import MOST, RuleDecomposer, questions_of
from strategies import law

TAKEN_APART = {
    "Maria Keller, who was born in 1963, was a painter.": [
        "Was Maria Keller born in 1963?",
        "Was Maria Keller a painter?",
    ],
    "Anna Berg was born in Oslo and moved to Lima.": [
        "Was Anna Berg born in Oslo?",
        "Is it true that Anna Berg moved to Lima?",
    ],
    "The statue is made of marble, stone and gold.": [
        f"Is the statue made of {what}?" for what in ("marble", "stone", "gold")
    ],
    # A later sentence's question can be read without the one before it.
    "Maria Keller was a painter. She was born in Oslo.": [
        "Was Maria Keller a painter?",
        "Was Maria Keller born in Oslo?",
    ],
}
ONE_FACT = [
    "Quinn passed away in Rhode Island.",
    "Saturn has many hydrocarbon pools on its surface.",
    "Is resected stomach volume related to weight loss?",
    "The city is larger than the town.",
]


def test_joined_facts_are_taken_apart():
    """Relative clauses, conjoined verb phrases, lists and adjuncts each give a question.

    There is nothing to take apart in one fact.
    """
    assert TAKEN_APART == {claim: questions_of(claim) for claim in TAKEN_APART}
    assert len(questions_of("The album was released in 1996 at number 9 on the chart.")) >= 2
    assert [1] * len(ONE_FACT) == [len(questions_of(claim)) for claim in ONE_FACT]


def test_a_claim_without_text_has_no_question():
    """Blank claims and bare punctuation hold no fact."""
    assert [[], []] == RuleDecomposer().decompose([("evidence", ""), ("evidence", " ... ")])


_CLAIM_WORDS = st.sampled_from(
    "Maria Keller Oslo the a was is and , who that which in 1990 of by film directed painter "
    'not ? . " wrote it She marble stone'.split(" ")
)


@law(150)
@given(words=st.lists(_CLAIM_WORDS, max_size=25), text=st.text(max_size=30))
def test_any_claim_gives_distinct_questions(words: list[str], text: str):
    """At most twenty, distinct, ending in one question mark, none exactly where no text is."""
    for claim in (" ".join(words), text):
        found = questions_of(claim)
        assert len(found) <= MOST
        assert len({question.casefold() for question in found}) == len(found)
        assert all(question.endswith("?") and len(question) > 1 for question in found)
        assert any(letter.isalnum() for letter in claim) == bool(found)
        assert found == questions_of(claim)
