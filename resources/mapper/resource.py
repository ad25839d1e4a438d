"""Where batches run, as settings of a Dagster resource: this process, several, a Ray cluster."""

import dagster as dg
from pydantic import Field

from resources.mapper import MapperName
from resources.mapper.pools import InProcessMapper, OpenMapper, ProcessMapper
from resources.mapper.ray_mapper import RayMapper, Share
from resources.profile_defaults import ProfileDefaults


class MapperChoice(dg.Config):
    """Where the batches of an engine run."""

    where: MapperName = Field(
        default="in_process", description="this process, several of this machine, or a Ray cluster"
    )
    workers: int = Field(
        default=0,
        ge=0,
        description="how many; 0: one for every four cores, on Ray as many as fit into the cluster",
    )
    address: str = Field(
        default="", description="ray: host:port of the head; empty: RAY_ADDRESS, or this machine"
    )
    cpus: float = Field(default=1, ge=0, description="ray: that each worker reserves")
    gpus: float = Field(
        default=0, ge=0, description="ray: that each worker reserves; 0.5 for two on a card"
    )

    def open(self) -> OpenMapper:
        """The mapper; no worker is started and no cluster joined before the first batch."""
        if self.where == "processes":
            return ProcessMapper(self.workers)
        if self.where == "ray":
            return RayMapper(self.address, self.workers, Share(self.cpus, self.gpus))
        return InProcessMapper()


class MapperResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The mapper of steps that have no engine: joins, cosines, selection."""

    choice: MapperChoice = Field(
        default=MapperChoice(), description="where batches run; ray: in this process"
    )

    def open(self) -> OpenMapper:
        """As ``MapperChoice.open``; not on Ray, as these tasks share files of this machine."""
        return InProcessMapper() if self.choice.where == "ray" else self.choice.open()
