"""An ``Endpoint`` as part of a Dagster resource, its key, and the client that asks it.

A key is never configuration: a resource has the name of the key's variable, and reads the variable
when its first request needs it.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import dagster as dg
from pydantic import AfterValidator, Field, SecretStr

from decomposerl.endpoint import Endpoint, plain_urls
from decomposerl.errors import ConfigError
from resources.chat.settings import Ceilings, ChatSettings

if TYPE_CHECKING:
    from resources.chat.client import ChatClient


class EndpointConfig(Endpoint, dg.Config):
    """The fields of an ``Endpoint``, for the configuration of a run; Dagster has no tuples."""

    base_url: Annotated[list[str], AfterValidator(plain_urls)] = Field(  # type: ignore[assignment]
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


def open_chat(
    endpoint: Endpoint,
    results_dir: str,
    closers: list[Callable[[], None]],
    *,
    find_urls: Callable[[SecretStr], tuple[str, ...]] | None = None,
    **settings: Any,  # noqa: ANN401 - of ChatSettings
) -> "ChatClient":
    """The client of an endpoint's model; ``closers`` receives what closes it.

    It reads the key, and then calls ``find_urls`` with it where the address is not that of the
    endpoint, with the first request that it sends. ``settings`` are fields of ``ChatSettings`` that
    the endpoint does not have, or has otherwise.
    """
    from resources.chat.client import ChatClient

    model = settings.setdefault("model", endpoint.model)
    of_endpoint = {
        "revision": endpoint.identity,
        "served_as": tuple(endpoint.served_as),
        "structured": endpoint.enforces_schemas,
        "thinking_style": endpoint.style,
        "concurrency": endpoint.concurrency,
        "call_deadline_s": endpoint.deadline_s,
        "queue_deadline_s": endpoint.queue_deadline_s,
        "most_reply_bytes": endpoint.most_reply_bytes,
        "requests_per_minute": endpoint.requests_per_minute or None,
        "tokens_per_minute": endpoint.tokens_per_minute or None,
        "prices": {model: endpoint.price} if endpoint.price else {},
        "ceilings": Ceilings(
            calls=endpoint.calls or None,
            tokens=endpoint.tokens or None,
            money=endpoint.dollars or None,
        ),
    }

    def find_access() -> tuple[tuple[str, ...], SecretStr]:
        key = key_of(endpoint)  # first: without its key no server is started
        return find_urls(key) if find_urls else tuple(endpoint.base_url), key

    chosen = ChatSettings(**(of_endpoint | settings))
    client = ChatClient(chosen, Path(results_dir), find_access=find_access)
    closers.append(client.close)
    return client
