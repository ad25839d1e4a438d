"""The trace grammar: laws over any text, mutated traces, and every fault by example.

Then thoughts that quote tags, and untidy traces: cycles and verdict are read, faults are named.
"""

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.traces.grammar import KINDS, build_trace, parse_trace, read_blocks, write_trace
from decomposerl.traces.trace import Block, Cycle, FaultKind, Trace
from strategies import LAW, law

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))
"""Traces and what is wrong with them."""

MUTATED = law(300)
BOOKS, FOOTBALL, MONKEYS = WHOLE = TABLES["whole traces"]
TAGS = [f"<{slash}{kind}>" for kind in KINDS for slash in ("", "/")]
NEAR = [
    "<Question>",
    "<answer >",
    "<answer id=1>",
    "< /think>",
    "</ think>",
    "<THINK/>",
    "<\nthink>",
]
PIECES = [*TAGS, *NEAR, "<", ">", "</", " ", "\n", "Supported", "refuted", "a", "q?", "&lt;", "\0"]

soup = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
anything = st.text(st.characters(), max_size=60)  # lone surrogates too


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A realistic trace after a few deletions, copies, swaps, insertions and cuts."""
    text = draw(st.sampled_from(WHOLE))
    for _ in range(draw(st.integers(1, 4))):
        first, second = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        before, slice_, after = text[:first], text[first:second], text[second:]
        ways = (
            *(before + after, before + slice_ + slice_ + after, after + slice_ + before, before),
            before + draw(soup) + slice_ + after,
        )
        text = draw(st.sampled_from(ways))
    return text


texts = anything | soup | mutated()
inner = st.text(st.characters(), max_size=30).map(str.strip) | st.sampled_from(
    ["a < b", "</answer", "<answer x", "<Answer>", "&lt;answer&gt;", "<", "two\nlines"]
)
part = inner.filter(lambda text: bool(text) and not any(tag in text for tag in TAGS))
cycle = st.builds(Cycle, part, part, st.none() | part)


def seen(trace: Trace) -> object:
    """All of a trace but offsets and faults."""
    blocks = [(block.kind, block.text, block.closed) for block in trace.blocks]
    return blocks, trace.opening, trace.cycles, trace.verdict


def kinds(text: str) -> list[FaultKind]:
    return [fault.kind for fault in parse_trace(text).faults]


@MUTATED
@given(texts)
def test_any_text_is_read_and_offsets_point_into_it(text: str):
    """Blocks begin with their tag, lie in order, do not overlap; faults lie in the text."""
    trace = parse_trace(text)
    place = 0
    for block in trace.blocks:
        assert place <= block.start < block.end <= len(text)
        assert text[block.start : block.end].lower().startswith(f"<{block.kind}>")
        assert block.closed == text[: block.end].lower().endswith(f"</{block.kind}>")
        assert block.text in text[block.start : block.end]
        assert not any(tag in block.text for tag in TAGS)
        place = block.end
    assert all(0 <= fault.start <= fault.end <= len(text) for fault in trace.faults)
    spans = [(fault.start, fault.end) for fault in trace.faults]
    assert sorted(spans) == spans


@MUTATED
@given(texts)
def test_every_letter_is_in_a_block_or_in_a_fault(text: str):
    """Nothing that a policy wrote goes unseen: what no block holds, a fault reports."""
    taken, faults = read_blocks(text)
    outside = [fault for fault in faults if fault.kind in {"text_outside", "stray_close"}]
    covered = {i for span in (*taken, *outside) for i in range(span.start, span.end)}
    assert not [i for i, letter in enumerate(text) if i not in covered and not letter.isspace()]


@MUTATED
@given(texts)
def test_writing_and_reading_changes_nothing_that_was_read(text: str):
    """Whatever the text, its trace survives its own canonical text, which is then final."""
    trace = parse_trace(text)
    written = write_trace(trace)
    again = parse_trace(written)
    assert seen(trace) == seen(again)
    assert written == write_trace(again)


@LAW
@given(st.none() | part, st.lists(cycle, max_size=4), st.sampled_from(("Supported", "Refuted")))
def test_what_is_built_is_read_back(opening: str | None, cycles: list[Cycle], verdict: str):
    """Any parts without tags come back as they were, and the order of parts is no fault."""
    trace = build_trace(opening, cycles, verdict)
    assert (opening, tuple(cycles), verdict) == (trace.opening, trace.cycles, trace.verdict)
    assert trace == parse_trace(write_trace(trace))
    expected = {"no_opening_thought"} if opening is None else set()
    expected |= {"no_thought_after_answer"} if any(c.thought is None for c in cycles) else set()
    expected |= {"too_few_cycles"} if len(cycles) < 2 else set()
    expected |= set() if cycles else {"no_question"}
    found = {fault.kind for fault in trace.faults}
    assert expected == found - {"repeated_question", "malformed_tag"}


@LAW
@given(part, st.sampled_from(TAGS) | st.text("\n\t ", min_size=1, max_size=2), part)
def test_no_text_can_forge_a_block(before: str, between: str, after: str):
    """A block with a tag, or untrimmed, cannot be written: it would be read as something else."""
    for text in (before + between + after, between + before):
        if between.strip() or text != text.strip():
            forged = Trace((Block("answer", text, 0, 0),), (), None, (), None)
            with pytest.raises(ValueError, match="no text reads as this answer block"):
                write_trace(forged)


@pytest.mark.parametrize("text", WHOLE, ids=["books", "football", "monkeys"])
def test_a_good_trace_has_no_fault(text: str):
    """The golden traces are read whole; entities and angle brackets stay as written."""
    trace = parse_trace(text)
    assert () == trace.faults
    assert {BOOKS: 3, FOOTBALL: 2, MONKEYS: 2}[text] == len(trace.cycles)
    assert ("Supported" if text is FOOTBALL else "Refuted") == trace.verdict
    assert all(cycle.thought for cycle in trace.cycles)
    assert ("(a < b & c &lt; d)" in trace.cycles[-1].answer) == (text is BOOKS)
    assert (text is FOOTBALL) == (text == write_trace(trace)), "only Football is canonical"


@pytest.mark.parametrize("text", WHOLE, ids=["books", "football", "monkeys"])
def test_a_cut_at_any_place_keeps_just_the_complete_cycles(text: str):
    """Cut after each character: a cycle is there from the last letter of its answer's tag on."""
    whole = parse_trace(text)
    ends = [block.end for block in whole.blocks if block.kind == "answer"]
    verdict_end = whole.blocks[-1].end
    label_end = text.lower().rindex(str(whole.verdict).lower()) + len(str(whole.verdict))
    for cut in range(len(text)):
        trace = parse_trace(text[:cut])
        complete = sum(end <= cut for end in ends)
        expected = [(each.question, each.answer) for each in whole.cycles[:complete]]
        assert expected == [(each.question, each.answer) for each in trace.cycles]
        assert (whole.verdict if cut >= label_end else None) == trace.verdict
        assert (cut < verdict_end) == ("no_verdict" in kinds(text[:cut]))


