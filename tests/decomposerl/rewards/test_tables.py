"""Every branch of the formulas that need no judge, by hand; the judged ones have their file."""

import numpy as np
import pytest

from decomposerl.judge.call import AnswersVerdict
from decomposerl.judge.signals import Signals
from decomposerl.rewards.coverage import coverage
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import CONDITIONS, conditions_met, format_reward
from decomposerl.rewards.joint import joint
from decomposerl.rewards.necessity import necessity
from decomposerl.rewards.question_count import question_count
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.verification import verification
from decomposerl.rewards.votes import pseudo_label
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
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


@pytest.mark.parametrize(
    ("broken", "text"),
    [
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
    ],
)
def test_format_conditions(broken: tuple[str, ...], text: str):
    """Each condition falls alone, those that hang together fall together; each is an eighth."""
    trace = parse_trace(text)
    expected = tuple(name for name, _ in CONDITIONS if name not in broken)
    assert expected == conditions_met(trace)
    scored = format_reward([RewardCase(Rollout("g", 0, "c", "e", trace), signals(0))], PLAIN)
    assert [RewardResult((8 - len(broken)) / 8)] == scored


@pytest.mark.parametrize(
    ("expected", "verdict", "label"),
    [
        (RewardResult(1.0), S, S),
        (RewardResult(1.0), R, R),
        (RewardResult(0.0), S, R),
        (RewardResult(0.0), R, S),
        (RewardResult(0.0), None, R),
        (RewardResult(None, "absent"), S, None),
        (RewardResult(None, "absent"), None, None),
    ],
)
def test_verification(expected: RewardResult, verdict: Verdict | None, label: Verdict | None):
    """The label or not; no verdict misses, and without a label nothing is there to reach."""
    assert [expected] == verification([case(verdict=verdict, label=label)], PLAIN)


def test_two_different_verdicts_reach_no_label():
    """Who says both has said neither."""
    trace = parse_trace(GOOD + END.replace("Supported", "Refuted"))
    both = [Rollout("g", 0, "c", "e", trace, label) for label in (S, R)]
    assert [0.0, 0.0] == values(verification([RewardCase(r, signals(2)) for r in both], PLAIN))


@pytest.mark.parametrize(
    ("expected", "asked", "wanted"),
    [
        (0.0, 0, 2),
        (0.5, 1, 2),
        (1.0, 2, 2),
        (0.5, 3, 2),
        (0.0, 4, 2),
        (0.0, 5, 2),
        (1 / 3, 1, 3),
        (2 / 3, 4, 3),
        (1 / 3, 5, 3),
        (1.0, 1, 1),
        (0.0, 2, 1),
        (0.0, 41, 20),
        (0.95, 19, 20),
    ],
)
def test_question_count_kernel(expected: float, asked: int, wanted: int):
    """The triangle: 0 at n = 0, 1 at n*, 0 from 2 n* on."""
    (found,) = question_count([RewardCase(rollout(asked, n_star=wanted), signals(asked))], PLAIN)
    assert pytest.approx(expected) == found.value


def test_question_count_without_n_star():
    """Where the claim has no n* the reward is absent; an n* of 0 is refused."""
    absent = RewardCase(rollout(2, n_star=None), signals(2))
    assert [RewardResult(None, "absent")] == question_count([absent], PLAIN)
    with pytest.raises(ValueError, match="n\\* is 0"):
        question_count([RewardCase(rollout(2, n_star=0), signals(2))], PLAIN)


SIXTY = ((1, 0), (0.5, 3**0.5 / 2))
THIRDS = ((1, 0), (-0.5, 3**0.5 / 2), (-0.5, -(3**0.5) / 2))


