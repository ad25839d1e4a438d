"""Traces to be scored, from JSONL lines: what is read, what is left out, and what is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decomposerl.schemas import VERDICTS
from decomposerl.traces.records import (
    FIELDS,
    Problem,
    TraceRecord,
    group_of,
    read_trace_records,
    read_trace_rows,
)

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

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
    """A full line gives its values as they stand; the rollout is the record with its trace."""
    expected = TraceRecord(1, "c", "e", TRACE, "Refuted", 2, "g", 5, truncated=True)
    assert (expected, set(FULL)) == (one(**FULL), set(FIELDS))
    rollout = one(**FULL).rollout()
    prompt = rollout.claim, rollout.evidence, rollout.label, rollout.n_star
    assert ("c", "e", "Refuted", 2) == prompt
    assert ("g", 5, True) == (rollout.group, rollout.number, rollout.truncated)
    assert ["q?", "r?"] == [cycle.question for cycle in rollout.trace.cycles]
    assert rollout.trace.verdict == "Refuted"
    least = TraceRecord(1, "c", "e", TRACE, None, None, group_of("c", "e"), 0, truncated=False)
    assert least == one()


def test_what_lines_may_leave_open():
    """Null is absent, a trace may be empty, evidence a list of passages, a label in any case."""
    for name in ("label", "n_star", "questions", "group", "rollout", "truncated"):
        assert one() == one(**{name: None})
    assert one(trace="").text == ""
    assert one(evidence=["one.", " ", "two."]).evidence == "one.\ntwo."
    for spelling in ("Supported", "supported", "SUPPORTED", " Supported "):
        assert one(label=spelling).label == "Supported"
    records, problems = read("\n", line(), "  \n")
    assert ([2], []) == ([record.line for record in records], problems)
    assert 1 == len(read("\ufeff" + line())[0])


def test_a_number_without_a_name_is_free():
    """A line that gives no number takes one that no line before it has."""
    records, problems = read(line(group=7, rollout=1), line(group=7), line(group="7"))
    assert [("7", 1), ("7", 0), ("7", 2)] == [(record.group, record.number) for record in records]
    assert [] == problems


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
    for name in ("'NEI'", "Supported", "Refuted", "Not Enough Information"):
        assert name in problem.reason


def test_silver_questions_give_n_star():
    """Without a number, n* is the number of different questions that hold text."""
    given = [{"questions": ["a?", "b?", "a? ", ""]}, {"questions": []}, {"n_star": 3.0}]
    given.append({"questions": ["a?", "b?"], "n_star": 2})
    assert [2, None, 3, 2] == [one(**changes).n_star for changes in given]


@pytest.mark.parametrize(("changes", "field", "words"), TABLES["a field that cannot be read"])
def test_a_field_that_cannot_be_read(changes: dict[str, Any], field: str, words: str):
    """The line is left out; the problem names the field, what stands there and what may."""
    named, reason = refusal(**changes)
    assert field == named
    assert [] == [word for word in words.split() if word not in reason]


TOO_LARGE: tuple[tuple[str, dict[str, object], str], ...] = (
    ("trace", {"trace": "ü" * 128_001}, "is 256,002 bytes long; at most 256,000"),
    ("trace", {"trace": "<question>" * 1_001}, "holds 1,001 questions; at most 1,000"),
    ("claim", {"claim": "a" * 16_001}, "is 16,001 bytes long"),
    ("evidence", {"evidence": ["a" * 1_000_000] * 2}, "is 2,000,001 bytes long"),
    (
        "trace",
        {"evidence": "a" * 1_000_000, "trace": "<question>" * 201},
        "asks 201 questions of 1,000,000 bytes of evidence; at most 200",
    ),
)


@pytest.mark.parametrize(("field", "changes", "said"), TOO_LARGE, ids=lambda one: str(one)[:30])
def test_what_is_larger_than_any_rollout_holds_up_nobody(
    field: str, changes: dict[str, object], said: str
):
    """Each size has a limit, and so has the work that a trace makes of its evidence."""
    named, reason = refusal(**changes)
    assert (field, True) == (named, reason.startswith(said))


@pytest.mark.parametrize("name", ["claim", "evidence", "trace"])
def test_what_must_be_there(name: str):
    """A missing field is named as missing."""
    values = {"claim": "c", "evidence": "e", "trace": TRACE}
    del values[name]
    records, (problem,) = read(json.dumps(values))
    assert ([], 1, name, "is missing") == (records, problem.line, problem.field, problem.reason)


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
    assert str(problems[0]).startswith("rows, row 1, field 'label': ")
    assert str(their_problems[0]).startswith("rows, line 2, field 'label': ")
    assert "a.jsonl, line 3: odd" == str(Problem("a.jsonl", 3, "", "odd"))


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


def test_unread_fields_are_reported_once():
    """A field beyond the contract costs nothing and is said where it first stands."""
    records, problems = read(line(), line(model="m"), line(model="m", messages=[]))
    assert 3 == len(records)
    said = [(problem.line, problem.field, problem.dropped) for problem in problems]
    assert [(2, "model", False), (3, "messages", False)] == said


def test_records_of_one_prompt_are_one_group():
    """Equal claim and evidence make a group, numbered by position; others do not join it."""
    records, problems = read(line(), line(claim="d"), line(), line(evidence="f"))
    assert problems == []
    assert [0, 0, 1, 0] == [record.number for record in records]
    assert 3 == len({record.group for record in records})
    assert records[0].group == records[2].group
    assert 2 == len({group_of("a", "b c"), group_of("a b", "c")})


OTHERS = {"claim": "d", "evidence": "f", "label": "Refuted", "n_star": 4}
CLASHES = {
    name: [line(group="g"), line(**{"group": "g", name: value}), line(group="g")]
    for name, value in OTHERS.items()
} | {"rollout": [line(rollout=2), line(rollout=2), line(claim="d", rollout=2)]}


@pytest.mark.parametrize(("name", "lines"), CLASHES.items())
def test_a_group_is_one_prompt_with_each_number_once(name: str, lines: list[str]):
    """Its rollouts are compared, so they answer the same; the same one twice would count twice."""
    records, problems = read(*lines)
    assert [1, 3] == [record.line for record in records]
    assert [(2, name, True)] == [(one.line, one.field, one.dropped) for one in problems]
    assert "line 1" in problems[0].reason


@pytest.mark.timeout(20)
def test_a_group_of_many_rollouts_is_numbered_in_linear_time():
    """Each takes the least free number, which is not looked for from 0 on."""
    lines = [line(rollout=7), line(rollout=0), *[line()] * 40_000]
    records, problems = read(*lines)
    assert not problems
    numbers = [record.number for record in records]
    assert [7, 0, 1, 2, 3, 4, 5, 6, 8] == numbers[:9]
    assert 40_001 == numbers[-1]


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
