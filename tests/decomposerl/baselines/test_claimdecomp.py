"""ClaimDecomp: oriented yes-no questions and the share of answers that support the claim."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseline_parts import QUESTION, Driven, drive, faithful, saying
from decomposerl.baselines.claimdecomp import METHOD, Count, claimdecomp
from decomposerl.baselines.method import ModelReply, Verification
from strategies import LAW

THREE = "1. Is it granite? | yes\n2. Was the mill first? | yes\n3. Is it the mill's bridge? | no"


def said(*replies: str | ModelReply) -> Driven:
    return drive(faithful(METHOD), saying(*replies))


def outcome(ended: Verification) -> tuple[str | None, str]:
    return ended.verdict, ended.status


def test_the_call_graph():
    """Questions from the claim alone, then all answers at once, and no call for the verdict."""
    driven = said(THREE, "Yes", "No, it came later.", "No.")
    written, *answered = driven.calls
    assert ["decompose", "verify", "verify", "verify"] == driven.operations()
    assert ["questions", "answer", "answer", "answer"] == driven.templates()
    assert {"claim": QUESTION.claim} == written.variables
    questions = ["Is it granite?", "Was the mill first?", "Is it the mill's bridge?"]
    assert [{"evidence": QUESTION.evidence, "question": text} for text in questions] == [
        call.variables for call in answered
    ]
    assert ("Supported", "parsed") == outcome(driven.ended)
    assert (2, 1) == (driven.ended.notes["agreeing"], driven.ended.notes["against"])
    assert questions == [cycle.question for cycle in driven.ended.cycles]
    assert 4 == METHOD.expected_calls(driven.ended)


def test_questions_are_oriented():
    """Where "no" supports the claim a yes speaks against it, and the other way round."""
    implied = "1. Has it been rebuilt? | no\n2. Has it been moved? | no"
    assert ("Supported", "parsed") == outcome(said(implied, "No", "No").ended)
    assert ("Refuted", "parsed") == outcome(said(implied, "Yes", "Yes").ended)


@pytest.mark.parametrize(
    ("line", "text", "unoriented"),
    [
        ("Is it new? | no", "Is it new?", 0),
        ("Is it new? (No)", "Is it new?", 0),
        ("Is it new? [no].", "Is it new?", 0),
        ("Is it new? → no", "Is it new?", 0),
        ("Is it new? - No", "Is it new?", 0),
        ("Is it new?", "Is it new?", 1),
        ("Did they say no", "Did they say no", 1),
        ("Is it new? | N", "Is it new?", 0),
        ("Is it new? | no | implied", "Is it new?", 0),
        ("Is it new? ｜ no", "Is it new?", 0),
        ("Is it new? |", "Is it new?", 1),
    ],
)
def test_how_the_supporting_answer_is_written(line: str, text: str, unoriented: int):
    """Each listed form is read; without one a yes supports, and it is noted."""
    driven = said(f"1. {line}", "No")
    assert text == driven.calls[1].variables["question"]
    assert unoriented == driven.ended.notes["unoriented"]
    assert ("Refuted" if unoriented else "Supported", "parsed") == outcome(driven.ended)


@pytest.mark.parametrize("field", ["perhaps", "yes/no", "yes or no", "1871", "depends | no"])
def test_a_field_without_yes_or_no_is_asked_for_again(field: str):
    """A supporting answer that is there but cannot be read never counts as yes."""
    listed = f"1. Is it old? | yes\n2. Is it new? | {field}"
    assert said(listed, "No").ended.notes["questions"] == 0
    again = ["1. Is it old? | yes\n2. Is it new? | no"]
    model = saying(listed, "Yes", "No", again=again)
    ended = drive(faithful(METHOD), model).ended
    assert (2, 1) == (ended.notes["agreeing"], ended.notes["asked_again"])


def test_an_empty_row_is_read_at_once():
    """A row of a hundred thousand blanks holds no question; the reading is linear."""
    ended = said("|" + " " * 100_000 + "\n1. Is it old? | yes", "Yes").ended
    assert ["Is it old?"] == [cycle.question for cycle in ended.cycles]


def test_the_rows_of_a_table_are_questions():
    """The first field behind the question orients it; number and rules are dropped."""
    rows = "| # | Question | Answer |\n|---|---|---|\n| 1 | Is it old? | yes |\n"
    rows += "| 2 | Is it new? | no | implied |"
    ended = said(rows, "Yes", "No").ended
    assert ["Is it old?", "Is it new?"] == [cycle.question for cycle in ended.cycles]
    assert (2, 0) == (ended.notes["agreeing"], ended.notes["unoriented"])


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (("Yes", "No", "Unknown"), "Supported"),
        (("Yes", "Unknown", "Unknown"), "Supported"),
        (("Unknown", "Unknown", "Yes"), "Refuted"),
        (("No", "No", "No"), "Refuted"),
        (("Unknown", "Unknown", "Unknown"), "Refuted"),
        (("unknown", "No, the evidence does not say", "Unknown, it is silent."), "Refuted"),
    ],
)
def test_half_of_the_decisive_answers_support(answers: tuple[str, ...], verdict: str):
    """Unknown answers have no vote, half is enough, and none decisive is Refuted."""
    assert (verdict, "parsed") == outcome(said(THREE, *answers).ended)


def test_an_answer_that_cannot_be_read_leaves_the_verdict_open():
    """Unless it could not change it; the limit's cut shows in the status."""
    odd = "One would have to look at the stones."
    open_ = said(THREE, "Yes", "No", odd).ended
    assert (None, "unparsed", 1) == (*outcome(open_), open_.notes["unread"])
    assert (None, "unparsed") == outcome(said(THREE, odd, odd, odd).ended)
    assert ("Supported", "parsed") == outcome(said(THREE, "Yes", "Yes", odd).ended)
    assert ("Refuted", "parsed") == outcome(said(THREE, "No", "No", odd).ended)
    assert (None, "truncated") == outcome(
        said(THREE, "Yes", "No", ModelReply("It", truncated=True)).ended
    )


