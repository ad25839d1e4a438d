"""Rollouts of training runs with the rulings of the judge that scored them.

Read from the logs in ``policy/<experiment>/`` and the run's own copies of its claims, finished or
not. They teach the tiny judge and measure it: agreement with its teacher, rewards, speed.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.evaluation.metrics import agreement, reward_agreement
from decomposerl.judge.call import Judge, JudgeCall, Ruling, needed_calls, rulings_from_frame
from decomposerl.judge.distillation import HEADS, Head
from decomposerl.ports import Embedder
from decomposerl.prompts.template import labels_of
from decomposerl.rewards.scoring import TOTAL, active_rewards, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import JUDGE_AGREEMENT, JUDGE_STUDY, LABELS, Verdict
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.curves import TRAIN, Split
from decomposerl.training.experiment import from_plain
from resources.judge.replay import ReplayJudge
from resources.judge.tiny_judge import ENGINE as TINY
from resources.judge.tiny_judge import TinyJudge
from resources.store.integrity import read_parquet
from resources.store.parquet import DataFolder
from resources.training.rollout_log import read_log
from resources.training.run_store import RunFolder, read_key

SPLITS: tuple[Split, ...] = (TRAIN, "held_out_sampled", "held_out_greedy")


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """One run's folder. ``rewards`` and ``most_cycles`` are what its rewards were computed with.

    ``labels`` are the verdicts that its traces may end with.
    """

    folder: Path
    rewards: RewardSettings
    most_cycles: int
    labels: tuple[Verdict, ...] = LABELS

    def batches(self, splits: Sequence[Split] = SPLITS) -> Iterator[tuple[int, list[Rollout]]]:
        """Step and rollouts of every batch of these splits; ``Rollout.group`` is the claim's id."""
        evidence = _evidence(self.folder)
        for split in splits:
            log = read_log(self.folder, "rollouts", split)
            for (step,), rows in log.group_by("step", maintain_order=True):
                named = rows.iter_rows(named=True)
                rollouts = [_rollout(row, evidence[row["group"]], self.labels) for row in named]
                yield int(str(step)), rollouts

    def rulings(self) -> pl.DataFrame:
        """``call_key``, ``value``, ``failure`` and ``engine`` of all its judge calls."""
        columns = ("call_key", "value", "failure", "engine")
        return pl.concat(
            read_log(self.folder, "judge_calls", split).select(columns) for split in SPLITS
        )


def judged_runs(data: DataFolder, names: Sequence[str] = ()) -> list[JudgedRun]:
    """The runs in a data folder with these names, or all that have judged rollouts.

    Raises:
        TrainingError: there is none, or one of the named ones is not there.
    """
    configs = data.path.glob("policy/*/config.json")
    folders = {path.parent.name: path.parent for path in configs}
    if missing := sorted(set(names) - set(folders)):
        raise TrainingError(f"there is no training run '{missing[0]}' in {data.path / 'policy'}")
    chosen = sorted(names) if names else sorted(folders)
    found = [_run(folders[name]) for name in chosen]
    runs = [one for one in found if _evidence(one.folder)]
    if not runs:
        raise TrainingError(
            f"there is no training run in {data.path / 'policy'}: train a policy first, such as: "
            "decomposerl train tiny"
        )
    return runs


def rulings_of(runs: Sequence[JudgedRun], teacher: str) -> tuple[str, Mapping[str, Ruling]]:
    """The engine whose name contains ``teacher``, and its rulings by call key.

    Of a call that was ruled on twice the first ruling counts, a failure only where there is no
    other. Rulings of a tiny judge teach nobody.

    Raises:
        TrainingError: none or several engines are meant; the message counts each one's rulings.
    """
    rows = pl.concat([run.rulings() for run in runs])
    counts = Counter(dict(rows["engine"].value_counts().iter_rows()))
    large = [name for name in counts if not name.startswith(TINY)]
    meant = [name for name in large if teacher in name]
    exact = [name for name in meant if name == teacher] or meant
    if len(exact) != 1:
        known = ", ".join(f"{name} ({counts[name]:,} rulings)" for name in sorted(large))
        raise TrainingError(
            f"{'several judges are' if exact else 'no judge of these runs is'} called '{teacher}': "
            f"{known or 'there are no rulings'}; set teacher to a part of one name"
        )
    own = rows.filter(engine=exact[0]).sort(pl.col("value").is_null(), maintain_order=True)
    return exact[0], rulings_from_frame(own.unique("call_key", keep="first", maintain_order=True))


