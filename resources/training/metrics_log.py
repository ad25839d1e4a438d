"""What a step measures, and the learning curves of a run while it trains.

A step's points come from its rewarded batch, the trainer's own log and the clock; their names are
those of ``training.curves``. Totals over all attempts are read from the log.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.coverage import pseudo_label
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.scoring import TOTAL, RewardedBatch
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import VERDICTS
from decomposerl.training.curves import TRAIN, CurvePoint, Split, curve_point, curve_rows, history
from resources.store.integrity import read_parquet
from resources.store.parquet import write_parquet
from resources.training.data import Completion
from resources.training.rollout_log import LogTable, RolloutLog, StepBatch, all_files, read_log
from resources.training.run_store import RunFolder

LAST_STEPS = 20
"""Steps over which judge failures and stopping health rules are averaged."""
HELD_OUT: tuple[Split, ...] = ("held_out_sampled", "held_out_greedy")
SPLITS: tuple[Split, ...] = (TRAIN, *HELD_OUT)
PHASES = ("generation", "judging", "update")
_LOGGED = {
    "loss": "loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "clip_ratio": "clip_ratio/region_mean",
}  # measures that the trainer logs, with its name for each
_EQUAL = 1e-9


@dataclass(slots=True)
class MetricsLog:
    """Curves in memory and on disk. ``history`` has one mapping per training step.

    Curves of earlier attempts are taken over as far as they count. Where several processes train,
    only the main one has ``writes``.
    """

    folder: RunFolder
    log: RolloutLog
    experiment: str
    writes: bool = True
    history: list[dict[str, float | None]] = field(default_factory=list)
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _failures: deque[CurvePoint] = field(default_factory=lambda: deque(maxlen=LAST_STEPS))

    def __post_init__(self) -> None:
        """Read the curves of earlier attempts."""
        self._frames = [read_log(self.folder.path, "curves", split) for split in SPLITS]
        self.history = history(self._frames[0])

    def add(self, step: int, split: Split, points: Mapping[str, CurvePoint]) -> None:
        """Log the points of a step."""
        rows = curve_rows(self.log.run, self.experiment, step, split, points)
        if self.writes:
            self.log.write_curves(step, split, rows)
        self._frames.append(rows)
        if split == TRAIN:
            self.history += history(rows)
            self._failures.append(points.get("judge_failures", CurvePoint(None, None, 0)))

    def judge_failure_share(self) -> float:
        """The share of judged rewards without a ruling over this attempt's last steps, 0..1.

        Before ``LAST_STEPS`` steps, the missing ones count as steps without failures. Earlier
        attempts do not count: the judge may have been repaired since.
        """
        rewards = sum(point.rows for point in self._failures)
        failed = sum((point.mean or 0.0) * point.rows for point in self._failures)
        share = failed / rewards if rewards else 0.0
        return share * len(self._failures) / LAST_STEPS

    @property
    def window_is_full(self) -> bool:
        """Whether this attempt has done ``LAST_STEPS`` steps."""
        return len(self._failures) == LAST_STEPS

    def held_out_at(self, step: int) -> dict[str, float]:
        """The held-out measures at a step by split, slash, measure; empty where there are none."""
        measured = self._whole().filter(
            pl.col("step") == step, pl.col("split") != TRAIN, pl.col("mean").is_not_null()
        )
        rows = measured.select("split", "measure", "mean").iter_rows()
        return {f"{split}/{measure}": mean for split, measure, mean in rows}

    def write(self) -> None:
        """Write the curves of the whole run as one file."""
        if self.writes:
            write_parquet(self._whole(), self.folder.curves)

    def _whole(self) -> pl.DataFrame:
        self._frames = [pl.concat(self._frames).sort("step", "split", maintain_order=True)]
        return self._frames[0]


def batch_points(batch: StepBatch, settings: RewardSettings) -> dict[str, CurvePoint]:
    """Every measure of a batch of rollouts; rewards over the values that count."""
    rewards, completions = batch.rewards, batch.completions
    return {name: curve_point(values) for name, values in rewards.counted.items()} | {
        TOTAL: curve_point(rewards.totals),
        "completion_tokens": curve_point([float(len(one.tokens)) for one in completions]),
        "truncated": curve_point([float(one.truncated) for one in completions]),
        "zero_spread_groups": curve_point(_zero_spreads(rewards)),
        "judge_failures": curve_point(_failures(rewards)),
        "pseudo_label_agreement": curve_point(_agreements(batch, settings)),
        "questions": curve_point([float(len(one.rollout.trace.cycles)) for one in rewards.cases]),
        "n_star": curve_point([float(one.n_star) for one in completions]),
        "balanced_accuracy": _balanced_accuracy(rewards, completions),
        "verdict_given": curve_point([float(one is not None) for one in _right(batch)]),
        "right_among_given": curve_point(_right(batch)),
    }


def trainer_points(logs: Mapping[str, float | None]) -> dict[str, CurvePoint]:
    """The measures in one of the trainer's log entries."""
    return {name: curve_point([logs.get(key)]) for name, key in _LOGGED.items()}


