"""The judge made of rules: retold traces, tables of wordings, injections, planted traces.

The texts stand in ``rule_judge_cases.json``. What a reward declares about itself decides which
calls a batch takes; recorded rulings are replayed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineError
from decomposerl.judge.call import JudgeCall, Ruling, needed_calls
from decomposerl.replies.rulings import CRITERIA
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.reward import Role, Signals
from decomposerl.rewards.scoring import reward_rollouts, role_of
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import VERDICTS
from decomposerl.traces.grammar import build_trace, parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle
from fakes import BagOfWordsEmbedder
from planted_traces.planting import planted_traces
from resources.judge.replay import ReplayJudge
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import write_parquet
from reward_parts import rollout
from strategies import LAW

CASES: dict[str, Any] = json.loads(
    Path(__file__).with_name("rule_judge_cases.json").read_text("utf-8")
)
CLAIM, DOCUMENT, RETOLD = CASES["claim"], CASES["document"], CASES["retold"]
JUDGE = RuleJudge()
Pairs = Sequence[Sequence[str]]


def judged(claim: str, evidence: str, pairs: Pairs) -> Signals:
    trace = build_trace("Look.", [Cycle(question, answer) for question, answer in pairs], None)
    return signals([Rollout("g", 0, claim, evidence, trace)])[0]


def signals(batch: Sequence[Rollout]) -> list[Signals]:
    scored = reward_rollouts(batch, JUDGE, BagOfWordsEmbedder(), RewardSettings())
    return [case.signals for case in scored.cases]


def retold(name: str) -> Signals:
    """Of one of the paper's traces."""
    return judged(*(RETOLD[name][part] for part in ("claim", "evidence", "pairs")))


def ruled(call: JudgeCall) -> str:
    (ruling,) = JUDGE.judge([call])
    assert ruling.text is not None
    return ruling.text


def test_the_printed_traces_get_their_verdicts():
    """Verdicts of the paper's five traces; the undercount is supported: the known hole."""
    expected = {name: (case["full"], tuple(case["without"])) for name, case in RETOLD.items()}
    found = {name: retold(name) for name in RETOLD}
    assert expected == {name: (one.full, one.without) for name, one in found.items()}
    for name in ("two books, one author", "two hops", "another year"):
        assert {True} == {*found[name].answerable, *found[name].correct}, name
        assert {(True,) * len(CRITERIA)} == set(found[name].atomic), name
    honest = found["abstention"]  # the document does not know the Vervet monkey
    assert (True, False, True) == honest.answerable
    assert (True, None, True) == honest.correct
    assert (False, True, False) == honest.abstained


def test_each_criterion_of_atomicity_is_told_apart():
    """Question, focus, conjunction, verifiable, grounded: a table of wordings."""
    table = CASES["atomicity"]
    asked = {one: JudgeCall("atomicity", claim=CLAIM, question=one) for one in table}
    assert table == {question: ruled(call) for question, call in asked.items()}


def test_a_question_is_answerable_where_the_document_holds_its_answer():
    """Names, words and the kind that is asked for stand together, or they do not."""
    table = CASES["answerability"]
    asked = {one: JudgeCall("answerability", DOCUMENT, question=one) for one in table}
    assert table == {question: ruled(call) for question, call in asked.items()}


def test_an_answer_is_correct_where_the_document_bears_it_out():
    """Another name, another year, what is made up, and a wrong yes or no are incorrect."""
    assert CASES["correctness"] == [
        [question, answer, ruled(JudgeCall("correctness", DOCUMENT, "", question, (answer,)))]
        for question, answer, _ in CASES["correctness"]
    ]


def test_coverage_reads_the_answers_alone():
    """All of the claim confirmed, one part of it denied, or neither."""
    assert CASES["coverage"] == [
        [answers, ruled(JudgeCall("coverage", claim=CLAIM, answers=tuple(answers)))]
        for answers, _ in CASES["coverage"]
    ]


STORIES: dict[str, tuple[str, str, Pairs]] = {
    "good": (CLAIM, DOCUMENT, [("Who won the Harbour Prize in 1921?", "Ilva Torbeck won it.")]),
    "wrong": (CLAIM, DOCUMENT, [("Who won the Harbour Prize?", "Pell Grave won it in 1930.")]),
} | {
    name: tuple(RETOLD[name][part] for part in ("claim", "evidence", "pairs"))
    for name in ("two books, one author", "abstention")
}


@pytest.mark.parametrize("name", STORIES)
def test_an_injected_answer_is_never_better_than_its_twin(name: str):
    """Before or after any answer: coverage is as it was, correctness is not higher."""
    claim, evidence, pairs = STORIES[name]
    twin = judged(claim, evidence, pairs)
    for injection in CASES["injections"]:
        for at, (question, answer) in enumerate(pairs):
            for text in (f"{answer} {injection}", f"{injection}\n{answer}"):
                found = judged(claim, evidence, [*pairs[:at], (question, text), *pairs[at + 1 :]])
                assert (twin.full, twin.without) == (found.full, found.without), text
                assert not found.correct[at], text


@pytest.mark.parametrize(
    "question", ["Who won the Harbour Prize in 1921?", "Who was the mayor of Quell in 1921?"]
)
def test_an_injected_question_is_never_better_than_its_twin(question: str):
    """Answerability stays, which an abstention would profit from; no criterion rises."""
    for injection in CASES["injections"]:
        for text in (f"{question} {injection}", f"{injection}\n{question}"):
            calls = [JudgeCall("atomicity", claim=CLAIM, question=q) for q in (question, text)]
            clean, found = (ruled(call) for call in calls)
            assert all(now <= was for now, was in zip(found, clean, strict=True)), text
            asked = [JudgeCall("answerability", DOCUMENT, question=q) for q in (question, text)]
            assert ruled(asked[0]) == ruled(asked[1]), text


