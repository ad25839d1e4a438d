"""The studies of trained policies: what is trained, and their tables."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import polars as pl
import pytest

from assets.studies import training_study_asset
from assets.training import policy_asset
from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from decomposerl.reports.study_report import JudgeSpeeds
from decomposerl.schemas import (
    SILVER_DECOMPOSED,
    TRAINING_CLAIMS,
    TRAINING_STUDY,
)
from decomposerl.training.experiments import EXPERIMENTS
from decomposerl.training.studies import Study, studied
from environment import lacking
from project import PYTHONPATH
from resources.policy_tiny.folder import load_base_policy
from resources.store.parquet import DataFolder, write_parquet
from resources.training.resource import PolicyTrainerResource
from resources.training.study_runs import plan_run, train_runs
from strategies import example_row, frame_of
from study_outcomes import study_named

EPOCHS = study_named("epochs")
_FULL, *_REMOVED = study_named("rewards").variants
REWARDS = replace(
    study_named("rewards"),
    variants=(_FULL, *(one for one in _REMOVED if one.moves in {"diversity", "verification"})),
)
"""Three of its eight variants."""
HELD_OUT = 40
SPEEDS: JudgeSpeeds = {"profile": 2_150.0, "tiny": 375_570.0}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Claims with a base of a few bytes, and a journal of the training processes."""
    silver = [
        example_row(claim=f"Ilva opened bridge {n}", label=("Supported", "Refuted")[n % 2],
                    evidence=f"Ilva opened it. Torbeck has a river. It was {1900 + n}.")
        for n in range(HELD_OUT + 8)
    ]  # fmt: skip
    pool = frame_of(SILVER_DECOMPOSED, silver)
    write_parquet(pool, tmp_path / "silver_decomposed.parquet")
    for name, first in (("training_claims", 0), ("training_claims_random", 4)):
        rows = slice(first, first + 4)
        frame = frame_of(TRAINING_CLAIMS, silver[rows]).with_columns(pool["claim_id"][rows])
        write_parquet(frame, tmp_path / f"{name}.parquet")
    (tmp_path / "base_policy_clean").mkdir()
    (tmp_path / "base_policy_clean/config.json").write_text("{}")
    for journal in ("fail", "slow", "started"):
        (tmp_path / journal).touch()
    return tmp_path


def stand_in() -> PolicyTrainerResource:
    """Starts the stand-in in place of the worker."""
    paths = f"PYTHONPATH={PYTHONPATH}"
    return PolicyTrainerResource(
        module="study_stand_in", python="env", launch=[paths, sys.executable], grace_s=10
    )


def materialize(
    study: Study,
    data: Path,
    trainer: PolicyTrainerResource | None = None,
    **config: Any,  # noqa: ANN401
) -> dg.ExecuteInProcessResult:
    profile = read_settings({"DECOMPOSERL_DATA": str(data)})
    trained = {"policy_trainer": trainer or stand_in()}
    return dg.materialize(
        [training_study_asset(study, SPEEDS, None)],
        resources=resources_for(profile) | trained,
        run_config={"ops": {f"study__{study.name}": {"config": config}}},
        raise_on_error=False,
    )


def started(data: Path) -> list[str]:
    return (data / "started").read_text("utf-8").split()


def metadata(result: dg.ExecuteInProcessResult, study: Study) -> dict[str, Any]:
    events = result.get_asset_materialization_events()
    (made,) = [one for one in events if one.asset_key == dg.AssetKey(["study", study.name])]
    return {name: one.value for name, one in made.materialization.metadata.items()}


def failure(result: dg.ExecuteInProcessResult) -> str:
    """What the failed step said."""
    (failed,) = result.get_step_failure_events()
    return str(failed.step_failure_data.error)


