"""The corpora as a Dagster resource: one folder and one set of reading rules for all.

Sources and benchmarks share it, so that both compute the same hold-out split.
"""

from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import field_validator

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.load import LoadSettings
from resources.corpora.bundled_sample import BUNDLED, ensure_sample
from resources.corpora.folder import FolderCorpora
from resources.profile_defaults import ProfileDefaults
from resources.store.paths import LocalPath


class LoadConfig(LoadSettings, dg.Config):
    """The reading rules of ``LoadSettings`` as Dagster configuration."""

    @field_validator("readings")
    @classmethod
    def _known(cls, readings: dict[str, str]) -> dict[str, str]:
        """Each names a corpus of the catalogue and one of its readings."""
        known = {
            f"{corpus.name}: {reading.name}"
            for corpus in (*SOURCES, *BENCHMARKS)
            for reading in corpus.readings
        }
        unknown = {f"{name}: {reading}" for name, reading in readings.items()} - known
        if unknown:
            raise ValueError(f"no such reading: {sorted(unknown)}; there are {sorted(known)}")
        return readings


class CorporaResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """A folder of raw corpora; an empty ``root`` means the bundled sample.

    The sample is generated into ``sample_root`` on first use.
    """

    root: LocalPath = ""
    sample_root: LocalPath = "data/sample"
    settings: LoadConfig = LoadConfig()

    def recorded(self) -> dict[str, Any]:
        """The settings as a run records them; ``corpora`` is the variable, or ``BUNDLED``."""
        corpora = "DECOMPOSERL_CORPORA" if self.root else BUNDLED
        return {**self.settings.model_dump(), "corpora": corpora}

    def files(self) -> FolderCorpora:
        """The files of the chosen folder, as adapters read them."""
        folder = Path(self.root) if self.root else ensure_sample(Path(self.sample_root))
        return FolderCorpora(folder)
