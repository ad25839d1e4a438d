"""The judge's rulings about one rollout, by cycle."""

from dataclasses import dataclass

from decomposerl.judge.call import AnswersVerdict


@dataclass(frozen=True, slots=True)
class Signals:
    """The five judged signals of a rollout with n cycles; tuples have length n.

    ``full`` is the verdict from all answers, ``without[i]`` the one from all but the i-th.
    ``atomic[i]`` are the five criteria. ``correct[i]`` is None for an abstention, which takes no
    call. Elsewhere None means that the call failed. Without cycles ``full`` is NotEnoughInfo, with
    one cycle ``without`` is (NotEnoughInfo,); neither takes a call.
    """

    full: AnswersVerdict | None
    without: tuple[AnswersVerdict | None, ...]
    answerable: tuple[bool | None, ...]
    atomic: tuple[tuple[bool, ...] | None, ...]
    correct: tuple[bool | None, ...]
    abstained: tuple[bool, ...]
