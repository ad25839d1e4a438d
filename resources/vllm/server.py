"""The vLLM server as a Dagster resource: started and stopped by a run, or already running.

Gives ``base_url`` for an OpenAI client. The server is started at the first ``base_url``, so a run
whose results are all stored starts none. It stops when Dagster tears the resource down: after the
step in the multiprocess executor, after the run in the in-process one. Assets that use it name
``pool="gpu"``, so that two steps in separate processes never share a GPU.
"""

import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from decomposerl.errors import ConfigError, EngineError
from resources.profile_defaults import ProfileDefaults
from resources.vllm.command import ServerCommand
from resources.vllm.process import POLL_S, VllmProcess, server_problem


class ServerFields(dg.Config):
    """The fields of an engine that starts its own vLLM server, which it names ``vllm``."""

    vllm: list[str] = Field(default=[], description="first words to start a server; empty: never")
    cards: int = Field(default=1, ge=1, description="cards of a server that is started")
    gpu_share: float = Field(default=0.9, gt=0, le=1, description="of each card's memory")
    context: int = Field(default=0, ge=0, description="tokens it reads; 0: the model's own limit")
    withheld: list[str] = Field(
        default=[], description="variables removed from a started server's environment, as keys are"
    )
    start_timeout_s: float = Field(default=1_800, gt=0, description="until the server answers")
    log_dir: str = Field(default="", description="folder of server logs; empty: a temporary one")

    def vllm_server(self, model: str, revision: str, **fields: Any) -> "VllmServer":  # noqa: ANN401 - of a server
        """The server of a model; ``fields`` are further ones of ``VllmServer``."""
        return VllmServer(
            model=model,
            revision=revision,
            executable=self.vllm,
            tensor_parallel_size=self.cards,
            max_model_len=self.context,
            gpu_memory_utilization=self.gpu_share,
            withheld=self.withheld,
            start_timeout_s=self.start_timeout_s,
            log_dir=self.log_dir,
            **fields,
        )


class VllmServer(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """One model on vLLM, started here or attached to."""

    model: str = Field(description="model name or folder, as vLLM takes it")
    served_name: str = Field(default="", description="name in requests; empty: the model's")
    attach_to: str = Field(
        default="", description="http(s)://host:port of a running server; empty: start one"
    )
    api_key: str = Field(
        default="", repr=False, description="key of the running server; give a dg.EnvVar"
    )
    key_name: str = Field(default="", description="variable of that key, for messages")
    executable: list[str] = Field(default=["vllm", "serve"], description="first words to run")
    revision: str = Field(
        default="", description="of weights, tokenizer and the model's own code; empty: the default"
    )
    port: int = Field(default=0, ge=0, le=65_535, description="0: a free port")
    tensor_parallel_size: int = Field(default=1, ge=1, description="GPUs the model is split over")
    max_model_len: int = Field(default=0, ge=0, description="tokens; 0: the model's own limit")
    gpu_memory_utilization: float = Field(
        default=0.9, gt=0, le=1, description="share of each GPU's memory"
    )
    extra_arguments: list[str] = Field(default=[], description="further words for vLLM")
    withheld: list[str] = Field(
        default=[], description="further variables removed from the server's environment"
    )
    start_timeout_s: float = Field(default=900, gt=0, description="until it must be healthy")
    grace_s: float = Field(default=30, ge=0, description="between SIGTERM and SIGKILL")
    log_dir: str = Field(default="", description="folder of server logs; empty: a temporary one")

    _process: VllmProcess | None = PrivateAttr(default=None)

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["VllmServer"]:  # noqa: ARG002 - Dagster's signature
        """Stop the server that this run started, even if the run failed."""
        try:
            yield self
        finally:
            self.stop()

    def command(self) -> ServerCommand:
        """The command line of a server that is started here."""
        return ServerCommand(
            model=self.model,
            served_name=self.served_name,
            executable=tuple(self.executable),
            port=self.port,
            tensor_parallel_size=self.tensor_parallel_size,
            max_model_len=self.max_model_len,
            gpu_memory_utilization=self.gpu_memory_utilization,
            revision=self.revision,
            extra=tuple(self.extra_arguments),
            withheld=tuple(self.withheld),
        )

    def base_url(self) -> str:
        """The URL, ending in ``/v1``, of a healthy server that lists the model.

        Raises:
            ConfigError: ``attach_to`` is not an http(s) URL.
            EngineError: no server is ready in time, or it rejects the key; the message says why.
        """
        if self.attach_to:
            return self._attached()
        if self._process is None:
            log = self._log()
            self._process = VllmProcess(self.command(), log, self.start_timeout_s, self.grace_s)
            dg.get_dagster_logger().info(f"starting a server of {self.model}; its log is {log}")
        return self._process.base_url()

    @property
    def running(self) -> bool:
        """Whether a server was started here and lives, or one is attached to."""
        return bool(self.attach_to) or (self._process is not None and self._process.running)

    def death(self) -> str:
        """The message if a server started here ended by itself, with its log; else empty."""
        return "" if self._process is None else self._process.death()

    def stop(self) -> None:
        """End the server if it was started here."""
        if self._process is not None:
            self._process.stop()

    def _attached(self) -> str:
        root = self.attach_to.rstrip("/").removesuffix("/v1")
        if not re.match(r"https?://", root):
            raise ConfigError(f"attach_to is '{self.attach_to}'; it must begin with http(s)://")
        deadline, warned = time.monotonic() + self.start_timeout_s, False
        while problem := self._problem(root):
            if not warned:
                patience = f"waiting up to {self.start_timeout_s:g} s"
                dg.get_dagster_logger().warning(f"no server yet: {problem}; {patience}")
                warned = True
            if time.monotonic() > deadline:
                words = " ".join(self.command().words(self.port or 8000))
                raise EngineError(
                    f"no healthy server at {root} within {self.start_timeout_s:g} s ({problem}); "
                    f"start one there, for example: {words}"
                )
            time.sleep(POLL_S)
        return f"{root}/v1"

    def _problem(self, root: str) -> str:
        variable = self.key_name or "api_key"
        verb = "rejects the key of" if self.api_key else "requires a key in"
        refusal = f"it {verb} {variable}"
        return server_problem(root, self.command().name, self.api_key, refusal=refusal)

    def _log(self) -> Path:
        folder = Path(self.log_dir) if self.log_dir else Path(tempfile.mkdtemp(prefix="vllm-"))
        return folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', self.command().name)}.log"
