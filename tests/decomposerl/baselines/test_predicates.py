"""FOLK's predicates and their truths in the forms that chat models write them in."""

import pytest

from decomposerl.baselines.predicates import Predicate, read_predicates, read_truths

BORN, PAINTED = "BornIn(Ada, Varn)", "Painted(Ada, Grey Shore)"
ASKED = ("Where was Ada born?", "Who painted it?")
BOTH = [f"{BORN} | Ada was born in Varn.", PAINTED]
FULL = (
    Predicate(f"{BORN} | Ada was born in Varn.", ASKED[0]),
    Predicate(f"{PAINTED} | Ada painted it.", "Who painted it?"),
)


@pytest.mark.parametrize(
    "text",
    [
        (
            f"1. **{BORN}**\n   - Statement: Ada was born in Varn.\n   - Question: {ASKED[0]}\n"
            f"2. **{PAINTED}**\n   - Statement: Ada painted it.\n   - Question: Who painted it?"
        ),
        (
            f"Predicate 1: {BORN}\nStatement: Ada was born in Varn.\nQuestion: {ASKED[0]}\n\n"
            f"Predicate 2: {PAINTED}\nStatement: Ada painted it.\nQuestion: Who painted it?"
        ),
        (
            f"### Predicate 1\n{BORN}\nStatement: Ada was born in Varn.\nQuestion: {ASKED[0]}\n"
            f"### Predicate 2\n{PAINTED}\nStatement: Ada painted it.\nQuestion: Who painted it?"
        ),
        (
            f"1. {BORN}\n   - Ada was born in Varn.\n   - Where was Ada born?\n"
            f"2. {PAINTED}\n   - Ada painted it.\n   - Who painted it?"
        ),
        (
            f"- {BORN} | Ada was born in Varn. | Where was Ada born?\n"
            f"- {PAINTED} | Ada painted it. | Who painted it?"
        ),
        (
            f"{BORN} | Ada was born in Varn. | Where was Ada born?\n"
            f"{PAINTED} | Ada painted it. | Who painted it?"
        ),
        (
            f"1. {BORN} - Ada was born in Varn. - Where was Ada born?\n"
            f"2. {PAINTED}: Ada painted it. Who painted it?"
        ),
        (
            "| # | Predicate | Statement | Question |\n|---|---|---|---|\n"
            f"| 1 | {BORN} | Ada was born in Varn. | Where was Ada born? |\n"
            f"| 2 | {PAINTED} | Ada painted it. | Who painted it? |"
        ),
    ],
)
def test_statement_and_question_belong_to_their_predicate(text: str):
    """On the predicate's line, behind dashes, in a table or on lines of their own."""
    assert FULL == read_predicates(f"Here are the predicates:\n\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        f"{BORN}\n{PAINTED}",
        f"```\n{BORN}\n{PAINTED}\n```",
        f"- `{BORN}`\n- `{PAINTED}`",
        f"{BORN} ∧ {PAINTED}",
        f"{BORN} AND {PAINTED}",
        f"<think>\n1. Is(it, so)\n</think>\n\n{BORN}\n{PAINTED}",
    ],
)
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


@pytest.mark.parametrize(
    "text",
    [
        "Predicate 1 is True because it says so.\nPredicate 2 is False.",
        f"{BORN}: True\n{PAINTED}: False",
        f"- {BORN} is true.\n- {PAINTED} is false.",
        f"{BORN}\nVerdict: True\n\n{PAINTED}\nVerdict: False\n\n[Refuted]",
        f"1. {BORN}\n   - **True**: it says so\n2. {PAINTED}\n   - **False**",
        f"Predicate 1 ({BORN}): True - it says so\nPredicate 2 ({PAINTED}): False",
        "1: True, 2: False",
        "P1 = True\nP2 = False",
        "1 - True\n2 - Not true",
        "1: [True] - it says so\n2: [False]",
        "Conjunction: True and False\n[Refuted]",
        "Conjunction: True ∧ False = False",
        "1: Supported - it says so\n2: Refuted",
    ],
)
def test_truths_in_other_forms(text: str):
    """By number, by form, under a heading, or in the conjunction alone."""
    assert ["true", "false"] == read_truths(text, BOTH)


@pytest.mark.parametrize(
    "text",
    [
        "1: True, but only in part\n2: True if it opened",
        "1: Mostly True - nearly\n2: Partly False",
        "[Supported]",
        "1. So it goes\n2. As it were\n[Refuted]",
        "1: True or False\n2: False or True",
        "Verdict: True",
        "Conjunction: True and False and True",
    ],
)
def test_what_is_no_truth(text: str):
    """A hedge, the claim's own bracket and a conjunction of other length settle no predicate."""
    assert [None, None] == read_truths(text, BOTH)
