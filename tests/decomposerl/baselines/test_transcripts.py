"""Methods of one call, and those that go on with a transcript: what they ask, how they end."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseline_parts import MARK, QUESTION, drive, faithful, notes, outcome, saying
from decomposerl.baselines import decomposed_prompting, direct, hiss, self_ask
from decomposerl.baselines.method import CallFailedError, ModelReply
from decomposerl.baselines.minicheck import METHOD as MINICHECK
from decomposerl.baselines.minicheck import from_probability
from strategies import LAW

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

SELF_ASK = faithful(self_ask.METHOD)
STEPS = faithful(decomposed_prompting.METHOD)
HISS = faithful(hiss.METHOD)
ASKED = "Who built the mill?"
TRANSCRIPT = """\
Are follow-up questions needed here: Yes.
Follow up: When was the bridge built?
Intermediate answer: 1871
Follow up: When was the mill built?
Intermediate answer: 1902
"""


def test_simple_and_cot_read_their_own_forms():
    """Simple takes the word; CoT takes the labelled last line, and no yes of its reasoning."""
    assert "Refuted" == drive(faithful(direct.SIMPLE), saying("Refuted.")).ended.verdict
    reasoned = drive(faithful(direct.COT), saying("1871 is before 1902.\nVerdict: Refuted"))
    assert "Refuted" == reasoned.ended.verdict
    assert "unparsed" == drive(faithful(direct.COT), saying("Is it?\nYes")).ended.status
    cut = drive(faithful(direct.COT), saying(ModelReply("It opened\nVerdict: Ref", truncated=True)))
    assert "truncated" == cut.ended.status


@LAW
@given(st.floats(0, 1))
def test_minicheck_is_cut_at_one_half(probability: float):
    """Supported is strictly above 0.5; the score itself stays in the notes."""
    ended = from_probability(probability)
    assert ("Supported" if probability > 0.5 else "Refuted") == ended.verdict
    assert probability == ended.notes["support_probability"]
    assert 1 == MINICHECK.expected_calls(ended)


def test_minicheck_makes_no_verdict_of_no_probability():
    """A verifier that gives no probability gave no answer."""
    for score in (math.nan, -0.1, 1.1, math.inf):
        with pytest.raises(CallFailedError):
            from_probability(score)


def test_self_ask_goes_on_where_the_slot_was_filled():
    """Each call goes on from the whole transcript; answers come from the evidence alone."""
    driven = drive(
        SELF_ASK,
        saying(
            " Yes.\nFollow up: When was the bridge built?\n",
            "1871",
            "Follow up: When was the mill built?",
            "1902\n",
            "So the final answer is: Refuted.",
        ),
    )
    assert ["transcript", "answer"] * 2 + ["transcript"] == driven.templates()
    assert TRANSCRIPT == driven.calls[-1].continues
    assert {(f"\n{self_ask.SLOT}",)} == {call.stop for call in driven.calls[::2]}
    assert {"question", "evidence"} == set(driven.calls[1].variables)
    assert "Refuted" == driven.ended.verdict
    assert {"stopped": "final line", "asked_again": 0} == driven.ended.notes
    assert ["1871", "1902"] == [cycle.answer for cycle in driven.ended.cycles]
    assert driven.ended.reply == f"{TRANSCRIPT} So the final answer is: Refuted."


@pytest.mark.parametrize(("replies", "stopped", "verdict"), TABLES["self ask ends for a reason"])
def test_self_ask_ends_for_a_reason(replies: tuple[str, ...], stopped: str, verdict: str | None):
    """The final line is read, or asked for by itself; what cannot be read is asked for twice."""
    driven = drive(SELF_ASK, saying(*replies))
    assert (stopped, verdict) == (driven.ended.notes["stopped"], driven.ended.verdict)
    repeated = driven.ended.notes["asked_again"]
    assert repeated == (verdict is None) + ("Who? Bob did it." in replies)
    assert len(replies) + repeated == len(driven.calls)


def test_self_ask_stops_at_the_cap():
    """After five answers the final line is asked for, with the words that open it."""
    asked = [text for n in range(5) for text in (f"Follow up: Is it {n}?", "no")]
    driven = drive(SELF_ASK, saying(*asked, " Supported"))
    assert driven.calls[-1].continues.endswith(self_ask.FINAL)
    assert ("cap", "Supported") == (driven.ended.notes["stopped"], driven.ended.verdict)
    assert 11 == len(driven.calls)


def test_a_step_runs_by_its_handler_with_earlier_answers_in_it():
    """Each handler has its call, ``#n`` is replaced, and the decomposer sees no evidence."""
    driven = drive(
        STEPS,
        saying(
            "[lookup] Who built the bridge?",
            "Ada",
            "Step 2: [check] #1 built the mill.",
            "No, Bob did.",
            "[compare] How many things did #1 build, not #7?",
            "one",
            "NONE",
            "So it is.\nRefuted",
        ),
    )
    handled = [call for call in driven.calls if call.operation != "next_question"]
    assert ["lookup", "check", "compare", "verdict"] == [call.template for call in handled]
    assert "Ada built the mill." == handled[1].variables["statement"]
    assert "How many things did Ada build, not #7?" == handled[2].variables["question"]
    assert all(MARK in call.variables["evidence"] for call in handled)
    steps = [call for call in driven.calls if call.operation == "next_question"]
    assert not any(MARK in str(call) for call in steps)
    assert "Step 1: [lookup] Who built the bridge?\n#1: Ada\nStep 2:" == steps[1].continues
    expected = {"stopped": "end", "dangling": 1, "unread_checks": 0, "asked_again": 0}
    assert expected == driven.ended.notes
    assert ["Ada", "no", "one"] == [cycle.answer for cycle in driven.ended.cycles]
    assert "Refuted" == driven.ended.verdict


