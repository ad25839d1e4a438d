"""Stands in for ``vllm serve``: takes its arguments, speaks its health and model list.

``--stand-in`` chooses what goes wrong: ``sick`` (never healthy), ``dies`` (a message, then
status 3), ``other`` (serves another model), ``stubborn`` (ignores SIGTERM). It and a worker
it starts hold a shared lock on ``--holds``, so a test sees when both are gone.
"""

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, required=True)
    parser.add_argument("--gpu-memory-utilization", type=float, required=True)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--stand-in", default="well")
    parser.add_argument("--holds", required=True)
    return parser.parse_args()


ASKED = arguments()


class Answer(BaseHTTPRequestHandler):
    """The two paths that a health check reads."""

    def do_GET(self) -> None:
        """200 when well; the served names."""
        if self.path == "/health":
            self._send(503 if ASKED.stand_in == "sick" else 200, b"")
            return
        name = "another" if ASKED.stand_in == "other" else ASKED.served_model_name
        self._send(200, json.dumps({"data": [{"id": name}]}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    sys.stdout.write(f"stand-in starts with {' '.join(sys.argv[1:])}\n")
    sys.stdout.flush()
    if "VLLM_API_KEY" in os.environ:
        sys.stdout.write("as vLLM does, the stand-in would now refuse whoever has no key\n")
        sys.exit(4)
    if ASKED.stand_in == "dies":
        sys.stdout.write("CUDA out of memory, says the stand-in\n")
        sys.exit(3)
    with open(ASKED.holds, "a") as held:  # noqa: PTH123 - a plain descriptor to lock and pass on
        fcntl.flock(held, fcntl.LOCK_SH)
        worker = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[held.fileno()]
        )

        def end(*_: object) -> None:
            """As vLLM does when it is told to end."""
            worker.kill()
            sys.exit(0)

        signal.signal(signal.SIGTERM, signal.SIG_IGN if ASKED.stand_in == "stubborn" else end)
        ThreadingHTTPServer((ASKED.host, ASKED.port), Answer).serve_forever()
