"""What a running vLLM server lists: a policy's adapter, which is loaded else, and the context.

The name on the server ends in a digest of the adapter's files, so an adapter of another training
is another model. An adapter that was loaded stays: other runs may use it, and vLLM keeps as many
in memory as ``--max-loras`` and ``--max-cpu-loras`` allow. Read against vLLM 0.31,
``entrypoints/openai/models/serving.py``.
"""

import http.client
import json
import urllib.error
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from decomposerl.errors import EngineError
from resources.chat.connection import fetched, without_key

_LISTED_S, _LOADED_S = 10.0, 300.0


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

    def words(self, rank: int) -> list[str]:
        """Words of ``vllm serve`` that serve it; ``rank`` is the highest that is allowed."""
        module = f"{self.served_name}={self.folder}"
        return ["--enable-lora", "--max-lora-rank", str(rank), "--lora-modules", module]


def serve_adapter(url: str, adapter: PolicyAdapter, key: SecretStr, rank: int) -> None:
    """Load the adapter at ``url`` (ending in ``/v1``), unless the server lists it.

    Raises:
        EngineError: the server cannot be asked, serves another base, or refuses to load; the
            message has both ways to serve it.
    """
    models = _models(url, key)
    if adapter.served_name in models:
        return
    if adapter.base not in {*models, *models.values()}:
        raise EngineError(
            f"{url} serves {', '.join(models) or 'no model'}, and the policy {adapter.name} needs "
            f"its base {adapter.base}: start vllm serve {adapter.base} "
            f"{' '.join(adapter.words(rank))}"
        )
    refusal = _load(url, adapter, key)
    if refusal and adapter.served_name not in _models(url, key):  # another run may have loaded it
        raise EngineError(
            f"{url} does not serve the policy as {adapter.served_name} and does not load it "
            f"({refusal}). Start that server either with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and "
            f"--enable-lora --max-lora-rank {rank}, so that policies are loaded as they are "
            f"needed, or with {' '.join(adapter.words(rank))}. The server must be able to read "
            "that folder"
        )


def refuse_short_context(url: str, model: str, context: int, key: SecretStr, setting: str) -> None:
    """Refuse a server that reads fewer tokens of ``model`` than ``context``; 0 is not known.

    A server that does not say how many it reads is not refused. ``setting`` is where the number is
    set, with ``{}`` in its place, for the message.

    Raises:
        EngineError: it reads fewer; the message has both ways out.
    """
    if not context:
        return
    try:
        listed = _listed(url, key)
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


def _models(url: str, key: SecretStr) -> dict[str, str]:
    """The models at a server and where each was read from, which not every server says."""
    return {str(one.get("id")): str(one.get("root") or "") for one in _listed(url, key)}


def _listed(url: str, key: SecretStr) -> list[dict[str, Any]]:
    try:
        listed = json.loads(fetched(f"{url}/models", key.get_secret_value(), _LISTED_S))["data"]
        return [dict(one) for one in listed]
    except urllib.error.HTTPError as error:
        error.close()
        raise EngineError(f"{url}/models answers status {error.code}") from error
    except OSError as error:
        raise EngineError(f"{url}/models: {getattr(error, 'reason', error)}") from error
    except (http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{url}/models returns no list of models") from error


def _load(url: str, adapter: PolicyAdapter, key: SecretStr) -> str:
    """Why the server does not load it; empty if it does."""
    body = {"lora_name": adapter.served_name, "lora_path": str(adapter.folder)}
    posted, secret = json.dumps(body).encode(), key.get_secret_value()
    try:
        fetched(f"{url}/load_lora_adapter", secret, _LOADED_S, posted=posted)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(2_000).decode("utf-8", "replace")
        return without_key(f"HTTP {error.code}: {_message(said)}", key)
    except (OSError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", error))
    return ""


def _message(body: str) -> str:
    """The message of an error's body, else the body."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body
