"""Traces to be scored, from JSONL lines: what is read, what is left out, and what is said."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from decomposerl.schemas import VERDICTS
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.records import (
    FIELDS,
    Problem,
    group_of,
    read_trace_records,
    read_trace_rows,
)
from decomposerl.traces.rollout import Rollout

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


def read(*lines: str) -> tuple[dict[int, Rollout], list[Problem]]:
    return read_trace_records(lines, "t.jsonl")


def one(**changes: object) -> Rollout:
    """The only rollout of a line that has no problem."""
    rollouts, problems = read(line(**changes))
    assert ([], [1]) == (problems, [*rollouts])
    return rollouts[1]


def refusal(**changes: object) -> tuple[str, str]:
    """Field and reason of the only problem of a line that is left out."""
    rollouts, (problem,) = read(line(**changes))
    assert rollouts == {}
    assert problem.dropped
    return problem.field, problem.reason


def test_every_field_is_read():
    """A full line gives its values as they stand, and the trace parsed."""
    trace = parse_trace(TRACE)
    expected = Rollout("g", 5, "c", "e", trace, "Refuted", 2, truncated=True)
    assert (expected, set(FULL)) == (one(**FULL), set(FIELDS))
    assert (["q?", "r?"], "Refuted") == ([each.question for each in trace.cycles], trace.verdict)
    assert Rollout(group_of("c", "e"), 0, "c", "e", trace) == one()


def test_what_lines_may_leave_open():
    """Null is absent, a trace may be empty, evidence a list of passages, a label in any case."""
    for name in ("label", "n_star", "questions", "group", "rollout", "truncated"):
        assert one() == one(**{name: None})
    assert () == one(trace="").trace.blocks
    assert one(evidence=["one.", " ", "two."]).evidence == "one.\ntwo."
    for spelling in ("Supported", "supported", "SUPPORTED", " Supported "):
        assert one(label=spelling).label == "Supported"
    rollouts, problems = read("\n", line(), "  \n")
    assert ([2], []) == ([*rollouts], problems)
    assert 1 == len(read("\ufeff" + line())[0])


def test_a_number_without_a_name_is_free():
    """A line that gives no number takes one that no line before it has."""
    rollouts, problems = read(line(group=7, rollout=1), line(group=7), line(group="7"))
    assert [("7", 1), ("7", 0), ("7", 2)] == [(one.group, one.number) for one in rollouts.values()]
    assert [] == problems


def test_a_third_label_is_read_where_it_is_offered():
    """In both spellings; the trace may end with it, too, and the refusal names all three."""
    third = TRACE.replace("Refuted", "Not Enough Information")
    for spelling in (" not enough INFORMATION", "NotEnoughInfo"):
        text = line(label=spelling, trace=third)
        rollouts, problems = read_trace_records([text], "t.jsonl", VERDICTS)
        found = problems, rollouts[1].label, rollouts[1].trace.verdict
        assert ([], "NotEnoughInfo", "NotEnoughInfo") == found
    assert one(trace=third).trace.verdict is None
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
)


@pytest.mark.parametrize(("field", "changes", "said"), TOO_LARGE, ids=lambda one: str(one)[:30])
def test_what_is_larger_than_any_rollout_holds_up_nobody(
    field: str, changes: dict[str, object], said: str
):
    """Each size has a limit, and so has what a judge is asked; a trainer's trace has none."""
    named, reason = refusal(**changes)
    assert (field, True) == (named, reason.startswith(said))
    rollouts, _ = read_trace_rows([json.loads(line(**changes))], "rows")
    assert (field == "trace") == bool(rollouts)


@pytest.mark.parametrize("name", ["claim", "evidence", "trace"])
def test_what_must_be_there(name: str):
    """A missing field is named as missing, null as absent."""
    values = {"claim": "c", "evidence": "e", "trace": TRACE}
    del values[name]
    for fields in (values, values | {name: None}):
        rollouts, (problem,) = read(json.dumps(fields))
        assert ({}, 1, name) == (rollouts, problem.line, problem.field)
        assert "is missing" == problem.reason