@pytest.mark.parametrize(("replies", "stopped", "verdict"), TABLES["steps end for a reason"])
def test_steps_end_for_a_reason(replies: tuple[str, ...], stopped: str, verdict: str | None):
    """Whatever ends the steps brings the closing check, also a step that cannot be read twice."""
    driven = drive(STEPS, saying(*replies))
    assert (stopped, verdict) == (driven.ended.notes["stopped"], driven.ended.verdict)
    repeated = driven.ended.notes["asked_again"]
    assert repeated == ("perhaps" in replies) + ("Look it up." in replies)
    assert len(replies) + repeated == len(driven.calls)
    assert ("perhaps" in replies) == bool(driven.ended.notes["unread_checks"])


def test_steps_stop_at_the_cap():
    """Nine steps and the closing check are all."""
    steps = [text for n in range(9) for text in (f"[check] It is {n}.", "Yes")]
    driven = drive(STEPS, saying(*steps, "Supported"))
    assert (19, "cap") == (len(driven.calls), driven.ended.notes["stopped"])


def test_hiss_works_through_the_sub_claims_in_one_transcript():
    """A later sub-claim sees the earlier ones' pairs, and the last call classifies them all."""
    driven = drive(
        HISS,
        saying(
            "1. The bridge is of granite.\n2. It is younger than the mill.",
            "Q1: Of what is it?\nSure: no\nA1: unknown\nVerdict: Refuted",
            "Q1: When did it open?\nSure: yes\nA1: 1871\nQ2: And the mill?\nSure: no\nA2: 1902",
            " Refuted",
        ),
    )
    assert ["split", "work_through", "work_through", "verdict"] == driven.templates()
    assert "It is younger than the mill." == driven.calls[2].variables["claim"]
    assert "Q1: Of what is it?\nA1: unknown" in driven.calls[2].continues
    assert "Verdict: Refuted" not in driven.calls[2].continues
    assert driven.calls[3].continues.endswith("A2: 1902\n\nVerdict:")
    assert ("Refuted", 3) == (driven.ended.verdict, len(driven.ended.cycles))
    assert (2, 1, 0) == notes(driven.ended, "sub_claims", "sure", "without_questions")


