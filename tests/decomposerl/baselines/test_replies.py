"""What readers of replies take for an answer, tolerance by tolerance, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.method import ModelReply
from decomposerl.baselines.pairs import cycles_of, numbered, qa_lines, repeats
from decomposerl.baselines.passage_numbers import read_numbers
from decomposerl.baselines.replies import (
    read_list,
    read_question,
    read_truth,
    says_none,
)
from decomposerl.baselines.silence import says_unknown
from decomposerl.baselines.written_pairs import read_pairs
from decomposerl.replies.lines import lines_of
from decomposerl.traces.grammar import build_trace
from strategies import LAW, any_text


@LAW
@given(any_text)
def test_no_text_breaks_a_reader(text: str):
    """Whatever came, each reader answers or says that there is nothing; none raises."""
    answer = ModelReply(text)
    assert read_truth(answer) in {None, "true", "false", "unknown"}
    assert read_list(text) != ("",)
    assert (read_numbers(text, 3) or (1,)) >= (1,)
    assert (read_question(text) or "?").endswith("?")
    assert all(map(all, read_pairs(text)))
    assert says_unknown(text) in {True, False}


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("Yes, it opened in 1871.", "true"),
        ("No. The mill is older.", "false"),
        ("**No** - it is not", "false"),
        ("No, the evidence does not say.", "unknown"),
        ("Unknown; nothing is said of it", "unknown"),
        ("No information is given", "unknown"),
        ("Yesterday, it rained", None),
    ],
)
def test_a_yes_or_no_may_give_its_reason(text: str, truth: str | None):
    """A comma or a stop parts the word from its reason, and a reason of not knowing wins."""
    assert truth == read_truth(ModelReply(text))


@pytest.mark.parametrize(
    "text",
    [
        *("", "unknown", "Unknown.", "**unknown**", "Unknown; it is not said.", "I don't know."),
        *("The evidence does not say.", "The document doesn't mention his birthplace."),
    ],
)
def test_not_knowing_in_several_words(text: str):
    """The word that prompts ask for, and the sentences that models write in its place."""
    assert says_unknown(text)


@pytest.mark.parametrize(
    "text",
    ["Unknown Pleasures", "1871", "no", "The evidence does not say so; it opened in 1871."],
)
def test_an_answer_is_not_taken_for_not_knowing(text: str):
    """A fact beside the hedge, or a name that begins like it, is an answer."""
    assert not says_unknown(text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1. one\n2. two", ("one", "two")),
        ("Here they are:\n\n1) one\n  2) **two**\n\nThat is all.", ("one", "two")),
        ("Q1: one?\nQ2: two?", ("one?", "two?")),
        ("Sub-claim 1: one\nSub-claim 2: two", ("one", "two")),
        ("- one\n- two", ("one", "two")),
        ("1. one\n   - a part of it\n2. two", ("one", "two")),
        ('1. "one"\n2. "Grey Shore" was two', ("one", '"Grey Shore" was two')),
        ("```\n1. one\n```", ("one",)),
        ("1. 1.5 million", ("1.5 million",)),
        ("NONE", ()),
        ("**None.**", ()),
        ("one\ntwo", None),
        ("1. one\n1. two", None),
        ("2. two\n3. three", None),
        ("1.5 million people", None),
        ("", None),
    ],
)
def test_a_list_is_numbered_lines(text: str, items: tuple[str, ...] | None):
    """Numbers go up from one; bullets count where no number stands; prose is no list."""
    assert items == read_list(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2, 5", (2, 5)),
        ("Passages: 2, 5 and 7.", (2, 5, 7)),
        ("[3], [1], [3]", (3, 1)),
        ("(4)", (4,)),
        ("none", ()),
        ("8", None),
        ("0", None),
        ("2 5", (2, 5)),
        ("2 5 mills", None),
        ("two", None),
        ("2\n3", (2, 3)),
    ],
)
def test_numbers_are_of_the_passages(text: str, numbers: tuple[int, ...] | None):
    """Each number names a passage that there is, once; anything else is no selection."""
    assert numbers == read_numbers(text, 7)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Who built it?", "Who built it?"),
        ("Yes.\nFollow up: Who built it?\n", "Who built it?"),
        ("**Q3:** Who built it?", "Who built it?"),
        ("Next question: “Who built it?”", "Who built it?"),
        ('Is it "Grey Shore"?', 'Is it "Grey Shore"?'),
        ("Who built it? And when?", "Who built it? And when?"),
        ("Who built it? Bob did.", None),
        ("Who built it? This is open. And when?", "Who built it? This is open. And when?"),
        ("<question>Who built it?</question><question>When?</question>", None),
        ("<question>Who?</question>\n<question>When?</question>", None),
        ("Who?\nWhen?", None),
        ("NONE", None),
        ("It was built.", None),
    ],
)
def test_a_next_question_is_one_line(text: str, question: str | None):
    """Two questions are no next question, and a statement is none."""
    assert question == read_question(text)


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
