"""How the tiny judge does: agreement with its teacher, the rewards that follow, its speed."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from decomposerl.evaluation.agreement import Measured, agreement, reward_agreement
from decomposerl.judge.call import Judge, JudgeCall, Ruling
from decomposerl.judge.heads import HEADS, Head
from decomposerl.judge.plan import plan
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import active_rewards
from decomposerl.rewards.table import TOTAL
from decomposerl.schemas import JUDGE_AGREEMENT, JUDGE_STUDY
from decomposerl.training.curves import TRAIN
from resources.judge.replay import ReplayJudge
from resources.judge.scoring import reward_rollouts
from resources.judge.tiny_judge import TinyJudge
from resources.training.judged_runs import JudgedRun

Calls = Sequence[JudgeCall]


class Pace(NamedTuple):
    """Distinct calls that a judge ruled on in one go, and how long that took."""

    engine: str
    calls: int
    seconds: float


def agreement_frame(examples: pl.DataFrame, judge: TinyJudge, seed: int) -> pl.DataFrame:
    """``JUDGE_AGREEMENT`` over the test examples; a head without any has no row."""
    rows: list[tuple[object, ...]] = []
    for head in HEADS:
        test = examples.filter(head=head.name, split="test")
        if test.is_empty():
            continue
        before = judge.shortened
        given = judge.labels([head] * test.height, test.select("text", "context").rows())
        measured = agreement(
            _codes(head, test["label"].to_list()),
            _codes(head, given),
            len(head.classes),
            test["document"].to_list(),
            seed,
        )
        sizes = (test.height, test["document"].n_unique(), judge.shortened - before)
        engines = (judge.engine, test["teacher"][0])
        rows += [(head.name, *_plain(one), *sizes, *engines) for one in measured]
    return JUDGE_AGREEMENT.conform(pl.DataFrame(rows, schema=JUDGE_AGREEMENT.schema, orient="row"))


def rewards_of_both(
    runs: Sequence[JudgedRun],
    rulings: Mapping[str, Ruling],
    judge: Judge,
    embedder: Embedder,
    claim_ids: Sequence[str],
) -> pl.DataFrame:
    """``group``, ``reward``, ``teacher`` and ``student`` of training rollouts of these claims.

    Each run's rewards are computed twice, as that run computed them: with the recorded rulings and
    with ``judge``. Judged rewards and the total; a value that either lacks is left out.
    """
    replay, known = ReplayJudge(runs[0].folder, rulings), set(claim_ids)
    rows: list[tuple[object, ...]] = []
    for run in runs:
        names = [one.name for one in active_rewards(run.rewards) if one.judged]
        for batch in run.batches([TRAIN]):
            chosen = [one for one in batch.rollouts if one.group in known]
            if not chosen:
                continue
            first, second = (
                reward_rollouts(chosen, one, embedder, run.rewards, run.most_cycles).rewards
                for one in (replay, judge)
            )
            groups = [f"{run.folder.name}/{batch.step}/{one.group}" for one in chosen]
            for name in names:
                both = ([one.value for one in side.results[name]] for side in (first, second))
                rows += zip(groups, [name] * len(groups), *both, strict=True)
            rows += zip(groups, [TOTAL] * len(groups), first.totals, second.totals, strict=True)
    kinds = (pl.String(), pl.String(), pl.Float64(), pl.Float64())
    schema = dict(zip(("group", "reward", "teacher", "student"), kinds, strict=True))
    return pl.DataFrame(rows, schema=schema, orient="row").drop_nulls()


def reward_frame(rewards: pl.DataFrame, engine: str, teacher: str, seed: int) -> pl.DataFrame:
    """``JUDGE_STUDY`` over the rewards that ``rewards_of_both`` gives."""
    rows = [
        (name, *_plain(one), of.height, of["group"].n_unique(), engine, teacher)
        for (name,), of in rewards.group_by("reward", maintain_order=True)
        for one in reward_agreement(of, seed)
    ]
    return JUDGE_STUDY.conform(pl.DataFrame(rows, schema=JUDGE_STUDY.schema, orient="row"))


def calls_of(runs: Sequence[JudgedRun], claim_ids: Sequence[str], most: int) -> list[JudgeCall]:
    """The first ``most`` distinct judge calls on training rollouts of these claims."""
    known, calls = set(claim_ids), dict[JudgeCall, None]()
    for batch in (batch for run in runs for batch in run.batches([TRAIN])):
        calls |= dict.fromkeys(plan([r for r in batch.rollouts if r.group in known]).calls)
        if len(calls) >= most:
            break
    return list(calls)[:most]


def pace(judge: Judge, calls: Calls) -> Pace:
    """The wall time of one batch, after one call that loads what the judge needs."""
    judge.judge(calls[:1])
    started = time.perf_counter()
    judge.judge(calls)
    return Pace(judge.engine, len(calls), time.perf_counter() - started)


def _codes(head: Head, labels: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([head.classes.index(label) for label in labels], np.int64)


def _plain(one: Measured) -> tuple[str, float | None, float | None, float | None]:
    return one.metric, one.value, one.low, one.high
