"""Traces with a careful reader's rulings, and what the ensemble pays for them.

A ``Trick`` is a trace in parts; its answers may quote sentences of the evidence by index, so that
no text of a corpus stands here. ``totals`` scores a trick by the judge that is given or by the
reader's rulings, under any settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.replies.abstention import abstains
from decomposerl.rewards.reward import RewardCase, Signals
from decomposerl.rewards.scoring import reward_batch, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.text.sentences import split_sentences
from decomposerl.traces.grammar import build_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle, Verdict

_VERDICTS: dict[str, Verdict] = {"S": "Supported", "R": "Refuted", "N": "NotEnoughInfo"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A cycle and a careful reader's rulings on it.

    ``{claim}`` and ``{s[3]}`` stand for the claim and the evidence's fourth sentence. ``atomic``
    holds the five criteria as digits.
    """

    question: str
    answer: str
    answerable: bool
    correct: bool
    atomic: str = "11111"


@dataclass(frozen=True, slots=True)
class Trick:
    """A trace about the claim ``about``; ``full`` and ``without`` are verdicts by initial."""

    name: str
    about: str
    asked: tuple[Asked, ...]
    full: str
    without: str
    honest: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim with evidence, label and number of silver questions; no text in its name."""

    name: str
    claim: str
    evidence: str
    label: Verdict
    n_star: int


def rollout_of(trick: Trick, on: Statement) -> Rollout:
    """The trick as a rollout that ends with the claim's label."""
    sentences = split_sentences(on.evidence)
    cycles = [
        Cycle(
            one.question.format(claim=on.claim, s=sentences),
            one.answer.format(claim=on.claim, s=sentences),
            "Next.",
        )
        for one in trick.asked
    ]
    trace = build_trace("Its parts, one by one.", cycles, on.label)
    return Rollout(on.name, 0, on.claim, on.evidence, trace, on.label, on.n_star)


def reader_signals(trick: Trick, rollout: Rollout) -> Signals:
    """The reader's rulings; an abstention has no correctness."""
    silent = tuple(abstains(cycle.answer) for cycle in rollout.trace.cycles)
    return Signals(
        full=_VERDICTS[trick.full],
        without=tuple(_VERDICTS[initial] for initial in trick.without),
        answerable=tuple(one.answerable for one in trick.asked),
        atomic=tuple(tuple(digit == "1" for digit in one.atomic) for one in trick.asked),
        correct=tuple(
            None if quiet else one.correct for quiet, one in zip(silent, trick.asked, strict=True)
        ),
        abstained=silent,
    )


def totals(
    tricks: Sequence[Trick],
    statements: Sequence[Statement],
    judge: Judge | None,
    embedder: Embedder,
    settings: RewardSettings,
) -> list[float]:
    """The reward of each trick, by ``judge`` or, where it is None, by the reader's rulings."""
    by_name = {one.name: one for one in statements}
    rollouts = [
        replace(rollout_of(trick, by_name[trick.about]), number=number)
        for number, trick in enumerate(tricks)
    ]
    if judge is None:
        asked = ([cycle.question for cycle in rollout.trace.cycles] for rollout in rollouts)
        signals = (reader_signals(*pair) for pair in zip(tricks, rollouts, strict=True))
        cases = map(RewardCase, rollouts, signals, map(embedder.embed, asked))
        paid = reward_batch(list(cases), settings).totals
    else:
        paid = reward_rollouts(rollouts, judge, embedder, settings).totals
    return [float(value) for value in paid if value is not None]
