"""Lists of questions in the forms that models write them in: read exactly, or asked again."""

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.prompts.silver import read_questions
from strategies import LAW

TWO = ["Who opened the bridge of Torbeck?", "In which year did it open?"]
FORMS = json.loads(Path(__file__).with_name("questions.json").read_text("utf-8"))
"""Replies that list these two questions, and replies that are no list of questions."""
TAGS = "<questions><question>{}</question></questions>"
words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1)
questions = st.lists(
    words.filter(lambda text: bool(text.split()) and "think>" not in text), min_size=1, max_size=4
)
prose = st.text(st.characters(codec="utf-8", exclude_characters='{<"[`'), max_size=40)
untagged = st.lists(words.filter(lambda text: text.split() and not set(text) & set("<>")))


def one_line(text: str) -> str:
    return " ".join(text.split())


def listed(reply: str) -> list[str] | None:
    """The questions; none where the reply has to be asked for again."""
    try:
        return read_questions(reply)
    except ValueError:
        return None


def test_two_questions():
    """In any list that models make of them, without its marks."""
    assert [] == [reply for reply in FORMS["two questions"] if listed(reply) != TWO]


def test_what_is_no_list_of_questions():
    """Refusals, statements, questions to the reader, cut or doubtful lists: asked again."""
    nested = [opening * 100_000 for opening in ("[", '{"questions":')]
    nested.append('Here: {"questions": ' + "[" * 100_000)
    assert [] == [reply for reply in [*FORMS["no list"], *nested] if listed(reply) is not None]
    with pytest.raises(ValueError, match=r"\w"):
        read_questions("")


@LAW
@given(questions, prose, prose)
def test_json_is_read_out_of_prose(asked: list[str], before: str, after: str):
    """A thought that the prompt opened, words around, a fence with words behind it."""
    plain = json.dumps({"questions": asked})
    for reply in (
        f"{before}</think>\n{plain}",
        f"<think>{before}</think>{plain}",
        f"{plain}\n{after}",
        f"{before}{plain}{after}",
        f"```json\n{plain}\n```\n{after}",
        f"{before}</think>\n```\n{plain}\n```\n{after}",
    ):
        assert list(map(one_line, asked)) == read_questions(reply)


@LAW
@given(untagged)
def test_questions_come_back_from_either_form(asked: list[str]):
    """Print and parse: JSON, fenced JSON, and tags after thinking give the same list."""
    tags = "".join(f"<question>{text}</question>\n" for text in asked)
    plain = json.dumps({"questions": asked}, ensure_ascii=False)
    thought = "<think>Maybe <questions><question>no</question></questions></think>\n"
    tagged = f"{thought}Here:\n<questions>\n{tags}</questions>"
    for reply in (plain, json.dumps(asked), f"```json\n{plain}\n```", tagged)[: 3 + bool(asked)]:
        assert list(map(one_line, asked)) == read_questions(reply)


@LAW
@given(st.text(string.printable))
def test_a_reply_is_read_or_refused(reply: str):
    """No text makes the parser fail in any other way."""
    assert all(listed(reply) or [])


def test_tags_behind_an_open_thought_are_read():
    """What was thought does not count, whatever list it held."""
    tags = TAGS.format("Is {it} so?")
    thought = '{"questions": ["no"]} <questions><question>no</question></questions></think>'
    assert ["Is {it} so?"] == read_questions(f"{thought}\n{tags}")
    assert ['Is {"a": 1} so?'] == read_questions(tags.replace("{it}", '{"a": 1}'))


def test_a_number_that_may_be_a_name_stays():
    """Numbers go where the questions are counted: "1. FC Torbeck" is a club."""
    assert ["1. FC Torbeck won what?"] == read_questions(TAGS.format("1. FC Torbeck won what?"))
    assert ["2. FC Torbeck won what?", "1. FC Ilva lost what?"] == read_questions(
        TAGS.format("2. FC Torbeck won what?</question><question>1. FC Ilva lost what?")
    )


def test_a_comma_inside_a_question_stays():
    """Only commas between values are dropped, and only where the JSON does not parse as it is."""
    asked = ["Is [1,] a list,}?", 'Who wrote "A,]"?']
    listed = json.dumps(asked)
    assert asked == read_questions(listed) == read_questions(listed.replace('?"]', '?",]'))
