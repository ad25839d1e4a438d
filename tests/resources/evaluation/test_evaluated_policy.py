"""Which weights of a trained policy are evaluated, read from its folder."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import ConfigError
from decomposerl.evaluation.systems import system_named
from decomposerl.schemas import CURVES
from decomposerl.training.curves import CurvePoint, curve_rows
from leaderboard_parts import SYSTEMS
from resources.evaluation.trained_policy import chosen_facts, chosen_policy
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome

MEASURED = {0: 0.99, 10: 0.7, 15: 0.85, 20: 0.9, 30: 0.8}


@pytest.fixture
def data(tmp_path: Path) -> DataFolder:
    """A run of 30 steps that kept checkpoints of 10, 20 and 25, and measured at 15 as well."""
    run = RunFolder(tmp_path / "policy/tiny")
    rows = [
        curve_rows("run", "tiny", step, "held_out_greedy", {"balanced_accuracy": CurvePoint(score)})
        for step, score in MEASURED.items()
    ]
    write_parquet(CURVES.conform(pl.concat(rows)), run.curves)
    for step in (10, 20, 25):
        (run.path / f"checkpoints/step-{step:06d}").mkdir(parents=True)
    for step in (0, 15):
        run.adapter_at(step).mkdir()
    (run.path / "adapter_step_20.partial").mkdir()
    outcome = TrainingOutcome(30, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {})
    write_outcome(run, outcome)
    return DataFolder(base_dir=str(tmp_path))


def test_the_final_adapter_is_taken_unless_asked_otherwise(data: DataFolder):
    """The folder that the run ended with, and what it measured on held-out claims."""
    chosen = chosen_policy(data, "tiny")
    assert data.path / "policy/tiny/adapter" == chosen.adapter
    assert (30, 0.8) == (chosen.selected.step, chosen.selected.dev_score)


def test_the_best_kept_checkpoint_can_be_asked_for(data: DataFolder):
    """Its own folder; one that was kept but not measured is not weighed."""
    chosen = chosen_policy(data, "tiny", "best_on_dev")
    assert data.path / "policy/tiny/checkpoints/step-000020" == chosen.adapter
    assert (20, 4) == (chosen.selected.step, chosen.selected.candidates)


def test_the_adapter_of_a_measured_step_can_be_chosen(data: DataFolder):
    """Long after its checkpoint was removed; never the one from before training."""
    shutil.rmtree(data.path / "policy/tiny/checkpoints")
    chosen = chosen_policy(data, "tiny", "best_on_dev")
    assert data.path / "policy/tiny/adapter_step_15" == chosen.adapter
    assert (15, 2) == (chosen.selected.step, chosen.selected.candidates)


def test_what_was_chosen_is_told_of_policies_alone(data: DataFolder):
    """Step, rule and measure; a baseline has no weights of ours."""
    facts = chosen_facts(data, system_named("decomposerl-tiny", SYSTEMS), "best_on_dev")
    assert (20, "best_on_dev", 0.9) == (
        facts["checkpoint"],
        facts["checkpoint rule"],
        facts["held-out balanced accuracy"],
    )
    assert {} == chosen_facts(data, system_named("minicheck-lexical", SYSTEMS), "final")


def test_a_policy_that_was_not_trained_is_named_with_its_command(tmp_path: Path):
    """No folder is no error of the reader's."""
    with pytest.raises(ConfigError, match="decomposerl train tiny"):
        chosen_policy(DataFolder(base_dir=str(tmp_path)), "tiny")
