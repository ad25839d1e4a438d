"""Every branch of the formulas that need no judge, by hand; the judged ones have their file."""

import numpy as np
import pytest

from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.format import CONDITIONS, conditions_met, format_reward
from decomposerl.rewards.question_count import question_count
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.verification import verification
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from reward_parts import (
    PLAIN,
    R,
    S,
    case,
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