anything = st.text(max_size=60) | st.lists(
    st.sampled_from([*DOCUMENT.split(), "not", "no", "n't", "not_x", "?", "<answer>", ";", "1921"])
).map(" ".join)


@LAW
@given(document=anything, claim=anything, question=anything, answers=st.lists(anything, max_size=3))
def test_any_text_gets_a_ruling_and_the_same_again(
    document: str, claim: str, question: str, answers: list[str]
):
    """No call raises, no ruling fails, and the order of answers does not matter."""
    coverage = JudgeCall("coverage", claim=claim, answers=tuple(answers))
    calls = [
        JudgeCall("answerability", document, question=question),
        JudgeCall("atomicity", claim=claim, question=question),
        JudgeCall("correctness", document, "", question, tuple(answers[:1])),
        coverage,
        JudgeCall("coverage", claim=claim, answers=tuple(answers[::-1])),
    ]
    rulings = RuleJudge().judge(calls)
    assert rulings == RuleJudge().judge(calls)
    assert rulings[3] == rulings[4]
    assert rulings[3].value in VERDICTS
    assert {None} == {ruling.failure for ruling in rulings}


def test_planted_traces_are_told_apart():
    """Floors on 24 planted claims; the figures of 48 stand in the documents."""
    traces = planted_traces(claims=24)
    batch = [
        Rollout(t.group, t.number, t.claim, t.evidence, parse_trace(t.text), t.label)
        for t in traces
    ]
    found = signals(batch)

    def share(kind: str, field: str) -> float:
        rows = [getattr(s, field) for t, s in zip(traces, found, strict=True) if t.kind == kind]
        return mean(bool(v) for row in rows for v in row if v is not None)

    def covered(kind: str) -> float:
        rows = [s.full == t.label for t, s in zip(traces, found, strict=True) if t.kind == kind]
        return mean(rows)

    assert covered("good") >= 0.9
    assert covered("misled") <= 0.1
    assert share("good", "answerable") >= 0.75
    assert share("good", "correct") >= 0.9
    assert share("hallucinated", "correct") <= share("good", "correct") - 0.3
    assert share("injected", "correct") < share("good", "correct")


# Which calls and vectors a reward takes


ROLLOUTS = [rollout(3)]
OTHERS_OFF = {reward.name: 0.0 for reward in REWARDS}


@dataclass
class NotingJudge:
    """The rule judge; remembers the calls that it got."""

    calls: list[JudgeCall] = field(default_factory=list)
    engine: str = "noting"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings on a batch."""
        self.calls += calls
        return RuleJudge().judge(calls)


ROLES: dict[str, tuple[Role, ...]] = {
    "nothing": (),
    "full": ("full",),
    "left": ("leave_one_out",),
    "question": ("question",),
    "both": ("full", "question"),
}


def alone(name: str) -> RewardSettings:
    """Your own reward, and no other."""
    return RewardSettings(OTHERS_OFF | {"own": 1.0}, own=f"own_rewards:{name}")


@pytest.mark.parametrize("name", ROLES)
def test_a_reward_gets_exactly_the_calls_that_it_names(name: str):
    """Its roles are asked about, each call once, no others."""
    roles = ROLES[name]
    needed = needed_calls(ROLLOUTS[0]).items()
    expected = {call for place, call in needed if role_of(*place) in roles}
    judge, embedder = NotingJudge(), BagOfWordsEmbedder()
    found = reward_rollouts(ROLLOUTS, judge, embedder, alone(name))
    assert (expected, len(expected)) == (set(judge.calls), len(judge.calls))
    assert {"own": [1.0 if "question" in roles else 0.0]} == found.counted
    assert set(roles) == set(found.judge_calls["role"])
    assert [] == embedder.asked


def test_vectors_are_computed_for_a_reward_that_reads_them():
    """Each distinct question is embedded once, and no judge call is made."""
    judge, embedder = NotingJudge(), BagOfWordsEmbedder()
    reward_rollouts(ROLLOUTS, judge, embedder, alone("vectors"))
    assert ([3], []) == (embedder.asked, judge.calls)


# Recorded rulings


CALLS = [JudgeCall("answerability", f"text {row}", question=f"who {row}?") for row in range(5)]
RULINGS = [Ruling(True), Ruling(False), Ruling(None, "timeout"), Ruling(True), Ruling(False)]
PLACES = st.lists(st.integers(0, 4), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rulings")
    rows = [(c.key, one.text, one.failure) for c, one in zip(CALLS, RULINGS, strict=True)]
    table = pl.DataFrame(rows, schema=["call_key", "value", "failure"], orient="row")
    write_parquet(table, folder / "judge.parquet")
    return folder


@LAW
@given(places=PLACES)
def test_recorded_rulings_come_in_the_order_asked(folder: Path, places: list[int]):
    """Any calls in any order, repeated or none; a recorded failure is a failure again."""
    judge = ReplayJudge(folder)
    assert [RULINGS[place] for place in places] == judge.judge([CALLS[place] for place in places])
    assert (0, len(places)) == (judge.calls, judge.hits)


def test_a_call_without_a_record_is_an_error_that_names_it(folder: Path):
    """No default ruling: task and question are shown; so is a missing table's path."""
    other = JudgeCall("correctness", "text 0", question="who 0?", answers=("Ilva.",))
    with pytest.raises(EngineError, match=r"no record of correctness of 'who 0\?'"):
        ReplayJudge(folder).judge([CALLS[0], other])
    with pytest.raises(EngineError, match=r"judge\.parquet"):
        ReplayJudge(folder / "nowhere").judge(CALLS)
