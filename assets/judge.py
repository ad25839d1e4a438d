"""The tiny judge (paper, appendix "Tiny-Judge Ablation"): examples, heads, agreement, rewards.

Learns from the rulings that training runs stored: the large judge is the profile's judge, by
default the embedded rules. Recipes with ``judge="tiny"`` are rewarded by it.
"""

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.judge.distillation import (
    DistillationSettings,
    HeadSettings,
    example_counts,
    judge_examples,
    ruled_calls,
)
from decomposerl.reports.judge_figure import (
    PAPER_ROW,
    agreement_markdown,
    judges_figure,
    rewards_markdown,
)
from decomposerl.reports.tables import markdown_table
from resources.embedder.resource import EmbedderResource
from resources.hub.locks import ModelLocks, models_lock
from resources.judge.resource import JudgeResource
from resources.judge.rule_judge import RuleJudge
from resources.judge.tiny_judge import FOLDER, MINILM
from resources.report.studies import write_study
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, picture
from resources.store.run_lock import locked_asset
from resources.training.judge_heads import HeadsRun, heads_markdown
from resources.training.judged_runs import (
    agreement_frame,
    calls_of,
    judged_runs,
    pace,
    reward_frame,
    rulings_of,
)
from resources.training.resource import PolicyTrainerResource

Result = dg.MaterializeResult[StageOutput]
_TIMED_CALLS = 256


class DistillationConfig(DistillationSettings, dg.Config):
    """``DistillationSettings``, and whose rulings are learned."""

    runs: list[str] = Field(default=[], description="training runs; empty: all in the data folder")
    teacher: str = Field(
        default="", description="part of the large judge's engine name; empty: the profile's judge"
    )


class HeadConfig(HeadSettings, dg.Config):
    """``HeadSettings``, and the encoder."""

    encoder: str = Field("", description="hub name, folder, or minilm; empty: the profile's")


class JudgesConfig(dg.Config):
    """What may differ in one run of the study."""

    runs: list[str] = Field(default=[], description="training runs; empty: all in the data folder")


# After a study that trains, so that the job `studies` finds its rulings.
@dg.asset(deps=["policy", ["study", "learning"]], group_name="studies", kinds={"parquet"})
@locked_asset
def judge_distillation(
    context: dg.AssetExecutionContext,
    config: DistillationConfig,
    data_folder: DataFolder,
    judge: JudgeResource,
) -> Result:
    """The large judge's stored rulings as balanced examples, split by document."""
    recorder = StageRecorder(context, config)
    runs = judged_runs(data_folder, config.runs)
    teacher, rulings = rulings_of(runs, config.teacher or judge.open().engine)
    ruled = (
        call for run in runs for _, batch in run.batches() for call in ruled_calls(batch, rulings)
    )
    examples = judge_examples(ruled, teacher, config)
    counts = example_counts(examples)
    metadata = {
        "teacher": teacher,
        "runs": ", ".join(run.folder.name for run in runs),
        "documents": examples["document"].n_unique(),
        "examples": dg.MetadataValue.md(markdown_table(counts.columns, counts.rows())),
    }
    return recorder.table(examples, metadata)


def tiny_judge_heads_asset(pool: str | None) -> dg.AssetsDefinition:
    """The asset; ``pool`` if training uses a shared device."""

    @dg.asset(deps=[judge_distillation], group_name="studies", kinds={"pytorch"}, pool=pool)
    @locked_asset
    def tiny_judge_heads(
        context: dg.AssetExecutionContext,
        config: HeadConfig,
        data_folder: DataFolder,
        judge: JudgeResource,
        policy_trainer: PolicyTrainerResource,
    ) -> dg.MaterializeResult[None]:
        """Eight LoRA adapters with classifiers on one encoder, in the folder ``tiny_judge``."""
        folder, encoder = data_folder.path / FOLDER, config.encoder or policy_trainer.encoder
        settings, locks = config.model_dump(exclude={"encoder"}), models_lock(data_folder.path)
        run = HeadsRun(
            examples=data_folder.file("judge_distillation"),
            folder=folder,
            encoder=encoder,
            revision="" if encoder == MINILM else ModelLocks(locks).fetched(encoder),
            settings=HeadSettings(**settings),
            device=policy_trainer.device,
            threads=policy_trainer.threads,
            dtype="bfloat16" if policy_trainer.device.startswith("cuda") else "float32",
        )
        policy_trainer.train_heads(context, run, data_folder.path / "tiny_judge_runs")
        engine = judge.tiny_judge(folder).engine
        return dg.MaterializeResult(
            data_version=dg.DataVersion(engine),
            metadata={
                "path": dg.MetadataValue.path(str(folder)),
                "engine": engine,
                "heads": dg.MetadataValue.md(heads_markdown(folder)),
            },
        )

    return tiny_judge_heads


@dg.asset(deps=["tiny_judge_heads"], config_schema={}, group_name="studies", kinds={"parquet"})
@locked_asset
def tiny_judge_agreement(
    context: dg.AssetExecutionContext,
    data_folder: DataFolder,
    judge: JudgeResource,
    judge_distillation: pl.DataFrame,
) -> Result:
    """Agreement, macro-F1 and kappa of each head with the large judge on held-out documents."""
    recorder = StageRecorder(context)
    student = judge.tiny_judge(data_folder.path / FOLDER)
    found = agreement_frame(judge_distillation, student)
    metadata = {
        "engine": student.engine,
        "texts shortened": student.shortened,
        "agreement": dg.MetadataValue.md(agreement_markdown(found)),
    }
    return recorder.table(found, metadata)


@dg.asset(key=["study", "judge_rewards"], group_name="studies", kinds={"parquet"})
@locked_asset
def judges(
    context: dg.AssetExecutionContext,
    config: JudgesConfig,
    data_folder: DataFolder,
    judge: JudgeResource,
    question_embedder: EmbedderResource,
    judge_distillation: pl.DataFrame,
    tiny_judge_agreement: pl.DataFrame,
) -> Result:
    """Rewards of the same rollouts by the large and the tiny judge, on held-out documents."""
    recorder = StageRecorder(context, config)
    held_out = judge_distillation.filter(split="test")
    claims = held_out["claim_id"].unique().to_list()
    known = judged_runs(data_folder, config.runs)
    teacher, rulings = rulings_of(known, held_out["teacher"][0])
    # Another judge's rulings cannot be replayed.
    runs = [run for run in known if teacher in run.rulings()["engine"]]
    student = judge.tiny_judge(data_folder.path / FOLDER)
    embedder, recorded = question_embedder.open(), (teacher, rulings)
    study = reward_frame(runs, recorded, student, embedder, claims)
    calls = calls_of(runs, claims, _TIMED_CALLS)
    paces = [pace(ruling, calls) for ruling in (student, RuleJudge())]
    figure = judges_figure(tiny_judge_agreement, study)
    said = (
        f"The tiny judge ({student.engine}) beside the large one ({teacher}), held-out documents."
    )
    write_study(data_folder.path, "judge_rewards", figure, said)
    metadata = {
        "rewards": dg.MetadataValue.md(rewards_markdown(study)),
        "rulings a second": dg.MetadataValue.md(
            markdown_table(("judge", "calls", "rulings a second"), paces)
        ),
        "paper": PAPER_ROW,
        "figure": picture(figure.png),
    }
    return recorder.table(study, metadata)


JUDGE_ASSETS = (judge_distillation, tiny_judge_agreement, judges)
"""Those that need no pool."""
