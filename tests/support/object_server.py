"""An S3 server on loopback (moto's), and a proxy in front of it that fails as asked."""

import http.client
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

BUCKET = "claims"
URL = f"s3://{BUCKET}/some/prefix"
KEY, SECRET = "AKIAOBJECTSERVER", "a-secret-that-nobody-may-print"
Fault = Literal["", "503", "lost", "slow", "cut"]
"""``lost``: the request is served and its answer dropped. ``cut``: half of the body is sent."""
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_SLOW_S = 0.3


@dataclass
class ObjectServer:
    """The proxy's address, and what it does to the requests to come."""

    server: str
    port: int = 0
    faults: list[tuple[str, str, Fault]] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, fault: Fault, method: str, part: str = "", times: int = 1) -> None:
        """Let the next requests with this method, whose path has ``part``, meet the fault."""
        self.faults += [(method, part, fault)] * times

    def count(self, method: str, part: str = "") -> int:
        """How many requests with this method had ``part`` in their path."""
        return sum(m == method and part in path for m, path in self.seen)

    def next_fault(self, method: str, path: str) -> Fault:
        """The fault of a request, which is counted."""
        with self.lock:
            self.seen.append((method, path))
            for one in self.faults:
                if one[0] == method and one[1] in path:
                    self.faults.remove(one)
                    return one[2]
        return ""

    @property
    def variables(self) -> dict[str, str]:
        """What a process that uses the server has in its environment."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def options(self, retries: int = 3) -> Mapping[str, Any]:
        """The same as keywords of ``from_url``, with short waits."""
        wait = timedelta(milliseconds=5)
        names = [name for name in self.variables if name != "AWS_ALLOW_HTTP"]
        return {
            "config": {name.lower(): self.variables[name] for name in names},
            "client_options": {"allow_http": True},
            "retry_config": {
                "max_retries": retries,
                "backoff": {"init_backoff": wait, "max_backoff": wait, "base": 2},
            },
        }

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        """One request to the S3 server itself."""
        connection = http.client.HTTPConnection(self.server)
        connection.request(method, path, headers={"Authorization": _SIGNED})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def objects(self) -> dict[str, bytes]:
        """Every object by key, past the proxy."""
        import obstore
        from obstore.store import from_url

        options = self.options()
        config = {**options["config"], "aws_endpoint_url": f"http://{self.server}"}
        store = from_url(f"s3://{BUCKET}", **{**options, "config": config})
        paths = [one["path"] for batch in obstore.list(store) for one in batch]
        return {path: bytes(obstore.get(store, path).bytes()) for path in paths}


_SIGNED = f"AWS4-HMAC-SHA256 Credential={KEY}/20261123/us-east-1/s3/aws4_request"


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """A server with an empty bucket."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    state = ObjectServer(f"{host}:{port}")
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Proxy", (_Proxy,), {"state": state}))
    proxy.daemon_threads = True
    state.port = proxy.server_address[1]
    serving = threading.Thread(target=proxy.serve_forever, daemon=True)
    serving.start()
    try:
        state.ask("POST", "/moto-api/reset")
        state.ask("PUT", f"/{BUCKET}")
        yield state
    finally:
        proxy.shutdown()
        proxy.server_close()
        serving.join()
        moto.stop()


class _Proxy(BaseHTTPRequestHandler):
    state: ObjectServer  # of the subclass that a server has
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.state.next_fault(self.command, self.path)
        if fault == "503":
            self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        if fault == "slow":
            time.sleep(_SLOW_S)
        connection = http.client.HTTPConnection(self.state.server)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data, said = answer.read(), dict(answer.getheaders())
        connection.close()
        if fault == "lost":
            self.close_connection = True
            return
        self._answer(answer.status, said, data, cut=fault == "cut")

    def _answer(
        self, status: int, headers: Mapping[str, str], body: bytes, *, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        with suppress(ConnectionError):  # the client was killed
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
        """Say nothing."""
