"""The key is sent to the endpoint and stands nowhere else, whatever goes wrong."""

import json
import logging
import traceback
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

import fault_server as server
from chat_parts import MadeUpTime, frame_of, request, settings
from decomposerl.chat import ChatFailure, ChatReply
from decomposerl.errors import ConfigError
from fault_server import Answer, FaultServer
from resources.chat.client import ChatClient
from resources.chat.connection import without_key
from resources.embedder.hosted import HostedEmbedder

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
            seen = [repr(found), repr(chat), repr(chosen), repr(vars(chat)), str(chat.counts)]
            seen += [json.dumps(chat.counts.metadata()), chosen.model_dump_json()]
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


@pytest.mark.parametrize("around", [("", "\n"), ("\t", ""), (" ", " \r\n")])
def test_white_space_around_a_key_is_not_sent(around: tuple[str, str]):
    """A key that was read from a file with its line end is the same key, sent and cut out."""
    given = SecretStr(KEY.join(around))
    with (
        FaultServer(usual=Answer(400, {}, ECHO)) as served,
        ChatClient(settings(served.url), None, given) as chat,
    ):
        (found,) = chat.complete([request(1)])
    assert [f"Bearer {KEY}"] == served.authorizations
    assert isinstance(found, ChatFailure)
    assert "Bearer [key]" in found.detail


@pytest.mark.parametrize("broken", ["sk-Oz4x\n-very", "sk-Oz4x\x00", "sk-Oz4x\u2013very", "sk-Ö"])
def test_a_key_that_no_header_can_carry_is_refused(broken: str):
    """The error says so without showing it, and nothing is sent."""
    for make in (
        lambda: ChatClient(settings("http://127.0.0.1:1/v1"), None, SecretStr(broken)),
        lambda: HostedEmbedder("http://127.0.0.1:1/v1", "m", SecretStr(broken)).embed(["a"]),
    ):
        with pytest.raises(ConfigError, match="holds a control character") as caught:
            make()
        assert broken[:5] not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("key", ["sk-'\"Oz4x", "sk-\\Oz4x"])
def test_the_key_is_cut_out_of_a_repr_too(key: str):
    """An error that shows the key as Python writes it does not show it."""
    reported = f"bad {key!r} and {key} and {key.encode()!r}"
    assert "Oz4x" not in without_key(reported, SecretStr(f" {key}\n"))


@pytest.mark.parametrize(
    "url", ["http://user:pw@h/v1", "http://h/v1?key=k", "ftp://h/v1", "h:8000", ""]
)
def test_an_endpoint_is_an_address_alone(url: str):
    """User, password and query are refused: addresses stand in logs and metadata."""
    with pytest.raises(ValidationError, match="endpoint"):
        settings(url)
