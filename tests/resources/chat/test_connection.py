"""Prompts and keys reach the host that was named, directly where it is here, and no other place."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import SecretStr

import fault_server as server
from chat_parts import frame_of, request
from chat_served import client, reasons, served_chat, texts
from decomposerl.chat import ChatFailure
from decomposerl.errors import ConfigError, EngineError
from fault_server import MODEL, Answer, FaultServer, redirect
from project import PYTHONPATH, ROOT
from resources.chat.connection import LoopThread, is_loopback, moved, without_key
from resources.decomposer.chat_engine import ChatDecomposer
from resources.embedder.hosted import HostedEmbedder
from resources.preflight import servers as readiness
from resources.store.prompts import load_prompt

KEY = "sk-Oz4x-very-secret-9911"


# The key is sent to the endpoint and stands nowhere else, whatever goes wrong


ECHO = b'{"error": {"message": "Incorrect API key provided: {authorization}"}}'
LONG = b'{"error": {"message": "%b{authorization}"}}' % (b"x" * 255)
FAULTS = {
    "401 that repeats the key": Answer(401, {}, ECHO),
    "500 that repeats the key": Answer(500, {}, ECHO),
    "429 that repeats the key": Answer(429, {}, ECHO),
    "garbage that repeats the key": Answer(body=b"<html>{authorization}</html>"),
    "long garbage with the key": Answer(body=b"x" * 240 + b"{authorization}"),
    "a long complaint": Answer(400, {}, LONG),
    "a reply that repeats the key": server.replying("you sent {authorization}"),
    "a truncated reply that repeats it": server.replying("you sent {authorization}", "length"),
    "another model named after the key": Answer(change={"model": "{authorization}"}),
    "hang": server.HANGING,
    "cut": server.CUT,
    "nothing": server.WELL,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_key_stands_nowhere(
    fault: Answer, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture
):
    """Not in outcomes, logs at any level, output, counters, reprs, or any file of the cache."""
    caplog.set_level(logging.DEBUG)
    with FaultServer(usual=fault) as served:
        chat = client(served.url, tmp_path, key=KEY, retries=1, deadline_s=0.9)
        with chat:
            found = chat.complete([request(number) for number in range(3)])
            seen = [repr(found), repr(chat), repr(vars(chat)), str(chat.counts)]
            seen += [json.dumps(chat.details())]
            seen += [repr(vars(part)) for part in vars(chat).values() if hasattr(part, "__dict__")]
            assert chat.store is not None
            seen += [repr(frame_of(chat.store).rows())]
            files = [path.read_bytes() for path in tmp_path.iterdir()]
        assert {f"Bearer {KEY}"} == set(served.authorizations)
    files += [path.read_bytes() for path in tmp_path.iterdir()]
    printed = capfd.readouterr()
    assert caplog.records
    assert KEY[:10] not in "\n".join([*seen, caplog.text, printed.out, printed.err])
    assert not any(KEY.encode() in content for content in files)


@pytest.mark.parametrize("around", [("", ""), ("", "\n"), ("\t", ""), (" ", " \r\n")])
def test_what_repeats_the_key_is_shown_without_it(around: tuple[str, str]):
    """Complaint and reply stay, with the key cut out; white space around a key is no part of it."""
    script = [Answer(400, {}, ECHO), server.replying("you sent {authorization}")]
    with served_chat(script, concurrency=1, key=KEY.join(around)) as (served, chat):
        complaint, answer = chat.complete([request(1), request(2)])
    assert [f"Bearer {KEY}"] * 2 == served.authorizations
    assert isinstance(complaint, ChatFailure)
    assert "Incorrect API key provided: Bearer [key]" in complaint.detail
    assert ["you sent Bearer [key]"] == texts([answer])
    assert [None] == reasons([answer])


@pytest.mark.parametrize("broken", ["sk-Oz4x\n-very", "sk-Oz4x\x00", "sk-Oz4x\u2013very", "sk-Ö"])
def test_a_key_that_no_header_can_carry_is_refused(broken: str):
    """The error says so without showing it, and nothing is sent."""
    for make in (
        lambda: client("http://127.0.0.1:1/v1", key=broken).complete([request(1)]),
        lambda: HostedEmbedder("http://127.0.0.1:1/v1", "m", SecretStr(broken)).embed(["a"]),
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert broken[:5] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("key", ["sk-'\"Oz4x", "sk-\\Oz4x"])
def test_the_key_is_cut_out_of_a_repr_too(key: str):
    """An error that shows the key as Python writes it does not show it."""
    reported = f"bad {key!r} and {key} and {key.encode()!r}"
    assert "Oz4x" not in without_key(reported, SecretStr(f" {key}\n"))


# No redirect is followed


REDIRECTS = [301, 302, 303, 307, 308]


def chat(url: str) -> str:
    with client(url, key=KEY) as chatting:
        (found,) = chatting.complete([request(1)])
    assert isinstance(found, ChatFailure)
    assert ("refused", True) == (found.reason, found.lasting)
    return found.detail


def embedding(url: str) -> str:
    with pytest.raises(EngineError) as caught:
        HostedEmbedder(url, MODEL, SecretStr(KEY)).embed(["a"])
    return str(caught.value)


def doctor(url: str) -> str:
    finding = readiness.endpoint(url, MODEL, SecretStr(KEY), "start one")
    assert "missing" == finding.state
    return finding.said


WAYS = [chat, embedding, doctor]


@pytest.mark.parametrize("ask", WAYS)
def test_a_redirect_is_refused(ask: Callable[[str], str]):
    """Asked once; another host is named and not reached, and one on the same host refused too."""
    with FaultServer() as other:
        elsewhere = other.url.removesuffix("/v1")
        away = [redirect(status, f"{elsewhere}/v1/chat/completions") for status in REDIRECTS]
        with FaultServer(away) as named:
            for number, status in enumerate(REDIRECTS, start=1):
                said = ask(named.url)
                assert number == len(named.asked)
                assert f"HTTP {status}" in said
                assert f"{elsewhere}, " in said
                assert "set the endpoint" in said
        assert [] == other.heads
    for status, location in zip(REDIRECTS, ["/other", "", "//127.0.0.1:9/v1"], strict=False):
        with FaultServer(usual=redirect(status, location)) as named:
            assert "127.0.0.1" in ask(named.url) or not location
            assert len(named.asked) <= 3


NO_ADDRESSES = ["http://[bad", "http://h:99999999/", "ftp://h/", "javascript:x", "x" * 9_000]


@pytest.mark.parametrize("ask", WAYS[1:])
def test_a_location_that_is_no_address_is_an_error_all_the_same(ask: Callable[[str], str]):
    """Nothing is sent again, whatever stands there; no message grows without end."""
    for location in (*NO_ADDRESSES, "http://\u202ehost/"):
        answer = redirect(302, location.encode().decode("latin-1"))
        with FaultServer(usual=answer) as named:
            assert len(ask(named.url)) < 600, location


def test_a_stage_stops_at_a_redirect(tmp_path: Path):
    """Every claim would be redirected: the run ends with the sentence, after a few requests."""
    pairs = [("Evidence.", f"Claim {number}.") for number in range(100)]
    with FaultServer(usual=redirect(307, "https://elsewhere.example/v1")) as named:
        with client(named.url, tmp_path, concurrency=4) as chatting:
            writer = ChatDecomposer(chatting, load_prompt("silver"), request(1).sampling)
            with pytest.raises(EngineError, match=r"https://elsewhere\.example, "):
                writer.decompose(pairs)
        assert len(named.asked) < 40


def test_the_sentence_names_no_more_than_the_host():
    """A path may hold what was asked, a user part a key."""
    said = moved("http://a:1/v1", "https://user:pw@b:2/v1?q=secret#x")
    assert "a:1 redirects to https://b:2, " in said
    assert "secret" not in said
    assert "pw" not in said


# Calls to this machine go to this machine, whatever proxy it has for others


VECTOR = {"object": "list", "model": MODEL, "data": [{"index": 0, "embedding": [1.0, 0.0]}]}
BOTH = """
import sys
from chat_parts import request
from chat_served import client
from pydantic import SecretStr
from resources.embedder.hosted import HostedEmbedder
chats, vectors, model, key = sys.argv[1:]
for host in ("127.0.0.1", "localhost"):
    url = chats.replace("127.0.0.1", host)
    with client(url, key=key, retries=0) as chat:
        chat.complete([request(1)])
    url = vectors.replace("127.0.0.1", host)
    HostedEmbedder(url, model, SecretStr(key), retries=0).embed(["a"])
