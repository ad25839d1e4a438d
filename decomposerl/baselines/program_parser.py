r"""Parser of ProgramFC's programs, and the program in a model's reply.

Python's own grammar reads a program; text is only parsed, never executed. It becomes a ``Program``,
or an error with the first reason against it::

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
"""

import ast
import re
from functools import reduce
from itertools import chain
from typing import Literal

from decomposerl.baselines.program import (
    Both,
    Expression,
    Function,
    Name,
    Not,
    Program,
    ProgramStep,
)
from decomposerl.replies.lines import plain_text

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

_FUNCTIONS: dict[str, Function] = {"Question": "Question", "Verify": "Verify"}
_RESERVED = {*_FUNCTIONS, "Predict"}
_WORDS = {"AND": "and", "OR": "or", "NOT": "not", "RETURN": "return", "&&": "&"}
_NO_FACTORS = {"Predict", "and", "or", "True", "False", "=", "&", ")"}
_TOKEN = re.compile(
    r"""(?P<passed_over>^[^\S\n]*def[^\S\n]+\w+\([^\S\n]*\)[^\S\n]*:|[^\S\n]+|\#[^\n]*
                        |;(?=[^\S\n]*+(?:[\#\n]|\Z)))
      |(?P<newline>\n)
      |[fF]?(?P<string>“[^”\n]*”|"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
      |(?P<name>[^\W\d]\w*)
      |(?P<mark>==|&&?|[=()])""",
    re.VERBOSE | re.MULTILINE,
)
# A text whose own quotes end it too early: up to the last quote before a bracket and the line end.
_QUOTING = re.compile(
    r"""[fF]?(?P<quote>["'“])(?P<text>.{0,500})["'”](?=\s*\)[^\S\n]*;?[^\S\n]*(?:\#[^\n]*)?$)""",
    re.MULTILINE,
)
_CLOSED = re.compile(r"\s*\)")
_WORD_INSIDE = re.compile(r"(?<=\w)['’](?=\w)|(?<=s)['’](?=\s)")
_QUOTATION = re.compile(
    r"""(?<![^\s(\[‘'"“-])(["'“])[^\s"'“”](?:[^"'“”]*[^\s"'“”])?["'”](?![\w])"""
)
_ESCAPE = re.compile(r"""\\([\\"'n])""")
_FENCED = re.compile(r"^[^\S\n]*```[\w-]*[^\S\n]*\n(.*?)^[^\S\n]*```", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[^\S\n]*```[\w-]*[^\S\n]*$", re.MULTILINE)
_STATEMENT = re.compile(
    r"\s*(?P<mark>(?:[-*•]|\(?\d{1,2}[.)])\s+)?`?(?P<code>(?:[^\W\d]\w*\s*=\s*[^\W\d]\w*\s*\(|Predict\s*\("
    r"|return\s+(?:Predict\b|[^\W\d]\w*\s*\Z)).*?)`?\s*"
)
_DEFINED = re.compile(r"\s*def\s+\w+\(\s*\)\s*:\s*")


class ProgramRejectedError(ValueError):
    """The text is no program. ``reason`` is a short name, ``line`` counts from 1."""

    def __init__(self, reason: Reason, line: int, detail: str) -> None:
        super().__init__(f"line {line}: {reason}: {detail}")
        self.reason, self.line = reason, line


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
    lines: list[list[str]] = [[]]
    strings: list[str] = []
    at, factors, counting = 0, 0, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if quoted := _quoting(text, at, match):
            lines[-1].append(str(len(strings)))
            strings.append(_ESCAPE.sub(_unescaped, quoted["text"]))
            at = quoted.end()
            continue
        if match is None:
            raise ProgramRejectedError("unreadable_character", len(lines), repr(text[at]))
        kind, said = match.lastgroup, match[str(match.lastgroup)]
        at = match.end()
        if kind == "string":
            lines[-1].append(str(len(strings)))
            strings.append(_ESCAPE.sub(_unescaped, said[1:-1]))
        elif kind == "newline":
            lines.append([])
        elif kind != "passed_over":
            word = _WORDS.get(said, said)
            lines[-1].append(word)
            counting = counting or word == "Predict"
            factors += counting and word not in _NO_FACTORS
            if factors > MOST_FACTORS + 1:  # of the bracket behind Predict, too
                raise ProgramRejectedError("too_long_expression", len(lines), "too many parts")
    return "\n".join(" ".join(line) for line in lines), strings


def _unescaped(escape: re.Match[str]) -> str:
    return escape[1].replace("n", "\n")


def _quoting(text: str, at: int, token: re.Match[str] | None) -> re.Match[str] | None:
    """The text in quotes that starts here and has the same quotes inside; None for any other."""
    if token is not None and (token["string"] is None or _CLOSED.match(text, token.end())):
        return None
    whole = _QUOTING.match(text, at)
    if whole is None or text[max(0, at - 50) : at].rstrip()[-1:] != "(":
        return None
    inside = _QUOTATION.sub("", _WORD_INSIDE.sub("", whole["text"]))
    return None if whole["quote"] in inside else whole


class _Reader:
    """Reads the statements of one program; ``strings`` are those that its numbers stand for."""

    def __init__(self, strings: list[str]) -> None:
        self._strings = strings
        self._steps: list[ProgramStep] = []
        self._known: dict[str, Function] = {}

    def program(self, statements: list[ast.stmt], end: int) -> Program:
        """Steps, one prediction, perhaps a return of it, nothing behind it."""
        for place, statement in enumerate(statements, start=1):
            name, call = _named_call(statement)
            self._check_name(name, statement)
            if _function(call) != "Predict":
                self._step(name, call)
                continue
            while not name or name in self._known:
                name = f"{name}_" if name else "label"
            expression = self._expression(_argument(call))
            rest = statements[place:]
            if rest and ast.unparse(rest[0]) == f"return {name}":
                rest = rest[1:]
            if rest:
                raise _rejected("syntax", rest[0], "text stands behind Predict")
            return Program(tuple(self._steps), name, expression)
        raise ProgramRejectedError("no_predict", end, "it ends without a Predict")

    def _check_name(self, name: str, statement: ast.stmt) -> None:
        if name and len(self._steps) == MOST_STATEMENTS:
            raise _rejected("too_many_statements", statement, f"more than {MOST_STATEMENTS}")
        if name in _RESERVED:
            raise _rejected("syntax", statement, f"'{name}' names no result")
        if name in self._known:
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
            if used not in self._known:
                raise _rejected("undefined_name", argument, used)
        self._steps.append(step)
        self._known[name] = step.function

    def _expression(self, node: ast.expr) -> Expression:
        match node:
            case ast.Name(id=name):
                return self._fact(name, node)
            case ast.UnaryOp(op=ast.Not(), operand=inner) if not _bare(node, inner, "not "):
                return Not(self._expression(inner))
            case ast.BoolOp(op=op, values=values):
                word: Literal["and", "or"] = "and" if isinstance(op, ast.And) else "or"
                sides = map(self._expression, values)
                return reduce(lambda left, right: Both(word, left, right), sides)
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return Both("and", self._expression(left), self._expression(right))
            case ast.Compare(left, [ast.Eq()], [ast.Constant(value=bool(truth))]) if not _bare(
                node, left
            ):
                compared = self._expression(left)
                return compared if truth else Not(compared)
        raise _rejected("syntax", node, "no expression of facts")

    def _fact(self, name: str, node: ast.expr) -> Name:
        if name in _RESERVED:
            raise _rejected("syntax", node, f"'{name}' is no result's name")
        if name not in self._known:
            raise _rejected("undefined_name", node, name)
        if self._known[name] != "Verify":
            raise _rejected("not_a_fact", node, name)
        return Name(name)


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


def _function(node: ast.expr | None) -> str:
    """The name of the function that is called; empty where there is none."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
    return ""


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


def read_program(reply: str) -> Program:
    """The program of a reply, without thinking, fences and the lines around it.

    Raises:
        ProgramRejectedError: the first fault of what stands there as a program.
    """
    text = plain_text(reply).replace("**", "")
    blocks = _FENCED.findall(text)
    found = [program for block in blocks if (program := _parsed(block)) is not None]
    if found and all(program == found[0] for program in found):
        return found[0]
    if found:
        raise ProgramRejectedError("syntax", 1, "two programs")
    if len(blocks) == 1:
        return parse_program(blocks[0])
    plain = _FENCE.sub("", text)
    whole = _parsed("\n".join(blocks) or plain)
    return whole if whole is not None else parse_program(_statements(plain))


def _parsed(text: str) -> Program | None:
    try:
        return parse_program(text)
    except ProgramRejectedError:
        return None


def _statements(text: str) -> str:
    """The lines from the first statement to the last one, without list marks; else the text."""
    lines = text.splitlines()
    places = [place for place, line in enumerate(lines) if _STATEMENT.fullmatch(line)]
    if not places:
        return text
    return "\n".join(chain.from_iterable(_code(line) for line in lines[places[0] : places[-1] + 1]))


def _code(line: str) -> list[str]:
    """A line of a program, without a list mark; none for prose that ends with a colon."""
    statement = _STATEMENT.fullmatch(line)
    if statement is not None:
        return [statement["code"]]
    return [] if _DEFINED.fullmatch(line) or line.rstrip().endswith(":") else [line]
