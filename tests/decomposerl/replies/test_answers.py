"""Which verdict a reply has, form by form, and which replies have none."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from decomposerl.replies.answers import read_step, read_verdict
from strategies import LAW, any_text

FORMS = json.loads(Path(__file__).with_name("verdicts.json").read_text("utf-8"))
"""Replies by their verdict, replies that a limit cut, and answers of a step."""


def test_each_verdict_in_the_forms_that_models_give_it():
    """Markup, labels, reasons, thoughts and the verdicts of parts do not hide it."""
    wrong = [
        text
        for verdict in ("Supported", "Refuted")
        for text in FORMS[verdict]
        for around in ("{}", "<think>Supported or Refuted?</think>\n{}", "\n{} \n\n")
        if verdict != read_verdict(around.format(text))
    ]
    assert [] == wrong


def test_no_verdict_is_guessed():
    """A hedge, a condition, a part, silence, or two statements that disagree: no verdict."""
    assert [] == [text for text in FORMS["none"] if read_verdict(text) is not None]


def test_half_a_line_counts_only_with_its_reason():
    """Where the token limit cut a reply, its last line could have taken the verdict back."""
    assert FORMS["cut"] == {text: read_verdict(text, truncated=True) for text in FORMS["cut"]}


def test_a_step_is_answered_by_yes_or_no():
    """A comma, a stop or a bracket separates the word from its reason."""
    assert FORMS["steps"] == {text: [*read_step(text)] for text in FORMS["steps"]}


@LAW
@given(any_text, st.booleans())
def test_any_text_is_read(text: str, truncated: bool):  # noqa: FBT001 - drawn
    """Every text has a verdict or none; no reader raises."""
    assert read_verdict(text, truncated=truncated) in {None, "Supported", "Refuted"}
    assert read_step(text)[0] in {None, "true", "false", "unknown"}
