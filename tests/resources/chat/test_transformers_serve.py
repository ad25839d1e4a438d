"""A real peer: ``transformers serve`` over a tiny model, asked by the chat client."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import polars as pl
import pytest
from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Message, Sampling, Template
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineError
from decomposerl.funnel.step import conservation_errors
from decomposerl.schemas import DECONTAMINATED
from resources.chat.client import ChatClient
from resources.store.integrity import file_sha256
from resources.verifier.hosted import HostedVerifier
from stage_child import run_stage, write_claims
from tiny_models import tiny_chat, tiny_writer
from tiny_server import TinyModel

PROGRAM = Path(sys.executable).with_name("transformers")
MISSING = [name for name in ("fastapi", "uvicorn", "accelerate") if find_spec(name) is None]
START_S = 300.0
pytestmark = pytest.mark.skipif(
    bool(MISSING) or not PROGRAM.exists(),
    reason=f"'transformers serve' lacks {MISSING or PROGRAM}: pip install 'transformers[serving]'",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat(tmp_path_factory.mktemp("serve") / "tiny-chat")


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """``transformers serve`` over whatever model a request names, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cache = folder.parent / "hub"  # /v1/models answers 500 where the cache folder is missing
    cache.mkdir()
    names = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    words = [PROGRAM, "serve", "--device", "cpu", "--host", "127.0.0.1", "--port", port]
    log = folder.parent / "serve.log"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [str(word) for word in words], env=os.environ | names, stdout=stream, stderr=stream
        )
    try:
        wait_for_health(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def wait_for_health(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when the server answers; its log is the error where it does not."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            if httpx.get(f"{address}/health", timeout=5).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(f"the server did not start:\n{log.read_text('utf-8', 'replace')[-2_000:]}")


def client(url: str, folder: Path, data: Path | None = None) -> ChatClient:
    chosen = Endpoint(model=str(folder), base_url=(url,), concurrency=4)
    return ChatClient(chosen, data, lambda: (chosen.base_url, SecretStr("no key")))


def request(number: int, max_tokens: int = 24) -> ChatRequest:
    messages = (Message("system", "Yes or No?"), Message("user", f"Claim {number}"))
    return ChatRequest(messages, Sampling(max_tokens=max_tokens), Template("plain", "0"))


def test_replies_are_the_models_greedy_text(url: str, folder: Path, tmp_path: Path):
    """Text, prompt length and typed truncation agree with the model in process; then cached."""
    model, asked = TinyModel(folder), [request(number) for number in range(6)]
    with client(url, folder, tmp_path) as chat:
        outcomes = chat.complete(asked)
    with client(url, folder, tmp_path) as chat:
        again = chat.complete(asked)
    whole = [isinstance(outcome, ChatReply) for outcome in outcomes]
    assert {True, False} == set(whole), "both ways to end must occur"
    assert whole == [isinstance(outcome, ChatReply) and outcome.cached for outcome in again]
    for one, outcome in zip(asked, outcomes, strict=True):
        ids = model.prompt_ids([{"role": m.role, "content": m.content} for m in one.messages])
        text, finish, _ = model.greedy(ids, one.sampling.max_tokens, ())
        assert text == outcome.text
        if isinstance(outcome, ChatFailure):
            assert ("length", "truncated") == (finish, outcome.reason)
        else:
            assert ("stop", len(ids)) == (finish, outcome.prompt_tokens)


def test_minicheck_refuses_a_peer_without_log_probabilities(url: str, folder: Path):
    """It takes ``logprobs`` and gives none: an error, never a score of 0."""
    with client(url, folder) as chat, pytest.raises(EngineError, match="no log probabilities"):
        HostedVerifier(chat).support_probability([("Ice melts.", "Ice melts.")])


def test_the_silver_stage_runs_over_the_peer(url: str, tmp_path: Path):
    """Each claim is asked once and kept by what the model wrote; a second run makes no call."""
    folder, data = tiny_writer(tmp_path / "tiny-writer"), tmp_path / "data"
    before = write_claims(data, DECONTAMINATED, 24)
    run_stage("silver_decomposed", data, url, str(folder))
    stages = ("silver_decomposed", "drops/silver_decomposed")
    kept, drops = (pl.read_parquet(data / f"{name}.parquet") for name in stages)
    hashes = [file_sha256(data / f"{name}.parquet") for name in stages]
    again = run_stage("silver_decomposed", data, "http://127.0.0.1:9/v1", str(folder))
    facts = again.asset_materializations_for_node("silver_decomposed")[0].metadata
    assert [] == conservation_errors(before, kept, drops)
    assert {"too_few_questions"} == set(drops["reason"])
    rows = kept[["questions", "n_star"]].rows()
    assert {("Does snow fall?", 2)} == {(questions[1], count) for questions, count in rows}
    assert (0, 24) == tuple(facts[name].value for name in ("engine calls", "engine results reused"))
    assert hashes == [file_sha256(data / f"{name}.parquet") for name in stages]
