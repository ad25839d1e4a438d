"""Calls to this machine go to this machine, whatever proxy it has for others."""

import json
import os
import subprocess
import sys

import pytest

from fault_server import MODEL, Answer, FaultServer
from project import PYTHONPATH, ROOT
from resources.chat.connection import is_loopback

KEY = "sk-not-for-a-proxy"
VECTOR = {"object": "list", "model": MODEL, "data": [{"index": 0, "embedding": [1.0, 0.0]}]}
CHAT = f"""
from chat_parts import request, settings
from pydantic import SecretStr
from resources.chat.client import ChatClient
with ChatClient(settings({{url!r}}, attempts=1), None, SecretStr({KEY!r})) as chat:
    print(chat.complete([request(1)])[0].text)
"""
EMBEDDING = f"""
from pydantic import SecretStr
from resources.embedder.hosted import HostedEmbedder
print(HostedEmbedder({{url!r}}, {MODEL!r}, SecretStr({KEY!r}), retries=0).embed(["a"]).shape)
"""


def child(code: str, **variables: str) -> None:
    """Run the code in a process of its own, with these variables of the environment."""
    paths = PYTHONPATH
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=ROOT,
        env=clean | {"PYTHONPATH": paths} | variables,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("code", [CHAT, EMBEDDING], ids=["chat", "embeddings"])
def test_a_proxy_sees_neither_a_local_call_nor_its_key(code: str, host: str):
    """With a proxy for everything, an endpoint on loopback is still asked directly."""
    usual = Answer(body=json.dumps(VECTOR).encode()) if code is EMBEDDING else Answer()
    with FaultServer(usual=usual) as endpoint, FaultServer() as proxy:
        address = proxy.url.removesuffix("/v1")
        reported = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), address)
        child(code.format(url=endpoint.url.replace("127.0.0.1", host)), **reported)
        assert [f"Bearer {KEY}"] == endpoint.authorizations
        assert [] == proxy.authorizations


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://LOCALHOST/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://10.0.0.1/v1", False),
        ("http://localhost.example.org/v1", False),
        ("http://[fe80::1]/v1", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, *, expected: bool):
    """All of 127.0.0.0/8, ::1 and localhost; no other machine, however it is called."""
    assert expected == is_loopback(url)
