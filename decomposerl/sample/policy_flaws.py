"""Flaws that the warm start of the tiny policy plants, so that training has some to undo.

Takes the blocks of a clean trace, gives them with one flaw: a verdict by coin, a block left
out, left open or written twice, a question dropped or asked again.

Left out deliberately: flaws in what an answer says; those the policy makes by itself.
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


_CYCLE = 3
"""Blocks of a question, its answer and the thought after it."""


def flawed(rng: random.Random, blocks: list[Block]) -> tuple[str, list[Block]]:
    """The kind of flaw and the blocks with it; kinds by weight."""
    (kind,) = rng.choices(("coin", "malformed", "count"), (3, 1, 1))
    if kind == "coin":
        verdict = rng.choice(("Supported", "Refuted"))
        return kind, [*blocks[:-1], replace(blocks[-1], text=verdict)]
    if kind == "malformed":
        return kind, _malformed(rng, blocks)
    first, rest = blocks[: 1 + _CYCLE], blocks[1 + _CYCLE :]
    if rng.random() < 1 / 2:
        return kind, [blocks[0], *rest]
    return kind, [*first, *first[1:], *rest]


def _malformed(rng: random.Random, blocks: list[Block]) -> list[Block]:
    place = rng.randrange(len(blocks))
    before, held, after = blocks[:place], blocks[place], blocks[place + 1 :]
    kept = rng.choice(([], [replace(held, closed=False)], [held, held]))
    return [*before, *kept, *after]