def test_a_study_trains_what_is_missing_and_shows_what_moved(data: Path):
    """Every variant with every seed once, two at a time; each removed reward in its own measure.

    What is trained makes a table before the rest is. A second seed trains only the new runs, and
    runs of ``policy`` are on its page.
    """
    recipes = {variant.embedded for variant in REWARDS.variants}
    (data / "fail").write_text("tiny_no_diversity")
    result = materialize(REWARDS, data, seeds=1, at_once=2)
    assert not result.success
    assert sorted(recipes) == sorted(started(data))
    (data / "fail").write_text("")
    shown = metadata(materialize(REWARDS, data, seeds=2, train=False), REWARDS)
    assert len(recipes) == len(started(data))
    assert "without diversity" in shown["study"]
    assert {"tiny_no_diversity", "tiny_clean-seed_1"} < set(shown["runs left"].split(", "))
    table = TRAINING_STUDY.conform(pl.read_parquet(data / "study/rewards.parquet"))
    assert {"all seven rewards", "without verification"} == set(table["variant"])
    assert {1} == set(table["seeds"])
    done = materialize(REWARDS, data, seeds=2)
    whole = metadata(done, REWARDS)
    assert ("none", False) == (whole["runs left"], "missing" in whole["study"])
    new = ["tiny_no_diversity", *(f"{recipe}-seed_1" for recipe in sorted(recipes))]
    assert sorted([*recipes, *new]) == sorted(started(data))
    parts = policy_asset(EXPERIMENTS, None).partitions_def.get_partition_keys()
    assert recipes | {variant.embedded for variant in EPOCHS.variants} <= set(parts)
    events = done.get_asset_materialization_events()
    policies = [one.partition for one in events if one.asset_key == dg.AssetKey("policy")]
    assert sorted({*new} & {*parts}) == sorted(policies)
    table = TRAINING_STUDY.conform(pl.read_parquet(data / "study/rewards.parquet"))
    assert {(2, HELD_OUT)} == set(table.select("seeds", "claims").rows())
    moved = table.filter(pl.col("own_measure") & (pl.col("difference") < -0.1))
    pairs = {(f"without {name}", name) for name in ("diversity", "verification")}
    assert pairs == {*moved.select("variant", "measure").iter_rows()}
    lost = table.filter(variant="without verification", measure="balanced_accuracy")
    assert lost["claims_high"].drop_nulls().max() < 0
    for ending in ("png", "svg", "txt"):
        assert (data / f"studies/rewards.{ending}").stat().st_size
        assert (data / f"studies/rewards_curves.{ending}").stat().st_size


def test_a_run_that_fails_stops_no_other_and_is_trained_by_the_next_start(data: Path):
    """The error has its name, status and last lines; one variant alone is no comparison.

    The page has the paper's rows and its form. A shorter study has folders of its own: the
    finished runs stay and are not trained again.
    """
    (data / "fail").write_text("tiny_clean")
    said = failure(materialize(EPOCHS, data, seeds=1))
    for words in ("1 of 2 runs", "tiny_clean", "exit status 2", "the judge does not answer"):
        assert words in said
    assert ["tiny_clean", "tiny_one_epoch"] == started(data)
    alone = failure(materialize(EPOCHS, data, seeds=1, train=False))
    assert [] == lacking(alone, "'whole budget'", "finished runs: 1 of 2")
    (data / "fail").write_text("")
    shown = metadata(materialize(EPOCHS, data, seeds=1), EPOCHS)
    assert ["tiny_clean"] == started(data)[2:]
    assert "1 seed, 15 or 30 steps, 40 held-out claims; engine: rule_judge" in shown["study"]
    assert "base_policy_clean" in shown["study"]
    assert "86.2 (-0.1)" in shown["variants"].replace("\\", "")
    assert [] == lacking(shown["in the paper's form"], "decomposerl train one_epoch", "123.3")
    assert 1 == shown["runs trained now"]
    assert materialize(EPOCHS, data, seeds=1, steps=4, held_out_claims=8).success
    names = {"tiny_clean", "tiny_one_epoch"}
    names |= {"tiny_clean-steps_4-claims_8", "tiny_one_epoch-steps_2-claims_8"}
    assert names == {path.name for path in (data / "policy").iterdir() if path.is_dir()}
    assert 0 == metadata(materialize(EPOCHS, data, seeds=1), EPOCHS)["runs trained now"]


