"""From blocks to what a trace says: cycles, opening thought, verdict, and what is misplaced.

Takes the blocks of a text in order and its length, gives the usable parts and the faults of
their order. Each condition of the format reward has faults of its own:

    opens with thinking                    no_opening_thought
    at least one question, none twice      no_question, repeated_question
    every question answered                unanswered, answer_without_question
    thinking after each cycle              no_thought_after_answer
    two cycles or more                     too_few_cycles
    one closed verdict, and it is last     no_verdict, several_verdicts, not_last
    the label is one of those asked for    unknown_verdict (or no verdict at all)
    well-formed tags, no text outside      unclosed, stray_close, malformed_tag, empty,
                                           text_outside
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from decomposerl.replies.verdicts import read_verdict
from decomposerl.schemas import LABELS
from decomposerl.traces.trace import Block, Cycle, Fault, Verdict

FEWEST_CYCLES = 2
_LONGEST_DETAIL = 80
_Labels = tuple[Verdict, ...]
_ZERO_WIDTH = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


def verdict_of(blocks: Sequence[Block], labels: _Labels = LABELS) -> Verdict | None:
    """The one of ``labels`` in all closed verification blocks that hold one; else None."""
    found = {_verdict(block, labels) for block in _closed_verdicts(blocks)} - {None}
    return found.pop() if len(found) == 1 else None


def opening_of(blocks: Sequence[Block]) -> str | None:
    """The text of the first block, where that is a thought with text."""
    return _thought(blocks[:1])


def cycles_of(blocks: Sequence[Block]) -> tuple[Cycle, ...]:
    """The complete question-answer pairs in order (the paper's n is their number).

    An answer counts if it stands next after its question. One that the end of the text cuts
    does not: nobody should rule on half a sentence. One that another tag cuts does.
    """
    return tuple(
        Cycle(blocks[index].text, blocks[index + 1].text, _thought(blocks[index + 2 : index + 3]))
        for index in _cycle_indices(blocks)
    )


def structure_faults(blocks: Sequence[Block], length: int, labels: _Labels = LABELS) -> list[Fault]:
    """What is missing, misplaced or repeated. Something missing has no width, or all of it.

    ``length`` is the number of characters of the text, ``labels`` the verdicts it may end with.
    """
    indices = _cycle_indices(blocks)
    faults = [*_pair_faults(blocks, set(indices)), *_verdict_faults(blocks, length, labels)]
    if opening_of(blocks) is None:
        start = blocks[0].start if blocks else 0
        faults.append(Fault("no_opening_thought", start, start))
    if not any(block.kind == "question" and block.text for block in blocks):
        faults.append(Fault("no_question", 0, length))
    if len(indices) < FEWEST_CYCLES:
        faults.append(Fault("too_few_cycles", 0, length, str(len(indices))))
    for index in indices:
        if _thought(blocks[index + 2 : index + 3]) is None:
            end = blocks[index + 1].end
            faults.append(Fault("no_thought_after_answer", end, end))
    return faults


def _cycle_indices(blocks: Sequence[Block]) -> list[int]:
    """Where the questions of complete cycles stand in ``blocks``."""
    last = len(blocks) - 1
    return [
        index
        for index, (first, second) in enumerate(pairwise(blocks))
        if (first.kind, second.kind) == ("question", "answer")
        and first.text
        and second.text
        and (second.closed or index + 1 < last)
    ]


def _thought(following: Sequence[Block]) -> str | None:
    """The text of the first of ``following``, where that is a thought with text."""
    thoughts = [block.text for block in following if block.kind == "think"]
    return thoughts[0] or None if thoughts else None


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


def _verdict_faults(blocks: Sequence[Block], length: int, labels: _Labels) -> Iterator[Fault]:
    closed = _closed_verdicts(blocks)
    if not closed:
        yield Fault("no_verdict", length, length)
    for block in [block for block in blocks if block.kind == "verification"][1:]:
        yield Fault("several_verdicts", block.start, block.end)
    for block in closed:
        if _verdict(block, labels) is None:
            detail = block.text[:_LONGEST_DETAIL]
            yield Fault("unknown_verdict", block.start, block.end, detail)
    after = [block for block in blocks if closed and block.start >= closed[0].end]
    if after:
        yield Fault("not_last", after[0].start, after[-1].end)


def _verdict(block: Block, labels: _Labels) -> Verdict | None:
    """The verdict that a block states; characters without width are passed over."""
    return read_verdict(block.text.translate(_ZERO_WIDTH), labels=labels)


def _closed_verdicts(blocks: Sequence[Block]) -> list[Block]:
    return [block for block in blocks if block.kind == "verification" and block.closed]
