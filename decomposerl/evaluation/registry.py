"""How large the published test sets are, where that is known in public.

Takes nothing, gives ``REGISTRY``: claims of the evaluation split as the project's label rule leaves
them, and how many are Supported. A corpus on disk that differs is another split, another release or
cut: its scores are not those of the published set.

Left out deliberately: test sets whose counts we could not find; they are not guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Registered:
    """A published test set. ``supported`` is None where the source gives the size alone."""

    rows: int
    supported: int | None
    source: str

    @property
    def supported_share(self) -> float | None:
        """Share of Supported claims, None where it is not known."""
        return None if self.supported is None else self.supported / self.rows


REGISTRY: Mapping[str, Registered] = {
    "feverous": Registered(2_962, 1_411, "the ProgramFC release of its dev split"),
    "hover": Registered(4_000, 2_000, "its dev split; labels of the test split are hidden"),
    "coverbench": Registered(733, None, "its data card"),
    "llm_aggrefact": Registered(29_320, None, "its data card, test split"),
}
"""By the catalogue's name."""
SHARE_TOLERANCE = 0.02
"""How far the share of Supported claims may be off."""
