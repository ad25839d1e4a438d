"""The mapper port, where the batches of a step run: the Dagster resource and its engines."""

from typing import Literal

MapperName = Literal["in_process", "processes", "ray"]
