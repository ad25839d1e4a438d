"""ProgramFC: a program is written and run step by step."""

import json
from pathlib import Path

import pytest

from baseline_parts import QUESTION, notes, outcome, said
from decomposerl.baselines.method import ModelReply
from decomposerl.baselines.program_fc import METHOD

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

PROGRAM = (
    'answer_1 = Question("When did the mill open?")\n'
    'fact_1 = Verify("The bridge opened after {answer_1}.")\n'
    'fact_2 = Verify("The bridge is made of granite.")\n'
    "label = Predict(fact_1 and fact_2)"
)
NOT_A_PROGRAM = "label = Predict(fact_7)"


def test_the_call_graph():
    """One greedy program from the claim; steps as soon as they can run, with results filled in."""
    driven = said(METHOD, PROGRAM, "1902.", "True", "False")
    written, question, second, first = driven.calls
    assert ["program", "answer", "verify", "verify"] == driven.operations()
    assert ["program", "answer", "check", "check"] == driven.templates()
    assert ({"claim": QUESTION.claim}, 0.0, 0) == (
        written.variables,
        written.temperature,
        written.sample,
    )
    evidence = QUESTION.evidence
    assert {"evidence": evidence, "question": "When did the mill open?"} == question.variables
    granite = "The bridge is made of granite."
    assert {"evidence": evidence, "statement": granite} == second.variables
    filled = "The bridge opened after 1902."
    assert {"evidence": evidence, "statement": filled} == first.variables
    assert ("Refuted", "parsed") == outcome(driven.ended)
    assert 4 == METHOD.expected_calls(driven.ended)


def test_the_trace_follows_the_program():
    """Questions, and checks as questions, in the order of the steps; the transcript has results."""
    ended = said(METHOD, PROGRAM, "1902", "True", "False").ended
    assert [
        ("When did the mill open?", "1902"),
        ("Is it true that The bridge opened after 1902?", "No. The bridge opened after 1902."),
        ("Is it true that The bridge is made of granite?", "Yes. The bridge is made of granite."),
    ] == [(cycle.question, cycle.answer) for cycle in ended.cycles]
    assert ended.opening.endswith("It holds if this does: fact_1 and fact_2.")
    assert ended.reply.splitlines()[-1] == "label = Predict(fact_1 and fact_2)  # Refuted"


@pytest.mark.parametrize(("expression", "replies", "verdict"), TABLES["the prediction is computed"])
def test_the_prediction_is_computed(expression: str, replies: tuple[str, str], verdict: str):
    """And, or and not over what was checked; what stays unknown is not borne out."""
    program = f'fact_1 = Verify("S.")\nfact_2 = Verify("T.")\nlabel = Predict({expression})'
    assert (verdict, "parsed") == outcome(said(METHOD, program, *replies).ended)


def test_a_program_that_does_not_parse_is_rejected_and_counted():
    """No step of it runs, and without a vote the claim is unparsed; the reason is noted."""
    driven = said(METHOD, NOT_A_PROGRAM)
    assert (None, "unparsed") == outcome(driven.ended)
    assert (1, "undefined_name", 0) == notes(driven.ended, "rejected", "rejections", "steps")
    assert NOT_A_PROGRAM == driven.ended.reply
    assert ["", "program"] == [call.form for call in driven.calls]
    assert 1 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_a_cut_program_is_no_program():
    """Even where the part before the cut would parse, its last line may be half a line."""
    ended = said(METHOD, ModelReply(PROGRAM, truncated=True)).ended
    assert (None, "truncated", "truncated") == (*outcome(ended), ended.notes["rejections"])


def test_a_check_that_cannot_be_read_counts_only_where_it_matters():
    """The prediction decides without it, or there is no verdict; it is never taken for false."""
    odd = "It could be argued either way."
    assert ("Refuted", "parsed") == outcome(said(METHOD, PROGRAM, "1902", odd, "False").ended)
    open_ = said(METHOD, PROGRAM, "1902", odd, "True").ended
    assert (None, "unparsed", 1) == (*outcome(open_), open_.notes["unread"])
    cut = said(METHOD, PROGRAM, "1902", ModelReply("Tr", truncated=True), "True").ended
    assert (None, "truncated") == outcome(cut)


def test_an_answer_is_filled_in_without_its_full_stop():
    """What a sentence goes on with has no end of its own; an abbreviation keeps its stop."""
    answers = {"1902.": "1902", "in the U.S.": "in the U.S.", "**1902**": "1902", "": "unknown"}
    for answer, filled in answers.items():
        driven = said(METHOD, PROGRAM, answer, "True", "True")
        assert f"The bridge opened after {filled}." == driven.calls[3].variables["statement"]


def test_steps_that_wait_for_nothing_are_asked_for_at_once():
    """The steps of a program by what they refer to, each group as one."""
    groups: list[int] = []
    answers: tuple[ModelReply, ...] = (ModelReply(PROGRAM),)
    steps = METHOD.procedures["faithful"](QUESTION)
    group = next(steps)
    try:
        while True:
            groups.append(len(group))
            group = steps.send(answers)
            answers = tuple(ModelReply("True") for _ in group)
    except StopIteration as end:
        assert "Supported" == end.value.verdict  # noqa: PT017 - how a generator returns
    assert [1, 2, 1] == groups