def agreement_frame(examples: pl.DataFrame, judge: TinyJudge) -> pl.DataFrame:
    """``JUDGE_AGREEMENT`` over the test examples; a head without any has no row."""
    rows: list[tuple[object, ...]] = []
    for head in HEADS:
        test = examples.filter(head=head.name, split="test")
        if test.is_empty():
            continue
        before = judge.shortened
        (given,) = judge.labels([head], test.select("text", "context").rows())
        taught, learnt = (_codes(head, labels) for labels in (test["label"].to_list(), given))
        documents = test["document"].to_list()
        measured = agreement(taught, learnt, len(head.classes), documents)
        sizes = (test.height, len(set(documents)), judge.shortened - before)
        engines = (judge.engine, test["teacher"][0])
        rows += [(head.name, name, *of[:3], *sizes, *engines) for name, of in measured.items()]
    frame = pl.DataFrame(rows, schema=JUDGE_AGREEMENT.schema, orient="row")
    return JUDGE_AGREEMENT.conform(frame.fill_nan(None))


def reward_frame(
    runs: Sequence[JudgedRun],
    known: tuple[str, Mapping[str, Ruling]],
    judge: Judge,
    embedder: Embedder,
    claim_ids: Sequence[str],
) -> pl.DataFrame:
    """``JUDGE_STUDY`` over training rollouts of these claims; ``known``: as ``rulings_of`` gives.

    Each run's rewards are computed twice, as that run computed them: with the recorded rulings and
    with ``judge``. Judged rewards and the total; a value that either lacks is left out.
    """
    teacher, rulings = known
    replay, chosen_ids = ReplayJudge(runs[0].folder, rulings), set(claim_ids)
    rows: list[tuple[object, ...]] = []
    for run in runs:
        names = [one.name for one in active_rewards(run.rewards) if one.judge_roles]
        for step, batch in run.batches([TRAIN]):
            chosen = [one for one in batch if one.group in chosen_ids]
            if not chosen:
                continue
            first, second = (
                reward_rollouts(chosen, one, embedder, run.rewards, run.most_cycles)
                for one in (replay, judge)
            )
            groups = [f"{run.folder.name}/{step}/{one.group}" for one in chosen]
            for name in names:
                both = ([one.value for one in side.results[name]] for side in (first, second))
                rows += zip(groups, [name] * len(groups), *both, strict=True)
            rows += zip(groups, [TOTAL] * len(groups), first.totals, second.totals, strict=True)
    texts, numbers = ("group", "reward"), ("teacher", "student")
    schema = dict.fromkeys(texts, pl.String()) | dict.fromkeys(numbers, pl.Float64())
    rewards = pl.DataFrame(rows, schema, orient="row").drop_nulls()
    found = [
        (name, metric, *one[:3], of.height, of["group"].n_unique(), judge.engine, teacher)
        for (name,), of in rewards.group_by("reward", maintain_order=True)
        for metric, one in reward_agreement(of).items()
    ]
    frame = pl.DataFrame(found, schema=JUDGE_STUDY.schema, orient="row")
    return JUDGE_STUDY.conform(frame.fill_nan(None))


def calls_of(runs: Sequence[JudgedRun], claim_ids: Sequence[str], most: int) -> list[JudgeCall]:
    """The first ``most`` distinct judge calls on training rollouts of these claims."""
    known, calls = set(claim_ids), dict[JudgeCall, None]()
    for _, batch in (batch for run in runs for batch in run.batches([TRAIN])):
        chosen = (rollout for rollout in batch if rollout.group in known)
        calls |= dict.fromkeys(chain.from_iterable(needed_calls(one).values() for one in chosen))
        if len(calls) >= most:
            break
    return list(calls)[:most]


def pace(judge: Judge, calls: Sequence[JudgeCall]) -> tuple[str, int, str]:
    """Engine, number of calls, and calls a second after one that loads what the judge needs."""
    judge.judge(calls[:1])
    started = time.perf_counter()
    judge.judge(calls)
    return judge.engine, len(calls), f"{len(calls) / (time.perf_counter() - started):,.1f}"


def _codes(head: Head, labels: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([head.classes.index(label) for label in labels], np.int64)


def _run(folder: Path) -> JudgedRun:
    config = json.loads(RunFolder(folder).config.read_text("utf-8"))
    recipe = from_plain(config["experiment"])
    labels = labels_of(recipe.verdict_rule)
    return JudgedRun(folder, recipe.rewards, config["limits"]["most_cycles"], labels)


def _evidence(folder: Path) -> dict[str, str]:
    """Evidence by claim, from the run's copies of its claims; empty where it has none."""
    files = RunFolder(folder).inputs(read_key(RunFolder(folder))).glob("*.parquet")
    frames = [read_parquet(file, ["claim_id", "evidence"]) for file in files]
    return {name: text for frame in frames for name, text in frame.iter_rows()}


def _rollout(row: Mapping[str, Any], evidence: str, labels: tuple[Verdict, ...]) -> Rollout:
    return Rollout(
        group=row["group"],
        number=row["rollout"],
        claim=row["claim"],
        evidence=evidence,
        trace=parse_trace(row["completion"], labels),
        label=row["label"] if row["labelled"] else None,
        n_star=row["n_star"],
        truncated=row["truncated"],
    )
