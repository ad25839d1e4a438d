"""Trains the runs of a study that are not finished, and reads what all did on held-out claims.

Runs have the folders, keys and processes of the asset ``policy``: a finished one is not repeated,
an interrupted one goes on from its checkpoint. Held-out traces are scored again by the whole
ensemble, so that a run without a reward is measured by it, too.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from subprocess import Popen

import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.evaluation.scored_claims import SHARED_EVIDENCE
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.progress import bar
from decomposerl.prompts.template import labels_of
from decomposerl.rewards.scoring import TOTAL, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import CURVES, LABELS, Verdict
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.training.curves import Split
from decomposerl.training.experiment import Experiment
from decomposerl.training.studies import Study, finished_part
from decomposerl.training.study_table import GREEDY, OUTCOMES, SAMPLED, SCORED
from resources.judge.resource import JudgeResource
from resources.process.child import end_watched, start_watched
from resources.process.interrupt import more_time
from resources.store.integrity import read_parquet
from resources.store.parquet import DataFolder
from resources.training.process import DONE, TrainingOutcome, TrainingRun, meaning_of
from resources.training.resource import PolicyTrainerResource
from resources.training.rollout_log import read_log
from resources.training.run_inputs import gather_inputs, judge_for
from resources.training.run_store import finished_outcome
from resources.vllm.process import tail

_CHECKPOINT_EVERY = 10
"""At most: a killed run of minutes loses a third of itself."""
_POLL_S = 0.5
_LOG_FILE = "worker.log"
_RANDOM = "training_claims_random"
_SPLITS: tuple[Split, ...] = (GREEDY, SAMPLED)


@dataclass(frozen=True, slots=True)
class StudyRun:
    """A run of a variant, and the folder of its log."""

    variant: str
    run: TrainingRun
    notes: Path

    @property
    def name(self) -> str:
        """The run's name: recipe and seed."""
        return self.run.experiment.name


def plan_run(
    data: DataFolder,
    judge: JudgeResource,
    embedder: Embedder,
    trainer: PolicyTrainerResource,
    variant: str,
    experiment: Experiment,
) -> StudyRun:
    """Copy the inputs of a run and plan it; health rules only warn, so that it takes all steps.

    Raises:
        TrainingError: an asset that it needs is missing, or no claims are left to hold out.
        ConfigError: its judge does not exist.
    """
    if not data.exists(_RANDOM):  # held-out claims are in neither set: one made later changes them
        raise TrainingError(f"{_RANDOM} is not there. Make it first: decomposerl run {_RANDOM}")
    names = (judge_for(judge, experiment).open().engine, embedder.engine)
    inputs = gather_inputs(data, experiment, names, trainer.prompts_dir)
    _require_held_out(inputs.held_out)
    every = min(trainer.checkpoint_every, _CHECKPOINT_EVERY)
    saving = trainer.model_copy(update={"checkpoint_every": every})
    return StudyRun(variant, saving.plan_run(inputs, stop_unhealthy=False), inputs.notes)


def _require_held_out(path: Path | None) -> None:
    labels = set() if path is None else set(read_parquet(path, ["label"])["label"])
    if not labels >= set(LABELS):
        raise TrainingError(
            "no claims of both labels are left to measure runs on: the training sets hold (nearly) "
            "all of silver_decomposed. Select fewer: decomposerl run funnel -c configs/demo.yaml, "
            "or a smaller budget_per_label of diversity_selected"
        )


def train_runs(
    trainer: PolicyTrainerResource, runs: Sequence[StudyRun], at_once: int, title: str
) -> list[StudyRun]:
    """Train those that are not finished, ``at_once`` at a time; returns them.

    Each distinct run is trained once. All others are trained although one fails.

    Raises:
        TrainingError: a run failed or stopped early; the message has each one's reason.
    """
    distinct = {one.name: one for one in runs}
    waiting = [one for one in distinct.values() if finished_outcome(one.run) is None]
    failed: list[str] = []
    with bar("training runs", len(distinct), "runs", len(distinct) - len(waiting)) as shown:
        for one, status in _processes(trainer, waiting, at_once, title):
            shown.advance(note=one.name)
            failed += _failure(one, status)
    if failed:
        raise TrainingError(
            f"{len(failed)} of {len(waiting)} runs are not finished; the others are kept:\n"
            + "\n".join(failed)
        )
    return waiting


