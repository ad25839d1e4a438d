"""Steps, follow-up questions and short answers in the forms that chat models write them in."""

import pytest

from baseline_parts import drive, faithful, saying
from decomposerl.baselines import claimdecomp, decomposed_prompting, qacheck, self_ask
from decomposerl.baselines.method import ModelReply
from decomposerl.baselines.replies import read_truth
from decomposerl.baselines.silence import says_unknown

ASKED = "Who built the mill?"


@pytest.mark.parametrize(
    ("text", "handler", "step"),
    [
        (f"Sure! Here is the next step:\n\nStep 1: [lookup] {ASKED}", "lookup", ASKED),
        (f"<think>\nStep 1 is easy.\n</think>\n\nStep 1: [lookup] {ASKED}", "lookup", ASKED),
        ("Step 1: check: Ada built it.", "check", "Ada built it."),
        ("Check: Ada built it.", "check", "Ada built it."),
        ("(check) Ada built it.", "check", "Ada built it."),
        ("[check: Ada built it.]", "check", "Ada built it."),
        ('check("Ada built it.")', "check", "Ada built it."),
        ("**Step 1:** `[compare] Is it older?`", "compare", "Is it older?"),
        (f"[search] {ASKED}", "lookup", ASKED),
        ("[search] Ada built it.", "check", "Ada built it."),
        ("[verify] Ada built it.", "check", "Ada built it."),
        ("[confirm] Is it older?", "check", "Is it older?"),
        ("[validate] Ada built it.", "check", "Ada built it."),
        ("[calculate] How old is it?", "compare", "How old is it?"),
        ("[count] #1 and #2", "compare", "#1 and #2"),
        ("[order] Which came first?", "compare", "Which came first?"),
        ("<check> Ada built it.", "check", "Ada built it."),
        ("<check>Ada built it.</check>", "check", "Ada built it."),
        ("Step 1: **check** Ada built it.", "check", "Ada built it."),
        ("Step 1：[check] Ada built it.", "check", "Ada built it."),
        ("Sure, the next step is: Step 1: [check] Ada built it.", "check", "Ada built it."),
        (f"Step 1: [find fact]: {ASKED}", "lookup", ASKED),
        (f"1. [lookup] {ASKED}", "lookup", ASKED),
        (f"### Step 1\n[lookup] {ASKED}", "lookup", ASKED),
        (f"Step 1: {ASKED}", "lookup", ASKED),
        (f"[lookup] {ASKED}\n#1: Ada\nStep 2: NONE", "lookup", ASKED),
        (f"Step 0: [check] It is.\n#0: yes\nStep 1: [lookup] {ASKED}", "lookup", ASKED),
    ],
)
def test_a_step_in_other_forms(text: str, handler: str, step: str):
    """The first step of a reply runs by its handler, whatever stands around it."""
    steps = faithful(decomposed_prompting.METHOD)
    driven = drive(steps, saying(text, "Yes", "NONE", "Supported"))
    run = driven.calls[1]
    assert (handler, step) == (
        run.template,
        run.variables.get("question", run.variables.get("statement")),
    )
    assert ("end", 0) == (driven.ended.notes["stopped"], driven.ended.notes["asked_again"])
    (slot,) = driven.calls[0].stop
    assert slot not in text.partition("\n#1")[0], "an endpoint would cut the step itself"


@pytest.mark.parametrize(
    "text",
    [
        "NONE. All parts of the claim have been asked about.",
        "NONE (nothing is left to ask)",
        "Step 1: NONE",
        "Step 1: [lookup] NONE",
        "[check] None.",
        "The next step is: NONE",
        "[none]",
        "All parts of the claim have been dealt with.",
        "No further steps are needed.",
        "There is nothing left to check.",
        "<think>\nAll done.\n</think>\n\nNone.",
    ],
)
def test_the_steps_end_in_other_words(text: str):
    """NONE with a remark, or a sentence that nothing is left, is the end of the steps."""
    driven = drive(faithful(decomposed_prompting.METHOD), saying(text, "Supported"))
    assert ("end", 2) == (driven.ended.notes["stopped"], len(driven.calls))


