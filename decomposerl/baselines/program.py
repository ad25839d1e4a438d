r"""The language of ProgramFC's programs: how a reply is read as one, and how one is run.

A program is steps, each a question to answer or a statement to check under a name, and then
an expression over the checked statements::

    answer_1 = Question("Who built the Torbeck bridge?")
    fact_1 = Verify("{answer_1} was born in Torbeck.")
    fact_2 = Verify("The Torbeck bridge opened in 1921.")
    label = Predict(fact_1 and not fact_2)

Nothing is ever executed: Python's own grammar reads a program, which is data from then on. The
caller runs the steps that are ready and adds their values until ``conclusion`` can be read::

    program    = { step NEWLINE } prediction [ NEWLINE "return" NAME ]
    prediction = [ NAME "=" | "return" ] "Predict" "(" expression ")"
    step       = NAME "=" ( "Question" | "Verify" ) "(" STRING ")"
    expression = names of Verify steps with not, and, or, brackets

Also accepted, because models write Python: a line ``def program():``, comments, indents, blank
lines, line breaks inside brackets, either quotes, an ``f`` before them, ``AND``, ``OR``, ``NOT``,
``;`` at a line's end, ``== True`` or ``== False`` behind a name or bracket, and ``&`` between names
and brackets (beside ``not`` or ``==`` a reader takes it for something else than Python does). A
step's text may quote a title or have an apostrophe in the quotes that it stands in: it then ends at
the line's last quote before the closing bracket.

Truth has three values, after Kleene: an unknown stays unknown under ``not``, and does not change
an expression that the known values decide. On conjunctions, all that the publication has, an
unknown conclusion ends as a false one does.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from decomposerl.replies.lines import plain_text
from decomposerl.replies.wordings import Wordings

Function = Literal["Question", "Verify"]
Truth = bool | None
Value = str | bool | None
"""The result of a step: an answer, or the truth of a statement (None: unknown)."""
Reason = Literal[
    "unreadable_character",
    "syntax",
    "unknown_function",
    "undefined_name",  # used before, or without, a step of that name
    "redefined_name",
    "not_a_fact",  # Predict uses a Question, whose answer is neither true nor false
    "too_many_statements",
    "too_long_expression",
    "no_predict",
]
MOST_STATEMENTS = 10
MOST_FACTORS = 60
"""Names, negations and brackets of an expression; bounds the depth of its tree, too."""

_Operator = Literal["", "not", "and", "or"]
_FUNCTIONS: dict[str, Function] = {"Question": "Question", "Verify": "Verify"}
_RESERVED = {*_FUNCTIONS, "Predict"}
_REFERENCE = re.compile(r"\{\s*([^\W\d]\w*)\s*\}")
_WORDS = {"AND": "and", "OR": "or", "NOT": "not", "RETURN": "return", "&&": "&"}
_NO_FACTORS = {"Predict", "and", "or", "True", "False", "=", "&", ")", "\n"}
_ESCAPE = re.compile(r"""\\([\\"'n])""")
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_PROGRAMS = Wordings("programs")


class ProgramRejectedError(ValueError):
    """The text is no program. ``reason`` is a short name, ``line`` counts from 1."""

    def __init__(self, reason: Reason, line: int, detail: str) -> None:
        super().__init__(f"line {line}: {reason}: {detail}")
        self.reason, self.line = reason, line


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
class Program:
    """Steps in order, then the prediction over them, under its own name.

    ``expression`` is Python of names, ``not``, ``and`` and ``or``, with no bracket but those that
    it needs.
    """

    steps: tuple[ProgramStep, ...]
    label: str
    expression: str


def write_program(program: Program) -> str:
    """Canonical text, one statement a line; ``parse_program`` reads the same program back."""
    lines = [
        f'{step.name} = {step.function}("{step.text.translate(_ESCAPED)}")'
        for step in program.steps
    ]
    return "\n".join([*lines, f"{program.label} = Predict({program.expression})"])


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


def conclusion(expression: str, values: Mapping[str, Value]) -> Truth:
    """Truth of the prediction; a name without a truth value counts as unknown."""
    return _truth(ast.parse(expression, mode="eval").body, values)


def _truth(node: ast.expr, values: Mapping[str, Value]) -> Truth:
    match node:
        case ast.UnaryOp(operand=inner):
            value = _truth(inner, values)
            return None if value is None else not value
        case ast.BoolOp(op=op, values=sides):
            truths, decisive = [_truth(side, values) for side in sides], isinstance(op, ast.Or)
            if decisive in truths:
                return decisive
            return None if None in truths else not decisive
    fact = values.get(ast.unparse(node))
    return fact if isinstance(fact, bool) else None


def spoken(value: Value) -> str:
    """A value as later steps' text spells it."""
    if isinstance(value, str):
        return value
    return "unknown" if value is None else str(value).lower()


def read_program(reply: str) -> Program:
    """The program of a reply, without thinking, fences and the lines around it.

    Raises:
        ProgramRejectedError: the first fault of what stands there as a program.
    """
    text = plain_text(reply).replace("**", "")
    blocks = _PROGRAMS["fenced"].findall(text)
    programs = []
    for block in blocks:
        with suppress(ProgramRejectedError):
            programs.append(parse_program(block))
    if any(program != programs[0] for program in programs):
        raise ProgramRejectedError("syntax", 1, "two programs")
    if programs:
        return programs[0]
    if len(blocks) == 1:
        return parse_program(blocks[0])
    plain = _PROGRAMS["fence"].sub("", text)
    with suppress(ProgramRejectedError):
        return parse_program("\n".join(blocks) or plain)
    return parse_program(_statements(plain))


def _statements(text: str) -> str:
    """The lines from the first statement to the last one, without list marks; else the text."""
    lines = text.splitlines()
    places = [place for place, line in enumerate(lines) if _PROGRAMS["statement"].fullmatch(line)]
    if not places:
        return text
    return "\n".join(chain.from_iterable(_code(line) for line in lines[places[0] : places[-1] + 1]))


def _code(line: str) -> list[str]:
    """A line of a program, without a list mark; none for prose that ends with a colon."""
    statement = _PROGRAMS["statement"].fullmatch(line)
    if statement is not None:
        return [statement["code"]]
    return [] if _PROGRAMS["defined"].fullmatch(line) or line.rstrip().endswith(":") else [line]


def parse_program(text: str) -> Program:
    """Parse a program; every name that it refers to is defined.

    Raises:
        ProgramRejectedError: the first fault of the text.
    """
    source, strings = _as_python(text)
    end = text.count("\n") + 1
    try:
        statements = ast.parse(source).body
    except (SyntaxError, RecursionError, MemoryError) as error:
        place = error.lineno if isinstance(error, SyntaxError) else None
        raise ProgramRejectedError("syntax", min(place or 1, end), str(error)) from None
    return _Reader(strings).program(statements, end)


def _as_python(text: str) -> tuple[str, list[str]]:
    """A text as Python of the same lines, with a number in place of each string, and the strings.

    No program has numbers, and two of them beside each other are no Python, while two strings are.
    """
    words: list[str] = []
    strings: list[str] = []
    position = 0
    while position < len(text):
        token = _PROGRAMS["token"].match(text, position)
        part = _quoting(text, position, token) or token
        if part is None:
            line = words.count("\n") + 1
            raise ProgramRejectedError("unreadable_character", line, repr(text[position]))
        position = part.end()
        if part["string"] is not None:
            words.append(str(len(strings)))
            strings.append(
                _ESCAPE.sub(lambda escape: escape[1].replace("n", "\n"), part["string"][1:-1])
            )
        elif part["word"] is not None:
            words.append(_WORDS.get(part["word"], part["word"]))
    if "Predict" in words:
        factors = [word for word in words[words.index("Predict") :] if word not in _NO_FACTORS]
        if len(factors) > MOST_FACTORS + 1:  # of the bracket behind Predict, too
            raise ProgramRejectedError("too_long_expression", words.count("\n") + 1, "many parts")
    return " ".join(words).replace("\n ", "\n").lstrip(" "), strings


def _quoting(text: str, position: int, token: re.Match[str] | None) -> re.Match[str] | None:
    """The text in quotes that starts here and has the same quotes inside; None for any other."""
    if token is not None and (
        token["string"] is None or _PROGRAMS["closed"].match(text, token.end())
    ):
        return None
    whole = _PROGRAMS["quoting"].match(text, position)
    if whole is None or text[max(0, position - 50) : position].rstrip()[-1:] != "(":
        return None
    inside = _PROGRAMS["quotation"].sub("", _PROGRAMS["word_inside"].sub("", whole["string"][1:-1]))
    return None if whole["quote"] in inside else whole


class _Reader:
    """Reads the statements of one program; ``strings`` are those that its numbers stand for."""

    def __init__(self, strings: list[str]) -> None:
        self._strings = strings
        self._steps: dict[str, ProgramStep] = {}

    def program(self, statements: list[ast.stmt], end: int) -> Program:
        """Steps, one prediction, perhaps a return of it, nothing behind it."""
        for place, statement in enumerate(statements, start=1):
            name, call = _named_call(statement)
            self._check_name(name, statement)
            if _function(call) != "Predict":
                self._step(name, call)
                continue
            while not name or name in self._steps:
                name = f"{name}_" if name else "label"
            _, expression = self._expression(_argument(call))
            rest = statements[place:]
            if rest and ast.unparse(rest[0]) == f"return {name}":
                rest = rest[1:]
            if rest:
                raise _rejected("syntax", rest[0], "text stands behind Predict")
            return Program(tuple(self._steps.values()), name, expression)
        raise ProgramRejectedError("no_predict", end, "it ends without a Predict")

    def _check_name(self, name: str, statement: ast.stmt) -> None:
        if name and len(self._steps) == MOST_STATEMENTS:
            raise _rejected("too_many_statements", statement, f"more than {MOST_STATEMENTS}")
        if name in _RESERVED:
            raise _rejected("syntax", statement, f"'{name}' names no result")
        if name in self._steps:
            raise _rejected("redefined_name", statement, name)

    def _step(self, name: str, call: ast.Call) -> None:
        function = _function(call)
        if function not in _FUNCTIONS:
            raise _rejected("unknown_function", call, function)
        match argument := _argument(call):
            case ast.Constant(value=int(place)) if not isinstance(place, bool):
                step = ProgramStep(name, _FUNCTIONS[function], self._strings[place])
            case _:
                raise _rejected("syntax", argument, "no text in quotes")
        for used in step.references:
            if used not in self._steps:
                raise _rejected("undefined_name", argument, used)
        self._steps[name] = step

    def _expression(self, node: ast.expr) -> tuple[_Operator, str]:
        """An expression's last operator, and its canonical text."""
        match node:
            case ast.Name():
                return "", self._fact(node)
            case ast.UnaryOp(op=ast.Not(), operand=inner) if not _bare(node, inner, "not "):
                return _negated(*self._expression(inner))
            case ast.BoolOp(op=op, values=values):
                word: _Operator = "and" if isinstance(op, ast.And) else "or"
                return _chained(word, map(self._expression, values))
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return _chained("and", map(self._expression, (left, right)))
            case ast.Compare(left, [ast.Eq()], [ast.Constant(value=bool(truth))]) if not _bare(
                node, left
            ):
                compared = self._expression(left)
                return compared if truth else _negated(*compared)
        raise _rejected("syntax", node, "no expression of facts")

    def _fact(self, node: ast.Name) -> str:
        if node.id in _RESERVED:
            raise _rejected("syntax", node, f"'{node.id}' is no result's name")
        if node.id not in self._steps:
            raise _rejected("undefined_name", node, node.id)
        if self._steps[node.id].function != "Verify":
            raise _rejected("not_a_fact", node, node.id)
        return node.id


def _negated(inner: _Operator, text: str) -> tuple[_Operator, str]:
    return "not", f"not ({text})" if inner in {"and", "or"} else f"not {text}"


def _chained(word: _Operator, sides: Iterable[tuple[_Operator, str]]) -> tuple[_Operator, str]:
    """The sides behind each other; chains lean to the left, and ``and`` binds closer."""
    texts = [
        f"({text})" if (inner == word and place) or (inner, word) == ("or", "and") else text
        for place, (inner, text) in enumerate(sides)
    ]
    return word, f" {word} ".join(texts)


def _named_call(statement: ast.stmt) -> tuple[str, ast.Call]:
    """The name that a statement gives to a call, empty where it gives none to its Predict."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name()) as call):
            return name, call
        case ast.Expr(ast.Call() as call) | ast.Return(ast.Call() as call) if (
            _function(call) == "Predict"
        ):
            return "", call
        case ast.Return():
            raise _rejected("no_predict", statement, "it returns before a Predict")
    raise _rejected("syntax", statement, "no statement of a program")


def _function(call: ast.Call) -> str:
    """The name of the function that is called."""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _argument(call: ast.Call) -> ast.expr:
    if len(call.args) != 1 or call.keywords:
        raise _rejected("syntax", call, "a call has one argument")
    return call.args[0]


def _bare(node: ast.expr, inner: ast.expr, before: str = "") -> bool:
    """Whether an ``&`` stands in ``node`` without brackets of its own."""
    beside = inner.col_offset == node.col_offset + len(before)
    return isinstance(inner, ast.BinOp) and beside


def _rejected(reason: Reason, node: ast.stmt | ast.expr, detail: str) -> ProgramRejectedError:
    return ProgramRejectedError(reason, node.lineno, detail)
