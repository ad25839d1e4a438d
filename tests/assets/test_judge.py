"""The tiny judge as assets: from a run's stored rulings to heads, agreement and rewards."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.judge import JUDGE_ASSETS, tiny_judge_heads_asset
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import JUDGE_AGREEMENT, JUDGE_STUDY
from decomposerl.training.experiment import Experiment
from judge_parts import QUICK, WordJudge, rollouts, write_run
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.judge.tiny_judge import TinyJudge
from resources.store.parquet import DataFolder, ParquetTables
from resources.training.judged_runs import judged_runs, rulings_of
from resources.training.resource import PolicyTrainerResource
from tiny_models import tiny_modernbert

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
RECIPE = Experiment(
    name="mine", title="Without diversity", rewards=RewardSettings(weights={"diversity": 0.0})
)
ASSETS = [*JUDGE_ASSETS, tiny_judge_heads_asset(None)]


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a run judged by words, and one by a tiny judge, which has no teacher."""
    folder, tiny = tmp_path_factory.mktemp("data"), WordJudge()
    tiny.engine = "tiny_judge:x"
    write_run(folder, WordJudge(), rollouts(), RECIPE)
    write_run(folder, tiny, rollouts(each=3), Experiment(name="mine_classifiers", title=""))
    return folder


def resources(data: Path) -> dict[str, object]:
    results = str(data / "engine_results")
    return {
        "io_manager": ParquetTables(base_dir=str(data)),
        "data_folder": DataFolder(base_dir=str(data)),
        "judge": JudgeResource(results_dir=results),
        "question_embedder": EmbedderResource(results_dir=results),
        "policy_trainer": PolicyTrainerResource(
            module="dagster_project.worker", encoder=str(data / "encoder"), grace_s=10
        ),
    }


def materialize(
    data: Path, instance: dg.DagsterInstance, keys: list[str], **config: object
) -> dg.ExecuteInProcessResult:
    """``config`` by the asset's op."""
    return dg.materialize(
        ASSETS,
        selection=keys,
        resources=resources(data),
        instance=instance,
        run_config={"ops": {name: {"config": value} for name, value in config.items()}},
        raise_on_error=False,
    )


def test_the_whole_path_from_rulings_to_rewards(data: Path, instance: dg.DagsterInstance):
    """Heads learn the stored rulings in a process of their own; tables and figure name engines."""
    tiny_modernbert(data / "encoder")
    result = materialize(
        data,
        instance,
        ["*study/judge_rewards"],
        judge_distillation={"teacher": "words", "test_share": 0.25, "dev_share": 0.25},
        tiny_judge_heads=QUICK.model_dump(),
    )
    assert result.success
    engine = TinyJudge(data / "tiny_judge").engine
    agreement = JUDGE_AGREEMENT.conform(pl.read_parquet(data / "tiny_judge_agreement.parquet"))
    assert (8, {"words:1"}, {engine}) == (
        agreement["head"].n_unique(), {*agreement["teacher"]}, {*agreement["engine"]}
    )  # fmt: skip
    assert 0.8 < agreement.filter(metric="agreement")["value"].mean()
    study = JUDGE_STUDY.conform(pl.read_parquet(data / "study/judge_rewards.parquet"))
    assert {"coverage", "necessity", "joint", "total"} == {*study["reward"]}
    held_out = pl.read_parquet(data / "judge_distillation.parquet").filter(split="test")
    assert [2 * held_out["claim_id"].n_unique()] == study["rollouts"].unique().to_list()
    (made,) = result.asset_materializations_for_node("study__judge_rewards")
    assert "rule_judge:" in str(made.metadata["rulings a second"].value)
    assert "85.8" in str(made.metadata["paper"].value)
    said = (data / "studies/judge_rewards.txt").read_text("utf-8")
    assert engine in said
    assert "words:1" in said
    assert (data / "studies/judge_rewards.svg").read_bytes().startswith(b"<?xml")


def test_the_teacher_is_the_profiles_judge_or_the_one_that_is_named(
    data: Path, tmp_path: Path, instance: dg.DagsterInstance
):
    """Rulings of another judge are not mixed in, but counted; without a run, or an encoder, why."""
    distilled = materialize(data, instance, ["judge_distillation"])
    untrained = materialize(tmp_path, instance, ["judge_distillation"])
    config = {"encoder": str(data / "no_encoder"), **QUICK.model_dump()}
    heads = materialize(data, instance, ["tiny_judge_heads"], tiny_judge_heads=config)
    for result, words in (
        (distilled, ("'rule_judge:", "words:1 (")),
        (untrained, ("train a policy first",)),
        (heads, ("no_encoder cannot be loaded",)),
    ):
        assert not result.success
        (failed,) = result.get_step_failure_events()
        said = str(failed.step_failure_data.error)
        assert [] == [word for word in words if word not in said], said


def test_a_tiny_judge_teaches_nobody(tmp_path: Path):
    """Nor does one of two judges whose names both contain the word."""
    data = DataFolder(base_dir=str(tmp_path))
    made = rollouts(6)
    for number, engine in enumerate(("tiny_judge:x", "words:1", "words:2")):
        judge = WordJudge()
        judge.engine = engine
        write_run(tmp_path, judge, made, Experiment(name=f"run_{number}", title=""))
    runs = judged_runs(data)
    assert "words:1" == rulings_of(runs, "words:1")[0]
    for word, said in (("tiny", "no judge"), ("words", "several judges")):
        with pytest.raises(Exception, match=said):
            rulings_of(runs, word)
    with pytest.raises(Exception, match="no training run 'other'"):
        judged_runs(data, ["other"])
    with pytest.raises(Exception, match="decomposerl train tiny"):
        judged_runs(DataFolder(base_dir=str(tmp_path / "empty")))
