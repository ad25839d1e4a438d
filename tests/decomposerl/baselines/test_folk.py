"""FOLK: predicates in the forms of models, their grounding, a conjunction that is recomputed."""

import itertools
import json
from pathlib import Path

import pytest

from baseline_parts import QUESTION, Driven, notes, outcome, said
from decomposerl.baselines.folk import METHOD, conjunction
from decomposerl.baselines.method import ModelReply
from decomposerl.replies.predicates import Predicate, read_predicates, read_truths

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

PREDICATES = (
    "1. Before(mill, bridge) | The mill came before the bridge. | When was the mill built?\n"
    "2. MadeOf(bridge, granite) | The bridge is made of granite. | What is the bridge made of?"
)
BORN, PAINTED = "BornIn(Ada, Varn)", "Painted(Ada, Grey Shore)"
ASKED = ("Where was Ada born?", "Who painted it?")
BOTH = [f"{BORN} | Ada was born in Varn.", PAINTED]
FULL = (
    Predicate(f"{BORN} | Ada was born in Varn.", ASKED[0]),
    Predicate(f"{PAINTED} | Ada painted it.", "Who painted it?"),
)
ANSWERS = ("The mill dates from 1902.", "unknown")


def reasoned(
    *lines: str, predicates: str = PREDICATES, answers: tuple[str, ...] = ANSWERS
) -> Driven:
    return said(METHOD, predicates, *answers, "\n".join(lines))


def test_the_call_graph():
    """Predicates from the claim alone, answers from the evidence, reasoning over both."""
    driven = reasoned("1: True - it does", "2: True - it is", "[Supported]")
    written, first, second, verdict = driven.calls
    assert ["decompose", "answer", "answer", "verify"] == driven.operations()
    assert ["predicates", "answer", "answer", "verdict"] == driven.templates()
    assert {"claim": QUESTION.claim} == written.variables
    evidence = QUESTION.evidence
    assert {"evidence": evidence, "question": "When was the mill built?"} == first.variables
    assert {"evidence": evidence, "question": "What is the bridge made of?"} == second.variables
    assert {
        "claim": QUESTION.claim,
        "predicates": "1. Before(mill, bridge) | The mill came before the bridge.\n"
        "2. MadeOf(bridge, granite) | The bridge is made of granite.",
        "qa": "Q1: When was the mill built?\nA1: The mill dates from 1902.\n"
        "Q2: What is the bridge made of?\nA2: unknown",
    } == verdict.variables
    assert 4 == METHOD.expected_calls(driven.ended)
    questions = [cycle.question for cycle in driven.ended.cycles]
    assert ["When was the mill built?", "What is the bridge made of?"] == questions


def test_a_bracket_that_disagrees_is_flagged_and_not_followed():
    """The conjunction of the predicates' own values is the verdict, either way."""
    for second, bracket, verdict in (
        ("False", "Supported", "Refuted"),
        ("True", "Refuted", "Supported"),
    ):
        ended = reasoned("1: True - so", f"2: {second} - so", f"[{bracket}]").ended
        assert (verdict, "parsed", True, bracket) == (
            *outcome(ended),
            *notes(ended, "disagrees", "bracket"),
        )
        assert ended.spoken is None, "no token spells the recomputed verdict"
    agreeing = reasoned("1: True - so", "2: True - so", "[Supported]").ended
    assert agreeing.notes["disagrees"] is False
    assert agreeing.spoken is not None


def test_what_is_not_true_refutes():
    """A predicate that the answers leave open does not hold; the note keeps which it was."""
    for word in ("Open", "Unknown", "**Open**", "open: nothing is said", "False"):
        ended = reasoned("1: True", f"2: {word}", "[Supported]").ended
        assert ("Refuted", True) == (ended.verdict, ended.notes["disagrees"]), word


@pytest.mark.parametrize("lines", TABLES["ways to write the values"])
def test_ways_to_write_the_values(lines: list[str]):
    """Each listed form of a line is read; without a bracket the conjunction stands alone."""
    ended = reasoned(*lines).ended
    expected = "Supported", "unread", False
    assert expected == (ended.verdict, *notes(ended, "bracket", "disagrees"))


