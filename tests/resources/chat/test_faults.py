"""Fault by fault: what the server does, what the user sees, what was kept."""

from pathlib import Path

import pytest

import fault_server as server
from chat_parts import PLAIN, TEMPLATE, MadeUpTime, frame_of, request, settings
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Message
from fault_server import Answer, FaultServer, well_text
from resources.chat.client import ChatClient

# fault, then: the reason that the user sees, how often the server was asked
LASTING = {
    "429": (server.BUSY, "rate_limited", 3),
    "500": (server.BROKEN, "server_error", 3),
    "hang": (server.HANGING, "timeout", 1),
    "cut mid-reply": (server.CUT, "transport", 3),
    "no JSON": (server.NO_JSON, "server_error", 3),
    "JSON of another kind": (server.NO_CHOICES, "server_error", 3),
    "400": (server.REFUSED, "refused", 1),
    "401": (server.UNKNOWN_KEY, "refused", 1),
    "empty": (server.EMPTY, "empty", 1),
    "blank": (server.replying(" \n"), "empty", 1),
    "reasoning ate the budget": (server.REASONING, "empty", 1),
    "truncated": (server.TRUNCATED, "truncated", 1),
    "another model": (server.OTHER_MODEL, "wrong_model", 1),
    "no model named": (Answer(change={"model": None}), "wrong_model", 1),
}
# fault, then: how often the server was asked until it answered well
PASSING = {
    "slow": (server.SLOW, 1),
    "429": (server.BUSY, 2),
    "500": (server.BROKEN, 2),
    "cut mid-reply": (server.CUT, 2),
    "no JSON": (server.NO_JSON, 2),
    "JSON of another kind": (server.NO_CHOICES, 2),
}


def client(url: str, data: Path, **changes: object) -> ChatClient:
    return ChatClient(settings(url, **changes), data, timing=MadeUpTime().timing())


@pytest.mark.parametrize(("fault", "reason", "calls"), LASTING.values(), ids=LASTING)
def test_a_lasting_fault_is_a_typed_failure_and_keeps_nothing(
    fault: Answer, reason: str, calls: int, tmp_path: Path
):
    """The failure names its reason, is asked as often as it makes sense, and is not stored."""
    deadline_s = 0.3 if reason == "timeout" else 20.0
    with (
        FaultServer(usual=fault) as served,
        client(served.url, tmp_path, call_deadline_s=deadline_s) as chat,
    ):
        (found,) = chat.complete([request(1)])
        assert isinstance(found, ChatFailure)
        assert (reason, calls) == (found.reason, found.attempts)
        assert found.detail
        assert calls == len(served.asked) == chat.counts.calls
        assert calls - 1 == chat.counts.retries
        assert {reason: 1} == dict(chat.counts.failures)
        assert chat.store is not None
        assert 0 == frame_of(chat.store).height


@pytest.mark.parametrize(("fault", "reason", "calls"), LASTING.values(), ids=LASTING)
def test_a_fault_hurts_no_other_request(fault: Answer, reason: str, calls: int, tmp_path: Path):
    """One bad request among good ones: they are answered and kept; a later run asks it alone."""
    many = [request(number) for number in range(5)]
    deadline_s = 1.0 if reason == "timeout" else 20.0
    with (
        FaultServer([fault] * calls) as served,
        client(served.url, tmp_path, call_deadline_s=deadline_s, concurrency=1) as chat,
    ):
        found = chat.complete(many)
        assert [True, False, False, False, False] == [isinstance(o, ChatFailure) for o in found]
        asked = len(served.asked)
        again = chat.complete(many)
        assert [well_text(f"q {n}") for n in range(5)] == [o.text for o in again]
        assert asked + 1 == len(served.asked)


@pytest.mark.parametrize(("fault", "calls"), PASSING.values(), ids=PASSING)
def test_a_passing_fault_is_not_seen_at_all(fault: Answer, calls: int, tmp_path: Path):
    """After one retry the reply is there and stored."""
    with FaultServer([fault]) as served, client(served.url, tmp_path) as chat:
        (found,) = chat.complete([request(1)])
        assert isinstance(found, ChatReply)
        assert well_text("q 1") == found.text
        assert calls == len(served.asked)
        assert chat.store is not None
        assert 1 == frame_of(chat.store).height


def test_nobody_listening_is_a_transport_failure(tmp_path: Path):
    """An address without a server is tried as often as allowed and then named."""
    with FaultServer() as served:
        url = served.url
    with client(url, tmp_path) as chat:
        (found,) = chat.complete([request(1)])
    assert isinstance(found, ChatFailure)
    assert ("transport", 3) == (found.reason, found.attempts)


def test_reasoning_that_ate_the_budget_says_so(tmp_path: Path):
    """The detail tells the user what to change: the budget, or the thinking."""
    with FaultServer(usual=server.REASONING) as served, client(served.url, tmp_path) as chat:
        (found,) = chat.complete([request(1)])
    assert isinstance(found, ChatFailure)
    assert "reasoning alone came and the budget of 50 tokens ended" in found.detail


def test_a_truncated_reply_shows_what_came(tmp_path: Path):
    """The failure carries the text, for whoever looks into it."""
    with FaultServer(usual=server.TRUNCATED) as served, client(served.url, tmp_path) as chat:
        (found,) = chat.complete([request(1)])
    assert isinstance(found, ChatFailure)
    assert "What is" == found.text


def test_a_request_that_cannot_be_sent_is_refused(tmp_path: Path):
    """Half a surrogate pair in a prompt, or a schema that is no JSON, fails alone."""
    broken = ChatRequest((Message("user", "\ud800"),), PLAIN, TEMPLATE)
    many = [broken, request(1, schema="{no JSON"), request(2)]
    with FaultServer() as served, client(served.url, tmp_path, structured=True) as chat:
        found = chat.complete(many)
        assert ["refused", "refused", None] == [getattr(o, "reason", None) for o in found]
        assert ["q 2"] == served.prompts


def test_a_batch_ends_at_its_deadline_and_keeps_what_came(tmp_path: Path):
    """What was answered before is returned and stored; the rest are timeouts."""
    script = [server.WELL, server.WELL]
    with (
        FaultServer(script, usual=server.HANGING) as served,
        client(served.url, tmp_path, batch_deadline_s=1.5, concurrency=1) as chat,
    ):
        found = chat.complete([request(number) for number in range(4)])
        assert [None, None, "timeout", "timeout"] == [getattr(o, "reason", None) for o in found]
        assert chat.store is not None
        assert 2 == frame_of(chat.store).height
