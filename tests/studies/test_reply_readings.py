"""Each operation of a file of replies: its reading, and how readings compare."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import law
from studies import reply_shapes
from studies.reply_drive import drive
from studies.reply_operations import OPERATIONS, reading
from studies.reply_rows import Row, RowError
from studies.reply_shapes import accepted, compared

DIGITS = "<answer>{}</answer>"
CRITERIA = ("is_question", "single_focus", "no_conjunctions", "verifiable", "grounded")
WRITTEN_OUT = "Q1: Who built the mill?\nA1: Ada Holm.\nQ2: When?\nA2: In 1840.\n\nVerdict: Refuted"
TRACE = (
    "<think>two parts</think>"
    "<question>Who built it?</question><answer>Ada Holm.</answer><think>one left</think>"
    "<question>When?</question><answer>I don't know.</answer><think>done</think>"
    "<verification>Refuted</verification>"
)
PROGRAM = 'fact_1 = Verify("Ada Holm built the mill.")\nlabel = Predict(fact_1)'
READINGS: tuple[tuple[str, str, Any], ...] = (
    ("simple/faithful/verdict", "Refuted", "Refuted"),
    ("simple/faithful/verdict", "I would rather not say.", None),
    ("cot/faithful/verdict", "The mill is older.\nVerdict: Refuted", "Refuted"),
    ("few_shot/faithful/verdict", "The mill is older.\n\nVerdict: Refuted", "Refuted"),
    *(
        (operation, WRITTEN_OUT, ["Refuted", 2])
        for operation in OPERATIONS
        if operation.endswith("/single_call/single_call")
    ),
    ("self_ask/faithful/transcript", "Follow up: Who paid?", ["question", "Who paid?"]),
    ("self_ask/faithful/transcript", "NONE", ["none"]),
    (
        "self_ask/faithful/transcript",
        "No.\nSo the final answer is: Refuted",
        ["final", "Refuted"],
    ),
    ("self_ask/faithful/transcript", "Let me think about mills.", ["unread"]),
    ("self_ask/faithful/answer", "In 1840.", "text"),
    ("self_ask/faithful/answer", "Unknown", "unknown"),
    ("self_ask/faithful/verdict", "Supported", "Supported"),
    ("decomposed_prompting/faithful/next_step", "[lookup] Who paid?", ["lookup", "Who paid?"]),
    ("decomposed_prompting/faithful/next_step", "[check] #1 paid.", ["check", "#1 paid."]),
    ("decomposed_prompting/faithful/next_step", "[compare] Is #1 #2?", ["compare", "Is #1 #2?"]),
    ("decomposed_prompting/faithful/next_step", "NONE", ["end", ""]),
    ("decomposed_prompting/faithful/next_step", "I am thinking about mills.", ["", ""]),
    ("decomposed_prompting/faithful/lookup", "Ada Holm", "text"),
    ("decomposed_prompting/faithful/compare", "Unknown", "unknown"),
    ("decomposed_prompting/faithful/check", "Yes, so it says.", "true"),
    ("decomposed_prompting/faithful/check", "No", "false"),
    ("decomposed_prompting/faithful/check", "Unknown", "unknown"),
    ("decomposed_prompting/faithful/check", "Mills turn.", None),
    ("decomposed_prompting/faithful/verdict", "Refuted", "Refuted"),
    ("hiss/faithful/split", "NONE", 0),
    ("hiss/faithful/split", "1. Ada built it.\n2. It burnt down.", 2),
    ("hiss/faithful/work_through", "Q1: Who?\nSure: no\nA1: Ada.\nQ2: When?\nA2: 1840.", 2),
    ("hiss/faithful/work_through", "Mills turn.", 0),
    ("hiss/faithful/verdict", " Supported", "Supported"),
    ("folk/faithful/predicates", "1. Old(mill) | The mill is old. | How old is it?", [1, 1]),
    ("folk/faithful/predicates", "1. Old(mill) | The mill is old.", [1, 1]),
    ("folk/faithful/answer", "Unknown", "unknown"),
    ("folk/faithful/verdict", "1: True - a\n2: False - b\n[Refuted]", ["true false", "Refuted"]),
    ("program_fc/faithful/program", PROGRAM, ["ok", 1]),
    ("program_fc/faithful/program", "import os", ["rejected", "no call of the language"]),
    ("program_fc/faithful/answer", "Ada Holm", "text"),
    ("program_fc/faithful/check", "False", "false"),
    ("program_fc/faithful/check", "Unknown", "unknown"),
    ("program_fc/faithful/check", "Mills turn.", None),
    ("chen_2024/faithful/questions", "1. Is it old?\n2. Who built it?", [2, 1]),
    ("chen_2024/faithful/select", "8, 1", [8, 1]),
    ("chen_2024/faithful/select", "NONE", []),
    ("chen_2024/faithful/select", "Mills turn.", None),
    ("chen_2024/faithful/summary", "The mill is old.", "text"),
    ("chen_2024/faithful/verdict", "Supported", "Supported"),
    (
        "claimdecomp/faithful/questions",
        "1. Is it old? | yes\n2. Is it new? | no",
        ["true", "false"],
    ),
    ("claimdecomp/faithful/answer", "No", "false"),
    ("claimdecomp/faithful/answer", "Unknown", "unknown"),
    ("claimdecomp/faithful/answer", "Mills turn.", None),
    ("qacheck/faithful/first_question", "Who paid?", "Who paid?"),
    ("qacheck/faithful/next_question", "Who paid?", "Who paid?"),
    ("qacheck/faithful/next_question", "NONE", None),
    ("qacheck/faithful/answer", "Ada Holm built it.", "text"),
    ("qacheck/faithful/sufficient", "Yes", "true"),
    ("qacheck/faithful/sufficient", "No", "false"),
    ("qacheck/faithful/sufficient", "Mills turn.", None),
    ("qacheck/faithful/statement", "Ada Holm built the mill.", "text"),
    ("qacheck/faithful/statement", "", None),
    ("qacheck/faithful/verdict", "Refuted", "Refuted"),
    ("silver/tags", "<questions><question>Who built it?</question></questions>", 1),
    ("silver/json", '{"questions": ["Who built it?", "When?"]}', 2),
    ("judge/answerability/tags", DIGITS.format(1), "1"),
    ("judge/answerability/json", '{"analysis": "", "answer": 0}', "0"),
    ("judge/correctness/tags", DIGITS.format(0), "0"),
    ("judge/correctness/json", '{"analysis": "", "answer": 1}', "1"),
    ("judge/atomicity/tags", DIGITS.format("\n".join(f"{one}:YES" for one in CRITERIA)), "11111"),
    ("judge/atomicity/json", json.dumps(dict.fromkeys(CRITERIA, "NO") | {"analysis": ""}), "00000"),
    ("judge/coverage/tags", DIGITS.format("NOT_ENOUGH_INFO"), "NotEnoughInfo"),
    ("judge/coverage/json", '{"analysis": "", "verdict": "REFUTED"}', "Refuted"),
    ("minicheck/user", 'No [["No", -0.1], ["Yes", -2.5]]', [0.082, 0.905]),
    ("policy/trace", TRACE, ["Refuted", 2, []]),
    ("policy/answer/abstention", "I don't know.", True),
    ("policy/answer/abstention", "In 1840.", False),
)


@pytest.mark.parametrize(
    ("operation", "reply", "expected"), READINGS, ids=lambda value: str(value)[:40]
)
def test_a_plain_reply_is_read_by_the_operations_own_reader(
    operation: str, reply: str, expected: object
):
    """Whatever the reading is, it is of the operation's shape and compares as expected."""
    got = reading(Row(operation, reply, expected))
    assert accepted(OPERATIONS[operation].shape, got)
    assert "as expected" == compared(OPERATIONS[operation].shape, expected, got), got


