"""The key is sent to the endpoint and stands nowhere else, whatever goes wrong."""

import json
import logging
from pathlib import Path

import fault_server as server
import pytest
from chat_parts import MadeUpTime, request, settings
from fault_server import Answer, FaultServer
from pydantic import SecretStr, ValidationError

from decomposerl.chat import ChatFailure, ChatReply
from resources.chat.client import ChatClient

KEY = "sk-Oz4x-very-secret-9911"
ECHO = b'{"error": {"message": "Incorrect API key provided: {authorization}"}}'
FAULTS = {
    "401 that repeats the key": Answer(401, {}, ECHO),
    "500 that repeats the key": Answer(500, {}, ECHO),
    "429 that repeats the key": Answer(429, {}, ECHO),
    "garbage that repeats the key": Answer(body=b"<html>{authorization}</html>"),
    "long garbage with the key": Answer(body=b"x" * 240 + b"{authorization}"),
    "a long complaint": Answer(
        400, {}, b'{"error": {"message": "%b{authorization}"}}' % (b"x" * 255)
    ),
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
    given = settings("http://h/v1", attempts=2, call_deadline_s=1.0)
    with FaultServer(usual=fault) as served:
        chosen = given.model_copy(update={"endpoints": (served.url,)})
        chat = ChatClient(chosen, tmp_path, SecretStr(KEY), MadeUpTime().timing())
        with chat:
            found = chat.complete([request(number) for number in range(3)])
            told = [repr(found), repr(chat), repr(chosen), repr(vars(chat)), str(chat.counts)]
            told += [json.dumps(chat.counts.metadata()), chosen.model_dump_json()]
            told += [repr(vars(part)) for part in vars(chat).values() if hasattr(part, "__dict__")]
            assert chat.cache is not None
            told += [repr(chat.cache.frame().rows())]
            files = [path.read_bytes() for path in tmp_path.iterdir()]
        assert {f"Bearer {KEY}"} == set(served.authorizations)
    files += [path.read_bytes() for path in tmp_path.iterdir()]
    printed = capfd.readouterr()
    assert caplog.records
    assert KEY[:10] not in "\n".join([*told, caplog.text, printed.out, printed.err])
    assert not any(KEY.encode() in content for content in files)


def test_what_repeats_the_key_is_shown_without_it():
    """The user still reads the complaint, and the model's reply, with the key cut out."""
    script = [Answer(400, {}, ECHO), server.replying("you sent {authorization}")]
    with (
        FaultServer(script) as served,
        ChatClient(settings(served.url, concurrency=1), None, SecretStr(KEY)) as chat,
    ):
        complaint, answer = chat.complete([request(1), request(2)])
    assert isinstance(complaint, ChatFailure)
    assert "Incorrect API key provided: Bearer [key]" in complaint.detail
    assert isinstance(answer, ChatReply)
    assert "you sent Bearer [key]" == answer.text


def test_without_a_key_a_placeholder_is_sent():
    """A local server gets no key, above all none from the environment."""
    with FaultServer() as served, ChatClient(settings(served.url), None) as chat:
        chat.complete([request(1)])
        assert ["Bearer none"] == served.authorizations


@pytest.mark.parametrize(
    "url", ["http://user:pw@h/v1", "http://h/v1?key=k", "ftp://h/v1", "h:8000", ""]
)
def test_an_endpoint_is_an_address_alone(url: str):
    """User, password and query are refused: addresses stand in logs and metadata."""
    with pytest.raises(ValidationError, match="endpoint"):
        settings(url)
