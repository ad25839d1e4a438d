"""The selector study, and the trained ablations of the paper on the tiny policy: an asset each.

The selector study is no part of the funnel: it selects from the same cells with every selector.
An ablation trains the runs that are missing as the asset ``policy`` would, measures all of them on
the same held-out claims, and writes its table and figures with the paper's rows beside them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.funnel.catalogue import COMPARED
from decomposerl.funnel.selector_comparison import compare_selectors
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.selector_report import (
    selectors_figure,
    selectors_markdown,
    selectors_sentence,
)
from decomposerl.reports.study_report import (
    JudgeSpeeds,
    paper_form_markdown,
    study_curves,
    study_figure,
    study_markdown,
    study_sentence,
)
from decomposerl.training.experiment import TINY_BASES
from decomposerl.training.experiments import EXPERIMENTS, experiment
from decomposerl.training.studies import MOST_SEEDS, Study, studied
from decomposerl.training.study_table import study_table
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.report.studies import CLOCKS, write_study
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded, picture
from resources.store.rows import StoredRows
from resources.store.run_lock import locked_asset
from resources.training.resource import PolicyTrainerResource, TrainedRun, policy_result
from resources.training.study_runs import (
    StudyRun,
    finished,
    finished_runs,
    held_out_outcomes,
    plan_run,
    train_runs,
    training_curves,
)


class SelectorStudyConfig(SelectorStudySettings, dg.Config):
    """``SelectorStudySettings`` as Dagster configuration."""


@dg.asset(key=["study", "selectors"], group_name="studies", kinds={"parquet"})
@locked_asset
def selectors(
    context: dg.AssetExecutionContext,
    config: SelectorStudyConfig,
    silver_decomposed: StoredRows,
    embedder: EmbedderResource,
    data_folder: DataFolder,
) -> dg.MaterializeResult[StageOutput]:
    """Selectors under the same quotas: what they cover, how isolated their picks are, seconds."""
    vectors = embedder.open()
    recorder = StageRecorder(context, config, vectors)
    claims = silver_decomposed.read(COMPARED)
    texts = claims["claim"].to_list()
    rows = unit_rows(vectors.embed(texts), len(texts))
    compared = compare_selectors(rows, claims, config, vectors.engine, CLOCKS)
    for said in compared.missing:
        context.log.warning(f"a selector is left out: {said}")
    figure, sentence = drawn(selectors_figure(compared)), selectors_sentence(compared.table)
    path = write_study(data_folder.path, "selectors", figure, sentence)
    metadata = {
        "study": sentence,
        "figure": picture(figure.png),
        "selectors": folded(selectors_markdown(compared.table)),
        "path": dg.MetadataValue.path(str(path)),
    }
    return recorder.table(compared.table, metadata)


_Asset = dg.AssetsDefinition
_CLAIMS = ("training_claims", "training_claims_random", "silver_decomposed")
_PARTITIONS = frozenset(one.name for one in EXPERIMENTS)


class TrainingStudyConfig(dg.Config):
    """How much is trained; a study that is run again with more seeds trains only those."""

    seeds: int = Field(default=5, ge=1, le=MOST_SEEDS, description="runs of each variant")
    steps: int | None = Field(
        default=None,
        ge=1,
        description="optimizer steps of a whole budget; null: the recipes'. Such runs have "
        "folders of their own",
    )
    held_out_claims: int | None = Field(
        default=None, ge=2, description="held-out claims; null: the recipes'"
    )
    train: bool = Field(
        default=True,
        description="train what is missing; false: the table of what is trained, of as many "
        "variants and seeds as can be compared",
    )
    at_once: int = Field(default=1, ge=1, description="runs that train at the same time")


def _judges(study: Study) -> list[str]:
    judges = {experiment(variant.embedded).judge for variant in study.variants}
    return ["tiny_judge_heads"] if "tiny" in judges else []


def _bases(study: Study) -> list[str]:
    models = {experiment(variant.embedded).model for variant in study.variants}
    return [base for base in TINY_BASES if base in models]


def _description(study: Study) -> str:
    paper = f" (paper, {study.section})" if study.section else ""
    return f"{study.title}: trained on the tiny policy with several seeds{paper}."


def training_study_asset(study: Study, speeds: JudgeSpeeds, pool: str | None) -> _Asset:
    """The asset of a study; ``speeds`` are of the paper's judges, for the paper's form."""
    bases = _bases(study)

    @dg.asset(
        key=["study", study.name],
        deps=[*_CLAIMS, *bases, *_judges(study)],
        group_name="studies",
        kinds={"pytorch", "parquet"},
        pool=pool,
        description=_description(study),
    )
    @locked_asset
    def training_study(
        context: dg.AssetExecutionContext,
        config: TrainingStudyConfig,
        data_folder: DataFolder,
        judge: JudgeResource,
        question_embedder: EmbedderResource,
        policy_trainer: PolicyTrainerResource,
    ) -> dg.MaterializeResult[StageOutput]:
        recorder, embedder = StageRecorder(context, config), question_embedder.open()
        plan = partial(plan_run, data_folder, judge, embedder, policy_trainer)
        sizes = config.seeds, config.steps, config.held_out_claims
        planned = [plan(one.title, run) for one in study.variants for run in studied(one, *sizes)]
        ruler = judge.open()
        part, runs, trained = _trained(context, config, policy_trainer, study, planned)
        outcomes = held_out_outcomes(runs, ruler, embedder, policy_trainer.most_cycles)
        engines = (ruler.engine, embedder.engine, ", ".join(bases))
        table = study_table(part, outcomes, "; ".join(engines))
        shown = _figures(data_folder, study, table, runs)
        form = folded(paper_form_markdown(study, speeds))
        left = ", ".join(one.name for one in planned if one not in runs) or "none"
        more = {"in the paper's form": form, "runs trained now": len(trained), "runs left": left}
        return recorder.table(table, shown | more)

    return training_study


def _trained(
    context: dg.AssetExecutionContext,
    config: TrainingStudyConfig,
    trainer: PolicyTrainerResource,
    study: Study,
    planned: list[StudyRun],
) -> tuple[Study, list[StudyRun], list[StudyRun]]:
    """What is compared: a study and its runs; and the runs that were trained now."""
    if not config.train:
        return *finished_runs(study, planned), []
    trained = train_runs(trainer, planned, config.at_once, f"run {context.run.run_id}")
    _report_policies(context, trained)
    return study, planned, trained


def _figures(
    data_folder: DataFolder, study: Study, table: pl.DataFrame, runs: Sequence[StudyRun]
) -> dict[str, Any]:
    """Write the figures for the report; gives the study's metadata."""
    sentence = study_sentence(study, table)
    figure = drawn(study_figure(study, table))
    curves = drawn(study_curves(study, training_curves(runs)))
    path = write_study(data_folder.path, study.name, figure, sentence)
    said = f"{study.title}: medians over seeds by optimizer step, minimum to maximum as bands."
    write_study(data_folder.path, f"{study.name}_curves", curves, said)
    return {
        "study": sentence,
        "figure": picture(figure.png),
        "learning curves": picture(curves.png),
        "variants": folded(study_markdown(study, table)),
        "path": dg.MetadataValue.path(str(path)),
    }


def _report_policies(context: dg.AssetExecutionContext, trained: Sequence[StudyRun]) -> None:
    """Show the runs that are partitions of ``policy`` on that asset's page, too."""
    for one in trained:
        if one.name in _PARTITIONS:
            made = policy_result(TrainedRun(one.run, finished(one), {}))
            version = "" if made.data_version is None else made.data_version.value
            event = dg.AssetMaterialization(
                "policy", partition=one.name, metadata=made.metadata, tags=_version_tag(version)
            )
            context.log_event(event)


def _version_tag(version: str) -> dict[str, str]:
    return {"dagster/data_version": version} if version else {}
