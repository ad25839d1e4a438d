"""A judge's reply in the forms that models give it: read, or asked again, never guessed at."""

import time
from contextlib import suppress

import pytest

from decomposerl.judge.call import CRITERIA
from decomposerl.prompts.judge import read_criteria, read_digit, read_verdict

FIVE = "\n".join(f"{name}:YES" for name in CRITERIA)


def of_each(form: str, separator: str = "\n") -> str:
    """The form for each criterion, in tags."""
    return f"<answer>{separator.join(form.format(name=name) for name in CRITERIA)}</answer>"


DIGITS: dict[str, list[tuple[str, bool]]] = {
    "marks": [
        ("<answer>0</answer>.", False),
        ("It says 1921.\n\n**<answer>1</answer>**", True),
        ("`<answer>0</answer>`", False),
        ("<answer>**1**</answer>", True),
        ('<answer>"0"</answer>', False),
        ("<answer>1.</answer>", True),
        ("<answer>- 1</answer>", True),
        ("<answer>Result: 0</answer>", False),
    ],
    "fence": [
        ("```\n<answer>1</answer>\n```", True),
        ("The bridge is not named.\n```xml\n<answer>0</answer>\n```\n", False),
        ("```text\n<answer>\n1\n</answer>\n```", True),
        ("<answer>\n```\n1\n```\n</answer>", True),
        ("```<answer>0</answer>```", False),
        ("<answer>1</answer>\n```", True),
    ],
    "no tags": [
        ("Torbeck lies on the Osk.\n\nanswer: 1", True),
        ("**Answer:** 0", False),
        ("The year is missing.\n**Result: 0**", False),
        ("Final answer: 1 (stated)", True),
        ("<think>Hm, <answer>0</answer>?</think>\nanswer: 1", True),
        ("The mayor is not named.\nThe answer is 0.", False),
        ("It names the mayor. Answer: 1", True),
        ("Answer:\n1", True),
        ("The mayor is not named.\n<result>0</result>", False),
        ("<Result>\n1\n</Result>", True),
        ("answer: 1\n<result>1</result>", True),
        ("Answer\N{FULLWIDTH COLON} 0", False),
        ("Answer: 1921 is what the document says.\nanswer: 1", True),
    ],
    "remark in the tags": [
        ("<answer>1 (correct)</answer>", True),
        ("<answer>0 - not stated</answer>", False),
        ("<answer>1 — the document names her</answer>", True),
        ("<answer>0: no year is given</answer>", False),
        ("<answer>1, since page 12 names her</answer>", True),
        ("<answer>0 (the correct year is 1921)</answer>", False),
    ],
    "remark behind the tag": [
        ("<answer>1</answer> (correct)", True),
        ("<answer>0</answer>\n\nThe document never gives the year.", False),
        ("<answer>0</answer>\n\n**Explanation:** No mayor is named.", False),
        ("<answer>1</answer> because the bridge opened in 1921.", True),
        ("<answer>1</answer>\n\n---\nLet me know if you need more.", True),
        ("<answer>0</answer>, as said above.", False),
    ],
}


@pytest.mark.parametrize(
    ("reply", "ruling"), [one for rule in DIGITS.values() for one in rule], ids=repr
)
def test_a_digit(reply: str, ruling: bool):  # noqa: FBT001 - the ruling
    """Marks, fences, labels and remarks around a digit change nothing."""
    assert ruling is read_digit(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "<answer>1 (incorrect)</answer>",
        "<answer>0 (correct)</answer>",
        "<answer>1, or 0</answer>",
        "<answer>1, probably</answer>",
        "<answer>0</answer> or 1",
        "<answer>0</answer> Wait, the year is there: 1",
        "<answer>0</answer> Actually the year is there.",
        "<answer>0</answer>\n<answer>1</answer>",
        "<answer>0</answer>\nanswer: 1",
        "<answer>1</answer>\nHowever, the year is missing.",
        "<answer>0</answer>\n<verdict>1</verdict>",
        f"<answer>0</answer>\n{'It goes on. ' * 50}",
        "answer: 0\nThe year is there.\nanswer: 1",
        "answer: maybe 1",
        "answer: 1\nThe mayor is named as well.",
        "answer: yes",
        "The answer is not 1.",
        "<result>1</result>\nThe mayor is named.",
        "<answer>0</answer>\n<result>1</result>",
        "<result>0</result>\n<result>1</result>",
        "answer: 0\n<result>1</result>",
        "<result>1, or 0</result>",
        "Reasons:\n1.",
        "10",
    ],
)
def test_a_digit_that_is_hedged_or_taken_back(reply: str):
    """Two digits, a remark that says the opposite, a label before the end: asked again."""
    with pytest.raises(ValueError, match=r"\w"):
        read_digit(reply)


