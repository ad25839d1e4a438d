"""The evaluation (paper, section 4): predictions and scores of every system, the leaderboard.

``predictions/<benchmark>`` and ``scores/<benchmark>`` have a partition a system. A test set that
is derived from another (``evaluation.derived``) has both, and a column of the leaderboard.
Predicting and scoring are apart, so that to score again asks nobody. ``leaderboard`` and
``comparison`` take what lies on disk, whichever run left it.

Left out deliberately: methods and metrics (``decomposerl``), and asking (``resources.evaluation``).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.claims.source import Benchmark
from decomposerl.evaluation.comparison import ComparisonSettings, compared
from decomposerl.evaluation.derived import derived_from
from decomposerl.evaluation.leaderboard import leaderboard as arranged
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scores import ScoreSettings, mean_scores, score
from decomposerl.evaluation.subset import examined
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports.evaluation_page import (
    calls_markdown,
    prediction_facts,
    score_facts,
    scores_markdown,
)
from decomposerl.reports.leaderboard_report import comparison_markdown, leaderboard_markdown
from resources.evaluation.chosen_policy import chosen_facts
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.results_folder import LIMITED, Evaluated, needed, status_of, test_claims
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset
from resources.verifier.resource import VerifierResource

_GROUP = "evaluation"
_Output = dg.MaterializeResult[StageOutput]


class PredictionConfig(dg.Config):
    """What may differ in one run."""

    limit: int | None = Field(
        default=None,
        ge=2,
        description="most claims of the test set, half of either label; a short run is no measure, "
        "and its status says so",
    )
    most_failed: float = Field(
        default=0.02, ge=0, le=1, description="share of claims without an answer that fails it"
    )
    samples: int = Field(
        default=0, ge=0, description="policies: further traces a claim, for their agreement"
    )
    checkpoint: Literal["final", "best_on_dev"] = Field(
        default="final", description="policies: which weights; best_on_dev goes by held-out claims"
    )


class ScoreConfig(ScoreSettings, dg.Config):
    """How intervals are taken, as Dagster configuration."""


class ComparisonConfig(dg.Config):
    """Which systems are compared, and how."""

    against: list[str] = Field(
        default=[], description="systems that every other one is compared with; empty: all pairs"
    )
    draws: int = Field(default=10_000, ge=100, description="of the paired bootstrap")
    seed: int = Field(default=42, description="of the draws")


def evaluation_assets(
    benchmarks: Sequence[Benchmark], systems: Sequence[System], pool: str | None
) -> list[dg.AssetsDefinition]:
    """All of it; ``pool`` where a system takes a device that others use."""
    names = {one.name: one.title for one in benchmarks}
    parts = dg.StaticPartitionsDefinition([one.key for one in systems])
    derived = derived_from(names)
    bases = dict(zip(names, names, strict=True)) | {one.name: one.base for one in derived.values()}
    shown = names | {one.name: one.title for one in derived.values()}
    predicted = [_predictions(name, bases[name], systems, parts, pool) for name in bases]
    scored = [_scores(name, bases[name], parts) for name in bases]
    return [*predicted, *scored, _leaderboard(shown, systems), _comparison(names, systems)]


def _predictions(
    name: str,
    base: str,
    systems: Sequence[System],
    parts: dg.StaticPartitionsDefinition,
    pool: str | None,
) -> dg.AssetsDefinition:
    @dg.asset(
        key=["predictions", name],
        partitions_def=parts,
        deps=[dg.AssetKey(["benchmark", base]), dg.AssetKey("calibrations")],
        group_name=_GROUP,
        kinds={"parquet"},
        pool=pool,
        description="What a system says of each claim, with every call it took.",
    )
    @locked_asset
    def predictions(
        context: dg.AssetExecutionContext,
        config: PredictionConfig,
        data_folder: DataFolder,
        evaluation_model: EvaluationModelResource,
        verifier: VerifierResource,
    ) -> _Output:
        system = system_named(context.partition_key, systems)
        exam = examined(test_claims(data_folder, name), config.limit)
        engine = evaluation_model.opened(
            system, data_folder, verifier, config.checkpoint, config.samples
        )
        stage = StageRecorder(context, config, engine, part=system.key)
        made = engine.predict(name, exam.claims, config.most_failed, context.log.info)
        page = {
            **prediction_facts(system, exam, made.predictions, made.calls),
            **chosen_facts(data_folder, system, config.checkpoint),
            "calls by operation": dg.MetadataValue.md(calls_markdown(made.calls)),
        }
        status = status_of(exam)
        return stage.evaluated(made.predictions, exam.usable, status, page, calls=made.calls)

    return predictions


def _scores(name: str, base: str, parts: dg.StaticPartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=["scores", name],
        partitions_def=parts,
        deps=[dg.AssetKey(["predictions", name]), dg.AssetKey(["benchmark", base])],
        group_name=_GROUP,
        kinds={"parquet"},
        description="Every metric of a system's predictions, with intervals, whole and by slice.",
    )
    @locked_asset
    def scores(
        context: dg.AssetExecutionContext, config: ScoreConfig, data_folder: DataFolder
    ) -> _Output:
        key = f"predictions/{name}/{context.partition_key}"
        predictions = needed(data_folder, key)
        stage = StageRecorder(context, config, part=context.partition_key)
        status = data_folder.run(key)["status"]
        claims = examined(test_claims(data_folder, name)).claims
        if status == LIMITED:
            claims = claims.join(predictions, on="claim_id", how="semi")
        found = score(predictions, claims, config)
        page = {**score_facts(found), "scores": dg.MetadataValue.md(scores_markdown(found))}
        return stage.evaluated(found, predictions.height, status, page)

    return scores


def _leaderboard(names: Mapping[str, str], systems: Sequence[System]) -> dg.AssetsDefinition:
    @dg.asset(
        deps=[dg.AssetKey(["scores", name]) for name in names],
        group_name=_GROUP,
        config_schema={},
        kinds={"parquet"},
    )
    @locked_asset
    def leaderboard(context: dg.AssetExecutionContext, data_folder: DataFolder) -> _Output:
        """What was scored so far, laid out as the paper's tables, its figures beside ours."""
        stage = StageRecorder(context)
        found = _evaluated(data_folder, names, systems)
        scores = found.scores()
        means = mean_scores(scores, MEANS)
        board = arranged(pl.concat([scores, means]), systems, list(names), found.runs())
        metadata = {
            "systems": scores["system"].n_unique(),
            "test sets": scores["benchmark"].n_unique(),
            "leaderboard": dg.MetadataValue.md(leaderboard_markdown(board, names)),
        }
        return stage.table(board, metadata)

    return leaderboard


def _comparison(names: Mapping[str, str], systems: Sequence[System]) -> dg.AssetsDefinition:
    @dg.asset(
        deps=[dg.AssetKey(["predictions", name]) for name in names],
        group_name=_GROUP,
        kinds={"parquet"},
    )
    @locked_asset
    def comparison(
        context: dg.AssetExecutionContext, config: ComparisonConfig, data_folder: DataFolder
    ) -> _Output:
        """Systems held against each other on the claims that both were asked."""
        stage = StageRecorder(context, config)
        found = _evaluated(data_folder, names, systems)
        against = tuple(system_named(key, systems).key for key in config.against)
        settings = ComparisonSettings(against, config.draws, config.seed)
        frame = compared(found.claims(), found.predictions(), settings, found.limited())
        metadata = {"comparison": dg.MetadataValue.md(comparison_markdown(frame))}
        return stage.table(frame, metadata)

    return comparison


def _evaluated(
    folder: DataFolder, names: Mapping[str, str], systems: Sequence[System]
) -> Evaluated:
    return Evaluated(folder, list(names), [one.key for one in systems])
