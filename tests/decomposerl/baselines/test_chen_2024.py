"""Chen-2024: questions, passages for each, a summary, and a verdict by the summary."""

from dataclasses import replace

from baseline_parts import QUESTION, drive, faithful, notes, outcome, said, saying
from decomposerl.baselines.chen_2024 import ENOUGH, METHOD, MOST_WRITINGS, TEMPERATURE
from decomposerl.baselines.method import ModelReply, Verification

TWO = "1. Did the bridge open in 1871?\n2. Is the bridge made of granite?"
ASKED = ["Did the bridge open in 1871?", "Is the bridge made of granite?"]
PASSAGES = "\n".join(f"{place}. {text}" for place, text in enumerate(QUESTION.passages, start=1))


def asked(ended: Verification) -> list[str]:
    return [cycle.question for cycle in ended.cycles]


def test_the_call_graph():
    """Questions until nothing is added, a selection for each, one summary, the verdict by it."""
    driven = said(METHOD, TWO, TWO, "1", "NONE", "It opened in 1871.", "Refuted")
    operations = ["decompose", "decompose", "select", "select", "summarise", "verify"]
    assert operations == driven.operations()
    _, _, first, second, summary, verdict = driven.calls
    assert [{"passages": PASSAGES, "question": text} for text in ASKED] == [
        first.variables,
        second.variables,
    ]
    chosen = f"1. {QUESTION.passages[0]}"
    assert {"claim": QUESTION.claim, "passages": chosen} == summary.variables
    assert {"claim": QUESTION.claim, "known": "It opened in 1871."} == verdict.variables
    assert ("Refuted", "parsed") == outcome(driven.ended)
    assert 2 + 2 + 2 == METHOD.expected_calls(driven.ended) == len(driven.calls)
    answers = [(cycle.question, cycle.answer) for cycle in driven.ended.cycles]
    assert [(ASKED[0], QUESTION.passages[0]), (ASKED[1], "I don't know.")] == answers


def test_writings_are_sampled_after_the_first_and_stop_when_nothing_is_added():
    """The first is greedy; a later one follows while the one before added a question."""
    more = "1. Is the mill older?\n2. Is it new?"
    driven = said(METHOD, TWO, more, f"1. {ASKED[0]}", *["1"] * 4, "Summary.", "Supported")
    writings = driven.calls[:MOST_WRITINGS]
    assert [(0.0, 0), (TEMPERATURE, 1), (TEMPERATURE, 2)] == [
        (call.temperature, call.sample) for call in writings
    ]
    assert (3, 4) == notes(driven.ended, "writings", "questions")


def test_ten_questions_are_enough():
    """A first writing with ten or more is the only one, and the eleventh is not asked."""
    many = "\n".join(f"{number}. Is it {number}?" for number in range(1, 13))
    driven = said(METHOD, many, *["NONE"] * ENOUGH, "Summary.", "Supported")
    assert (1, ENOUGH) == notes(driven.ended, "writings", "questions")
    assert 1 + ENOUGH + 2 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_only_what_yes_or_no_can_answer_is_asked_once():
    """Open questions and statements are dropped, repeated ones too, and remarks behind them."""
    open_ = ("Who built it?", "In which year did it open?", "How old is it?", "It is old.")
    for dropped in (*open_, "WHEN was it?", ASKED[0].upper()):
        listed = f"1. {ASKED[0]}\n2. {dropped}"
        assert [ASKED[0]] == asked(said(METHOD, listed, "NONE", "1", "So.", "Supported").ended)
    listed = f"1. {ASKED[0]} (the first part)\n2. {ASKED[1]} (the second)"
    assert ASKED == asked(said(METHOD, listed, listed, "1", "1", "So.", "Supported").ended)


def test_passages_are_those_of_any_question_in_their_own_order():
    """The summary sees each selected passage once, as the evidence orders them."""
    longer = replace(QUESTION, passages=tuple(f"Passage {place}." for place in range(1, 41)))
    replies = (TWO, "NONE", "33, 2", "Passages 2 and 4", "Summary.", "Supported")
    driven = drive(faithful(METHOD), saying(*replies), longer)
    shown = driven.calls[-2].variables["passages"]
    assert "1. Passage 2.\n2. Passage 4.\n3. Passage 33." == shown
    assert (3, 0, False) == notes(driven.ended, "selected", "unread", "whole")


def test_nothing_selected_is_the_whole_evidence():
    """A number that no passage has selects nothing, nor a cut one; all is summarised, and noted."""
    unread = ("3", "0", "the first one", "", "1, 2 or so", ModelReply("1", truncated=True))
    for selection in ("NONE", *unread):
        driven = said(METHOD, f"1. {ASKED[0]}", "NONE", selection, "Summary.", "Supported")
        assert PASSAGES == driven.calls[-2].variables["passages"]
        assert (int(selection != "NONE"), True) == notes(driven.ended, "unread", "whole"), selection


def test_evidence_without_passages_is_one_passage():
    """The method runs on plain text, too."""
    plain = replace(QUESTION, passages=())
    replies = (f"1. {ASKED[0]}", "NONE", "1", "Summary.", "Supported")
    driven = drive(faithful(METHOD), saying(*replies), plain)
    assert f"1. {QUESTION.evidence}" == driven.calls[-2].variables["passages"]
    assert ("Supported", "parsed") == outcome(driven.ended)


def test_no_question_is_no_verdict():
    """The first writing is repeated, the second adds nothing either: three calls, unparsed."""
    driven = said(METHOD, "It is about a bridge.", "1. Who built it?")
    assert (None, "unparsed") == outcome(driven.ended)
    assert "1. Who built it?" == driven.ended.reply
    assert ["", "questions", ""] == [call.form for call in driven.calls]
    assert 2 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)
