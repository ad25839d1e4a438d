"""The language of ProgramFC's programs: the tree, its text, and how it is run.

A program is steps, each a question to answer or a statement to check under a name, and then
an expression over the checked statements::

    answer_1 = Question("Who built the Torbeck bridge?")
    fact_1 = Verify("{answer_1} was born in Torbeck.")
    fact_2 = Verify("The Torbeck bridge opened in 1921.")
    label = Predict(fact_1 and not fact_2)

Nothing is ever executed: a program is data. The caller runs the steps that are ready and adds
their values until ``conclusion`` can be read.

Truth has three values, after Kleene: an unknown stays unknown under ``not``, and does not change
an expression that the known values decide. On conjunctions, all that the publication has, an
unknown conclusion ends as a false one does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Function = Literal["Question", "Verify"]
Truth = bool | None
Value = str | bool | None
"""The result of a step: an answer, or the truth of a statement (None: unknown)."""

_REFERENCE = re.compile(r"\{\s*([^\W\d]\w*)\s*\}")


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A question to answer or a statement to check, under the name of its result."""

    name: str
    function: Function
    text: str

    @property
    def references(self) -> tuple[str, ...]:
        """Names in braces, in order."""
        return tuple(_REFERENCE.findall(self.text))


@dataclass(frozen=True, slots=True)
class Name:
    """The truth of an earlier ``Verify``."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    inner: "Expression"


@dataclass(frozen=True, slots=True)
class Both:
    """``left and right`` or ``left or right``; chains lean to the left."""

    word: Literal["and", "or"]
    left: "Expression"
    right: "Expression"


Expression = Name | Not | Both


@dataclass(frozen=True, slots=True)
class Program:
    """Steps in order, then the prediction over them, under its own name."""

    steps: tuple[ProgramStep, ...]
    label: str
    expression: Expression


def write_program(program: Program) -> str:
    """Canonical text, one statement a line; ``parse_program`` reads the same program back."""
    lines = [f"{step.name} = {step.function}({_quoted(step.text)})" for step in program.steps]
    return "\n".join([*lines, f"{program.label} = Predict({write_expression(program.expression)})"])


def write_expression(expression: Expression) -> str:
    """The text with as few brackets as give the same tree."""
    match expression:
        case Name(name):
            return name
        case Not(inner):
            return f"not {_bracketed(inner, isinstance(inner, Both))}"
        case Both(word, left, right):
            loose = word == "and"
            first = _bracketed(left, loose and isinstance(left, Both) and left.word == "or")
            second = _bracketed(right, isinstance(right, Both) and (loose or right.word == "or"))
            return f"{first} {word} {second}"


def ready_steps(program: Program, values: Mapping[str, Value]) -> tuple[ProgramStep, ...]:
    """Steps without a value whose references all have one, with these filled in, in order.

    Empty once all steps have a value.
    """
    # One pass: braces in an answer stay braces.
    return tuple(
        replace(step, text=_REFERENCE.sub(lambda match: spoken(values[match[1]]), step.text))
        for step in program.steps
        if step.name not in values and all(name in values for name in step.references)
    )


def conclusion(expression: Expression, values: Mapping[str, Value]) -> Truth:
    """Truth of the prediction; a name without a truth value counts as unknown."""
    match expression:
        case Name(name):
            value = values.get(name)
            return value if isinstance(value, bool) else None
        case Not(inner):
            value = conclusion(inner, values)
            return None if value is None else not value
        case Both(word, left, right):
            sides = (conclusion(left, values), conclusion(right, values))
            decisive = word == "or"
            if decisive in sides:
                return decisive
            return None if None in sides else not decisive


def spoken(value: Value) -> str:
    """A value as later steps' text spells it."""
    if isinstance(value, str):
        return value
    return "unknown" if value is None else str(value).lower()


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def _bracketed(expression: Expression, needed: bool) -> str:  # noqa: FBT001 - a truth value
    text = write_expression(expression)
    return f"({text})" if needed else text
