"""``decomposerl rehearse``: the chosen profile in miniature, before anyone pays for a long run.

Runs the jobs of a full run on eight claims with the profile's own engines: the funnel's model
stages, two GRPO steps, the adapter and the verifier on two test sets, the leaderboard. Everything
lies in ``<data>/rehearsal``, which is made anew, so no stored result hides a fault; the runs are
recorded in memory only. Thresholds are open, so that claims reach every stage. A part that fails
raises ``StepFailed``.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from dagster_project.doctor import check_profile, estimates_for
from dagster_project.environment import corpora_for, with_data_folder
from dagster_project.job_runs import JobRuns
from dagster_project.run_errors import failure_of
from dagster_project.settings import FILE, Settings
from dagster_project.training_estimate import training_amounts, training_estimate
from decomposerl.errors import ConfigError
from decomposerl.evaluation.scored_claims import evaluation_subset
from decomposerl.evaluation.systems import POLICY_METHOD, VERIFIERS
from decomposerl.prompts.judge import TASKS
from decomposerl.reports.cost import Port
from decomposerl.reports.rehearsal import (
    Rehearsal,
    RehearsedStep,
    at_measured_rates,
    training_sentence,
)
from decomposerl.training.experiment import Experiment
from resources.chat.reply_store import REPLIES_FILE
from resources.hub.locks import models_lock
from resources.preflight.probes import PeakMemory
from resources.store.chat_replies import replies_in
from resources.store.integrity import record_again
from resources.store.parquet import DataFolder, write_parquet
from resources.training.metrics_log import PHASES
from resources.training.process import TrainingOutcome
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, read_outcome

_RESOURCES: dict[str, tuple[str, ...]] = {
    "funnel": ("tokens", "entities", "verifier", "embedder", "decomposer"),
    "train": ("judge", "question_embedder", "policy_trainer"),
    "evaluate": ("evaluation_model", "verifier"),
}
"""The resources of each job that ``--config`` may change."""
Say = Callable[[RehearsedStep], None]


class StepFailed(Exception):  # noqa: N818 - the name is what happened
    """A step failed; the message is the sentence for the user."""


@dataclass(frozen=True)
class Done:
    """What a job did: the metadata of each asset that it materialized, and the first failure."""

    facts: dict[str, dict[str, Any]]
    peak: int | None
    failure: str

    def require(self) -> None:
        """Raise if a step failed.

        Raises:
            StepFailed: with its name and its error.
        """
        if self.failure:
            raise StepFailed(self.failure)


@dataclass
class Stage:
    """What a rehearsal works with."""

    settings: Settings
    recipe: Experiment
    config: Mapping[str, Any]
    runs: JobRuns
    folder: DataFolder
    say: Say
    steps: list[RehearsedStep]

    def add(self, step: RehearsedStep) -> None:
        """A step ended."""
        self.steps.append(step)
        self.say(step)

    def run(
        self,
        job: str,
        ops: Mapping[str, Any],
        wanted: Callable[[str], bool] | None = None,
        partition: str | None = None,
    ) -> Done:
        """Run a job, or what is ``wanted`` of it.

        Raises:
            ConfigError: the configuration does not fit the job.
        """
        own = self.config.get("resources") or {}
        engines = {name: own[name] for name in _RESOURCES.get(job, ()) if name in own}
        given = {name: {"config": values} for name, values in ops.items()}
        config = {"ops": given, **({"resources": engines} if engines else {})}
        with PeakMemory() as peak:
            result = self.runs.execute(
                job, config, partition, "CRITICAL", checks=False, wanted=wanted
            )
        return Done(_materialized(result), peak.mib, failure_of(result))

    def cut(self, key: str, kept: pl.DataFrame) -> None:
        """Leave these rows of a table, and record it as they are."""
        file = self.folder.path / f"{key}.parquet"
        write_parquet(kept, file)
        record_again(self.folder.path, key, file)


def refuse_configuration(config: Mapping[str, Any]) -> None:
    """Refuse parts that no job of a rehearsal reads.

    Raises:
        ConfigError: there is one, or ``resources`` is no mapping.
    """
    if unknown := sorted(set(config) - {"resources"}):
        raise ConfigError(f"a rehearsal's configuration has 'resources' only, not '{unknown[0]}'")
    given = config.get("resources") or {}
    if not isinstance(given, dict):
        raise ConfigError("'resources' of a rehearsal's configuration must be a mapping")
    known = sorted({name for names in _RESOURCES.values() for name in names})
    if unknown := sorted(set(given) - set(known)):
        raise ConfigError(f"there is no resource '{unknown[0]}' to change; {', '.join(known)} are")


def _materialized(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """The metadata of each materialized asset, in the order of the run."""
    return {
        event.asset_key.to_user_string(): {
            name: value.value
            for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    }


@contextmanager
def timed() -> Iterator[list[float]]:
    """A list that holds the seconds of the block when it has ended."""
    spent, started = [0.0], time.perf_counter()
    try:
        yield spent
    finally:
        spent[0] = time.perf_counter() - started


CLAIMS, TEST_CLAIMS, TEST_SETS, STEPS = 8, 4, 2, 2
_COUNTED = ("calls", "prompt_tokens", "completion_tokens", "busy_s")
_WORDS = 7_500  # about 10,000 tokens, the most that the funnel keeps
_OPEN: dict[str, dict[str, Any]] = {
    "rule_filtered": {
        "min_sentences": 0,
        "min_tokens": 0,
        "overlap_filter": False,
        "min_entities": 0,
    },
    "difficulty_band": {"low": 0.0, "high": 1.0},
    "deduplicated": {"jaccard": 1.0, "cosine": 1.0},
    "decontaminated": {"jaccard": 1.0, "cosine": 1.0},
    "silver_decomposed": {"min_questions": 1},
    "diversity_selected": {"budget_per_label": CLAIMS // 4},
}
"""Settings that keep nearly every claim; half are selected, the others are held out."""
PORTS: dict[str, Port] = {
    "rule_filtered": "entities",
    "difficulty_band": "verifier",
    "deduplicated": "embedder",
    "silver_decomposed": "decomposer",
    "judge": "judge",
}
_SUMMED = ("seconds", "engine calls", *(f"chat {name}" for name in _COUNTED))
_MODEL_STAGES = tuple(_OPEN)[:-1]


def doctor(stage: Stage) -> None:
    """Everything that the profile needs is here."""
    with timed() as spent:
        page = check_profile(stage.settings, stage.recipe.name)
    for one in page.findings:
        if one.state == "missing":
            raise StepFailed(f"doctor: {one.part} {one.what}: {one.said}; {one.fix}")
    stage.add(RehearsedStep("doctor", "", spent[0], note=f"{len(page.findings)} checks"))


def read(stage: Stage) -> None:
    """All corpora are read; a few claims and test claims of them stay."""
    with timed() as spent:
        stage.run("funnel", {}, lambda key: key.startswith(("claims/", "benchmark/"))).require()
        kept = _cut_claims(stage)
        tests = _cut_test_sets(stage)
    if kept < CLAIMS // 2 or not tests:
        raise StepFailed(
            f"the corpora: {kept} claims with a label and evidence and {len(tests)} test sets; "
            f"{CLAIMS // 2} and 1 are needed"
        )
    note = f"{kept} claims stay; test sets {', '.join(tests)}"
    stage.add(RehearsedStep("corpora", "", spent[0], note=note))


def _cut_claims(stage: Stage) -> int:
    """Keep the longest claim that the funnel would keep, and others at random; their number."""
    names = [source.name for source in corpora_for(stage.settings)[0]]
    every = {name: stage.folder.read(f"claims/{name}") for name in names}
    words = pl.col("evidence").str.count_matches(r"\S+")
    pool = pl.concat(every.values()).with_columns(_words=words).filter(pl.col("_words") <= _WORDS)
    longest = pool.sort("_words", "claim_id", descending=True).head(1)["claim_id"].to_list()
    drawn = evaluation_subset(pool, CLAIMS).claims["claim_id"].to_list()
    kept = list(dict.fromkeys([*longest, *drawn]))[:CLAIMS]
    for name, frame in every.items():
        stage.cut(f"claims/{name}", frame.filter(pl.col("claim_id").is_in(kept)))
    return len(kept)


def _cut_test_sets(stage: Stage) -> list[str]:
    """Keep a few claims of the first test sets that have some, and none of the others."""
    kept: list[str] = []
    for name in _test_sets(stage.settings):
        claims = stage.folder.read(f"benchmark/{name}")
        chosen = evaluation_subset(claims, TEST_CLAIMS).claims
        if len(kept) == TEST_SETS or chosen.is_empty():
            chosen = claims.clear()
        else:
            kept.append(name)
        stage.cut(f"benchmark/{name}", chosen)
    return kept


def curate(stage: Stage) -> None:
    """The funnel's stages, those with a model in runs of their own, so that each has its peak."""
    for name in _MODEL_STAGES:
        own = {name: _OPEN[name]}
        done = stage.run("funnel", own, name.__eq__)
        done.require()
        facts = done.facts[name]
        kept = f"{facts.get('dagster/row_count', 0)} claims stay"
        stage.add(_step(name, facts, done.peak, kept))
    others = {"attrition", "catalog", "chat_replies", *_MODEL_STAGES}
    rest = {name: values for name, values in _OPEN.items() if name not in _MODEL_STAGES}
    stage.run("funnel", rest, lambda key: "/" not in key and key not in others).require()
    training = stage.folder.read("training_claims").height
    needed = stage.recipe.grpo.global_batch // stage.recipe.grpo.group_size
    if training < needed:
        raise StepFailed(
            f"silver_decomposed: {training} claims are left for training, and a step needs {needed}"
            "; see the replies in chat_cache.sqlite"
        )


