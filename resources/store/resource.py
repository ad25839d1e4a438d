"""The base of every Dagster resource whose engine's results are stored."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import dagster as dg
from pydantic import Field, PrivateAttr

from resources.mapper.pools import OpenMapper
from resources.mapper.resource import MapperChoice
from resources.profile_defaults import ProfileDefaults
from resources.store.paths import LocalPath
from resources.store.result_store import ResultStores


class StoredResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """An engine whose results are stored."""

    results_dir: LocalPath = Field(
        description="folder of stored engine results, shared by all engines"
    )

    _closers: list[Callable[[], None]] = PrivateAttr(default_factory=list)

    def stores(self) -> ResultStores:
        """The stored results of all engines."""
        return ResultStores(Path(self.results_dir))

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator[Self]:  # noqa: ARG002 - Dagster's signature
        """Close what was opened, also when the run failed."""
        try:
            yield self
        finally:
            self.close()

    def close(self) -> None:
        """Close the clients and stop the servers behind ``open``; may be called again.

        Each is closed, last opened first, also where closing another one fails.
        """
        closers, self._closers = self._closers, []
        with ExitStack() as closing:
            for close in closers:
                closing.callback(close)


class MappedResource(StoredResource):
    """One whose engine may run in this process, in several, or on a cluster."""

    mapper: MapperChoice = Field(default=MapperChoice(), description="where local batches run")

    def open_mapper(self) -> OpenMapper:
        """What runs the batches; its workers end with ``close``."""
        mapper = self.mapper.open()
        self._closers.append(mapper.close)
        return mapper
