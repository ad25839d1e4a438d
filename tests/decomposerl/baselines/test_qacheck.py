"""QACheck: rounds of questions, a validator, and a verdict by statements."""

from baseline_parts import QUESTION, notes, said
from decomposerl.baselines.method import Verification
from decomposerl.baselines.qacheck import METHOD, MOST_ROUNDS

FIRST, SECOND = "When did the bridge open?", "What is the bridge made of?"


def outcome(ended: Verification) -> tuple[str | None, str, object]:
    return ended.verdict, ended.status, ended.notes["end"]


def test_the_call_graph_where_what_is_known_suffices():
    """Question, answer, does it suffice; then statements and the verdict by them alone."""
    driven = said(
        METHOD,
        *(FIRST, "It opened in 1871.", "No", SECOND, "It is made of granite.", "Yes"),
        *("The bridge opened in 1871.", "The bridge is made of granite.", "Refuted"),
    )
    assert [
        *("next_question", "answer", "judge_sufficient"),
        *("next_question", "answer", "judge_sufficient"),
        *("state", "state", "verify"),
    ] == driven.operations()
    assert ("Refuted", "parsed", "sufficient") == outcome(driven.ended)
    first, answer, enough, following, _, _, state, _, verdict = driven.calls
    assert {"claim": QUESTION.claim} == first.variables
    assert {"evidence": QUESTION.evidence, "question": FIRST} == answer.variables
    known = {"claim": QUESTION.claim, "qa": f"Q1: {FIRST}\nA1: It opened in 1871."}
    assert known == enough.variables == following.variables
    assert {"qa": f"Q1: {FIRST}\nA1: It opened in 1871."} == state.variables
    assert {
        "claim": QUESTION.claim,
        "known": "1. The bridge opened in 1871.\n2. The bridge is made of granite.",
    } == verdict.variables
    assert 3 * 2 + 2 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_five_rounds_are_the_most():
    """A model that never has enough is stopped after the fifth answer, and then judges."""
    rounds = [
        reply
        for number in range(MOST_ROUNDS)
        for reply in (*(["No"] if number else []), f"Is it {number}?", f"It is {number}.")
    ]
    driven = said(
        METHOD, *rounds, *[f"It is {number}." for number in range(MOST_ROUNDS)], "Supported"
    )
    assert ("Supported", "parsed", "rounds") == outcome(driven.ended)
    assert MOST_ROUNDS == len(driven.ended.cycles)
    assert 3 * 5 + 5 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_no_further_question_ends_the_rounds():
    """NONE in place of a question ends them, with one question call more than there are answers."""
    driven = said(
        METHOD, FIRST, "It opened in 1871.", "No", "NONE", "The bridge opened in 1871.", "Refuted"
    )
    assert ("Refuted", "parsed", "no_question") == outcome(driven.ended)
    assert 3 * 1 + 1 + 2 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_no_question_at_all_is_unparsed():
    """Without a first question there is nothing to judge by; what cannot be read is repeated."""
    for reply in ("NONE", "I have no questions.", "Who? What?\nWhen?"):
        driven = said(METHOD, reply)
        assert (None, "unparsed", "no_question") == outcome(driven.ended)
        assert reply == driven.ended.reply
        calls = 1 + (reply != "NONE")
        assert calls == METHOD.expected_calls(driven.ended) == len(driven.calls), reply


def test_the_validator_leaves_out_what_adds_nothing():
    """An unknown answer and a repeated question stay in the trace and ground nothing."""
    driven = said(
        METHOD,
        *(FIRST, "unknown", "No", SECOND, "It is made of granite.", "No"),
        *(SECOND.upper(), "Granite.", "Yes", "The bridge is made of granite.", "Refuted"),
    )
    assert ("Refuted", "parsed", "sufficient") == outcome(driven.ended)
    assert (3, 1) == notes(driven.ended, "rounds", "valid")
    assert [FIRST, SECOND, SECOND.upper()] == [cycle.question for cycle in driven.ended.cycles]
    enough, following = driven.calls[2], driven.calls[6]
    assert "none" == enough.variables["qa"], "what was not answered is not known"
    assert FIRST in following.variables["qa"], "what was asked is not asked again"
    assert "1. The bridge is made of granite." == driven.calls[-1].variables["known"]
    assert 3 * 3 + 1 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_nothing_valid_is_judged_as_nothing_known():
    """The reasoner is asked all the same; that nothing is known is what it sees."""
    driven = said(METHOD, FIRST, "unknown", "No", "NONE", "Refuted")
    assert ("Refuted", "parsed", "no_question") == outcome(driven.ended)
    assert {"claim": QUESTION.claim, "known": "none"} == driven.calls[-1].variables
    assert 3 * 1 + 0 + 2 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_only_yes_suffices():
    """Enough is yes and not enough is no; words that hold them somewhere are neither, and noted."""
    for reply in ("I know enough, or not", "Perhaps", "", "Unknown"):
        ended = said(METHOD, FIRST, "In 1871.", reply, "NONE", "It opened.", "Supported").ended
        assert ("Supported", "parsed", "no_question") == outcome(ended)
        assert ended.notes["sufficiency_unread"] == (reply != "Unknown"), reply


def test_a_statement_without_words_is_its_pair():
    """An empty reply loses nothing of what was found out."""
    driven = said(METHOD, FIRST, "In 1871.", "Yes", "", "Supported")
    assert f"1. {FIRST} In 1871." == driven.calls[-1].variables["known"]
