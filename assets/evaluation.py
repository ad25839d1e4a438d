"""The evaluation (paper, section 4): predictions and scores of every system, the leaderboard.

``predictions/<benchmark>`` and ``scores/<benchmark>`` have one partition per system; scoring again
makes no model calls. ``calibrations`` is the reliability of a system's confidence on a dev split:
claims of the silver-decomposed pool that are in no training set. The fit is stored next to the
asset's table as ``<system>.json``; later predictions have ``confidence_calibrated``.
``leaderboard`` and ``comparison`` use everything on disk, from any run.

Checks read the tables on disk, not the metadata of a run. Scores have no lower bound.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.claims.source import Benchmark
from decomposerl.errors import EvaluationError
from decomposerl.evaluation import leaderboard as boards
from decomposerl.evaluation.calibration import fit_on_predictions
from decomposerl.evaluation.comparison import ComparisonSettings, compare_systems
from decomposerl.evaluation.leaderboard import LIMITED
from decomposerl.evaluation.published import MEANS, SHARE_TOLERANCE, TEST_SET_SIZES
from decomposerl.evaluation.scored_claims import classes_of, evaluation_subset
from decomposerl.evaluation.scores import ScoreSettings, score_predictions
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports import leaderboard_report as board_pages
from decomposerl.reports import system_report as pages
from decomposerl.schemas import LABELS
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
    current_predictions,
    current_scores,
    read_doubtful,
    read_required,
    run_statuses,
    subset_status,
    with_sample_note,
)
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder, folded, partitioned_check, rounded
from resources.store.run_lock import locked_asset
from resources.verifier.resource import VerifierResource

LEAST_PARSED, LEAST_USEFUL = 0.95, 0.5
TRAINING_SETS = ("training_claims", "training_claims_random")
_GROUP = "evaluation"
_TRIAL = 40
"""Claims predicted first, to see whether the system has any confidence."""
_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
_Parts = dg.StaticPartitionsDefinition
_Output = dg.MaterializeResult[StageOutput]


class _RunConfig(dg.Config):
    most_failed: float = Field(
        default=0.02, ge=0, le=1, description="largest share of claims without an answer"
    )


class PredictionConfig(_RunConfig):
    """What may differ in one run."""

    limit: int | None = Field(
        default=None,
        ge=2,
        description="largest number of claims, half of either label; such a run has the status "
        "limited and is not a measurement",
    )


class CalibrationConfig(_RunConfig):
    """What may differ in one run of a calibration."""

    claims: int = Field(default=1_000, ge=20, description="largest dev split")
    seed: int = Field(default=42, description="seed of the dev split's draw")


class ScoreConfig(ScoreSettings, dg.Config):
    """``ScoreSettings`` as Dagster configuration."""


class ComparisonConfig(ComparisonSettings, dg.Config):
    """``ComparisonSettings`` as Dagster configuration."""


def evaluation_assets(
    benchmarks: Sequence[Benchmark],
    systems: Sequence[System],
    pool: str | None,
    last: Container[str] = frozenset(),
) -> list[dg.AssetsDefinition]:
    """All assets of the evaluation; ``pool`` if a system uses a shared device.

    ``last`` are the systems that the profile cannot run, the last partitions.
    """
    names = {benchmark.name: benchmark.title for benchmark in benchmarks}
    parts = system_partitions(systems, last)
    predicted = [_predictions(name, systems, parts, pool) for name in names]
    scored = [_scores(name, parts) for name in names]
    boards = [_leaderboard(names, systems), _comparison(names, systems)]
    return [*predicted, *scored, *boards, _calibrations(systems, parts, pool)]


def _predictions(
    name: str, systems: Sequence[System], parts: _Parts, pool: str | None
) -> dg.AssetsDefinition:
    @dg.asset(
        key=["predictions", name],
        partitions_def=parts,
        deps=[dg.AssetKey(["benchmark", name]), "calibrations", policy_dep(systems)],
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
        claims = read_required(data_folder, f"benchmark/{name}")
        subset = evaluation_subset(claims, config.limit)
        third = classes_of(evaluation_subset(claims).claims["label"]) > len(LABELS)
        engine = evaluation_model.opened(system, data_folder, verifier, three_way=third)
        stage = StageRecorder(context, config, engine, part=system.key, entry=system.entry_digest)
        log, most_failed = context.log.info, config.most_failed
        predicted, calls = engine.predict(
            name, subset.claims, most_failed, log, calibrated=not third
        )
        page = {
            "verdicts": dg.MetadataValue.md(pages.verdicts_markdown(predicted, subset.claims)),
            "examples": folded(pages.examples_markdown(predicted, subset.claims)),
            "calls by operation": dg.MetadataValue.md(pages.calls_markdown(calls)),
            **pages.prediction_facts(system, subset, predicted, calls),
            **policy_facts(data_folder, system),
        }
        return stage.evaluated(predicted, subset.usable, subset_status(subset), page, calls=calls)

    return predictions


def _calibrations(
    systems: Sequence[System], parts: _Parts, pool: str | None
) -> dg.AssetsDefinition:
    @dg.asset(
        partitions_def=parts,
        deps=[dg.AssetKey(SILVER), dg.AssetKey("training_claims"), policy_dep(systems)],
        group_name=_GROUP,
        kinds={"parquet"},
        pool=pool,
    )
    @locked_asset
    def calibrations(
        context: dg.AssetExecutionContext,
        config: CalibrationConfig,
        data_folder: DataFolder,
        evaluation_model: EvaluationModelResource,
        verifier: VerifierResource,
    ) -> _Output:
        """A calibration of the system's confidence, fitted on claims that nothing else used."""
        system = system_named(context.partition_key, systems)
        claims, split = dev_claims(data_folder, system, config.claims, config.seed)
        engine = evaluation_model.opened(system, data_folder, verifier)
        stage = StageRecorder(context, config, engine, part=system.key)
        predict = partial(
            engine.predict,
            "calibrations",
            most_failed=config.most_failed,
            log=context.log.info,
            calibrated=False,
        )
        tried, _ = predict(claims=claims.head(_TRIAL))
        tried = tried.filter(parse_status="parsed")
        if tried.height and not tried["confidence_normalised"].count():
            raise EvaluationError(
                f"system '{system.key}' has no confidence to calibrate: none of {tried.height} "
                "verdicts have token probabilities. Rules and verifiers have no tokens; an "
                "endpoint must return top log-probabilities; and some methods conclude without a "
                "model"
            )
        predicted, _ = predict(claims=claims)
        calibration, bins = fit_on_predictions(predicted, claims, split)
        path = write_calibration(data_folder.path, system.key, calibration)
        page = {
            **pages.calibration_facts(calibration),
            "calibration": dg.MetadataValue.path(str(path)),
            "reliability": dg.MetadataValue.md(pages.reliability_markdown(bins)),
        }
        return stage.evaluated(bins, claims.height, "ok", page)

    return calibrations


