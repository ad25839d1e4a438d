"""The trace and its parts (paper, section 3.1, the trajectory).

A trace is an opening thought, cycles of question, answer and thought, and a verdict::

    <think>…</think>
    <question>…</question> <answer>…</answer> <think>…</think>   n times
    <verification>Supported</verification>

A three-way trace may end with Not Enough Information, too: which verdicts it may end with is said
where it is read (``labels``), and what its text holds beyond those is no verdict.
"""

from dataclasses import dataclass
from typing import Literal

from decomposerl.schemas import LABELS, Verdict

__all__ = ["Block", "BlockKind", "Cycle", "Fault", "FaultKind", "Trace", "Verdict"]

BlockKind = Literal["think", "question", "answer", "verification"]
FaultKind = Literal[
    "text_outside",  # text between or after blocks that is not white space
    "unclosed",  # a block that another block or the end of the text cuts short
    "stray_close",  # a closing tag that closes nothing
    "malformed_tag",  # a tag with attributes, spaces or other letter case
    "empty",  # a block without text
    "no_opening_thought",  # the first block is no thought
    "no_question",
    "unanswered",  # a question that no answer follows
    "answer_without_question",
    "no_thought_after_answer",
    "too_few_cycles",  # fewer than two complete cycles
    "repeated_question",  # the very text of an earlier question
    "no_verdict",
    "several_verdicts",
    "unknown_verdict",  # none of the labels
    "not_last",  # blocks follow the verdict
]


@dataclass(frozen=True, slots=True)
class Block:
    """One tagged block. ``text`` is what stands inside, trimmed.

    ``start`` and ``end`` are character offsets of the whole block, tags included, in the
    text that was parsed. ``closed`` is false where the closing tag is missing.
    """

    kind: BlockKind
    text: str
    start: int
    end: int
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and at which character offsets of the parsed text."""

    kind: FaultKind
    start: int
    end: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cycle:
    """A question with its answer, both with text, and the thought after it, if any."""

    question: str
    answer: str
    thought: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A parsed trace: all blocks in order, what is wrong, and what is usable.

    ``cycles`` are the complete question-answer pairs in order; a question that no answer
    follows is in ``blocks`` alone. ``verdict`` is None unless all verification blocks with a
    label, closed ones first, hold the same one. ``labels`` are those it may end with.
    """

    blocks: tuple[Block, ...]
    faults: tuple[Fault, ...]
    opening: str | None
    cycles: tuple[Cycle, ...]
    verdict: Verdict | None
    labels: tuple[Verdict, ...] = LABELS