def test_every_operation_has_a_reply_above():
    """A new operation needs one too."""
    assert set(OPERATIONS) == {operation for operation, _, _ in READINGS}


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"minicheck/user"}))
@law(12)
@given(reply=st.text("NOne yesQA12:.?|[]<>\n{}\"'-") | st.text())
def test_any_reply_has_a_reading_of_its_operations_shape(operation: str, reply: str):
    """Readers refuse by a ``ValueError``, which becomes a text, never by another exception."""
    for truncated in (False, True):
        got = reading(Row(operation, reply, None, truncated=truncated))
        assert accepted(OPERATIONS[operation].shape, got)


@pytest.mark.parametrize("reply", ["", "Yes", "Yes [[]]", 'Yes [["Yes", 1]]', "Yes [[1]]", "[[[["])
def test_a_token_without_its_alternatives_is_a_fault_of_the_file(reply: str):
    """It says nothing about the reader."""
    with pytest.raises(RowError) as refused:
        reading(Row("minicheck/user", reply, None))
    assert "reply" == refused.value.field


@pytest.mark.parametrize(
    ("shape", "expected", "got", "outcome"),
    [
        ("VERDICT", "Refuted", "Refuted", "as expected"),
        ("VERDICT", "Refuted", "Supported", "silently wrong"),
        ("VERDICT", "Refuted", None, "unread"),
        ("VERDICT", None, "Refuted", "silently wrong"),
        ("VERDICT", None, None, "as expected"),
        ("QUESTIONS", "ValueError: one wording", "ValueError: another", "as expected"),
        ("QUESTIONS", "ValueError: one wording", 2, "silently wrong"),
        ("QUESTIONS", 2, "ValueError: any", "unread"),
        ("QUESTIONS", 0, 0, "as expected"),
        ("PAIRS", 2, 0, "unread"),
        ("PAIRS", 2, 1, "silently wrong"),
        ("SUB_CLAIMS", 1, 0, "as expected"),
        ("SUB_CLAIMS", 2, 0, "silently wrong"),
        ("WRITTEN_OUT", ["Refuted", 2], [None, 2], "unread"),
        ("WRITTEN_OUT", ["Refuted", 2], ["Refuted", 0], "silently wrong"),
        ("WRITTEN_OUT", [None, 2], ["Refuted", 2], "silently wrong"),
        ("WRITTEN_OUT", [None, 2], [None, 2], "as expected"),
        ("WRITTEN_OUT", [None, 2], [None, 0], "unread"),
        ("TURN", ["none"], ["unread"], "unread"),
        ("TURN", ["none"], ["question", "Who?"], "silently wrong"),
        ("STEP", ["lookup", "Who?"], ["", ""], "unread"),
        ("STEP", ["lookup", "Who?"], ["end", ""], "silently wrong"),
        ("NUMBERS", [], None, "unread"),
        ("NUMBERS", [], [1], "silently wrong"),
        ("SUFFICIENT", "unknown", "false", "as expected"),
        ("SUFFICIENT", "unknown", "true", "silently wrong"),
        ("PROGRAM", ["ok", 3], ["rejected", "syntax"], "unread"),
        ("PROGRAM", ["rejected", "syntax"], ["ok", 3], "silently wrong"),
        ("YES_AND_NO", [0.954, 0.041], [0.955, 0.041], "as expected"),
        ("YES_AND_NO", [0.502, 0.498], [0.498, 0.502], "silently wrong"),
        ("TRACE", ["Refuted", 2, []], ["Refuted", 2, ["unclosed"]], "unread"),
        ("TRACE", ["Refuted", 2, ["unclosed"]], ["Refuted", 2, ["unclosed"]], "as expected"),
        ("TRACE", ["Refuted", 2, []], ["Refuted", 3, []], "silently wrong"),
        ("TRACE", ["Refuted", 2, []], ["Supported", 2, []], "silently wrong"),
        ("TRACE", ["Refuted", 2, []], [None, 2, ["unknown_verdict"]], "unread"),
        ("TRACE", [None, 2, []], [None, 2, ["unknown_verdict"]], "as expected"),
        ("TRACE", [None, 2, []], ["Refuted", 2, []], "silently wrong"),
        ("ABSTENTION", True, False, "silently wrong"),
    ],
)
def test_outcomes(shape: str, expected: object, got: object, outcome: str):
    """A lost reading is unread, another one is silently wrong, error texts are no reading."""
    one: reply_shapes.Shape = getattr(reply_shapes, shape)
    assert accepted(one, expected)
    assert outcome == compared(one, expected, got)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("simple/faithful/verdict", "Suported"),
        ("claimdecomp/faithful/questions", [["true"]]),
        ("self_ask/faithful/transcript", [[], "Who?"]),
        ("judge/correctness/tags", 1),
        ("hiss/faithful/split", True),
        ("hiss/faithful/split", -1),
        ("minicheck/user", [0.5, 2]),
        ("policy/trace", ["Refuted", 2, [{}]]),
        ("policy/trace", ["Refuted", 2]),
    ],
)
def test_an_expected_value_of_another_shape_is_refused(operation: str, expected: object):
    """A misspelt label would be counted as silently wrong."""
    assert not accepted(OPERATIONS[operation].shape, expected)