def test_hiss_keeps_a_claim_whole_or_cuts_the_splitting():
    """NONE leaves one sub-claim, the claim; repeated ones are one, and ten are worked through."""
    whole = drive(HISS, saying("NONE", "no questions here", "Supported"))
    assert QUESTION.claim == whole.calls[1].variables["claim"]
    assert 1 == whole.ended.notes["without_questions"]
    many = "\n".join(f"{n}. It is {n // 2}." for n in range(1, 25))
    driven = drive(HISS, saying(many, *["Q1: Is it?\nA1: yes"] * 10, "Supported"))
    assert (10, 3) == (driven.ended.notes["sub_claims"], driven.ended.notes["beyond"])


def test_hiss_drops_the_half_pair_of_a_cut_reply():
    """Half an answer would stand in the trace as a whole one."""
    cut = ModelReply("Q1: Is it?\nA1: yes\nQ2: Was it?\nA2: it was buil", truncated=True)
    driven = drive(HISS, saying("NONE", cut, "Supported"))
    assert ["yes"] == [cycle.answer for cycle in driven.ended.cycles]


def test_a_method_in_one_call_keeps_its_pairs_where_it_was_cut():
    """Pairs before the cut stay; the half answer and the missing verdict are not made up."""
    cut = ModelReply("Q1: Is it?\nA1: yes\nQ2: Was it?\nA2: it was buil", truncated=True)
    for method in (self_ask.METHOD, decomposed_prompting.METHOD, hiss.METHOD):
        ended = drive(method.procedures["single_call"], saying(cut)).ended
        assert (None, "truncated") == outcome(ended)
        assert ["yes"] == [cycle.answer for cycle in ended.cycles]
        step = drive(method.procedures["single_call"], saying("Q1: Is it?\nA1: yes\nNo")).ended
        assert "unparsed" == step.status


def test_an_unreadable_step_is_asked_for_again_with_its_form():
    """The second reply is read as if it were the first; the formula counts both calls."""
    method = decomposed_prompting.METHOD
    model = saying("Let me look.", "Ada", "NONE", "Refuted", again=[f"[lookup] {ASKED}"])
    driven = drive(STEPS, model)
    assert ["", "step", "", "", ""] == [call.form for call in driven.calls]
    assert driven.calls[0].variables == driven.calls[1].variables
    assert ("Refuted", 1) == (driven.ended.verdict, driven.ended.notes["asked_again"])
    assert 5 == method.expected_calls(driven.ended) == len(driven.calls)


def test_a_check_is_asked_again_and_then_kept_as_it_is():
    """A readable second reply is the answer; else the text stands in the transcript."""
    said = ("[check] It is so.", "Hard to say.", "NONE", "Refuted")
    assert ["no"] == [
        cycle.answer for cycle in drive(STEPS, saying(*said, again=["No"])).ended.cycles
    ]
    kept = drive(STEPS, saying(*said)).ended
    assert ["Hard to say."] == [cycle.answer for cycle in kept.cycles]
    assert (1, 1) == (kept.notes["unread_checks"], kept.notes["asked_again"])


def test_a_thought_is_no_part_of_an_answer():
    """What a model thinks stands neither in the trace nor in the next prompt."""
    thinking = "<think>\nHm.\n</think>\n\nunknown"
    for method in (self_ask.METHOD, decomposed_prompting.METHOD):
        driven = drive(faithful(method), saying(ASKED, thinking, "NONE", "Refuted"))
        assert ["I don't know."] == [cycle.answer for cycle in driven.ended.cycles]
        assert "Hm." not in str([call.variables for call in driven.calls])
