"""Thoughts that quote tags, and untidy traces: cycles and verdict are read, faults are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.traces.grammar import parse_trace, write_trace
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
        (f"Okay, 1889 is after 1870.\nSo it is Refuted.\n</think>\n\n{REFUTED}", []),
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


TOKENS = ["<|im_end|>", "\n<|eot_id|>\n", "</s>", "<end_of_turn>\n", "<|im_end|>\n<|endoftext|>"]


@pytest.mark.parametrize("token", TOKENS, ids=repr)
@pytest.mark.parametrize(
    "text", [REFUTED, REFUTED.removesuffix("</verification>"), T + Q + "<answer>a", "a b", ""]
)
def test_chat_tokens_at_the_end_are_no_text(text: str, token: str):
    """Blocks and faults are those of the text without them; what lacks stays missing."""
    plain, found = parse_trace(text), parse_trace(text + token)
    seen = [[(one.kind, one.text, one.closed) for one in each.blocks] for each in (plain, found)]
    assert seen[0] == seen[1]
    assert sorted(one.kind for one in plain.faults) == sorted(one.kind for one in found.faults)
    assert (plain.verdict, plain.cycles) == (found.verdict, found.cycles)
    assert write_trace(plain) == write_trace(parse_trace(write_trace(found)))


@pytest.mark.parametrize("token", TOKENS, ids=repr)
def test_chat_tokens_elsewhere_are_text(token: str):
    """Between blocks they are text outside; inside a block they stay."""
    assert ["text_outside"] == [one.kind for one in parse_trace(T + token + REFUTED[16:]).faults]
    assert ["text_outside"] == [one.kind for one in parse_trace(REFUTED + token + "So.").faults]
    assert token.strip() == parse_trace(f"<think>{token}</think>").opening


@pytest.mark.parametrize("fence", ["```", "```xml", "```text"])
def test_a_fence_around_a_trace_is_text_outside(fence: str):
    """Verdict and cycles are read; the format is not that of the paper."""
    trace = parse_trace(f"{fence}\n{REFUTED}\n```")
    assert parse_trace(REFUTED).cycles[0].question == trace.cycles[0].question
    assert ("Refuted", 2) == (trace.verdict, len(trace.cycles))
    assert ["text_outside"] * 2 == [one.kind for one in trace.faults]


def test_characters_without_width_do_not_hide_a_verdict():
    """They are passed over before and behind the word; the word itself must be one of the two."""
    for hidden in ("\u200b", "\ufeff", "\u2060\n\u200d"):
        for word in (f"{hidden}Refuted", f"Refuted{hidden}", f"\n{hidden}Refuted\n"):
            trace = parse_trace(REFUTED.replace("Refuted", word))
            assert ("Refuted", ()) == (trace.verdict, trace.faults)
        assert parse_trace(REFUTED.replace("Refuted", f"{hidden}Maybe")).verdict is None


@LAW
@given(st.lists(st.sampled_from(TAGS), max_size=8), st.sampled_from(["", " ", "a", "\n?"]))
def test_no_thought_adds_a_block(tags: list[str], words: str):
    """Whatever tags a closed first thought quotes, what follows it is read as without it."""
    thought = f"<think>{words.join(['', *tags, ''])}</think>"
    assert parse_trace(REFUTED).cycles == parse_trace(thought + REFUTED).cycles
    assert "Refuted" == parse_trace(thought + REFUTED).verdict
