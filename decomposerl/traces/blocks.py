"""From a trace's text to its blocks: the tags, and nothing but the tags.

Takes any text, gives the tagged blocks in order and what is wrong with the tags. Eight exact
lower-case tags are structure, and each of them ends the block that is open: block texts
never hold one of them, so what a policy writes inside a block cannot forge another block.
A thought that quotes tags, as the native thoughts of reasoning models do, is text outside the
trace: none of the tags that it quotes counts. Closing tokens of a chat template at the very
end are no part of the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast, get_args

from decomposerl.traces.trace import Block, BlockKind, Fault, FaultKind

KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
LONGEST_DETAIL = 80
_EXACT = re.compile(f"<(/?)({'|'.join(KINDS)})>")
_CHAT_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*+")
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
        """Take the text up to ``position`` as outside, or as a block that is cut there."""
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

    def pass_over(self, start: int, end: int) -> None:
        """Take a thought that quotes tags as text outside."""
        self.pass_to(start)
        self.faults.append(_fault("text_outside", self.text, start, end))
        self.position = end

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
    does a closing tag of another kind, which is then stray. From ``<think>`` to the next
    ``</think>``, with no ``<think>`` between, all is one thought: quoted tags in it are no
    structure, and such a thought is ``text_outside``. So is a thought at the start whose
    ``<think>`` the prompt held, whether it quotes tags or not. Tags that are almost right are
    faults and otherwise plain text. Text stays as written: ``&lt;`` is not read as ``<``.
    """
    reading = _Reading(text)
    tags = [
        _Tag(cast("BlockKind", match[2]), bool(match[1]), *match.span())
        for match in _EXACT.finditer(text)
    ]
    index = _tags_of_prompted_thought(text, tags)
    if index:
        reading.pass_over(len(text) - len(text.lstrip()), tags[index - 1].end)
    ends = _thought_ends(tags)
    while index < len(tags):
        end = ends[index]
        if end is not None and end > index + 1:
            reading.pass_over(tags[index].start, tags[end].end)
            index = end
        else:
            reading.read(tags[index])
        index += 1
    reading.pass_to(_end_of(text))
    near = (match for match in _NEAR.finditer(text) if not _EXACT.fullmatch(match[0]))
    faults = [_fault("malformed_tag", text, *match.span()) for match in near]
    return reading.blocks, reading.faults + faults


def _end_of(text: str) -> int:
    """Where the chat tokens at the end of a text begin; its length where there is none."""
    end = len(text)
    for token in reversed(list(_CHAT_TOKEN.finditer(text))):
        if token.end() != end:
            break
        end = token.start()
    return end


def _thought_ends(tags: Sequence[_Tag]) -> list[int | None]:
    """For each ``<think>`` the index of the ``</think>`` that is the next tag of a thought."""
    ends: list[int | None] = [None] * len(tags)
    following: int | None = None
    for index in range(len(tags) - 1, -1, -1):
        if tags[index].kind == "think":
            if not tags[index].closing:
                ends[index] = following
            following = index if tags[index].closing else None
    return ends


def _tags_of_prompted_thought(text: str, tags: Sequence[_Tag]) -> int:
    """How many tags a thought takes that began in the prompt; 0 where there is none.

    It has words, ends with the first tag of a thought, a ``</think>``, and may quote tags.
    """
    first = next((index for index, tag in enumerate(tags) if tag.kind == "think"), None)
    if first is None or not tags[first].closing or not text[: tags[first].start].strip():
        return 0
    return first + 1


def _fault(kind: FaultKind, text: str, start: int, end: int) -> Fault:
    return Fault(kind, start, end, text[start : min(end, start + LONGEST_DETAIL)])


def _trailing(text: str) -> int:
    return len(text) - len(text.rstrip())
