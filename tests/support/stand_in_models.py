"""What the vLLM stand-in serves: a model, its adapters, and what it refuses, in vLLM 0.31's words.

A prompt has one token per four bytes of its messages' text, rounded up. A reply's tokens are its
words, white space in front included. Read against vLLM's ``entrypoints/openai/models/serving.py``,
``renderers/params.py``, ``sampling_params.py`` and ``lora/peft_helper.py``.
"""

import argparse
import base64
import hashlib
import json
import math
import re
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_WIDTH = 32  # of an embedding


class Refused(Exception):  # noqa: N818 - the name is what happened
    """A request that vLLM refuses: the status and the body's error."""

    def __init__(self, message: str, kind: str, code: int, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        error = {"message": message, "type": kind, "param": param, "code": code}
        self.body: Json = {"error": error}


def _wrong(message: str, param: str) -> Refused:
    return Refused(message, "BadRequestError", 400, param)


def not_found() -> Refused:
    """What vLLM says of a path that it does not have."""
    return Refused("Not Found", "Not Found", 404)


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded adapter; ``digest`` is of its weights as they were when they were loaded.

    ``shift`` is what it adds to log probabilities; weights that contain ``unapplied`` add nothing.
    """

    folder: str
    digest: str
    shift: float


@dataclass
class Served:
    """A server's model and adapters. ``context`` is in tokens, prompt and reply together."""

    asked: argparse.Namespace
    context: int
    adapters: dict[str, Adapter] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def names(self) -> list[str]:
        """The model's names in requests."""
        return list(self.asked.served_model_name or [self.asked.model])

    def models(self) -> Json:
        """The body of ``/v1/models``; only the model itself has a length there."""
        base = {"object": "model", "created": 0, "owned_by": "vllm", "permission": []}
        own = {"root": self.asked.model, "parent": None, "max_model_len": self.context}
        bases = [{"id": name, **base, **own} for name in self.names]
        parent = {"parent": self.names[0], "max_model_len": None}
        loaded = self.adapters.items()
        tuned = [{"id": name, **base, "root": one.folder, **parent} for name, one in loaded]
        return {"object": "list", "data": [*bases, *tuned]}

    def load(self, body: Json) -> str:
        """Load an adapter, as ``/v1/load_lora_adapter`` and ``--lora-modules`` do."""
        name, folder = body.get("lora_name", ""), body.get("lora_path", "")
        if not name or not folder:
            message = "Both 'lora_name' and 'lora_path' must be provided."
            raise Refused(message, "InvalidUserInput", 400)
        with self.lock:
            self.adapters[name] = self._read(name, Path(folder))
        return f"Success: LoRA adapter '{name}' added successfully."

    def _read(self, name: str, folder: Path) -> Adapter:
        if not self.asked.enable_lora:
            raise _failed("LoRA is not enabled. Use --enable-lora to enable LoRA.")
        settings, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
        if not settings.is_file():
            message = f"Loading lora {name} failed: No adapter found for {folder}"
            raise Refused(message, "NotFoundError", 404)
        rank, most = json.loads(settings.read_text())["r"], self.asked.max_lora_rank
        if rank > most:
            raise _failed(f"LoRA rank {rank} is greater than max_lora_rank {most}.")
        if not weights.is_file():
            raise _failed(f"{folder} doesn't contain tensors")
        digest = hashlib.sha256(weights.read_bytes() + settings.read_bytes()).hexdigest()
        shift = 0.0 if b"unapplied" in weights.read_bytes() else int(digest[:4], 16) / 2**24
        return Adapter(str(folder), digest, shift)

    def check_model(self, body: Json) -> str:
        """The name that a request asks for; an empty one is the model's."""
        name = body.get("model") or self.names[0]
        if name not in self.names and name not in self.adapters:
            message = f"The model `{name}` does not exist."
            raise Refused(message, "NotFoundError", 404, "model")
        return str(name)

    def check_length(self, prompt: int, reply: int) -> None:
        """Refuse what does not fit the context: prompt and reply, or the prompt alone."""
        if reply > self.context:
            message = (
                f"max_tokens={reply} cannot be greater than max_model_len={self.context}. Please "
                "request fewer output tokens."
            )
            raise _wrong(message, "max_tokens")
        if prompt + reply > self.context:
            message = (
                f"This model's maximum context length is {self.context} tokens. However, you "
                f"requested {reply} output tokens and your prompt contains {prompt} input tokens, "
                f"for a total of {prompt + reply} tokens. Please reduce the length of the input "
                "prompt or the number of requested output tokens."
            )
            raise _wrong(message, "input_tokens")

    def check_logprobs(self, body: Json) -> int | None:
        """How many top log probabilities a request wants; None: no log probabilities at all."""
        top, most = body.get("top_logprobs") or 0, self.asked.max_logprobs
        if top and not body.get("logprobs"):
            message = "when using `top_logprobs`, `logprobs` must be set to true."
            raise _wrong(message, "top_logprobs")
        if most != -1 and top > most:
            message = f"Requested sample logprobs of {top}, which is greater than max allowed: "
            raise _wrong(f"{message}{most}", "logprobs")
        return top if body.get("logprobs") else None

    def chat(self, body: Json) -> Json:
        """The reply to a chat request."""
        name = self.check_model(body)
        top = self.check_logprobs(body)
        prompt = tokens_of("".join(text_of(one["content"]) for one in body["messages"]))
        most = body.get("max_completion_tokens") or body.get("max_tokens")
        self.check_length(prompt, most or 0)
        shift = self.adapters[name].shift if name in self.adapters else 0.0
        words = re.findall(r"\s*\S+", self.asked.says)
        kept = words[: most or None]
        choice = {
            "index": 0,
            "finish_reason": "length" if most and most <= len(kept) else "stop",
            "message": {"role": "assistant", "content": "".join(kept)},
            "logprobs": None
            if top is None
            else {"content": [spoken(one, top, shift) for one in kept]},
        }
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": name,
            "choices": [choice],
            "usage": usage(prompt, len(kept)),
        }

    def embeddings(self, body: Json) -> Json:
        """The reply to an embedding request: bags of hashed words, of length 1."""
        name, given = self.check_model(body), body["input"]
        texts = [given] if isinstance(given, str) else given
        for text in texts:
            self.check_length(tokens_of(text), 0)
        packed = body.get("encoding_format") == "base64"
        rows = [
            {"object": "embedding", "index": place, "embedding": embedded(text, packed=packed)}
            for place, text in enumerate(texts)
        ]
        count = sum(map(tokens_of, texts))
        return {"object": "list", "data": rows, "model": name, "usage": usage(count, 0)}


