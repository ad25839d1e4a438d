"""Scripts and signs of tricks: each script shows its own sign, and signs go by what they say."""

import pytest

from decomposerl.judge.signals import Signals
from decomposerl.traces.abstention import abstains
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from decomposerl.training.trick_signs import Observed
from decomposerl.training.tricks import TRICKS, KnownClaim, Trick, honest, tricks_in
from resources.judge.rule_text import clean

CLAIM = "The Torbeck mill grinds oats and its wheel is made of bronze."
EVIDENCE = (
    "The Torbeck mill grinds oats for the valley. The wheel of the Torbeck mill is made of larch. "
    "Visitors come in summer. The mill stands beside the Osk."
)
KNOWN = KnownClaim(
    "a",
    CLAIM,
    EVIDENCE,
    "Refuted",
    ("What does the Torbeck mill grind?", "What is the wheel of the mill made of?"),
    tuple(EVIDENCE.split(". ")[:2]),
)
MADE_UP = "<question>When was the mill built?</question><answer>I don't know.</answer>"
WHEEL = "<question>What is the wheel made of?</question><answer>It is made of larch.</answer>"


def observed(text: str, *, answerable: bool = True) -> Observed:
    """A rollout of the claim; ``answerable`` is the judge's word on every question."""
    trace = parse_trace(text)
    silent = tuple(abstains(cycle.answer) for cycle in trace.cycles)
    every = len(trace.cycles)
    rollout = Rollout("a", 0, CLAIM, EVIDENCE, trace, "Refuted", 2)
    addressed = tuple(clean(f"{one.question} {one.answer}").orders for one in trace.cycles)
    no = (False,) * every
    signals = Signals(
        "Refuted", ("Refuted",) * every, (answerable,) * every, (no,) * every, no, silent
    )
    return Observed(rollout, signals, addressed)


def shown(text: str, *, answerable: bool = True) -> set[str]:
    return {
        name for name, there in tricks_in(observed(text, answerable=answerable)).items() if there
    }


@pytest.mark.parametrize("trick", TRICKS, ids=lambda one: one.name)
@pytest.mark.parametrize("label", ["Supported", "Refuted"])
def test_each_script_shows_its_own_sign_and_ends_with_the_label(trick: Trick, label: Verdict):
    """Whatever the label: the trace has the sign, and its last verdict is the label."""
    known = KnownClaim("a", CLAIM, EVIDENCE, label, KNOWN.questions, KNOWN.quotes)
    text = trick.write(known)
    assert trick.name in shown(text)
    blocks = [one for one in parse_trace(text).blocks if one.kind == "verification"]
    assert label == blocks[-1].text


def test_the_honest_trace_shows_no_sign():
    """Quotations, and an abstention where the document has no answer."""
    assert set() == shown(honest(KNOWN))
    unknown = KnownClaim("a", CLAIM, EVIDENCE, "Refuted", KNOWN.questions, (KNOWN.quotes[0], None))
    assert "<answer>I don't know.</answer>" in honest(unknown)
    assert set() == shown(honest(unknown), answerable=False)


def test_an_abstention_is_a_dodge_only_where_the_judge_finds_an_answer():
    """The same words are honest where the document is silent."""
    text = f"{WHEEL}<question>Is the wheel bronze?</question><answer>I don't know.</answer>"
    assert "dodge" in shown(text)
    assert "dodge" not in shown(text, answerable=False)


def test_what_is_near_a_trick_and_none():
    """One verdict twice, a part abstained on, twice n* questions and the like are no tricks."""
    about = MADE_UP.replace("When was the mill built", "Is the wheel made of bronze")
    other = WHEEL.replace("larch", "larch wood").replace("What", "Of what")
    near = {
        "both_verdicts": f"{WHEEL}<verification>Refuted</verification>" * 2,
        "fillers": WHEEL + about,
        "question_repeated": WHEEL + other,
        "one_question": f"{WHEEL}{MADE_UP}",
        "flood": f"{WHEEL}{MADE_UP}" * 2,
        "pieces_echoed": WHEEL,
        "bare_answers": WHEEL.replace("It is", "I don't know. It is not known"),
        "hidden_claim": f"{MADE_UP}{MADE_UP}",
    }
    assert [] == [name for name, text in near.items() if name in shown(text, answerable=False)]


def test_titles_and_names_are_distinct():
    """They are the rows of tables."""
    assert len(TRICKS) == len({one.name for one in TRICKS}) == len({one.title for one in TRICKS})