VERDICTS = [
    ("The second answer is against it.\n<verdict>REFUTED</verdict>", "Refuted"),
    ("<verdict>\nNOT_ENOUGH_INFO\n</verdict>.", "NotEnoughInfo"),
    ("```\n<verdict>SUPPORTED</verdict>\n```", "Supported"),
    ("**Verdict:** both hold.\n\n<verdict>**SUPPORTED**</verdict>", "Supported"),
    ("<verdict>REFUTED</verdict> because the second answer says 1922", "Refuted"),
    ("<think>SUPPORTED?</think><verdict>REFUTED (the year)</verdict>", "Refuted"),
    ("<verdict>REFUTED</verdict>\n<answer>REFUTED</answer>", "Refuted"),
    ("<answer>SUPPORTED.</answer>", "Supported"),
    ("<answer>REFUTED (the second answer contradicts it)</answer>", "Refuted"),
    ("<answer>NOT_ENOUGH_INFO (neither SUPPORTED nor REFUTED)</answer>", "NotEnoughInfo"),
    ("<answer>SUPPORTED</answer> None of the answers contradicts it.", "Supported"),
    ("<answer>Verdict: REFUTED</answer>", "Refuted"),
    ("<answer>NOT ENOUGH INFO, the mayor is open</answer>", "NotEnoughInfo"),
    ("<answer>Insufficient information.</answer>", "NotEnoughInfo"),
    ("The mayor is open.\nVerdict: NOT_ENOUGH_INFO", "NotEnoughInfo"),
    ("**Verdict:** `SUPPORTED`", "Supported"),
    ("The second answer names another river.\n**REFUTED**", "Refuted"),
    ("So the verdict is: **REFUTED**", "Refuted"),
    ("Overall: SUPPORTED.", "Supported"),
    ("Both hold. The verdict is SUPPORTED.", "Supported"),
]


@pytest.mark.parametrize(("reply", "ruling"), VERDICTS, ids=repr)
def test_a_verdict(reply: str, ruling: str):
    """In our tag, in the paper's, on a last line with its label, with a remark."""
    assert ruling == read_verdict(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "<answer>SUPPORTED (mostly)</answer>",
        "<answer>SUPPORTED, but the year is open</answer>",
        "<answer>SUPPORTED (not supported by the second answer)</answer>",
        "<answer>REFUTED (not refuted by the first answer)</answer>",
        "<answer>REFUTED</answer>\nThe claim is supported.",
        "<answer>NOT_ENOUGH_INFO</answer>\nVerdict: SUPPORTED",
        "<answer>SUPPORTED</answer>\n<verdict>REFUTED</verdict>",
        "<answer>SUPPORTED / REFUTED</answer>",
        "Verdict: SUPPORTED\nVerdict: REFUTED",
        "Verdict: SUPPORTED\nThe mayor is named.",
        "The verdict is not REFUTED.",
        "It is SUPPORTED or REFUTED.",
    ],
)
def test_a_verdict_that_is_hedged_or_taken_back(reply: str):
    """Two verdicts, half a verdict, a remark that states another one: asked again."""
    with pytest.raises(ValueError, match=r"\w"):
        read_verdict(reply)


ALL = (True,) * 5
CHECKLISTS = [
    (of_each("{name}:YES", ", "), ALL),
    (of_each("{name}: YES", "; "), ALL),
    (of_each("{name}:YES", " "), ALL),
    (of_each("- **{name}**: YES"), ALL),
    (of_each("* `{name}`: NO"), (False,) * 5),
    (of_each("**{name}:** Yes"), ALL),
    (of_each("1. {name} - Yes"), ALL),
    (of_each("| {name} | YES | it holds |"), ALL),
    (of_each("{name}: NO (open-ended)"), (False,) * 5),
    (of_each("{name}: YES, it asks for a year"), ALL),
    (of_each("{name}: NO because it asks for two"), (False,) * 5),
    (of_each('{name}: NO ("and" ties two)'), (False,) * 5),
    (of_each("{name}:YES\nIt names Torbeck."), ALL),
    (of_each('"{name}": true', ",\n"), ALL),
    (of_each("{name}:YES") + "\nAll five are met.", ALL),
    (of_each("{name}:YES") + ".", ALL),
    (f"```\n{of_each('{name}:YES')}\n```", ALL),
    (f"The question names Torbeck.\n\n{FIVE}", ALL),
    (f"```\n{FIVE}\n```", ALL),
    (
        f"- **is_question**: It asks for a year.\n\n{FIVE.replace('grounded:YES', 'grounded:NO')}",
        None,
    ),
    (FIVE.replace("is_question:YES", "Is question: no (a remark)"), None),
    (FIVE.replace("\n", ", "), ALL),
]


@pytest.mark.parametrize(("reply", "ruling"), CHECKLISTS, ids=repr)
def test_a_checklist(reply: str, ruling: tuple[bool, ...] | None):
    """One line or five, with marks, numbers, reasons or bold names, in tags or at the end."""
    if ruling is None:  # all but one
        assert 4 == sum(read_criteria(reply))
    else:
        assert ruling == read_criteria(reply)


@pytest.mark.parametrize(
    "reply",
    [
        of_each("{name}:YES or NO"),
        of_each("{name}: YES, partly: NO"),
        of_each("{name}: mostly YES"),
        of_each("{name}:YES") + "\ngrounded: NO",
        of_each("{name}:YES") + of_each("{name}:NO"),
        of_each("{name}:YES") + "\nWait, it asks for two.",
        f"{FIVE}\nAll are met.",
        f"grounded: NO\n{FIVE}",
        FIVE.replace("grounded:YES", ""),
        "All five: YES",
    ],
)
def test_a_checklist_that_is_hedged_or_incomplete(reply: str):
    """A word missing, doubled or taken back: asked again."""
    with pytest.raises(ValueError, match=r"\w"):
        read_criteria(reply)


def test_time_grows_with_the_reply_and_no_faster():
    """Hostile repetitions of what the patterns skip."""
    started = time.perf_counter()
    for unit in (
        "<answer>",
        "<answer>1</answer>",
        " ",
        "*",
        "- ",
        "answer: 1 ",
        "<result> ",
        "<result>a",
        "\\<",
        "is_question: ",
        "(",
    ):
        for text in (
            unit * 20_000,
            f"<answer>1{unit * 20_000}x</answer>",
            f"answer: {unit * 20_000}x",
        ):
            for read in (read_digit, read_verdict, read_criteria):
                with suppress(ValueError):
                    read(f"{text}?")
    assert time.perf_counter() - started < 20
