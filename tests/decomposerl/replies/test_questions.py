"""Lists of questions without tags, or with broken ones: read, or asked again."""

import json

import pytest

from decomposerl.prompts.silver import read_questions

TWO = ["Who opened the bridge of Torbeck?", "In which year did it open?"]
WHO, WHEN = TWO


@pytest.mark.parametrize(
    "reply",
    [
        f"1. {WHO}\n2. {WHEN}",
        f"1) {WHO}\n2) {WHEN}",
        f"(1) {WHO}\n\n(2) {WHEN}",
        f"1. **{WHO}**\n2. **{WHEN}**",
        f"**1.** {WHO}\n**2.** {WHEN}",
        f"Here are the questions:\n\n1. {WHO}\n2. {WHEN}\n\nThese two settle the claim.",
        f"<think>1. Who?\n2. When?\n3. Where?</think>\n1. {WHO}\n2. {WHEN}",
        f"- {WHO}\n- {WHEN}",
        f"* {WHO}\n* {WHEN}",
        f"• {WHO}\n• {WHEN}",
        f"**Questions:**\n\n- {WHO}\n- {WHEN}",
        f"### Questions\n- {WHO} (the mayor)\n- {WHEN} (the date)",
        f"- “{WHO}”\n- “{WHEN}”",
        f"```\n- {WHO}\n- {WHEN}\n```",
        f"Q1: {WHO}\nQ2: {WHEN}",
        f"**Q1.** {WHO}\n**Q2.** {WHEN}",
        f"Question 1: {WHO}\nQuestion 2: {WHEN}",
        f"- Q1: {WHO}\n- Q2: {WHEN}",
        f"1. Question 1: {WHO}\n2. Question 2: {WHEN}",
        f"Sub-question 1: {WHO}\nSub-question 2: {WHEN}",
        f"{WHO}\n{WHEN}",
        f"1. {WHO} 2. {WHEN}",
        f"a) {WHO}\nb) {WHEN}",
        f"- [ ] {WHO}\n- [ ] {WHEN}",
        f"**Question 1:**\n{WHO}\n\n**Question 2:**\n{WHEN}",
        f"1. {WHO}\n2. {WHEN}\n\nWould you like me to add more?",
        f"Two questions settle it.\n{WHO}\n\n{WHEN}",
        f"<questions>\n1. {WHO}\n2. {WHEN}\n</questions>",
        f"<questions>\n{WHO}\n{WHEN}\n</questions>",
        f"<question>{WHO}</question>\n<question>{WHEN}</question>",
        f"<questions>\n<question>{WHO}</question>\n<question>{WHEN}\n</questions>",
        f"<questions>\n<question>{WHO}\n<question>{WHEN}</question>\n</questions>",
        f"<questions><question>{WHO}<question>{WHEN}</question></questions>",
        f"<questions><question>1. {WHO}</question><question>2. {WHEN}</question></questions>",
        f"<questions><question>Q1: {WHO}</question><question>Q2: {WHEN}</question></questions>",
        f'{{"questions": [{{"question": "{WHO}"}}, {{"question": "{WHEN}"}}]}}',
        f'{{"questions": ["{WHO}", "{WHEN}",]}}',
        f'```json\n[\n  "{WHO}",\n  "{WHEN}",\n]\n```',
        f"<Questions><Question>{WHO}</Question><QUESTION>{WHEN}</QUESTION></Questions>",
        rf"\<questions\>\<question\>{WHO}\</question\>\<question\>{WHEN}\</question\>\</questions\>",
        f"Two are needed.\n<questions>\n<question>{WHO}</question>\n<question>{WHEN}</question>\n",
    ],
    ids=repr,
)
def test_two_questions(reply: str):
    """In any list that models make of them, without its marks."""
    assert TWO == read_questions(reply)


def test_a_number_that_may_be_a_name_stays():
    """Numbers go where the questions are counted: "1. FC Torbeck" is a club."""
    tags = "<questions><question>{}</question></questions>"
    assert ["1. FC Torbeck won what?"] == read_questions(tags.format("1. FC Torbeck won what?"))
    assert ["2. FC Torbeck won what?", "1. FC Ilva lost what?"] == read_questions(
        tags.format("2. FC Torbeck won what?</question><question>1. FC Ilva lost what?")
    )


def test_a_comma_inside_a_question_stays():
    """Only commas between values are dropped, and only where the JSON does not parse as it is."""
    asked = ["Is [1,] a list,}?", 'Who wrote "A,]"?']
    listed = json.dumps(asked)
    assert asked == read_questions(listed) == read_questions(listed.replace('?"]', '?",]'))


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with that.",
        "I can't do that. Would you like something else?",
        "- Could you show the document?\n- What is your claim?",
        "Can I help with something else?\nWould you like that?",
        "1. Ilva Marrek opened the bridge.\n2. It opened in 1921.",
        "- The bridge opened in 1921.\n- Torbeck lies on the Osk.",
        f"- {WHO}\n- The bridge opened in 1921.",
        f"1. {WHO}\nIlva Marrek.\n2. {WHEN}",
        f"{WHEN}\n- {WHO}",
        WHO,
        f"{WHO} {WHEN}",
        f"<questions>\n1. {WHO}\n2. {WHEN}",
        f"<questions><question>{WHO}</question><question>{WHEN}",
        f"<questions><question>{WHO}</question>\n{WHEN}",
        f"<questions><question>{WHO}</question><questions><question>{WHEN}</question>",
        f'{{"questions": ["{WHO}",, "{WHEN}"]}}',
        f'{{"questions": ["{WHO}", "{WHEN}",',
        f"<questions><question>{WHO}</question><question>The year it opened</questions>",
        f"<questions><question>{WHO}<question>{WHEN}</questions>",
        f"<questions><question>{WHO}\n{WHEN}</questions>",
        f"<questions><question>{WHO}</question></question></questions>",
        "1. \n2. ",
        "Q1:\nQ2:",
        "\n".join(f"{number}. Is it {number}?" for number in range(1, 30)),
    ],
    ids=repr,
)
def test_what_is_no_list_of_questions(reply: str):
    """Refusals, statements, questions to the reader, cut or doubtful lists: asked again."""
    with pytest.raises(ValueError, match=r"\w"):
        read_questions(reply)
