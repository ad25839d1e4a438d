"""Every branch of the formulas by hand; verdicts stand by their initials."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from decomposerl.judge.plan import Signals
from decomposerl.rewards.coverage import coverage, pseudo_label
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import CONDITIONS, conditions_met, format_reward
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.question_count import question_count
from decomposerl.rewards.quotes import quotes
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import PRINTED, RewardSettings
from decomposerl.rewards.verification import verification
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle, Verdict
from reward_parts import (
    ALL_MET,
    NEI,
    PLAIN,
    R,
    S,
    case,
    cycles,
    rollout,
    signals,
    states,
    unit,
    values,
)

THINK, WHO, WHEN = "<think>a</think>", "<question>Who?</question>", "<question>When?</question>"
ONE, TWO = f"{WHO}<answer>Ilva.</answer>", f"{WHEN}<answer>1921.</answer>"
END = "<verification>Supported</verification>"
GOOD = f"{THINK}{ONE}{THINK}{TWO}{THINK}{END}"
OPENS, ASKS, ANSWERED, THOUGHT, PAIRS, VERDICT, LABEL, TAGS = (name for name, _ in CONDITIONS)


FORMATS: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), GOOD),
    ((), GOOD.replace("Supported", " refuted\n")),
    ((), THINK + GOOD),
    ((OPENS,), GOOD.removeprefix(THINK)),
    ((ASKS,), GOOD.replace("When?", "Who?")),
    ((ANSWERED,), GOOD.replace(END, f"<question>Why?</question>{THINK}{END}")),
    ((ANSWERED,), GOOD.replace(END, f"<answer>No.</answer>{THINK}{END}")),
    ((THOUGHT,), f"{THINK}{ONE}{TWO}{THINK}{END}"),
    ((THOUGHT,), f"{THINK}{ONE}{THINK}{TWO}{END}"),
    ((PAIRS,), f"{THINK}{ONE}{THINK}{END}"),
    ((VERDICT,), GOOD + END),
    ((VERDICT,), GOOD + THINK),
    ((LABEL,), GOOD.replace("Supported", "Mostly Supported")),
    ((LABEL,), GOOD.replace("Supported", "NotEnoughInfo")),
    ((TAGS,), f"Sure: {GOOD}"),
    ((TAGS,), f"{GOOD} Done."),
    ((TAGS,), f"{GOOD}</answer>"),
    ((TAGS,), GOOD.replace("1921.", "1921. <Think>")),
    ((TAGS,), GOOD.replace(f"{THINK}{ONE}", f"<think>a{ONE}")),
    ((TAGS,), f"{THINK}<think> </think>" + GOOD.removeprefix(THINK)),
    ((OPENS, TAGS), "<think></think>" + GOOD.removeprefix(THINK)),
    ((VERDICT, LABEL), GOOD.removesuffix(END)),
    ((VERDICT, LABEL), GOOD + END.replace("Supported", "Refuted")),
    ((VERDICT, LABEL, TAGS), GOOD.removesuffix("</verification>")),
    ((ANSWERED, PAIRS, VERDICT, LABEL), f"{THINK}{ONE}{THINK}{WHEN}"),
    ((ASKS, ANSWERED, THOUGHT, PAIRS), THINK + END),
    (tuple(name for name, _ in CONDITIONS), "The claim is supported."),
    (tuple(name for name, _ in CONDITIONS), ""),
)


def formats(text: str, settings: RewardSettings) -> list[float | None]:
    """The format reward of a text."""
    asking = RewardCase(Rollout("g", 0, "c", "e", parse_trace(text)), signals(0))
    return values(format_reward([asking], settings))


def test_format_conditions():
    """Each condition falls alone, those that hang together fall together; each is an eighth."""
    for broken, text in FORMATS:
        expected = tuple(name for name, _ in CONDITIONS if name not in broken)
        assert expected == conditions_met(parse_trace(text)), text
        assert [(8 - len(broken)) / 8] == formats(text, PLAIN)


PRINTED_FORMATS = (
    (3, GOOD),
    (3, GOOD.removeprefix(THINK)),  # nothing is said of thoughts, nor of text outside the tags
    (3, f"Sure: {THINK}{ONE}{END}"),
    (2, GOOD.replace("Supported", "Mostly Supported")),
    (2, GOOD + END.replace("Supported", "Refuted")),
    (2, GOOD.replace(END, f"{WHEN}{END}")),
    (2, GOOD.replace("1921.", "1921. <Think>")),
    (2, THINK + END),
    (1, GOOD.removesuffix(END) + "</answer>"),
    (0, "The claim is supported."),
)


def test_the_printed_format():
    """A third each for well-formed XML, questions and answers in turn, a valid final verdict."""
    for met, text in PRINTED_FORMATS:
        assert [met / 3] == formats(text, PRINTED), text


def test_the_printed_diversity():
    """-(1/1) * an empty sum is 0 for one question; -cos/2 for two; without one there is no sum."""
    cases = [
        RewardCase(rollout(0), signals(0)),
        RewardCase(rollout(1), signals(1), unit((1, 0))),
        RewardCase(rollout(2), signals(2), unit(*SIXTY)),
    ]
    assert pytest.approx([-1, 0, -1 / 4]) == values(diversity(cases, PRINTED))


QUOTED = (
    ('The page says "the mill was built in 1857 by Ada Moss".', 1),
    ("The mill was built in 1857 by Ada Moss. So it is old.", 1),
    ('In 1858 "the mill was built in 1857 by Ada Moss".', 0),  # another figure
    ('Ada Moss of Turin: "it was sold in the spring".', 0),  # names of another sentence
    ("Ada Moss built the mill in 1857.", 0),  # in other words
    ("I don't know.", None),
)


def test_quotes():
    """The share of answers that quote a sentence with all of their figures and names."""
    evidence = "The mill was built in 1857 by Ada Moss. It was sold in the spring."
    parts = [Cycle("When was the mill built?", answer, "On.") for answer, _ in QUOTED]
    for number, (_, expected) in enumerate(QUOTED):
        asking = replace(rollout(parts[number : number + 1]), evidence=evidence)
        (found,) = quotes([RewardCase(asking, signals(1))], PLAIN)
        assert (expected, expected or 0.0) == (found.questions[0].value, found.value)
    whole = RewardCase(replace(rollout(parts), evidence=evidence), signals(6))
    assert [2 / 5] == values(quotes([whole], PLAIN))
    assert [0.0] == values(quotes([replace(whole, too_long=True)], PLAIN))


def test_verification():
    """The label or not; no verdict misses, and without a label nothing is there to reach.

    Who says both has said neither.
    """
    for drawn, expected in rows_of("SS 1, RR 1, SR 0, RS 0, -R 0, S- -, -- -"):
        verdict, label = verdicts(drawn)
        result = RewardResult(number(expected), "scored" if label else "absent")
        assert [result] == verification([case(verdict=verdict, label=label)], PLAIN), drawn
    trace = parse_trace(GOOD + END.replace("Supported", "Refuted"))
    both = [Rollout("g", 0, "c", "e", trace, label) for label in (S, R)]
    assert [0.0, 0.0] == values(verification([RewardCase(r, signals(2)) for r in both], PLAIN))


def test_question_count_kernel():
    """The triangle: 0 at n = 0, 1 at n*, 0 from 2 n* on.

    Where the claim has no n* the reward is absent; an n* of 0 is refused.
    """
    table = (
        "0 2 0, 1 2 1/2, 2 2 1, 3 2 1/2, 4 2 0, 5 2 0, 1 3 1/3, 4 3 2/3, 5 3 1/3, 1 1 1, 2 1 0, "
        "41 20 0, 19 20 19/20"
    )
    for drawn, wanted, expected in rows_of(table):
        asking = rollout(int(drawn), n_star=int(wanted))
        (found,) = question_count([RewardCase(asking, signals(int(drawn)))], PLAIN)
        assert pytest.approx(number(expected)) == found.value, (drawn, wanted)
    absent = RewardCase(rollout(2, n_star=None), signals(2))
    assert [RewardResult(None, "absent")] == question_count([absent], PLAIN)
    with pytest.raises(ValueError, match="n\\* is 0"):
        question_count([RewardCase(rollout(2, n_star=0), signals(2))], PLAIN)


SIXTY = ((1, 0), (0.5, 3**0.5 / 2))
THIRDS = ((1, 0), (-0.5, 3**0.5 / 2), (-0.5, -(3**0.5) / 2))


DIVERSITIES: tuple[tuple[float, list[float], tuple[tuple[float, float], ...]], ...] = (
    (0.0, [0, 0], ((1, 0), (0, 1))),
    (-1 / 2, [0, -1], ((1, 0), (1, 0))),
    (1 / 2, [0, 1], ((1, 0), (-1, 0))),
    (-1 / 4, [0, -0.5], SIXTY),
    (-2 / 3, [0, -1, -1], ((1, 0), (1, 0), (1, 0))),
    (-1 / 3, [0, 0, -1], ((1, 0), (0, 1), (1, 0))),
    (-1.4 / 3, [0, -0.6, -0.8], ((1, 0), (0.6, 0.8), (0, 1))),
    (-0.96 / 3, [0, 0, -0.96], ((1, 0), (0, 1), (0.28, 0.96))),
    (1 / 3, [0, 0.5, 0.5], THIRDS),
    (-3 / 4, [0, -1, -1, -1], ((0, 1),) * 4),
)


def test_diversity_by_hand():
    """Each question from the second on pays its cosine to the nearest earlier one, over n.

    Read literally a single question would score 0, the best; it scores -1.
    """
    for expected, nearest, rows in DIVERSITIES:
        asking = RewardCase(rollout(len(rows)), signals(len(rows)), unit(*rows))
        (found,) = diversity([asking], PLAIN)
        assert pytest.approx(expected, abs=1e-6) == found.value
        assert pytest.approx(nearest, abs=1e-6) == [one.value for one in found.questions]
        assert ["first", *["compared"] * (len(rows) - 1)] == states(found)
    alone = [RewardCase(rollout(0), signals(0)), RewardCase(rollout(1), signals(1), unit((1, 0)))]
    assert [-1.0, -1.0] == values(diversity(alone, PLAIN))
    assert [[], ["alone"]] == [states(score) for score in diversity(alone, PLAIN)]


def test_vectors_that_are_not_as_they_should_be():
    """A rounding error gives no cosine above 1, right angles a plain 0; all else is refused.

    Vectors that are not one a question, and numbers that are none, are a fault of the caller.
    """
    long = np.full((2, 2), np.float32(1.00001))
    assert [-0.5] == values(diversity([RewardCase(rollout(2), signals(2), long)], PLAIN))
    (apart,) = diversity([RewardCase(rollout(2), signals(2), unit((1, 0), (0, 1)))], PLAIN)
    assert "0.0 0.0" == f"{apart.value} {apart.questions[1].value}"
    broken = [np.array([[1.0, 0.0], [odd, 0.0]], dtype=np.float32) for odd in (np.nan, np.inf)]
    for vectors in (None, unit((1, 0)), unit((1, 0), (0, 1), (1, 1)), *broken):
        with pytest.raises(ValueError, match=r"2 question vectors|not finite"):
            diversity([RewardCase(rollout(2), signals(2), vectors)], PLAIN)


LITERAL = RewardSettings(abstention="literal")
POLICY, MEAN = RewardSettings(votes="policy"), RewardSettings(necessity="mean")
OF = {"S": S, "R": R, "N": NEI, "-": None}


def verdicts(letters: str) -> list[Any]:
    """Verdicts by their initials; a dash is none."""
    return [OF[letter] for letter in letters.strip("=")]


def number(text: str) -> float | None:
    """A number or fraction; a dash is none."""
    return None if text == "-" else float(Fraction(text))


def rows_of(table: str) -> list[list[str]]:
    """The rows of a table, parted by commas."""
    return [row.split() for row in table.split(",")]


def test_coverage_with_a_label():
    """The judge's verdict or not; too little information is no label, a failure is no score.

    With a label the trace's own verdict and the siblings play no part.
    """
    for ruled, expected in rows_of("SS 1, RR 1, RS 0, SR 0, NS 0, NR 0, -S -"):
        full, label = verdicts(ruled)
        (found,) = coverage([case(full, label=label)], PLAIN)
        assert RewardResult(number(expected), "failed" if full is None else "scored") == found
    wrong = case(S, verdict=R, label=S)
    assert [1.0, 0.0, 0.0] == values(coverage([wrong, case(R), case(R)], PLAIN))


def test_coverage_without_a_label():
    """The group's majority among the two labels stands in; ties and no votes pay nobody.

    Rollouts that were cut (small letters) turn no majority and make no tie; they are scored by it.
    """
    table = (
        "S SSR 110, R SRR 011, S SNNN 1000, R NR- 01-, - SR 00, - SRNSR 00000, - NN 00, "
        "- S-R 0-0, - - -, S S 1, S rrS 001, - RSs 000, - rr 00"
    )
    for majority, full, expected in rows_of(table):
        cases = [
            case(ruled, label=None, truncated=letter.islower())
            for ruled, letter in zip(verdicts(full.upper()), full, strict=True)
        ]
        assert verdicts(majority) == [pseudo_label(cases, PLAIN)], full
        assert [number(one) for one in expected] == values(coverage(cases, PLAIN)), full


def test_whose_verdicts_vote():
    """The judge's or, by the setting, the policy's; compared is always the judge's verdict."""
    drawn = [(full, said) for full, said in map(verdicts, ("SR", "SR", "RR", "N-"))]
    cases = [case(full, verdict=said, label=None) for full, said in drawn]
    cases.append(case(R, verdict=S, label=None, truncated=True))
    assert (S, R) == (pseudo_label(cases, PLAIN), pseudo_label(cases, POLICY))
    assert [1, 1, 0, 0, 0] == values(coverage(cases, PLAIN))
    assert [0, 0, 1, 0, 1] == values(coverage(cases, POLICY))


