"""Rewards of a batch of rollouts: ask the judge, embed the questions, weigh and sum.

    R = sum over rewards k of w_k * R_k        (paper, section 3.2)

What no active reward reads is neither judged nor embedded. Rollouts of one prompt are compared with
each other, so a reward that failed for one of them is left out for all of them, and the others
still count. An absent reward (no label, no n*) is absent for the whole group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.errors import ConfigError, EngineError, RewardError
from decomposerl.judge.call import Calls, Judge, JudgeCall, Ruling, Task, needed_calls
from decomposerl.ports import Embedder
from decomposerl.replies.abstention import abstains
from decomposerl.replies.rulings import CRITERIA
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.own import bound
from decomposerl.rewards.reward import Reward, RewardCase, RewardResult, Role, Signals
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import JUDGE_CALLS, VERDICTS
from decomposerl.schemas import REWARDS as TABLE
from decomposerl.traces.rollout import Rollout

Rulings = Mapping[JudgeCall, Ruling]
TOTAL = "total"
"""The name of the sum in the table of rewards."""
_PROMPT = attrgetter("claim", "evidence", "label", "n_star")
_EMBEDDING = Lock()  # an embedder's store of results is not for several threads


@dataclass(frozen=True, slots=True)
class RewardedBatch:
    """A batch with its rewards. Sequences have one entry per case, in the order of the cases.

    ``counted`` is, for each reward, what enters the total: the value, or None where the
    reward is absent or left out. ``totals`` is None where no reward counts. ``judge_calls`` is the
    ``JUDGE_CALLS`` table.
    """

    cases: tuple[RewardCase, ...] = field(compare=False)
    weights: Mapping[str, float]
    results: Mapping[str, Sequence[RewardResult]]
    counted: Mapping[str, Sequence[float | None]]
    totals: Sequence[float | None]
    judge_calls: pl.DataFrame = field(default_factory=JUDGE_CALLS.empty, compare=False)

    def failure_rate(self, name: str) -> float:
        """The share of failed results among those of a reward that are not absent, 0..1."""
        states = [result.state for result in self.results[name] if result.state != "absent"]
        return states.count("failed") / len(states) if states else 0.0

    def objects(self) -> list[dict[str, Any]]:
        """Each rollout as JSON values: ``group``, ``rollout``, ``total`` and ``rewards`` by name.

        A reward has ``value`` (null unless ``state`` is scored), ``state``, ``weight``, ``counted``
        (what enters the total before the weight, or null) and, where it has values by question,
        ``questions`` in the order of the cycles.
        """
        objects = []
        for index, case in enumerate(self.cases):
            rewards: dict[str, dict[str, Any]] = {}
            for name, results in self.results.items():
                result, counted = results[index], self.counted[name][index]
                rewards[name] = {"value": result.value, "state": result.state}
                rewards[name] |= {"weight": self.weights[name], "counted": counted}
                if result.questions:
                    values = [{"value": one.value, "state": one.state} for one in result.questions]
                    rewards[name]["questions"] = values
            key = {"group": case.rollout.group, "rollout": case.rollout.number}
            objects.append({**key, "total": self.totals[index], "rewards": rewards})
        return objects

    def frame(self, run: str = "", step: int = 0) -> pl.DataFrame:
        """``REWARDS``: rows by rollout, then reward, a trace before its questions, the total last.

        ``run`` and ``step`` say where the rollouts were sampled.

        Raises:
            SchemaError: two rollouts have the same group and number.
        """
        rows: list[tuple[object, ...]] = []
        for scored in self.objects():
            key = (run, step, scored["group"], scored["rollout"])
            for name, reward in scored["rewards"].items():
                common = (reward["weight"], reward["counted"] is not None)
                rows.append((*key, name, None, reward["value"], reward["state"], *common))
                for number, question in enumerate(reward.get("questions", ())):
                    rows.append((*key, name, number, question["value"], question["state"], *common))
            total, dropped = scored["total"], scored["total"] is None
            state = "dropped" if dropped else "scored"
            rows.append((*key, TOTAL, None, total, state, 1.0, not dropped))
        return TABLE.conform(pl.DataFrame(rows, schema=TABLE.schema, orient="row"))


def active_rewards(settings: RewardSettings) -> list[Reward]:
    """The rewards whose weight is not 0, with that weight, in the catalogue's order.

    Raises:
        ConfigError: a weight names no reward or is no finite number, or one's own does not work.
    """
    members = [bound(reward, settings) for reward in REWARDS]
    weights = {reward.name: reward.weight for reward in members}
    if unknown := sorted(settings.weights.keys() - weights.keys()):
        raise ConfigError(f"there is no reward '{unknown[0]}'; the names are {', '.join(weights)}")
    weights |= settings.weights
    if weights.get("own") and not settings.own:
        raise ConfigError("the weight of 'own' needs rewards.own = MODULE:FUNCTION")
    for name, weight in weights.items():
        if not abs(weight) < float("inf"):
            raise ConfigError(f"the weight of '{name}' is {weight}; it must be a finite number")
    return [replace(one, weight=float(weights[one.name])) for one in members if weights[one.name]]


def reward_rollouts(
    rollouts: Sequence[Rollout],
    judge: Judge,
    embedder: Embedder,
    settings: RewardSettings,
    most_cycles: int | None = None,
) -> RewardedBatch:
    """Rewards for a batch of rollouts of any number of prompts.

    A trace of more than ``most_cycles`` cycles is neither judged nor embedded: its judged rewards
    are 0, its diversity is -1 and it has no vote, as for a trace without questions.

    Raises:
        ConfigError: a weight names no reward.
        RewardError: a ruling is missing and ``settings.failures`` is ``raise``.
        ValueError: the rollouts of a group differ in claim, evidence, label or n*.
        EngineError: an engine failed as a whole, or a ruling is outside its contract.
    """
    calls = planned_calls(rollouts, settings, most_cycles)
    rulings = rulings_on(calls, judge)
    judged = [_within(rollout, most_cycles) for rollout in rollouts]
    compare = any(reward.reads_vectors for reward in active_rewards(settings))
    vectors = _question_vectors(judged, embedder) if compare else [None] * len(rollouts)
    cases = [
        RewardCase(rollout, signals_of(within, own, rulings), rows, within is not rollout)
        for rollout, within, own, rows in zip(rollouts, judged, calls, vectors, strict=True)
    ]
    frame = calls_frame(rollouts, calls, rulings, judge.engine)
    return replace(reward_batch(cases, settings), judge_calls=frame)


def planned_calls(
    rollouts: Sequence[Rollout], settings: RewardSettings, most_cycles: int | None = None
) -> list[Calls]:
    """The calls of each rollout whose rulings the active rewards read.

    Coverage and necessity may read the rulings on each question, too; so they do where a trace may
    end with the third verdict, which is paid by what its answers show.
    """
    roles = {role for reward in active_rewards(settings) for role in reward.judge_roles}
    three_way = any("NotEnoughInfo" in rollout.trace.labels for rollout in rollouts)
    by_answers = three_way or (settings.grounding, settings.silence) != ("literal", "literal")
    if "full" in roles and by_answers:
        roles.add("question")
    sentences = settings.correctness == "literal"
    judged = (_within(rollout, most_cycles) for rollout in rollouts)
    needed = (needed_calls(rollout, sentences=sentences).items() for rollout in judged)
    return [{at: call for at, call in calls if role_of(*at) in roles} for calls in needed]


def role_of(task: Task, cycle: int | None) -> Role:
    """The role of the call at this place of ``Calls``."""
    if task != "coverage":
        return "question"
    return "full" if cycle is None else "leave_one_out"


def rulings_on(batch: Sequence[Calls], judge: Judge) -> dict[JudgeCall, Ruling]:
    """The rulings on the distinct calls of a batch.

    A leave-one-out verdict is compared with the full set's: where that has no ruling, nothing is
    decided by it, and it is not asked for.

    Raises:
        EngineError: the judge as a whole cannot answer.
    """
    rulings: dict[JudgeCall, Ruling] = {}
    for later in (False, True):
        wanted = {
            call: None
            for calls in batch
            for place, call in calls.items()
            if (role_of(*place) == "leave_one_out") is later and call not in rulings
        }
        # A recorded judge shows what it lacks also where nothing is asked of it.
        if wanted or not later:
            rulings.update(zip(wanted, judge.judge([*wanted]), strict=True))
        full = ((calls, calls.get(("coverage", None))) for calls in batch)
        batch = [calls for calls, call in full if not call or rulings[call].value is not None]
    return rulings


def signals_of(rollout: Rollout, calls: Calls, rulings: Rulings) -> Signals:
    """What the rulings say about a rollout; one that failed or is missing gives None.

    Raises:
        EngineError: a ruling's value is not of its task.
    """
    values: dict[tuple[Task, int | None], Any] = {}
    for (task, cycle), call in calls.items():
        values[task, cycle] = value = rulings[call].value if call in rulings else None
        if not (value is None or _is_of(task, value)):
            wrong = f"{value!r} is not of its task"
            raise EngineError(f"a judge's ruling is outside its contract: {wrong}")
    cycles = rollout.trace.cycles

    def of(task: Task) -> tuple[Any, ...]:
        return tuple(values.get((task, i)) for i in range(len(cycles)))

    return Signals(
        full=values.get(("coverage", None)) if cycles else "NotEnoughInfo",
        without=("NotEnoughInfo",) if len(cycles) == 1 else of("coverage"),
        answerable=of("answerability"),
        atomic=of("atomicity"),
        correct=of("correctness"),
        abstained=tuple(abstains(cycle.answer) for cycle in cycles),
    )


def _is_of(task: Task, value: object) -> bool:
    """Whether a task has such a value."""
    if task == "coverage":
        return value in VERDICTS
    if task == "atomicity":
        return isinstance(value, tuple) and len(value) == len(CRITERIA)
    return isinstance(value, bool)


def calls_frame(
    rollouts: Sequence[Rollout], batch: Sequence[Calls], rulings: Rulings, engine: str
) -> pl.DataFrame:
    """A ``JUDGE_CALLS`` row for every use of a call that was made, by rollout.

    Raises:
        SchemaError: two rollouts have the same group and number.
    """
    keys = {call: call.key for call in rulings}
    rows = [
        (
            *(rollout.group, rollout.number, place[0], role_of(*place), place[1], keys[call]),
            *(rulings[call].text, rulings[call].failure, engine),
        )
        for rollout, calls in zip(rollouts, batch, strict=True)
        for place, call in calls.items()
        if call in rulings
    ]
    return JUDGE_CALLS.conform(pl.DataFrame(rows, schema=JUDGE_CALLS.schema, orient="row"))


def _within(rollout: Rollout, most_cycles: int | None) -> Rollout:
    """The rollout as the judge sees it."""
    if most_cycles is None or len(rollout.trace.cycles) <= most_cycles:
        return rollout
    return replace(rollout, trace=replace(rollout.trace, cycles=()))


def _question_vectors(
    rollouts: Sequence[Rollout], embedder: Embedder
) -> list[NDArray[np.float32] | None]:
    """The unit vectors of each rollout's questions; every distinct question is embedded once."""
    questions = [[cycle.question for cycle in rollout.trace.cycles] for rollout in rollouts]
    rows = {text: row for row, text in enumerate(dict.fromkeys(chain.from_iterable(questions)))}
    if not rows:
        return [None] * len(rollouts)
    with _EMBEDDING:
        vectors = embedder.embed(list(rows))
    return [vectors[[rows[text] for text in texts]] if texts else None for texts in questions]


