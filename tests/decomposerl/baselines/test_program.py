"""The language of ProgramFC's programs: text to tree and back, and what running one gives.

Then programs as chat models write them: quotes inside strings, remarks around, a return.
"""

import itertools
import json
import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.program import (
    MOST_FACTORS,
    MOST_STATEMENTS,
    Program,
    ProgramRejectedError,
    ProgramStep,
    Truth,
    Value,
    conclusion,
    parse_program,
    read_program,
    ready_steps,
    write_program,
)
from strategies import LAW

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

FACTS = ("fact_1", "fact_2", "fact_3")
HEAD = "".join(f'{name} = Verify("Statement {name}.")\n' for name in FACTS)
GOOD = (
    'answer_1 = Question("Who built it?")\n'
    'fact_1 = Verify("{answer_1} was born in Torbeck.")\n'
    "label = Predict(fact_1)"
)
FACT = 'fact_1 = Verify("It is old.")'
PLAIN = f"{FACT}\nlabel = Predict(fact_1)"
expressions = st.recursive(
    st.sampled_from(FACTS),
    lambda inner: (
        inner.map("not ({})".format)
        | st.builds("({}) {} ({})".format, inner, st.sampled_from(("and", "or")), inner)
    ),
    max_leaves=12,
)
texts = st.text(st.characters(codec="utf-8"), max_size=30).map(
    lambda text: text.replace("{", "(").replace("}", ")")
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs with references to earlier steps, and any letters in their strings."""
    functions = draw(st.lists(st.sampled_from(("Question", "Verify")), max_size=8))
    names = [f"step_{place}" for place in range(len(functions) + 1)]
    steps = []
    for place, function in enumerate(["Verify", *functions]):
        used = draw(st.lists(st.sampled_from(names[:place]), max_size=2)) if place else []
        text = draw(texts) + "".join(f" {{{name}}}" for name in used)
        steps.append(ProgramStep(names[place], function, text))
    facts = [step.name for step in steps if step.function == "Verify"]
    chosen = draw(st.lists(st.sampled_from(facts), min_size=1, max_size=4))
    expression, last = chosen[0], ""
    for name in chosen[1:]:
        word = draw(st.sampled_from(("and", "or")))
        inner = f"({expression})" if last and (word, last) != ("or", "and") else expression
        expression, last = f"not {name} {word} {inner}", word
    return Program(tuple(steps), "label", expression)


def read_expression(text: str) -> str:
    return parse_program(f"{HEAD}label = Predict({text})").expression


def truth_tables(names: Sequence[str], choices: Sequence[Truth]) -> Iterator[dict[str, Value]]:
    for values in itertools.product(choices, repeat=len(names)):
        yield dict(zip(names, values, strict=True))


def rejected(text: str, read: Callable[[str], Program] = parse_program) -> tuple[str, int]:
    with pytest.raises(ProgramRejectedError) as caught:
        read(text)
    return caught.value.reason, caught.value.line


@LAW
@given(programs())
def test_what_is_written_reads_as_the_same_program(written: Program):
    """Print and parse: any letters in strings, references, any expression."""
    assert written == parse_program(write_program(written))


def test_brackets_that_change_nothing_are_not_written():
    """The canonical text has the fewest brackets, and reading drops those that say nothing."""
    text = "((fact_1) and ((not (fact_2))) and fact_3) or (fact_1)"
    assert "fact_1 and not fact_2 and fact_3 or fact_1" == read_expression(text)


@LAW
@given(expressions)
def test_a_definite_conclusion_holds_whatever_the_unknown_are(expression: str):
    """Kleene's logic never says more than all completions of the unknown facts agree on."""
    for values in truth_tables(FACTS, (True, False, None)):
        found = conclusion(expression, values)
        unknown = [name for name, value in values.items() if value is None]
        completions = {
            conclusion(expression, values | rest) for rest in truth_tables(unknown, (True, False))
        }
        assert completions <= {True, False}
        assert found is None or {found} == completions


def test_the_connectives_have_their_truth_tables():
    """And, or and not of known facts are the ordinary ones; unknown stays so under not."""
    both = {"and": (lambda a, b: a and b), "or": (lambda a, b: a or b)}
    for word, meant in both.items():
        for values in truth_tables(FACTS[:2], (True, False)):
            expected = meant(values["fact_1"], values["fact_2"])
            assert expected is conclusion(read_expression(f"fact_1 {word} fact_2"), values)
    for value, negated in ((True, False), (False, True), (None, None)):
        assert negated is conclusion(read_expression("not fact_1"), {"fact_1": value})


def test_steps_wait_for_what_they_refer_to():
    """A step runs once its references have values, which stand in its text in one pass."""
    read = parse_program(GOOD)
    assert read.steps[:1] == ready_steps(read, {})
    (filled,) = ready_steps(read, {"answer_1": "A {fact_1} man"})
    assert ProgramStep("fact_1", "Verify", "A {fact_1} man was born in Torbeck.") == filled
    assert () == ready_steps(read, {"answer_1": "X", "fact_1": None})
    spoken = parse_program('a = Verify("S.")\nb = Verify("It is {a}, {a}.")\nlabel = Predict(b)')
    for value, word in ((True, "true"), (False, "false"), (None, "unknown")):
        assert f"It is {word}, {word}." == ready_steps(spoken, {"a": value})[0].text


def test_what_models_add_is_accepted():
    """Each listed tolerance reads as the plain program does."""
    plain, values = parse_program(GOOD), {"answer_1": "Ilva"}
    for text in (
        f"# The claim is that\ndef program():\n    {GOOD.replace(chr(10), chr(10) + '    ')}\n\n",
        GOOD.replace("\n", "\r\n\r\n").replace('"', "'"),
        GOOD.replace('Verify("', 'Verify(f"').replace("Predict(fact_1)", "Predict(\n fact_1 \n)"),
        GOOD.replace("{answer_1}", "{ answer_1 }").replace(" = ", "="),
        GOOD.replace(")\n", "); \n") + ";",
        GOOD.replace(")\n", ");  # a remark\n"),
    ):
        read = parse_program(text)
        assert (plain.steps[0], plain.expression) == (read.steps[0], read.expression), text
        assert ready_steps(plain, values) == ready_steps(read, values), text


def test_the_operators_of_python_read_as_the_words():
    """Where both mean the same; elsewhere the program is rejected. Words may be capitals."""
    for written, plain in {
        "fact_1 & fact_2": "fact_1 and fact_2",
        "NOT fact_1 OR fact_2": "not fact_1 or fact_2",
        "fact_1 && (fact_2 or fact_1)": "fact_1 and (fact_2 or fact_1)",
        "fact_1 & fact_2 and not fact_1": "fact_1 and fact_2 and not fact_1",
        "fact_1 == True": "fact_1",
        "fact_1 == True and fact_2 == False": "fact_1 and not fact_2",
        "not fact_1 == False": "not not fact_1",
        "(fact_1 or fact_2) == False": "not (fact_1 or fact_2)",
        "(fact_1 == True) & (fact_2 == False)": "fact_1 and not fact_2",
    }.items():
        assert read_expression(plain) == read_expression(written), written


@pytest.mark.parametrize(("text", "reason", "line"), TABLES["rejected programs"])
def test_what_is_no_program_is_rejected_with_its_reason(text: str, reason: str, line: int):
    """Each fault has its own name and its line; nothing is skipped or mended."""
    assert (reason, line) == rejected(text)


def test_ten_statements_are_the_most():
    """Nine steps and a Predict parse; one step more does not."""
    steps = [f'fact_{place} = Verify("S {place}.")' for place in range(MOST_STATEMENTS)]
    most = "\n".join([*steps[:-1], "label = Predict(fact_0)"])
    assert MOST_STATEMENTS - 1 == len(parse_program(most).steps)
    more = "\n".join([*steps, "label = Predict(fact_0)"])
    assert ("too_many_statements", MOST_STATEMENTS + 1) == rejected(more)


def test_a_deep_or_long_expression_is_rejected_early():
    """No text makes the reader recurse without end, and the longest that passes can be run."""
    for repeated in ("not ", "(", "fact_1 and ", "fact_1 or not ("):
        text = f"{HEAD}label = Predict({repeated * 5_000}fact_1"
        assert "too_long_expression" == rejected(text)[0], repeated
    longest = "not " * (MOST_FACTORS - 1) + "fact_1"
    assert False is conclusion(read_expression(longest), {"fact_1": True})


SPACED = ("a", "=", "Verify", "Predict", "(", ")", '"s"', "and", "not", "{", "#", "def p():", "'")
PIECES = st.lists(st.sampled_from((*SPACED, "\n")), max_size=25).map(" ".join)


@LAW
@given(st.text(string.printable, max_size=60) | PIECES)
def test_any_text_is_read_or_rejected(text: str):
    """Nothing but a rejection is ever raised, and what is read can be written and read again."""
    lines = range(1, text.count("\n") + 2)
    try:
        read = parse_program(text)
    except ProgramRejectedError as rejection:
        line = rejection.line
    else:
        line = 1
        assert read == parse_program(write_program(read))
    assert line in lines


def test_nothing_is_executed(tmp_path: Path):
    """Code inside a program is text: it is rejected or stays a string, and no file appears."""
    target = tmp_path / "made"
    code = f"__import__('pathlib').Path({str(target)!r}).touch()"
    hostile = [
        f"a = Verify({code})\nlabel = Predict(a)",
        f"{HEAD}label = Predict({code})",
        f"{code}\n{HEAD}label = Predict(fact_1)",
        f'a = Verify(f"{{{code}}}")\nlabel = Predict(a)',
    ]
    for text in hostile[:3]:
        assert rejected(text)[0] in {"syntax", "unreadable_character", "undefined_name"}
    read = parse_program(hostile[3])
    assert code in ready_steps(read, {})[0].text
    assert not target.exists()


@pytest.mark.parametrize(("string", "text"), TABLES["quotes inside a text are part of it"])
def test_quotes_inside_a_text_are_part_of_it(string: str, text: str):
    """The text ends at the last quote before the bracket that closes the line."""
    for end in ("", "  # a remark"):
        program = f"answer_1 = Question({string}){end}\n{PLAIN}"
        assert [text, "It is old."] == [step.text for step in parse_program(program).steps]


def test_code_between_quotes_is_no_text():
    """Two strings with an operator, a comma or nothing between them are rejected as before."""
    for argument in (
        *('"S." + "T."', '"S." "T."', '"S.", "T."', '"S."; open("x")', '"x" if y else "z"'),
        *('"{} is".format(a)', '"S." % ("a")', "'S.' + 'T.'", '"a" and "b"', 'open("x").read()'),
    ):
        assert rejected(f"fact_1 = Verify({argument})\nlabel = Predict(fact_1)"), argument


@pytest.mark.parametrize("reply", TABLES["a program is found in its reply"])
def test_a_program_is_found_in_its_reply(reply: str):
    """Remarks, list marks and fences go; the label may be missing or returned."""
    program = read_program(reply)
    assert ["It is old."] == [step.text for step in program.steps]
    assert "fact_1" == program.expression


@pytest.mark.parametrize(("reply", "reason"), TABLES["what is no program stays rejected"])
def test_what_is_no_program_stays_rejected(reply: str, reason: str):
    """Unknown functions, prose between statements, and two different programs."""
    assert reason == rejected(reply, read_program)[0]


def test_a_label_that_a_step_has_is_not_taken_twice():
    """A prediction without a name gets one that is free."""
    assert "label_" == read_program('label = Verify("S.")\nPredict(label)').label
