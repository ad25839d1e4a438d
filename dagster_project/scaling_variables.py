"""Parse the variables that say where batches and training run: here, or on other machines."""

import re
from dataclasses import dataclass
from typing import get_args

from dagster_project.engine_variables import PREFIX, Env, endpoint_urls, names_of_keys
from decomposerl.errors import ConfigError
from resources.mapper import MapperName

_MAPPER = re.compile(
    r"in_process|processes(:(?P<workers>[1-9]\d*))?|ray(:(?P<address>[\w.-]+:\d+))?"
)


@dataclass(frozen=True, slots=True)
class MapperSetting:
    """Where batches run; ``workers`` 0 and no ``address``: as the mapper chooses."""

    where: MapperName = "in_process"
    workers: int = 0
    address: str = ""


IN_PROCESS = MapperSetting()


def mapper(env: Env, variable: str, default: MapperName) -> MapperSetting:
    """Where batches run: ``in_process``, ``processes`` or ``processes:N``, ``ray`` or with address.

    Raises:
        ConfigError: it is none of them.
    """
    value = env.get(variable) or default
    found = _MAPPER.fullmatch(value)
    if found is None:
        raise ConfigError(
            f"{variable} is '{value}'; it must be in_process, processes, processes:N, ray or "
            "ray:HOST:PORT, with the port of the cluster's head"
        )
    where = next(name for name in get_args(MapperName) if value.startswith(name))
    return MapperSetting(where, int(found["workers"] or 0), found["address"] or "")


def dashboard(env: Env, variable: str) -> str:
    """The URL of a Ray dashboard; empty where unset.

    Raises:
        ConfigError: it is no plain http(s) URL.
    """
    urls = endpoint_urls(env, variable, "", most=1)
    return urls[0] if urls else ""


def job_variables(env: Env, **folders: object) -> dict[str, str]:
    """This project's variables for a process on another machine: no keys, whole ``folders``."""
    keys = names_of_keys(env)
    ours = {name: env[name] for name in env if name.startswith(PREFIX) and name not in keys}
    named = {f"DECOMPOSERL_{name.upper()}": str(path) for name, path in folders.items() if path}
    return {**ours, **named}