def reward_batch(cases: Sequence[RewardCase], settings: RewardSettings) -> RewardedBatch:
    """Compute every active reward of a batch, and the totals.

    Raises:
        ConfigError: as ``active_rewards``.
        RewardError: a judge call failed and ``failures`` is ``raise``.
        ValueError: the rollouts of a group differ in claim, evidence, label or n*, or a
            case's vectors are not of its trace.
    """
    active = active_rewards(settings)
    results = {reward.name: [RewardResult(None, "absent")] * len(cases) for reward in active}
    counted: dict[str, list[float | None]] = {name: [None] * len(cases) for name in results}
    by_group = sorted(range(len(cases)), key=lambda place: cases[place].rollout.group)
    for name, places in groupby(by_group, key=lambda place: cases[place].rollout.group):
        group = list(places)
        members = [cases[place] for place in group]
        if len({_PROMPT(case.rollout) for case in members}) > 1:
            differ = "differ in claim, evidence, label or n*"
            raise ValueError(f"the rollouts of group '{name}' {differ}")
        for reward in active:
            column = reward.compute(members, settings)
            scored = list(zip(group, column, strict=True))
            failed = [place for place, result in scored if result.state == "failed"]
            if failed and settings.failures == "raise":
                rollout = cases[failed[0]].rollout
                where = f"rollout {rollout.number} of '{rollout.group}'"
                raise RewardError(f"reward '{reward.name}' lacks a ruling for {where}")
            for place, result in scored:
                results[reward.name][place] = result
                counted[reward.name][place] = None if failed else result.value
    totals = []
    for place in range(len(cases)):
        values = [(reward.weight, counted[reward.name][place]) for reward in active]
        terms = [weight * value for weight, value in values if value is not None]
        totals.append(sum(terms) if terms else None)
    weights = {reward.name: reward.weight for reward in active}
    return RewardedBatch(tuple(cases), weights, results, counted, totals)
