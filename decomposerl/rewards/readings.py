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
from decomposerl.text.words import parse, stem, word_set
from decomposerl.traces.trace import Verdict

RESTATES = 0.8
"""Least share of the claim's content words in a question that restates it."""
ABOUT = 0.5
"""A question about a part has more than this share of its content words from the claim."""
_FRAME = frozenset(
    map(
        stem,
        word_set(
            "year date day month time number name person place city country kind type document "
            "text passage evidence article source mention mentioned state stated say said give "
            "given describe described according true claim"
        ),
    )
)


@lru_cache(maxsize=16_384)
def restates(claim: str, question: str) -> bool:
    """Whether ``question`` holds at least ``RESTATES`` of the claim's content words."""
    content = parse(claim).content
    return bool(content) and len(content & parse(question).content) >= RESTATES * len(content)


@lru_cache(maxsize=16_384)
def asks_about_part(claim: str, question: str) -> bool:
    """Whether ``question`` is mostly in the claim's words and does not restate it."""
    content, asked = parse(claim).content, parse(question).content
    own = (asked - _FRAME) | (asked & content)
    about = len(own & content) > ABOUT * len(own)
    return about and not restates(claim, question)


def marked(case: RewardCase, settings: RewardSettings) -> tuple[bool, ...]:
    """For each cycle whether its question restates the claim and may not earn."""
    return tuple(
        settings.restating == "marked" and restates(case.rollout.claim, cycle.question)
        for cycle in case.cycles
    )


def left_open(case: RewardCase, *, claim: bool = False) -> tuple[bool | None, ...]:
    """For each cycle: an abstention about a part of the claim that the document leaves open.

    ``claim``: or about the claim as a whole.
    """
    about, signals = case.rollout.claim, case.signals
    return tuple(
        (None if answerable is None else not answerable)
        if silent
        and (asks_about_part(about, cycle.question) or (claim and restates(about, cycle.question)))
        else False
        for cycle, silent, answerable in zip(
            case.cycles, signals.abstained, signals.answerable, strict=True
        )
    )


def grounded(case: RewardCase, settings: RewardSettings) -> tuple[bool | None, ...]:
    """For each cycle whether its answer may pay: correct, or an honest abstention."""
    if settings.grounding == "literal":
        return (True,) * len(case.cycles)
    signals = case.signals
    return tuple(
        False if mark else open_ if silent else correct
        for mark, silent, open_, correct in zip(
            marked(case, settings), signals.abstained, left_open(case), signals.correct, strict=True
        )
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
    if any(open_):
        return True
    return None if None in open_ else False


def others(open_: tuple[bool | None, ...], place: int) -> tuple[bool | None, ...]:
    """All but the one at ``place``."""
    return open_[:place] + open_[place + 1 :]


def verdicts(
    case: RewardCase, settings: RewardSettings
) -> tuple[Verdict | None, tuple[Verdict | None, ...]]:
    """The judge's verdict from all answers and without each in turn, as ``silence`` reads them."""
    full, without = case.signals.full, case.signals.without
    if settings.silence == "literal":
        return full, without
    open_ = left_open(case)
    left = (_read(given, others(open_, place)) for place, given in enumerate(without))
    return _read(full, open_), tuple(left)


def _read(given: Verdict | None, open_: tuple[bool | None, ...]) -> Verdict | None:
    """Silence about a part means that the claim is not borne out: Refuted."""
    if given != "NotEnoughInfo" or all(one is False for one in open_):
        return given
    return "Refuted" if any(open_) else None
