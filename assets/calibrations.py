"""``calibrations``: the reliability of a system's confidence, one partition per system.

The system predicts a dev split: claims of the silver-decomposed pool that are in no training set.
The fit is stored next to the asset's table as ``<system>.json``; later predictions have
``confidence_calibrated``.
"""

from collections.abc import Container, Sequence
from functools import partial
from typing import Literal

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports.system_report import calibration_facts, reliability_markdown
from resources.evaluation.calibrating import Fit, fit_on_predictions, write_calibration
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.partitions import policy_dep, system_partitions
from resources.evaluation.training_overlap import SILVER, dev_claims
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset
from resources.verifier.resource import VerifierResource

_TRIAL = 40
"""Claims predicted first, to see whether the system has any confidence."""
_RESULTS = "calibrations"


class CalibrationConfig(dg.Config):
    """What may differ in one run."""

    claims: int = Field(default=1_000, ge=20, description="largest dev split")
    method: Literal["temperature", "isotonic"] = Field(
        default="temperature", description="isotonic needs 500 verdicts with a confidence"
    )
    seed: int = Field(default=42, description="seed of the dev split's draw")
    most_failed: float = Field(
        default=0.02, ge=0, le=1, description="largest share of claims without an answer"
    )
    checkpoint: Literal["final", "best_on_dev"] = Field(
        default="final", description="policies: which weights, as for predictions"
    )


def calibrations_asset(
    systems: Sequence[System], pool: str | None, last: Container[str] = frozenset()
) -> dg.AssetsDefinition:
    """The asset; ``pool`` if a system uses a shared device, ``last`` as in the evaluation."""

    @dg.asset(
        partitions_def=system_partitions(systems, last),
        deps=[dg.AssetKey(SILVER), dg.AssetKey("training_claims"), policy_dep(systems)],
        group_name="evaluation",
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
    ) -> dg.MaterializeResult[StageOutput]:
        """A calibration of the system's confidence, fitted on claims that nothing else used."""
        system = system_named(context.partition_key, systems)
        split = dev_claims(data_folder, system, config.claims, config.seed)
        engine = evaluation_model.opened(system, data_folder, verifier, config.checkpoint)
        stage = StageRecorder(context, config, engine, part=system.key)
        predict = partial(
            engine.predict,
            _RESULTS,
            most_failed=config.most_failed,
            log=context.log.info,
            calibrated=False,
        )
        _refuse_without_confidence(system, predict(claims=split.claims.head(_TRIAL)).predictions)
        result = predict(claims=split.claims)
        fit = fit_on_predictions(result.predictions, split.claims, config.method, split.name)
        path = write_calibration(data_folder.path, system.key, fit.calibration)
        return stage.evaluated(fit.reliability, split.claims.height, "ok", _page(fit, str(path)))

    return calibrations


def _page(fit: Fit, path: str) -> dict[str, object]:
    return {
        **calibration_facts(fit.calibration),
        "calibration": dg.MetadataValue.path(path),
        "reliability": dg.MetadataValue.md(reliability_markdown(fit.reliability)),
    }


def _refuse_without_confidence(system: System, trial: pl.DataFrame) -> None:
    """Refuse a system whose verdicts have no confidence; pass where none could be read yet.

    Raises:
        EvaluationError: verdicts were read, and none has a confidence.
    """
    parsed = trial.filter(parse_status="parsed")
    if parsed.height and not parsed["confidence_normalised"].count():
        raise EvaluationError(
            f"system '{system.key}' has no confidence to calibrate: none of {parsed.height} "
            "verdicts have token probabilities. Rules and verifiers have no tokens; an endpoint "
            "must return top log-probabilities; and some methods conclude without a model"
        )
