"""Thoughts that quote tags, and untidy traces: cycles and verdict are read, faults are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.trace import FaultKind
from strategies import LAW

T, Q, A = "<think>t</think>", "<question>q?</question>", "<answer>a</answer>"
R, V = "<question>r?</question>", "<verification>Refuted</verification>"
REFUTED = T + Q + A + T + R + A + T + V
TAGS = [
    f"<{slash}{kind}>" for kind in ("question", "answer", "verification") for slash in ("", "/")
]
QUOTES = (
    "Okay. The form is <question>…</question> and <answer>…</answer>, so I could write "
    "<question>Is it old?</question>\n<answer>It is.</answer> and end with "
    "<verification>Supported</verification>."
)


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (f"<think>\n{QUOTES}\n</think>\n\n{REFUTED}", []),
        (f"{QUOTES}\n</think>\n\n{REFUTED}", []),
        (f"<think>{QUOTES} The <answer> tag too.</think>{REFUTED}", []),
        (REFUTED.replace("<think>t", f"<think>t {QUOTES}", 1), ["no_opening_thought"]),
        (REFUTED.replace(A + T, f"{A}<think>{QUOTES}</think>{T}", 1), []),
        (REFUTED.replace(A + T, f"{A}<think>{QUOTES}</think>", 1), ["no_thought_after_answer"]),
    ],
)
def test_a_thought_that_quotes_tags_forges_nothing(text: str, others: list[FaultKind]):
    """A reasoning model's own thought before or inside the trace: cycles and verdict are real.

    It is text outside, which costs the condition of well-formed tags, and is no thought.
    """
    trace = parse_trace(text)
    assert parse_trace(REFUTED).cycles[0].question == trace.cycles[0].question
    assert ["q?", "r?"] == [cycle.question for cycle in trace.cycles]
    assert "Refuted" == trace.verdict
    assert sorted([*others, "text_outside"]) == sorted(fault.kind for fault in trace.faults)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (REFUTED + "\n\nThe bridge is younger, so the claim fails.", "text_outside"),
        (REFUTED.replace(Q, f"### Question\n{Q}").replace(R, f"### Question\n{R}"), "text_outside"),
        (REFUTED.replace(A + T + "<ver", A + "<ver"), "no_thought_after_answer"),
        (REFUTED.replace(A + T + R, A + "<think>t" + R), "unclosed"),
    ],
)
def test_untidy_traces_keep_cycles_and_verdict(text: str, fault: FaultKind):
    """A remark behind, headings, a missing or unclosed thought: each costs its condition only."""
    trace = parse_trace(text)
    assert ("Refuted", 2) == (trace.verdict, len(trace.cycles))
    assert {fault} == {one.kind for one in trace.faults}


@LAW
@given(st.lists(st.sampled_from(TAGS), max_size=8), st.sampled_from(["", " ", "a", "\n?"]))
def test_no_thought_adds_a_block(tags: list[str], words: str):
    """Whatever tags a closed first thought quotes, what follows it is read as without it."""
    thought = f"<think>{words.join(['', *tags, ''])}</think>"
    assert parse_trace(REFUTED).cycles == parse_trace(thought + REFUTED).cycles
    assert "Refuted" == parse_trace(thought + REFUTED).verdict
