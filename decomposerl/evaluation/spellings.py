"""How files of other projects spell the two labels.

Takes a cell of any type, gives the label that it spells, ``left_out`` for one that a reader said
to leave out, or None. Case, surrounding space, and underscores and hyphens between letters do not
matter; ``1``, ``1.0`` and ``true`` need no quotes, and ``-1`` is not ``1``.

Left out deliberately: guesses. A spelling that is in no list is none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from decomposerl.errors import EvaluationError
from decomposerl.traces.trace import Verdict

SUPPORTED = ("supported", "supports", "support", "true", "yes", "1", "entailment", "entailed")
REFUTED = (
    *("refuted", "refutes", "refute", "false", "no", "0"),
    *("not supported", "unsupported", "contradiction", "contradicted", "contradicts"),
)
EVERYTHING_ELSE = "*"
_LETTER = r"[^\W\d_]"
_JOINT = re.compile(rf"(?<={_LETTER})[-_]+(?={_LETTER})")  # elsewhere a hyphen may be a minus
_WHOLE = re.compile(r"(-?\d+)\.0*")


@dataclass(frozen=True, slots=True)
class Spellings:
    """What counts as Supported, as Refuted, and what is left out, each as ``normal`` gives it.

    ``refuted`` may hold ``*``: whatever is in no other list and not empty.
    """

    supported: frozenset[str]
    refuted: frozenset[str]
    left_out: frozenset[str]

    @classmethod
    def of(
        cls,
        supported: Iterable[str] = (),
        refuted: Iterable[str] = (),
        left_out: Iterable[str] = (),
    ) -> Self:
        """Spellings as a person wrote them; an empty list means the usual ones.

        The usual ones of a side lose what the person gave to another.

        Raises:
            EvaluationError: the same spelling stands for two things.
        """
        sides = [frozenset(map(normal, side)) for side in (supported, refuted, left_out)]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            both = sorted(sides[one] & sides[other])
            if both:
                raise EvaluationError(f"the spelling '{both[0]}' is given two meanings")
        given = frozenset().union(*sides)
        return cls(
            sides[0] or frozenset(SUPPORTED) - given,
            sides[1] or frozenset(REFUTED) - given,
            sides[2],
        )

    def read(self, cell: object) -> Verdict | Literal["left_out"] | None:
        """What a cell spells."""
        spelt = normal(cell)
        if spelt in self.left_out:
            return "left_out"
        if spelt in self.supported:
            return "Supported"
        other = EVERYTHING_ELSE in self.refuted and spelt != ""
        return "Refuted" if spelt in self.refuted or other else None


def normal(cell: object) -> str:
    """A cell in small letters with single spaces, whole numbers without a point; '' for none."""
    if isinstance(cell, list | dict) or cell is None:
        return ""
    words = " ".join(_JOINT.sub(" ", str(cell).casefold()).split())
    whole = _WHOLE.fullmatch(words)
    return whole[1] if whole else words
