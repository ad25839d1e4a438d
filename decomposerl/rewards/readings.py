"""Readings beyond the paper: grounded answers, silence that refutes, restated claims.

The paper's formulas look at verdicts and answers one by one; these readings connect them. Each
is a setting (``RewardSettings``) whose default, ``literal``, leaves the formulas as printed.
Functions take a case and give truth values by cycle, or the judge's verdict as it is read. None
means that a ruling is missing.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from decomposerl.prompts.judge import AnswersVerdict
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
    rollout = case.rollout
    return tuple(
        settings.restating == "marked" and restates(rollout.claim, cycle.question)
        for cycle in rollout.trace.cycles
    )


def honest(case: RewardCase) -> tuple[bool | None, ...]:
    """For each cycle: an abstention about a part of the claim that the document leaves open."""
    return _abstains_rightly(case, asks_about_part)


def grounded(case: RewardCase, settings: RewardSettings) -> tuple[bool | None, ...]:
    """For each cycle whether its answer may pay: correct, or an honest abstention."""
    if settings.grounding == "literal":
        return (True,) * len(case.rollout.trace.cycles)
    signals = case.signals
    return tuple(
        False if mark else open_ if silent else correct
        for mark, silent, open_, correct in zip(
            marked(case, settings), signals.abstained, honest(case), signals.correct, strict=True
        )
    )


def shows_open(case: RewardCase) -> tuple[bool | None, ...]:
    """For each cycle: an abstention about the claim or a part that the document leaves open."""
    return _abstains_rightly(case, lambda *both: asks_about_part(*both) or restates(*both))


def _abstains_rightly(
    case: RewardCase, about: Callable[[str, str], bool]
) -> tuple[bool | None, ...]:
    claim, signals = case.rollout.claim, case.signals
    return tuple(
        _not(answerable) if silent and about(claim, cycle.question) else False
        for cycle, silent, answerable in zip(
            case.rollout.trace.cycles, signals.abstained, signals.answerable, strict=True
        )
    )


def matches(
    given: AnswersVerdict | None, label: Verdict | None, open_: Sequence[bool | None]
) -> bool | None:
    """Whether the judge's verdict on some answers is the label; ``open_``: their ``shows_open``.

    "Not enough information" matches only where one of the answers shows what the document leaves
    open: from nothing answered nothing follows, and that alone is no finding.
    """
    if given is None or given != label or label != "NotEnoughInfo":
        return None if given is None else given == label
    if any(open_):
        return True
    return None if None in open_ else False


def verdict(case: RewardCase, settings: RewardSettings) -> AnswersVerdict | None:
    """The judge's verdict from all answers, as ``silence`` reads it."""
    if settings.silence == "literal":
        return case.signals.full
    return _read(case.signals.full, honest(case))


def verdicts_without(
    case: RewardCase, settings: RewardSettings
) -> tuple[AnswersVerdict | None, ...]:
    """The judge's verdict without each answer in turn, as ``silence`` reads it."""
    if settings.silence == "literal":
        return case.signals.without
    open_ = honest(case)
    return tuple(
        _read(given, open_[:index] + open_[index + 1 :])
        for index, given in enumerate(case.signals.without)
    )


def _read(given: AnswersVerdict | None, open_: tuple[bool | None, ...]) -> AnswersVerdict | None:
    """Silence about a part means that the claim is not borne out: Refuted."""
    if given != "NotEnoughInfo" or all(one is False for one in open_):
        return given
    return "Refuted" if any(open_) else None


def _not(value: bool | None) -> bool | None:  # noqa: FBT001 - a ruling
    return None if value is None else not value
