"""Lists, questions and pairs in the forms that chat models write them in."""

import pytest

from baseline_parts import QUESTION, drive, faithful, saying
from decomposerl.baselines import chen_2024, claimdecomp, hiss
from decomposerl.baselines.method import ModelReply
from decomposerl.baselines.passage_numbers import read_numbers
from decomposerl.baselines.replies import read_items, read_question
from decomposerl.baselines.written_pairs import read_pairs

ASKED = "Who built the mill?"
YES_NO = ("Is it old?", "Is it new?")


@pytest.mark.parametrize(
    "text",
    [
        "Is it old?\nIs it new?",
        "Here are the questions:\n\nIs it old?\nIs it new?\n\nThese cover the claim.",
        "**1.** Is it old?\n**2.** Is it new?",
        "**Question 1:**\nIs it old?\n**Question 2:**\nIs it new?",
        '1. "Is it old?"\n2. "Is it new?"',
        "<think>\n1. What is it?\n</think>\n\n1. Is it old?\n2. Is it new?",
        "```\n1. Is it old?\n2. Is it new?\n```",
        "(a) Is it old?\n(b) Is it new?",
        "What it says:\n1. Is it old?\n\nWhat it implies:\n1. Is it new?",
    ],
)
def test_questions_in_a_list(text: str):
    """Numbers, bullets or letters, and without these each line that is a question."""
    assert read_items(ModelReply(text)) == YES_NO


def test_chen_keeps_a_question_with_a_remark_behind_it():
    """The remark is no part of the question."""
    text = "1. Is it old? (the first part)\n2. Is it new? (the second)"
    driven = drive(faithful(chen_2024.METHOD), saying(text, text, "1", "1", "So.", "Supported"))
    assert list(YES_NO) == [cycle.question for cycle in driven.ended.cycles]


@pytest.mark.parametrize(
    "text",
    [
        "Is it old? | yes\nIs it new? | no",
        "1. Is it old?\n   - Supporting answer: yes\n2. Is it new?\n   - Supporting answer: no",
        "1. Is it old?\n   Answer: yes\n2. Is it new?\n   Answer: no",
        "1. Is it old?\n   → Yes\n2. Is it new?\n   → No",
        "1. Is it old? | Supporting answer: yes\n2. Is it new? | Supporting answer: no",
        "1. **Is it old?** **Yes**\n2. **Is it new?** **No**",
        '1. "Is it old?" | yes\n2. "Is it new?" | no',
        "1. Is it old? | yes (it is said)\n2. Is it new? | no (it is implied)",
        "1. Is it old? (supports: yes)\n2. Is it new? (supports: no)",
        "**Questions:**\n\nQuestion 1: Is it old? | Yes\nQuestion 2: Is it new? | No",
    ],
)
def test_the_supporting_answer_stands_by_its_question(text: str):
    """Behind the question or on the line below it, with or without a label."""
    ended = drive(faithful(claimdecomp.METHOD), saying(text, "Yes", "No")).ended
    assert list(YES_NO) == [cycle.question for cycle in ended.cycles]
    assert (2, 0, 0) == tuple(ended.notes[name] for name in ("agreeing", "against", "unoriented"))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Passages 2 and 3 are relevant.", (2, 3)),
        ("The relevant passages are 2, 3, and 5.", (2, 3, 5)),
        ("The answer is in passage 6.", (6,)),
        ("I would read passages 2 and 7 to answer the question.", (2, 7)),
        ("2\n3\n5", (2, 3, 5)),
        ("- Passage 2\n- Passage 5", (2, 5)),
        ("1. Passage 2\n2. Passage 5", (2, 5)),
        ("[2], [3]", (2, 3)),
        ("[2, 3]", (2, 3)),
        ("[2][3]", (2, 3)),
        ("6 (gives the total), 7", (6, 7)),
        ("Passage 2: the year\nPassage 5: the place", (2, 5)),
        ("2 - the year\n5 - the place", (2, 5)),
        ("3-5", (3, 4, 5)),
        ("Passages 3 to 5 and 7", (3, 4, 5, 7)),
        ("2; 3 & 5", (2, 3, 5)),
        ("2, 5\n\nPassage 2 gives the year 1902; passage 5 the place.", (2, 5)),
        ("<think>\n4?\n</think>\n\n**2**, **5**", (2, 5)),
        ("None of the passages is relevant.", ()),
        ("No passage bears on the question.", ()),
        ("There are no relevant passages.", ()),
        ("NONE (no passage speaks of the mill)", ()),
        ("None.", ()),
        ("Answer: NONE", ()),
        ("Passage 2: it names the 55 mills", (2,)),
        ("The relevant passages are 2 and 6, because passage 2 gives 1902.", (2, 6)),
        ('The answer is in passage 5, which says "76 mills".', (5,)),
        ("6. It names the mill.", (6,)),
        ("`2, 6`", (2, 6)),
        ("2 6", (2, 6)),
        ("2，6", (2, 6)),
        ('{"passages": [2, 6]}', (2, 6)),
        ("Passage 6 is the most relevant; passage 3 also helps.", (6, 3)),
        ("NONE, although passage 3 mentions the mill.", ()),
    ],
)
def test_passages_are_selected_in_a_sentence(text: str, numbers: tuple[int, ...]):
    """Lists, sentences, ranges and remarks; none of the passages is no number."""
    assert numbers == read_numbers(text, 7)


