"""A minimal chat server for measuring the overhead of clients.

``python -m perf.chat_server`` prints its port and answers every request with the same reply.
It parses no more of a request than its length.
"""

import asyncio
import json

_REPLY = {
    "id": "x",
    "object": "chat.completion",
    "created": 0,
    "model": "fast",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "<question>Who?</question>\n" * 12},
        }
    ],
    "usage": {"prompt_tokens": 400, "completion_tokens": 90, "total_tokens": 490},
}
_BODY = json.dumps(_REPLY).encode()
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_ANSWER = _HEAD % len(_BODY) + _BODY
_END, _LENGTH = b"\r\n\r\n", b"content-length:"


class _Connection(asyncio.Protocol):
    """Answers each complete request of one connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport, self._unread = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer complete requests and buffer the rest."""
        self._unread += data
        while (head := self._unread.find(_END)) >= 0:
            headers = self._unread[:head].lower()
            length = headers[headers.find(_LENGTH) + len(_LENGTH) :].split(b"\r\n", 1)[0]
            end = head + len(_END) + int(length)
            if len(self._unread) < end:
                return
            self._unread = self._unread[end:]
            self._transport.write(_ANSWER)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
