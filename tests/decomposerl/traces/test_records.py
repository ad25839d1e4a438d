"""Traces to be scored, from JSONL lines: what is read, what is left out, and what is said."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decomposerl.schemas import VERDICTS
from decomposerl.traces.record_fields import FIELDS
from decomposerl.traces.records import (
    Problem,
    TraceRecord,
    group_of,
    read_trace_records,
    read_trace_rows,
)

TRACE = (
    "<think>t</think>\n<question>q?</question>\n<answer>a.</answer>\n<think>t</think>\n"
    "<question>r?</question>\n<answer>b.</answer>\n<think>t</think>\n"
    "<verification>Refuted</verification>"
)
FULL = {
    "claim": "c",
    "evidence": "e",
    "trace": TRACE,
    "label": "Refuted",
    "n_star": 2,
    "questions": ["q?", "r?"],
    "group": "g",
    "rollout": 5,
    "truncated": True,
}


def line(**changes: object) -> str:
    """A line with the three fields that must be there, and ``changes``."""
    return json.dumps({"claim": "c", "evidence": "e", "trace": TRACE, **changes})


def read(*lines: str) -> tuple[list[TraceRecord], list[Problem]]:
    return read_trace_records(lines, "t.jsonl")


def one(**changes: object) -> TraceRecord:
    """The only record of a line that has no problem."""
    (record,), problems = read(line(**changes))
    assert problems == []
    return record


def refusal(**changes: object) -> tuple[str, str]:
    """Field and reason of the only problem of a line that is left out."""
    records, (problem,) = read(line(**changes))
    assert records == []
    assert problem.dropped
    return problem.field, problem.reason


def test_every_field_is_read():
    """A full line gives its values as they stand."""
    expected = TraceRecord(1, "c", "e", TRACE, "Refuted", 2, "g", 5, truncated=True)
    assert expected == one(**FULL)
    assert set(FIELDS) == set(FULL)


def test_a_record_gives_a_rollout():
    """The rollout is the record with its trace parsed."""
    rollout = one(**FULL).rollout()
    assert ("c", "e", "Refuted", 2) == (
        rollout.claim,
        rollout.evidence,
        rollout.label,
        rollout.n_star,
    )
    assert ("g", 5, True) == (rollout.group, rollout.number, rollout.truncated)
    assert ["q?", "r?"] == [cycle.question for cycle in rollout.trace.cycles]
    assert rollout.trace.verdict == "Refuted"


def test_the_least_line():
    """Three fields are enough; nothing is made up for the others."""
    expected = TraceRecord(1, "c", "e", TRACE, None, None, group_of("c", "e"), 0, truncated=False)
    assert expected == one()


@pytest.mark.parametrize("name", ["label", "n_star", "questions", "group", "rollout", "truncated"])
def test_null_is_absent(name: str):
    """Exporters write null for what is not there."""
    assert one() == one(**{name: None})


def test_a_number_without_a_name_is_free():
    """A line that gives no number takes one that no line before it has."""
    records, problems = read(line(group=7, rollout=1), line(group=7), line(group="7"))
    assert [("7", 1), ("7", 0), ("7", 2)] == [(record.group, record.number) for record in records]
    assert [] == problems


def test_an_empty_trace_is_a_trace():
    """A policy that wrote nothing is scored like any other."""
    assert one(trace="").text == ""


def test_passages_are_joined_with_line_breaks():
    """Evidence may come as a list; blank passages are no passages."""
    assert one(evidence=["one.", " ", "two."]).evidence == "one.\ntwo."


@pytest.mark.parametrize("spelling", ["Supported", "supported", "SUPPORTED", " Supported "])
def test_label_spellings(spelling: str):
    """Letter case and white space around a label do not matter."""
    assert one(label=spelling).label == "Supported"


@pytest.mark.parametrize("value", ["not supported", "Supported.", "NEI", "", "true"])
def test_no_label_by_substring(value: str):
    """Anything but the two labels is refused by name, never read as the nearest one."""
    assert refusal(label=value) == ("label", f"'{value}' is neither Supported nor Refuted")


def test_a_third_label_is_read_where_it_is_offered():
    """In both spellings; the trace may end with it, too, and the refusal names all three."""
    third = TRACE.replace("Refuted", "Not Enough Information")
    for spelling in (" not enough INFORMATION", "NotEnoughInfo"):
        text = line(label=spelling, trace=third)
        (record,), problems = read_trace_records([text], "t.jsonl", VERDICTS)
        assert (problems, record.label) == ([], "NotEnoughInfo")
        assert "NotEnoughInfo" == record.rollout().trace.verdict
    assert one(trace=third).rollout().trace.verdict is None
    _, (problem,) = read_trace_records([line(label="NEI")], "t.jsonl", VERDICTS)
    assert "'NEI' is neither Supported, Refuted nor Not Enough Information" == problem.reason


def test_silver_questions_give_n_star():
    """Without a number, n* is the number of different questions that hold text."""
    assert one(questions=["a?", "b?", "a? ", ""]).n_star == 2
    assert one(questions=[]).n_star is None
    assert one(questions=["a?", "b?"], n_star=2).n_star == 2
    assert one(n_star=3.0).n_star == 3


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "claim of another type": ({"claim": 7}, ("claim", "a number instead of a text")),
    "null claim": ({"claim": None}, ("claim", "is null")),
    "blank claim": ({"claim": " "}, ("claim", "is blank")),
    "evidence as an object": ({"evidence": {}}, ("evidence", "an object instead of a text")),
    "no passage": ({"evidence": [""]}, ("evidence", "holds no passage with text")),
    "passage of another type": (
        {"evidence": ["a", 1]},
        ("evidence", "a number in a list of texts"),
    ),
    "trace of another type": ({"trace": ["t"]}, ("trace", "a list instead of a text")),
    "label of another type": (
        {"label": True},
        ("label", "true or false is neither Supported nor Refuted"),
    ),
    "n* below one": ({"n_star": 0}, ("n_star", "0 is not within 1 to 1000000")),
    "n* of another type": ({"n_star": True}, ("n_star", "true or false instead of a whole number")),
    "broken n*": ({"n_star": 2.5}, ("n_star", "a number instead of a whole number")),
    "n* that is no number": (
        {"n_star": float("nan")},
        ("n_star", "a number instead of a whole number"),
    ),
    "n* against questions": (
        {"n_star": 3, "questions": ["a?", "b?"]},
        ("n_star", "3, but there are 2 different questions"),
    ),
    "questions as a text": (
        {"questions": "a?"},
        ("questions", "a text instead of a list of texts"),
    ),
    "group of another type": ({"group": 3.5}, ("group", "a number instead of a text")),
    "blank group": ({"group": ""}, ("group", "is blank")),
    "rollout below zero": ({"rollout": -1}, ("rollout", "-1 is not within 0 to 1000000")),
    "rollout beyond all": (
        {"rollout": 10**40},
        ("rollout", f"{10**40} is not within 0 to 1000000"),
    ),
    "truncated as a text": ({"truncated": "no"}, ("truncated", "a text instead of true or false")),
    "half a character": (
        {"claim": "a\ud800"},
        ("claim", "holds half of a surrogate pair, which is no character"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_field_that_cannot_be_read(name: str):
    """The line is left out, and the problem names the field and the reason."""
    changes, expected = REFUSED[name]
    assert expected == refusal(**changes)


@pytest.mark.parametrize("name", ["claim", "evidence", "trace"])
def test_what_must_be_there(name: str):
    """A missing field is named as missing."""
    values = {"claim": "c", "evidence": "e", "trace": TRACE}
    del values[name]
    records, (problem,) = read(json.dumps(values))
    assert records == []
    assert Problem("t.jsonl", 1, name, "is missing") == problem


def test_rows_are_read_as_lines_are():
    """The same records and problems; rows count from 0 and are called so."""
    values = [json.loads(line(group="g")), json.loads(line(group="g", label="x")), 3]
    lines = [json.dumps(one) for one in values]
    records, problems = read_trace_rows(values, "rows")
    from_lines, their_problems = read_trace_records(lines, "rows")
    assert [replace(one, line=one.line + 1) for one in records] == from_lines
    assert [(one.line + 1, one.field, one.reason) for one in problems] == [
        (one.line, one.field, one.reason) for one in their_problems
    ]
    assert "rows, row 1, field 'label': 'x' is neither Supported nor Refuted" == str(problems[0])
    assert "rows, line 2, field 'label'" in str(their_problems[0])


def test_every_problem_of_a_line_is_named():
    """So that a file can be fixed in one go."""
    records, problems = read(line(claim="", label="x", rollout="1", truncated=1))
    assert records == []
    assert ["claim", "label", "rollout", "truncated"] == [problem.field for problem in problems]


@pytest.mark.parametrize(
    "bad",
    ["{", "nonsense", "[]", '"text"', "null", "3", "[" * 100_000, "{}", line(claim=1), "9" * 5_000],
)
def test_a_bad_line_never_stops_the_rest(bad: str):
    """What stands beside a bad line is read, under its own line number."""
    records, problems = read(line(), bad, line())
    assert [(1, 0), (3, 1)] == [(record.line, record.number) for record in records]
    assert {(2, True)} == {(problem.line, problem.dropped) for problem in problems}


def test_blank_lines_count_as_lines():
    """Line numbers are those that an editor shows."""
    records, problems = read("\n", line(), "  \n")
    assert [2] == [record.line for record in records]
    assert problems == []


def test_a_byte_order_mark_is_no_content():
    """Some editors begin a file with one."""
    records, problems = read("\ufeff" + line())
    assert 1 == len(records)
    assert problems == []


def test_unread_fields_are_reported_once():
    """A field beyond the contract costs nothing and is said where it first stands."""
    records, problems = read(line(), line(model="m"), line(model="m", messages=[]))
    assert 3 == len(records)
    reason = "is not read, here and in later lines"
    assert [
        Problem("t.jsonl", 2, "model", reason, dropped=False),
        Problem("t.jsonl", 3, "messages", reason, dropped=False),
    ] == problems


def test_records_of_one_prompt_are_one_group():
    """Equal claim and evidence make a group, numbered by position; others do not join it."""
    records, problems = read(line(), line(claim="d"), line(), line(evidence="f"))
    assert problems == []
    assert [0, 0, 1, 0] == [record.number for record in records]
    assert 3 == len({record.group for record in records})
    assert records[0].group == records[2].group


def test_claim_and_evidence_cannot_be_exchanged():
    """Two texts cut at another place are another prompt."""
    assert 2 == len({group_of("a", "b c"), group_of("a b", "c")})


@pytest.mark.parametrize(
    ("name", "value"), [("claim", "d"), ("evidence", "f"), ("label", "Refuted"), ("n_star", 4)]
)
def test_a_group_is_one_prompt(name: str, value: object):
    """Rollouts of a group are compared with each other, so they answer the same."""
    first, other = line(group="g"), line(**{"group": "g", name: value})
    records, problems = read(first, other, first)
    assert [1, 3] == [record.line for record in records]
    assert [Problem("t.jsonl", 2, name, "differs from line 1 of the same group")] == problems


def test_a_number_stands_once_in_its_group():
    """The same rollout twice would count twice."""
    records, problems = read(line(rollout=2), line(rollout=2), line(claim="d", rollout=2))
    assert [1, 3] == [record.line for record in records]
    reason = "2 is the number of line 1 of the same group"
    assert [Problem("t.jsonl", 2, "rollout", reason)] == problems


@pytest.mark.timeout(120)
def test_a_group_of_many_rollouts_is_numbered_in_linear_time():
    """Each takes the least free number, which is not looked for from 0 on."""
    lines = [line(rollout=7), line(rollout=0), *[line()] * 80_000]
    records, problems = read(*lines)
    assert not problems
    numbers = [record.number for record in records]
    assert [7, 0, 1, 2, 3, 4, 5, 6, 8] == numbers[:9]
    assert 80_001 == numbers[-1]


def test_a_problem_reads_as_one_line():
    """File, line, field and reason, in this order."""
    assert str(Problem("a.jsonl", 3, "label", "is odd")) == "a.jsonl, line 3, field 'label': is odd"
    assert str(Problem("a.jsonl", 3, "", "is odd")) == "a.jsonl, line 3: is odd"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
LINES = (
    st.text()
    | JSON.map(json.dumps)
    | st.fixed_dictionaries(
        {
            "claim": st.sampled_from(["c", "d"]) | JSON,
            "evidence": JSON | st.just("e"),
            "trace": st.text(),
        },
        optional={name: JSON | st.just(FULL[name]) for name in FIELDS[3:]},
    ).map(json.dumps)
)


@given(st.lists(LINES, max_size=6))
@example(['{"claim": "\\ud800", "label": "\\ud800", "\\ud800": 1}'])
def test_each_line_is_a_record_or_a_problem(lines: list[str]):
    """Nothing raises; a line that is not blank is read or dropped with a reason, never both."""
    records, problems = read(*lines)
    kept = {record.line for record in records}
    dropped = {problem.line for problem in problems if problem.dropped}
    assert kept.isdisjoint(dropped)
    assert kept | dropped == {n for n, text in enumerate(lines, start=1) if text.strip()}
    assert len({(record.group, record.number) for record in records}) == len(records)
    assert all(str(problem).encode() for problem in problems)