def test_an_unreadable_step_is_asked_for_again_with_its_form():
    """The second reply is read as if it were the first; the formula counts both calls."""
    method = decomposed_prompting.METHOD
    model = saying("Let me look.", "Ada", "NONE", "Refuted", again=[f"[lookup] {ASKED}"])
    driven = drive(faithful(method), model)
    assert ["", "step", "", "", ""] == [call.form for call in driven.calls]
    assert driven.calls[0].variables == driven.calls[1].variables
    assert ("Refuted", 1) == (driven.ended.verdict, driven.ended.notes["asked_again"])
    assert 5 == method.expected_calls(driven.ended) == len(driven.calls)


def test_a_check_is_asked_again_and_then_kept_as_it_is():
    """A readable second reply is the answer; else the text stands in the transcript."""
    steps = faithful(decomposed_prompting.METHOD)
    said = ("[check] It is so.", "Hard to say.", "NONE", "Refuted")
    assert ["no"] == [
        cycle.answer for cycle in drive(steps, saying(*said, again=["No"])).ended.cycles
    ]
    kept = drive(steps, saying(*said)).ended
    assert ["Hard to say."] == [cycle.answer for cycle in kept.cycles]
    assert (1, 1) == (kept.notes["unread_checks"], kept.notes["asked_again"])


@pytest.mark.parametrize(
    "text",
    [
        f"**Follow up:** {ASKED}",
        f"Follow-up question: {ASKED}",
        f"Follow\u2011up: {ASKED}",
        f"Follow up：{ASKED}",
        f"Sure! Here it is.\n\nFollow up: {ASKED}",
        f"Are follow-up questions needed here: Yes.\nFollow up: {ASKED}",
        f"Follow up:\n{ASKED}",
        f"Follow up: {ASKED}\nFollow up: When?",
        f"Follow up: {ASKED}\n**Intermediate answer:** Ada\nSo the final answer is: Refuted",
        f"<think>\nFollow up: What?\n</think>\n\nFollow up: {ASKED}",
    ],
)
def test_a_follow_up_in_other_forms(text: str):
    """The first follow-up question is asked, and no answer of the model's own is read."""
    driven = drive(faithful(self_ask.METHOD), saying(text, "Ada", "NONE", "Supported"))
    assert (ASKED, "none") == (driven.calls[1].variables["question"], driven.ended.notes["stopped"])


@pytest.mark.parametrize(
    "text",
    [
        "No further follow-up questions are needed.",
        "No more questions.",
        "Are follow-up questions needed here: No.",
        "There are no further questions to ask.",
        "All parts of the claim have been addressed.",
        "Follow up: NONE",
        "NONE. Both dates are known.",
    ],
)
def test_the_asking_ends_in_other_words(text: str):
    """Without a question and a verdict, such a sentence asks for the final line."""
    driven = drive(faithful(self_ask.METHOD), saying(text, "Refuted"))
    assert ("none", "Refuted") == (driven.ended.notes["stopped"], driven.ended.verdict)
    assert 2 == self_ask.METHOD.expected_calls(driven.ended) == len(driven.calls)


@pytest.mark.parametrize(
    "text",
    [
        "So the final answer is:\nRefuted",
        "No.\nSo the final answer is **Refuted**.",
        "The final answer is: Refuted, because the mill is older.",
        "Final answer: Refuted",
        "Verdict: Refuted",
        "Refuted",
    ],
)
def test_a_final_line_in_other_forms(text: str):
    """It ends the transcript with its verdict, without a further call."""
    driven = drive(faithful(self_ask.METHOD), saying(text))
    assert ("final line", "Refuted") == (driven.ended.notes["stopped"], driven.ended.verdict)


