"""The file of stored chat replies as a Dagster resource, for the asset that shows them.

Left out deliberately: reading it (``resources.chat.export``).
"""

from pathlib import Path

import dagster as dg
import polars as pl
from pydantic import Field

from resources.chat.export import CACHE_FILE, replies_in
from resources.store.paths import LocalPath
from resources.store.profile_defaults import ProfileDefaults


class ChatCacheFile(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where the chat clients of a profile keep their replies."""

    results_dir: LocalPath = Field(description="folder of stored engine results")

    def replies(self) -> pl.DataFrame:
        """Every stored reply, as ``replies_in``."""
        return replies_in(Path(self.results_dir) / CACHE_FILE)
