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
from itertools import pairwise
from typing import NamedTuple, cast, get_args

from decomposerl.replies.answers import read_verdict
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
        opening=_thought(blocks),
        cycles=tuple(
            Cycle(blocks[at].text, blocks[at + 1].text, _thought(blocks[at + 2 : at + 3]))
            for at in _cycle_indices(blocks)
        ),
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


class _Tag(NamedTuple):
    """A tag of the text; a stretch that is passed over has the kind None."""

    kind: BlockKind | None
    closing: bool
    start: int
    end: int


def read_blocks(text: str, form: re.Pattern[str] = _EXACT) -> tuple[list[Block], list[Fault]]:
    """All blocks of ``text`` in order, and the faults of its tags. Linear; never raises.

    An opening tag inside an open block ends that block as unclosed: blocks do not nest. So
    does a closing tag of another kind, which is then stray. From ``<think>`` to the next
    ``</think>``, with no ``<think>`` between, all is one thought: quoted tags in it are no
    structure, and such a thought is ``text_outside``. So is a native thought of a reasoning
    model before the trace (``_tags_of_native_thought``). Tags that are almost right are faults
    and otherwise plain text; closing tokens of a chat template at the end are no text.
    """
    blocks: list[Block] = []
    faults: list[Fault] = []
    opened: _Tag | None = None
    position = 0  # where the text begins that no tag has claimed yet
    last = _end_of(text)
    for tag in (*_structure(text, form), _Tag(None, False, last, last)):
        closed = opened is not None and tag.closing and tag.kind == opened.kind
        gap = text[position : tag.start]
        if opened is not None and opened.kind is not None:
            end = tag.end if closed else tag.start
            blocks.append(Block(opened.kind, gap.strip(), opened.start, end, closed))
            if not closed:
                faults.append(Fault("unclosed", opened.start, end, opened.kind))
            if not gap.strip():
                faults.append(Fault("empty", opened.start, end, opened.kind))
        elif gap.strip():
            start = position + len(gap) - len(gap.lstrip())
            faults.append(_quoting("text_outside", text, start, position + len(gap.rstrip())))
        if tag.closing and not closed:
            faults.append(_quoting("stray_close", text, tag.start, tag.end))
        if tag.kind is None and tag.end > tag.start:
            faults.append(_quoting("text_outside", text, tag.start, tag.end))
        opened = None if tag.closing or tag.kind is None else tag
        position = tag.end
    near = (match.span() for match in _NEAR.finditer(text) if not _EXACT.fullmatch(match[0]))
    return blocks, [*faults, *(_quoting("malformed_tag", text, *span) for span in near)]


def _quoting(kind: FaultKind, text: str, start: int, end: int) -> Fault:
    """A fault whose detail is the text that stands there."""
    return Fault(kind, start, end, text[start : min(end, start + LONGEST_DETAIL)])


def _structure(text: str, form: re.Pattern[str]) -> Iterator[_Tag]:
    """The tags of the text; a thought that quotes tags is one stretch that is passed over."""
    tags = [
        _Tag(cast("BlockKind", match[2].lower()), bool(match[1]), *match.span())
        for match in form.finditer(text)
    ]
    index = _tags_of_native_thought(text, tags)
    if index:
        yield _Tag(None, False, len(text) - len(text.lstrip()), tags[index - 1].end)
    ends = _thought_ends(tags)
    while index < len(tags):
        end = ends[index]
        if end is not None and end > index + 1:
            yield _Tag(None, False, tags[index].start, tags[end].end)
            index = end
        else:
            yield tags[index]
        index += 1


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
    return next((one.text or None for one in following[:1] if one.kind == "think"), None)


def _cycle_indices(blocks: Sequence[Block]) -> list[int]:
    """Where the questions of complete cycles stand in ``blocks`` (the paper's n is their number).

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
    cycles = _cycle_indices(blocks)
    complete = set(cycles)
    asked: set[str] = set()
    before = ""  # the text of the question right before the block
    for index, block in enumerate(blocks):
        question = block.text if block.kind == "question" else ""
        if question and index not in complete:
            yield Fault("unanswered", block.start, block.end)
        if question in asked:
            yield Fault("repeated_question", block.start, block.end)
        if block.kind == "answer" and not before:
            yield Fault("answer_without_question", block.start, block.end)
        asked |= {question} - {""}
        before = question
    if not asked:
        yield Fault("no_question", 0, length)
    if len(cycles) < FEWEST_CYCLES:
        yield Fault("too_few_cycles", 0, length, str(len(cycles)))
    if _thought(blocks) is None:
        start = blocks[0].start if blocks else 0
        yield Fault("no_opening_thought", start, start)
    for index in cycles:
        if _thought(blocks[index + 2 : index + 3]) is None:
            end = blocks[index + 1].end
            yield Fault("no_thought_after_answer", end, end)
    yield from _verdict_faults(blocks, length, labels)


def _verdict_faults(
    blocks: Sequence[Block], length: int, labels: tuple[Verdict, ...]
) -> Iterator[Fault]:
    verdicts = [block for block in blocks if block.kind == "verification"]
    closed = [block for block in verdicts if block.closed]
    for block in verdicts[1:]:
        yield Fault("several_verdicts", block.start, block.end)
    for block in closed:
        if _verdict(block, labels) is None:
            detail = block.text[:LONGEST_DETAIL]
            yield Fault("unknown_verdict", block.start, block.end, detail)
    if not closed:
        yield Fault("no_verdict", length, length)
    elif blocks[-1].start >= closed[0].end:
        after = next(block for block in blocks if block.start >= closed[0].end)
        yield Fault("not_last", after.start, blocks[-1].end)