T, Q, A = "<think>t</think>", "<question>q?</question>", "<answer>a</answer>"
R, V = "<question>r?</question>", "<verification>Supported</verification>"
GOOD = T + Q + A + T + R + A + T + V
FAULTS: list[tuple[str, list[FaultKind]]] = TABLES["faults"]


def test_each_fault_is_named_and_no_other():
    """One thing wrong gives its own fault and nothing else; the table shows every fault."""
    assert [] == [row for row in FAULTS if sorted(row[1]) != sorted(kinds(row[0]))]
    assert set(get_args(FaultKind)) == {kind for _, expected in FAULTS for kind in expected}


@pytest.mark.parametrize(("old", "new", "kind", "stretch"), TABLES["where a fault is"])
def test_a_fault_says_where(old: str, new: str, kind: FaultKind, stretch: str):
    """Its offsets cut out of the text just what is wrong."""
    text = GOOD.replace(old, new, 1)
    (fault,) = [fault for fault in parse_trace(text).faults if fault.kind == kind]
    assert stretch == text[fault.start : fault.end]


@pytest.mark.parametrize(("text", "verdict"), TABLES["verdicts of traces"])
def test_a_verdict_is_read_as_in_every_reply(text: str, verdict: str | None):
    """By the reader of all systems: marks, reasons and letters without width are passed over."""
    assert verdict == parse_trace(GOOD.replace("Supported", text)).verdict
    assert ("unknown_verdict" in kinds(GOOD.replace("Supported", text))) == (verdict is None)


