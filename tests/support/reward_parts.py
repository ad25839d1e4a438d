"""Rollouts, signals and cases for tests of the rewards: builders, and hypothesis strategies.

Left out deliberately: expected values; each test states its own.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.replies.abstention import abstains
from decomposerl.replies.rulings import CRITERIA
from decomposerl.rewards.reward import RewardCase, RewardResult, Signals
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import build_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle, Verdict

S, R, NEI = "Supported", "Refuted", "NotEnoughInfo"
PLAIN = RewardSettings()
ALL_MET = (True,) * len(CRITERIA)


def cycles(number: int, answer: str = "It opened in 1921.") -> tuple[Cycle, ...]:
    """``number`` cycles with different questions and the same answer."""
    return tuple(Cycle(f"What of part {i}?", answer, "So.") for i in range(number))


def rollout(
    parts: Sequence[Cycle] | int = 2,
    verdict: Verdict | None = S,
    *,
    label: Verdict | None = S,
    n_star: int | None = 2,
    truncated: bool = False,
) -> Rollout:
    """A well-formed trace of group ``g``, from cycles or their number."""
    asked = cycles(parts) if isinstance(parts, int) else parts
    trace = build_trace("Look.", asked, verdict)
    claim, evidence = "Ilva bridge is old.", "Ilva bridge opened in 1921."
    return Rollout("g", 0, claim, evidence, trace, label, n_star, truncated)


def signals(
    number: int,
    full: Verdict | None = S,
    without: Sequence[Verdict | None] | None = None,
) -> Signals:
    """Rulings of a faultless trace; each left-out answer leaves too little, unless given."""
    return Signals(
        full=full,
        without=(NEI,) * number if without is None else tuple(without),
        answerable=(True,) * number,
        atomic=(ALL_MET,) * number,
        correct=(True,) * number,
        abstained=(False,) * number,
    )


def case(
    full: Verdict | None = S,
    without: Sequence[Verdict | None] = (NEI, NEI),
    *,
    verdict: Verdict | None = S,
    label: Verdict | None = S,
    truncated: bool = False,
) -> RewardCase:
    """A case of as many cycles as there are verdicts in ``without``; vectors at right angles."""
    number = len(without)
    sampled = rollout(number, verdict, label=label, truncated=truncated)
    return RewardCase(
        sampled, signals(number, full, without), unit(*np.eye(max(number, 1)))[:number]
    )


def numbered(cases: Sequence[RewardCase], group: str = "g") -> list[RewardCase]:
    """The cases as one group, numbered in order."""
    return [
        replace(one, rollout=replace(one.rollout, group=group, number=number))
        for number, one in enumerate(cases)
    ]


def unit(*rows: Sequence[float]) -> NDArray[np.float32]:
    """Rows scaled to length 1, shape (n, d)."""
    vectors = np.array(rows, dtype=np.float64)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def values(scores: Sequence[RewardResult]) -> list[float | None]:
    return [score.value for score in scores]


def states(score: RewardResult) -> list[str]:
    """What each question was found to be."""
    return [question.state for question in score.questions]


def own_reward(cases: Sequence[RewardCase], _: RewardSettings) -> list[float]:
    """A reward of one's own: 1 for a trace of two cycles or more, else -1."""
    return [1.0 if len(one.rollout.trace.cycles) > 1 else -1.0 for one in cases]


OWN = "reward_parts:own_reward"
labels = st.sampled_from((S, R))
verdicts = st.sampled_from((S, R, NEI))
questions = st.sampled_from(("Who built it?", "When was it opened?", "Is it long?", "Where is it?"))
answers = st.sampled_from(("Torbeck built it.", "It opened in 1921.", "I don't know.", "", "No."))
axes = st.integers(-3, 3).map(float)
vectors = st.tuples(axes, axes, axes).filter(any)
reward_settings = st.builds(
    RewardSettings,
    necessity=st.sampled_from(("min", "mean")),
    abstention=st.sampled_from(("honest", "literal", "part")),
    atomicity=st.sampled_from(("fraction", "strict")),
    votes=st.sampled_from(("judge", "policy")),
    grounding=st.sampled_from(("literal", "required")),
    silence=st.sampled_from(("literal", "refutes")),
    restating=st.sampled_from(("literal", "marked")),
    format=st.sampled_from(("eight", "literal")),
    diversity=st.sampled_from(("two", "literal")),
    own=st.just(OWN),
)


@st.composite
def rulings(draw: st.DrawFn, parts: Sequence[Cycle], *, failing: bool = False) -> Signals:
    """Any rulings the judge's contract allows for these cycles; ``failing`` ones may be None."""
    lost = st.none() if failing else st.nothing()
    number = len(parts)
    silent = tuple(abstains(part.answer) for part in parts)
    truth = st.booleans() | lost
    return Signals(
        full=draw(verdicts | lost) if number else NEI,
        without=(NEI,) if number == 1 else tuple(draw(verdicts | lost) for _ in parts),
        answerable=tuple(draw(truth) for _ in parts),
        atomic=tuple(draw(st.tuples(*[st.booleans()] * len(CRITERIA)) | lost) for _ in parts),
        correct=tuple(None if quiet else draw(truth) for quiet in silent),
        abstained=silent,
    )


@st.composite
def groups(
    draw: st.DrawFn,
    *,
    group: str = "g",
    failing: bool = False,
    label: st.SearchStrategy[Verdict | None] | None = None,
) -> list[RewardCase]:
    """Rollouts of one prompt: at least one, of 0 to 4 cycles."""
    claim_label = draw(st.none() | labels if label is None else label)
    n_star = draw(st.none() | st.integers(1, 5))
    members = []
    for _ in range(draw(st.integers(1, 4))):
        drawn = draw(st.lists(st.builds(Cycle, questions, answers, st.just("So.")), max_size=4))
        sampled = rollout(
            drawn,
            draw(st.none() | labels),
            label=claim_label,
            n_star=n_star,
            truncated=draw(st.booleans()),
        )
        asked = sampled.trace.cycles
        rows = [draw(vectors) for _ in asked]
        ruled = draw(rulings(asked, failing=failing))
        members.append(RewardCase(sampled, ruled, unit(*rows) if rows else None))
    return numbered(members, group)


@st.composite
def batches(draw: st.DrawFn, *, failing: bool = False) -> list[RewardCase]:
    """Up to three groups, their rollouts mixed."""
    drawn = [
        draw(groups(group=f"prompt {place}", failing=failing))
        for place in range(draw(st.integers(0, 3)))
    ]
    return draw(st.permutations([one for members in drawn for one in members]))
