"""Answers that only say that the evidence is silent, and denials that say more."""

import pytest

from decomposerl.baselines.method import ModelReply
from decomposerl.baselines.replies import read_truth
from decomposerl.baselines.silence import says_unknown
from decomposerl.traces.abstention import abstains

VERBS = ("suggest", "reference", "record", "note", "refer to", "touch on", "name", "disclose")
PASSIVES = ("offered", "suggested", "referenced", "recorded", "noted", "referred to", "touched on")
REASONS = [
    *(f"The evidence does not {verb} the flood." for verb in VERBS),
    *(f"The evidence doesn't {verb} this." for verb in VERBS),
    *(f"The flood is not {verb} in the evidence." for verb in PASSIVES),
    "It does not cover this.",
    "It doesn't address this question.",
    "It does not refer to this.",
    "Nothing about 1640 is stated.",
    "Nothing is said about the year 1640.",
    "Nothing about the flood is recorded in the passage.",
    "Neither Lund nor 1640 is mentioned.",
    "Neither is mentioned.",
    "Neither of these is mentioned in the evidence.",
    "The flood's cause is not discussed.",
    "The name of the mill is not explained.",
    "The exact date was not disclosed.",
    "Information not available.",
    "No person is credited with the design.",
    "No one is named as the builder of the mill in the document.",
    "Based on the evidence, it is not known who built the mill.",
    "The document only says that the review was published in 1998.",
]
FACTS = [
    "The treaty does not mention Malta.",
    "The evidence shows that it closed.",
    "The evidence does not mention Lund; Berg built it.",
    "It does not cover the nave.",
    "It does not support the roof.",
    "The bridge is not covered.",
    "The street is not named after Lund.",
    "The prize was not given to Lund.",
    "The roof was not recorded in 1640.",
    "The ticket was not offered in Oslo.",
    "Neither Lund nor Berg painted it.",
    "Neither mill burned.",
    "Nothing about the mill is old.",
    "No person lives there.",
    "No one is credited but Lund.",
    "No one is credited with the mill but Lund.",
    "No one is named as the builder except Lund.",
    "The document only says that the mill was built in 1640.",
    "The document is about Lund in his mill of 1640.",
    "The document is a deed of Lund.",
    "Bread was not available.",
    "It is known who built the mill: Lund.",
]


@pytest.mark.parametrize("reason", REASONS)
def test_silence_is_unknown_in_every_reader(reason: str):
    """As an answer, behind No or False, and beside "I don't know"."""
    said = reason[0].lower() + reason[1:]
    assert says_unknown(reason)
    for opening in ("No, ", "No; ", "False, "):
        assert "unknown" == read_truth(ModelReply(opening + said))
    assert "unknown" == read_truth(ModelReply(f"No. {reason}"))
    assert abstains(f"I don't know. {reason}")
    assert abstains(f"{reason} I don't know.")


@pytest.mark.parametrize("reason", FACTS)
def test_a_denial_with_a_fact_is_no_silence(reason: str):
    """It is an answer, keeps No, and does not pass under "I don't know"."""
    assert not says_unknown(reason)
    assert "false" == read_truth(ModelReply(f"No, {reason[0].lower()}{reason[1:]}"))
    assert not abstains(f"I don't know. {reason}")
    assert not abstains(f"{reason} I don't know.")


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("The evidence does not mention this, so the statement is False.", "unknown"),
        ("The passage never says when. Therefore, the claim is refuted.", "unknown"),
        ("The evidence gives 1902, so the statement is False.", "false"),
        ("The evidence does not say 1871 but 1902, so the statement is false.", "false"),
        ("The statement is False.", "false"),
    ],
)
def test_silence_before_the_word(text: str, truth: str):
    """False that follows from silence alone is unknown."""
    assert truth == read_truth(ModelReply(text))


@pytest.mark.parametrize(
    "text",
    [
        "I don't know. The passage is about mills' sails in 1640.",
        "Unfortunately, I don't know: the passage is an abstract of a review.",
        "I don't know. Although the document mentions mills, no person is credited with them.",
        "The document only mentions that the review appeared in 1998. I don't know.",
    ],
)
def test_what_the_document_is_about_does_not_answer(text: str):
    """A whole sentence "I don't know" abstains beside what kind of text the document is."""
    assert abstains(text)


def test_a_person_not_named_is_silence_of_an_answer_only():
    """Beside "I don't know" it may be a fact, and stays with the judge."""
    assert says_unknown("Oskar Lund is not named.")
    assert not abstains("I don't know. Lund is not named.")
