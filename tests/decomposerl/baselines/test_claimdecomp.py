"""ClaimDecomp: oriented yes-no questions and the share of answers that support the claim."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseline_parts import QUESTION, drive, faithful, notes, outcome, said, saying
from decomposerl.baselines.claimdecomp import METHOD, verdict_of
from decomposerl.baselines.method import ModelReply
from strategies import LAW

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

FOLDER = Path(__file__).parent
SILENT = json.loads((FOLDER / "readers.json").read_text("utf-8"))["silent answers"]
THREE = "1. Is it granite? | yes\n2. Was the mill first? | yes\n3. Is it the mill's bridge? | no"


def test_the_call_graph():
    """Questions from the claim alone, then all answers at once, and no call for the verdict."""
    driven = said(METHOD, THREE, "Yes", "No, it came later.", "No.")
    written, *answered = driven.calls
    assert ["decompose", "verify", "verify", "verify"] == driven.operations()
    assert ["questions", "answer", "answer", "answer"] == driven.templates()
    assert {"claim": QUESTION.claim} == written.variables
    questions = ["Is it granite?", "Was the mill first?", "Is it the mill's bridge?"]
    assert [{"evidence": QUESTION.evidence, "question": text} for text in questions] == [
        call.variables for call in answered
    ]
    assert ("Supported", "parsed") == outcome(driven.ended)
    assert (2, 1) == notes(driven.ended, "agreeing", "against")
    assert questions == [cycle.question for cycle in driven.ended.cycles]
    assert 4 == METHOD.expected_calls(driven.ended)


def test_questions_are_oriented():
    """Where "no" supports the claim a yes speaks against it, and the other way round."""
    implied = "1. Has it been rebuilt? | no\n2. Has it been moved? | no"
    assert ("Supported", "parsed") == outcome(said(METHOD, implied, "No", "No").ended)
    assert ("Refuted", "parsed") == outcome(said(METHOD, implied, "Yes", "Yes").ended)


def test_how_the_supporting_answer_is_written():
    """Each listed form is read; without one a yes supports, and it is noted."""
    oriented = ("| no", "(No)", "[no].", "→ no", "- No", "| N", "| no | implied", "｜ no")
    for line, text, unoriented in (
        *((f"Is it new? {form}", "Is it new?", 0) for form in oriented),
        ("Is it new?", "Is it new?", 1),
        ("Is it new? |", "Is it new?", 1),
        ("Did they say no", "Did they say no", 1),
    ):
        driven = said(METHOD, f"1. {line}", "No")
        assert text == driven.calls[1].variables["question"]
        assert unoriented == driven.ended.notes["unoriented"], line
        assert ("Refuted" if unoriented else "Supported", "parsed") == outcome(driven.ended), line


def test_a_field_without_yes_or_no_is_asked_for_again():
    """A supporting answer that is there but cannot be read never counts as yes."""
    for field in ("perhaps", "yes/no", "yes or no", "1871", "depends | no"):
        listed = f"1. Is it old? | yes\n2. Is it new? | {field}"
        assert said(METHOD, listed, "No").ended.notes["questions"] == 0, field
        again = ["1. Is it old? | yes\n2. Is it new? | no"]
        ended = drive(faithful(METHOD), saying(listed, "Yes", "No", again=again)).ended
        assert (2, 1) == notes(ended, "agreeing", "asked_again"), field


def test_silence_never_votes():
    """Where "no" would support the claim, a silent answer does not."""
    for text in SILENT:
        ended = said(METHOD, "1. Was it rebuilt? | no", text).ended
        assert ("Refuted", 0, 1) == (ended.verdict, *notes(ended, "agreeing", "unknown")), text


def test_an_empty_row_is_read_at_once():
    """A row of a hundred thousand blanks holds no question; the reading is linear."""
    ended = said(METHOD, "|" + " " * 100_000 + "\n1. Is it old? | yes", "Yes").ended
    assert ["Is it old?"] == [cycle.question for cycle in ended.cycles]


@pytest.mark.parametrize(("answers", "verdict"), TABLES["half of the decisive answers support"])
def test_half_of_the_decisive_answers_support(answers: tuple[str, ...], verdict: str):
    """Unknown answers have no vote, half is enough, and none decisive is Refuted."""
    assert (verdict, "parsed") == outcome(said(METHOD, THREE, *answers).ended)


def test_an_answer_that_cannot_be_read_leaves_the_verdict_open():
    """Unless it could not change it; the limit's cut shows in the status."""
    odd = "One would have to look at the stones."
    open_ = said(METHOD, THREE, "Yes", "No", odd).ended
    assert (None, "unparsed", 1) == (*outcome(open_), open_.notes["unread"])
    assert (None, "unparsed") == outcome(said(METHOD, THREE, odd, odd, odd).ended)
    assert ("Supported", "parsed") == outcome(said(METHOD, THREE, "Yes", "Yes", odd).ended)
    assert ("Refuted", "parsed") == outcome(said(METHOD, THREE, "No", "No", odd).ended)
    assert (None, "truncated") == outcome(
        said(METHOD, THREE, "Yes", "No", ModelReply("It", truncated=True)).ended
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
    assert (ways.pop() if len(ways) == 1 else None) == verdict_of(agreeing, against, unread)


def test_duplicates_are_asked_once_and_runaway_lists_are_cut():
    """Letter case makes no new question, and beyond twenty a model repeats itself."""
    driven = said(METHOD, "1. Is it new? | no\n2. IS IT NEW? | no", "No")
    assert 1 == driven.ended.notes["questions"]
    many = "\n".join(f"{number}. Is it {number}? | yes" for number in range(1, 41))
    driven = said(METHOD, many, *["Yes"] * 20)
    assert 20 == driven.ended.notes["questions"]
    assert 21 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_no_question_is_no_verdict():
    """A reply without a list, or the word none, is repeated once and then ends the claim."""
    for reply in ("It is about a bridge.", "NONE"):
        driven = said(METHOD, reply)
        assert (None, "unparsed") == outcome(driven.ended)
        assert 1 + 1 == METHOD.expected_calls(driven.ended) == len(driven.calls)


def test_a_cut_list_loses_its_last_item_alone():
    """Half a question is not asked; what was whole is."""
    driven = said(METHOD, ModelReply("1. Is it new? | no\n2. Is it gra", truncated=True), "No")
    assert ["Is it new?"] == [cycle.question for cycle in driven.ended.cycles]