def train(stage: Stage) -> None:
    """Two GRPO steps in the trainer's own process."""
    if stage.recipe.on_tiny_base or stage.recipe.claims != "training_claims":
        stage.run("training_inputs", {}).require()
    name = stage.recipe.name
    short = {"steps": STEPS, "held_out_claims": 2, "stop_unhealthy": False}
    with timed() as spent:
        done = stage.run("train", {"policy": short | {"most_judge_failures": 1.0}}, None, name)
    done.require()
    outcome = read_outcome(RunFolder(policy_folder(stage.folder, name)))
    per_step = seconds_per_step(outcome)
    note = f"{outcome.steps} steps of {per_step:,.1f} s, adapter saved"
    generation = stage.settings.training.generation
    stage.add(RehearsedStep("policy", generation, spent[0], gpu_mib=done.peak, note=note))
    stage.add(_judging(stage, outcome))


def _judging(stage: Stage, outcome: TrainingOutcome) -> RehearsedStep:
    """The judge's calls in training, held-out claims included, and their tokens."""
    engine, calls = str(outcome.judge["engine"]), int(outcome.judge["calls"])
    failed = int(outcome.judge["failed"])
    replies = replies_in(stage.folder.path / "engine_results" / REPLIES_FILE)
    judged = replies.filter(pl.col("template").str.contains(f"^(?:{'|'.join(TASKS)})"))
    tokens = int((judged["prompt_tokens"] + judged["completion_tokens"]).sum())
    curves = stage.folder.read(f"policy/{stage.recipe.name}/curves")
    seconds = float(curves.filter(measure="seconds_judging")["mean"].sum())
    note = f"{failed:,} of {calls:,} without a ruling" if failed else "every call has a ruling"
    return RehearsedStep("judge", engine, seconds, calls, tokens, seconds, note=note)


