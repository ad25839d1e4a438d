"""An OpenAI-compatible chat server on loopback that fails or misbehaves on command.

``FaultServer(script)`` answers the n-th request with the n-th answer of its script, then
with good replies. It records all requests. A good reply depends only on the prompt.
"""

import asyncio
import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

MODEL = "tiny"


@dataclass(frozen=True)
class Answer:
    """The answer to one request; ``change`` overrides fields of a good reply's JSON."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay_s: float = 0.0
    cut: bool = False
    change: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    """The complete response, including the head."""
    endless: bytes = b""
    """Written repeatedly after everything else, until the client disconnects."""
    drip_s: float = 0.0
    """Seconds between repetitions of ``endless``."""


def replying(text: str | None, finish: str = "stop", **message: object) -> Answer:
    """A whole reply with this text, finish reason and further message fields."""
    choice = {"index": 0, "finish_reason": finish, "message": {"content": text, **message}}
    return Answer(change={"choices": [choice]})


def spelled(
    verdict: str, other: str, *, logprobs: bool = True, model: str = MODEL, **message: str
) -> Answer:
    """A reply of one token, with the log-probabilities of both words where the server has them."""
    chances = [{"token": verdict, "logprob": -0.1}, {"token": other, "logprob": -2.4}]
    token = {**chances[0], "top_logprobs": chances}
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": verdict, **message}}
    choice |= {"logprobs": {"content": [token]} if logprobs else None}
    return Answer(change={"model": model, "choices": [choice]})


WELL = Answer()
SLOW = Answer(delay_s=0.05)
BUSY = Answer(429, {"Retry-After": "0.05"}, b'{"error": {"message": "too fast"}}')
BROKEN = Answer(500, {"Retry-After": "0.001"}, b'{"error": {"message": "out of memory"}}')
REFUSED = Answer(400, {}, b'{"error": {"message": "prompt too long"}}')
UNKNOWN_KEY = Answer(401, {}, b'{"error": {"message": "wrong key"}}')
HANGING = Answer(delay_s=3_600.0)
CUT = Answer(cut=True)
NO_JSON = Answer(body=b"<html>bad gateway</html>")
_NO_LIST = b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n"  # of models
NO_CHOICES = Answer(body=b'{"choices": []}')
EMPTY = replying("")
REASONING = replying(None, "length", reasoning_content="Let me think about this. Hmm")
TRUNCATED = replying("What is", "length")
OTHER_MODEL = Answer(change={"model": "another"})
NO_USAGE = Answer(change={"usage": None})


def using(usage: object) -> Answer:
    """A good reply that reports this usage."""
    return Answer(change={"usage": usage})


def streaming(head: str, endless: bytes, drip_s: float = 0.0) -> Answer:
    """An endless response after these header lines."""
    raw = f"HTTP/1.1 {head}\r\n\r\n".encode()
    return Answer(raw=raw, endless=endless, drip_s=drip_s)


DRIPPING = {
    "body": streaming("200 OK", b" ", 0.01),
    "head": Answer(raw=b"HTTP/1.1 200 OK\r\nX-A: ", endless=b"1", drip_s=0.01),
    "1xx": streaming("100 Continue", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001),
}
"""Responses that arrive byte by byte and never end, by the endless part."""


def redirect(status: int, location: str) -> Answer:
    """A redirect to another address."""
    return Answer(status, {"Location": location}, b"elsewhere")


def well_text(prompt: str) -> str:
    """The server's good reply to a prompt."""
    return f"reply {hashlib.sha256(prompt.encode()).hexdigest()[:8]}"


class FaultServer:
    """A running server; ``asked`` holds the JSON body of every request, in order."""

    def __init__(
        self, script: Sequence[Answer] = (), usual: Answer = WELL, lists: Sequence[str] = ()
    ) -> None:
        """``usual`` is the answer after the end of the script, ``lists`` its list of models."""
        self._script, self._usual, self._lists = list(script), usual, lists
        self.asked: list[dict[str, Any]] = []
        self.authorizations: list[str] = []
        self.heads: list[str] = []
        self.in_flight = self.most_in_flight = 0
        self.sent = 0
        """Bytes sent in endless responses."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._handlers: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Listen on a free port."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all open connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def prompts(self) -> list[str]:
        """The last message of every request, in order."""
        return [body["messages"][-1]["content"] for body in self.asked]

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _close(self) -> None:
        self._server.close()
        for handler in list(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            while await self._answer_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client disconnected, or the server stops
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read a request and write its answer; returns False if the connection was cut."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        headers = {name.lower(): value for name, value in headers.items()}
        asked = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        if head.startswith("GET ") and self._is_chat:
            body = json.dumps({"data": [{"id": name} for name in self._lists]}).encode()
            listed = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            writer.write(listed if self._lists else _NO_LIST)
            await writer.drain()
            return True
        answer = self._script.pop(0) if self._script else self._usual
        self.asked.append(asked)
        self.heads.append(head)
        self.authorizations.append(headers.get("authorization", ""))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(answer.delay_s)
        finally:
            self.in_flight -= 1
        if answer.raw is not None:
            writer.write(answer.raw)
            await self._go_on(writer, answer)
            return False
        body = answer.body if answer.body is not None else self._well(asked, answer)
        body = body.replace(b"{authorization}", headers.get("authorization", "").encode())
        lines = {"Content-Type": "application/json", "Content-Length": len(body)}
        text = "".join(f"{name}: {value}\r\n" for name, value in (lines | answer.headers).items())
        written = f"HTTP/1.1 {answer.status} X\r\n{text}\r\n".encode() + body
        writer.write(written[: len(written) // 2] if answer.cut else written)
        await writer.drain()
        return not answer.cut

    @property
    def _is_chat(self) -> bool:
        """Whether the next answer is one to a chat request, and no body for a list of models."""
        following = self._script[0] if self._script else self._usual
        return following.body is None and following.raw is None

    async def _go_on(self, writer: asyncio.StreamWriter, answer: Answer) -> None:
        await writer.drain()
        while answer.endless:
            writer.write(answer.endless)
            self.sent += len(answer.endless)
            await writer.drain()
            await asyncio.sleep(answer.drip_s)

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:
        message = {"role": "assistant", "content": well_text(asked["messages"][-1]["content"])}
        reply = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        return json.dumps(reply | answer.change).encode()
