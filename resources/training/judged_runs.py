"""Rollouts of finished and unfinished training runs with the rulings of the judge that scored them.

Read from the logs in ``policy/<experiment>/`` and the run's own copies of its claims. They teach
the tiny judge and are rewarded again by it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.judge.call import Ruling
from decomposerl.judge.plan import rulings_from_frame
from decomposerl.prompts.template import labels_of
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import LABELS, Verdict
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.curves import TRAIN, Split
from decomposerl.training.experiment import from_plain
from resources.judge.tiny_judge import ENGINE as TINY
from resources.store.parquet import DataFolder
from resources.training.rollout_log import read_log
from resources.training.run_store import RunFolder, read_key

SPLITS: tuple[Split, ...] = (TRAIN, "held_out_sampled", "held_out_greedy")
_NO_RUN = "train a policy first, such as: decomposerl train tiny"


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """The rollouts of one step; ``Rollout.group`` is the claim's id."""

    split: Split
    step: int
    rollouts: tuple[Rollout, ...]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """One run's folder. ``rewards`` and ``most_cycles`` are what its rewards were computed with.

    ``labels`` are the verdicts that its traces may end with.
    """

    folder: Path
    rewards: RewardSettings
    most_cycles: int
    labels: tuple[Verdict, ...] = LABELS

    def batches(self, splits: Sequence[Split] = SPLITS) -> Iterator[LoggedBatch]:
        """Every batch of these splits, by step."""
        evidence = _evidence(self.folder)
        for split in splits:
            log = read_log(self.folder, "rollouts", split)
            for (step,), rows in log.group_by("step", maintain_order=True):
                rollouts = tuple(
                    _rollout(row, evidence[row["group"]], self.labels)
                    for row in rows.iter_rows(named=True)
                )
                yield LoggedBatch(split, int(str(step)), rollouts)

    def rulings(self) -> pl.DataFrame:
        """``call_key``, ``value``, ``failure`` and ``engine`` of all its judge calls."""
        columns = ("call_key", "value", "failure", "engine")
        frames = [read_log(self.folder, "judge_calls", split).select(columns) for split in SPLITS]
        return pl.concat(frames)


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
        raise TrainingError(f"there is no training run in {data.path / 'policy'}: {_NO_RUN}")
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


def ruled_by(runs: Sequence[JudgedRun], engine: str) -> list[JudgedRun]:
    """The runs that this judge scored: another judge's rulings cannot be replayed."""
    return [run for run in runs if engine in run.rulings()["engine"]]


def _run(folder: Path) -> JudgedRun:
    config = json.loads(RunFolder(folder).config.read_text("utf-8"))
    recipe = from_plain(config["experiment"])
    labels = labels_of(recipe.verdict_rule)
    return JudgedRun(folder, recipe.rewards, config["limits"]["most_cycles"], labels)


def _evidence(folder: Path) -> dict[str, str]:
    """Evidence by claim, from the run's copies of its claims; empty where it has none."""
    files = RunFolder(folder).inputs(read_key(RunFolder(folder))).glob("*.parquet")
    frames = [pl.read_parquet(file, columns=["claim_id", "evidence"]) for file in files]
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
