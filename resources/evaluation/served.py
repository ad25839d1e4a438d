"""Models at OpenAI-compatible endpoints, for methods: running ones, or a server that is started.

Takes what a person may configure, gives a ``ChatCaller`` for the model that a system names. One
such resource is one place where models are served, with its key, its prices and its limits. Where
no endpoint is named and a command is, a vLLM server of the model is started at the first question
and stopped with the resource; a policy's adapter is then served beside its base.

Left out deliberately: which system is asked where (``resources.evaluation.model``).
"""

from typing import Literal

from pydantic import Field

from decomposerl.errors import ConfigError
from resources.chat.settings import ChatSettings, Price
from resources.engine_settings import ChatResource
from resources.evaluation.chat_caller import Asking, ChatCaller
from resources.evaluation.method_prompts import MethodPrompts
from resources.late_chat import CountedChat, LateChat
from resources.vllm_server import VllmServer


class ServedModels(ChatResource):
    """One place that serves models for evaluation."""

    endpoints: list[str] = Field(default=[], description="URLs that end in /v1; empty: start one")
    model: str = Field(default="", description="name in requests; empty: as the system names it")
    revision: str = Field(default="", description="of the weights, or the snapshot")
    thinking: Literal["default", "on", "off"] = Field(
        default="default", description="of a reasoning model"
    )
    thinking_style: Literal["none", "qwen", "openai"] = Field(
        default="none", description="how thinking is switched"
    )
    continues: bool = Field(
        default=False, description="whether it goes on from an assistant's turn, as vLLM does"
    )
    likeliest: int = Field(
        default=5, ge=0, le=20, description="alternatives told for a token of a verdict; 0: none"
    )
    vllm: list[str] = Field(default=[], description="first words to start a server; empty: never")
    cards: int = Field(default=1, ge=1, description="cards of a server that is started")
    gpu_share: float = Field(default=0.9, gt=0, le=1, description="of each card's memory")
    context: int = Field(default=0, ge=0, description="tokens it reads; 0: the model's own limit")
    lora_rank: int = Field(default=64, ge=1, description="highest rank of an adapter it serves")
    withheld: list[str] = Field(
        default=[], description="variables that a started server's environment lacks, as keys are"
    )
    start_timeout_s: float = Field(default=1_800, gt=0, description="until the server answers")
    log_dir: str = Field(default="", description="folder of server logs; empty: a temporary one")

    def caller(
        self, requested: str, prompts: MethodPrompts, seed: int, adapter: tuple[str, str] = ("", "")
    ) -> tuple[ChatCaller, LateChat]:
        """Ask the model ``requested``, or the adapter (name, folder) that is served on it.

        Raises:
            ConfigError: nothing serves it: no endpoint is named, and no command to start one.
        """
        name, folder = adapter
        model = name or self.model or requested
        if not self.endpoints and not self.vllm:
            raise ConfigError(f"no endpoint serves '{model}', and none is to be started")
        chat = self._late(model, requested, adapter if folder else ("", ""))
        asking = Asking(
            seed=seed,
            likeliest=0 if self.thinking_style == "openai" else self.likeliest,
            continues=self.continues or not self.endpoints,
            thinking={"default": None, "on": True, "off": False}[self.thinking],
        )
        price = Price(prompt=self.prompt_price, completion=self.completion_price)
        known = None if price == Price() else price
        caller = ChatCaller(
            chat, asking, prompts=prompts, claims_at_once=self.concurrency, price=known
        )
        return caller, chat

    def _late(self, model: str, base: str, adapter: tuple[str, str]) -> LateChat:
        def make() -> CountedChat:
            from pathlib import Path

            from resources.chat.client import ChatClient

            key = self.key()  # where it is missing no server is started
            urls = tuple(self.endpoints) or (self._started(base, adapter),)
            settings = ChatSettings(
                model=model,
                revision=self.revision,
                endpoints=urls,
                thinking_style=self.thinking_style,
                needs_logprobs=False,
                **self._limits(model),
            )
            return ChatClient(settings, Path(self.results_dir), key)

        chat = LateChat(f"chat:{model}" + (f"@{self.revision}" if self.revision else ""), make)
        self._closers.append(chat.close)
        return chat

    def _started(self, base: str, adapter: tuple[str, str]) -> str:
        server = self.server(base, adapter)
        self._closers.append(server.stop)
        return server.base_url()

    def server(self, base: str, adapter: tuple[str, str] = ("", "")) -> VllmServer:
        """The server of a model that is started, with an adapter where there is one."""
        name, folder = adapter
        lora = ["--enable-lora", "--max-lora-rank", str(self.lora_rank), "--lora-modules"]
        return VllmServer(
            model=base,
            executable=self.vllm,
            revision=self.revision,
            tensor_parallel_size=self.cards,
            max_model_len=self.context,
            gpu_memory_utilization=self.gpu_share,
            extra_arguments=[*lora, f"{name}={folder}"] if folder else [],
            withheld=self.withheld,
            start_timeout_s=self.start_timeout_s,
            log_dir=self.log_dir,
        )
