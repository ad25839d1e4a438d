"""A tiny model served over HTTP and the same model in process: one set of numbers."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from pydantic import SecretStr

from decomposerl.prompts.minicheck import MiniCheckForm, minicheck_request
from decomposerl.prompts.template import parse_prompt
from resources.chat.client import ChatClient
from resources.chat.settings import ChatSettings
from resources.embedder.hosted import HostedEmbedder
from resources.verifier.minicheck_hosted import HostedMiniCheck
from tiny_models import tiny_chat
from tiny_server import TinyModel, TinyServer

CLOSE = 1e-4
PROMPT = parse_prompt(
    "minicheck",
    "<!-- section: system -->\nYes or No?\n"
    "<!-- section: user -->\nDocument: {document}\nClaim: {claim}\n",
)


def given() -> MiniCheckForm:
    """The form of these tests."""
    return MiniCheckForm("file", PROMPT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat(tmp_path_factory.mktemp("chat") / "tiny-chat")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TinyServer]:
    with TinyServer(folder) as running:
        yield running


@pytest.fixture(scope="module")
def in_process(folder: Path) -> TinyModel:
    return TinyModel(folder)


def client(server: TinyServer, data: Path | None = None) -> ChatClient:
    chosen = ChatSettings(model=server.name, endpoints=(server.url,), concurrency=8)
    return ChatClient(chosen, data, SecretStr("no key"))


def some_pairs(count: int) -> list[tuple[str, str]]:
    rng = random.Random(11)
    words = "ice melts in warm rain and snow falls on Paris".split()
    return [
        (" ".join(rng.choices(words, k=8)), " ".join(rng.choices(words, k=4))) for _ in range(count)
    ]


def masses(model: TinyModel, document: str, claim: str) -> tuple[float, float]:
    """Yes and no among the five likeliest first tokens, from the model's own numbers."""
    messages = minicheck_request(PROMPT, document, claim).messages
    ids = model.prompt_ids([{"role": turn.role, "content": turn.content} for turn in messages])
    with torch.no_grad():
        chances = model.model(input_ids=torch.tensor([ids])).logits[0, -1].softmax(dim=-1)
    likeliest = chances.topk(5)
    found = {"yes": 0.0, "no": 0.0}
    for number, chance in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
        text = model.tokenizer.decode([number]).lstrip(" ").lower()
        if text in found:
            found[text] += chance
    return found["yes"], found["no"]


def test_scores_over_http_are_the_models_own(server: TinyServer, in_process: TinyModel):
    """Raw and normalised agree to 1e-4; where neither word is likely there is no score."""
    pairs = some_pairs(16)
    expected = np.array([masses(in_process, *pair) for pair in pairs])
    assert np.ptp(expected[:, 0]) > 0.1, "a model that answers everything alike proves nothing"
    assert (expected.min(axis=1) > 0).any()
    both = expected.sum(axis=1)
    assert (both == 0).any(), "a model that always says yes or no proves nothing about the rest"
    expected[both == 0] = both[both == 0] = np.nan
    with client(server) as chat:
        forms = HostedMiniCheck(chat, form=given).support_scores(pairs)
    close = {"rtol": 0, "atol": CLOSE, "equal_nan": True}
    assert np.allclose(expected[:, 0], forms.raw, **close)
    assert np.allclose(expected[:, 0] / both, forms.normalised, **close)


def test_a_second_run_sends_nothing(server: TinyServer, tmp_path: Path):
    """A pair is a hit where all its questions are stored; scores are the same."""
    pairs = [*some_pairs(3), (" ".join(f"Ice {n} melts." for n in range(9)), "Ice melts.")]
    first: list[float] = []
    sent = len(server.asked)
    for calls in (4, 0):
        with client(server, tmp_path) as chat:
            verifier = HostedMiniCheck(chat, form=given, budget=50, batch_size=3)
            scores = verifier.support_probability([*pairs, pairs[0]]).tolist()
        first = first or scores
        assert first == scores
        assert (calls, 5 - calls) == (verifier.calls, verifier.hits)
        questions = verifier.details()["chat asked"]
        assert questions > 4
        assert len(server.asked) - sent == questions


def test_one_chunk_that_is_missing_is_asked_alone(server: TinyServer, tmp_path: Path):
    """Of a pair that is stored in part the rest is asked; another score asks nothing."""
    evidence, parts = "Ice melts in rain. Snow falls on Paris.", 2
    with client(server, tmp_path) as chat:
        HostedMiniCheck(chat, form=given, budget=25).support_probability(
            [("Ice melts in rain.", "c")]
        )
        sent = len(server.asked)
        whole = HostedMiniCheck(chat, form=given, budget=25)
        whole.support_probability([(evidence, "c")])
        assert parts - 1 == len(server.asked) - sent
        assert (1, 0) == (whole.calls, whole.hits)
        other = HostedMiniCheck(chat, form=given, budget=25, score="normalised")
        other.support_probability([(evidence, "c")])
        assert (0, 1) == (other.calls, other.hits)
        assert parts - 1 == len(server.asked) - sent


def test_embeddings_over_http_are_the_models_own(server: TinyServer, in_process: TinyModel):
    """Unit vectors, in the order asked, equal to the mean of the hidden states."""
    texts = ["ice melts", "", "snow falls on Paris"]
    vectors = HostedEmbedder(lambda: server.url, server.name, SecretStr("no key")).embed(texts)
    with torch.no_grad():
        expected = np.array([in_process.embedding(text)[0] for text in texts])
    assert np.allclose(expected, vectors, rtol=0, atol=CLOSE)
    assert np.allclose(1.0, np.linalg.norm(vectors, axis=1), rtol=0, atol=1e-5)


def test_the_servers_greedy_text_is_transformers_own(server: TinyServer, in_process: TinyModel):
    """``generate`` writes the same tokens; a stop string ends the text before it."""
    messages = [{"role": "user", "content": "Ice melts."}]
    body = {"model": server.name, "messages": messages, "max_tokens": 12, "seed": 1}
    whole = post(server, "chat/completions", body | {"logprobs": True, "top_logprobs": 2})
    ids = torch.tensor([in_process.prompt_ids(messages)])
    made = in_process.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
    )
    new = made[0, ids.shape[1] :].tolist()
    choice = whole["choices"][0]
    assert (
        in_process.tokenizer.decode(new, skip_special_tokens=True) == choice["message"]["content"]
    )
    usage = whole["usage"]
    assert (ids.shape[1], len(new)) == (usage["prompt_tokens"], usage["completion_tokens"])
    for token in choice["logprobs"]["content"]:
        assert 2 == len(token["top_logprobs"])
        assert token["logprob"] == token["top_logprobs"][0]["logprob"] <= 0
    text = choice["message"]["content"]
    cut = post(server, "chat/completions", body | {"stop": [text[2]]})["choices"][0]
    assert ("stop", text[: text.index(text[2])]) == (
        cut["finish_reason"],
        cut["message"]["content"],
    )
    assert cut["logprobs"] is None


def test_the_server_lists_its_model_and_refuses_others(server: TinyServer):
    """``/models`` names it; another name is a 404, as on vLLM."""
    listed = httpx.get(f"{server.url}/models", timeout=30).json()
    assert [server.name] == [model["id"] for model in listed["data"]]
    refused = httpx.post(f"{server.url}/embeddings", json={"model": "another", "input": "x"})
    assert 404 == refused.status_code
    assert "another" in refused.json()["error"]["message"]


def post(server: TinyServer, path: str, body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = httpx.post(f"{server.url}/{path}", json=body, timeout=60).json()
    return found
