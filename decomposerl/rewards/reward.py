"""The type of a reward, of its input and of its output.

A reward takes the cases of one group (rollouts of one prompt) and gives one ``RewardResult`` per
case, in order. It calls no model: everything it needs is in the case.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.judge.plan import Role, Signals
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.rollout import Rollout

State = Literal[
    "scored",
    "failed",  # a judge call that it needs has no ruling: null, never a value
    "absent",  # it does not apply to this claim (verification without a label): null
]


@dataclass(frozen=True, slots=True)
class RewardCase:
    """A rollout with its rulings and the unit vectors of its cycles' questions.

    ``vectors`` has shape (n, d), float32; None where no reward reads them. ``too_long``: the trace
    has more cycles than are judged and compared.
    """

    rollout: Rollout
    signals: Signals
    vectors: NDArray[np.float32] | None = None
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A reward's value for one cycle and the name of the case (``necessary``).

    ``detail`` explains the value to a reader.
    """

    value: float | None
    state: str = "scored"
    detail: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RewardResult:
    """A reward's value for one trace, null unless ``state`` is scored."""

    value: float | None
    state: State = "scored"
    questions: tuple[QuestionResult, ...] = ()


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
    compute: Callable[[Sequence[RewardCase], RewardSettings], list[RewardResult]]
    low: float
    high: float
    judge_roles: tuple[Role, ...] = ()
    reads_vectors: bool = False
    weight: float = 1.0

    @property
    def judged(self) -> bool:
        """Whether the reward needs a judge."""
        return bool(self.judge_roles)
