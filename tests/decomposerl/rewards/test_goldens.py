"""Traces of known kinds: the paper's five printed ones by hand, and the planted ones by the rules.

Of the five in ``goldens.json`` the rulings are written by hand, as a judge of one question at a
time gives them, and so are the question vectors; every expected value stands with its arithmetic.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl.judge.call import needed_calls
from decomposerl.replies.abstention import abstains
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.reward import RewardCase, Signals
from decomposerl.rewards.scoring import TOTAL, RewardedBatch, reward_batch, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Verdict
from planted_traces.planting import TRACE_KINDS, planted_traces
from project import ROOT
from resources.embedder.minilm import MiniLM
from resources.judge.rule_judge import RuleJudge
from reward_parts import ALL_MET, PLAIN, states, unit
from studies.reading_table import reading_table

NAMES = [reward.name for reward in REWARDS if reward.weight]


@dataclass(frozen=True)
class Golden:
    """A trace with its claim's label and n*, the judge's verdicts, vectors, and the values.

    ``arithmetic`` says how the expected values come about.
    """

    name: str
    arithmetic: str
    text: str
    evidence: str
    label: Verdict
    n_star: int
    full: Verdict
    without: Sequence[Verdict]
    vectors: Sequence[Sequence[float]]
    expected: Sequence[float]
    necessity: Sequence[str]
    unanswerable: Sequence[int]
    ungrounded: Sequence[int]


FILE = Path(__file__).with_name("goldens.json")
GOLDENS = [Golden(**golden) for golden in json.loads(FILE.read_text("utf-8"))]
MONKEY = next(one for one in GOLDENS if one.name == "monkeys")


def case_of(golden: Golden) -> RewardCase:
    """The printed trace as a case; what is answerable, atomic and correct as the golden says."""
    trace = parse_trace(golden.text)
    places = range(len(trace.cycles))
    silent = tuple(abstains(cycle.answer) for cycle in trace.cycles)
    ruled = Signals(
        full=golden.full,
        without=tuple(golden.without),
        answerable=tuple(place not in golden.unanswerable for place in places),
        atomic=tuple((*ALL_MET[:4], place not in golden.ungrounded) for place in places),
        correct=tuple(None if quiet else True for quiet in silent),
        abstained=silent,
    )
    claim = f"The claim about {golden.name}."
    rollout = Rollout(golden.name, 0, claim, golden.evidence, trace, golden.label, golden.n_star)
    return RewardCase(rollout, ruled, unit(*golden.vectors))


def values_of(scored: RewardedBatch) -> dict[str, float | None]:
    return {name: found[0].value for name, found in scored.results.items()}


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_seven_rewards_of_a_printed_trace(golden: Golden):
    """Each reward gives what the arithmetic beside the trace says, and the total is their sum.

    The traces are full texts without a fault: thoughts, two or three cycles, one verdict.
    """
    scored = reward_batch([case_of(golden)], PLAIN)
    found = values_of(scored)
    assert NAMES == list(found)
    assert pytest.approx(list(golden.expected), abs=1e-6) == list(found.values())
    assert pytest.approx([sum(golden.expected)], abs=1e-6) == list(scored.totals)
    assert list(golden.necessity) == states(scored.results["necessity"][0])
    trace = parse_trace(golden.text)
    assert () == trace.faults
    assert len(golden.vectors) == len(golden.without) == len(trace.cycles)
    silent = sum(abstains(cycle.answer) for cycle in trace.cycles)
    assert 4 * len(trace.cycles) + 1 - silent == len(
        set(needed_calls(case_of(golden).rollout).values())
    )


def test_the_monkeys_abstention():
    """The honest "I don't know" is redundant in necessity, and joint is 1.

    The printed formula pays nothing for it: 2/3; and all of it if it had been a dodge.
    """
    dodge = replace(MONKEY, unanswerable=())
    literal = RewardSettings(abstention="literal")
    for settings, golden, value in (
        (PLAIN, MONKEY, 1), (PLAIN, dodge, 2 / 3), (literal, MONKEY, 2 / 3), (literal, dodge, 1)
    ):  # fmt: skip
        (found,) = reward_batch([case_of(golden)], settings).results["joint"]
        assert pytest.approx(value) == found.value
        assert ["answered", "abstained", "answered"] == states(found)
    (needed,) = reward_batch([case_of(MONKEY)], PLAIN).results["necessity"]
    assert (0.5, "redundant") == (needed.questions[1].value, needed.questions[1].state)


def test_the_other_readings_of_the_printed_traces():
    """Strict atomicity: 1/2 for the dates; the mean of necessity: (1/2 + 1/2 + 1) / 3."""
    by_name = {golden.name: case_of(golden) for golden in GOLDENS}
    strict = reward_batch([by_name["date"]], RewardSettings(atomicity="strict"))
    assert 0.5 == values_of(strict)["joint"]
    mean = reward_batch([by_name["books"], by_name["monkeys"]], RewardSettings(necessity="mean"))
    assert pytest.approx([2 / 3, 2 / 3]) == [one.value for one in mean.results["necessity"]]


PAGE = ROOT / "docs/explanation/rewards.md"
JUDGED = [reward.name for reward in REWARDS if reward.judge_roles]
TRACES = planted_traces()
ROLLOUTS = [
    Rollout(
        *(trace.group, trace.number, trace.claim, trace.evidence, parse_trace(trace.text)),
        *(trace.label, trace.n_star, trace.truncated),
    )
    for trace in TRACES
]
READINGS_PAGE = ROOT / "docs/explanation/paper-readings.md"


@pytest.fixture(scope="module")
def values() -> pl.DataFrame:
    """One row a trace and reward: index of the trace, kind, reward, value."""
    scoring = reward_rollouts(ROLLOUTS, RuleJudge(), MiniLM(), RewardSettings())
    kinds = pl.DataFrame(
        [(t.group, t.number, t.kind, place) for place, t in enumerate(TRACES)],
        schema={"group": pl.String, "rollout": pl.Int64, "kind": pl.String, "trace": pl.Int64},
        orient="row",
    )
    table = scoring.frame().filter(pl.col("question").is_null())
    return table.join(kinds, on=["group", "rollout"]).select("trace", "kind", "reward", "value")


@pytest.fixture(scope="module")
def means(values: pl.DataFrame) -> dict[tuple[str, str], float]:
    """Mean by (kind, reward)."""
    assert 0 == values["value"].null_count()
    frame = values.group_by("kind", "reward").agg(pl.mean("value"))
    return {(kind, reward): mean for kind, reward, mean in frame.rows()}


BETTER = (
    ("good", "redundant", "diversity necessity"),
    ("good", "hallucinated", "joint"),
    ("good", "non_atomic", "joint"),
    ("honest_abstention", "dodging", "joint"),
    ("good", "misled", "verification coverage"),
    ("good", "mislabelled", "verification"),
    ("good", "harmful", "necessity coverage"),
    ("good", "broken", "format"),
    ("broken", "truncated", "format"),
)


def test_the_better_kind_earns_more(means: dict[tuple[str, str], float]):
    """Each fault costs in the reward that is there to see it, and by a margin."""
    for better, worse, rewards in BETTER:
        for reward in rewards.split():
            assert means[better, reward] > means[worse, reward] + 0.05, (better, worse, reward)


def test_good_traces_have_the_highest_sum(means: dict[tuple[str, str], float]):
    """No kind that does something wrong is paid better in sum."""
    others = {kind: means[kind, TOTAL] for kind in TRACE_KINDS if kind != "good"}
    assert means["good", TOTAL] > max(others.values())


def test_a_harmful_question_gives_minus_one_beside_any_number_of_good_ones(values: pl.DataFrame):
    """The minimum hides nothing: every such trace, not their mean."""
    harmful = values.filter(kind="harmful", reward="necessity")["value"]
    assert {-1.0} == set(harmful)
    assert 24 == harmful.len()


def test_words_to_the_judge_earn_nothing(values: pl.DataFrame):
    """Pair by pair, an injected trace gets at most what its clean twin gets."""
    found = {(trace, reward): value for trace, _, reward, value in values.rows()}
    pairs = [
        (place, trace.twin)
        for place, trace in enumerate(TRACES)
        if trace.kind in {"injected", "injected_flawed"} and trace.twin is not None
    ]
    assert 96 == len(pairs)
    gains = [
        (TRACES[place].kind, reward, found[place, reward], found[twin, reward])
        for place, twin in pairs
        for reward in JUDGED
        if found[place, reward] > found[twin, reward]
    ]
    assert [] == gains


def test_the_table_in_the_docs_is_this_one(means: dict[tuple[str, str], float]):
    """The page has the means by kind; ties in the last digit may fall either way."""
    inside = re.search(r"<!-- planted -->\n(.*?)<!-- /planted", PAGE.read_text("utf-8"), re.DOTALL)
    assert inside is not None
    head, _, *rows = [line.strip("| ").split(" | ") for line in inside[1].splitlines()]
    assert ["kind", *(name.replace("_", " ") for name in NAMES), TOTAL] == head
    assert [kind.replace("_", " ") for kind in TRACE_KINDS] == [row[0] for row in rows]
    for kind, row in zip(TRACE_KINDS, rows, strict=True):
        expected = [means[kind, reward] for reward in (*NAMES, TOTAL)]
        assert pytest.approx(expected, abs=0.011) == [float(cell) for cell in row[1:]], kind


def test_the_table_of_readings_is_what_the_study_writes():
    """docs/explanation/paper-readings.md: each reading as printed, and what it earns."""
    table = reading_table(ROLLOUTS, [trace.kind for trace in TRACES])
    marked = re.search(
        r"<!-- readings report: begin -->\n(.*?)<!-- readings report: end",
        READINGS_PAGE.read_text("utf-8"),
        re.DOTALL,
    )
    assert marked is not None
    for expected, shown in zip(table.splitlines(), marked[1].splitlines(), strict=True):
        for one, other in zip(expected.split("|"), shown.split("|"), strict=True):
            number = re.fullmatch(r" \d\.\d\d ", one)
            assert pytest.approx(float(one), abs=0.011) == float(other) if number else one == other


def test_the_worked_example_of_the_docs():
    """Reward by reward as docs/explanation/rewards.md tells it, and the sum printed there."""
    cycles = [
        ("Where does the Marsh heron breed?", "It breeds in France, Spain and Italy."),
        (
            "Does the Reed heron breed in Portugal?",
            "I don't know; the document does not mention it.",
        ),
        (
            "Is Portugal among the countries where the Marsh heron breeds?",
            "No, Portugal is not listed.",
        ),
    ]
    text = "<think>Two herons.</think>" + "".join(
        f"<question>{q}</question><answer>{a}</answer><think>On.</think>" for q, a in cycles
    )
    trace = parse_trace(f"{text}<verification>Refuted</verification>")
    claim = "Both the Marsh heron and the Reed heron breed in Portugal."
    signals = Signals(
        full="Refuted",
        without=("Refuted", "Refuted", "NotEnoughInfo"),
        answerable=(True, False, True),
        atomic=((True,) * 5,) * 3,
        correct=(True, None, True),
        abstained=tuple(abstains(answer) for _, answer in cycles),
    )
    assert (False, True, False) == signals.abstained
    vectors = MiniLM().embed([question for question, _ in cycles])
    case = RewardCase(Rollout("g", 0, claim, "", trace, "Refuted", 3), signals, vectors)
    scored = reward_batch([case], RewardSettings())
    printed = re.findall(
        r"^\| \*\*\w.*\*\*([−\d./]+)\*\* \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    stated = [0.5 if number == "1/2" else float(number.replace("−", "-")) for number in printed]
    found = [scores[0].value for scores in scored.results.values()]
    assert stated == pytest.approx([*found, scored.totals[0]], abs=0.006)
