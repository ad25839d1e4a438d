"""From a trace's text to its blocks: the tags, and nothing but the tags.

Takes any text, gives the tagged blocks in order and what is wrong with the tags. Eight exact
lower-case tags are structure, and each of them ends the block that is open: block texts
never hold one of them, so what a policy writes inside a block cannot forge another block.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast, get_args

from decomposerl.traces.trace import Block, BlockKind, Fault, FaultKind

KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
LONGEST_DETAIL = 80
_EXACT = re.compile(f"<(/?)({'|'.join(KINDS)})>")
# Possessive, and no "<" inside a tag: a hostile text is scanned once, whatever it holds.
_NEAR = re.compile(
    rf"<\s*+(?:/\s*+)?+(?:{'|'.join(KINDS)})(?![\w-])[^<>]*+>",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Tag:
    kind: BlockKind
    closing: bool
    start: int
    end: int


@dataclass(slots=True)
class _Reading:
    """What has been read so far. ``opened`` is the tag of the block that is open."""

    text: str
    blocks: list[Block] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    opened: _Tag | None = None
    position: int = 0  # where the text begins that no tag has claimed yet

    def pass_to(self, position: int) -> None:
        """Take the text up to ``place`` as outside, or as a block that is cut there."""
        if self.opened is not None:
            self._end_block(self.opened, position, position, closed=False)
        else:
            self._outside(position)
        self.position = position

    def read(self, tag: _Tag) -> None:
        if tag.closing and self.opened is not None and self.opened.kind == tag.kind:
            self._end_block(self.opened, tag.start, tag.end, closed=True)
        else:
            self.pass_to(tag.start)
            if tag.closing:
                self.faults.append(_fault("stray_close", self.text, tag.start, tag.end))
            else:
                self.opened = tag
        self.position = tag.end

    def _end_block(self, opened: _Tag, text_end: int, end: int, *, closed: bool) -> None:
        inside = self.text[opened.end : text_end].strip()
        self.blocks.append(Block(opened.kind, inside, opened.start, end, closed))
        if not closed:
            self.faults.append(Fault("unclosed", opened.start, end, opened.kind))
        if not inside:
            self.faults.append(Fault("empty", opened.start, end, opened.kind))
        self.opened = None

    def _outside(self, end: int) -> None:
        gap = self.text[self.position : end]
        if gap.strip():
            start = self.position + len(gap) - len(gap.lstrip())
            self.faults.append(_fault("text_outside", self.text, start, end - _trailing(gap)))


def holds_tag(text: str) -> bool:
    """Whether one of the eight tags of the grammar stands in ``text``."""
    return _EXACT.search(text) is not None


def read_blocks(text: str) -> tuple[list[Block], list[Fault]]:
    """All blocks of ``text`` in order, and the faults of its tags. Linear; never raises.

    An opening tag inside an open block ends that block as unclosed: blocks do not nest. So
    does a closing tag of another kind, which is then stray. Tags that are almost right are
    faults and otherwise plain text. Text stays as written: ``&lt;`` is not read as ``<``.
    """
    reading = _Reading(text)
    for tag in _tags(text):
        reading.read(tag)
    reading.pass_to(len(text))
    near = (match for match in _NEAR.finditer(text) if not _EXACT.fullmatch(match[0]))
    faults = [_fault("malformed_tag", text, *match.span()) for match in near]
    return reading.blocks, reading.faults + faults


def _tags(text: str) -> Iterator[_Tag]:
    for match in _EXACT.finditer(text):
        yield _Tag(cast("BlockKind", match[2]), bool(match[1]), *match.span())


def _fault(kind: FaultKind, text: str, start: int, end: int) -> Fault:
    return Fault(kind, start, end, text[start : min(end, start + LONGEST_DETAIL)])


def _trailing(text: str) -> int:
    return len(text) - len(text.rstrip())
