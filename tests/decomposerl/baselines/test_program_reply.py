"""Programs as chat models write them: quotes inside strings, remarks around, a return."""

import pytest

from decomposerl.baselines.program import Name
from decomposerl.baselines.program_parser import ProgramRejectedError, parse_program
from decomposerl.baselines.program_reply import read_program

FACT = 'fact_1 = Verify("It is old.")'
PLAIN = f"{FACT}\nlabel = Predict(fact_1)"


@pytest.mark.parametrize(
    ("string", "text"),
    [
        ('"Who wrote "Grey Shore"?"', 'Who wrote "Grey Shore"?'),
        ('""Grey Shore" is a film."', '"Grey Shore" is a film.'),
        ('"She starred in "Grey Shore""', 'She starred in "Grey Shore"'),
        ('"Who wrote "Grey Shore" (1999)?"', 'Who wrote "Grey Shore" (1999)?'),
        (
            '"Were "Grey Shore" and "Blue Shore" films?"',
            'Were "Grey Shore" and "Blue Shore" films?',
        ),
        ("'Who is Ada's father?'", "Who is Ada's father?"),
        ("'Who owned the Holms' mill?'", "Who owned the Holms' mill?"),
        ("'Who wrote 'Grey Shore'?'", "Who wrote 'Grey Shore'?"),
        ('"Is \'Grey Shore\' Ada\'s "best" film?"', "Is 'Grey Shore' Ada's \"best\" film?"),
        ("“Who wrote it?”", "Who wrote it?"),
        ('f"Did she say "no"?"', 'Did she say "no"?'),
        ('"Who wrote \\"Grey Shore\\"?"', 'Who wrote "Grey Shore"?'),
    ],
)
def test_quotes_inside_a_text_are_part_of_it(string: str, text: str):
    """The text ends at the last quote before the bracket that closes the line."""
    for end in ("", "  # a remark"):
        program = f"answer_1 = Question({string}){end}\n{PLAIN}"
        assert [text, "It is old."] == [step.text for step in parse_program(program).steps]


@pytest.mark.parametrize(
    "argument",
    [
        *('"S." + "T."', '"S." "T."', '"S.", "T."', '"S."; open("x")', '"x" if y else "z"'),
        *('"{} is".format(a)', '"S." % ("a")', "'S.' + 'T.'", '"a" and "b"', 'open("x").read()'),
    ],
)
def test_code_between_quotes_is_no_text(argument: str):
    """Two strings with an operator, a comma or nothing between them are rejected as before."""
    with pytest.raises(ProgramRejectedError):
        parse_program(f"fact_1 = Verify({argument})\nlabel = Predict(fact_1)")


@pytest.mark.parametrize(
    "reply",
    [
        f"{FACT}\nPredict(fact_1)",
        f"{FACT}\nreturn Predict(fact_1)",
        f"{PLAIN}\nreturn label",
        f"```python\ndef p():\n    {FACT}\n    label = Predict(fact_1)\n    return label\n```",
        f"Sure! Here is the program:\n\n{PLAIN}",
        f"{PLAIN}\n\nThe claim holds if it is old.",
        f"The program has two statements.\n{FACT}\nThe prediction follows:\nPredict(fact_1)\nDone.",
        f"1. {FACT}\n2. label = Predict(fact_1)",
        f"- `{FACT}`\n- `Predict(fact_1)`",
        f"The claim:\n```\nIt is old.\n```\nThe program:\n```python\n{PLAIN}\n```",
        f"```python\n{FACT}\n```\nand the prediction:\n```python\nPredict(fact_1)\n```",
        f"<think>\nPredict(fact_9)\n</think>\n\n{PLAIN}",
        f"    ```\n    {FACT}\n    Predict(fact_1)\n    ```",
    ],
)
def test_a_program_is_found_in_its_reply(reply: str):
    """Remarks, list marks and fences go; the label may be missing or returned."""
    program = read_program(reply)
    assert ["It is old."] == [step.text for step in program.steps]
    assert Name("fact_1") == program.expression


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("The claim is about a mill.", "unreadable_character"),
        (f"{FACT}\nreturn fact_1", "no_predict"),
        (f"{PLAIN}\nreturn fact_1", "syntax"),
        (f"{FACT}\nanswer = eval('1')\nPredict(fact_1)", "unknown_function"),
        (f"{FACT}\nThis one is true.\nPredict(fact_1)", "unreadable_character"),
        (f"```\n{PLAIN}\n```\n```\n{FACT}\nlabel = Predict(not fact_1)\n```", "syntax"),
        ("answer_1 = Search('it')\nPredict(answer_1)", "unknown_function"),
        ("", "no_predict"),
    ],
)
def test_what_is_no_program_stays_rejected(reply: str, reason: str):
    """Unknown functions, prose between statements, and two different programs."""
    with pytest.raises(ProgramRejectedError) as caught:
        read_program(reply)
    assert reason == caught.value.reason


def test_a_label_that_a_step_has_is_not_taken_twice():
    """A prediction without a name gets one that is free."""
    assert "label_" == read_program('label = Verify("S.")\nPredict(label)').label