@pytest.mark.parametrize("lines", TABLES["values that do not settle it"])
def test_values_that_do_not_settle_it_leave_the_bracket(lines: list[str]):
    """A missing, doubled or unclear value is no value, and then the model's bracket counts."""
    ended = reasoned(*lines, "[Refuted]").ended
    expected = "Refuted", False, "Refuted"
    assert expected == (ended.verdict, *notes(ended, "disagrees", "bracket"))
    assert "unread" in str(ended.notes["truths"])


def test_neither_values_nor_bracket_is_unparsed():
    """A cut reply is truncated then, unless one whole line says False; nothing is made up."""
    assert (None, "unparsed") == outcome(reasoned("1: True - so", "Who can tell?").ended)
    for value, expected in (("True", (None, "truncated")), ("False", ("Refuted", "parsed"))):
        cut = ModelReply(f"1: {value} - so\n2: Tr", truncated=True)
        assert expected == outcome(said(METHOD, PREDICATES, *ANSWERS, cut).ended)


@pytest.mark.parametrize(("line", "shown", "question"), TABLES["predicates with parts missing"])
def test_predicates_with_parts_missing(line: str, shown: str, question: str):
    """A line without a gloss or question still gives a predicate that can be asked about."""
    driven = reasoned("1: True", "[Supported]", predicates=f"1. {line}", answers=("Granite.",))
    assert question == driven.calls[1].variables["question"]
    assert f"1. {shown}" == driven.calls[2].variables["predicates"]


def test_no_predicate_is_no_verdict():
    """Without predicates there is nothing to be true of all of: one call, repeated, unparsed."""
    driven = said(METHOD, "It is a nice claim.")
    assert (None, "unparsed") == outcome(driven.ended)
    assert 1 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_the_conjunction_is_pythons_all():
    """It is what all ways to read the unread values agree on, and else nothing."""
    for truths in itertools.product(("true", "false", "open", "unknown", None), repeat=3):
        completions = {
            all(value == "true" for value in values)
            for values in itertools.product(
                *[("true", "false") if truth is None else (truth,) for truth in truths]
            )
        }
        expected = (
            {True: "Supported", False: "Refuted"}[completions.pop()]
            if len(completions) == 1
            else None
        )
        assert expected == conjunction(truths)


@pytest.mark.parametrize("text", TABLES["statement and question belong to their predicate"])
def test_statement_and_question_belong_to_their_predicate(text: str):
    """On the predicate's line, behind dashes, in a table or on lines of their own."""
    assert FULL == read_predicates(f"Here are the predicates:\n\n{text}")


@pytest.mark.parametrize("text", TABLES["predicates alone are asked about themselves"])
def test_predicates_alone_are_asked_about_themselves(text: str):
    """Without numbers each line opens with its form; a conjunction is its parts."""
    found = read_predicates(text)
    assert found is not None
    assert [BORN, PAINTED] == [predicate.text for predicate in found]
    assert [f"Is it true that {text}?" for text in (BORN, PAINTED)] == [
        predicate.question for predicate in found
    ]


@pytest.mark.parametrize(
    "text",
    ["", "The claim says two things.", "It is so (by the text).\nIt is old.", "1. A(b)\n3. C(d)"],
)
def test_prose_holds_no_predicate(text: str):
    """A sentence with brackets in it, and a list with a gap, are no predicates."""
    assert read_predicates(text) is None


@pytest.mark.parametrize("text", TABLES["truths in other forms"])
def test_truths_in_other_forms(text: str):
    """By number, by form, under a heading, or in the conjunction alone."""
    assert ["true", "false"] == read_truths(text, BOTH)


@pytest.mark.parametrize("text", TABLES["what is no truth"])
def test_what_is_no_truth(text: str):
    """A hedge, the claim's own bracket and a conjunction of other length settle no predicate."""
    assert [None, None] == read_truths(text, BOTH)