def test_a_thought_is_no_part_of_an_answer():
    """What a model thinks stands neither in the trace nor in the next prompt."""
    thinking = "<think>\nHm.\n</think>\n\nunknown"
    for method in (self_ask.METHOD, decomposed_prompting.METHOD):
        driven = drive(faithful(method), saying(ASKED, thinking, "NONE", "Refuted"))
        assert ["I don't know."] == [cycle.answer for cycle in driven.ended.cycles]
        assert "Hm." not in str([call.variables for call in driven.calls])


SILENT = [
    "No, the evidence does not indicate when it was built.",
    "No, there are no such records in the evidence.",
    "No, this is not stated.",
    "No, neither is mentioned.",
    "No. There is no mention of it.",
    "No, the evidence is silent on this.",
    "No, because the evidence does not say so.",
    "No, nothing in the evidence says so.",
    "No (not mentioned in the evidence)",
    "No\n\nReason: The evidence does not mention it.",
    "No evidence of this is given.",
    "The evidence does not tell.",
    "Not stated.",
    "Unknown, the evidence does not tell.",
]
DENIED = [
    "No, it opened in 1902.",
    "No. The evidence says 1902",
    "No\n\nReason: It opened in 1902.",
    "No, there are two mills.",
    "No, the evidence states that it closed.",
    "No, it was never rebuilt.",
    "No, the mill is not mentioned; the bridge opened in 1902.",
    "No, the evidence does not say 1871 but 1902.",
    "No, the evidence contradicts this.",
    "False (it opened in 1902)",
    "No",
]


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        *((text, "unknown") for text in SILENT),
        *((text, "false") for text in DENIED),
        ("True (it opened in 1902)", "true"),
        ("Yes\n\nReason: It opened in 1902.", "true"),
        ("Partly.", None),
        ("Yes and no.", None),
    ],
)
def test_silence_is_no_denial(text: str, truth: str | None):
    """A No whose reason is only that nothing is said is unknown; one with a fact stays No."""
    assert truth == read_truth(ModelReply(text))


@pytest.mark.parametrize("text", SILENT)
def test_silence_never_votes(text: str):
    """Where "no" would support the claim, a silent answer does not."""
    ended = drive(faithful(claimdecomp.METHOD), saying("1. Was it rebuilt? | no", text)).ended
    assert ("Refuted", 0, 1) == (ended.verdict, ended.notes["agreeing"], ended.notes["unknown"])


@pytest.mark.parametrize(
    "text",
    [
        "Unknown, but it opened in 1902.",
        "Nobody",
        "No mill was built.",
        "The Unknown Soldier",
        "zero",
    ],
)
def test_an_answer_that_sounds_like_silence_is_one(text: str):
    """A name, a number or a fact about the world is an answer."""
    assert not says_unknown(text)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        *(
            (text, "sufficient")
            for text in ("Yes.", "Enough.", "Enough? Yes.", "Sufficient", "That is enough.")
        ),
        *(
            (text, "sufficient")
            for text in ("It is enough to say no.", "Sufficient, both are known.")
        ),
        *((text, "no_question") for text in ("Not enough, because the year is still open.",)),
        *((text, "no_question") for text in ("Not enough.", "Insufficient", "This isn't enough.")),
        *(
            (text, "no_question")
            for text in (
                "Not yet.",
                "Enough? No.",
                "Enough to refute? No.",
                "No, it is not enough.",
            )
        ),
    ],
)
def test_whether_it_is_enough_in_other_words(text: str, end: str):
    """Enough is yes, not enough is no; both are read at once."""
    rest = (
        ("It is old.", "Supported") if end == "sufficient" else ("NONE", "It is old.", "Supported")
    )
    ended = drive(faithful(qacheck.METHOD), saying(ASKED, "In 1902.", text, *rest)).ended
    assert (end, 0, 0) == tuple(
        ended.notes[name] for name in ("end", "sufficiency_unread", "asked_again")
    )
