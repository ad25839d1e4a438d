"""A file server on loopback that breaks, redirects and refuses on command.

It answers ``/path`` with the content of that path, whole or the range that was asked for, and with
an ETag of the content. A path's ``faults`` are used up one a request, then it answers well. As a
proxy it answers ``http://host/path`` with the content of ``/host/path``.
"""

import hashlib
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """``cut`` bytes of the body are sent before the connection ends; ``headers`` are added.

    With ``stalls`` the connection stays open after them, until the server ends.
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None
    lengthless: bool = False
    stalls: bool = False


@dataclass(frozen=True)
class Seen:
    """One request: its path, its range (empty: none) and how many bytes of body were sent."""

    path: str
    range: str
    sent: int


class FileServer:
    """Serves ``files`` by path until the block ends; ``seen`` are the requests."""

    def __init__(
        self,
        files: Mapping[str, bytes],
        *,
        ranges: bool = True,
        etag: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``ranges`` and ``etag``: whether the server knows them; ``headers`` of all answers."""
        self.files, self.ranges, self.etag = dict(files), ranges, etag
        self.headers = headers or {}
        self.faults: dict[str, list[Fault]] = {}
        self.seen: list[Seen] = []
        self.ending = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        """The address of a path."""
        return f"http://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.ending.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = _path(self.path)
            faults = server.faults.get(path, [])
            fault = faults.pop(0) if faults else Fault()
            content = server.files.get(path)
            asked = self.headers.get("Range", "")
            status, headers, body = _answer(server, content, asked, fault)
            if not fault.lengthless:
                headers["Content-Length"] = str(len(body))
            self.send_response(status)
            for name, value in {**headers, **server.headers, **fault.headers}.items():
                self.send_header(name, value)
            sent = body[: 0 if self.command == "HEAD" else fault.cut]
            server.seen.append(Seen(path, asked, len(sent)))
            self.end_headers()
            with suppress(ConnectionError):  # the client has seen enough
                self.wfile.write(sent)
                self.wfile.flush()
            if fault.stalls:
                server.ending.wait(60)
            self.close_connection = True

        do_HEAD = do_GET  # noqa: N815 - the base's name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    return Handler


def _path(line: str) -> str:
    parts = urlsplit(line)
    path = f"/{parts.netloc}{parts.path}" if parts.scheme else parts.path
    return f"{path}?{parts.query}" if parts.query else path


def _answer(
    server: FileServer, content: bytes | None, asked: str, fault: Fault
) -> tuple[int, dict[str, str], bytes]:
    if fault.status:
        return fault.status, {}, fault.body
    if content is None:
        return 404, {}, b""
    tag = hashlib.sha256(content).hexdigest()[:16]
    headers: dict[str, Any] = {"ETag": f'"{tag}"'} if server.etag else {}
    start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
    if not server.ranges or not start:
        return 200, headers, content
    if start >= len(content):
        return 416, {**headers, "Content-Range": f"bytes */{len(content)}"}, b""
    headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    return 206, headers, content[start:]
