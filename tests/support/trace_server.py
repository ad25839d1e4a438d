"""A stand-in for the server of ``decomposerl view``: page, data, and marks in memory."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from trace_pages import special_traces

REFUSED = "refuse"
"""A mark with this note is answered by an error."""


class TraceServer(ThreadingHTTPServer):
    """Serves ``page`` and the special traces on a free port while it is entered."""

    def __init__(self, page: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        index, blocks = special_traces()
        self.marks: list[dict[str, Any]] = []
        self.page = page
        self.data: dict[str, object] = {
            "/data/index": index | {"live": True, "reviewer": "Ann", "stamp": "s 1"},
            **{f"/data/block/{number}?v=s%201": block for number, block in enumerate(blocks)},
            "/data/judge/0/0?v=s%201": [
                one | {"prompt": "Asked live"} for one in blocks[0]["items"][0]["judge"]
            ],
            "/marks": self.marks,
        }
        self.address = f"http://127.0.0.1:{self.server_port}/"

    def __enter__(self) -> Self:
        """Serve from a thread."""
        threading.Thread(target=self.serve_forever).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()


class _Answers(BaseHTTPRequestHandler):
    server: TraceServer

    def do_GET(self) -> None:
        if self.path == "/":
            self._answer(self.server.page.encode(), "text/html; charset=utf-8")
        else:
            self._answer_json(self.server.data.get(self.path))

    def do_POST(self) -> None:
        mark = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if mark["note"] == REFUSED:
            self._answer_json({"error": "no room"}, 400)
            return
        self.server.marks.append(mark | {"at": "2026-01-02T03:04:05Z"})
        self._answer_json(self.server.marks[-1])

    def _answer_json(self, value: object, status: int = 200) -> None:
        self._answer(json.dumps(value).encode(), "application/json", status)

    def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests need no access log."""
