"""The mapper port, where the batches of a step run: its setting, the resource, its engines."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from decomposerl.errors import ConfigError

MapperName = Literal["in_process", "processes", "ray"]
_SETTING = re.compile(
    r"in_process|processes(:(?P<workers>[1-9]\d*))?|ray(:(?P<address>[\w.-]+:\d+))?"
)


@dataclass(frozen=True, slots=True)
class MapperSetting:
    """Where batches run; ``workers`` 0 and no ``address``: as the mapper chooses."""

    where: MapperName = "in_process"
    workers: int = 0
    address: str = ""


IN_PROCESS = MapperSetting()


def parse_mapper(value: str, variable: str) -> MapperSetting:
    """Where batches run: ``in_process``, ``processes`` or ``processes:N``, ``ray`` or with address.

    Raises:
        ConfigError: it is none of them; the message has ``variable``.
    """
    parts = _SETTING.fullmatch(value)
    if parts is None:
        raise ConfigError(
            f"{variable} must be in_process, processes, processes:N, ray or ray:HOST:PORT, with "
            "the port of the cluster's head"
        )
    where = next(name for name in get_args(MapperName) if value.startswith(name))
    return MapperSetting(where, int(parts["workers"] or 0), parts["address"] or "")
