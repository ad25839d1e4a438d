"""The server that samples rollouts is started as TRL's client needs it, and asked beforehand."""

import json
import re
import shlex
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Self

import pytest
from trl.scripts.vllm_serve import ScriptArguments, build_command

from decomposerl.training.experiments import experiment
from decomposerl.training.layout import LAYOUTS
from documents import joined
from project import ROOT
from resources.preflight.servers import sampler

MODEL, TOKENS, FIX = "a/policy", 16_000, "start it"


@dataclass
class Sampler:
    """``with Sampler() as server``: a vLLM server's health, version, models and world size."""

    status: int = 200
    version: str = "0.31.0+cpu"
    models: tuple[dict[str, object], ...] = ({"id": MODEL, "max_model_len": TOKENS},)
    develops: bool = True

    def __enter__(self) -> Self:
        """Start it."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, path: str) -> tuple[int, object]:
        """Status and JSON, as vLLM 0.31 has them."""
        known: dict[str, tuple[int, object]] = {
            "/health": (self.status, None),
            "/version": (200, {"version": self.version}),
            "/v1/models": (200, {"object": "list", "data": self.models}),
        }
        if self.develops:
            known["/get_world_size"] = (200, {"world_size": 1})
        return known.get(path, (404, {"detail": "Not Found"}))


class _Handler(BaseHTTPRequestHandler):
    owner: Sampler

    def do_GET(self) -> None:
        """Answer."""
        status, answer = self.owner.answer(self.path)
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_server_that_can_sample_is_found_ready():
    """By its model's name, or by the folder that it was started with."""
    named = ({"id": "policy", "root": MODEL, "max_model_len": TOKENS},)
    for server in (Sampler(), Sampler(models=named)):
        with server:
            assert "ok" == sampler(server.url, MODEL, TOKENS, FIX).state


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Sampler(status=503), "status 503"),
        (Sampler(version="0.21.0"), "0.21.0 is refused"),
        (Sampler(models=({"id": "another"}, {"id": MODEL})), "serves another"),
        (Sampler(models=({"id": MODEL, "max_model_len": 4_096},)), "reads 4,096 tokens"),
        (Sampler(models=()), "not answer as vLLM"),
        (Sampler(develops=False), "VLLM_SERVER_DEV_MODE=1"),
    ],
)
def test_a_server_that_cannot_sample_is_named_with_the_reason(server: Sampler, said: str):
    """Health, version, model, context, and the endpoints through which TRL sends the weights."""
    with server:
        found = sampler(server.url, MODEL, TOKENS, FIX)
    assert ("missing", FIX) == (found.state, found.fix)
    assert said in found.said
    gone = sampler(server.url, MODEL, TOKENS, FIX)
    assert "does not answer" in gone.said


def options(words: list[str]) -> dict[str, str]:
    """The options of a command line, each with its value."""
    return {name: value for name, value in pairwise(words) if name.startswith("--")}


def test_the_page_starts_the_server_that_trl_asks_for():
    """TRL's own command line, with the recipe's model, context and seed, and the layout's share."""
    page = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    (line,) = [one for one in page.splitlines() if "--weight-transfer-config" in one]
    words = shlex.split(line)
    serve = words.index("serve")
    recipe = experiment("paper_7b")
    sampling = recipe.sampling
    script = ScriptArguments(
        model=words[serve + 1],
        host="127.0.0.1",
        port=8003,
        dtype=recipe.lora.dtype,
        max_model_len=sampling.max_prompt_tokens + sampling.max_completion_tokens,
        gpu_memory_utilization=LAYOUTS[-1].servers[-1].share,
    )
    asked = options(build_command(script, ["--seed", str(recipe.seed)]))
    shown = options(words)
    assert shown == {name: asked[name] for name in shown}
    bare = options(build_command(ScriptArguments(model=words[serve + 1])))
    defaults = set(bare) - {"--weight-transfer-config", "--logprobs-mode", "--max-logprobs"}
    assert set(asked) - set(shown) <= defaults
    assert recipe.model == words[serve + 1]
    assert "VLLM_SERVER_DEV_MODE=1" in words[:serve]


def test_no_page_has_a_deprecated_command():
    """``trl vllm-serve``, which TRL removes in its next major version, is no command to copy."""
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))]
    lines = [line for page in pages for line in page.splitlines()]
    assert [] == [line for line in lines if re.match(r"(\w+=\S+ )*trl vllm-serve", line)]
