r"""Parser of ProgramFC's programs: tokens and grammar.

Text becomes a ``Program``, or an error with the first reason against it. Grammar::

    program    = { step NEWLINE } prediction [ NEWLINE "return" NAME ]
    prediction = [ NAME "=" | "return" ] "Predict" "(" expression ")"
    step       = NAME "=" ( "Question" | "Verify" ) "(" STRING ")"
    expression = conjunct { "or" conjunct }
    conjunct   = factor { "and" factor }
    factor     = "not" factor | "(" expression ")" | NAME

Also accepted, because models write Python: a line ``def program():``, comments, indents, blank
lines, line breaks inside brackets, either quotes, an ``f`` before them, ``AND``, ``OR``, ``NOT``,
``;`` at a line's end, ``== True`` or ``== False`` behind a factor, and ``&`` between names and
brackets (beside ``not`` or ``==`` it means something else in Python). A step's text may quote a
title or have an apostrophe in the quotes that it stands in: it then ends at the line's last quote
before the closing bracket. Text is only parsed, never executed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
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

_WORDS = {"and", "or", "not", "return"}
_FUNCTIONS: dict[str, Function] = {"Question": "Question", "Verify": "Verify"}
_RESERVED = {*_WORDS, *_FUNCTIONS, "Predict"}
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
    return _Parser(list(_tokens(text))).program()


@dataclass(frozen=True, slots=True)
class _SyntaxToken:
    kind: str
    text: str
    line: int


def _tokens(text: str) -> Iterator[_SyntaxToken]:
    """Tokens with their lines; a line break inside brackets is none."""
    at, line, depth = 0, 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        quoting = _quoting(text, at, match)
        if quoting is not None:
            yield _SyntaxToken("string", f'"{quoting["text"]}"', line)
            at = quoting.end()
            continue
        if match is None:
            raise ProgramRejectedError("unreadable_character", line, repr(text[at]))
        kind, token = str(match.lastgroup), match[str(match.lastgroup)]
        depth += {"(": 1, ")": -1}.get(token, 0)
        if kind != "passed_over" and not (kind == "newline" and depth > 0):
            yield _SyntaxToken(kind, token, line)
        line += kind == "newline"
        at = match.end()
    yield _SyntaxToken("end", "the end", line)


def _quoting(text: str, at: int, token: re.Match[str] | None) -> re.Match[str] | None:
    """The text in quotes that starts here and has the same quotes inside; None for any other."""
    if token is not None and (token["string"] is None or _CLOSED.match(text, token.end())):
        return None
    whole = _QUOTING.match(text, at)
    if whole is None or text[max(0, at - 50) : at].rstrip()[-1:] != "(":
        return None
    inside = _QUOTATION.sub("", _WORD_INSIDE.sub("", whole["text"]))
    return None if whole["quote"] in inside else whole


class _Parser:
    """Recursive descent over the tokens; one instance reads one program."""

    def __init__(self, tokens: list[_SyntaxToken]) -> None:
        self._tokens, self._at, self._left = tokens, 0, MOST_FACTORS
        self._known: dict[str, Function] = {}

    def program(self) -> Program:
        """The whole text: steps, one prediction, nothing behind it."""
        steps: list[ProgramStep] = []
        while True:
            self._blank_lines()
            if self._peek().text in {"Predict", "return"}:
                return self._unnamed_prediction(tuple(steps))
            name = self._new_name(len(steps))
            function = self._expect("name")
            self._mark("(")
            if function.text == "Predict":
                return self._predicted(tuple(steps), name.text)
            steps.append(self._step(name.text, function))
            self._mark(")")
            if self._peek().kind != "end":
                self._expect("newline")

    def _unnamed_prediction(self, steps: tuple[ProgramStep, ...]) -> Program:
        """``Predict(…)`` or ``return Predict(…)``, under the first free name."""
        self._word("return")
        token = self._expect("name")
        if token.text != "Predict":
            raise ProgramRejectedError("no_predict", token.line, "it returns before a Predict")
        self._mark("(")
        label = "label"
        while label in self._known:
            label += "_"
        return self._predicted(steps, label)

    def _blank_lines(self) -> None:
        while self._peek().kind == "newline":
            self._at += 1

    def _new_name(self, statements: int) -> _SyntaxToken:
        """The name that a statement begins with, and its equals sign."""
        token = self._peek()
        if token.kind == "end":
            raise ProgramRejectedError("no_predict", token.line, "it ends without a Predict")
        if statements == MOST_STATEMENTS:
            raise ProgramRejectedError(
                "too_many_statements", token.line, f"more than {MOST_STATEMENTS}"
            )
        name = self._expect("name")
        if name.text in _RESERVED:
            raise ProgramRejectedError("syntax", name.line, f"'{name.text}' names no result")
        if name.text in self._known:
            raise ProgramRejectedError("redefined_name", name.line, name.text)
        self._mark("=")
        return name

    def _step(self, name: str, function: _SyntaxToken) -> ProgramStep:
        if function.text not in _FUNCTIONS:
            raise ProgramRejectedError("unknown_function", function.line, function.text)
        string = self._expect("string")
        text = _ESCAPE.sub(lambda match: match[1].replace("n", "\n"), string.text[1:-1])
        step = ProgramStep(name, _FUNCTIONS[function.text], text)
        for used in step.references:
            if used not in self._known:
                raise ProgramRejectedError("undefined_name", string.line, used)
        self._known[name] = step.function
        return step

    def _predicted(self, steps: tuple[ProgramStep, ...], label: str) -> Program:
        expression = self._expression()
        self._mark(")")
        self._blank_lines()
        if self._word("return") and self._peek().text == label:
            self._at += 1
            self._blank_lines()
        if self._peek().kind != "end":
            raise ProgramRejectedError("syntax", self._peek().line, "text stands behind Predict")
        return Program(steps, label, expression)

    def _expression(self) -> Expression:
        left = self._conjunct()
        while self._word("or"):
            left = Both("or", left, self._conjunct())
        return left

    def _conjunct(self) -> Expression:
        first = self._at
        left = self._factor()
        while (joint := self._peek().text in {"&", "&&"}) or self._word("and"):
            if joint:
                self._joins(first)
                self._at += 1
            first = self._at
            left = Both("and", left, self._factor())
            if joint:
                self._joins(first)
        return left

    def _joins(self, first: int) -> None:
        """Refuse the factor from ``first`` beside ``&``, unless it is a name or in brackets."""
        if self._tokens[first].text in {"not", "NOT"} or self._tokens[self._at - 2].text == "==":
            raise ProgramRejectedError("syntax", self._peek().line, "'&' beside 'not' or '=='")

    def _factor(self) -> Expression:
        self._count()
        if self._word("not"):
            return Not(self._factor())
        if self._peek().text != "(":
            return self._compared(self._fact())
        self._mark("(")
        inner = self._expression()
        self._mark(")")
        return self._compared(inner)

    def _compared(self, factor: Expression) -> Expression:
        """The factor, or its negation before ``== False``."""
        if self._peek().text != "==":
            return factor
        self._at += 1
        truth = self._expect("name")
        if truth.text not in {"True", "False"}:
            raise ProgramRejectedError("syntax", truth.line, f"'== {truth.text}'")
        self._count()
        return factor if truth.text == "True" else Not(factor)

    def _fact(self) -> Name:
        token = self._expect("name")
        if token.text in _RESERVED:
            raise ProgramRejectedError("syntax", token.line, f"'{token.text}' is no result's name")
        if token.text not in self._known:
            raise ProgramRejectedError("undefined_name", token.line, token.text)
        if self._known[token.text] != "Verify":
            raise ProgramRejectedError("not_a_fact", token.line, token.text)
        return Name(token.text)

    def _count(self) -> None:
        """One more factor; each opens at most one level."""
        self._left -= 1
        if self._left < 0:
            raise ProgramRejectedError("too_long_expression", self._peek().line, "too many parts")

    def _peek(self) -> _SyntaxToken:
        return self._tokens[self._at]

    def _expect(self, kind: str) -> _SyntaxToken:
        token = self._peek()
        if token.kind != kind:
            raise ProgramRejectedError(
                "syntax", token.line, f"{token.text!r} where a {kind} stands"
            )
        self._at += 1
        return token

    def _mark(self, mark: str) -> None:
        if self._peek().text != mark:
            raise ProgramRejectedError(
                "syntax", self._peek().line, f"{self._peek().text!r} where '{mark}' stands"
            )
        self._at += 1

    def _word(self, word: str) -> bool:
        token = self._peek()
        matches = token.kind == "name" and token.text in {word, word.upper()}
        self._at += matches
        return matches