def test_necessity_table():
    """Right or wrong with and without the answer; another verdict than the label is wrong."""
    swapped = {S: R, R: S, NEI: NEI}
    table = (
        "SR 1 necessary, SN 1 necessary, SS 1/2 redundant, RR 0 neutral, RN 0 neutral, "
        "NR 0 neutral, NN 0 neutral, RS -1 harmful, NS -1 harmful"
    )
    for ruled, expected, state in rows_of(table):
        full, without = verdicts(ruled)
        (found,) = necessity([case(full, [without, without])], PLAIN)
        every = [found.value, *(one.value for one in found.questions)]
        assert ([number(expected)] * 3, [state] * 2) == (every, states(found)), ruled
        mirrored = case(swapped[full], [swapped[without]] * 2, label=R)
        assert [found] == necessity([mirrored], PLAIN)


def test_necessity_of_a_trace():
    """The minimum over questions, or the mean; one question alone is needed if it is right.

    Without a label 1 where the verdict changes, whatever it was, else 0.
    """
    labelled = (
        "S =NRN 1 1, S =NSR 1/2 5/6, S =SS 1/2 1/2, R =NSR -1 -1/3, N =SS -1 -1, N =NR 0 0, "
        "S =N 1 1, R =N 0 0, N = 0 0"
    )
    unlabelled = "S =NR 1 1, S =NS 0 1/2, N =SN 0 1/2, R =R 0 0, R =N 1 1, N = 0 0"
    for table, label in ((labelled, S), (unlabelled, None)):
        for initial, letters, least, mean in rows_of(table):
            full, without = OF[initial], verdicts(letters)
            trace = [case(full, without, label=label)]
            (found,) = necessity(trace, PLAIN)
            assert number(least) == found.value, (initial, letters)
            assert pytest.approx([number(mean)]) == values(necessity(trace, MEAN))
            turned = ["unchanged" if one == full else "changed" for one in without]
            assert label or turned == states(found)


