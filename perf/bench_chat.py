"""The chat client next to the plain ``openai`` client, on a fast loopback server.

Both sides keep 256 calls in flight and send the same prompts; opening and closing the clients
is part of both times. The server runs in its own process. With a slow server the server alone
would decide the time, so a fast one is used.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from decomposerl.chat import ChatReply, ChatRequest, Message, Sampling, Template
from decomposerl.endpoint import Endpoint
from perf.sizes import Sizes
from perf.timing import Row, paired
from resources.chat.client import ChatClient

ROOT = Path(__file__).resolve().parent.parent
IN_FLIGHT = 256
WARM = 64
PAIRS = 3
_EVIDENCE = "The committee met in the spring and agreed on the plan. " * 24
_MODEL = "fast"


def chat_rows(sizes: Sizes) -> Iterator[Row]:
    """Calls without a cache, calls written to a cache, and look-ups in a full cache."""
    requests = [_request(number) for number in range(sizes.chat)]
    with _server() as url, tempfile.TemporaryDirectory() as folder:
        settings = Endpoint(model=_MODEL, base_url=(url,), concurrency=IN_FLIGHT)
        peer = partial(_plain, url, requests)
        _plain(url, requests[:WARM])
        _ours(settings, requests[:WARM], None)
        data = Path(folder)
        yield _row("no cache", partial(_ours, settings, requests, None), peer, 0.8)
        yield _row("cache written", partial(_written, settings, requests, data), peer, 0.7)
        full = data / "full"
        _ours(settings, requests, full)
        yield _row("cache read", partial(_ours, settings, requests, full), peer, 10.0)


def _row(what: str, ours: "partial[int]", peer: "partial[int]", bar: float) -> Row:
    both = paired(ours, peer, pairs=PAIRS)
    return both.row(
        f"chat client, {what}, {both.peer:,} requests",
        "openai, semaphore",
        bar,
        note=f"{both.ours / both.ours_s:,.0f} requests/s",
    )


def _request(number: int) -> ChatRequest:
    turns = (Message("system", "Ask questions."), Message("user", f"{number} {_EVIDENCE}"))
    return ChatRequest(turns, Sampling(max_tokens=200), Template("bench", "0"))


@contextmanager
def _server() -> Iterator[str]:
    """URL of the fast server; its process ends with the block."""
    command = [sys.executable, "-m", "perf.chat_server"]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            port = process.stdout.readline().strip() if process.stdout else ""
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def _written(settings: Endpoint, requests: Sequence[ChatRequest], data: Path) -> int:
    """Like ``_ours``, into an empty cache."""
    with tempfile.TemporaryDirectory(dir=data) as fresh:
        return _ours(settings, requests, Path(fresh))


def _ours(settings: Endpoint, requests: Sequence[ChatRequest], data: Path | None) -> int:
    """Number of requests that got a reply."""
    with ChatClient(settings, data) as chat:
        return sum(isinstance(one, ChatReply) for one in chat.complete(requests))


def _plain(url: str, requests: Sequence[ChatRequest]) -> int:
    """Number of requests that got a reply from the ``openai`` package alone."""
    return asyncio.run(_plain_batch(url, requests))


async def _plain_batch(url: str, requests: Sequence[ChatRequest]) -> int:
    from openai import AsyncOpenAI

    slots = asyncio.Semaphore(IN_FLIGHT)
    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def ask(one: ChatRequest) -> bool:
            async with slots:
                reply = await client.chat.completions.create(
                    model=_MODEL,
                    messages=[{"role": t.role, "content": t.content} for t in one.messages],  # type: ignore[misc]
                    max_tokens=one.sampling.max_tokens,
                    temperature=one.sampling.temperature,
                    top_p=one.sampling.top_p,
                    seed=one.sampling.seed,
                )
            return bool(reply.choices[0].message.content)

        return sum(await asyncio.gather(*(ask(one) for one in requests)))
