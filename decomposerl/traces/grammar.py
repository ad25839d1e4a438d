"""The grammar of a trace, both ways: text to ``Trace`` and back (paper, section 3.1).

Eight exact lower-case tags are structure, and each of them ends the block that is open: block texts
never hold one, so what a policy writes inside a block cannot forge another. Text stays as written:
``&lt;`` is not read as ``<``. Each condition of the format reward has faults of its own:

    opens with thinking                    no_opening_thought
    at least one question, none twice      no_question, repeated_question
    every question answered                unanswered, answer_without_question
    thinking after each cycle              no_thought_after_answer
    two cycles or more                     too_few_cycles
    one closed verdict, and it is last     no_verdict, several_verdicts, not_last
    the label is one of those asked for    unknown_verdict (or no verdict at all)
    well-formed tags, no text outside      unclosed, stray_close, malformed_tag, empty,
                                           text_outside

Faults are those of the exact tags alone. Tags in other letters, and a verdict whose closing tag is
missing, are read all the same: a format that is paid for is one thing, what was said another.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast, get_args

from decomposerl.replies.verdicts import read_verdict
from decomposerl.schemas import LABELS, VERDICTS, WRITTEN
from decomposerl.traces.trace import Block, BlockKind, Cycle, Fault, FaultKind, Trace, Verdict

KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
FEWEST_CYCLES = 2
LONGEST_DETAIL = 80
_EXACT = re.compile(f"<(/?)({'|'.join(KINDS)})>")
_ANY_CASE = re.compile(_EXACT.pattern, re.IGNORECASE | re.ASCII)
# Possessive, and no "<" inside a tag: a hostile text is scanned once, whatever it holds.
_NEAR = re.compile(
    rf"<\s*+(?:/\s*+)?+(?:{'|'.join(KINDS)})(?![\w-])[^<>]*+>",
    re.IGNORECASE,
)
_CHAT_TOKEN = re.compile(r"(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*+")
_CUT_TAG = re.compile(r"</?\w*\Z")
_ZERO_WIDTH = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


def parse_trace(text: str, labels: tuple[Verdict, ...] = LABELS) -> Trace:
    """Read any text as a trace (paper, section 3.1). Linear in its length; never raises.

    ``labels`` are the verdicts that it may end with: the paper's two, or all three.

    Offsets are characters of ``text``: each block begins with its opening tag, blocks are in
    order and do not overlap, and faults are in the order of their offsets. Broken and
    truncated texts keep what is whole: see ``read_blocks``.
    """
    blocks, faults = read_blocks(text)
    faults += _structure_faults(blocks, len(text), labels)
    faults.sort(key=lambda fault: (fault.start, fault.end, fault.kind))
    if any(fault.kind == "malformed_tag" for fault in faults):
        lenient, _ = read_blocks(text, _ANY_CASE)
        more = len(_cycle_indices(lenient)) > len(_cycle_indices(blocks))
        if more or _verdict_of(blocks, labels) is None:
            blocks = lenient
    return Trace(
        blocks=tuple(blocks),
        faults=tuple(faults),
        opening=_thought(blocks[:1]),
        cycles=_cycles_of(blocks),
        verdict=_verdict_of(blocks, labels),
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
    if _EXACT.search(block.text) or block.text != block.text.strip():
        raise ValueError(f"no text reads as this {block.kind} block: {block.text[:80]!r}")
    return f"<{block.kind}>{block.text}" + (f"</{block.kind}>" if block.closed else "")


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
        gap = self.text[self.position : position]
        if self.opened is not None:
            self._end_block(self.opened, position, position, closed=False)
        elif gap.strip():
            start = self.position + len(gap) - len(gap.lstrip())
            self.add_fault("text_outside", start, self.position + len(gap.rstrip()))
        self.position = position

    def read(self, tag: _Tag) -> None:
        if tag.closing and self.opened is not None and self.opened.kind == tag.kind:
            self._end_block(self.opened, tag.start, tag.end, closed=True)
        else:
            self.pass_to(tag.start)
            if tag.closing:
                self.add_fault("stray_close", tag.start, tag.end)
            else:
                self.opened = tag
        self.position = tag.end

    def pass_over(self, start: int, end: int) -> None:
        """Take a thought that quotes tags as text outside."""
        self.pass_to(start)
        self.add_fault("text_outside", start, end)
        self.position = end

    def _end_block(self, opened: _Tag, text_end: int, end: int, *, closed: bool) -> None:
        inside = self.text[opened.end : text_end].strip()
        self.blocks.append(Block(opened.kind, inside, opened.start, end, closed))
        if not closed:
            self.faults.append(Fault("unclosed", opened.start, end, opened.kind))
        if not inside:
            self.faults.append(Fault("empty", opened.start, end, opened.kind))
        self.opened = None

    def add_fault(self, kind: FaultKind, start: int, end: int) -> None:
        detail = self.text[start : min(end, start + LONGEST_DETAIL)]
        self.faults.append(Fault(kind, start, end, detail))


def read_blocks(text: str, form: re.Pattern[str] = _EXACT) -> tuple[list[Block], list[Fault]]:
    """All blocks of ``text`` in order, and the faults of its tags. Linear; never raises.

    An opening tag inside an open block ends that block as unclosed: blocks do not nest. So
    does a closing tag of another kind, which is then stray. From ``<think>`` to the next
    ``</think>``, with no ``<think>`` between, all is one thought: quoted tags in it are no
    structure, and such a thought is ``text_outside``. So is a native thought of a reasoning
    model before the trace (``_tags_of_native_thought``). Tags that are almost right are faults
    and otherwise plain text; closing tokens of a chat template at the end are no text.
    """
    reading = _Reading(text)
    tags = [
        _Tag(cast("BlockKind", match[2].lower()), bool(match[1]), *match.span())
        for match in form.finditer(text)
    ]
    index = _tags_of_native_thought(text, tags)
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
    for match in _NEAR.finditer(text):
        if not _EXACT.fullmatch(match[0]):
            reading.add_fault("malformed_tag", *match.span())
    return reading.blocks, reading.faults


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


def _tags_of_native_thought(text: str, tags: Sequence[_Tag]) -> int:
    """How many tags a thought before the trace takes, its end included; 0 where there is none.

    Its ``<think>`` may have been in the prompt: then it has words and ends with the first tag of a
    thought. One that names ``<think>`` itself ends where a ``</think>`` that does not close a
    thought of the trace stands right before a ``<think>``.
    """
    first = next((index for index, tag in enumerate(tags) if tag.kind == "think"), None)
    if first is None:
        return 0
    prompted = bool(text[: tags[first].start].strip())
    if tags[first].closing:
        return first + 1 if prompted else 0
    if not prompted and tags[1:2] and tags[1].kind == "think" and tags[1].closing:
        return 0
    depth, before = 0, tags[first]
    for index, (tag, after) in enumerate(pairwise(tags)):
        if tag.kind == after.kind == "think" and tag.closing and not after.closing:
            own = depth == 1 and before.kind == "think" and not before.closing
            if (depth or prompted) and not own and not text[tag.end : after.start].strip():
                return index + 1
        depth += {True: -1, False: 1}[tag.closing] if tag.kind == "think" else 0
        before = tag
    return 0


def _verdict_of(blocks: Sequence[Block], labels: tuple[Verdict, ...]) -> Verdict | None:
    """The label that all verification blocks with one agree on; closed ones come first."""
    for closed in (True, False):
        stated = {
            _verdict(block, labels)
            for block in blocks
            if block.kind == "verification" and block.closed is closed
        } - {None}
        if stated:
            return stated.pop() if len(stated) == 1 else None
    return None


def _verdict(block: Block, labels: tuple[Verdict, ...]) -> Verdict | None:
    """The verdict that a block states, without invisible characters and a tag that is cut off."""
    text = block.text if block.closed else _CUT_TAG.sub("", block.text)
    return read_verdict(text.translate(_ZERO_WIDTH), labels=labels)


def _thought(following: Sequence[Block]) -> str | None:
    """The text of the first of ``following``, where that is a thought with text."""
    thoughts = [block.text for block in following if block.kind == "think"]
    return thoughts[0] or None if thoughts else None


def _cycles_of(blocks: Sequence[Block]) -> tuple[Cycle, ...]:
    """The complete question-answer pairs in order (the paper's n is their number)."""
    return tuple(
        Cycle(blocks[index].text, blocks[index + 1].text, _thought(blocks[index + 2 : index + 3]))
        for index in _cycle_indices(blocks)
    )


def _cycle_indices(blocks: Sequence[Block]) -> list[int]:
    """Where the questions of complete cycles stand in ``blocks``.

    An answer counts if it stands next after its question. One that the end of the text cuts
    does not: nobody should rule on half a sentence. One that another tag cuts does.
    """
    last = len(blocks) - 1
    return [
        index
        for index, (first, second) in enumerate(pairwise(blocks))
        if (first.kind, second.kind) == ("question", "answer")
        and first.text
        and second.text
        and (second.closed or index + 1 < last)
    ]


def _structure_faults(
    blocks: Sequence[Block], length: int, labels: tuple[Verdict, ...]
) -> Iterator[Fault]:
    """What is missing, misplaced or repeated. Something missing has no width, or all of it."""
    indices = _cycle_indices(blocks)
    yield from _pair_faults(blocks, set(indices))
    yield from _verdict_faults(blocks, length, labels)
    if _thought(blocks[:1]) is None:
        start = blocks[0].start if blocks else 0
        yield Fault("no_opening_thought", start, start)
    if not any(block.kind == "question" and block.text for block in blocks):
        yield Fault("no_question", 0, length)
    if len(indices) < FEWEST_CYCLES:
        yield Fault("too_few_cycles", 0, length, str(len(indices)))
    for index in indices:
        if _thought(blocks[index + 2 : index + 3]) is None:
            end = blocks[index + 1].end
            yield Fault("no_thought_after_answer", end, end)


def _pair_faults(blocks: Sequence[Block], indices: set[int]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, block in enumerate(blocks):
        if block.kind == "question" and block.text:
            if index not in indices:
                yield Fault("unanswered", block.start, block.end)
            if block.text in seen:
                yield Fault("repeated_question", block.start, block.end)
            seen.add(block.text)
        if block.kind == "answer":
            before = blocks[index - 1] if index else None
            if before is None or before.kind != "question" or not before.text:
                yield Fault("answer_without_question", block.start, block.end)


def _verdict_faults(
    blocks: Sequence[Block], length: int, labels: tuple[Verdict, ...]
) -> Iterator[Fault]:
    verdicts = [block for block in blocks if block.kind == "verification"]
    closed = [block for block in verdicts if block.closed]
    if not closed:
        yield Fault("no_verdict", length, length)
    for block in verdicts[1:]:
        yield Fault("several_verdicts", block.start, block.end)
    for block in closed:
        if _verdict(block, labels) is None:
            detail = block.text[:LONGEST_DETAIL]
            yield Fault("unknown_verdict", block.start, block.end, detail)
    after = [block for block in blocks if closed and block.start >= closed[0].end]
    if after:
        yield Fault("not_last", after[0].start, after[-1].end)
