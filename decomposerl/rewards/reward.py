"""The type of a reward, of its input and of its output.

A reward takes the cases of one group (rollouts of one prompt) and gives one ``RewardResult`` per
case, in order. It calls no model: everything it needs is in the case.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import Verdict
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle

State = Literal[
    "scored",
    "failed",  # a judge call that it needs has no ruling: null, never a value
    "absent",  # it does not apply to this claim (verification without a label): null
]
Role = Literal["full", "leave_one_out", "question"]
"""Of a judge call: the verdict from all answers or from all but one, or on a question."""


@dataclass(frozen=True, slots=True)
class Signals:
    """The five judged signals of a rollout with n cycles; tuples have length n.

    ``full`` is the verdict from all answers, ``without[i]`` the one from all but the i-th.
    ``atomic[i]`` are the five criteria. ``correct[i]`` is None for an abstention, which takes no
    call. Elsewhere None means that the call failed. Without cycles ``full`` is NotEnoughInfo, with
    one cycle ``without`` is (NotEnoughInfo,); neither takes a call.
    """

    full: Verdict | None
    without: tuple[Verdict | None, ...]
    answerable: tuple[bool | None, ...]
    atomic: tuple[tuple[bool, ...] | None, ...]
    correct: tuple[bool | None, ...]
    abstained: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class RewardCase:
    """A rollout with the rulings on its ``cycles`` and the unit vectors of their questions.

    ``vectors`` has shape (n, d), float32; None where no reward reads them.
    """

    rollout: Rollout
    signals: Signals
    vectors: NDArray[np.float32] | None = None
    too_long: bool = False

    @property
    def cycles(self) -> tuple[Cycle, ...]:
        """What is judged and compared: nothing of a trace that is too long."""
        return () if self.too_long else self.rollout.trace.cycles


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A reward's value for one cycle and the name of the case (``necessary``)."""

    value: float | None
    state: str = "scored"


def mean(values: Sequence[float]) -> float:
    """The plain mean; of truth values, their share."""
    return sum(values) / len(values)


@dataclass(frozen=True, slots=True)
class RewardResult:
    """A reward's value for one trace, null unless ``state`` is scored."""

    value: float | None
    state: State = "scored"
    questions: tuple[QuestionResult, ...] = ()

    @classmethod
    def of(cls, questions: tuple[QuestionResult, ...], whole: Callable[..., float] = mean) -> Self:
        """A trace's result from its questions': failed where one lacks a value, 0 for none."""
        values = [question.value for question in questions if question.value is not None]
        if len(values) < len(questions):
            return cls(None, "failed", questions)
        return cls(whole(values) if values else 0.0, questions=questions)


Compute = Callable[[Sequence[RewardCase], RewardSettings], list[RewardResult]]


def by_case(result: Callable[[RewardCase, RewardSettings], RewardResult]) -> Compute:
    """The reward of a group where no case depends on another."""

    @wraps(result)
    def compute(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
        return [result(case, settings) for case in cases]

    return compute


@dataclass(frozen=True, slots=True)
class Reward:
    """A member of the ensemble. ``low`` and ``high`` bound its value.

    ``judge_roles`` are the roles of the judge calls whose rulings it reads and ``reads_vectors``
    says whether it reads question vectors: what no active reward reads is not computed.
    ``weight`` applies where the settings give none.
    """

    name: str
    symbol: str
    title: str
    compute: Compute
    low: float
    high: float
    judge_roles: tuple[Role, ...] = ()
    reads_vectors: bool = False
    weight: float = 1.0
