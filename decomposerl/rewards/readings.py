"""Readings beyond the paper: grounded answers, silence that refutes, restated claims.

The paper's formulas look at verdicts and answers one by one; these readings connect them. Each
is a setting (``RewardSettings``) whose default, ``literal``, leaves the formulas as printed.
Functions take a case and give truth values by cycle, or the judge's verdict as it is read. None
means that a ruling is missing.
"""

from collections.abc import Sequence
from functools import lru_cache

from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import Verdict
from decomposerl.text.words import parse, stem, word_set

_RESTATES = 0.8  # least share of the claim's content words in a question that restates it
_ABOUT = 0.5  # a question about a part has more than this share of its words from the claim
_FRAME_WORDS = """
year date day month time number name person place city country kind type document text passage
evidence article source mention mentioned state stated say said give given describe described
according true claim
"""
_FRAME = frozenset(map(stem, word_set(_FRAME_WORDS)))


@lru_cache(maxsize=16_384)
def restates(claim: str, question: str) -> bool:
    """Whether ``question`` holds most of the claim's content words."""
    content = parse(claim).content
    return bool(content) and len(content & parse(question).content) >= _RESTATES * len(content)


@lru_cache(maxsize=16_384)
def asks_about_part(claim: str, question: str) -> bool:
    """Whether ``question`` is mostly in the claim's words and does not restate it."""
    content, asked = parse(claim).content, parse(question).content
    own = (asked - _FRAME) | (asked & content)
    return len(own & content) > _ABOUT * len(own) and not restates(claim, question)


def marked(case: RewardCase, settings: RewardSettings) -> tuple[bool, ...]:
    """For each cycle whether its question restates the claim and may not earn."""
    claim, marks = case.rollout.claim, settings.restating == "marked"
    return tuple(marks and restates(claim, cycle.question) for cycle in case.cycles)


def left_open(case: RewardCase, *, claim: bool = False) -> tuple[bool | None, ...]:
    """For each cycle: an abstention about a part of the claim that the document leaves open.

    ``claim``: or about the claim as a whole.
    """
    about, signals = case.rollout.claim, case.signals

    def asks(question: str) -> bool:
        return asks_about_part(about, question) or (claim and restates(about, question))

    cycles = zip(case.cycles, signals.abstained, signals.answerable, strict=True)
    return tuple(
        (None if answerable is None else not answerable)
        if silent and asks(cycle.question)
        else False
        for cycle, silent, answerable in cycles
    )


def grounded(case: RewardCase, settings: RewardSettings) -> tuple[bool | None, ...]:
    """For each cycle whether its answer may pay: correct, or an honest abstention."""
    if settings.grounding == "literal":
        return (True,) * len(case.cycles)
    correct, silent = case.signals.correct, case.signals.abstained
    cycles = zip(marked(case, settings), silent, left_open(case), correct, strict=True)
    return tuple(
        False if mark else open_ if quiet else right for mark, quiet, open_, right in cycles
    )


def matches(
    given: Verdict | None, label: Verdict | None, open_: Sequence[bool | None]
) -> bool | None:
    """Whether the judge's verdict on some answers is the label.

    "Not enough information" matches only where one of the answers shows what the document leaves
    open (``open_``): from nothing answered nothing follows, and that alone is no finding.
    """
    if given is None or given != label or label != "NotEnoughInfo":
        return None if given is None else given == label
    return _any(open_)


def verdicts(
    case: RewardCase, settings: RewardSettings
) -> tuple[Verdict | None, tuple[Verdict | None, ...]]:
    """The judge's verdict from all answers and without each in turn, as ``silence`` reads them."""
    full, without = case.signals.full, case.signals.without
    if settings.silence == "literal":
        return full, without
    open_ = left_open(case)
    left = (_read(given, open_[:i] + open_[i + 1 :]) for i, given in enumerate(without))
    return _read(full, open_), tuple(left)


def _read(given: Verdict | None, open_: tuple[bool | None, ...]) -> Verdict | None:
    """Silence about a part means that the claim is not borne out: Refuted."""
    if given != "NotEnoughInfo" or (silent := _any(open_)) is False:
        return given
    return "Refuted" if silent else None


def _any(values: Sequence[bool | None]) -> bool | None:
    """Whether one of them is true; None where that depends on a missing ruling."""
    return True if any(values) else None if None in values else False
