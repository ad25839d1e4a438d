"""The vLLM server of a run: how one is started, and its adapters.

The name of an adapter on a server ends in a digest of its files, so an adapter of another training
is another model. One that was loaded stays: other runs may use it, and vLLM keeps as many in memory
as ``--max-loras`` and ``--max-cpu-loras`` allow. Read against vLLM 0.31,
``entrypoints/openai/models/serving.py``.
"""

import json
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import dagster as dg
from pydantic import Field

from decomposerl.errors import EngineError
from decomposerl.evaluation.entries import SystemEntry
from resources.chat.connection import NoAnswer
from resources.hub.adapters import first_tensors
from resources.vllm.process import ServerCommand, answer, models_at

_LOADED_S = 300.0
_RANKS = (64, 128, 256, 320, 512)  # that vLLM allows as the highest, from the default here
_PROMPT = "Claim: the bridge opened in 1921. Evidence: it opened in 1912. Is the claim supported?"
_ONE_TOKEN = {
    "messages": [{"role": "user", "content": _PROMPT}],
    "temperature": 0,
    "max_tokens": 1,
    "logprobs": True,
    "top_logprobs": 5,
}


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

    def command_for(self, model: str, revision: str, extra: Sequence[str] = ()) -> ServerCommand:
        """The server of a model; ``revision`` is that of weights, tokenizer and the model's code.

        To choose GPUs, ``vllm`` is such as ``env CUDA_VISIBLE_DEVICES=1 vllm serve``.
        """
        revisions = ("--revision", "--code-revision", "--tokenizer-revision")
        words = (
            *(*self.vllm, model, "--served-model-name", model),
            *(word for name in revisions if revision for word in (name, revision)),
            *("--tensor-parallel-size", str(self.cards)),
            *("--gpu-memory-utilization", str(self.gpu_share)),
            *(["--max-model-len", str(self.context)] if self.context else []),
            *extra,
        )
        folder = self.log_dir or Path(tempfile.gettempdir(), f"vllm-{uuid4().hex[:12]}")
        log = Path(folder, f"{re.sub(r'[^A-Za-z0-9._-]+', '_', model)}.log")
        withheld = tuple(self.withheld)
        return ServerCommand(model, words, log, revision, withheld, self.start_timeout_s)


@dataclass(frozen=True, slots=True)
class ServedAdapter:
    """An adapter on ``base``: its absolute ``folder``, and its name on a server."""

    name: str
    folder: Path
    base: str

    @property
    def words(self) -> list[str]:
        """Words of ``vllm serve`` that serve it, with the highest rank that it must allow."""
        file = self.folder / "adapter_config.json"
        config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        needed = max([config.get("r") or 0, *(config.get("rank_pattern") or {}).values()])
        rank = next((allowed for allowed in _RANKS if allowed >= needed), needed)
        module = f"{self.name}={self.folder}"
        return ["--enable-lora", "--max-lora-rank", str(rank), "--lora-modules", module]


def serve_adapter(url: str, adapter: ServedAdapter, key: str) -> None:
    """Load the adapter at ``url`` (ending in ``/v1``), unless the server lists it.

    Raises:
        EngineError: the server cannot be asked, serves another base, refuses to load (the message
            has both ways to serve it), or answers as its base does.
    """

    def listed() -> dict[str, object]:
        """The models there, with where each was read from, if it says so."""
        return {str(model["id"]): model.get("root") for model in models_at(url, key)}

    own, models, start = adapter.name, listed(), " ".join(adapter.words)
    bases = [name for name, root in models.items() if adapter.base in {name, root}]
    if own not in models and not bases:
        raise EngineError(
            f"{url} serves {', '.join(models) or 'no model'}, and the policy {own} needs its base "
            f"{adapter.base}: start vllm serve {adapter.base} {start}"
        )
    if own not in models:
        body = {"lora_name": own, "lora_path": str(adapter.folder)}
        try:
            answer(f"{url}/load_lora_adapter", bytes, key, _LOADED_S, body)
        except NoAnswer as refusal:
            if own not in listed():  # another run may have loaded it
                raise EngineError(
                    f"the policy is not served as {own} and is not loaded ({refusal}). The server "
                    "must be able to read its folder. To load policies as they are needed, start "
                    "it with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and "
                    f"{start.partition(' --lora-modules')[0]}\nor to load this one, with {start}"
                ) from refusal
    likely = [_likely(url, name, key) for name in (own, *bases[:1])]
    if likely[0] and likely[1:] == likely[:1]:
        raise EngineError(
            f"{url} answers as {own} with the log probabilities of its base: the adapter "
            f"{adapter.folder} is not applied, or changes nothing{first_tensors(adapter.folder)}"
        )


def refuse_short_context(url: str, entry: SystemEntry, context: int, key: str) -> None:
    """``EngineError`` for a server that reads fewer tokens of the entry's model than ``context``.

    Not where one of the two numbers is not known.
    """
    with suppress(NoAnswer):
        for listed in models_at(url, key) if context else ():
            length = listed.get("max_model_len")
            if entry.model in {listed["id"], listed.get("root")} and length and length < context:
                raise EngineError(
                    f"{url} reads {length:,} tokens of {entry.model}, and {context:,} are expected:"
                    f" start it with --max-model-len {context}, or set context = {length} in "
                    f"[{entry.name}] of systems.toml (DECOMPOSERL_EVALUATION__CONTEXT={length} for "
                    "a system of the catalogue), which shortens the evidence of longer claims"
                )


def _likely(url: str, model: str, key: str) -> object:
    """The log probabilities of a model's first token; None where the server gives none."""

    def parse(reply: bytes) -> object:
        return json.loads(reply)["choices"][0]["logprobs"]["content"]

    with suppress(NoAnswer):
        body = {"model": model, **_ONE_TOKEN}
        return answer(f"{url}/chat/completions", parse, key, _LOADED_S, body)
    return None
