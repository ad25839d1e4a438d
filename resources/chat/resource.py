"""Dagster resources of engines behind a chat model."""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl
from pydantic import Field

from decomposerl.chat import Sampling
from resources.chat.endpoint import EndpointConfig, open_chat
from resources.chat.reply_store import REPLIES_FILE
from resources.profile_defaults import ProfileDefaults
from resources.store.chat_replies import replies_in
from resources.store.paths import LocalPath
from resources.store.resource import StoredResource

if TYPE_CHECKING:
    from resources.chat.engine import StoringChat


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

    def chat(self) -> "StoringChat":
        """The client of the model."""
        return open_chat(self.endpoint, self.results_dir, self._closers)
