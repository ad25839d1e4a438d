"""A calibration of a system's confidence, fitted on claims of a dev split and kept as a file.

Takes predictions of labelled claims that no test set holds, gives the ``Calibration`` bound to
their model and prompt.

Left out deliberately: which claims these are; a policy's held-out claims are, benchmarks never.
"""

from pathlib import Path

import polars as pl

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.calibration import Calibration, Method, fit_calibration
from resources.tables import replace_file

CALIBRATIONS = "calibrations"


def fitted(
    predictions: pl.DataFrame, labels: pl.DataFrame, method: Method, fitted_on: str
) -> Calibration:
    """Fit ``PREDICTIONS`` against ``labels`` (claim_id, label), where there is a confidence.

    Raises:
        EvaluationError: too few verdicts have a confidence, or they are of several models or
            prompts.
    """
    bound = predictions.select("engine", "prompt_hash").unique()
    if bound.height != 1:
        raise EvaluationError(f"a calibration is of one model and prompt, not {bound.height}")
    rows = predictions.join(labels.select("claim_id", "label"), on="claim_id").filter(
        pl.col("confidence_normalised").is_not_null()
    )
    ((model, prompt_hash),) = bound.rows()
    return fit_calibration(
        rows["confidence_normalised"].to_numpy(),
        (rows["verdict"] == rows["label"]).to_numpy(),
        method,
        model=model,
        prompt_hash=prompt_hash,
        fitted_on=fitted_on,
    )


def calibration_path(data: Path, system: str) -> Path:
    """Where a system's calibration lies."""
    return data / CALIBRATIONS / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> None:
    """Keep it for the system's next predictions."""
    text = calibration.model_dump_json(indent=2)
    replace_file(calibration_path(data, system), lambda aside: aside.write_text(text, "utf-8"))


def read_calibration(data: Path, system: str) -> Calibration | None:
    """The system's calibration; None where none was fitted."""
    path = calibration_path(data, system)
    return Calibration.model_validate_json(path.read_text("utf-8")) if path.is_file() else None
