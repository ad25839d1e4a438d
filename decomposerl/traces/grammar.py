"""The grammar of a trace, both ways: text to ``Trace`` and back (paper, section 3.1).

Takes what a policy wrote, gives its blocks, its usable parts and every fault with character
offsets; takes a trace, gives its canonical text: one block after another, a line break
between, each as ``<kind>text</kind>``. Reading never fails, and reading what was written
gives the same blocks, cycles, opening thought and verdict.
"""

from collections.abc import Sequence

from decomposerl.schemas import LABELS, VERDICTS, WRITTEN
from decomposerl.traces.blocks import holds_tag, read_blocks
from decomposerl.traces.structure import cycles_of, opening_of, structure_faults, verdict_of
from decomposerl.traces.trace import Block, BlockKind, Cycle, Trace, Verdict


def parse_trace(text: str, labels: tuple[Verdict, ...] = LABELS) -> Trace:
    """Read any text as a trace (paper, section 3.1). Linear in its length; never raises.

    ``labels`` are the verdicts that it may end with: the paper's two, or all three.

    Offsets are characters of ``text``: each block begins with its opening tag, blocks are in
    order and do not overlap, and faults are in the order of their offsets. Broken and
    truncated texts keep what is whole: see ``read_blocks`` and ``cycles_of``.
    """
    blocks, faults = read_blocks(text)
    faults += structure_faults(blocks, len(text), labels)
    faults.sort(key=lambda fault: (fault.start, fault.end, fault.kind))
    return Trace(
        blocks=tuple(blocks),
        faults=tuple(faults),
        opening=opening_of(blocks),
        cycles=cycles_of(blocks),
        verdict=verdict_of(blocks, labels),
        labels=labels,
    )


def labels_behind(verdict: str | None) -> tuple[Verdict, ...]:
    """The labels to read a stored trace with, by the verdict that was stored with it."""
    return LABELS if verdict is None or verdict in LABELS else VERDICTS


def write_trace(trace: Trace) -> str:
    """The canonical text of a trace's blocks; offsets and faults play no part.

    An unclosed block is written unclosed, so that reading gives back the same parts.

    Raises:
        ValueError: a block's text holds a tag of the grammar or begins or ends with white
            space; no text reads as such a block.
    """
    return "\n".join(_written(block) for block in trace.blocks)


def build_trace(
    opening: str | None,
    cycles: Sequence[Cycle],
    verdict: Verdict | None,
    labels: tuple[Verdict, ...] = LABELS,
) -> Trace:
    """The trace with these parts, in order, as ``parse_trace`` reads it from its text.

    None leaves the part out; ``labels`` as there.

    Raises:
        ValueError: as for ``write_trace``.
    """
    parts: list[tuple[BlockKind, str | None]] = [("think", opening)]
    for cycle in cycles:
        parts += [("question", cycle.question), ("answer", cycle.answer), ("think", cycle.thought)]
    parts.append(("verification", verdict and WRITTEN[verdict]))
    blocks = [Block(kind, text, 0, 0) for kind, text in parts if text is not None]
    return parse_trace("\n".join(map(_written, blocks)), labels)


def _written(block: Block) -> str:
    if holds_tag(block.text) or block.text != block.text.strip():
        raise ValueError(f"no text reads as this {block.kind} block: {block.text[:80]!r}")
    return f"<{block.kind}>{block.text}" + (f"</{block.kind}>" if block.closed else "")