def test_an_interrupted_study_ends_every_process_that_it_started(data: Path):
    """Each run is asked to end, so that it saves a checkpoint; the next start goes on."""
    names = ("tiny_clean", "tiny_one_epoch")
    (data / "slow").write_text(" ".join(names))
    waiting = [data / f"waiting-{name}" for name in names]

    def interrupt_once_both_run() -> None:
        while not all(path.exists() for path in waiting):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    profile = read_settings({"DECOMPOSERL_DATA": str(data)})
    of_profile, trainer = resources_for(profile), stand_in()
    folder, embedder = DataFolder(base_dir=str(data)), of_profile["question_embedder"].open()
    trained = [(variant.title, one) for variant in EPOCHS.variants for one in studied(variant, 1)]
    judge = of_profile["judge"]
    runs = [plan_run(folder, judge, embedder, trainer, title, one) for title, one in trained]
    Thread(target=interrupt_once_both_run, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        train_runs(trainer, runs, 2, "a test")
    assert all((data / f"ended-{name}").exists() for name in names)
    (data / "slow").write_text("")
    assert runs == train_runs(trainer, runs, 2, "a test")
    assert [] == train_runs(trainer, runs, 2, "a test")


def test_a_study_that_cannot_be_made_is_refused_before_anything_trains(data: Path):
    """A judge that is not there, no claim to hold out, no random set, whose claims none may be."""
    assert "tiny judge" in failure(materialize(study_named("judge"), data, seeds=1))
    silver = pl.read_parquet(data / "silver_decomposed.parquet")
    write_parquet(silver.head(8), data / "silver_decomposed.parquet")
    assert "configs/demo.yaml" in failure(materialize(EPOCHS, data, seeds=1))
    (data / "training_claims_random.parquet").unlink()
    said = failure(materialize(EPOCHS, data, seeds=1))
    assert "decomposerl run training_claims_random" in said
    assert [] == started(data)


def test_the_miniature_trains_for_real(data: Path):
    """Two seeds from the clean base: the project's own worker and engines train one run a variant.

    The other seed of each is a stand-in's, so that a table needs two real runs and not four. What
    the real ones logged is measured as theirs is.
    """
    load_base_policy(data / "base_policy_clean", "base_policy_clean")
    profile = read_settings({"DECOMPOSERL_DATA": str(data)})
    settings = [f"DECOMPOSERL_DATA={data}", f"PYTHONPATH={PYTHONPATH}", sys.executable]
    changed = {"python": "env", "launch": settings}
    worker = resources_for(profile)["policy_trainer"].model_copy(update=changed)
    short = {"seeds": 2, "steps": 1, "held_out_claims": 4, "at_once": 2}
    real = ["tiny_clean-steps_1-claims_4", "tiny_one_epoch-seed_1-steps_1-claims_4"]
    (data / "fail").write_text(" ".join(real))
    assert not materialize(EPOCHS, data, **short).success
    result = materialize(EPOCHS, data, worker, **short)
    assert result.success, result.get_step_failure_events()
    assert 2 == metadata(result, EPOCHS)["runs trained now"]
    table = TRAINING_STUDY.conform(pl.read_parquet(data / "study/epochs.parquet"))
    assert {(2, 4)} == set(table.select("seeds", "claims").rows())
    assert table.filter(split="held_out_sampled")["mean"].null_count() == 0
    for name in real:
        outcome = json.loads((data / "policy" / name / "outcome.json").read_text("utf-8"))
        assert 1 == outcome["steps"]
        assert outcome["before"]["held_out_sampled/format"] > 0.5
        assert outcome["seconds"]["update"] > 0