def _scores(name: str, parts: _Parts) -> dg.AssetsDefinition:
    @dg.asset(
        key=["scores", name],
        partitions_def=parts,
        deps=[dg.AssetKey(["predictions", name]), dg.AssetKey(["benchmark", name])],
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
        claims = evaluation_subset(read_required(data_folder, f"benchmark/{name}")).claims
        classes = classes_of(claims["label"])
        if status == LIMITED:
            claims = claims.join(predictions, on="claim_id", how="semi")
        doubtful = read_doubtful(data_folder, name)
        frame = score_predictions(predictions, claims, config, doubtful, classes)
        page = {
            **pages.score_facts(frame),
            "scores": dg.MetadataValue.md(pages.scores_markdown(frame)),
        }
        return stage.evaluated(frame, predictions.height, status, page)

    return scores


def _leaderboard(names: Mapping[str, str], systems: Sequence[System]) -> dg.AssetsDefinition:
    @dg.asset(
        deps=[dg.AssetKey(["scores", name]) for name in names],
        config_schema={},
        group_name=_GROUP,
        kinds={"parquet"},
    )
    @locked_asset
    def leaderboard(context: dg.AssetExecutionContext, data_folder: DataFolder) -> _Output:
        """All scores so far in the layout of the paper's tables, next to its figures."""
        stage = StageRecorder(context)
        runs = _runs(context, data_folder, names, systems, SCORES)
        scores = current_scores(data_folder, runs)
        whole = pl.concat([scores, boards.mean_scores(scores, MEANS)])
        board = boards.leaderboard(whole, systems, list(names), runs)
        text = board_pages.leaderboard_page(board, names, markdown=True)
        metadata = {
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
        for key in config.against:
            system_named(key, systems)
        runs = _runs(context, data_folder, names, systems, PREDICTIONS)
        on_disk = [name for name in names if data_folder.exists(f"benchmark/{name}")]
        frame = compare_systems(
            {name: data_folder.read(f"benchmark/{name}") for name in on_disk},
            current_predictions(data_folder, runs),
            config,
            {cell for cell, status in runs.items() if status == LIMITED},
            {name: read_doubtful(data_folder, name) for name in names},
        )
        shown = folded(board_pages.comparison_markdown(frame))
        return stage.table(frame, {"comparison": shown})

    return comparison


def _runs(
    context: dg.AssetExecutionContext,
    folder: DataFolder,
    names: Iterable[str],
    systems: Sequence[System],
    kind: str,
) -> boards.RunCoverage:
    """What was evaluated; a warning names the runs of an earlier form of an entry."""
    runs = run_statuses(folder, kind, names, {one.key: one.entry_digest for one in systems})
    edited = sorted(cell for cell, status in runs.items() if status == boards.EDITED)
    if edited:
        cells = "; ".join(f"{system} on {name}" for system, name in edited)
        context.log.warning(f"{board_pages.NOTES['edited']} {cells}")
    return runs


def evaluation_checks(
    benchmarks: Sequence[str], systems: Sequence[System], last: Container[str] = frozenset()
) -> list[dg.AssetChecksDefinition]:
    """Every check of the evaluation; those of predictions and scores are partitioned by system.

    ``last`` as in ``evaluation_assets``.
    """
    parts = system_partitions(systems, last)
    per_benchmark = [check for name in benchmarks for check in _checks(name, parts)]
    return [*per_benchmark, _no_leakage(benchmarks)]


def _checks(name: str, parts: _Parts) -> list[dg.AssetChecksDefinition]:
    predictions = dg.AssetKey(["predictions", name])

    @partitioned_check(parts, asset=predictions, name="parse_rate")
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

    @partitioned_check(parts, asset=predictions, name="every_claim_once")
    def every_claim_once(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder
    ) -> dg.AssetCheckResult:
        """Each claim with label and evidence has one prediction, except in a limited run."""
        path = f"predictions/{name}/{context.partition_key}"
        predicted = data_folder.read(path, ["claim_id"])
        usable = evaluation_subset(read_required(data_folder, f"benchmark/{name}")).claims
        missing = usable.join(predicted, on="claim_id", how="anti").height
        unknown = predicted.join(usable, on="claim_id", how="anti").height
        limited = data_folder.run(path)["status"] == LIMITED
        return dg.AssetCheckResult(
            passed=unknown == 0 and (limited or missing == 0),
            metadata={"missing": missing, "unknown": unknown, "limited": limited},
        )

    return [parse_rate, every_claim_once, _label_balance(name, parts)]


def _label_balance(name: str, parts: _Parts) -> dg.AssetChecksDefinition:
    key, registered = dg.AssetKey(["scores", name]), TEST_SET_SIZES.get(name)

    @partitioned_check(parts, asset=key, name="label_balance")
    def label_balance(
        context: dg.AssetCheckExecutionContext, data_folder: DataFolder, corpora: CorporaResource
    ) -> dg.AssetCheckResult:
        """The scored claims have the published number and share of Supported (a warning)."""
        path = f"scores/{name}/{context.partition_key}"
        whole = data_folder.read(path).filter(slice="all", metric="balanced_accuracy")
        rows, supported = (int(whole[column].sum()) for column in ("rows", "supported"))
        facts = {"claims": rows, "supported": supported}
        limited = data_folder.run(path)["status"] == LIMITED
        if not rows or limited or registered is None or not corpora.root:
            why = "the bundled sample is not published" if registered else "not registered"
            why = "not at all" if not rows or limited else why
            return dg.AssetCheckResult(passed=True, metadata={**facts, "compared": why})
        share = None if registered.supported is None else registered.supported / registered.rows
        near = share is None or abs(supported / rows - share) <= SHARE_TOLERANCE
        return dg.AssetCheckResult(
            passed=near and rows == registered.rows,
            severity=_WARN,
            metadata={
                **facts,
                "registered claims": registered.rows,
                "registered supported": registered.supported or "not known",
                "source": registered.source,
            },
        )

    return label_balance


def _no_leakage(benchmarks: Sequence[str]) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=dg.AssetKey("leaderboard"), name="no_leakage")
    def no_leakage(data_folder: DataFolder, embedder: EmbedderResource) -> dg.AssetCheckResult:
        """The three decontamination prongs find no test claim in any training set on disk."""
        read = [name for name in benchmarks if data_folder.exists(f"benchmark/{name}")]
        leaked = {
            training: leaks(data_folder, training, read, embedder.open())
            for training in TRAINING_SETS
            if read and data_folder.exists(training)
        }
        drops = [found for found, _ in leaked.values()]
        by_set = pl.concat(drops)["matched_source"].value_counts(sort=True) if drops else None
        return dg.AssetCheckResult(
            passed=all(frame.is_empty() for frame in drops),
            metadata={
                "training sets": list(leaked) or "none on disk",
                "test claims": max((tests for _, tests in leaked.values()), default=0),
                **{
                    f"{name}: {why}": n
                    for name, (found, _) in leaked.items()
                    for why, n in found["reason"].value_counts(sort=True).iter_rows()
                },
                "by test set": {} if by_set is None else dict(by_set.iter_rows()),
            },
        )

    return no_leakage


def system_partitions(
    systems: Sequence[System], last: Container[str] = frozenset()
) -> dg.StaticPartitionsDefinition:
    """One partition a system: entries of ``systems.toml``, then by method; ``last`` at the end."""
    ordered = sorted(systems, key=lambda system: (system.key in last, system.entry is None))
    return dg.StaticPartitionsDefinition([system.key for system in ordered])


def policy_dep(systems: Sequence[System]) -> dg.AssetDep:
    """The edge from asset ``policy``: a policy trained again makes its own system's results stale.

    A partition depends on the run of its system; that of a baseline, or of an entry of
    ``systems.toml``, on none.
    """
    policies = [system for system in systems if system.model.port == "policy"]
    runs = {system.model.key: system.key for system in policies}
    return dg.AssetDep("policy", partition_mapping=dg.StaticPartitionMapping(runs))
