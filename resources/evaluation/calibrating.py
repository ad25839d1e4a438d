"""A system's calibration: fitted on a dev split and stored as a file of the data folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import ValidationError

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.calibration import (
    Calibration,
    CalibrationMethod,
    cross_fitted,
    fit_calibration,
    reliability,
)
from decomposerl.evaluation.scored_claims import SHARED_EVIDENCE
from decomposerl.schemas import CALIBRATIONS
from resources.store.temporary import replace_file

FOLDER = CALIBRATIONS.name
_NORMALISED = "confidence_normalised"
_EVIDENCE = pl.coalesce(SHARED_EVIDENCE, "claim_id")


@dataclass(frozen=True, slots=True)
class Fit:
    """A calibration, and the reliability of the split's confidences as ``CALIBRATIONS``."""

    calibration: Calibration
    reliability: pl.DataFrame


def fit_on_predictions(
    predictions: pl.DataFrame, claims: pl.DataFrame, method: CalibrationMethod, fitted_on: str
) -> Fit:
    """Fit a calibration to ``PREDICTIONS`` of labelled ``claims`` that have a confidence.

    The reliability is that of the confidences before, and cross-fitted after; verdicts on the same
    evidence are in one fold.

    Raises:
        EvaluationError: too few confidences, or several models or prompts.
    """
    bound = predictions.select("system", "engine", "prompt_hash").unique()
    if bound.height != 1:
        raise EvaluationError(f"a calibration is of one model and prompt, not {bound.height}")
    about = claims.select("claim_id", "label", document=_EVIDENCE)
    rows = predictions.join(about, on="claim_id", maintain_order="left").drop_nulls(_NORMALISED)
    ((system, engine, prompt_hash),) = bound.rows()
    confidences = rows[_NORMALISED].to_numpy()
    right = (rows["verdict"] == rows["label"]).to_numpy()
    evidence = rows["document"].rank("dense").to_numpy().astype(np.int64)
    calibration = fit_calibration(
        confidences,
        right,
        method,
        model=engine,
        prompt_hash=prompt_hash,
        fitted_on=fitted_on,
        evidence=evidence,
    )
    readings = {
        "normalised": confidences,
        "calibrated": cross_fitted(confidences, right, evidence, method),
    }
    bins = [
        reliability(values, right).with_columns(reading=pl.lit(name))
        for name, values in readings.items()
    ]
    table = pl.concat(bins).with_columns(system=pl.lit(system), engine=pl.lit(engine))
    return Fit(calibration, CALIBRATIONS.conform(table))


def calibration_path(data: Path, system: str) -> Path:
    """The path of a system's calibration."""
    return data / FOLDER / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> Path:
    """Write it for the system's next predictions; returns its path."""
    path, text = calibration_path(data, system), calibration.model_dump_json(indent=2)
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path


def read_calibration(data: Path, system: str) -> Calibration | None:
    """The system's calibration; None where none was fitted.

    Raises:
        EvaluationError: the file is damaged.
    """
    path = calibration_path(data, system)
    if not path.is_file():
        return None
    try:
        return Calibration.model_validate_json(path.read_text("utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise EvaluationError(f"{path} is not a calibration; {_remedy(path, system)}") from error


def usable_calibration(
    data: Path, system: str, *, model: str, prompt_hash: str
) -> Calibration | None:
    """The system's calibration, None where there is none.

    Raises:
        EvaluationError: it is damaged, or was fitted to another model or prompt; says what to do.
    """
    calibration = read_calibration(data, system)
    if calibration is not None:
        try:
            calibration.refuse_others(model=model, prompt_hash=prompt_hash)
        except EvaluationError as error:
            path = calibration_path(data, system)
            raise EvaluationError(f"{path}: {error}; {_remedy(path, system)}") from error
    return calibration


def _remedy(path: Path, system: str) -> str:
    return (
        "dagster asset materialize -m dagster_project.definitions --select "
        f"'key:\"{FOLDER}\"' --partition {system}, or remove {path.name} to predict without one"
    )
