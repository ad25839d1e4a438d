"""An ``Endpoint`` as part of a Dagster resource, and its key.

A key is never configuration: a resource has the name of the key's variable, and reads the variable
when its first request needs it.
"""

import os
from collections.abc import Mapping

import dagster as dg
from pydantic import Field, SecretStr

from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError


class EndpointConfig(Endpoint, dg.Config):
    """The fields of an ``Endpoint``, for the configuration of a run; Dagster has no tuples."""

    base_url: list[str] = Field(  # type: ignore[assignment]
        default=[], description=Endpoint.model_fields["base_url"].description
    )
    served_as: list[str] = Field(  # type: ignore[assignment]
        default=[], description=Endpoint.model_fields["served_as"].description
    )


def config_of(endpoint: Endpoint) -> EndpointConfig:
    """The endpoint as part of a resource."""
    values = {name: getattr(endpoint, name) for name in Endpoint.model_fields}
    listed = {name: list(values[name]) for name in ("base_url", "served_as")}
    return EndpointConfig(**(values | listed))


def key_of(endpoint: Endpoint, environment: Mapping[str, str] | None = None) -> SecretStr:
    """The key of an endpoint, in memory alone; empty where it names no variable.

    Raises:
        ConfigError: the variable is not set; the message names it.
    """
    variable = endpoint.key_variable
    value = (os.environ if environment is None else environment).get(variable, "")
    if variable and not value:
        raise ConfigError(
            f"{variable} is not set; it must hold the endpoint's key, in the environment or in .env"
        )
    return SecretStr(value)
