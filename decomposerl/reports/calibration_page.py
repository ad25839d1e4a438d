"""A calibration for a reader: what it is, what it is worth, and the reliability behind it.

Takes a ``Calibration`` and ``CALIBRATIONS``, gives values and a Markdown table by name, plain data.

Left out deliberately: pictures.
"""

import polars as pl

from decomposerl.evaluation.calibration import Calibration
from decomposerl.reports.escape import markdown_table


def calibration_facts(found: Calibration) -> dict[str, int | float | str]:
    """Method, size, and errors in percent: as the confidences are, and cross-fitted."""
    facts: dict[str, int | float | str] = {
        "method": found.method,
        "verdicts with a confidence": found.rows,
        "fitted on": found.fitted_on,
        "bound to model": found.model,
        "bound to prompt hash": found.prompt_hash,
        "ECE before": 100 * found.error_before,
        "ECE after, cross-fitted": 100 * found.error_after,
        "Brier before": 100 * found.brier_before,
        "Brier after, cross-fitted": 100 * found.brier_after,
        "folds": found.folds,
    }
    if found.method == "temperature":
        facts["temperature"] = found.temperature
    return facts


def reliability_markdown(reliability: pl.DataFrame) -> str:
    """Bins of both readings: how sure, how often right."""
    rows = [
        (
            row["reading"],
            f"{row['low']:.3f} to {row['high']:.3f}",
            row["rows"],
            f"{100 * row['confidence']:.1f}",
            f"{100 * row['right']:.1f}",
        )
        for row in reliability.iter_rows(named=True)
    ]
    return markdown_table(["reading", "confidence", "verdicts", "mean %", "right %"], rows)
