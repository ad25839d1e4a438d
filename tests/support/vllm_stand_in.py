"""Stands in for ``vllm serve``: takes its arguments, speaks its health, model list and chat.

``--stand-in`` chooses what goes wrong: ``sick`` (never healthy), ``dies`` (a message, then
status 3), ``other`` (serves another model), ``locked`` (wants a key), ``mortal`` (dies at its
second question), ``silent`` (answers no question), ``stubborn`` (ignores SIGTERM). It and a
worker it starts hold a shared lock on ``--holds``, so a test sees when both are gone. It prints
the names of its environment.

Like vLLM it takes a share of each card's memory, and does not start where less is free. The cards
are those of ``CUDA_VISIBLE_DEVICES``, or the first ones; what is taken is counted in a folder
beside ``--holds``.
"""

import argparse
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO


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
    parser.add_argument("--revision")
    parser.add_argument("--code-revision")
    parser.add_argument("--tokenizer-revision")
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction)
    parser.add_argument("--stand-in", default="well")
    parser.add_argument("--version", default="0.31.0", help="what /version answers")
    parser.add_argument("--holds", required=True)
    return parser.parse_args()


ASKED = arguments()
QUESTIONS = itertools.count(1)
YES = {"token": "Yes", "logprob": -0.1, "bytes": None}
CHOICE = {
    "index": 0,
    "finish_reason": "length",
    "message": {"role": "assistant", "content": "Yes"},
    "logprobs": {"content": [{**YES, "top_logprobs": [YES]}]},
}
REPLY = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": ASKED.served_model_name,
    "choices": [CHOICE],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class Answer(BaseHTTPRequestHandler):
    """The two paths that a health check reads, and chat."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """200 when well; the served names."""
        if self.path == "/health":
            self._send(503 if ASKED.stand_in == "sick" else 200, b"")
            return
        if self.path == "/version":  # without a key, as vLLM
            self._send(200, json.dumps({"version": ASKED.version}).encode())
            return
        if ASKED.stand_in == "locked":
            self._send(401, b"{}")
            return
        name = "another" if ASKED.stand_in == "other" else ASKED.served_model_name
        self._send(200, json.dumps({"data": [{"id": name, "owned_by": "vllm"}]}).encode())

    def do_POST(self) -> None:
        """Answer Yes to every question; a mortal server dies at the second."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if next(QUESTIONS) > 1 and ASKED.stand_in == "mortal":
            sys.stdout.write("an illegal memory access, says the stand-in at work\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if ASKED.stand_in == "silent":
            time.sleep(600)
        self._send(200, json.dumps(REPLY).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def memory_taken() -> list[IO[str]]:
    """This server's share of each of its cards, held until the files are closed.

    A share is a locked file named by card and amount: it is free again when its server is gone,
    however it ended.
    """
    folder = Path(f"{ASKED.holds}.cards")
    folder.mkdir(exist_ok=True)
    count, share = ASKED.tensor_parallel_size, ASKED.gpu_memory_utilization
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    cards = named.split(",") if named else [str(number) for number in range(count)]
    if len(cards) < count:
        sys.exit(f"tensor parallel size ({count}) is larger than the number of GPUs ({len(cards)})")
    taken = []
    with (folder / "gate").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for card in cards[:count]:
            free = 1 - sum(held_share(path) for path in folder.glob(f"{card}-*"))
            if free < share - 1e-9:
                sys.exit(
                    f"ValueError: Free memory on device cuda:{card} ({free:.2f} of it) on startup "
                    f"is less than desired GPU memory utilization ({share})."
                )
            mine = (folder / f"{card}-{share}-{os.getpid()}").open("w")
            fcntl.flock(mine, fcntl.LOCK_EX)
            taken.append(mine)
    return taken


def held_share(path: Path) -> float:
    """The share that a file stands for; 0 where its server is gone."""
    with path.open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return float(path.name.split("-")[1])
    return 0.0


if __name__ == "__main__":
    sys.stdout.write(f"stand-in starts with {' '.join(sys.argv[1:])}\n")
    sys.stdout.write(f"environment: {' '.join(sorted(os.environ))}\n")
    sys.stdout.flush()
    if "VLLM_API_KEY" in os.environ:
        sys.stdout.write("like vLLM, the stand-in would now reject requests without a key\n")
        sys.exit(4)
    memory = memory_taken()
    if ASKED.stand_in == "dies":
        sys.stdout.write("CUDA out of memory, says the stand-in\n")
        sys.exit(3)
    with open(ASKED.holds, "a") as held:  # noqa: PTH123 - a plain descriptor to lock and pass on
        fcntl.flock(held, fcntl.LOCK_SH)
        worker = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[held.fileno()]
        )

        def end(*_: object) -> None:
            """End like vLLM on SIGTERM."""
            worker.kill()
            sys.exit(0)

        signal.signal(signal.SIGTERM, signal.SIG_IGN if ASKED.stand_in == "stubborn" else end)
        ThreadingHTTPServer((ASKED.host, ASKED.port), Answer).serve_forever()