@pytest.mark.parametrize(
    "text",
    [
        "Passages 2 and 3 are not relevant.",
        "Passages 2 and 3, but not 4",
        "Passage 2 or 3",
        "None of them except 3",
        "Passage 2 mentions 1902.",
        "7-3",
        "2, because passage 3 says so",
        "The passages are 2 and 6, because passage 3 says so.",
        "Passage 2: it does not name the 55 mills.",
        "Passage 6 is relevant; passage 3 is not.",
        "1. It is.\n2. This is.",
        "6. It does not name the mill.",
        "2 1902",
        "NONE, but passage 3 mentions the mill.",
        '{"passages": [2, 9]}',
        "Passages 6 and 9",
        "2 arches are mentioned.",
        "Its arches: two",
        "There are 5 passages, none relevant",
    ],
)
def test_numbers_that_are_not_clear_select_nothing(text: str):
    """A number that is denied, unsure, out of range or of something else is no selection."""
    assert read_numbers(text, 7) is None


@pytest.mark.parametrize(
    "text",
    [
        f"First question: {ASKED}",
        f"The first question to ask is: {ASKED}",
        f"Sure! Here is the next question: {ASKED}",
        f"Question:\n{ASKED}",
        f"- **Question 1:** {ASKED}",
        f'The next question should be: "{ASKED}"',
        f"{ASKED} (This settles the first part.)",
        f"{ASKED}\n\nThis settles the first part.",
        f"{ASKED} This settles the first part.",
        f"**Question 2:** {ASKED} It is the fact that the rest rests on.",
        f"<question>{ASKED}</question>",
        f"Sure.\n<question>\n{ASKED}\n</question>",
        f"<next_question>{ASKED}</next_question>\n\nThis settles the first part.",
        f"<think>\nWhat is open?\n</think>\n\n{ASKED}",
    ],
)
def test_a_question_behind_a_label(text: str):
    """The label goes, the question stays whole."""
    assert ASKED == read_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "1. Q: Who?\n   A: Bob",
        "**Q1:** Who?\n**Sure:** no\n**A1:** Bob",
        "**Q1**: Who?\n**A1**: Bob",
        "Question 1: Who?\nSure: no\nAnswer 1: Bob",
        "- Q1: Who?\n- Sure: no\n- A1: Bob",
        "Q1: Who?\nA1:\nBob",
        "Q1:\nWho?\nSure: yes\nA1:\nBob",
        "Q1: Who?\nA1:\n\n**Bob**\n\nSure: yes",
        "1. Who?\n   - Sure: no\n   - Answer: Bob",
        "Follow up: Who?\nIntermediate answer: Bob",
        "Q1: Who? Sure: no A1: Bob",
        "### Question 1\nWho?\n### Answer 1\nBob",
        "Q1 - Who?\nA1 - Bob",
        "Step 1: Who?\nResult: Bob",
        "| # | Question | Answer |\n|---|---|---|\n| 1 | Who? | Bob |",
        "| Who? | Bob |\n\nVerdict: Supported",
        "1. Who?\n   - Bob\n\nVerdict: Supported",
        "Questions:\n1. Who? (supporting: yes)\n\nAnswers:\n1. Bob\n\nVerdict: Supported",
        "<think>\nQ1: What?\nA1: this\n</think>\n\nQ1: Who?\nA1: Bob",
    ],
)
def test_pairs_in_other_forms(text: str):
    """The question and its answer, without the labels around them."""
    assert (("Who?", "Bob"),) == read_pairs(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Q1: Who?\nA2: Bob", "Q1: Who?\nSure: no", "A1: Bob", "Q1: Who?\nA1:", "Who?\nBob"),
        "A: Q: x",
        "1. Who?\n- When?",
        "1. Who?\n- Sure: no",
        "| 1 | Who? | |",
        "| Who? | When? |",
        "- Bob\n1. Who?",
        "1. Who?\n2. When?\nAnswers:\n1. Bob",
        "1. Who?\nAnswers:\n2. Bob",
        "Answers:\n1. Bob",
    ],
)
def test_half_a_pair_is_none(text: str):
    """No answer is made of another question's, of a label or of plain text."""
    assert () == read_pairs(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The claim states one thing only: NONE", ()),
        ("NONE. It is one fact.", ()),
        ("None - the claim states one thing.", ()),
        ("1. NONE", ()),
        ("The mill is old.", ()),
        ('"The mill is old."', ()),
        ("It states a single fact.\nIt cannot be split further.", ()),
        ("The mill is old.\nThe bridge is new.", ("The mill is old.", "The bridge is new.")),
        ("Sub-claims:\n\nA is.\nB is.", ("A is.", "B is.")),
        ("**Sub-claim 1:**\nA is.\n**Sub-claim 2:**\nB is.", ("A is.", "B is.")),
        ('```json\n["A is.", "B is."]\n```', ("A is.", "B is.")),
        ("1. A is. 2. B is.", ("A is.", "B is.")),
        ("Sub-claims: \n1) A is. 2) B is. 3) C is.", ("A is.", "B is.", "C is.")),
        ("1. A won stage 1. 2. B is.\n2. C is.", ("A won stage 1. 2. B is.", "C is.")),
        ("(a) A is.\n(b) B is.", ("A is.", "B is.")),
    ],
)
def test_hiss_splits_or_keeps_the_claim(text: str, parts: tuple[str, ...]):
    """NONE on a line or one sentence keeps the claim whole; sentences are sub-claims."""
    pairs = ["Q1: Is it?\nA1: yes"] * max(len(parts), 1)
    driven = drive(faithful(hiss.METHOD), saying(text, *pairs, "Supported"))
    worked = [call.variables["claim"] for call in driven.calls if call.template == "work_through"]
    assert list(parts or (QUESTION.claim,)) == worked
    assert 0 == driven.ended.notes["asked_again"]