def test_rows_are_read_as_lines_are():
    """The same records and problems; rows count from 0 and are called so."""
    values = [json.loads(line(group="g")), json.loads(line(group="g", label="x")), 3]
    values.append(json.loads(line(trace="\ud800")))
    lines = [json.dumps(one) for one in values]
    rollouts, problems = read_trace_rows(values, "rows")
    from_lines, their_problems = read_trace_records(lines, "rows")
    assert {row + 1: rollout for row, rollout in rollouts.items()} == from_lines
    assert [(one.line + 1, one.field, one.reason) for one in problems] == [
        (one.line, one.field, one.reason) for one in their_problems
    ]
    assert str(problems[0]).startswith("rows, row 1, field 'label': ")
    assert str(their_problems[0]).startswith("rows, line 2, field 'label': ")
    assert "a.jsonl, line 3: odd" == str(Problem("a.jsonl", 3, "", "odd"))


def test_every_problem_of_a_line_is_named():
    """So that a file can be fixed in one go."""
    rollouts, problems = read(line(claim="", label="x", rollout="1", truncated=1))
    assert rollouts == {}
    assert ["claim", "label", "rollout", "truncated"] == [problem.field for problem in problems]


@pytest.mark.parametrize(
    "bad",
    ["{", "nonsense", "[]", '"text"', "null", "3", "[" * 100_000, "{}", line(claim=1), "9" * 5_000],
)
def test_a_bad_line_never_stops_the_rest(bad: str):
    """What stands beside a bad line is read, under its own line number."""
    rollouts, problems = read(line(), bad, line())
    assert {1: 0, 3: 1} == {at: rollout.number for at, rollout in rollouts.items()}
    assert {(2, True)} == {(problem.line, problem.dropped) for problem in problems}


def test_unread_fields_are_reported_once():
    """A field beyond the contract costs nothing and is said where it first stands."""
    rollouts, problems = read(line(), line(model="m"), line(model="m", messages=[]))
    assert 3 == len(rollouts)
    said = [(problem.line, problem.field, problem.dropped) for problem in problems]
    assert [(2, "model", False), (3, "messages", False)] == said


def test_records_of_one_prompt_are_one_group():
    """Equal claim and evidence make a group, numbered by position; others do not join it."""
    rollouts, problems = read(line(), line(claim="d"), line(), line(evidence="f"))
    assert problems == []
    assert [0, 0, 1, 0] == [rollout.number for rollout in rollouts.values()]
    assert 3 == len({rollout.group for rollout in rollouts.values()})
    assert rollouts[1].group == rollouts[3].group
    assert 2 == len({group_of("a", "b c"), group_of("a b", "c")})


OTHERS = {"claim": "d", "evidence": "f", "label": "Refuted", "n_star": 4}
CLASHES = {
    name: [line(group="g"), line(**{"group": "g", name: value}), line(group="g")]
    for name, value in OTHERS.items()
} | {"rollout": [line(rollout=2), line(rollout=2), line(claim="d", rollout=2)]}


@pytest.mark.parametrize(("name", "lines"), CLASHES.items())
def test_a_group_is_one_prompt_with_each_number_once(name: str, lines: list[str]):
    """Its rollouts are compared, so they answer the same; the same one twice would count twice."""
    rollouts, problems = read(*lines)
    assert [1, 3] == [*rollouts]
    assert [(2, name, True)] == [(one.line, one.field, one.dropped) for one in problems]
    assert "line 1" in problems[0].reason


@pytest.mark.timeout(20)
def test_a_group_of_many_rollouts_is_numbered_in_linear_time():
    """Each takes the least free number, which is not looked for from 0 on."""
    lines = [line(rollout=7), line(rollout=0), *[line()] * 40_000]
    rollouts, problems = read(*lines)
    assert not problems
    numbers = [rollout.number for rollout in rollouts.values()]
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
    rollouts, problems = read(*lines)
    dropped = {problem.line for problem in problems if problem.dropped}
    assert rollouts.keys().isdisjoint(dropped)
    assert rollouts.keys() | dropped == {n for n, text in enumerate(lines, start=1) if text.strip()}
    assert len({(one.group, one.number) for one in rollouts.values()}) == len(rollouts)
    assert all(str(problem).encode() for problem in problems)