def test_two_different_verdicts_are_none():
    """The same label twice is one verdict; an unclosed or unknown one does not vote."""
    other = "<verification>refuted</verification>"
    assert parse_trace(V + other).verdict is None
    assert "Supported" == parse_trace(V + "<verification> SUPPORTED </verification>").verdict
    assert "Supported" == parse_trace("<verification>Refuted" + V).verdict
    assert "Supported" == parse_trace(V + "<verification>maybe</verification>").verdict


def test_an_answer_that_another_tag_cuts_is_kept():
    """Its end is known; only an answer that the end of the text cuts is lost."""
    assert (Cycle("q?", "a", "t"),) == parse_trace(f"{Q}<answer>a{T}").cycles
    assert (Cycle("q?", "a"),) == parse_trace(f"{Q}<answer>a</question>{R}").cycles
    assert () == parse_trace(f"{Q}<answer>a").cycles


REFUTED = GOOD.replace("Supported", "Refuted")


@pytest.mark.parametrize(("text", "others"), TABLES["quoting thoughts"])
def test_a_thought_that_quotes_tags_forges_nothing(text: str, others: list[FaultKind]):
    """A reasoning model's own thought: cycles and verdict are real, and it is text outside."""
    trace = parse_trace(text)
    assert parse_trace(REFUTED).cycles[0].question == trace.cycles[0].question
    assert ["q?", "r?"] == [cycle.question for cycle in trace.cycles]
    assert "Refuted" == trace.verdict
    assert sorted([*others, "text_outside"]) == sorted(fault.kind for fault in trace.faults)


@pytest.mark.parametrize(("text", "fault"), TABLES["untidy traces"])
def test_untidy_traces_keep_cycles_and_verdict(text: str, fault: FaultKind):
    """A remark behind, a fence, headings, a missing thought: each costs its condition only."""
    trace = parse_trace(text)
    assert ("Refuted", 2) == (trace.verdict, len(trace.cycles))
    assert {fault} == {one.kind for one in trace.faults}


TOKENS = ["<|im_end|>", "\n<|eot_id|>\n", "</s>", "<end_of_turn>\n", "<|im_end|>\n<|endoftext|>"]


@pytest.mark.parametrize("token", TOKENS, ids=repr)
def test_chat_tokens_are_no_text_at_the_end_alone(token: str):
    """There, traces are those without them; between blocks they are text outside, inside text."""
    unclosed = REFUTED.removesuffix("</verification>")
    for text in (REFUTED, unclosed, T + Q + "<answer>a", "a b", ""):
        plain, found = parse_trace(text), parse_trace(text + token)
        assert seen(plain) == seen(found)
        assert sorted(kinds(text)) == sorted(kinds(text + token))
        assert write_trace(plain) == write_trace(parse_trace(write_trace(found)))
    assert ["text_outside"] == kinds(T + token + REFUTED[16:]) == kinds(REFUTED + token + "So.")
    assert token.strip() == parse_trace(f"<think>{token}</think>").opening


QUOTED = [tag for tag in TAGS if "think" not in tag]


@LAW
@given(st.lists(st.sampled_from(QUOTED), max_size=8), st.sampled_from(["", " ", "a", "\n?"]))
def test_no_thought_adds_a_block(tags: list[str], words: str):
    """Whatever tags a closed first thought quotes, what follows it is read as without it."""
    thought = f"<think>{words.join(['', *tags, ''])}</think>"
    assert parse_trace(REFUTED).cycles == parse_trace(thought + REFUTED).cycles
    assert "Refuted" == parse_trace(thought + REFUTED).verdict
