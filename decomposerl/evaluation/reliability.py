"""How often verdicts of like confidence were right: the rows of a reliability diagram.

Takes confidences 0..1 with whether the verdicts were right, gives one row a bin that holds some.

Left out deliberately: drawing, and the one number of it (``metrics.calibration_error``).
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.evaluation.metrics import Numbers, bin_numbers


def reliability(confidences: Numbers, right: NDArray[np.bool_]) -> pl.DataFrame:
    """Columns ``bin``, ``low``, ``high``, ``rows``, ``confidence``, ``right``, in rising bins.

    Bins hold equally many verdicts, as those of the calibration error; ``low`` and ``high`` are
    the least and greatest confidence in it, ``confidence`` their mean, ``right`` the share.
    """
    rows = pl.DataFrame(
        {"bin": bin_numbers(confidences, "mass"), "confidence": confidences, "right": right},
        schema={"bin": pl.Int64, "confidence": pl.Float64, "right": pl.Boolean},
    )
    return (
        rows.group_by("bin")
        .agg(
            low=pl.col("confidence").min(),
            high=pl.col("confidence").max(),
            rows=pl.len().cast(pl.Int64),
            confidence=pl.col("confidence").mean(),
            right=pl.col("right").mean(),
        )
        .sort("bin")
    )