@pytest.mark.parametrize(
    ("expected", "nearest", "rows"),
    [
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
    ],
)
def test_diversity_by_hand(
    expected: float, nearest: list[float], rows: tuple[tuple[float, float], ...]
):
    """Each question from the second on pays its cosine to the nearest earlier one, over n."""
    (found,) = diversity([RewardCase(rollout(len(rows)), signals(len(rows)), unit(*rows))], PLAIN)
    assert pytest.approx(expected, abs=1e-6) == found.value
    assert pytest.approx(nearest, abs=1e-6) == [one.value for one in found.questions]
    assert ["first", *["compared"] * (len(rows) - 1)] == states(found)


def test_diversity_of_one_question_or_none_is_the_worst():
    """Read literally a single question would score 0, the best; it scores -1."""
    alone = [RewardCase(rollout(0), signals(0)), RewardCase(rollout(1), signals(1), unit((1, 0)))]
    assert [-1.0, -1.0] == values(diversity(alone, PLAIN))
    assert [[], ["alone"]] == [states(score) for score in diversity(alone, PLAIN)]


def test_diversity_is_bounded_and_never_minus_zero():
    """Vectors a rounding error too long give no cosine above 1; right angles give a plain 0."""
    long = np.full((2, 2), np.float32(1.00001))
    assert [-0.5] == values(diversity([RewardCase(rollout(2), signals(2), long)], PLAIN))
    (apart,) = diversity([RewardCase(rollout(2), signals(2), unit((1, 0), (0, 1)))], PLAIN)
    assert "0.0 0.0" == f"{apart.value} {apart.questions[1].value}"


@pytest.mark.parametrize("vectors", [None, unit((1, 0)), unit((1, 0), (0, 1), (1, 1))])
def test_diversity_without_a_vector_a_question(vectors: np.ndarray | None):
    """Vectors that are not one a question are a fault of the caller, not a score."""
    with pytest.raises(ValueError, match="diversity needs 2 question vectors"):
        diversity([RewardCase(rollout(2), signals(2), vectors)], PLAIN)


LITERAL, STRICT = RewardSettings(abstention="literal"), RewardSettings(atomicity="strict")
POLICY, MEAN = RewardSettings(votes="policy"), RewardSettings(necessity="mean")


@pytest.mark.parametrize(
    ("expected", "full", "label"),
    [
        (1.0, S, S),
        (1.0, R, R),
        (0.0, R, S),
        (0.0, S, R),
        (0.0, NEI, S),
        (0.0, NEI, R),
        (None, None, S),
    ],
)
def test_coverage_with_a_label(
    expected: float | None, full: AnswersVerdict | None, label: Verdict | None
):
    """The judge's verdict or not; too little information is no label, a failure is no score."""
    (found,) = coverage([case(full, label=label)], PLAIN)
    assert RewardResult(expected, "scored" if expected is not None else "failed") == found


def test_coverage_looks_at_the_answers_and_not_at_the_verdict():
    """With a label the trace's own verdict and the siblings play no part."""
    wrong = case(S, verdict=R, label=S)
    assert [1.0, 0.0, 0.0] == values(coverage([wrong, case(R), case(R)], PLAIN))


Votes = list[AnswersVerdict | None]


@pytest.mark.parametrize(
    ("majority", "expected", "full"),
    [
        (S, [1, 1, 0], [S, S, R]),
        (R, [0, 1, 1], [S, R, R]),
        (S, [1, 0, 0, 0], [S, NEI, NEI, NEI]),
        (R, [0, 1, None], [NEI, R, None]),
        (None, [0, 0], [S, R]),
        (None, [0, 0, 0, 0, 0], [S, R, NEI, S, R]),
        (None, [0, 0], [NEI, NEI]),
        (None, [0, None, 0], [S, None, R]),
        (None, [None], [None]),
        (S, [1], [S]),
    ],
)
def test_coverage_without_a_label(
    majority: Verdict | None, expected: list[float | None], full: Votes
):
    """The group's majority among the two labels stands in; ties and no votes pay nobody."""
    cases = [case(one, label=None) for one in full]
    assert majority == pseudo_label(cases, PLAIN)
    assert expected == values(coverage(cases, PLAIN))