def evaluate(stage: Stage) -> None:
    """The adapter, then the verifier, on the test sets that are left."""
    sets = [
        name for name in _test_sets(stage.settings) if stage.folder.read(f"benchmark/{name}").height
    ]
    keys = {f"{table}/{name}" for table in ("predictions", "scores") for name in sets}
    verifier = stage.settings.verifier.engine
    model = next(one for one in VERIFIERS if one.requested == verifier)
    for system in (f"{POLICY_METHOD}-{stage.recipe.name}", f"minicheck-{model.key}"):
        done = stage.run("evaluate", {}, keys.__contains__, system)
        done.require()
        facts = [one for key, one in done.facts.items() if key.startswith("predictions/")]
        added = {name: sum(one.get(name, 0) for one in facts) for name in _SUMMED}
        rows = [stage.folder.read(f"predictions/{name}/{system}").height for name in sets]
        note = f"{sum(rows)} test claims of {len(sets)} sets"
        stage.add(_step(system, {**facts[0], **added}, done.peak, note))


def rank(stage: Stage) -> None:
    """The leaderboard has both systems."""
    with timed() as spent:
        stage.run("rank", {}).require()
    rows = stage.folder.read("leaderboard").filter(pl.col("engine").is_not_null())
    note = f"{rows['system'].n_unique()} systems"
    stage.add(RehearsedStep("leaderboard", "", spent[0], note=note))


