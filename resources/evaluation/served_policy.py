"""Models at OpenAI-compatible endpoints, for methods: running servers, or one that is started.

One ``ServedModels`` is one endpoint or server of models, with its key, prices and limits. With
a command and no endpoint, a vLLM server of the model is started for the first request, used by
every test set of the run and stopped with it; a policy's adapter is then served beside its base.
At an endpoint the adapter is loaded before the first request, where it is not listed.

It is configuration and not a resource, because Dagster warns of resources inside resources.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr

from decomposerl.chat import Price
from decomposerl.errors import ConfigError, EngineError
from decomposerl.evaluation.systems import CONTEXTS
from resources.chat.settings import MOST_REPLY_BYTES, Ceilings, ChatSettings
from resources.evaluation.chat_caller import CallSettings, ChatCaller
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.weights import context_of, weights_digest
from resources.hub.locks import MAIN, Pin, as_named
from resources.vllm.adapters import PolicyAdapter, refuse_short_context, serve_adapter
from resources.vllm.server import ServerFields, VllmServer
from resources.vllm.shared import SharedServer

if TYPE_CHECKING:
    from resources.chat.client import ChatClient

Closers = list[Callable[[], None]]
"""Functions to call when the run ends."""


class ServedModels(ServerFields):
    """An endpoint or server of models for evaluation. 0 is no limit."""

    endpoints: list[str] = Field(default=[], description="URLs that end in /v1; empty: start one")
    model: str = Field(default="", description="name in requests; empty: as the system names it")
    revision: str = Field(default="", description="of the weights, or the snapshot")
    api_key: str = Field(default="", repr=False, description="key; give a dg.EnvVar")
    key_variable: str = Field(
        default="", description="variable that must hold the key; empty: no key is needed"
    )
    key_name: str = Field(default="", description="variable of the key, only for messages")
    concurrency: int = Field(default=256, ge=1, description="most requests in flight, and claims")
    call_deadline_s: float = Field(default=300, gt=0, description="seconds for one request")
    most_reply_bytes: int = Field(
        default=MOST_REPLY_BYTES, ge=1, description="most of one reply, however many tokens it has"
    )
    prompt_price: float = Field(default=0, ge=0, description="US dollars per million prompt tokens")
    completion_price: float = Field(
        default=0, ge=0, description="US dollars per million completion tokens"
    )
    dollar_ceiling: float = Field(default=0, ge=0, description="of one asset's run; 0: none")
    thinking: Literal["default", "on", "off"] = Field(
        default="default", description="of a reasoning model"
    )
    thinking_style: Literal["none", "qwen", "openai"] = Field(
        default="none", description="how thinking is switched"
    )
    thinking_tokens: int = Field(
        default=4_096, ge=0, description="room for a thought, added to each call's token limit"
    )
    continues: bool = Field(
        default=False, description="whether it continues an assistant's turn, as vLLM does"
    )
    likeliest: int = Field(
        default=5, ge=0, le=20, description="top log-probabilities per token of a verdict; 0: none"
    )
    lora_rank: int = Field(default=64, ge=1, description="highest rank of an adapter it serves")
    recorded_as: str = Field(
        default="", description="recorded as the revision where that is empty, to tell places apart"
    )
    context_setting: str = Field(
        default="DECOMPOSERL_EVALUATION_CONTEXT={} (the field context)",
        description="how context is set, {} for the number, only for messages",
    )

    def caller(
        self,
        requested: str,
        prompts: MethodPrompts,
        seed: int,
        *,
        results: Path,
        closers: Closers,
        shared: SharedServer,
        adapter: PolicyAdapter | None = None,
        pin: Pin = as_named,
    ) -> tuple[ChatCaller, "ChatClient"]:
        """A caller of model ``requested``, or of the adapter served on it.

        Replies are stored below ``results``; ``closers`` receives what closes the client.
        A server that is started is ``shared`` with the other callers of the run, and loads the
        commit that ``pin`` gives.

        Raises:
            ConfigError: there is neither an endpoint nor a command to start one.
        """
        chat = self.client(
            requested, results=results, closers=closers, shared=shared, adapter=adapter, pin=pin
        )
        width, price, asked = self.concurrency, self.price, self.call_settings(seed)
        return ChatCaller(chat, asked, prompts=prompts, claims_at_once=width, price=price), chat

    def client(
        self,
        requested: str,
        *,
        results: Path,
        closers: Closers,
        shared: SharedServer,
        adapter: PolicyAdapter | None = None,
        pin: Pin = as_named,
        needs_logprobs: bool = False,
        needed_context: int = 0,
    ) -> "ChatClient":
        """The client of ``caller``; arguments and errors as there.

        ``needs_logprobs``: an endpoint without log probabilities answers no request, and one that
        reads fewer tokens than ``needed_context`` (by default those of ``context_of``) is refused.
        """
        from resources.chat.client import ChatClient

        model = adapter.name if adapter else self.model or requested
        if not self.endpoints and not self.vllm:
            raise ConfigError(f"no endpoint serves '{model}', and none is to be started")
        loaded = self.revision if self.endpoints else pin(requested, self.revision)
        started = self.server(requested, adapter, loaded)
        closers.append(shared.stop)  # called after chat.close, or waiting threads start it again
        sent_as = adapter.served_name if adapter else ""
        recorded = _recorded(
            requested, adapter, loaded or self.recorded_as, started=not self.endpoints
        )
        calls = self._settings(model, recorded, sent_as, needs_logprobs=needs_logprobs)

        def find_access() -> tuple[tuple[str, ...], SecretStr]:
            key = self.key()  # first: without its key no server is started
            return self._urls(started, shared, adapter, key, needed_context), key

        chat = ChatClient(calls, results, find_access=find_access)
        closers.append(chat.close)
        return chat

    def context_of(self, model: str, revision: str = "") -> int:
        """Tokens of prompt and reply together that the model reads here; 0: not known.

        ``revision`` is the one to look up on this machine, by default that of the settings.
        """
        here = revision or self.revision or MAIN
        return self.context or CONTEXTS.get(model) or context_of(model, here)

    def _urls(
        self,
        server: VllmServer,
        shared: SharedServer,
        adapter: PolicyAdapter | None,
        key: SecretStr,
        needed_context: int,
    ) -> tuple[str, ...]:
        """The endpoints, the adapter loaded there, or the run's server where there are none."""
        urls = tuple(self.endpoints) or (shared.url(server),)
        for url in urls:
            context = needed_context or self.context_of(server.model, server.revision)
            refuse_short_context(url, server.model, context, key, self.context_setting)
        if adapter:
            for url in urls:
                serve_adapter(url, adapter, key, self.lora_rank)
            if weights_digest(adapter.folder) != adapter.digest:
                raise EngineError(f"{adapter.folder} was replaced while it was read: start again")
        return urls

    def key(self) -> SecretStr:
        """The key, kept in memory only.

        Raises:
            ConfigError: one is needed and there is none; the message names the variable.
        """
        if self.key_variable and not self.api_key:
            raise ConfigError(
                f"{self.key_variable} is not set; it must hold the endpoint's key, in the "
                "environment or in .env"
            )
        return SecretStr(self.api_key)

    @property
    def price(self) -> Price | None:
        """The price; None where none is known."""
        price = Price(prompt=self.prompt_price, completion=self.completion_price)
        return None if price == Price() else price

    def call_settings(self, seed: int) -> CallSettings:
        """What decides the replies of this place, besides model and call."""
        return CallSettings(
            seed=seed,
            top_logprobs=0 if self.thinking_style == "openai" else self.likeliest,
            continues=self.continues,
            thinking={"default": None, "on": True, "off": False}[self.thinking],
            thinking_style=self.thinking_style,
            thinking_tokens=self.thinking_tokens,
        )

    def _settings(
        self, model: str, revision: str, sent_as: str, *, needs_logprobs: bool
    ) -> ChatSettings:
        return ChatSettings(
            model=model,
            revision=revision,
            sent_as=sent_as,
            concurrency=self.concurrency,
            call_deadline_s=self.call_deadline_s,
            most_reply_bytes=self.most_reply_bytes,
            thinking_style=self.thinking_style,
            needs_logprobs=needs_logprobs,
            prices={} if self.price is None else {model: self.price},
            ceilings=Ceilings(money=self.dollar_ceiling or None),
        )

    def server(
        self, base: str, adapter: PolicyAdapter | None = None, revision: str = ""
    ) -> VllmServer:
        """The server to start for a model, with an adapter where there is one."""
        words = adapter.words(self.lora_rank) if adapter else []
        return self.vllm_server(base, revision or self.revision, extra_arguments=words)


def _recorded(base: str, adapter: PolicyAdapter | None, revision: str, *, started: bool) -> str:
    """The revision or file digest of the base, and the adapter's digest.

    So a model that was trained again, or on another base, has its own replies. Without an adapter
    a folder is read only where the server is ``started`` from it; an endpoint may have other files.
    """
    local = bool(adapter or started) and Path(base).is_dir()
    under = weights_digest(Path(base)) if local else revision
    return "+".join(one for one in (under, adapter.digest if adapter else "") if one)
