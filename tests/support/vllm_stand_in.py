"""Stands in for ``vllm serve`` 0.31: its arguments, memory, health, models, adapters and replies.

``--stand-in`` chooses what goes wrong: ``sick`` (never healthy), ``dies`` (a message, then
status 3), ``other`` (serves another model), ``locked`` (wants a key), ``mortal`` (dies at its
second question), ``silent`` (answers no question), ``stubborn`` (ignores SIGTERM). It and a
worker it starts hold a shared lock on ``--holds``, so a test sees when both are gone. It prints
the names of its environment, and writes one JSON line a request to ``<holds>.requests``: path,
status, model, digest of the adapter's weights as they were loaded, and the tokens of the prompt.

What it refuses is in ``stand_in_arguments``, ``stand_in_cards`` and ``stand_in_models``. Adapters
are loaded at work only with ``VLLM_ALLOW_RUNTIME_LORA_UPDATING``.
"""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stand_in_arguments import parsed
from stand_in_cards import context_of, memory_taken
from stand_in_models import Json, Refused, Served, not_found

ASKED = parsed(sys.argv[1:])
SERVED = Served(ASKED, context_of(ASKED))
QUESTIONS = itertools.count(1)
WRITING = threading.Lock()


LOADING = os.environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "0").strip().lower() in {"1", "true"}


def actions() -> dict[str, Callable[[Json], Json | str]]:
    """What may be posted, by path; a pooling server does not generate, and the reverse."""
    made: dict[str, Callable[[Json], Json | str]] = (
        {"/v1/embeddings": SERVED.embeddings}
        if ASKED.runner == "pooling"
        else {"/v1/chat/completions": SERVED.chat}
    )
    if LOADING:
        made["/v1/load_lora_adapter"] = SERVED.load
    return made


class Answer(BaseHTTPRequestHandler):
    """Health, the list of models, chat or embeddings, and adapters."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """200 when well; the served names."""
        if self.path == "/health":
            self._send(503 if ASKED.stand_in == "sick" else 200, b"")
            return
        if self.path == "/version":  # without a key, as vLLM
            self._send(200, json.dumps({"version": ASKED.version}).encode())
            return
        if self._locked():
            self._send(401, b'{"error": "Unauthorized"}')
            return
        other = {"data": [{"id": "another", "owned_by": "vllm"}]}
        models = other if ASKED.stand_in == "other" else SERVED.models()
        self._send(200, json.dumps(models).encode())

    def do_POST(self) -> None:
        """Answer or refuse; a mortal server dies at the second question."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._locked():
            self._send(401, b'{"error": "Unauthorized"}')
            return
        if next(QUESTIONS) > 1 and ASKED.stand_in == "mortal":
            sys.stdout.write("an illegal memory access, says the stand-in at work\n")
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGTERM)
            return
        if ASKED.stand_in == "silent":
            time.sleep(600)
        status, reply = self._replied(body)
        note(self.path, status, body, reply)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        self._send(status, text.encode())

    def _replied(self, body: Json) -> tuple[int, Json | str]:
        action = actions().get(self.path)
        try:
            if action is None:
                raise not_found()
            return 200, action(body)
        except Refused as refused:
            return refused.code, refused.body

    def _locked(self) -> bool:
        keys = [f"Bearer {key}" for key in ASKED.api_key or []]
        wanted = bool(keys) and self.headers.get("Authorization") not in keys
        return ASKED.stand_in == "locked" or wanted

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def note(path: str, status: int, body: Json, reply: Json | str) -> None:
    """Write what was asked to the file of requests."""
    name = body.get("model") or body.get("lora_name")
    adapter = SERVED.adapters.get(str(name))
    usage = reply.get("usage", {}) if isinstance(reply, dict) else {}
    line = {
        "path": path,
        "status": status,
        "model": name,
        "adapter": adapter.digest if adapter else None,
        "prompt_tokens": usage.get("prompt_tokens"),
        "max_tokens": body.get("max_completion_tokens") or body.get("max_tokens"),
    }
    with WRITING, open(f"{ASKED.holds}.requests", "a") as journal:  # noqa: PTH123 - as below
        journal.write(json.dumps(line) + "\n")


def load_named_adapters() -> None:
    """Load what ``--lora-modules`` names; like vLLM, end where one cannot be loaded."""
    for name, folder in ASKED.lora_modules:
        try:
            SERVED.load({"lora_name": name, "lora_path": folder})
        except Refused as refused:
            sys.exit(f"ValueError: {refused}")


if __name__ == "__main__":
    sys.stdout.write(f"stand-in starts with {' '.join(sys.argv[1:])}\n")
    sys.stdout.write(f"environment: {' '.join(sorted(os.environ))}\n")
    sys.stdout.flush()
    if "VLLM_API_KEY" in os.environ:
        sys.stdout.write("like vLLM, the stand-in would now reject requests without a key\n")
        sys.exit(4)
    servers = ASKED.api_server_count or ASKED.data_parallel_size
    if LOADING and servers > 1:
        name = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
        sys.exit(f"ValueError: {name} cannot be used with api_server_count > 1")
    memory = memory_taken(ASKED, SERVED.context)
    load_named_adapters()
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
