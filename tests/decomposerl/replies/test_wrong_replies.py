"""Replies that went wrong in real runs, by kind: each in five forms or more, with its reading."""

import json
import time
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from baseline_parts import drive
from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import ModelCall, ModelReply, Procedure
from decomposerl.replies.lines import lines_of
from decomposerl.replies.lists import read_items
from decomposerl.replies.passages import read_numbers
from decomposerl.replies.predicates import read_predicates
from decomposerl.replies.verdicts import read_verdict
from decomposerl.rewards.format import conditions_met
from decomposerl.traces.grammar import parse_trace
from studies.reply_operations import OPERATIONS, reading
from studies.reply_rows import Row
from studies.reply_shapes import compared

KINDS = json.loads(Path(__file__).with_name("wrong_replies.json").read_text("utf-8"))
"""Rows of operation, reply and reading; a trace's faults may be left open with null."""
CLAIM = "Ada Holm built the mill in 1840."
CHAT = {method.name: method for method in ENTRY_METHODS if method.engine == "chat"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_that_went_wrong_is_read(kind: str):
    """By the reader of its operation; null where it has to be asked for again."""
    assert len(KINDS[kind]) >= 5
    for operation, reply, expected in KINDS[kind]:
        got = reading(Row(operation, reply, expected, CLAIM))
        if operation == "policy/trace":
            faults = expected[2] if expected[2] is not None else got[2]
            assert [*expected[:2], sorted(faults)] == [*got[:2], sorted(got[2])], reply
        else:
            shape = OPERATIONS[operation].shape
            assert "as expected" == compared(shape, expected, got), (reply, got)


def test_what_is_read_in_spite_of_its_tags_is_not_paid_as_form():
    """A verdict without its closing tag, and tags in capitals, meet no condition of the format."""
    whole = KINDS["a thought before the trace"][0][1].partition("</think>\n\n")[2]
    assert 8 == len(conditions_met(parse_trace(whole)))
    unclosed = parse_trace(whole.replace("</verification>", ""))
    assert ("Refuted", 5) == (unclosed.verdict, len(conditions_met(unclosed)))
    capitals = parse_trace(whole.upper())
    assert ("Refuted", 2, ()) == (capitals.verdict, len(capitals.cycles), conditions_met(capitals))


JSON_REPLIES = json.loads(Path(__file__).with_name("json_replies.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "procedure",
    [one for method in CHAT.values() for one in method.procedures.values()],
    ids=[f"{method.name}-{name}" for method in CHAT.values() for name in method.procedures],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_model_that_answers_in_json_gets_a_verdict(procedure: Procedure, indent: int | None):
    """From the first call to the last, without one that is repeated."""

    def reply(call: ModelCall, _: int) -> ModelReply:
        return ModelReply(json.dumps(JSON_REPLIES[call.template], indent=indent))

    ended = drive(procedure, reply).ended
    assert ("Refuted", 0) == (ended.verdict, ended.notes["asked_again"])


READERS = (lines_of, read_verdict, read_items, read_predicates, partial(read_numbers, most=7))


def test_time_grows_with_the_reply_and_no_faster():
    """Twice the repetitions take at most 2.5 times as long, or next to nothing."""
    units = ('{"a": [', '["a",\n', "{'a': ", '{"a": "b"}\n', "I would say ", "1. {\n", ": [", "<a>")
    for reader, unit in product(READERS, units):
        seconds = []
        for repetitions in (4_000, 8_000):
            started = time.process_time()
            reader(unit * repetitions)
            seconds.append(time.process_time() - started)
        assert seconds[1] < max(2.5 * seconds[0], 0.3), (reader, unit, seconds)
