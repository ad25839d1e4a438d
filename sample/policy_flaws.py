"""Flaws that the warm start of the tiny policy plants, so that training has some to undo.

Takes the blocks of a clean trace, gives them with one flaw: a verdict by coin, a verdict or
another block left out, left open or written twice.
"""

import random
from dataclasses import dataclass, replace

from decomposerl.traces.trace import BlockKind


@dataclass(frozen=True, slots=True)
class Block:
    """A block to be written; ``closed`` says whether its closing tag is there."""

    kind: BlockKind
    text: str
    closed: bool = True

    @property
    def end(self) -> str:
        """The closing tag, or nothing."""
        return f"</{self.kind}>" if self.closed else ""


_WEIGHTS = {"coin": 2, "unsaid": 4, "malformed": 1}


def flawed(rng: random.Random, blocks: list[Block]) -> tuple[str, list[Block]]:
    """The kind of flaw and the blocks with it; kinds by weight."""
    (kind,) = rng.choices([*_WEIGHTS], [*_WEIGHTS.values()])
    *before, verdict = blocks
    if kind == "coin":
        return kind, [*before, replace(verdict, text=rng.choice(("Supported", "Refuted")))]
    if kind == "unsaid":
        return kind, [*before, *_spoilt(rng, verdict)]
    place = rng.randrange(len(before))
    return kind, [*blocks[:place], *_spoilt(rng, blocks[place]), *blocks[place + 1 :]]


def _spoilt(rng: random.Random, block: Block) -> list[Block]:
    """A block left out, left open or written twice."""
    kept: tuple[list[Block], ...] = ([], [replace(block, closed=False)], [block, block])
    return rng.choice(kept)