def test_truncated_rollouts_do_not_vote():
    """Cut rollouts turn no majority and make no tie, yet are scored by it."""
    cut = [case(R, label=None, truncated=True), case(R, label=None, truncated=True)]
    assert [0.0, 0.0, 1.0] == values(coverage([*cut, case(S, label=None)], PLAIN))
    one_each = [case(R, label=None), case(S, label=None), case(S, label=None, truncated=True)]
    assert [0.0, 0.0, 0.0] == values(coverage(one_each, PLAIN))
    assert pseudo_label(cut, PLAIN) is None


def test_whose_verdicts_vote():
    """The judge's or, by the setting, the policy's; compared is always the judge's verdict."""
    cases = [
        case(S, verdict=R, label=None),
        case(S, verdict=R, label=None),
        case(R, verdict=R, label=None),
        case(NEI, verdict=None, label=None),
        case(R, verdict=S, label=None, truncated=True),
    ]
    assert (S, R) == (pseudo_label(cases, PLAIN), pseudo_label(cases, POLICY))
    assert [1, 1, 0, 0, 0] == values(coverage(cases, PLAIN))
    assert [0, 0, 1, 0, 1] == values(coverage(cases, POLICY))


@pytest.mark.parametrize(
    ("value", "state", "full", "without"),
    [
        (1.0, "necessary", S, R),
        (1.0, "necessary", S, NEI),
        (0.5, "redundant", S, S),
        (0.0, "neutral", R, R),
        (0.0, "neutral", R, NEI),
        (0.0, "neutral", NEI, R),
        (0.0, "neutral", NEI, NEI),
        (-1.0, "harmful", R, S),
        (-1.0, "harmful", NEI, S),
    ],
)
def test_necessity_table(value: float, state: str, full: AnswersVerdict, without: AnswersVerdict):
    """Right or wrong with and without the answer; another verdict than the label is wrong."""
    (found,) = necessity([case(full, [without, without])], PLAIN)
    assert (value, [value] * 2) == (found.value, [one.value for one in found.questions])
    assert [state] * 2 == states(found)
    swapped = {S: R, R: S, NEI: NEI}
    mirrored = case(swapped[full], [swapped[without]] * 2, label=R)
    assert [found] == necessity([mirrored], PLAIN)


@pytest.mark.parametrize(
    ("least", "mean", "full", "without"),
    [
        (1.0, 1.0, S, [NEI, R, NEI]),
        (0.5, 2.5 / 3, S, [NEI, S, R]),
        (0.5, 0.5, S, [S, S]),
        (-1.0, -1 / 3, R, [NEI, S, R]),
        (-1.0, -1.0, NEI, [S, S]),
        (0.0, 0.0, NEI, [NEI, R]),
        (1.0, 1.0, S, [NEI]),
        (0.0, 0.0, R, [NEI]),
        (0.0, 0.0, NEI, []),
    ],
)
def test_necessity_of_a_trace(
    least: float, mean: float, full: AnswersVerdict, without: list[AnswersVerdict]
):
    """The minimum over questions, or the mean; one question alone is needed if it is right."""
    assert [least] == values(necessity([case(full, without)], PLAIN))
    assert pytest.approx([mean]) == values(necessity([case(full, without)], MEAN))


@pytest.mark.parametrize(
    ("least", "mean", "full", "without"),
    [
        (1.0, 1.0, S, [NEI, R]),
        (0.0, 0.5, S, [NEI, S]),
        (0.0, 0.5, NEI, [S, NEI]),
        (0.0, 0.0, R, [R]),
        (1.0, 1.0, R, [NEI]),
        (0.0, 0.0, NEI, []),
    ],
)
def test_necessity_without_a_label(
    least: float, mean: float, full: AnswersVerdict, without: list[AnswersVerdict]
):
    """1 where the verdict changes, whatever it was, else 0."""
    (found,) = necessity([case(full, without, label=None)], PLAIN)
    assert least == found.value
    assert [mean] == values(necessity([case(full, without, label=None)], MEAN))
    assert ["unchanged" if one == full else "changed" for one in without] == states(found)


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


