"""The evaluation (paper, section 4): predictions and scores of every system, the leaderboard.

``predictions/<benchmark>`` and ``scores/<benchmark>`` have one partition per system; scoring again
makes no model calls. ``calibrations`` is the reliability of a system's confidence on a dev split:
claims of the silver-decomposed pool that are in no training set. The fit is stored next to the
asset's table as ``<system>.json``; later predictions have ``confidence_calibrated``.
``leaderboard`` and ``comparison`` use everything on disk, from any run; checks read it too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.claims.source import Benchmark
from decomposerl.errors import EvaluationError
from decomposerl.evaluation import leaderboard as boards
from decomposerl.evaluation.calibration import NO_CONFIDENCE, fit_on_predictions
from decomposerl.evaluation.comparison import compare_systems
from decomposerl.evaluation.leaderboard import LIMITED
from decomposerl.evaluation.published import MEANS, SHARE_TOLERANCE, TEST_SET_SIZES
from decomposerl.evaluation.scored_claims import classes_of, evaluation_subset
from decomposerl.evaluation.scores import score_predictions
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports import system_report as pages
from decomposerl.schemas import LABELS
from decomposerl.training.experiment import ClaimsTable
from resources.corpora.resource import CorporaResource
from resources.embedder.resource import EmbedderResource
from resources.evaluation.generation import write_calibration
from resources.evaluation.model import (
    SILVER,
    EvaluationModelResource,
    dev_claims,
    leaks,
    policy_facts,
)
from resources.evaluation.results_folder import (
    PREDICTIONS,
    SCORES,
    board_page,
    current_predictions,
    current_scores,
    read_doubtful,
    read_required,
    run_statuses,
    subset_status,
)
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded, partitioned_check, rounded
from resources.store.run_lock import locked_asset
from resources.verifier.resource import VerifierResource

LEAST_PARSED, LEAST_USEFUL = 0.95, 0.5
_TRIAL = 40
"""Claims predicted first: a system without any confidence is not asked for the others."""
_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
_Parts = dg.StaticPartitionsDefinition
_Output = dg.MaterializeResult[StageOutput]


_FAILED = Field(default=0.02, ge=0, le=1, description="largest share of claims without an answer")


class PredictionConfig(dg.Config):
    """What may differ in one run."""

    most_failed: float = _FAILED
    limit: int | None = Field(
        default=None,
        ge=2,
        description="largest number of claims, half of either label; such a run has the status "
        "limited and is not a measurement",
    )


class CalibrationConfig(dg.Config):
    """What may differ in one run of a calibration."""

    most_failed: float = _FAILED
    claims: int = Field(default=1_000, ge=20, description="largest dev split")
    seed: int = Field(default=42, description="seed of the dev split's draw")


class ComparisonConfig(dg.Config):
    """Which systems are compared."""

    against: list[str] = Field(
        default=[], description="systems to compare every other one with; empty: all pairs"
    )


def evaluation_assets(
    benchmarks: Sequence[Benchmark], systems: Sequence[System], pool: str | None
) -> list[dg.AssetsDefinition]:
    """All assets of the evaluation; ``pool`` if a system uses a shared device."""
    names = {benchmark.name: benchmark.title for benchmark in benchmarks}
    parts = system_partitions(systems)
    return [
        *(_predictions(name, systems, parts, pool) for name in names),
        *(_scores(name, parts) for name in names),
        _leaderboard(names, systems),
        _comparison(names, systems),
        _calibrations(systems, parts, pool),
    ]


def _asset(
    key: str,
    deps: Iterable[str | dg.AssetDep],
    description: str,
    **details: Any,  # noqa: ANN401 - of dg.asset
) -> Callable[[Callable[..., _Output]], dg.AssetsDefinition]:
    """An asset of the evaluation, which one run at a time writes."""
    asset: Any = dg.asset(
        key=key.split("/"),
        deps=[one if isinstance(one, dg.AssetDep) else one.split("/") for one in deps],
        description=description,
        group_name="evaluation",
        kinds={"parquet"},
        **details,
    )
    return lambda function: asset(locked_asset(function))


def _predictions(
    name: str, systems: Sequence[System], parts: _Parts, pool: str | None
) -> dg.AssetsDefinition:
    @_asset(
        f"predictions/{name}",
        [f"benchmark/{name}", "calibrations", policy_dep(systems)],
        "A system's verdict on each claim, with every call it made.",
        partitions_def=parts,
        pool=pool,
    )
    def predictions(
        context: dg.AssetExecutionContext,
        config: PredictionConfig,
        data_folder: DataFolder,
        evaluation_model: EvaluationModelResource,
        verifier: VerifierResource,
    ) -> _Output:
        system = system_named(context.partition_key, systems)
        claims = read_required(data_folder, f"benchmark/{name}")
        subset = evaluation_subset(claims, config.limit)
        third = classes_of(evaluation_subset(claims).claims["label"]) > len(LABELS)
        engine = evaluation_model.opened(system, data_folder, verifier, three_way=third)
        stage = StageRecorder(context, config, engine, part=system.key, entry=system.entry_digest)
        failing, log = config.most_failed, context.log.info
        predicted, calls = engine.predict(name, subset.claims, failing, log, calibrated=not third)
        page = {
            "verdicts": dg.MetadataValue.md(pages.verdicts_markdown(predicted, subset.claims)),
            **pages.prediction_facts(system, subset, predicted, calls),
            **policy_facts(data_folder, system),
        }
        return stage.evaluated(predicted, subset.usable, subset_status(subset), page, calls=calls)

    return predictions


def _calibrations(
    systems: Sequence[System], parts: _Parts, pool: str | None
) -> dg.AssetsDefinition:
    @_asset(
        "calibrations",
        [SILVER, "training_claims", policy_dep(systems)],
        "A calibration of the system's confidence, fitted on claims that nothing else used.",
        partitions_def=parts,
        pool=pool,
    )
    def calibrations(
        context: dg.AssetExecutionContext,
        config: CalibrationConfig,
        data_folder: DataFolder,
        evaluation_model: EvaluationModelResource,
        verifier: VerifierResource,
    ) -> _Output:
        system = system_named(context.partition_key, systems)
        claims, split = dev_claims(data_folder, system, config.claims, config.seed)
        engine = evaluation_model.opened(system, data_folder, verifier)
        stage = StageRecorder(context, config, engine, part=system.key)
        failing, log = config.most_failed, context.log.info
        for part in (claims.head(_TRIAL), claims):
            predicted, _ = engine.predict("calibrations", part, failing, log, calibrated=False)
            if not predicted["confidence_normalised"].count():
                raise EvaluationError(f"system '{system.key}': {NO_CONFIDENCE}")
        calibration, bins = fit_on_predictions(predicted, claims, split)
        path = write_calibration(data_folder.path, system.key, calibration)
        page = {
            **{name.replace("_", " "): fact for name, fact in calibration.model_dump().items()},
            "calibration": dg.MetadataValue.path(str(path)),
            "reliability": dg.MetadataValue.md(pages.reliability_markdown(bins)),
        }
        return stage.evaluated(bins, claims.height, "ok", page)

    return calibrations


def _scores(name: str, parts: _Parts) -> dg.AssetsDefinition:
    @_asset(
        f"scores/{name}",
        [f"predictions/{name}", f"benchmark/{name}"],
        "Every metric of a system's predictions, with intervals, overall and by slice.",
        partitions_def=parts,
        config_schema={},
    )
    def scores(context: dg.AssetExecutionContext, data_folder: DataFolder) -> _Output:
        key = f"predictions/{name}/{context.partition_key}"
        predictions, run = read_required(data_folder, key), data_folder.run(key)
        status, entry = run["status"], run.get("entry") or ""  # an earlier run may lack it
        stage = StageRecorder(context, part=context.partition_key, entry=entry)
        claims = evaluation_subset(read_required(data_folder, f"benchmark/{name}")).claims
        classes = classes_of(claims["label"])
        if status == LIMITED:
            claims = claims.join(predictions, on="claim_id", how="semi")
        doubtful = read_doubtful(data_folder, name)
        frame = score_predictions(predictions, claims, doubtful, classes)
        shown = {"scores": dg.MetadataValue.md(pages.scores_markdown(frame))}
        facts = pages.score_facts(frame)
        return stage.evaluated(frame, predictions.height, status, facts | shown)

    return scores


def _leaderboard(names: Mapping[str, str], systems: Sequence[System]) -> dg.AssetsDefinition:
    @_asset(
        "leaderboard",
        [f"scores/{name}" for name in names],
        "All scores so far in the layout of the paper's tables, next to its figures.",
        config_schema={},
    )
    def leaderboard(context: dg.AssetExecutionContext, data_folder: DataFolder) -> _Output:
        stage = StageRecorder(context)
        runs = run_statuses(data_folder, SCORES, names, systems)
        scores = current_scores(data_folder, runs)
        whole = pl.concat([scores, boards.mean_scores(scores, MEANS)])
        board = boards.leaderboard(whole, systems, list(names), runs)
        shown = folded(board_page(data_folder, board, names, markdown=True))
        return stage.table(board, {"leaderboard": shown})

    return leaderboard


def _comparison(names: Mapping[str, str], systems: Sequence[System]) -> dg.AssetsDefinition:
    @_asset(
        "comparison",
        [f"predictions/{name}" for name in names],
        "Pairwise comparisons of systems on the claims that both predicted.",
    )
    def comparison(
        context: dg.AssetExecutionContext, config: ComparisonConfig, data_folder: DataFolder
    ) -> _Output:
        stage = StageRecorder(context, config)
        for key in config.against:
            system_named(key, systems)
        runs = run_statuses(data_folder, PREDICTIONS, names, systems)
        on_disk = [name for name in names if data_folder.exists(f"benchmark/{name}")]
        frame = compare_systems(
            {name: data_folder.read(f"benchmark/{name}") for name in on_disk},
            current_predictions(data_folder, runs),
            config.against,
            {cell for cell, status in runs.items() if status == LIMITED},
        )
        shown = folded(pages.comparison_markdown(frame))
        return stage.table(frame, {"comparison": shown})

    return comparison


def evaluation_checks(
    benchmarks: Sequence[str], systems: Sequence[System]
) -> list[dg.AssetChecksDefinition]:
    """Every check of the evaluation; that of predictions is partitioned by system."""
    parts = system_partitions(systems)
    return [
        *(_parse_rate(name, parts) for name in benchmarks),
        *(_label_balance(name) for name in benchmarks if name in TEST_SET_SIZES),
        _no_leakage(benchmarks),
    ]


def _parse_rate(name: str, parts: _Parts) -> dg.AssetChecksDefinition:
    @partitioned_check(parts, asset=dg.AssetKey(["predictions", name]), name="parse_rate")
    def parse_rate(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder
    ) -> dg.AssetCheckResult:
        """95 % of the replies have a readable verdict; below half, the check is an error."""
        path = f"predictions/{name}/{context.partition_key}"
        status = data_folder.read(path, ["parse_status"])["parse_status"]
        share = float((status == "parsed").mean() or 0.0) if len(status) else 1.0  # type: ignore[arg-type]
        return dg.AssetCheckResult(
            passed=share >= LEAST_PARSED,
            severity=_ERROR if share < LEAST_USEFUL else _WARN,
            description=f"{share:.0%} of the replies have a readable verdict",
            metadata=rounded({"parsed share": share})
            | dict(status.value_counts(sort=True).iter_rows()),
        )

    return parse_rate


def _label_balance(name: str) -> dg.AssetChecksDefinition:
    published = TEST_SET_SIZES[name]

    @dg.asset_check(asset=dg.AssetKey(["benchmark", name]), name="label_balance")
    def label_balance(data_folder: DataFolder, corpora: CorporaResource) -> dg.AssetCheckResult:
        """The test set has the published number of claims and share of Supported (a warning)."""
        labels = evaluation_subset(data_folder.read(f"benchmark/{name}")).claims["label"]
        rows, supported = len(labels), int((labels == "Supported").sum())
        of, share = published["rows"], published.get("supported", 0) / published["rows"]
        near = not share or abs(supported / max(rows, 1) - share) <= SHARE_TOLERANCE
        compared = rows > 0 and bool(corpora.root)  # the bundled sample is not published
        return dg.AssetCheckResult(
            passed=not compared or (near and rows == of),
            severity=_WARN,
            metadata={
                "claims": rows,
                "supported": supported,
                "compared": compared,
                "published claims": of,
                "published supported": published.get("supported", "not known"),
                "source": published["source"],
            },
        )

    return label_balance


def _no_leakage(benchmarks: Sequence[str]) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=dg.AssetKey("leaderboard"), name="no_leakage")
    def no_leakage(data_folder: DataFolder, embedder: EmbedderResource) -> dg.AssetCheckResult:
        """The three decontamination prongs find no test claim in any training set on disk."""
        read = [name for name in benchmarks if data_folder.exists(f"benchmark/{name}")]
        drops = {
            training: leaks(data_folder, training, read, embedder.open())[0]
            for training in get_args(ClaimsTable)
            if read and data_folder.exists(training)
        }
        counts = {
            f"{training}: {reason}, {source}": rows
            for training, frame in drops.items()
            for reason, source, rows in frame.group_by("reason", "matched_source").len().iter_rows()
        }
        facts = {"test sets": read or "none on disk", "training sets": [*drops] or "none on disk"}
        return dg.AssetCheckResult(passed=not counts, metadata=facts | counts)

    return no_leakage


def system_partitions(systems: Sequence[System]) -> dg.StaticPartitionsDefinition:
    """One partition a system: entries of ``systems.toml``, then the catalogue's by method."""
    ordered = sorted(systems, key=lambda system: system.entry is None)
    return dg.StaticPartitionsDefinition([system.key for system in ordered])


def policy_dep(systems: Sequence[System]) -> dg.AssetDep:
    """The edge from asset ``policy``: a policy trained again makes its own system's results stale.

    A partition depends on the run of its system; that of a baseline, or of an entry of
    ``systems.toml``, on none.
    """
    policies = [system for system in systems if system.model.port == "policy"]
    runs = {system.model.key: system.key for system in policies}
    return dg.AssetDep("policy", partition_mapping=dg.StaticPartitionMapping(runs))
