"""An ``Endpoint`` as part of Dagster resources, and the client that asks it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
import polars as pl
from pydantic import AfterValidator, Field

from decomposerl.chat import Sampling
from decomposerl.endpoint import Endpoint, plain_urls
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE
from resources.profile_defaults import ProfileDefaults
from resources.store.chat_replies import replies_in
from resources.store.paths import LocalPath
from resources.store.resource import StoredResource


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
    return EndpointConfig(**endpoint.model_dump(include=set(Endpoint.model_fields)))


def open_chat(
    endpoint: Endpoint,
    results_dir: str,
    closers: list[Callable[[], None]],
    **options: Any,  # noqa: ANN401 - of ``ChatClient``
) -> ChatClient:
    """The client of an endpoint's model; ``closers`` receives what closes it."""
    client = ChatClient(endpoint, Path(results_dir), **options)
    closers.append(client.close)
    return client


class ChatCacheFile(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The replies of a profile's chat clients, for the asset that shows them."""

    results_dir: LocalPath = Field(description="folder of stored engine results")

    def replies(self) -> pl.DataFrame:
        """Every stored reply, as ``replies_in``."""
        return replies_in(Path(self.results_dir) / REPLIES_FILE)


class PromptedResource(StoredResource):
    """An engine that sends prompts to a chat model: which one, how, and with which words."""

    endpoint: EndpointConfig = Field(default=EndpointConfig(), description="chat: the model")
    prompts_dir: str = Field(default="", description="chat: folder with your own prompt files")
    temperature: float = Field(default=0, ge=0, description="chat: 0 is greedy")
    seed: int = Field(default=42, description="chat: of sampling")
    reply_tokens: int = Field(default=1024, ge=1, description="chat: most of one reply")

    def sampling(self) -> Sampling:
        """As every request is sampled."""
        return Sampling(temperature=self.temperature, seed=self.seed, max_tokens=self.reply_tokens)

    def chat(self) -> ChatClient:
        """The client of the model."""
        return open_chat(self.endpoint, self.results_dir, self._closers)