def second_points(seconds: Mapping[str, float]) -> dict[str, CurvePoint]:
    """Wall time by phase."""
    return {f"seconds_{phase}": curve_point([spent]) for phase, spent in seconds.items()}


def _zero_spreads(rewards: RewardedBatch) -> list[float]:
    """For each group, whether all totals that count are equal."""
    groups: dict[str, list[float]] = {}
    for case, total in zip(rewards.cases, rewards.totals, strict=True):
        groups.setdefault(case.rollout.group, []).extend([] if total is None else [total])
    return [float(not each or max(each) - min(each) <= _EQUAL) for each in groups.values()]


def _failures(rewards: RewardedBatch) -> list[float]:
    judged = {reward.name for reward in REWARDS if reward.judge_roles}
    return [
        float(result.state == "failed")
        for name, results in rewards.results.items()
        if name in judged
        for result in results
        if result.state != "absent"
    ]


def _agreements(batch: StepBatch, settings: RewardSettings) -> list[float]:
    """For each unlabelled group, whether the vote gives the label that was withheld."""
    cases: dict[str, list[RewardCase]] = {}
    labels: dict[str, str] = {}
    for one, case in zip(batch.completions, batch.rewards.cases, strict=True):
        if not one.labelled:
            cases.setdefault(case.rollout.group, []).append(case)
            labels[case.rollout.group] = one.label
    return [float(pseudo_label(each, settings) == labels[group]) for group, each in cases.items()]


def _balanced_accuracy(rewards: RewardedBatch, completions: Sequence[Completion]) -> CurvePoint:
    """The mean over the labels that occur; a trace without a verdict is wrong."""
    right: dict[str, list[float]] = {label: [] for label in VERDICTS}
    for one, case in zip(completions, rewards.cases, strict=True):
        right[one.label].append(float(case.rollout.trace.verdict == one.label))
    shares = [sum(each) / len(each) for each in right.values() if each]
    return CurvePoint(sum(shares) / len(shares) if shares else None, None, len(completions))


def _right(batch: StepBatch) -> list[float | None]:
    """For each completion whether its verdict is right, 0 or 1; None without a verdict."""
    rollouts = [case.rollout for case in batch.rewards.cases]
    return [
        None if rollout.trace.verdict is None else float(rollout.trace.verdict == one.label)
        for one, rollout in zip(batch.completions, rollouts, strict=True)
    ]


def seconds_spent(folder: Path) -> dict[str, float]:
    """Wall time of training steps by phase over all attempts, and of ``held_out`` claims.

    Steps that were done again count each time.
    """
    spent = dict.fromkeys((*PHASES, "held_out"), 0.0)
    for split, frame in _logged(folder, "curves"):
        for phase in PHASES:
            seconds = float(frame.filter(measure=f"seconds_{phase}")["mean"].sum())
            spent[phase if split == TRAIN else "held_out"] += seconds
    return spent


def judge_usage(folder: Path, engine: str) -> dict[str, Any]:
    """Distinct calls per batch, summed over all batches, and how many failed, by reason."""
    usage: dict[str, Any] = {"engine": engine, "calls": 0, "failed": 0, "failures": {}}
    for _, frame in _logged(folder, "judge_calls"):
        calls = frame.unique("call_key")
        usage["calls"] += calls.height
        for reason, count in calls["failure"].drop_nulls().value_counts().iter_rows():
            usage["failed"] += count
            usage["failures"][reason] = usage["failures"].get(reason, 0) + count
    return usage


def _logged(folder: Path, table: LogTable) -> Iterator[tuple[Split, pl.DataFrame]]:
    for split in SPLITS:
        for file in all_files(folder, table, split):
            yield split, read_parquet(file.path)
