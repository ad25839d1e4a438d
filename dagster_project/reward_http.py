"""Requests to the reward server over HTTP, and who may make them.

Judge calls cost money and the server asks for no key, so it answers no page of the web, also where
that page makes a browser send its own name here (DNS rebinding).
"""

import ipaddress
import json
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from decomposerl.traces.records import safe_name

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = {"0.0.0.0", "::"}  # noqa: S104 - compared, not listened on
_PART = 65_536  # bytes of a body that are read at a time
_MOST_DIGITS = 15  # of its length
Reply = dict[str, object]


def is_own_name(host: str, names: Iterable[str]) -> bool:
    """Whether a Host header names the server: loopback, or the address that it listens on.

    Where that is every address any number counts: a page can have a name sent, and no number.
    """
    own = {name.casefold() for name in (*_LOOPBACK, *names)}
    try:
        name = (urlsplit(f"//{host}").hostname or "").casefold()
        return name in own or bool(own & _EVERYWHERE and ipaddress.ip_address(name))
    except ValueError:
        return False


class RewardHandler(BaseHTTPRequestHandler):
    """The one request of a connection."""

    server: Any  # ``reward_server.RewardServer``
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds of one read or write

    def do_GET(self) -> None:
        """Health."""
        self._reply(*(self._refusal("/v1/health") or (HTTPStatus.OK, self.server.health)))

    def do_POST(self) -> None:
        """Rewards. A body that is refused is read, too, so that the reply arrives."""
        length = self.headers.get("Content-Length", "")
        refusal = self._refusal("/v1/rewards") or self._wrong_body(length)
        left, parts = int(length) if length.isdecimal() else 0, []
        while left and (part := self.rfile.read(min(left, _PART))):
            left -= len(part)
            parts += [part] if refusal is None else []
        self.server.received(self.connection)
        self._reply(*(refusal or self.server.answer(b"".join(parts))))

    def _refusal(self, path: str) -> tuple[HTTPStatus, Reply] | None:
        """Why this client, or this address, is not answered."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if not is_own_name(host, self.server.names):
            return HTTPStatus.FORBIDDEN, {"error": f"this server is not '{safe_name(host)}'"}
        site = self.headers.get("Sec-Fetch-Site", "none")
        if origin not in {None, f"http://{host}"} or site not in {"none", "same-origin"}:
            return HTTPStatus.FORBIDDEN, {"error": "a page of another site may ask nothing here"}
        if self.path != path:
            return HTTPStatus.NOT_FOUND, {"error": "there is no such address"}
        return None

    def _wrong_body(self, length: str) -> tuple[HTTPStatus, Reply] | None:
        kind, most = self.headers.get_content_type(), self.server.most_bytes
        if kind != "application/json":  # which no page of another site may send unasked
            said = f"the content type is {safe_name(kind)}; it must be application/json"
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, {"error": said}
        if not length.isdecimal() or len(length) > _MOST_DIGITS:
            return HTTPStatus.LENGTH_REQUIRED, {"error": "a request needs its Content-Length"}
        if int(length) > most:
            said = f"the body has more than {most:,} bytes"
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": said}
        return None

    def _reply(self, status: HTTPStatus, reply: Reply) -> None:
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: a trainer sends thousands of requests."""
