"""Silver replies in the forms that models use: read exactly, or asked again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.prompts.silver import read_questions
from strategies import LAW

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1)
questions = st.lists(
    words.filter(lambda text: bool(text.split()) and "think>" not in text), min_size=1, max_size=4
)
prose = st.text(st.characters(codec="utf-8", exclude_characters='{<"[`'), max_size=40)


@LAW
@given(questions, prose, prose)
def test_json_is_read_out_of_prose(asked: list[str], before: str, after: str):
    """A thought that the prompt opened, words around, a fence with words behind it."""
    plain = json.dumps({"questions": asked})
    expected = [" ".join(question.split()) for question in asked]
    for reply in (
        f"{before}</think>\n{plain}",
        f"<think>{before}</think>{plain}",
        f"{plain}\n{after}",
        f"{before}{plain}{after}",
        f"```json\n{plain}\n```\n{after}",
        f"{before}</think>\n```\n{plain}\n```\n{after}",
    ):
        assert expected == read_questions(reply)


def test_tags_behind_an_open_thought_are_read():
    """What was thought does not count, whatever list it held."""
    tags = "<questions><question>Is {it} so?</question></questions>"
    thought = '{"questions": ["no"]} <questions><question>no</question></questions></think>'
    assert ["Is {it} so?"] == read_questions(f"{thought}\n{tags}")
    assert ['Is {"a": 1} so?'] == read_questions(tags.replace("{it}", '{"a": 1}'))


@pytest.mark.parametrize(
    "reply",
    [
        '{"questions": ["Who?"]} or rather {"questions": ["When?"]}',
        'First {"a": 1}, then {"questions": ["Who?"]}',
        'Here: {"questions": "Who?"} as asked',
        'Here: {"questions": ["Who?", 3]} as asked',
        'Here: {"questions": ["Who?"',
        'Here: {"questions": [" "]}',
        '{"questions": ["Who?"]}</think>',
        '<think>a</think> {"questions": ["Who?"]} <think>b',
        "[" * 100_000,
        '{"questions":' * 100_000,
        'Here: {"questions": ' + "[" * 100_000,
    ],
)
def test_what_is_ambiguous_or_broken_is_refused(reply: str):
    """Two lists, another object before the list, a cut or nested one: never guessed at."""
    with pytest.raises(ValueError, match=r"\w"):
        read_questions(reply)
