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
from typing import cast, get_args

from decomposerl.replies.answers import read_verdict
from decomposerl.schemas import LABELS, VERDICTS, WRITTEN
from decomposerl.traces.trace import Block, BlockKind, Cycle, Fault, FaultKind, Trace, Verdict

KINDS: tuple[BlockKind, ...] = get_args(BlockKind)
FEWEST_CYCLES = 2
LONGEST_DETAIL = 80
_NAMES = "|".join(KINDS)
_TAG = f"</?(?:{_NAMES})>"
# Texts up to a tag are possessive: a hostile text is scanned once, whatever it holds.
_TEXT = rf"[^<]*+(?:(?!{_TAG})<[^<]*+)*+"
_PART = (
    # a thought that quotes tags, a block, or a closing tag that closes nothing
    rf"<think>{_TEXT}(?!</?think>)<[^<]*+(?:(?!</?think>)<[^<]*+)*+</think>"
    rf"|<(?P<kind>{_NAMES})>(?P<text>{_TEXT})(?P<close></(?P=kind)>)?"
    rf"|(?P<stray></(?:{_NAMES})>)"
)
_ANY_CASE = re.IGNORECASE | re.ASCII
_NEAR = re.compile(rf"<\s*+(?:/\s*+)?+(?:{_NAMES})(?![\w-])[^<>]*+>", re.IGNORECASE)
_CHAT_TOKENS = re.compile(r"(?:(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<end_of_turn>)\s*+)++")
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
    cycles = _cycle_indices(blocks)
    faults += _structure_faults(blocks, cycles, len(text))
    faults += _verdict_faults(blocks, len(text), labels)
    faults.sort(key=lambda fault: (fault.start, fault.end, fault.kind))
    if any(fault.kind == "malformed_tag" for fault in faults):
        lenient, _ = read_blocks(text, _ANY_CASE)
        more = _cycle_indices(lenient)
        if len(more) > len(cycles) or _verdict_of(blocks, labels) is None:
            blocks, cycles = lenient, more
    return Trace(
        blocks=tuple(blocks),
        faults=tuple(faults),
        opening=_thought(blocks),
        cycles=tuple(
            Cycle(blocks[at].text, blocks[at + 1].text, _thought(blocks[at + 2 : at + 3]))
            for at in cycles
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
    if re.search(_TAG, block.text) or block.text != block.text.strip():
        raise ValueError(f"no text reads as this {block.kind} block: {block.text[:80]!r}")
    return f"<{block.kind}>{block.text}" + (f"</{block.kind}>" if block.closed else "")


def read_blocks(text: str, flags: int = 0) -> tuple[list[Block], list[Fault]]:
    """All blocks of ``text`` in order, and the faults of its tags. Linear; never raises.

    An opening tag inside an open block ends that block as unclosed: blocks do not nest. So
    does a closing tag of another kind, which is then stray. From ``<think>`` to the next
    ``</think>``, with no ``<think>`` between, all is one thought: quoted tags in it are no
    structure, and such a thought is ``text_outside``. So is a native thought of a reasoning
    model before the trace. Tags that are almost right are faults and otherwise plain text;
    closing tokens of a chat template at the end are no text. ``flags`` are of ``re``.
    """
    blocks: list[Block] = []
    *_, tokens = [None, *_CHAT_TOKENS.finditer(text)]
    last = tokens.start() if tokens and tokens.end() == len(text) else len(text)
    position = _end_of_native_thought(text, flags)
    faults = [*_quoting("text_outside", text, 0, position)]
    for part in re.compile(_PART, flags).finditer(text, position, last):
        faults += _quoting("text_outside", text, position, part.start())
        start, position = part.span()
        if part["kind"] is None:
            kind: FaultKind = "stray_close" if part["stray"] else "text_outside"
            faults += _quoting(kind, text, start, position)
            continue
        block_kind = cast("BlockKind", part["kind"].lower())
        block = Block(block_kind, part["text"].strip(), start, position, part["close"] is not None)
        blocks.append(block)
        if not block.closed:
            faults.append(Fault("unclosed", start, position, block_kind))
        if not block.text:
            faults.append(Fault("empty", start, position, block_kind))
    faults += _quoting("text_outside", text, position, last)
    for near in _NEAR.finditer(text):
        if not re.fullmatch(_TAG, near[0]):
            faults += _quoting("malformed_tag", text, *near.span())
    return blocks, faults


def _quoting(kind: FaultKind, text: str, start: int, end: int) -> Iterator[Fault]:
    """A fault whose detail is the text that stands there, if there is any."""
    part = text[start:end]
    if part.strip():
        start += len(part) - len(part.lstrip())
        end -= len(part) - len(part.rstrip())
        yield Fault(kind, start, end, text[start : min(end, start + LONGEST_DETAIL)])


def _end_of_native_thought(text: str, flags: int) -> int:
    """Where a thought before the trace ends; 0 where there is none.

    Its ``<think>`` may have been in the prompt: then it has words and ends with the first tag of a
    thought. One that names ``<think>`` itself ends where a ``</think>`` that does not close a
    thought of the trace stands right before a ``<think>``.
    """
    tags = list(re.compile(_TAG, flags).finditer(text))
    names = [tag[0].lower() for tag in tags]
    first = next((tag for tag in tags if "think" in tag[0].lower()), None)
    prompted = first is not None and bool(text[: first.start()].strip())
    if first is None or (not prompted and names[1:2] == ["</think>"]):
        return 0
    if first[0].startswith("</"):
        return first.end() if prompted else 0
    depth = 0
    for index, (tag, after) in enumerate(pairwise(tags)):
        if names[index : index + 2] == ["</think>", "<think>"]:
            own = depth == 1 and names[index - 1] == "<think>"
            if (depth or prompted) and not own and not text[tag.end() : after.start()].strip():
                return tag.end()
        depth += {"<think>": 1, "</think>": -1}.get(names[index], 0)
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
    blocks: Sequence[Block], cycles: Sequence[int], length: int
) -> Iterator[Fault]:
    """What is missing, misplaced or repeated. Something missing has no width, or all of it."""
    complete, asked = set(cycles), set[str]()
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


def _verdict_faults(
    blocks: Sequence[Block], length: int, labels: tuple[Verdict, ...]
) -> Iterator[Fault]:
    verdicts = [index for index, block in enumerate(blocks) if block.kind == "verification"]
    closed = [index for index in verdicts if blocks[index].closed]
    for index in verdicts[1:]:
        yield Fault("several_verdicts", blocks[index].start, blocks[index].end)
    for block in (blocks[index] for index in closed):
        if _verdict(block, labels) is None:
            yield Fault("unknown_verdict", block.start, block.end, block.text[:LONGEST_DETAIL])
    if not closed:
        yield Fault("no_verdict", length, length)
    elif after := blocks[closed[0] + 1 :]:
        yield Fault("not_last", after[0].start, after[-1].end)