def seconds_per_step(outcome: TrainingOutcome) -> float:
    """Mean wall time of an optimizer step, rollouts and rewards included."""
    return sum(outcome.seconds[phase] for phase in PHASES) / max(outcome.steps, 1)


def _step(key: str, facts: Mapping[str, Any], peak: int | None, note: str) -> RehearsedStep:
    """A step from the metadata of its asset."""
    tokens = int(facts.get("chat prompt_tokens", 0)) + int(facts.get("chat completion_tokens", 0))
    calls = int(facts.get("chat calls", 0)) or int(facts.get("engine calls", 0))
    busy = float(facts.get("chat busy_s", 0.0))
    engine, seconds = str(facts["engine"]), float(facts["seconds"])
    return RehearsedStep(key, engine, seconds, calls, tokens, busy, peak, note)


def _test_sets(settings: Settings) -> list[str]:
    return [benchmark.name for benchmark in corpora_for(settings)[1]]


FOLDER = "rehearsal"


def rehearse(
    settings: Settings, recipe: Experiment, say: Say, config: Mapping[str, Any] | None = None
) -> Rehearsal:
    """Run every step until one fails; each is passed to ``say`` when it ends.

    ``config`` has ``resources``, as the run configuration of a job.

    Raises:
        ConfigError: the configuration has a part that no job of it reads.
    """
    refuse_configuration(config or {})
    steps: list[RehearsedStep] = []
    with _stage(settings, recipe, say, config or {}, steps) as stage:
        try:
            for part in (doctor, read, curate, train, evaluate, rank):
                part(stage)
        except StepFailed as error:
            failure = f"the rehearsal failed at {error}"
            return Rehearsal(settings.profile, recipe.name, tuple(steps), failure=failure)
        hours = _training_hours(settings, stage)
    estimates = (*estimates_for(settings), training_estimate(settings, recipe.name))
    measured = {PORTS[step.step]: step for step in steps if step.step in PORTS}
    timed = at_measured_rates(estimates, measured)
    return Rehearsal(settings.profile, recipe.name, tuple(steps), timed, hours)


@contextmanager
def _stage(
    settings: Settings,
    recipe: Experiment,
    say: Say,
    config: Mapping[str, Any],
    steps: list[RehearsedStep],
) -> Iterator[Stage]:
    """An empty data folder, and runs that are recorded in memory."""
    data = settings.paths.data / FOLDER
    kept = (Path(models_lock(settings.paths.data)), settings.paths.data / FILE)
    if data.exists():
        shutil.rmtree(data)
    data.mkdir(parents=True)
    for file in filter(Path.is_file, kept):  # the full run's commits and settings are rehearsed
        shutil.copyfile(file, data / file.name)
    with (
        with_data_folder(settings, data) as small,
        dg.DagsterInstance.ephemeral() as instance,
    ):
        runs, folder = JobRuns(small, instance), DataFolder(base_dir=str(data))
        yield Stage(small, recipe, config, runs, folder, say, steps)


def _training_hours(settings: Settings, stage: Stage) -> str:
    """The hours of the recipe's full run at the measured seconds of a step."""
    outcome = read_outcome(RunFolder(policy_folder(stage.folder, stage.recipe.name)))
    per_step = seconds_per_step(outcome)
    amounts = training_amounts(stage.recipe, settings.paths.data, per_step)
    whole = sum(outcome.seconds[phase] for phase in PHASES)
    share = outcome.seconds["judging"] / whole if whole else 0.0
    return training_sentence(amounts, per_step, share)
