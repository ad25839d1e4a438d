"""Which verdict a reply has, form by form, and which replies have none."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.replies.verdicts import read_step, read_verdict
from strategies import LAW, any_text

SUPPORTED = [
    "Supported",
    " SUPPORTED.\n",
    "**Supported**",
    "*supported*!",
    "`Supported`",
    "“Supported.”",
    "(Supported)",
    "[Supported]",
    "**[Supported]**",
    r"\boxed{Supported}",
    "<verdict>Supported</verdict>",
    "```\nSupported\n```",
    "Supported<|im_end|>",
    "<think>Refuted? no.</think>\nSupported",
    "Refuted is not right.</think>Supported",
    "## Verdict: Supported",
    "> Supported",
    "**Verdict:** Supported.",
    "Verdict - Supported",
    "Verdict – Supported",
    "- Verdict: Supported",
    "1. Verdict: Supported",
    "**Verdict:**\n\nSupported",
    "### Verdict\nSupported",
    "Final answer:\n\n**Supported**",
    "Final Answer: Verdict: Supported",
    "Final answer: **Yes**",
    "Yes",
    "true",
    '{"verdict": "Supported"}',
    '{\n  "verdict": "Supported"\n}',
    "Verdict: Supported (the year is 1871).",
    "Verdict: Supported. The ledger gives 1871.",
    "Supported because the ledger gives 1871.",
    "Supported, as the ledger gives 1871.",
    "Supported, since both parts are borne out.",
    "Supported by the evidence.",
    "The claim is **Supported** by the evidence.",
    "The claim is fully supported by the evidence.",
    "The statement is true.",
    "The claim holds.\nSupported",
    "Conclusion: The claim is supported.",
    "Conclusion: the evidence supports the claim.",
    "In conclusion, the claim as a whole is supported.",
    "Each part is borne out, so the claim is Supported.",
    "The evidence clearly supports the claim.",
    "All parts match.\n\nVerdict: Supported.\n\nThis rests on the ledger of the mill.",
    "Verdict: Supported\n\nI hope that this helps.",
    "Supported\n\nThe evidence says as much.",
    "Part 1: Supported\nPart 2: Supported\nOverall: Supported",
    "Q1: Was it?\nA1: No\nVerdict: Supported",
    "It is not the case that a part is open.\nSo the final answer is: Supported",
    "The verdict is Supported.",
    "My final verdict: Supported",
    "Overall verdict on the claim: Supported",
    "Supported ✅",
    "✅ **Verdict: Supported**",
    "Reply: Supported",
    "Assistant: Supported",
    "Verdict：Supported",
    "\u200bSupported",
    "Claim: Supported",
    "The plan comes out true → **Verdict: Supported**",
    "Verdict: Supported (all parts are borne out; none is Refuted)",
    '```json\n{"reasoning": "Both years match.", "verdict": "Supported"}\n```',
    "$$\\boxed{\\text{Supported}}$$",
    "The evidence bears out every part of the claim.",
    "All parts of the claim are supported.",
    "Supported or Refuted: Supported",
    "Supported\n\n<claim>\nThe mill is older.\n</claim>\n\nReply:\nRefuted",
]
REFUTED = [
    "Refuted",
    "Not supported",
    "**Not Supported**",
    "unsupported",
    "The claim is not supported.",
    "The claim is not fully supported by the evidence.",
    "Therefore, the claim is **Not Supported**.",
    "The evidence does not support the claim.",
    "The evidence contradicts the claim.",
    "The claim is contradicted by sentence 3.",
    "Refuted. The evidence never names the miller.",
    "Refuted (not borne out)",
    "Verdict: Refuted (not borne out)",
    "Verdict: Refuted, because the mill is older.",
    "Verdict: Refuted – although the year is right.",
    "One part fails.\n\nThe claim is Refuted because the mill is older.",
    "Overall, the claim is Refuted because the second part is contradicted.",
    "Verdict: The claim is Refuted.",
    "Nothing is said of it; the claim is neither borne out nor contradicted.\nNot Supported",
    "Thus: Refuted.",
    "Hence the claim is refuted.",
    "Since part 2 is not supported, the whole claim is Refuted.",
    "Final Verdict: Refuted\n\nNote: if the year were 1902, the claim would be Supported.",
    # the verdict of each part, then of the whole
    "Part 1.\nVerdict: Refuted\nPart 2.\nVerdict: Supported\n\nAs 1 fails, the claim is Refuted.",
    "Part 1.\nVerdict: Supported\nPart 2.\nVerdict: Refuted\n\nOverall, the claim is Refuted by b.",
    "Built(bridge)\nVerdict: True\nOlder(bridge)\nVerdict: False\n\nConjunction: False\n[Refuted]",
    "Verdict: Supported\nVerdict: Refuted\nFinal verdict: Refuted",
    "Verdict for sub-claim 1: Supported\nVerdict for sub-claim 2: Refuted\nVerdict: Refuted",
    "Verdict 1: Supported\nVerdict 2: Refuted\n\n**Overall: Refuted**",
    "Sub-claim 1 (Supported): a\nSub-claim 2 (Refuted): b\n\nVerdict: Refuted",
    "Q1: Is it?\nA1: yes\n*Verdict: Supported*\n*Verdict: Refuted*\n\n**Overall Verdict: Refuted**",
    "**Question 1:** Who?\n**Answer:** unknown\n\nVerdict: Refuted",
    "Verdict: one part is true, the other is not, so Refuted",
    "Verdict: Neither part is borne out, so the claim is Refuted.",
    "Verdict: true and false = false, so Refuted",
    "Verdict: Not enough evidence to support → Refuted",
    "Verdict: Supported/Refuted → Refuted",
    "Verdict → Refuted",
    "Verdict: <Refuted>",
    "**Verdict:** **Refuted** *(the second part is contradicted)*",
    "Therefore the correct verdict is **Refuted**, not Supported.",
    "The claim cannot be Supported by the evidence, so it is Refuted.",
    "Part 2 is contradicted, so: Refuted",
    "No part of the claim is supported.",
    "Refuted ❌",
]
NONE = [
    "",
    " \n ",
    "Supported, mostly",
    "Mostly supported",
    "partly true",
    "The claim is only partly supported.",
    "Verdict: supported in part",
    "Verdict: Partially Supported",
    "Supported or Refuted",
    "Supported/Refuted",
    "Verdict: Supported or Refuted",
    "I would say Supported",
    "It is supported by the evidence that No",
    "<think>Supported",
    "Supported\nRefuted\nwho knows",
    "Supported\nRefuted",
    "Verdict: Supported\nVerdict: Refuted",
    "Verdict: Refuted / Verdict: Supported",
    "Part 1.\nVerdict: Refuted\nPart 2.\nVerdict: Supported",
    "[Supported]\n[Refuted]",
    "Verdict: Supported\n\nOverall, the claim is Refuted.\n\nFinal verdict: Supported",
    "Verdict: Supported\nThe evidence contradicts the claim.",
    "Verdict: Supported, but the year is not given.",
    "Supported. However, the second part is not borne out.",
    "yesterday",
    "Nothing is said.\nSupported\nThat is all.",
    "Not enough information",
    "Verdict: Cannot be determined",
    "Verdict: Unknown",
    "The claim cannot be verified.",
    "The evidence neither supports nor refutes the claim.",
    "The claim is neither supported nor refuted.",
    "If one part is contradicted, the claim is Refuted.",
    "The claim is Supported only if the mill is older.",
    "Whether the claim is supported remains open.",
    "It cannot be said that the claim is supported.",
    "This does not mean that the claim is refuted.",
    "The claim is not refuted.",
    "The evidence does not contradict the claim.",
    "The evidence supports the first part of the claim.",
    "The evidence supports the claim's first part.",
    "The evidence supports the claim in two of three parts.",
    "The claim that the mill is older is refuted.",
    "The sub-claim is refuted.",
    "Question: Was it?\nAnswer: Yes",
    "Is it so?\nYes",
    "A1: Supported",
    "Sub-claim 2: Refuted",
    "Reply with Supported or Refuted: Refuted",
    "I'm sorry, but I can't help with that.",
    "Supported? Let us see.",
    "Part 1 → Supported\nPart 2 → Refuted",
    "The mill is older → Refuted\nThe bridge is granite → Supported",
    "Verdict: Supported, so the claim is Refuted",
    "Claim: the mill is older",
    "Q1: Is it so, or not?\nA1: No, so Refuted",
    "Not all parts of the claim are supported, or are they?",
    '{"verdict": "Supported", "label": "Refuted"}',
]


@pytest.mark.parametrize("text", SUPPORTED)
def test_supported_in_the_forms_that_models_give_it(text: str):
    """Markup, labels, reasons and the verdicts of parts do not hide the verdict."""
    assert "Supported" == read_verdict(text)


@pytest.mark.parametrize("text", REFUTED)
def test_refuted_in_the_forms_that_models_give_it(text: str):
    """What is not supported is refuted; the statement on the whole claim decides."""
    assert "Refuted" == read_verdict(text)


@pytest.mark.parametrize("text", NONE)
def test_no_verdict_is_guessed(text: str):
    """A hedge, a condition, a part, silence, or two statements that disagree: no verdict."""
    assert read_verdict(text) is None


@pytest.mark.parametrize("text", [*SUPPORTED, *REFUTED])
@pytest.mark.parametrize("around", ["<think>Supported or Refuted?</think>\n{}", "\n{} \n\n"])
def test_thinking_and_white_space_around_change_nothing(text: str, around: str):
    """A thought that names both labels leaves the verdict behind it as it is."""
    assert read_verdict(text) == read_verdict(around.format(text))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Supported", "Supported"),
        ("Because of this it is\nRefuted", None),
        ("Verdict: Supported\nNote that No", "Supported"),
        ("Supported\n\nThe", "Supported"),
        ("Refuted. The evidence never men", "Refuted"),
        ("Verdict: Refuted (not bor", "Refuted"),
        ("<think>It is Supported", None),
        ("The claim is", None),
    ],
)
def test_half_a_line_counts_only_with_its_reason(text: str, verdict: str | None):
    """Where the token limit cut a reply, its last line could have taken the verdict back."""
    assert verdict == read_verdict(text, truncated=True)


@pytest.mark.parametrize(
    ("text", "truth", "reason"),
    [
        ("Yes", "true", ""),
        ("**False.**", "false", ""),
        ("Unknown.", "unknown", ""),
        ("Yes, it opened in 1871.", "true", "it opened in 1871"),
        ("No. The mill is older.", "false", "the mill is older"),
        ("True (the ledger gives 1871)", "true", "the ledger gives 1871"),
        ("Answer: Yes", "true", ""),
        ("The statement is true.", "true", ""),
        ("It opened in 1871.\nYes", "true", ""),
        ("Yes, but only in part.", None, ""),
        ("No doubt", None, ""),
        ("Yesterday", None, ""),
        ("No information is given", None, ""),
    ],
)
def test_a_step_is_answered_by_yes_or_no(text: str, truth: str | None, reason: str):
    """A comma, a stop or a bracket separates the word from its reason."""
    assert (truth, reason) == read_step(text)


@LAW
@given(any_text, st.booleans())
def test_any_text_is_read(text: str, truncated: bool):  # noqa: FBT001 - drawn
    """Every text has a verdict or none; no reader raises."""
    assert read_verdict(text, truncated=truncated) in {None, "Supported", "Refuted"}
    assert read_step(text, truncated=truncated)[0] in {None, "true", "false", "unknown"}


@pytest.mark.parametrize(
    "unit",
    ["Verdict: ", "the claim is ", "not ", "the evidence supports the claim. ", "\nSupported", "["],
)
def test_long_replies_take_linear_time(unit: str):
    """Twice the text costs about twice the time: no pattern backtracks over the whole reply."""

    def seconds(times: int) -> float:
        text = unit * times
        start = time.process_time()
        read_verdict(text)
        return time.process_time() - start

    seconds(1_000)
    short, long = min(seconds(4_000) for _ in range(3)), min(seconds(32_000) for _ in range(3))
    assert long < 40 * short + 0.05
