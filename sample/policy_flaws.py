"""Flaws that the tiny policy's warm start plants, so that training has something to improve.

Takes the blocks of a clean trace, gives them with one flaw: a random verdict, or a block that is
missing, unclosed or repeated.
"""

import random
from dataclasses import dataclass, replace

from decomposerl.traces.trace import BlockKind


@dataclass(frozen=True, slots=True)
class TraceBlock:
    """A block of a trace; ``closed``: with its closing tag."""

    kind: BlockKind
    text: str
    closed: bool = True

    @property
    def end(self) -> str:
        """The closing tag, or an empty string."""
        return f"</{self.kind}>" if self.closed else ""


_WEIGHTS = {"coin": 2, "unsaid": 4, "malformed": 1}


def flawed(rng: random.Random, blocks: list[TraceBlock]) -> tuple[str, list[TraceBlock]]:
    """A flaw drawn by weight, and the blocks with it."""
    (kind,) = rng.choices([*_WEIGHTS], [*_WEIGHTS.values()])
    *before, verdict = blocks
    if kind == "coin":
        return kind, [*before, replace(verdict, text=rng.choice(("Supported", "Refuted")))]
    if kind == "unsaid":
        return kind, [*before, *_spoilt(rng, verdict)]
    index = rng.randrange(len(before))
    return kind, [*blocks[:index], *_spoilt(rng, blocks[index]), *blocks[index + 1 :]]


def _spoilt(rng: random.Random, block: TraceBlock) -> list[TraceBlock]:
    """A block missing, unclosed or repeated."""
    kept: tuple[list[TraceBlock], ...] = ([], [replace(block, closed=False)], [block, block])
    return rng.choice(kept)
