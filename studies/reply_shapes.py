"""What a reading looks like, and how a reading compares with the expected one.

A ``Shape`` says which JSON values are readings of an operation, which of them are no reading at
all, and which two are the same. ``compared`` gives one of three outcomes: as expected, unread
(nothing was read where something was expected, or the form was lost) or silently wrong.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["as expected", "unread", "silently wrong"]

VERDICTS = ("Supported", "Refuted")
_ERROR = re.compile(r"[A-Za-z]+Error: .*", re.DOTALL)
_NO_VERDICT = frozenset({"no_verdict", "several_verdicts", "unknown_verdict"})
_NEAR = 0.01  # of a probability: which spellings of Yes count moves it by less


@dataclass(frozen=True, slots=True)
class Shape:
    """The readings of an operation.

    ``form`` describes them in an error. ``accepts`` takes an expected value that is not null,
    ``absent`` says which readings beside null are none, ``same`` compares two readings, and
    ``formal`` says whether two different ones differ in form alone.
    """

    form: str
    accepts: Callable[[Any], bool]
    absent: Callable[[Any], bool] = lambda value: value == ""
    same: Callable[[Any, Any], bool] = lambda expected, got: bool(expected == got)
    formal: Callable[[Any, Any], bool] = lambda _expected, _got: False


def accepted(shape: Shape, expected: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether ``expected`` is a reading of this shape, null, or the text of an error."""
    return expected is None or _is_error(expected) or shape.accepts(expected)


def compared(shape: Shape, expected: Any, got: Any) -> Outcome:  # noqa: ANN401 - any JSON
    """The outcome of one reading; null and any error text are the same: no reading."""
    expected, got = (None if _is_error(value) else value for value in (expected, got))
    none_expected = expected is None or shape.absent(expected)
    if got is None:
        return "as expected" if none_expected else "unread"
    if expected is not None and shape.same(expected, got):
        return "as expected"
    if shape.absent(got):
        return "as expected" if expected is None else "unread"
    return "unread" if expected is not None and shape.formal(expected, got) else "silently wrong"


def one_of(*words: str) -> Shape:
    """One of these words."""
    return Shape(" or ".join(f'"{word}"' for word in words), lambda value: value in words)


def matching(pattern: str, form: str) -> Shape:
    """Text that matches a pattern; empty text is no reading."""
    return Shape(form, lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value)))


def list_of(accepts: Callable[[Any], bool], form: str, *, empty: bool) -> Shape:
    """A list of such values; ``empty``: the empty list is a reading."""

    def fits(value: Any) -> bool:  # noqa: ANN401 - any JSON
        return isinstance(value, list) and all(map(accepts, value))

    return Shape(form, fits, absent=lambda value: not value and not empty)


def _is_error(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, str) and _ERROR.fullmatch(value) is not None


def is_count(value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether a value is a whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_verdict(value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether a value is a verdict, or null."""
    return value is None or value in VERDICTS


def _tuple(value: Any, *parts: Callable[[Any], bool]) -> bool:  # noqa: ANN401 - any JSON
    """Whether a value is a list of these parts."""
    if not isinstance(value, list) or len(value) != len(parts):
        return False
    return all(fits(part) for fits, part in zip(parts, value, strict=True))


def _is_text(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, list) and all(map(_is_text, value))


def _is_probability(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_turn(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return (
        _tuple(value, lambda kind: kind in ("none", "unread"))
        or _tuple(value, lambda kind: kind == "question", _is_text)
        or _tuple(value, lambda kind: kind == "final", is_verdict)
    )


def _is_program(value: Any) -> bool:  # noqa: ANN401 - any JSON
    ok = _tuple(value, lambda word: word == "ok", is_count)
    return ok or _tuple(value, lambda word: word == "rejected", _is_text)


def _near(expected: Sequence[float], got: Sequence[float]) -> bool:
    """Probabilities that round alike and put the claim on the same side."""
    near = all(abs(one - other) <= _NEAR for one, other in zip(expected, got, strict=True))
    return near and (expected[0] > expected[1]) == (got[0] > got[1])


def _same_trace(expected: Sequence[Any], got: Sequence[Any]) -> bool:
    """Verdict, cycles and faults; without a verdict, the faults that say so do not count."""
    left_out = _NO_VERDICT if expected[0] is None else frozenset()
    faults = [sorted(set(value[2]) - left_out) for value in (expected, got)]
    return expected[:2] == got[:2] and faults[0] == faults[1]


VERDICT = one_of(*VERDICTS)
TRUTH = one_of("true", "false", "unknown")
ANSWER = one_of("text", "unknown")
COVERAGE = one_of(*VERDICTS, "NotEnoughInfo")
DIGIT = one_of("0", "1")
CRITERIA = matching("[01]{5}", 'five digits of 0 and 1, such as "11101"')
QUESTION = matching(r"(?s).*\S.*", "the question's text")
YES_NO = list_of(
    lambda value: value in ("true", "false"), 'a list of "true" and "false"', empty=False
)
NUMBERS = list_of(is_count, "a list of numbers", empty=True)
ABSTENTION = Shape("true or false", lambda value: isinstance(value, bool))
QUESTIONS = Shape("number of questions", is_count, absent=lambda _: False)
PAIRS = Shape("number of questions with answers", is_count, absent=lambda value: value == 0)
SUFFICIENT = Shape(
    TRUTH.form,
    TRUTH.accepts,
    same=lambda expected, got: (expected == "true") == (got == "true"),
)
SUB_CLAIMS = Shape(
    "number of sub-claims, 0 for a claim that stays whole",
    is_count,
    absent=lambda _: False,
    same=lambda expected, got: max(expected, 1) == max(got, 1),
)
ITEMS = Shape(
    "[number of items, number of those that are used]",
    lambda value: _tuple(value, is_count, is_count),
    absent=lambda value: value[0] == 0,
)
WRITTEN_OUT = Shape(
    "[verdict or null, number of questions with answers]",
    lambda value: _tuple(value, is_verdict, is_count),
    absent=lambda value: value[0] is None,
)
STEP = Shape(
    '[handler or "end", step]',
    lambda value: _tuple(value, _is_text, _is_text),
    absent=lambda value: not value[0],
)
TURN = Shape(
    '["question", text], ["final", verdict or null], ["none"] or ["unread"]',
    _is_turn,
    absent=lambda value: value in (["unread"], ["final", None]),
)
CONJUNCTION = Shape(
    '[truths such as "true false", verdict or null]',
    lambda value: _tuple(value, _is_text, is_verdict),
    absent=lambda value: value[1] is None,
)
PROGRAM = Shape(
    '["ok", number of steps] or ["rejected", reason]',
    _is_program,
    absent=lambda value: value[0] == "rejected",
    same=lambda expected, got: expected == got or expected[0] == got[0] == "rejected",
)
YES_AND_NO = Shape(
    "[probability of yes, of no]",
    lambda value: _tuple(value, _is_probability, _is_probability),
    same=_near,
)
TRACE = Shape(
    "[verdict or null, number of cycles, list of faults]",
    lambda value: _tuple(value, is_verdict, is_count, _is_texts),
    absent=lambda value: value[0] is None,
    same=_same_trace,
    formal=lambda expected, got: bool(expected[:2] == got[:2]),
)