FOUR_OF_5, NONE_MET = (True, True, True, False, True), (False,) * 5


def asked(
    *rulings: tuple[bool | None, tuple[bool, ...] | None, bool | None, bool],
) -> RewardCase:
    """A case whose questions have these: answerable, atomic, correct, abstained."""
    parts = [tuple(part) for part in zip(*rulings, strict=True)] or [()] * 4
    ruled = Signals(NEI, (NEI,) * len(rulings), *parts)
    return RewardCase(rollout(cycles(len(rulings))), ruled)


@pytest.mark.parametrize(
    ("expected", "ruling"),
    [
        (1.0, (True, ALL_MET, True, False)),
        (0.8, (True, FOUR_OF_5, True, False)),
        (0.0, (True, NONE_MET, True, False)),
        (0.0, (False, ALL_MET, True, False)),
        (0.0, (True, ALL_MET, False, False)),
        (0.0, (False, NONE_MET, False, False)),
    ],
)
def test_joint_of_an_answer(expected: float, ruling: tuple[bool, tuple[bool, ...], bool, bool]):
    """The product of the three; the readings of an abstention change nothing here."""
    for settings in (PLAIN, LITERAL):
        (found,) = joint([asked(ruling)], settings)
        assert (expected, ["answered"]) == (found.value, states(found))


@pytest.mark.parametrize(
    ("honest", "literal", "answerable", "criteria"),
    [
        (1.0, 0.0, False, ALL_MET),
        (0.8, 0.0, False, FOUR_OF_5),
        (0.0, 1.0, True, ALL_MET),
        (0.0, 0.8, True, FOUR_OF_5),
        (0.0, 0.0, False, NONE_MET),
        (0.0, 0.0, True, NONE_MET),
    ],
)
def test_joint_of_an_abstention(
    honest: float,
    literal: float,
    answerable: bool,  # noqa: FBT001 - a ruling
    criteria: tuple[bool, ...],
):
    """Honest: what cannot be answered pays. Literal: what can be pays. Nobody rules on it."""
    silent = asked((answerable, criteria, None, True))
    assert [honest] == values(joint([silent], PLAIN))
    (found,) = joint([silent], LITERAL)
    assert (literal, ["abstained"]) == (found.value, states(found))


def test_joint_strict():
    """Strict atomicity pays for all five criteria alone, with an answer or without one."""
    answered, silent = (True, FOUR_OF_5, True, False), (False, FOUR_OF_5, None, True)
    assert [0.0, 0.0] == values(joint([asked(answered), asked(silent)], STRICT))
    whole, mute = (True, ALL_MET, True, False), (False, ALL_MET, None, True)
    assert [1.0, 1.0] == values(joint([asked(whole), asked(mute)], STRICT))


def test_joint_of_a_trace():
    """The mean over the questions, answered or not; no question scores 0."""
    good, partly = (True, ALL_MET, True, False), (True, FOUR_OF_5, True, False)
    wrong, silent = (True, ALL_MET, False, False), (False, ALL_MET, None, True)
    cases = [asked(good, partly, wrong, silent), asked(good, wrong), asked()]
    assert pytest.approx([2.8 / 4, 0.5, 0.0]) == values(joint(cases, PLAIN))


@pytest.mark.parametrize(
    "lost",
    [
        (None, ALL_MET, True, False),
        (True, None, True, False),
        (True, ALL_MET, None, False),
        (None, ALL_MET, None, True),
        (False, None, None, True),
        (False, None, False, False),
    ],
)
def test_joint_without_a_ruling(
    lost: tuple[bool | None, tuple[bool, ...] | None, bool | None, bool],
):
    """A lost ruling leaves the trace null, also where another factor is 0 already."""
    good = (True, ALL_MET, True, False)
    (found,) = joint([asked(good, lost)], PLAIN)
    assert (None, "failed", ["answered", "failed"]) == (found.value, found.state, states(found))
