"""The demo: its jobs make the whole graph, its files fit, and it says what training changed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from rich.console import Console
from toy_corpus import corpus

from dagster_project import demo
from dagster_project.definitions import defs
from dagster_project.jobs import JOBS
from dagster_project.profiles import Profile
from decomposerl.training.curves import MEASURE_NAMES
from decomposerl.training.experiments import experiment
from resources.training.run import TrainingOutcome

ROOT = Path(__file__).resolve().parent.parent
SPLITS = ("held_out_sampled", "held_out_greedy")
ASKED = [("funnel", "demo.yaml"), ("train", "demo_train.yaml"), ("train", "look.yaml")]


def config(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "configs" / name).read_text("utf-8"))
    return found


def keys_of(job: str) -> set[str]:
    layer = defs.resolve_job_def(job).asset_layer
    return {key.to_user_string() for key in layer.selected_asset_keys}


@pytest.mark.parametrize(("job", "file"), ASKED)
def test_each_file_is_a_configuration_of_its_job(job: str, file: str):
    """Every asset and setting that a file names exists, by Dagster's own reading."""
    assert dg.validate_run_config(defs.resolve_job_def(job), config(file))


def test_the_jobs_make_every_asset():
    """Funnel, inputs, training: each asset belongs to one; the catalogue's are built once more."""
    funnel, inputs, train, catalogue = (keys_of(job.name) for job in JOBS)
    every = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert every == funnel | inputs | train
    assert len(every) == len(funnel) + len(inputs) + len(train)
    assert {"base_policy", "training_claims_random"} == inputs
    assert {"policy"} == train
    assert {"attrition", "chat_replies", "catalog"} == catalogue <= funnel


def test_the_demo_trains_a_part_of_its_recipe():
    """Steps are fewer than the recipe's, all else is the recipe's, and claims are held out."""
    (settings,) = config("demo_train.yaml")["ops"].values()
    recipe = experiment(demo._RECIPE)
    assert ["steps"] == list(settings["config"])
    assert 0 < settings["config"]["steps"] < recipe.optimization.steps
    assert recipe.held_out.claims > 0


def test_a_job_without_its_inputs_fails_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Nothing is trained where the funnel left nothing."""
    profile = Profile("embedded", None, tmp_path)
    with dg.instance_for_test() as instance:
        done = demo._Runs(profile, instance).done("train", "demo_train.yaml", demo._RECIPE)
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
    told = demo._told(replace(OUTCOME, after=after))
    found = {(change.split, change.measure.name) for change in told}
    expected = {("held_out_sampled", name) for name in demo._TOLD}
    assert expected | {("held_out_greedy", "balanced_accuracy")} == found
    assert {0.5} == {change.difference for change in told}


def test_a_run_that_stopped_has_no_difference_to_tell():
    """What was measured before it still is shown."""
    told = demo._told(OUTCOME)
    assert told
    assert {None} == {change.difference for change in told}
