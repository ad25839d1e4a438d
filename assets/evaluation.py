"""The evaluation (paper, section 4): predictions and scores of every system, the leaderboard.

``predictions/<benchmark>`` and ``scores/<benchmark>`` have one partition per system; scoring again
makes no model calls. Derived test sets (``evaluation.derived``) have both, and a column of the
leaderboard. ``leaderboard`` and ``comparison`` use everything on disk, from any run.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Literal

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.claims.source import Benchmark
from decomposerl.evaluation.comparison import ComparisonSettings, compare_systems
from decomposerl.evaluation.derived import derived_from
from decomposerl.evaluation.leaderboard import leaderboard as arranged
from decomposerl.evaluation.leaderboard import mean_scores
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.scores import ScoreSettings, score_predictions
from decomposerl.evaluation.subset import classes_of, evaluation_subset
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports.comparison_report import comparison_markdown, comparison_unfolded
from decomposerl.reports.leaderboard_report import (
    EDITED,
    boards_unfolded,
    leaderboard_markdown,
)
from decomposerl.reports.system_report import (
    calls_markdown,
    example_traces,
    prediction_facts,
    score_facts,
    scores_markdown,
    verdicts_markdown,
)
from decomposerl.schemas import LABELS
from resources.evaluation.generation import Generated
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.partitions import policy_dep, system_partitions
from resources.evaluation.results_folder import (
    LIMITED,
    PREDICTIONS,
    SCORES,
    EvaluationFiles,
    read_doubtful,
    read_required,
    read_test_claims,
    subset_status,
    with_sample_note,
)
from resources.evaluation.trained_policy import chosen_facts
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded
from resources.store.run_lock import locked_asset
from resources.verifier.resource import VerifierResource

_GROUP = "evaluation"
_WIDE = 6  # columns of scores that fit into Dagster's dialog
_Parts = dg.StaticPartitionsDefinition
_Output = dg.MaterializeResult[StageOutput]


class PredictionConfig(dg.Config):
    """What may differ in one run."""

    limit: int | None = Field(
        default=None,
        ge=2,
        description="largest number of claims, half of either label; such a run has the status "
        "limited and is not a measurement",
    )
    most_failed: float = Field(
        default=0.02, ge=0, le=1, description="largest share of claims without an answer"
    )
    samples: int = Field(
        default=0, ge=0, description="policies: extra traces per claim, for their agreement"
    )
    checkpoint: Literal["final", "best_on_dev"] = Field(
        default="final", description="policies: which weights; best_on_dev: best on held-out claims"
    )


class ScoreConfig(ScoreSettings, dg.Config):
    """``ScoreSettings`` as Dagster configuration."""


class ComparisonConfig(dg.Config):
    """Which systems are compared, and how."""

    against: list[str] = Field(
        default=[], description="systems to compare every other one with; empty: all pairs"
    )
    draws: int = Field(default=10_000, ge=100, description="of the paired bootstrap")
    seed: int = Field(default=42, description="of the draws")


def evaluation_assets(
    benchmarks: Sequence[Benchmark],
    systems: Sequence[System],
    pool: str | None,
    last: Container[str] = frozenset(),
) -> list[dg.AssetsDefinition]:
    """All assets of the evaluation; ``pool`` if a system uses a shared device.

    ``last`` are the systems that the profile cannot run, the last partitions.
    """
    names = {one.name: one.title for one in benchmarks}
    parts = system_partitions(systems, last)
    derived = derived_from(names)
    bases = dict(zip(names, names, strict=True)) | {one.name: one.base for one in derived.values()}
    titles = names | {one.name: one.title for one in derived.values()}
    predicted = [_predictions(name, bases[name], systems, parts, pool) for name in bases]
    scored = [_scores(name, bases[name], parts) for name in bases]
    return [*predicted, *scored, _leaderboard(titles, systems), _comparison(names, systems)]


def _predictions(
    name: str, base: str, systems: Sequence[System], parts: _Parts, pool: str | None
) -> dg.AssetsDefinition:
    @dg.asset(
        key=["predictions", name],
        partitions_def=parts,
        deps=[dg.AssetKey(["benchmark", base]), "calibrations", policy_dep(systems)],
        group_name=_GROUP,
        kinds={"parquet"},
        pool=pool,
        description="A system's verdict on each claim, with every call it made.",
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
        claims = read_test_claims(data_folder, name)
        subset = evaluation_subset(claims, config.limit)
        third = classes_of(evaluation_subset(claims).claims["label"]) > len(LABELS)
        opened = (system, data_folder, verifier, config.checkpoint, config.samples)
        engine = evaluation_model.opened(*opened, three_way=third)
        stage = StageRecorder(context, config, engine, part=system.key, entry=system.entry_digest)
        asked = (name, subset.claims, config.most_failed, context.log.info)
        result = engine.predict(*asked, calibrated=not third)
        page = {
            **_shown(result, subset.claims),
            **prediction_facts(system, subset, result.predictions, result.calls),
            **chosen_facts(data_folder, system, config.checkpoint),
        }
        status = subset_status(subset)
        return stage.evaluated(result.predictions, subset.usable, status, page, calls=result.calls)

    return predictions


def _shown(result: Generated, claims: pl.DataFrame) -> dict[str, object]:
    shown = {
        "verdicts": verdicts_markdown(result.predictions, claims),
        **example_traces(result.predictions, claims),
        "calls by operation": calls_markdown(result.calls),
    }
    return {name: dg.MetadataValue.md(text) for name, text in shown.items()}


def _scores(name: str, base: str, parts: dg.StaticPartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        key=["scores", name],
        partitions_def=parts,
        deps=[dg.AssetKey(["predictions", name]), dg.AssetKey(["benchmark", base])],
        group_name=_GROUP,
        kinds={"parquet"},
        description="Every metric of a system's predictions, with intervals, overall and by slice.",
    )
    @locked_asset
    def scores(
        context: dg.AssetExecutionContext, config: ScoreConfig, data_folder: DataFolder
    ) -> _Output:
        key = f"predictions/{name}/{context.partition_key}"
        predictions, run = read_required(data_folder, key), data_folder.run(key)
        status, entry = run["status"], run.get("entry") or ""  # an earlier run may lack it
        stage = StageRecorder(context, config, part=context.partition_key, entry=entry)
        claims = evaluation_subset(read_test_claims(data_folder, name)).claims
        classes = classes_of(claims["label"])
        if status == LIMITED:
            claims = claims.join(predictions, on="claim_id", how="semi")
        doubtful = read_doubtful(data_folder, name)
        frame = score_predictions(predictions, claims, config, doubtful, classes)
        page = {**score_facts(frame), "scores": dg.MetadataValue.md(scores_markdown(frame))}
        return stage.evaluated(frame, predictions.height, status, page)

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
        """All scores so far in the layout of the paper's tables, next to its figures."""
        stage = StageRecorder(context)
        evaluated = _evaluated(data_folder, names, systems)
        _warn_of_edited(context, evaluated, SCORES)
        scores = evaluated.scores()
        means = mean_scores(scores, MEANS)
        board = arranged(pl.concat([scores, means]), systems, list(names), evaluated.runs())
        text = leaderboard_markdown(board, names, wide=_WIDE)
        metadata = {
            **{
                name: dg.MetadataValue.md(text)
                for name, text in boards_unfolded(board, names).items()
            },
            "systems": scores["system"].n_unique(),
            "test sets": scores["benchmark"].n_unique(),
            "leaderboard": folded(with_sample_note(text, data_folder, board, names)),
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
        """Pairwise comparisons of systems on the claims that both predicted."""
        stage = StageRecorder(context, config)
        evaluated = _evaluated(data_folder, names, systems)
        _warn_of_edited(context, evaluated, PREDICTIONS)
        against = tuple(system_named(key, systems).key for key in config.against)
        settings = ComparisonSettings(against, config.draws, config.seed)
        frame = compare_systems(
            evaluated.claims(),
            evaluated.predictions(),
            settings,
            evaluated.limited(),
            evaluated.doubtful(),
        )
        metadata = {
            "clearest": dg.MetadataValue.md(comparison_unfolded(frame)),
            "comparison": folded(comparison_markdown(frame)),
        }
        return stage.table(frame, metadata)

    return comparison


def _evaluated(
    folder: DataFolder, names: Mapping[str, str], systems: Sequence[System]
) -> EvaluationFiles:
    return EvaluationFiles(folder, list(names), {one.key: one.entry_digest for one in systems})


def _warn_of_edited(
    context: dg.AssetExecutionContext, evaluated: EvaluationFiles, kind: str
) -> None:
    if left := sorted(evaluated.edited(kind)):
        context.log.warning(f"{EDITED} {'; '.join(f'{one} on {name}' for one, name in left)}")