"""


def test_a_proxy_sees_neither_a_local_call_nor_its_key():
    """With a proxy for everything, an endpoint on loopback is still asked directly."""
    vectors = Answer(body=json.dumps(VECTOR).encode())
    with FaultServer() as chats, FaultServer(usual=vectors) as embeddings, FaultServer() as proxy:
        clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        names = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
        env = clean | dict.fromkeys(names, proxy.url.removesuffix("/v1"))
        words = [sys.executable, "-c", BOTH, chats.url, embeddings.url, MODEL, KEY]
        subprocess.run(words, check=True, cwd=ROOT, env=env | {"PYTHONPATH": PYTHONPATH})
        assert [f"Bearer {KEY}"] * 2 == chats.authorizations == embeddings.authorizations
        assert [] == proxy.authorizations


def test_which_addresses_are_this_machine():
    """All of 127.0.0.0/8, ::1 and localhost; no other machine, however it is called."""
    here = ["127.0.0.1:8000", "127.9.9.9", "[::1]:8000", "LOCALHOST", "a.localhost"]
    assert here == [host for host in here if is_loopback(f"http://{host}/v1")]
    others = ["api.openai.com", "10.0.0.1", "localhost.example.org", "[fe80::1]"]
    assert [] == [host for host in others if is_loopback(f"https://{host}/v1")]


def test_nobody_waits_for_a_loop_that_was_closed():
    """Threads that use it at that moment get an error, whatever they had begun."""

    def use(loop: LoopThread, begun: threading.Barrier) -> None:
        begun.wait()
        with suppress(RuntimeError, FutureCancelled):
            while True:
                loop.run(asyncio.sleep(0.0005))

    for _ in range(30):
        parts = LoopThread("test"), threading.Barrier(17)
        threads = [threading.Thread(target=use, args=parts, daemon=True) for _ in range(16)]
        for thread in threads:
            thread.start()
        parts[1].wait()
        parts[0].close()
        until = time.monotonic() + 10
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))
        assert not any(thread.is_alive() for thread in threads)