def test_a_reply_is_cut_where_the_call_stops():
    """What an endpoint would not have sent is not read; then the token limit cut nothing."""
    operation = "hiss/faithful/work_through"
    reply = "Q1: Who?\nA1: Ada.\nSub-claim 2: more\nQ2: When?\nA2: 1840."
    assert 1 == reading(Row(operation, reply, 1))
    assert 1 == reading(Row(operation, reply, 1, truncated=True))
    assert 1 == reading(Row(operation, reply.replace("Sub-claim 2: more\n", ""), 1, truncated=True))


def test_a_truncated_reply_of_the_judge_is_unread():
    """As in a run: the client refuses it, even where its answer is whole."""
    row = Row("judge/correctness/tags", DIGITS.format(1), "1", truncated=True)
    assert "unread" == compared(OPERATIONS[row.operation].shape, "1", reading(row))


def test_numbers_are_read_in_the_range_of_the_prompt():
    """The prompt says how many passages there are; without it, 99."""
    prompt = "Passages:\n1. one\n2. two\n3. three\n\nWhich year, 1840. or later?"
    row = Row("chen_2024/faithful/select", "4", None, prompt=prompt)
    assert reading(row) is None
    assert [4] == reading(Row("chen_2024/faithful/select", "4", [4]))


def test_a_call_without_a_written_reply_is_an_error():
    """It names the template: a method that asks something new needs a plain reply for it."""
    with pytest.raises(LookupError, match="'single_call'"):
        drive(Row("self_ask/single_call/transcript", "Follow up: Who?", None))
    with pytest.raises(LookupError, match="no call of this template"):
        drive(Row("self_ask/faithful/check", "Yes", None))