def _processes(
    trainer: PolicyTrainerResource, runs: Sequence[StudyRun], at_once: int, title: str
) -> Iterator[tuple[StudyRun, int]]:
    """Each run with its exit status, as they end."""
    waiting, running = list(runs), dict[str, tuple[StudyRun, Popen[bytes]]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                one = waiting.pop(0)
                running[one.name] = one, _start(trainer, one, title)
            ended = [name for name, (_, process) in running.items() if process.poll() is not None]
            for name in ended:
                one, process = running.pop(name)
                yield one, process.returncode
            if not ended:
                time.sleep(_POLL_S)
    except BaseException:
        with more_time("the training processes are saving checkpoints"):
            for _, process in running.values():
                process.terminate()
            for _, process in running.values():
                end_watched(process, trainer.grace_s)
        raise


def _start(trainer: PolicyTrainerResource, one: StudyRun, title: str) -> "Popen[bytes]":
    log = one.notes / _LOG_FILE
    command = trainer.command(one.run, one.notes)
    with log.open("ab") as output:
        output.write(f"== {title}\n".encode())
        output.flush()
        return start_watched(command, output, trainer.grace_s)


def _failure(one: StudyRun, status: int) -> list[str]:
    log = one.notes / _LOG_FILE
    if status != DONE:
        return [
            f"{one.name} ended with {meaning_of(status)}. Its log is {log}, and ends:\n{tail(log)}"
        ]
    if finished_outcome(one.run) is None:
        return [f"{one.name} stopped early: see the end of {log}"]
    return []


def finished_runs(study: Study, runs: Sequence[StudyRun]) -> tuple[Study, list[StudyRun]]:
    """The part of a study that is trained (``finished_part``), and its runs.

    Raises:
        TrainingError: no two variants can be compared yet.
    """
    done = [one for one in runs if finished_outcome(one.run) is not None]
    seeds: dict[str, list[int]] = {}
    for one in done:
        seeds.setdefault(one.variant, []).append(one.run.experiment.seed)
    part, chosen = finished_part(study, seeds)
    if not part.variants:
        raise TrainingError(
            f"study/{study.name} compares nothing yet: it needs '{study.against.title}' and one "
            f"more variant with the same seed; finished runs: {len(done)} of {len(runs)}"
        )
    titles = {variant.title for variant in part.variants}
    return part, [
        one for one in done if one.variant in titles and one.run.experiment.seed in chosen
    ]


def finished(one: StudyRun) -> TrainingOutcome:
    """The outcome of a run that ``train_runs`` trained.

    Raises:
        TrainingError: it is not finished.
    """
    outcome = finished_outcome(one.run)
    if outcome is None:
        raise TrainingError(f"{one.name} is not finished")
    return outcome


def held_out_outcomes(
    runs: Sequence[StudyRun], judge: Judge, embedder: Embedder, most_cycles: int
) -> pl.DataFrame:
    """What the runs did with held-out claims at both ends, as ``study_table.OUTCOMES``.

    Raises:
        TrainingError: a run is not finished.
        EngineError: judge or embedder is unreachable.
    """
    ruler = _Ruler(judge, embedder, most_cycles)
    frames = []
    with bar("reading runs", len(runs), "runs") as shown:
        for one in runs:
            steps = finished(one).steps
            frames += [
                _of_split(one, ruler, split, end, step).with_columns(steps=pl.lit(steps))
                for (end, step), split in product((("before", 0), ("after", steps)), _SPLITS)
            ]
            shown.advance()
    return pl.concat(frames).select(list(OUTCOMES)).cast(OUTCOMES)


@dataclass(frozen=True, slots=True)
class _Ruler:
    """The whole ensemble, the same for every run."""

    judge: Judge
    embedder: Embedder
    most_cycles: int

    def scores(self, traces: pl.DataFrame, labels: tuple[Verdict, ...]) -> pl.DataFrame:
        """The columns ``SCORED`` of traces with ``evidence``, which may end with ``labels``."""
        rollouts = [
            Rollout(
                group=row["group"],
                number=row["rollout"],
                claim=row["claim"],
                evidence=row["evidence"],
                trace=parse_trace(row["completion"], labels),
                label=row["label"],
                n_star=row["n_star"],
                truncated=row["truncated"],
            )
            for row in traces.iter_rows(named=True)
        ]
        settings = RewardSettings()
        batch = reward_rollouts(rollouts, self.judge, self.embedder, settings, self.most_cycles)
        questions = [float(len(one.trace.cycles)) for one in rollouts]
        columns = {**batch.counted, TOTAL: batch.totals, "questions": questions}
        return pl.DataFrame({name: pl.Series(columns[name], dtype=pl.Float64) for name in SCORED})


def _of_split(one: StudyRun, ruler: _Ruler, split: Split, end: str, step: int) -> pl.DataFrame:
    if one.run.held_out is None:
        raise TrainingError(f"{one.name} held no claims out")
    claims = read_parquet(one.run.held_out).select(
        "evidence", group="claim_id", document=SHARED_EVIDENCE.fill_null(pl.col("claim_id"))
    )
    traces = (
        read_log(one.run.folder, "rollouts", split)
        .filter(pl.col("step") == step, pl.col("rollout") == 0)
        .join(claims, on="group", maintain_order="left")
    )
    if split == SAMPLED:
        scores = ruler.scores(traces, labels_of(one.run.experiment.verdict_rule))
    else:
        scores = pl.DataFrame(schema=dict.fromkeys(SCORED, pl.Float64())).clear(traces.height)
    return traces.select("document", "label", "verdict", claim_id="group").with_columns(
        scores.get_columns(),
        variant=pl.lit(one.variant),
        end=pl.lit(end),
        split=pl.lit(split),
        seed=pl.lit(one.run.experiment.seed),
    )


def training_curves(runs: Sequence[StudyRun]) -> dict[str, list[pl.DataFrame]]:
    """The learning curves of each variant, one frame (``CURVES``) per seed."""
    curves: dict[str, list[pl.DataFrame]] = {}
    for one in runs:
        frame = CURVES.conform(read_parquet(finished(one).curves))
        curves.setdefault(one.variant, []).append(frame)
    return curves
