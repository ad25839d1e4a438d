"""The demo: its jobs make the whole graph, its files fit, training and evaluation are printed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from rich.console import Console

from dagster_project import demo
from dagster_project.definitions import defs
from dagster_project.demo import baselines, policy
from dagster_project.job_runs import JobRuns, read_config
from dagster_project.jobs import JOBS
from dagster_project.profiles import Profile
from decomposerl.baselines.catalogue import METHODS
from decomposerl.training.curves import MEASURE_NAMES
from decomposerl.training.experiments import experiment
from resources.store.parquet import DataFolder
from resources.training.process import TrainingOutcome
from toy_corpus import corpus

SPLITS = ("held_out_sampled", "held_out_greedy")
ASKED = [
    ("funnel", "demo.yaml"),
    ("train", "demo_train.yaml"),
    ("train", "look.yaml"),
    ("evaluate", "demo_evaluate.yaml"),
    ("evaluate", "evaluate_short.yaml"),
]


def keys_of(job: str) -> set[str]:
    layer = defs.resolve_job_def(job).asset_layer
    return {key.to_user_string() for key in layer.selected_asset_keys}


@pytest.mark.parametrize(("job", "file"), ASKED)
def test_each_file_is_a_configuration_of_its_job(job: str, file: str):
    """Every asset and setting that a file names exists, by Dagster's own reading."""
    assert dg.validate_run_config(defs.resolve_job_def(job), read_config(file))


def test_the_jobs_make_every_asset():
    """Each asset belongs to one job; the catalogue's and the test sets are read once more."""
    made = {job.name: keys_of(job.name) for job in JOBS}
    every = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    again = {name: made.pop(name) for name in ("test_sets", "catalogue")}
    assert every == set().union(*made.values())
    assert len(every) == sum(map(len, made.values()))
    assert {"base_policy", "training_claims_random"} == made["training_inputs"]
    assert {"policy"} == made["train"]
    assert {"leaderboard", "comparison"} == made["rank"]
    assert {"attrition", "chat_replies", "catalog"} == again["catalogue"] <= made["funnel"]
    assert again["test_sets"] == {key for key in made["funnel"] if key.startswith("benchmark/")}


def test_the_demo_trains_a_part_of_its_recipe():
    """Steps and held-out claims are fewer than the recipe's, all else is the recipe's."""
    (settings,) = read_config("demo_train.yaml")["ops"].values()
    recipe = experiment(demo._RECIPE)
    assert ["steps", "held_out_claims"] == list(settings["config"])
    assert 0 < settings["config"]["steps"] < recipe.optimization.steps
    assert 0 < settings["config"]["held_out_claims"] < recipe.held_out.claims


@pytest.mark.parametrize("file", [file for job, file in ASKED if job == "evaluate"])
def test_a_part_of_every_test_set_is_asked(file: str):
    """No test set is forgotten, which would be asked whole; each part has both labels."""
    asked = read_config(file)["ops"]
    assert set(asked) == {
        key.replace("/", "__") for key in keys_of("evaluate") if key.startswith("predictions/")
    }
    assert all(settings["config"]["limit"] >= 2 for settings in asked.values())


def test_the_demo_evaluates_every_baseline_and_its_policy():
    """Each method once, as published, and the policy."""
    assert [method.name for method in METHODS] == [one.partition("-")[0] for one in baselines()]
    assert [] == [one for one in baselines() if "single_call" in one]
    assert "decomposerl-tiny" == policy()


@dataclass
class NotedRuns(JobRuns):
    """Notes the partitions that are run with checks, and those without; ranking fails."""

    checked: list[str | None] = field(default_factory=list)
    unchecked: list[str | None] = field(default_factory=list)

    def run(
        self,
        job: str,
        config: Mapping[str, Any] | None = None,
        partition: str | None = None,
        log_level: str = "INFO",
        *,
        checks: bool = True,
    ) -> bool:
        """Whether it is an evaluation."""
        assert log_level == ("ERROR" if partition else "INFO")
        assert bool(config) == (partition == policy())
        (self.checked if checks else self.unchecked).append(partition)
        return job == "evaluate"


def test_checks_of_predictions_run_once(tmp_path: Path):
    """They are steps of every test set; what they show at the end is the last system's."""
    runs, profile = NotedRuns(), Profile("embedded", None, tmp_path)
    folder = DataFolder(base_dir=str(tmp_path))
    assert demo._evaluate(runs, folder, profile, Console(quiet=True)) is None
    assert baselines() == runs.unchecked
    assert [policy(), None] == runs.checked


def test_a_job_can_be_run_without_its_checks(tmp_path: Path):
    """Its assets are made all the same, and no check is recorded."""
    with dg.instance_for_test() as instance:
        runs = JobRuns(Profile("embedded", None, tmp_path), instance)
        for checks in (False, True):
            assert runs.run("rank", log_level="ERROR", checks=checks)
        logs = [instance.all_logs(run.run_id) for run in instance.get_runs()]
    kinds = [[one.get_dagster_event().event_type_value for one in log if one.is_dagster_event]
             for log in logs]  # fmt: skip
    assert [2, 0] == [events.count("ASSET_CHECK_EVALUATION") for events in kinds]
    assert [2, 2] == [events.count("ASSET_MATERIALIZATION") for events in kinds]


def test_a_job_without_its_inputs_fails_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Nothing is trained where the funnel left nothing."""
    profile = Profile("embedded", None, tmp_path)
    with dg.instance_for_test() as instance:
        done = JobRuns(profile, instance).run("train", read_config("demo_train.yaml"), demo._RECIPE)
    assert not done
    assert "training_claims.parquet is not there" in capsys.readouterr().err
    assert [] == list(tmp_path.glob("policy*"))


def test_a_demo_that_fails_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A corpus that cannot be read ends it with 1, before anything is trained."""
    profile = Profile("embedded", corpus(tmp_path / "corpora", claims=3), tmp_path / "data")
    (tmp_path / "corpora/toy/claims.jsonl").write_bytes(b"\xff\xfe{")
    with dg.instance_for_test() as instance:
        assert 1 == demo.show(profile, instance, Console())
    assert "the run failed" in capsys.readouterr().out
    assert not (profile.data / "base_policy").exists()


OUTCOME = TrainingOutcome(
    steps=20,
    resumed_from=0,
    stopped="",
    adapter=Path("adapter"),
    curves=Path("curves.parquet"),
    before={f"{split}/{name}": 0.25 for split in SPLITS for name in MEASURE_NAMES},
    after={},
    seconds={},
    judge={"engine": "rules"},
    versions={},
)


def test_what_training_changed_is_told_in_few_lines():
    """Rewards of sampled claims and the accuracy of greedy ones, with their differences."""
    after = {key: value + 0.5 for key, value in OUTCOME.before.items()}
    changes = demo._changes(replace(OUTCOME, after=after))
    found = {(change.split, change.measure.name) for change in changes}
    expected = {("held_out_sampled", name) for name in demo._HELD_OUT}
    assert expected | {("held_out_greedy", "balanced_accuracy")} == found
    assert {0.5} == {change.difference for change in changes}


def test_a_run_that_stopped_has_no_difference_to_tell():
    """What was measured before it still is shown."""
    changes = demo._changes(OUTCOME)
    assert changes
    assert {None} == {change.difference for change in changes}
