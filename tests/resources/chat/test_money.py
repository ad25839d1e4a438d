"""Ceilings where endpoints report no usage, and ceilings beside a pace."""

import asyncio
import time
from pathlib import Path

import pytest

import fault_server as server
from chat_parts import MadeUpTime, request, settings
from decomposerl.chat import ChatFailure, Price
from fault_server import MODEL, Answer, FaultServer
from resources.chat.budget import Budget, Counts, Usage
from resources.chat.client import ChatClient
from resources.chat.settings import Ceilings

ESTIMATE = Usage.expected(request(1))
PRICED = {"prices": {MODEL: {"prompt": 1, "completion": 1}}}


def client(url: str, data: Path | None = None, **changes: object) -> ChatClient:
    return ChatClient(settings(url, **changes), data, timing=MadeUpTime().timing())


def reasons(found: list[object]) -> list[str | None]:
    return [getattr(one, "reason", None) for one in found]


@pytest.mark.parametrize(
    "ceilings", [{"tokens": 5 * ESTIMATE.tokens}, {"money": 5 * ESTIMATE.tokens / 1e6 + 1e-9}]
)
def test_a_ceiling_holds_where_no_usage_is_reported(ceilings: dict[str, float]):
    """Such a reply is booked as estimated: five calls fit, not all twenty."""
    with (
        FaultServer(usual=server.NO_USAGE) as served,
        client(served.url, ceilings=ceilings, **PRICED) as chat,
    ):
        found = chat.complete([request(number) for number in range(20)])
        assert [5, 15] == [reasons(found).count(reason) for reason in (None, "budget")]
        assert 5 == len(served.asked) == chat.counts.estimated
        assert 5 * ESTIMATE.tokens == chat.counts.tokens
        assert 5 == chat.counts.metadata()["estimated"]


@pytest.mark.parametrize(
    ("fault", "calls"),
    [(server.CUT, 3), (server.HANGING, 1), (server.NO_JSON, 3)],
    ids=["cut", "timed out", "no completion"],
)
def test_a_call_that_brought_no_reply_costs_its_prompt(fault: Answer, calls: int):
    """The endpoint read it; what it wrote nobody knows."""
    deadline_s = 0.3 if fault is server.HANGING else 20.0
    with (
        FaultServer(usual=fault) as served,
        client(served.url, call_deadline_s=deadline_s) as chat,
    ):
        chat.complete([request(1)])
        assert calls == len(served.asked) == chat.counts.estimated
        assert (calls * ESTIMATE.prompt_tokens, 0) == (
            chat.counts.prompt_tokens,
            chat.counts.completion_tokens,
        )


@pytest.mark.parametrize("fault", [server.BROKEN, server.REFUSED, server.WELL])
def test_nothing_is_estimated_where_it_is_known(fault: Answer):
    """A refusal costs nothing, a reply what it says."""
    with FaultServer(usual=fault) as served, client(served.url) as chat:
        chat.complete([request(1)])
        assert (0, 15 * (fault is server.WELL)) == (chat.counts.estimated, chat.counts.tokens)


def test_what_never_left_costs_nothing():
    """Where nobody listens, no prompt was read."""
    with FaultServer() as served:
        url = served.url
    with client(url) as chat:
        chat.complete([request(1)])
        assert (3, 0, 0) == (chat.counts.calls, chat.counts.estimated, chat.counts.tokens)


def test_a_batch_deadline_books_what_was_in_flight():
    """Calls that the batch's deadline cuts off have sent their prompts."""
    with FaultServer(usual=server.HANGING) as served:
        chosen = settings(served.url, batch_deadline_s=0.5)
        with ChatClient(chosen, None) as chat:
            chat.complete([request(1), request(2)])
            assert 2 * ESTIMATE.prompt_tokens == chat.counts.tokens


@pytest.mark.parametrize("pace", [{"requests_per_minute": 60}, {"tokens_per_minute": 600}])
def test_a_ceiling_stops_at_once_whatever_the_pace(pace: dict[str, float]):
    """Of 2,000 calls five are allowed: the others take no time and no part of the pace."""
    time = MadeUpTime()
    with FaultServer() as served:
        chosen = settings(served.url, ceilings=Ceilings(calls=5), concurrency=8, **pace)
        with ChatClient(chosen, None, None, time.timing()) as chat:
            found = chat.complete([request(number) for number in range(2_000)])
            assert (5, 5) == (len(served.asked), chat.counts.calls)
    assert 1_995 == reasons(found).count("budget")
    assert time.now - 1_000 <= 60


def test_what_no_endpoint_takes_gives_its_pace_and_reservation_back():
    """A hundred refusals for want of an endpoint cost neither time nor calls of the ceiling."""
    time = MadeUpTime()
    reported = Answer(429, {"Retry-After": "86400"}, b"{}")
    with FaultServer([reported]) as served:
        chosen = settings(
            served.url, requests_per_minute=1, concurrency=1, ceilings=Ceilings(calls=3)
        )
        with ChatClient(chosen, None, None, time.timing()) as chat:
            found = chat.complete([request(number) for number in range(100)])
            assert ["rate_limited"] * 100 == reasons(found)
            assert 1 == chat.counts.calls
    assert time.now - 1_000 <= 61


def test_a_released_reservation_lets_another_go():
    """Whoever waits for room takes that of a call that was not sent."""
    counts = Counts()

    async def spend() -> bool:
        budget = Budget(Ceilings(calls=1), Price(), counts)
        assert await budget.reserve(ESTIMATE)
        second = asyncio.create_task(budget.reserve(ESTIMATE))
        await asyncio.sleep(0)
        budget.release(ESTIMATE)
        return await second

    assert asyncio.run(spend())
    assert 1 == counts.calls


def test_a_ceiling_names_itself():
    """The failure says which ceiling it was."""
    with FaultServer() as served, client(served.url, ceilings={"calls": 0}) as chat:
        (found,) = chat.complete([request(1)])
    assert isinstance(found, ChatFailure)
    assert "ceiling of 0 calls" == found.detail


@pytest.mark.parametrize("given", [-1.0, float("nan")])
def test_a_price_is_a_number_of_0_or_more(given: float):
    """A ceiling in money would never stop a run whose costs are no number."""
    with pytest.raises(ValueError, match="a price is a number of 0 or more"):
        Price(prompt=given)


def test_time_that_threads_spend_at_once_counts_once():
    """Busy time is that of the wall: overlapping and nested stretches are one."""
    counts = Counts()
    started = time.monotonic()
    with counts.busy(), counts.busy():
        time.sleep(0.05)
    whole = time.monotonic() - started
    assert 0.05 <= counts.busy_s <= whole
    time.sleep(0.05)
    with counts.busy():
        pass
    assert counts.busy_s <= whole + 0.04
    assert pytest.approx(counts.busy_s, abs=1e-3) == counts.metadata()["busy_s"]
