"""A ruling's value as the type that rewards compute with.

Takes ``Ruling.value``, gives a truth value, five of them, or a verdict. A failed call has
no value, and None stays None: no reading makes a score of it (paper, section 3.2).

Left out deliberately: a model's reply (``decomposerl.prompts``); a value is exact or wrong.
"""

from typing import get_args

from decomposerl.judge.call import CRITERIA, AnswersVerdict

VERDICTS: tuple[AnswersVerdict, ...] = get_args(AnswersVerdict)
_TRUTH = {"0": False, "1": True}


def read_yes(value: str | None) -> bool | None:
    """Answerability or correctness: ``"1"`` or ``"0"``.

    Raises:
        ValueError: another text.
    """
    if value is None:
        return None
    if value not in _TRUTH:
        raise ValueError(f"{value!r} is neither '1' nor '0'")
    return _TRUTH[value]


def read_criteria(value: str | None) -> tuple[bool, ...] | None:
    """Atomicity: one digit a criterion, shape (5,), in the order of ``CRITERIA``.

    Raises:
        ValueError: another text.
    """
    if value is None:
        return None
    if len(value) != len(CRITERIA) or not set(value) <= set(_TRUTH):
        raise ValueError(f"{value!r} is not {len(CRITERIA)} digits of 0 and 1")
    return tuple(_TRUTH[digit] for digit in value)


def read_verdict(value: str | None) -> AnswersVerdict | None:
    """Coverage: one of the three verdicts.

    Raises:
        ValueError: another text.
    """
    if value is not None and value not in VERDICTS:
        raise ValueError(f"{value!r} is none of {', '.join(VERDICTS)}")
    return value
