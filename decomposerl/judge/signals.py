"""What the judge ruled about one rollout, by cycle: the verdict table's row as a value.

Left out deliberately: how calls are planned and shared (``judge.plan``).
"""

from dataclasses import dataclass

from decomposerl.judge.call import AnswersVerdict


@dataclass(frozen=True, slots=True)
class Signals:
    """The five judged signals of a rollout with n cycles; tuples have length n.

    ``full`` is the verdict from all answers, ``without[i]`` the one from all but the i-th.
    ``atomic[i]`` are the five criteria. ``correct[i]`` is None for an abstention, where
    nobody is asked. Elsewhere None means that the call failed.
    No cycle: ``full`` is NotEnoughInfo; one cycle: ``without`` is (NotEnoughInfo,); neither
    takes a call.
    """

    full: AnswersVerdict | None
    without: tuple[AnswersVerdict | None, ...]
    answerable: tuple[bool | None, ...]
    atomic: tuple[tuple[bool, ...] | None, ...]
    correct: tuple[bool | None, ...]
    abstained: tuple[bool, ...]
