"""The language of ProgramFC's programs: the tree, its text, and how it is run.

A program is steps, each a question to answer or a statement to check under a name, and then
an expression over what was checked::

    answer_1 = Question("Who built the Torbeck bridge?")
    fact_1 = Verify("{answer_1} was born in Torbeck.")
    fact_2 = Verify("The Torbeck bridge opened in 1921.")
    label = Predict(fact_1 and not fact_2)

Takes a program and what its steps gave so far, gives the steps that can run next and, at the
end, what it concludes. Nothing is ever executed: a program is data that this file walks over.

Truth has three values, after Kleene: what is not known stays so under ``not``, and decides
nothing that the rest decides. On conjunctions, all that the publication has, a conclusion
that is not known ends as one that is false does.

Left out deliberately: reading text (``program_parser``), and asking a model (``program_fc``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Function = Literal["Question", "Verify"]
Truth = bool | None
Value = str | bool | None
"""What a step gave: an answer, or the truth of a statement (None: not known)."""

_REFERENCE = re.compile(r"\{\s*([^\W\d]\w*)\s*\}")


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """A question to answer or a statement to check, under the name that its result gets."""

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
    """Steps in order, then what is predicted of them, under its own name."""

    steps: tuple[ProgramStep, ...]
    label: str
    expression: Expression


def write_program(program: Program) -> str:
    """Canonical text, one statement a line; ``parse_program`` gives the same program back."""
    lines = [f"{step.name} = {step.function}({_quoted(step.text)})" for step in program.steps]
    return "\n".join([*lines, f"{program.label} = Predict({write_expression(program.expression)})"])


def write_expression(expression: Expression) -> str:
    """As few brackets as give the same tree."""
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

    Filling is one pass: braces in an answer stay braces. Empty once all steps have a value.
    """
    return tuple(
        replace(step, text=_REFERENCE.sub(lambda found: spoken(values[found[1]]), step.text))
        for step in program.steps
        if step.name not in values and all(name in values for name in step.references)
    )


def conclusion(expression: Expression, values: Mapping[str, Value]) -> Truth:
    """Truth of the prediction; a name without a truth value counts as not known.

    A definite result holds whatever the unknown ones are.
    """
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
    """A value as it stands in a later step's text."""
    if isinstance(value, str):
        return value
    return "unknown" if value is None else str(value).lower()


def _quoted(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def _bracketed(expression: Expression, needed: bool) -> str:  # noqa: FBT001 - a truth value
    text = write_expression(expression)
    return f"({text})" if needed else text
