"""A small OpenAI-compatible server on loopback over a tiny model, with true probabilities.

It answers ``/v1/models``, ``/v1/chat/completions`` (greedy, with ``max_tokens``, ``stop``,
``logprobs`` and ``top_logprobs``) and ``/v1/embeddings`` (mean of the last hidden states,
unit length). ``seed`` is accepted and ignored: nothing is sampled.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class Refused(Exception):  # noqa: N818 - a reply, not a fault of the server
    """A request that gets ``status`` and a message."""

    def __init__(self, status: int, message: str) -> None:
        """``message`` is what the client sees."""
        super().__init__(message)
        self.status = status


@dataclass
class TinyModel:
    """A tiny causal model that continues chats and embeds texts, one request at a time."""

    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Load it."""
        self.tokenizer: Any = AutoTokenizer.from_pretrained(self.folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(self.folder).eval()

    def prompt_ids(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Tokens of the chat template up to the start of the reply."""
        text = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )
        return list(self.tokenizer(text)["input_ids"])

    def greedy(
        self, ids: Sequence[int], max_tokens: int, stop: Sequence[str]
    ) -> tuple[str, str, list[tuple[int, torch.Tensor]]]:
        """Text, finish reason, and each token with the log probabilities at its position."""
        chosen: list[tuple[int, torch.Tensor]] = []
        past, fed = None, torch.tensor([list(ids)])
        while len(chosen) < max_tokens:
            out = self.model(input_ids=fed, past_key_values=past, use_cache=True)
            logprobs = out.logits[0, -1].float().log_softmax(dim=-1)
            best = int(logprobs.argmax())
            chosen.append((best, logprobs))
            if best == self.tokenizer.eos_token_id:
                return self.text(chosen), "stop", chosen
            text = self.text(chosen)
            ends = [text.index(mark) for mark in stop if mark in text]
            if ends:
                return text[: min(ends)], "stop", chosen
            past, fed = out.past_key_values, torch.tensor([[best]])
        return self.text(chosen), "length", chosen

    def text(self, chosen: Sequence[tuple[int, torch.Tensor]]) -> str:
        """The tokens as text, without the end mark."""
        return str(self.tokenizer.decode([i for i, _ in chosen], skip_special_tokens=True))

    def embedding(self, text: str) -> tuple[list[float], int]:
        """A unit vector and the number of tokens of the text."""
        ids = self.tokenizer(text or " ")["input_ids"]
        hidden = self.model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        mean = hidden.float().mean(dim=0)
        return (mean / mean.norm()).tolist(), len(ids)


class TinyServer:
    """``with TinyServer(folder) as server``: serves at ``server.url`` until the block ends."""

    def __init__(self, folder: Path, name: str = "tiny-chat") -> None:
        """``name`` is the model's name in requests."""
        self.name, self.asked = name, list[dict[str, Any]]()
        self._model = TinyModel(folder)
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, with all open requests answered."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """The JSON answer to one request."""
        if path == "/v1/models" and body is None:
            return {"object": "list", "data": [{"id": self.name, "object": "model"}]}
        answer = {"/v1/chat/completions": self._chat, "/v1/embeddings": self._embed}.get(path)
        if answer is None or body is None:
            raise Refused(404, f"nothing at {path}")
        if body.get("model") != self.name:
            raise Refused(404, f"no model {body.get('model')!r}")
        self.asked.append(body)
        with self._model.lock, torch.inference_mode():
            return {"model": self.name, **answer(body)}

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        ids = self._model.prompt_ids(body["messages"])
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or 64
        stop = body.get("stop") or []
        stops = [stop] if isinstance(stop, str) else stop
        text, finish, chosen = self._model.greedy(ids, limit, stops)
        choice = {
            "index": 0,
            "finish_reason": finish,
            "message": {"role": "assistant", "content": text},
            "logprobs": self._logprobs(chosen, body.get("top_logprobs") or 0)
            if body.get("logprobs")
            else None,
        }
        total = len(ids) + len(chosen)
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(chosen), "total_tokens": total}
        return {"object": "chat.completion", "id": "1", "choices": [choice], "usage": usage}

    def _logprobs(self, chosen: Sequence[tuple[int, torch.Tensor]], count: int) -> dict[str, Any]:
        def entry(number: int, logprobs: torch.Tensor) -> dict[str, Any]:
            text = self._model.tokenizer.decode([number])
            return {"token": text, "logprob": logprobs[number].item(), "bytes": [*text.encode()]}

        return {
            "content": [
                {
                    **entry(number, logprobs),
                    "top_logprobs": [entry(int(i), logprobs) for i in logprobs.topk(count).indices],
                }
                for number, logprobs in chosen
            ]
        }

    def _embed(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = [self._model.embedding(text) for text in texts]
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, (vector, _) in enumerate(vectors)
        ]
        tokens = sum(count for _, count in vectors)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    owner: TinyServer
    protocol_version = "HTTP/1.1"
    timeout = 30  # an idle connection does not keep the server open

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer(None)

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: dict[str, Any] | None) -> None:
        try:
            status, answer = 200, self.owner.reply(self.path, body)
        except Refused as refused:
            status, answer = refused.status, {"error": {"message": str(refused)}}
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
