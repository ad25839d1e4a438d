"""The vLLM server of a run: how one is started, the one that all assets share, its adapters.

The server is started at the first ``url``, so a run whose results are all stored starts none. The
name of an adapter on a server ends in a digest of its files, so an adapter of another training is
another model. One that was loaded stays: other runs may use it, and vLLM keeps as many in memory as
``--max-loras`` and ``--max-cpu-loras`` allow. Read against vLLM 0.31,
``entrypoints/openai/models/serving.py``.
"""

import http.client
import json
import re
import tempfile
import threading
import urllib.error
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
from pydantic import Field, SecretStr

from decomposerl.errors import EngineError
from resources.chat.connection import fetched, without_key
from resources.hub.adapters import first_tensors
from resources.vllm.process import MALFORMED, ServerCommand, VllmServer

_LISTED_S, _LOADED_S = 10.0, 300.0
_RANKS = (64, 128, 256, 320, 512)  # that vLLM allows as the highest, from the default here
_PROMPT = "Claim: the bridge opened in 1921. Evidence: it opened in 1912. Is the claim supported?"


class ServerFields(dg.Config):
    """How a vLLM server is started."""

    vllm: list[str] = Field(default=[], description="first words to start a server; empty: never")
    cards: int = Field(default=1, ge=1, description="cards of a server that is started")
    gpu_share: float = Field(default=0.9, gt=0, le=1, description="of each card's memory")
    context: int = Field(default=0, ge=0, description="tokens it reads; 0: the model's own limit")
    withheld: list[str] = Field(
        default=[], description="variables removed from a started server's environment, as keys are"
    )
    start_timeout_s: float = Field(default=1_800, gt=0, description="until the server answers")
    log_dir: str = Field(default="", description="folder of server logs; empty: a temporary one")

    def vllm_server(
        self,
        model: str,
        revision: str,
        extra: Sequence[str] = (),
        attach_to: str = "",
        read_key: Callable[[], str] = str,
        key_name: str = "",
    ) -> VllmServer:
        """The server of a model, or the one that runs at ``attach_to``, with further words."""
        command = ServerCommand(
            model=model,
            executable=tuple(self.vllm),
            revision=revision,
            cards=self.cards,
            context=self.context,
            gpu_share=self.gpu_share,
            extra=tuple(extra),
            withheld=tuple(self.withheld),
        )
        folder = self.log_dir or Path(tempfile.gettempdir(), f"vllm-{uuid4().hex[:12]}")
        log = Path(folder, f"{re.sub(r'[^A-Za-z0-9._-]+', '_', model)}.log")
        timeout_s = self.start_timeout_s
        return VllmServer(
            command, log, timeout_s, attach_to=attach_to, read_key=read_key, key_name=key_name
        )


