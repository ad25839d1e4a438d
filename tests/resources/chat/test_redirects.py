"""No redirect is followed: prompts, evidence and keys reach the host that was named, no other."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from chat_parts import request, settings
from decomposerl.chat import ChatFailure
from decomposerl.errors import EngineError
from fault_server import MODEL, Answer, FaultServer, redirect
from resources.chat.client import ChatClient
from resources.chat.connection import moved
from resources.decomposer.chat_engine import ChatDecomposer
from resources.embedder.hosted import HostedEmbedder
from resources.preflight import servers as readiness
from resources.store.prompts import load_prompt
from resources.vllm.process import server_problem

KEY = "sk-stays-at-home"
REDIRECTS = [301, 302, 303, 307, 308]


def chat(url: str) -> str:
    with ChatClient(settings(url), None, SecretStr(KEY)) as client:
        (found,) = client.complete([request(1)])
    assert isinstance(found, ChatFailure)
    assert ("refused", True, 1) == (found.reason, found.lasting, found.attempts)
    return found.detail


def embedding(url: str) -> str:
    with pytest.raises(EngineError) as caught:
        HostedEmbedder(url, MODEL, SecretStr(KEY)).embed(["a"])
    return str(caught.value)


def doctor(url: str) -> str:
    finding = readiness.endpoint(url, MODEL, SecretStr(KEY), "start one")
    assert "missing" == finding.state
    return finding.said


def health(url: str) -> str:
    with pytest.raises(EngineError) as caught:
        server_problem(url.removesuffix("/v1"), MODEL, KEY, refusal="")
    return str(caught.value)


WAYS = [chat, embedding, doctor, health]


@pytest.mark.parametrize("status", REDIRECTS)
@pytest.mark.parametrize("ask", WAYS)
def test_a_redirect_to_another_host_is_refused(ask: Callable[[str], str], status: int):
    """Asked once; the message names the other host and says what to do; nothing reaches it."""
    with FaultServer() as other:
        elsewhere = other.url.removesuffix("/v1")
        with FaultServer(usual=redirect(status, f"{elsewhere}/v1/chat/completions")) as named:
            said = ask(named.url)
            assert 1 == len(named.asked)
        assert [] == other.heads
    assert f"HTTP {status}" in said
    assert f"redirects to {elsewhere}, " in said
    assert "set the endpoint to it" in said


@pytest.mark.parametrize("status", REDIRECTS)
@pytest.mark.parametrize("location", ["/other", "", "//127.0.0.1:9/v1"])
@pytest.mark.parametrize("ask", WAYS)
def test_a_redirect_on_the_same_host_is_refused_too(
    ask: Callable[[str], str], location: str, status: int
):
    """Relative addresses and such without a scheme: one request, and a sentence."""
    with FaultServer(usual=redirect(status, location)) as named:
        assert "127.0.0.1" in ask(named.url) or not location
        assert len(named.asked) <= 3


@pytest.mark.parametrize(
    "location",
    [
        "http://[bad",
        "http://h:99999999/",
        "ftp://h/",
        "javascript:x",
        "http://\u202ehost/",
        "x" * 9_000,
    ],
)
def test_a_location_that_is_no_address_is_an_error_all_the_same(location: str):
    """Nothing is sent again, whatever stands there; no message grows without end."""
    answer = redirect(302, location.encode().decode("latin-1"))
    for ask in WAYS[1:]:
        with FaultServer(usual=answer) as named:
            assert len(ask(named.url)) < 600


def test_a_stage_stops_at_a_redirect(tmp_path: Path):
    """Every claim would be redirected: the run ends with the sentence, after a few requests."""
    pairs = [("Evidence.", f"Claim {number}.") for number in range(200)]
    with FaultServer(usual=redirect(307, "https://elsewhere.example/v1")) as named:
        with ChatClient(settings(named.url, concurrency=4), tmp_path) as client:
            writer = ChatDecomposer(client, load_prompt("silver"), request(1).sampling)
            with pytest.raises(EngineError, match=r"redirects to https://elsewhere\.example, "):
                writer.decompose(pairs)
        assert len(named.asked) < 40


def test_a_redirect_that_asks_to_be_retried_is_not():
    """The package heeds this header of a provider; a redirect is final all the same."""
    answer = Answer(307, {"Location": "http://h/", "x-should-retry": "true"}, b"")
    with FaultServer(usual=answer) as named:
        embedding(named.url)
        assert 1 == len(named.asked)


def test_the_sentence_names_no_more_than_the_host():
    """A path may hold what was asked, a user part a key."""
    said = moved("http://a:1/v1", "https://user:pw@b:2/v1?q=secret#x")
    assert "a:1 redirects to https://b:2, " in said
    assert "secret" not in said
    assert "pw" not in said