@pytest.mark.parametrize("label", [S, None])
@pytest.mark.parametrize("settings", [PLAIN, MEAN])
def test_necessity_without_a_ruling(label: Verdict | None, settings: RewardSettings):
    """One lost verdict leaves the trace null; the other questions keep what they are."""
    (one,) = necessity([case(S, [NEI, None, NEI], label=label)], settings)
    assert (None, "failed") == (one.value, one.state)
    kept = "necessary" if label else "changed"
    assert [kept, "failed", kept] == states(one)
    (every,) = necessity([case(None, [S, R], label=label)], settings)
    assert (None, "failed", ["failed"] * 2) == (every.value, every.state, states(every))


Rulings = tuple[bool | None, tuple[bool, ...] | None, bool | None, bool]
FOUR_OF_5, NONE_MET = (True, True, True, False, True), (False,) * 5


def asked(*rulings: Rulings) -> RewardCase:
    """A case whose questions have these: answerable, atomic, correct, abstained."""
    parts = [tuple(part) for part in zip(*rulings, strict=True)] or [()] * 4
    ruled = Signals(NEI, (NEI,) * len(rulings), *parts)
    return RewardCase(rollout(cycles(len(rulings))), ruled)


def test_joint_of_a_question():
    """The product of the three; of an abstention (a) nobody rules whether it is correct.

    Honest: what cannot be answered pays. Literal: what can be pays.
    """
    table = (
        "1 5 1 1 1, 1 4 1 4/5 4/5, 1 0 1 0 0, 0 5 1 0 0, 1 5 0 0 0, 0 0 0 0 0, "
        "0 5 a 1 0, 0 4 a 4/5 0, 0 0 a 0 0, 1 5 a 0 1, 1 4 a 0 4/5, 1 0 a 0 0"
    )
    for answerable, met, correct, *expected in rows_of(table):
        silent, criteria = correct == "a", (*ALL_MET[: int(met)], *NONE_MET[int(met) :])
        right = None if silent else correct == "1"
        one = asked((answerable == "1", criteria, right, silent))
        for settings, value in zip((PLAIN, LITERAL), expected, strict=True):
            (found,) = joint([one], settings)
            assert number(value) == found.value, (answerable, met, correct)
            assert ["abstained" if silent else "answered"] == states(found)


def test_joint_of_a_trace():
    """The mean over the questions, answered or not; no question scores 0."""
    good, partly = (True, ALL_MET, True, False), (True, FOUR_OF_5, True, False)
    wrong, silent = (True, ALL_MET, False, False), (False, ALL_MET, None, True)
    cases = [asked(good, partly, wrong, silent), asked(good, wrong), asked()]
    assert pytest.approx([2.8 / 4, 0.5, 0.0]) == values(joint(cases, PLAIN))


def test_joint_without_a_ruling():
    """A lost ruling leaves the trace null, also where another factor is 0 already."""
    losses: tuple[Rulings, ...] = (
        (None, ALL_MET, True, False),
        (True, None, True, False),
        (True, ALL_MET, None, False),
        (None, ALL_MET, None, True),
        (False, None, None, True),
        (False, None, False, False),
    )
    for lost in losses:
        (found,) = joint([asked((True, ALL_MET, True, False), lost)], PLAIN)
        assert (None, "failed", ["answered", "failed"]) == (found.value, found.state, states(found))
