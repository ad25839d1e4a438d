"""Native labels to Supported, Refuted, or neither (paper, "Source Aggregation")."""

from dataclasses import dataclass
from typing import Literal

LabelRule = Literal["drop_middle", "middle_is_refuted"]
Side = Literal["Supported", "Refuted", "middle", "no_verdict"]


@dataclass(frozen=True, slots=True)
class LabelMap:
    """The native labels of each side; compared trimmed and case-insensitively.

    ``middle`` holds the third class: not enough information, mixture, partly supported.
    ``drop`` holds labels that are no verdict under any rule, such as "duplicate".
    """

    supported: frozenset[str]
    refuted: frozenset[str]
    middle: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()

    @classmethod
    def of(cls, supported: str, refuted: str, middle: str = "") -> "LabelMap":
        """Build from comma-separated native labels."""
        sets = (
            frozenset(part.strip().casefold() for part in text.split(",") if part.strip())
            for text in (supported, refuted, middle)
        )
        return cls(*sets)

    def side(self, native: str) -> Side | None:
        """The side of one native label; None where the label is unknown."""
        key = native.strip().casefold()
        if key in self.supported:
            return "Supported"
        if key in self.refuted:
            return "Refuted"
        if key in self.drop:
            return "no_verdict"
        return "middle" if key in self.middle else None


def apply_rule(side: Side, rule: LabelRule) -> str | None:
    """The binary label of a side under a rule; None means the row is dropped."""
    if side == "no_verdict":
        return None
    if side != "middle":
        return side
    return "Refuted" if rule == "middle_is_refuted" else None
