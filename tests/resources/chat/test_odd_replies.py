"""Odd replies of an endpoint: bodies, headers and times that are unusual, and no harm."""

import json
from pathlib import Path

import pytest

from chat_parts import MadeUpTime, request, settings, silver_questions
from decomposerl.chat import ChatFailure, ChatReply
from fault_server import MODEL, Answer, FaultServer, well_text
from resources.chat.client import ChatClient

GOOD = '{"questions": ["Is it so?", "Who?"]}'
CHOICE = {"message": {"content": GOOD}, "finish_reason": "stop"}
WHOLE = json.dumps({"model": MODEL, "choices": [CHOICE], "usage": {"prompt_tokens": 9}})


def client(url: str, data: Path | None = None, **changes: object) -> ChatClient:
    return ChatClient(settings(url, **changes), data, timing=MadeUpTime().timing())


ODD_BODIES = {
    "byte order mark": "\ufeff" + WHOLE,
    "content twice": WHOLE.replace('"content": ', '"content": "old", "content": ', 1),
    "usage twice": WHOLE[:-1] + ', "usage": {"prompt_tokens": -1}}',
    "no number": WHOLE[:-1] + ', "created": NaN}',
    "space around": f"\r\n {WHOLE}\n\n",
}


@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES)
def test_odd_bodies_that_are_a_reply_are_read_once(body: str, tmp_path: Path):
    """A byte order mark is passed over; of a key that stands twice, the last counts."""
    with FaultServer(usual=Answer(body=body.encode())) as served:
        for _ in range(2):
            with client(served.url, tmp_path) as chat:
                assert [GOOD] == [one.text for one in chat.complete([request(1)], silver_questions)]
        assert 1 == len(served.asked)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/html"},
        {"Content-Type": "text/event-stream"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/json; charset=\xff"},
        {"Content-Type": ""},
        {"Content-Type": "x" * 5_000},
        {"X-Region": "Zürich \udcff".encode("utf-8", "replace").decode()},
    ],
)
def test_headers_throw_no_reply_away(headers: dict[str, str]):
    """What a header says, in whatever bytes, decides nothing about a whole reply."""
    with FaultServer(usual=Answer(headers=headers)) as served, client(served.url) as chat:
        (found,) = chat.complete([request(1)])
        assert (well_text("q 1"), 1) == (found.text, len(served.asked))


def test_a_status_behind_odd_headers_is_still_one():
    """A refusal in words of another code page is typed as any other."""
    with FaultServer([Answer(429, {"X-Why": "zu schnell für uns"}, b"{}")]) as served:
        with client(served.url) as chat:
            assert isinstance(chat.complete([request(1)])[0], ChatReply)
        assert 2 == len(served.asked)


SOON = ("-5", "0", "nan", "inf", "-1e400", "9" * 5_000, "", "5, 6", "0x10", "\u0665", "soon")
PAST = ("Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 99999 23:59:59 GMT")
FAR = ("1000000000", "86400", "Fri, 31 Dec 9999 23:59:59 GMT")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("header", [*SOON, *PAST, *FAR])
def test_no_retry_after_hangs_or_breaks_a_question(header: str, status: int):
    """What is no time to come is not waited for; far off, the question fails by name."""
    with FaultServer([Answer(status, {"Retry-After": header}, b"{}")]) as served:
        time = MadeUpTime()
        with ChatClient(settings(served.url), None, timing=time.timing()) as chat:
            (found,) = chat.complete([request(1)])
        if header in FAR:
            assert isinstance(found, ChatFailure)
            assert found.reason == ("rate_limited" if status == 429 else "server_error")
        else:
            assert (well_text("q 1"), 2) == (found.text, len(served.asked))
        assert time.now < 1_060


NO_REPLY = {
    "choices twice": Answer(body=(WHOLE[:-1] + ', "choices": []}').encode()),
    "another code page": Answer(body=WHOLE.replace("Who", "W\xe9").encode("latin-1")),
    "junk behind": Answer(body=f"{WHOLE}x".encode()),
    "events": Answer(body=f"data: {WHOLE}\n\n".encode()),
}


@pytest.mark.parametrize("answer", NO_REPLY.values(), ids=NO_REPLY)
def test_bodies_that_only_resemble_a_reply_are_asked_again(answer: Answer):
    """A typed failure after three attempts; the next question is answered."""
    with FaultServer([answer] * 3) as served, client(served.url, concurrency=1) as chat:
        bad, good = chat.complete([request(1), request(2)])
        assert isinstance(bad, ChatFailure)
        assert ("server_error", 3, well_text("q 2")) == (bad.reason, bad.attempts, good.text)
