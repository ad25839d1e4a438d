"""``calibrations``: how far a system's confidence is to be believed, a partition a system.

The system is asked about a dev split: claims of the silver-decomposed pool that no training set
holds. What is fitted lies beside the asset's table as ``<system>.json``, and predictions that are
made afterwards carry ``confidence_calibrated``.

Left out deliberately: fitting (``decomposerl.evaluation``), and asking (``resources.evaluation``).
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.systems import System, system_named
from decomposerl.reports.calibration_page import calibration_facts, reliability_markdown
from resources.evaluation.calibrating import Fit, fitted, write_calibration
from resources.evaluation.dev_claims import SILVER, dev_claims
from resources.evaluation.model import EvaluationModelResource
from resources.store.parquet import DataFolder, StageOutput
from resources.store.recording import StageRecorder
from resources.store.run_lock import locked_asset
from resources.verifier.resource import VerifierResource

_TRIED = 40
"""Claims that are asked before the rest, to learn whether there is any confidence."""
_SHELF = "calibrations"


class CalibrationConfig(dg.Config):
    """What may differ in one run."""

    claims: int = Field(default=1_000, ge=20, description="most claims of the dev split")
    method: Literal["temperature", "isotonic"] = Field(
        default="temperature", description="isotonic needs 500 verdicts with a confidence"
    )
    seed: int = Field(default=42, description="of the draw of the dev split")
    most_failed: float = Field(
        default=0.02, ge=0, le=1, description="share of claims without an answer that fails it"
    )
    checkpoint: Literal["final", "best_on_dev"] = Field(
        default="final", description="policies: which weights, as for the predictions"
    )


def calibrations_asset(systems: Sequence[System], pool: str | None) -> dg.AssetsDefinition:
    """The asset; ``pool`` where a system takes a device that others use."""

    @dg.asset(
        partitions_def=dg.StaticPartitionsDefinition([one.key for one in systems]),
        deps=[dg.AssetKey(SILVER), dg.AssetKey("training_claims")],
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
        """A calibration of the system's confidence, fitted on claims that nothing used."""
        system = system_named(context.partition_key, systems)
        split = dev_claims(data_folder, system, config.claims, config.seed)
        engine = evaluation_model.opened(system, data_folder, verifier, config.checkpoint)
        stage = StageRecorder(context, config, engine, part=system.key)
        asked = partial(
            engine.predict,
            _SHELF,
            most_failed=config.most_failed,
            say=context.log.info,
            calibrated=False,
        )
        _refuse_unsure(system, asked(claims=split.claims.head(_TRIED)).predictions)
        made = asked(claims=split.claims)
        fit = fitted(made.predictions, split.claims, config.method, split.name)
        path = write_calibration(data_folder.path, system.key, fit.calibration)
        return stage.evaluated(fit.reliability, split.claims.height, "ok", _page(fit, str(path)))

    return calibrations


def _page(fit: Fit, path: str) -> dict[str, object]:
    return {
        **calibration_facts(fit.calibration),
        "calibration": dg.MetadataValue.path(path),
        "reliability": dg.MetadataValue.md(reliability_markdown(fit.reliability)),
    }


def _refuse_unsure(system: System, tried: pl.DataFrame) -> None:
    """Pass where a verdict has a confidence, or none could be read yet.

    Raises:
        EvaluationError: verdicts were read, and none of them has one.
    """
    parsed = tried.filter(parse_status="parsed")
    if parsed.height and not parsed["confidence_normalised"].count():
        raise EvaluationError(
            f"system '{system.key}' has no confidence to calibrate: none of {parsed.height} "
            "verdicts came with the probabilities of its token. Rules and verifiers have no "
            "tokens; an endpoint must return log probabilities with alternatives; and some "
            "methods conclude without a word of a model"
        )
