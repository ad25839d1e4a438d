"""A busy server is no failure, a hung one is: deadlines while an endpoint queues its calls."""

import time

import fault_server as server
from chat_parts import request, settings
from decomposerl.chat import ChatFailure, ChatReply
from fault_server import Answer, FaultServer
from resources.chat.client import ChatClient

WORK = Answer(delay_s=0.2)


def outcomes(served: FaultServer, calls: int, **changes: object) -> list[ChatReply | ChatFailure]:
    with ChatClient(settings(served.url, **changes), None) as chat:
        chat.complete([request(99)])  # loads the openai package
        return chat.complete([request(number) for number in range(calls)])


def reasons(found: list[ChatReply | ChatFailure]) -> list[str | None]:
    return [getattr(one, "reason", None) for one in found]


def test_a_call_in_the_queue_of_a_busy_server_is_not_overdue():
    """Sixteen calls, worked on one by one for 3.2 s: the deadline of 1.6 s is no one's."""
    with FaultServer(usual=WORK, at_once=1) as served:
        assert [None] * 16 == reasons(outcomes(served, 16, call_deadline_s=1.6))
        assert 17 == len(served.asked)


def test_a_queue_that_stands_still_is_a_hung_server():
    """After two replies none comes: the others end a deadline later, all at about one time."""
    with FaultServer([server.WELL, WORK, WORK], usual=server.HANGING, at_once=1) as served:
        started = time.monotonic()
        found = outcomes(served, 6, call_deadline_s=0.8)
    assert [None, None, *["timeout"] * 4] == sorted(reasons(found), key=str)
    assert 1.0 < time.monotonic() - started < 10.0


def test_replies_to_later_calls_do_not_hold_up_a_lost_one():
    """The first call gets no reply while those behind it do: its own deadline ends it."""
    with FaultServer([server.WELL, server.HANGING], usual=WORK) as served:
        found = outcomes(served, 16, call_deadline_s=1.2, concurrency=2)
    assert ["timeout", *[None] * 15] == reasons(found)
    assert isinstance(found[0], ChatFailure)
    assert float(found[0].detail.split()[3]) < 2.0, found[0].detail


def test_no_queue_is_waited_for_without_end():
    """Replies keep coming, but the call at the end has waited as long as a queue may take."""
    with FaultServer(usual=WORK, at_once=1) as served:
        found = outcomes(served, 16, call_deadline_s=1.2, queue_deadline_s=1.9)
    assert {None, "timeout"} == set(reasons(found))
    assert isinstance(found[-1], ChatFailure)
    assert 1.9 <= float(found[-1].detail.split()[3])


def test_the_queue_is_at_least_as_long_as_a_call():
    """A deadline above that of the queue is meant as it stands."""
    with FaultServer(usual=WORK) as served:
        found = outcomes(served, 1, call_deadline_s=5.0, queue_deadline_s=0.05)
    assert [None] == reasons(found)
