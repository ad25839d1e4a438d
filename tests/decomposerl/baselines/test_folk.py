"""FOLK: predicates, their grounding, and a conjunction that is recomputed."""

import itertools

import pytest

from baseline_parts import QUESTION, Driven, drive, faithful, saying
from decomposerl.baselines.folk import METHOD, conjunction
from decomposerl.baselines.method import ModelReply

PREDICATES = (
    "1. Before(mill, bridge) | The mill came before the bridge. | When was the mill built?\n"
    "2. MadeOf(bridge, granite) | The bridge is made of granite. | What is the bridge made of?"
)
ANSWERS = ("The mill dates from 1902.", "unknown")


def reasoned(
    *lines: str, predicates: str = PREDICATES, answers: tuple[str, ...] = ANSWERS
) -> Driven:
    return drive(faithful(METHOD), saying(predicates, *answers, "\n".join(lines)))


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
        assert (verdict, "parsed") == (ended.verdict, ended.status)
        assert ended.notes["disagrees"] is True
        assert bracket == ended.notes["bracket"]
        assert ended.spoken is None, "no token spells the recomputed verdict"
    agreeing = reasoned("1: True - so", "2: True - so", "[Supported]").ended
    assert agreeing.notes["disagrees"] is False
    assert agreeing.spoken is not None


@pytest.mark.parametrize("word", ["Open", "Unknown", "**Open**", "open: nothing is said", "False"])
def test_what_is_not_true_refutes(word: str):
    """A predicate that the answers leave open does not hold; the note keeps which it was."""
    ended = reasoned("1: True", f"2: {word}", "[Supported]").ended
    assert ("Refuted", True) == (ended.verdict, ended.notes["disagrees"])


@pytest.mark.parametrize(
    "lines",
    [
        ("Predicate 1: TRUE, since 1902", "Predicate 2: TRUE, as shown", "Conjunction: T", "done"),
        ("1. Before(mill, bridge): True.", "2. MadeOf(bridge, granite): True (it is)", "so"),
        ("- **1: True** - so", "- **2: True** because it is", "[It holds]"),
        ("P1: true; so", "P2: true – so", "end"),
    ],
)
def test_ways_to_write_the_values(lines: tuple[str, ...]):
    """Each listed form of a line is read; without a bracket the conjunction stands alone."""
    ended = reasoned(*lines).ended
    assert ("Supported", "unread", False) == (
        ended.verdict,
        ended.notes["bracket"],
        ended.notes["disagrees"],
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("Nothing.", "[Refuted]"),
        ("1: True - so", "[Refuted]"),
        ("1: True - so", "2: True or False", "[Refuted]"),
        ("1: True - so", "2: Truely so", "[Refuted]"),
        ("1: True - so", "2: True - so", "2: False - no", "[Refuted]"),
        ("1: True - so", "3: False - another", "[Refuted]"),
    ],
)
def test_values_that_do_not_settle_it_leave_the_bracket(lines: tuple[str, ...]):
    """A missing, doubled or unclear value is no value, and then the model's bracket counts."""
    ended = reasoned(*lines).ended
    assert ("Refuted", False) == (ended.verdict, ended.notes["disagrees"])
    assert "unread" in str(ended.notes["truths"])
    assert "Refuted" == ended.notes["bracket"]


def test_neither_values_nor_bracket_is_unparsed():
    """Then nothing holds the verdict, and a cut reply is truncated; none is dropped."""
    assert (None, "unparsed") == (
        (ended := reasoned("1: True - so", "Who can tell?").ended).verdict,
        ended.status,
    )
    cut = drive(
        faithful(METHOD),
        saying(PREDICATES, *ANSWERS, ModelReply("1: True - so\n2: Tr", truncated=True)),
    )
    assert (None, "truncated") == (cut.ended.verdict, cut.ended.status)


def test_a_false_predicate_settles_a_cut_reply():
    """One whole line that says False is enough, whatever the limit cut behind it."""
    cut = drive(
        faithful(METHOD),
        saying(PREDICATES, *ANSWERS, ModelReply("1: False - so\n2: Tr", truncated=True)),
    )
    assert ("Refuted", "parsed") == (cut.ended.verdict, cut.ended.status)


@pytest.mark.parametrize(
    ("line", "shown", "question"),
    [
        ("Is it granite?", "Is it granite?", "Is it granite?"),
        ("MadeOf(it, granite)", "MadeOf(it, granite)", "Is it true that MadeOf(it, granite)?"),
        ("M(a) | It is granite.", "M(a) | It is granite.", "Is it true that It is granite?"),
        ("M(a) | What is it?", "M(a)", "What is it?"),
    ],
)
def test_predicates_with_parts_missing(line: str, shown: str, question: str):
    """A line without a gloss or question still gives a predicate that can be asked about."""
    driven = reasoned("1: True", "[Supported]", predicates=f"1. {line}", answers=("Granite.",))
    assert question == driven.calls[1].variables["question"]
    assert f"1. {shown}" == driven.calls[2].variables["predicates"]


def test_no_predicate_is_no_verdict():
    """Without predicates there is nothing to be true of all of: one call, repeated, unparsed."""
    driven = drive(faithful(METHOD), saying("It is a nice claim."))
    assert (None, "unparsed") == (driven.ended.verdict, driven.ended.status)
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
            if (len(completions) == 1)
            else None
        )
        assert expected == conjunction(truths)
