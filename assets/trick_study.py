"""The trick studies: what scripted tricks earn, what notices them, what GRPO finds by itself.

Beyond the paper. Scripts play on claims of the silver-decomposed pool; ``tricks_found`` counts
tricks in the rollouts of a policy, by default of ``tiny_long``, which has no guards, and trains it
first as the asset ``policy`` would, unless that is done.
"""

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.reports.trick_found import found_figure, found_markdown, health_markdown
from decomposerl.reports.trick_report import (
    READINGS,
    rewards_markdown,
    signs_markdown,
    trick_table,
    tricks_figure,
    tricks_markdown,
)
from decomposerl.schemas import LABELS
from decomposerl.training.claim_draws import claims_of_labels, random_claims
from decomposerl.training.experiments import experiment
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.report.studies import write_study
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded, picture
from resources.store.run_lock import locked_asset
from resources.training.resource import PolicyTrainerResource
from resources.training.study_runs import plan_run, train_runs
from resources.training.trick_runs import (
    ScriptedTraces,
    found_tricks,
    known_claims,
    scripted_traces,
    sign_table,
)

_GROUP = "studies"


class TrickStudyConfig(dg.Config):
    """The claims on which scripted policies play."""

    claims: int = Field(default=100, ge=1, description="claims drawn from the silver pool")
    seed: int = Field(default=42, description="of the draw and of the bootstrap")


class FoundTricksConfig(dg.Config):
    """The run whose rollouts are searched."""

    experiment: str = Field(default="tiny_long", description="name of a recipe, with its seed")
    train: bool = Field(
        default=True,
        description="train it unless it is finished; false: search what has been sampled so far",
    )


@dg.asset(key=["study", "tricks"], group_name=_GROUP, kinds={"parquet"})
@locked_asset
def tricks(
    context: dg.AssetExecutionContext,
    config: TrickStudyConfig,
    silver_decomposed: pl.DataFrame,
    judge: JudgeResource,
    question_embedder: EmbedderResource,
    data_folder: DataFolder,
) -> dg.MaterializeResult[StageOutput]:
    """What each trick earns beside an honest trace, under every reading of the rewards."""
    recorder = StageRecorder(context, config)
    traces = _scripted(config, silver_decomposed, judge, question_embedder)
    batches = {name: traces.rewards(reading) for name, reading in READINGS.items()}
    table = trick_table(batches, config.seed, traces.engine)
    figure = tricks_figure(table)
    sentence = f"What tricks earn beside an honest trace of the same claim; {traces.engine}."
    write_study(data_folder.path, "tricks", figure, sentence)
    metadata = {
        "engine": traces.engine,
        "weighted sum": folded(tricks_markdown(table)),
        "rewards, paper": folded(rewards_markdown(table, "paper")),
        "rewards, strict": folded(rewards_markdown(table, "strict")),
        "figure": picture(figure.png),
    }
    return recorder.table(table, metadata)


@dg.asset(key=["study", "trick_signs"], group_name=_GROUP, kinds={"parquet"})
@locked_asset
def trick_signs(
    context: dg.AssetExecutionContext,
    config: TrickStudyConfig,
    silver_decomposed: pl.DataFrame,
    judge: JudgeResource,
    question_embedder: EmbedderResource,
) -> dg.MaterializeResult[StageOutput]:
    """Which signs show each trick, how often honest traces show them, which health rules object."""
    recorder = StageRecorder(context, config)
    traces = _scripted(config, silver_decomposed, judge, question_embedder)
    table = sign_table(traces, READINGS["paper"])
    metadata = {"engine": traces.engine, "signs": folded(signs_markdown(table))}
    return recorder.table(table, metadata)


def _scripted(
    config: TrickStudyConfig,
    silver: pl.DataFrame,
    judge: JudgeResource,
    question_embedder: EmbedderResource,
) -> ScriptedTraces:
    ruling = judge.open()
    two_way = claims_of_labels(silver, LABELS)  # scripts state or deny a claim
    claims = known_claims(random_claims(two_way, config.claims, config.seed), ruling)
    return scripted_traces(claims, ruling, question_embedder.open())


@dg.asset(
    key=["study", "tricks_found"],
    deps=["training_claims", "training_claims_random", "silver_decomposed", "base_policy"],
    group_name=_GROUP,
    kinds={"pytorch", "parquet"},
)
@locked_asset
def tricks_found(
    context: dg.AssetExecutionContext,
    config: FoundTricksConfig,
    data_folder: DataFolder,
    judge: JudgeResource,
    question_embedder: EmbedderResource,
    policy_trainer: PolicyTrainerResource,
) -> dg.MaterializeResult[StageOutput]:
    """How often each trick was played at each step of a run, and what the health rules said."""
    recorder = StageRecorder(context, config)
    recipe = experiment(config.experiment)
    if config.train:
        vectors = question_embedder.open()
        run = plan_run(data_folder, judge, vectors, policy_trainer, recipe.name, recipe)
        train_runs(policy_trainer, [run], 1, f"study of run {context.run.run_id}")
    table = found_tricks(data_folder, recipe)
    figure = found_figure(table)
    engine = str(table["engine"].first())
    sentence = f"Which tricks {recipe.name} plays, by step, and when health rules object; {engine}."
    write_study(data_folder.path, "tricks_found", figure, sentence)
    metadata = {
        "engine": engine,
        "tricks": folded(found_markdown(table)),
        "health rules": dg.MetadataValue.md(health_markdown(table)),
        "figure": picture(figure.png),
    }
    return recorder.table(table, metadata)