def _failed(message: str) -> Refused:
    return Refused(message, "InternalServerError", 500)


def tokens_of(text: str) -> int:
    """Tokens of a text: one per four bytes, rounded up."""
    return math.ceil(len(text.encode()) / 4)


def text_of(content: str | list[Json]) -> str:
    """The text of a message."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def usage(prompt: int, completion: int) -> Json:
    """The count of tokens in a reply."""
    both = {"prompt_tokens": prompt, "completion_tokens": completion}
    return both | {"total_tokens": prompt + completion}


def spoken(token: str, top: int, shift: float) -> Json:
    """A token in OpenAI's form, with its ``top`` most likely ones, itself the first."""
    others = [_token(f" other{place}", -5.0 - place - shift) for place in range(top - 1)]
    own = _token(token, -0.1 - shift)
    return own | {"top_logprobs": [own, *others] if top else []}


def _token(token: str, logprob: float) -> Json:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


def embedded(text: str, *, packed: bool) -> list[float] | str:
    """The vector of a text, as numbers or as base64 of 32-bit floats."""
    vector = [0.0] * _WIDTH
    for word in re.findall(r"\w+", text.lower()) or [""]:
        vector[hashlib.sha256(word.encode()).digest()[0] % _WIDTH] += 1.0
    length = math.sqrt(sum(value * value for value in vector))
    vector = [value / length for value in vector]
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{_WIDTH}f", *vector)).decode()
