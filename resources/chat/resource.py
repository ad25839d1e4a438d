"""Dagster resources of engines behind an endpoint: key, address, limits, sampling.

Dagster never stores a key: its field takes a ``dg.EnvVar``, of which only the variable's name is
stored, and no ``repr`` shows it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
import polars as pl
from pydantic import Field, SecretStr

from decomposerl.chat import Price, Sampling
from decomposerl.errors import ConfigError
from resources.chat.reply_store import REPLIES_FILE
from resources.chat.settings import (
    MOST_REPLY_BYTES,
    Ceilings,
    ChatSettings,
    ThinkingStyle,
)
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


class KeyedResource(StoredResource):
    """An engine that may call an endpoint, with or without a key."""

    api_key: str = Field(default="", repr=False, description="key; give a dg.EnvVar")
    key_variable: str = Field(
        default="", description="variable that must hold the key; empty: no key is needed"
    )
    key_name: str = Field(default="", description="variable of the key, for messages alone")

    def key(self) -> SecretStr:
        """The key, in memory alone.

        Raises:
            ConfigError: one is needed and there is none; the message names the variable.
        """
        if self.key_variable and not self.api_key:
            raise ConfigError(
                f"{self.key_variable} is not set; it must hold the endpoint's key, in the "
                "environment or in .env"
            )
        return SecretStr(self.api_key)


class ChatResource(KeyedResource):
    """An engine that may call a chat model, and what that may cost. 0 is no limit."""

    concurrency: int = Field(default=256, ge=1, description="most requests in flight")
    call_deadline_s: float = Field(
        default=300, gt=0, description="seconds for one request, without the endpoint's queue"
    )
    queue_deadline_s: float = Field(
        default=1_800, gt=0, description="seconds for one request, with the endpoint's queue"
    )
    most_reply_bytes: int = Field(
        default=MOST_REPLY_BYTES, ge=1, description="most of one reply, however many tokens it has"
    )
    requests_per_minute: float = Field(default=0, ge=0, description="most a minute; 0: no limit")
    tokens_per_minute: float = Field(default=0, ge=0, description="most a minute; 0: no limit")
    prompt_price: float = Field(default=0, ge=0, description="US dollars a million prompt tokens")
    completion_price: float = Field(
        default=0, ge=0, description="US dollars a million completion tokens"
    )
    call_ceiling: int = Field(default=0, ge=0, description="of one asset's run; 0: none")
    token_ceiling: int = Field(default=0, ge=0, description="of one asset's run; 0: none")
    dollar_ceiling: float = Field(default=0, ge=0, description="of one asset's run; 0: none")

    def chat_client(
        self,
        model: str,
        revision: str | Callable[[], str],
        endpoints: Callable[[], tuple[str, ...]],
        *,
        structured: bool = False,
        thinking_style: ThinkingStyle = "none",
    ) -> "StoringChat":
        """A client that looks for key and ``endpoints`` with the first request it sends.

        A ``revision`` that is a function is asked at the first look into the stored replies.
        """
        from resources.chat.client import ChatClient

        settings = ChatSettings(
            model=model,
            revision=revision if isinstance(revision, str) else "",
            find_revision=None if isinstance(revision, str) else revision,
            structured=structured,
            thinking_style=thinking_style,
            **self._limits(model),
        )

        def find_access() -> tuple[tuple[str, ...], SecretStr]:
            key = self.key()  # first: without its key no server is started
            return endpoints(), key

        client = ChatClient(settings, Path(self.results_dir), find_access=find_access)
        self._closers.append(client.close)
        return client

    def _limits(self, model: str) -> dict[str, Any]:
        price = Price(prompt=self.prompt_price, completion=self.completion_price)
        return {
            "concurrency": self.concurrency,
            "call_deadline_s": self.call_deadline_s,
            "queue_deadline_s": self.queue_deadline_s,
            "most_reply_bytes": self.most_reply_bytes,
            "requests_per_minute": self.requests_per_minute or None,
            "tokens_per_minute": self.tokens_per_minute or None,
            "prices": {model: price} if price != Price() else {},
            "ceilings": Ceilings(
                calls=self.call_ceiling or None,
                tokens=self.token_ceiling or None,
                money=self.dollar_ceiling or None,
            ),
        }


class PromptedResource(ChatResource):
    """An engine that sends prompts to a chat model: which one, how, and with which words."""

    model: str = Field(default="", description="chat: name in requests")
    revision: str = Field(default="", description="chat: of the weights, or the snapshot")
    endpoints: list[str] = Field(default=[], description="chat: URLs that end in /v1")
    prompts_dir: str = Field(default="", description="chat: folder with your own prompt files")
    structured: bool = Field(default=False, description="chat: the endpoints enforce JSON schemas")
    thinking: Literal["default", "on", "off"] = Field(
        default="default", description="chat: of a reasoning model"
    )
    thinking_style: Literal["none", "qwen", "openai"] = Field(
        default="none", description="chat: how thinking is switched"
    )
    temperature: float = Field(default=0, ge=0, description="chat: 0 is greedy")
    seed: int = Field(default=42, description="chat: of sampling")
    reply_tokens: int = Field(default=1024, ge=1, description="chat: most of one reply")

    @property
    def thinks(self) -> bool | None:
        """Thinking as a request takes it; None leaves it to the model."""
        return {"default": None, "on": True, "off": False}[self.thinking]

    @property
    def sends_temperature(self) -> bool:
        """Whether the model accepts one; OpenAI's reasoning models do not."""
        return self.thinking_style != "openai"

    def sampling(self) -> Sampling:
        """As every request is sampled."""
        return Sampling(temperature=self.temperature, seed=self.seed, max_tokens=self.reply_tokens)

    def chat(self) -> "StoringChat":
        """The client of ``model`` at ``endpoints``."""
        return self.chat_client(
            self.model,
            self.revision,
            lambda: tuple(self.endpoints),
            structured=self.structured,
            thinking_style=self.thinking_style,
        )