@LAW
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_the_verdict_is_what_all_readings_agree_on(agreeing: int, against: int, unread: int):
    """There is a verdict exactly where reading the unread in any way gives that verdict."""

    def counted(more: int, fewer: int) -> str:
        support, oppose = agreeing + more, against + fewer
        return "Supported" if support and support / (support + oppose) >= 0.5 else "Refuted"

    ways = {
        counted(more, fewer)
        for more, fewer in itertools.product(range(unread + 1), repeat=2)
        if more + fewer <= unread
    }
    assert (ways.pop() if len(ways) == 1 else None) == Count(agreeing, against, unread).verdict


def test_duplicates_are_asked_once_and_runaway_lists_are_cut():
    """Letter case makes no new question, and beyond twenty a model repeats itself."""
    driven = said("1. Is it new? | no\n2. IS IT NEW? | no", "No")
    assert 1 == driven.ended.notes["questions"]
    many = "\n".join(f"{number}. Is it {number}? | yes" for number in range(1, 41))
    driven = said(many, *["Yes"] * 20)
    assert 20 == driven.ended.notes["questions"]
    assert 21 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_no_question_is_no_verdict():
    """A reply without a list, or the word none, is repeated once and then ends the claim."""
    for reply in ("It is about a bridge.", "NONE"):
        driven = said(reply)
        assert (None, "unparsed") == outcome(driven.ended)
        assert 1 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_a_cut_list_loses_its_last_item_alone():
    """Half a question is not asked; what was whole is."""
    driven = said(ModelReply("1. Is it new? | no\n2. Is it gra", truncated=True), "No")
    assert ["Is it new?"] == [cycle.question for cycle in driven.ended.cycles]


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (("Yes", "Yes", "No"), "Supported"),
        (("Yes", "No", "No"), "Refuted"),
        (("Yes", "Yes", "Unknown"), "Refuted"),
        (("Yes", "Yes", "No, the evidence does not say."), "Refuted"),
        (("No", "Hard to say.", "No"), "Refuted"),
        (("Yes", "Yes", "Hard to say."), None),
    ],
)
def test_the_conjunction_wants_every_answer(answers: tuple[str, ...], verdict: str | None):
    """The rule "all": one answer against or unknown refutes, one unread leaves it open."""
    ended = drive(claimdecomp("all"), saying(THREE, *answers)).ended
    assert verdict == ended.verdict


@LAW
@given(st.integers(0, 4), st.integers(0, 4), st.integers(1, 4))
def test_the_conjunction_is_never_milder_than_the_half(agreeing: int, against: int, unknown: int):
    """What all answers support, half of them do."""
    of_all = Count(agreeing, against, 0, unknown, "all").verdict
    assert "Refuted" == of_all
    if agreeing and not against:
        assert "Supported" == Count(agreeing, against, 0, 0, "all").verdict
        assert "Supported" == Count(agreeing, against, 0, unknown, "half").verdict
