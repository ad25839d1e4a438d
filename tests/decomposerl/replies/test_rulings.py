"""A judge's reply in the forms that models give it: read, or asked again, never guessed at."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.judge.call import Ruling
from decomposerl.replies.rulings import CRITERIA, Form, read_ruling
from strategies import LAW

FORMS = json.loads(Path(__file__).with_name("rulings.json").read_text("utf-8"))
"""For each reader replies in tags and in JSON with their rulings, and replies without one."""
READERS = get_args(Form)
each_reader = pytest.mark.parametrize("reader", READERS)
each_form = pytest.mark.parametrize("form", ["tags", "json"])


def ruling_of(reader: Form, reply: str, form: str) -> str | None:
    """The ruling as text; none where the reply has to be asked for again."""
    try:
        return Ruling(read_ruling(reply, reader, structured=form == "json")).text
    except ValueError:
        return None


@each_reader
@each_form
def test_the_form_that_was_asked_for_is_read(reader: Form, form: str):
    """The answer at the end counts, with marks, labels, fences and remarks, or the one object."""
    forms = FORMS[f"{reader} in {form}"]
    assert forms == {reply: ruling_of(reader, reply, form) for reply in forms}


@each_reader
def test_of_the_other_form_json_alone_is_read(reader: Form):
    """One object where tags were asked for is the ruling; tags where JSON was are refused."""
    tags, objects = FORMS[f"{reader} in tags"], FORMS[f"{reader} in json"]
    assert [] == [text for text in tags if ruling_of(reader, text, "json")]
    read = [(ruling_of(reader, text, "tags"), ruling) for text, ruling in objects.items()]
    assert [] == [pair for pair in read if pair[0] not in {None, pair[1]}]
    assert sum(found is not None for found, _ in read) > len(read) / 2


@each_reader
@each_form
def test_any_other_reply_is_refused(reader: Form, form: str):
    """Cut, doubled, hedged, taken back or in a form of its own: asked again, never guessed at."""
    forms = [*FORMS[f"no {reader} in {form}"], '{"answer": ' + "9" * 5_000 + "}"]
    forms.append('{"answer": ' + "[" * 100_000)
    assert [] == [reply for reply in forms if ruling_of(reader, reply, form) is not None]
    with pytest.raises(ValueError, match=r"\w"):
        read_ruling("", reader, structured=form == "json")


five = "\n".join(f"{name}:YES" for name in CRITERIA)
pieces = st.sampled_from(
    [
        *("<answer>", "</answer>", "<think>", "</think>", "0", "1", "SUPPORTED", five, "\n", " "),
        *('{"answer": ', "}", '"', "```json\n", "\n```", "not ", "{", "[", "analysis", ","),
    ]
)


@LAW
@given(st.lists(pieces, max_size=9).map("".join) | st.text(), st.sampled_from(["tags", "json"]))
def test_a_reply_is_read_or_refused(reply: str, form: str):
    """No text makes a parser fail in any other way, or rule what is no ruling."""
    patterns: dict[Form, str] = {
        "digit": "[01]",
        "coverage": "Supported|Refuted|NotEnoughInfo",
        "criteria": "[01]{5}",
    }
    for reader, pattern in patterns.items():
        ruling = ruling_of(reader, reply, form)
        assert ruling is None or re.fullmatch(pattern, ruling)
