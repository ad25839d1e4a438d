"""Whether a test claim stands in a training set, tested afresh on what lies on disk.

Takes the data folder, a training set's key and the test sets, gives what the three prongs of
decontamination (paper, section 2) would still remove, with the thresholds of the funnel's last run.

Left out deliberately: the prongs (``decomposerl.funnel.decontamination``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from decomposerl.funnel.catalogue import decontaminate
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.ports import Embedder
from decomposerl.schemas import DECONTAMINATED
from resources.store.parquet import DataFolder


@dataclass(frozen=True, slots=True)
class Leaks:
    """What would be removed (``DROPS``), and how many test claims it was held against."""

    drops: pl.DataFrame
    tests: int

    @property
    def reasons(self) -> dict[str, int]:
        """Removals by reason."""
        return dict(self.drops["reason"].value_counts(sort=True).rows())


def leaks(data: DataFolder, training: str, benchmarks: Sequence[str], embedder: Embedder) -> Leaks:
    """What the three prongs find in a training set."""
    claims = data.read(training, list(DECONTAMINATED.schema))
    tests = pl.concat([data.read(f"benchmark/{name}") for name in benchmarks])
    ran = data.run("decontaminated")["config"]
    thresholds = DecontaminationSettings.model_validate_json(ran)
    return Leaks(decontaminate(claims, tests, thresholds, embedder).drops, tests.height)
