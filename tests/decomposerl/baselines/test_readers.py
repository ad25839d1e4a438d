"""What readers of replies take for an answer, in the forms that chat models write, and what not."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseline_parts import QUESTION
from decomposerl.baselines.pairs import cycles_of, numbered, qa_lines, repeats
from decomposerl.replies.abstention import abstains
from decomposerl.replies.answers import read_truth, says_unknown
from decomposerl.replies.lines import lines_of
from decomposerl.replies.lists import (
    read_items,
    read_list,
    read_numbers,
    read_pairs,
    read_question,
    read_sub_claims,
    read_yes_no_questions,
    says_none,
)
from decomposerl.replies.steps import Turn, read_handled_step, read_sufficient, read_turn
from decomposerl.traces.grammar import build_trace
from strategies import LAW, any_text

FORMS = json.loads(Path(__file__).with_name("readers.json").read_text("utf-8"))


@LAW
@given(any_text)
def test_no_text_breaks_a_reader(text: str):
    """Whatever came, each reader answers or says that there is nothing; none raises."""
    assert read_truth(text) in {None, "true", "false", "unknown"}
    assert read_list(text) != ("",)
    assert (read_numbers(text, 3) or (1,)) >= (1,)
    assert (read_question(text) or "?").endswith("?")
    assert all(map(all, read_pairs(text)))
    assert says_unknown(text) in {True, False}


TABLES: Mapping[str, Callable[[str], Any]] = {
    "truths": read_truth,  # behind a comma or a stop; by silence alone it is unknown
    "lists": read_list,  # numbers go up from one; bullets count without numbers; prose is none
    "passages": partial(read_numbers, most=7),  # denied, unsure or out of range: no selection
    "next question": read_question,  # the label goes; two questions are none, nor a statement
    "steps": partial(read_handled_step, expected=1),  # the one with that number, or the first
    "enough": read_sufficient,
    "sub-claims": partial(read_sub_claims, claim=QUESTION.claim),  # none: the claim stays whole
}
SAME: Mapping[str, tuple[Callable[[str], Any], Any]] = {
    "end of the steps": (TABLES["steps"], ("end", "")),
    "follow-ups": (read_turn, Turn("question", "Who built the mill?")),
    "end of the asking": (read_turn, Turn("none")),
    "final lines": (read_turn, Turn("final line", verdict="Refuted")),
    "oriented": (read_yes_no_questions, (("Is it old?", "true"), ("Is it new?", "false"))),
    "two questions": (read_items, ("Is it old?", "Is it new?")),
    "one pair": (read_pairs, (("Who?", "Bob"),)),
    "no pair": (read_pairs, ()),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_form_is_read_as_its_table_says(table: str):
    """Every form of the table, by the reader that methods use for it."""
    for text, value in FORMS[table].items():
        assert (tuple(value) if isinstance(value, list) else value) == TABLES[table](text), text


def test_not_knowing_is_told_from_an_answer():
    """By the word and the sentences in its place; a name, number or fact beside it is an answer."""
    assert [] == [text for text in FORMS["unknown"] if not says_unknown(text)]
    assert [] == [text for text in FORMS["known"] if says_unknown(text)]


def test_silence_is_unknown_in_every_reader():
    """As an answer, behind No or False, and beside "I don't know"."""
    for reason in FORMS["silent reasons"]:
        assert says_unknown(reason)
        for opening in ("No, ", "No; ", "False, "):
            said = opening + reason[0].lower() + reason[1:]
            assert "unknown" == read_truth(said), said
        assert "unknown" == read_truth(f"No. {reason}")
        assert abstains(f"I don't know. {reason}")
        assert abstains(f"{reason} I don't know.")


def test_a_denial_with_a_fact_is_no_silence():
    """It is an answer, keeps No, and does not pass under "I don't know"."""
    for reason in FORMS["denials with a fact"]:
        assert not says_unknown(reason)
        said = f"No, {reason[0].lower()}{reason[1:]}"
        assert "false" == read_truth(said), said
        assert not abstains(f"I don't know. {reason}")
        assert not abstains(f"{reason} I don't know.")


def test_what_the_document_is_about_does_not_answer():
    """Beside what kind of text it is, "I don't know" abstains; a name beside it may be a fact."""
    assert [] == [text for text in FORMS["abstentions"] if not abstains(text)]
    assert says_unknown("Oskar Lund is not named.")
    assert not abstains("I don't know. Lund is not named.")


@pytest.mark.parametrize("table", SAME)
def test_other_words_are_read_the_same(table: str):
    """Whatever stands around it: numbers, labels, letters, tables, remarks, JSON or a thought."""
    reader, value = SAME[table]
    for text in FORMS[table]:
        assert value == reader(text), text


def test_pairs_are_questions_with_the_answers_right_after_them():
    """What stands between is passed over; halves and answers of another number are no pairs."""
    reply = (
        "Let us see.\nQ1: Who?\nSure: no\nA1: Bob\n\n- **Q2:** When?\nQ3: Where?\nA3: in Ghana\n"
        "Question 4: Why?\nAnswer 5: because\nA. Smith says so.\nQ6: How?\nA: well"
    )
    assert (("Who?", "Bob"), ("Where?", "in Ghana"), ("How?", "well")) == read_pairs(reply)


line = st.text(st.characters(codec="utf-8", categories=("L", "N", "Zs")), min_size=1).filter(
    lambda text: " ".join(text.split()) and lines_of(text) == [text.strip()]
)


@LAW
@given(st.lists(st.tuples(line, line), max_size=4))
def test_pairs_written_are_pairs_read(pairs: list[tuple[str, str]]):
    """The lines that the next prompt shows are read as the pairs that they were made from."""
    plain = [(" ".join(asked.split()), " ".join(reported.split())) for asked, reported in pairs]
    assert tuple(plain) == read_pairs(qa_lines(pairs))
    assert tuple(asked for asked, _ in plain) == read_list(numbered(asked for asked, _ in pairs))


@LAW
@given(st.lists(st.tuples(any_text, any_text), max_size=4))
def test_any_pairs_make_a_trace(pairs: list[tuple[str, str]]):
    """Whatever a model wrote, its pairs are cycles that read back from the trace's text."""
    cycles = cycles_of([*pairs, ("Is <question>it</question> so?", "<think>unknown</think>")])
    assert cycles == build_trace("Questions.", cycles, "Refuted").cycles


def test_a_repeated_question_is_known_by_its_words():
    """Letter case and white space make no new question."""
    assert repeats("who  Built it?", [("Who built it?", "Bob")])
    assert not repeats("Who built it?", [("When?", "Who built it?")])


def test_none_is_one_word():
    """NONE on a line of its own ends a list or the asking; a sentence that holds it does not."""
    assert says_none("**NONE**.")
    assert says_none("Nothing is left.\nNONE")
    assert not says_none("None of them is left.")