class SharedServer:
    """The one server that a resource runs, kept from asset to asset until ``stop``.

    An engine is opened once per asset, and each would start a server of its own while the first
    still holds the memory of its card.
    """

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._server: VllmServer | None = None
        self._failed: tuple[VllmServer, EngineError] | None = None
        self._choosing = threading.Lock()

    def url(self, wanted: VllmServer) -> str:
        """The URL of a server like ``wanted``: the one that runs, else ``wanted`` is started.

        A server of another model or with other settings is stopped first. One that died is
        replaced. A ``wanted`` that could not be started is not tried again: the threads that
        waited for it get its error, and the next asset tries with a ``wanted`` of its own.

        Raises:
            EngineError: as ``VllmServer.base_url``.
        """
        with self._choosing:
            if self._failed is not None and self._failed[0] is wanted:
                raise self._failed[1]
            held = self._server
            if held is None or held.command != wanted.command or not held.running:
                self.stop()
                held = self._server = wanted
                if not wanted.attach_to:
                    started = f"{wanted.command.model}; its log is {wanted.log}"
                    dg.get_dagster_logger().info(f"starting a server of {started}")
        try:
            return held.base_url()
        except EngineError as error:
            self._failed = wanted, error
            raise

    def death(self) -> str:
        """The message if the server ended by itself, with its log; else empty."""
        return "" if self._server is None else self._server.death()

    def stop(self) -> None:
        """End the server if one was started; does not wait for one that is starting."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


@dataclass(frozen=True, slots=True)
class PolicyAdapter:
    """An adapter on ``base``; ``folder`` is absolute, ``digest`` is of the files in it.

    ``name`` has recipe and step.
    """

    name: str
    folder: Path
    base: str
    digest: str

    @property
    def served_name(self) -> str:
        """Its name on a server."""
        return f"{self.name}-{self.digest}"

    @property
    def words(self) -> list[str]:
        """Words of ``vllm serve`` that serve it."""
        module = f"{self.served_name}={self.folder}"
        return ["--enable-lora", "--max-lora-rank", str(self._rank), "--lora-modules", module]

    @property
    def _rank(self) -> int:
        """The highest rank that a server must allow, one of those that vLLM knows."""
        file = self.folder / "adapter_config.json"
        config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        rank = max([config.get("r") or 0, *(config.get("rank_pattern") or {}).values()])
        return next((allowed for allowed in _RANKS if allowed >= rank), rank)


def serve_adapter(url: str, adapter: PolicyAdapter, key: SecretStr) -> None:
    """Load the adapter at ``url`` (ending in ``/v1``), unless the server lists it.

    Raises:
        EngineError: the server cannot be asked, serves another base, refuses to load (the message
            has both ways to serve it), or answers as its base does.
    """
    models = {one.get("id"): one.get("root") for one in _listed(url, key)}
    bases = [str(name) for name, root in models.items() if adapter.base in {name, root}]
    start = " ".join(adapter.words)
    if adapter.served_name not in models:
        if not bases:
            raise EngineError(
                f"{url} serves {', '.join(map(str, models)) or 'no model'}, and the policy "
                f"{adapter.name} needs its base {adapter.base}: start vllm serve {adapter.base} "
                f"{start}"
            )
        refusal = _load(url, adapter, key)
        listed = [one.get("id") for one in _listed(url, key)] if refusal else []
        if refusal and adapter.served_name not in listed:  # another run may have loaded it
            raise EngineError(
                f"{url} does not serve the policy as {adapter.served_name} and does not load it "
                f"({refusal}). Start that server either with "
                "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and "
                f"{start.partition(' --lora-modules')[0]}, so that policies are loaded as they "
                f"are needed, or with {start}. The server must be able to read that folder"
            )
    own, *base = (_likely(url, name, key) for name in (adapter.served_name, *bases[:1]))
    if own and [own] == base:
        raise EngineError(
            f"{url} answers as {adapter.served_name} with the log probabilities of its base: the "
            f"adapter {adapter.folder} is not applied, or changes nothing"
            f"{first_tensors(adapter.folder)}"
        )


def refuse_short_context(url: str, model: str, context: int, key: SecretStr, setting: str) -> None:
    """Refuse a server that reads fewer tokens of ``model`` than ``context``; 0 is not known.

    A server that does not say how many it reads is not refused. ``setting`` is where the number is
    set, with ``{}`` in its place, for the message.

    Raises:
        EngineError: it reads fewer; the message has both ways out.
    """
    try:
        listed = _listed(url, key) if context else []
    except EngineError:
        return
    for one in listed:
        length = one.get("max_model_len")
        if model in {one.get("id"), one.get("root")} and length and int(length) < context:
            raise EngineError(
                f"{url} reads {length:,} tokens of {model}, and {context:,} are expected: start it "
                f"with --max-model-len {context}, or set {setting.format(length)}, which shortens "
                "the evidence of longer claims"
            )


def _listed(url: str, key: SecretStr) -> list[dict[str, Any]]:
    """The models at a server, with where each was read from, which not every server says."""
    try:
        listed = json.loads(fetched(f"{url}/models", key.get_secret_value(), _LISTED_S))["data"]
        return [dict(one) for one in listed]
    except urllib.error.HTTPError as error:
        error.close()
        raise EngineError(f"{url}/models answers status {error.code}") from error
    except OSError as error:
        raise EngineError(f"{url}/models: {getattr(error, 'reason', error)}") from error
    except MALFORMED as error:
        raise EngineError(f"{url}/models returns no list of models") from error


def _load(url: str, adapter: PolicyAdapter, key: SecretStr) -> str:
    """Why the server does not load it; empty if it does."""
    body = {"lora_name": adapter.served_name, "lora_path": str(adapter.folder)}
    try:
        _posted(f"{url}/load_lora_adapter", body, key)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(2_000).decode("utf-8", "replace")
        with suppress(*MALFORMED):
            said = str(json.loads(said)["error"]["message"])
        return without_key(f"HTTP {error.code}: {said}", key)
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error))
    return ""


def _likely(url: str, model: str, key: SecretStr) -> object:
    """The log probabilities of a model's first token; None where the server gives none."""
    body = {"model": model, "messages": [{"role": "user", "content": _PROMPT}], "temperature": 0}
    body |= {"max_tokens": 1, "logprobs": True, "top_logprobs": 5}
    try:
        reply = json.loads(_posted(f"{url}/chat/completions", body, key))
        return reply["choices"][0]["logprobs"]["content"]
    except (OSError, *MALFORMED):
        return None


def _posted(url: str, body: object, key: SecretStr) -> bytes:
    return fetched(url, key.get_secret_value(), _LOADED_S, posted=json.dumps(body).encode())
