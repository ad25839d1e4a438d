"""Retries, several endpoints, endpoints that fail, and ceilings."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

import fault_server as server
from chat_parts import MODEL, request, settings
from chat_served import client, reasons, served_chat
from decomposerl.chat import ChatFailure
from decomposerl.errors import ConfigError
from fault_server import Answer, FaultServer
from resources.chat.calls import DOWN_AFTER, CeilingReached, Sender
from resources.chat.client import ChatClient
from resources.chat.wire import Counts, tokens_of
from strategies import law

ESTIMATE = tokens_of(request(1))
ALL = sum(ESTIMATE[:2])
PRICED = {"prompt_price": 1, "completion_price": 1}


def spent(chat: ChatClient) -> float:
    """Tokens of prompts and replies."""
    return chat.counts["prompt_tokens"] + chat.counts["completion_tokens"]


def test_the_least_loaded_endpoint_is_asked():
    """Calls in flight spread evenly; a slow endpoint gets fewer."""
    usual = Answer(delay_s=0.1)
    with FaultServer(usual=usual) as one, FaultServer(usual=usual) as two:
        with ChatClient(settings(one.url, two.url, concurrency=8), None) as chat:
            chat.complete([request(number) for number in range(8)])
        assert (4, 4) == (len(one.asked), len(two.asked))


@pytest.mark.parametrize(
    "fault", [server.BROKEN, server.BUSY, server.CUT], ids=["500", "429", "cut"]
)
def test_a_healthy_endpoint_takes_over_from_a_failing_one(fault: Answer):
    """A request that failed at one is answered by the other."""
    with FaultServer(usual=fault) as broken, FaultServer() as well:
        both = settings(broken.url, well.url, concurrency=4)
        with ChatClient(both, None, retries=0) as chat:
            assert [None] * 50 == reasons(chat.complete([request(n) for n in range(50)]))
        assert (len(broken.asked) > 0, 50) == (True, len(well.asked))
        assert chat.counts["calls"] == 50 + len(broken.asked)


@pytest.mark.parametrize(
    ("fault", "lasting"),
    [(server.BROKEN, False), (server.UNKNOWN_KEY, True), (server.OTHER_MODEL, True)],
    ids=["down", "wrong key", "wrong model"],
)
def test_an_endpoint_that_fails_everything_is_given_up(fault: Answer, lasting: bool):  # noqa: FBT001
    """Of 150 requests most never leave, and the last failure says what the endpoint said."""
    with served_chat(usual=fault, concurrency=4, retries=0) as (served, chat):
        outcomes = chat.complete([request(number) for number in range(150)])
        assert DOWN_AFTER <= len(served.asked) < DOWN_AFTER + 4
        assert chat.counts["calls"] == len(served.asked)
    last = outcomes[-1]
    assert isinstance(last, ChatFailure)
    assert ("circuit_open", lasting) == (last.reason, last.lasting)
    assert any(said in last.detail for said in ("HTTP 500", "HTTP 401", "another"))


def test_an_endpoint_that_is_well_again_is_asked_again():
    """After the pause; a reply before there are too many failures starts the count anew."""
    faults = [server.BROKEN] * (DOWN_AFTER - 1)
    script = [*faults, server.WELL, *faults, server.BROKEN]
    many = [request(number) for number in range(len(script) + 5)]
    with served_chat(script, retries=0, concurrency=1, cooldown_s=0.3) as (_, chat):
        found = reasons(chat.complete(many))
        assert [1, 19, 5] == [found.count(each) for each in (None, "server_error", "circuit_open")]
        time.sleep(0.3)
        assert [None] * len(many) == reasons(chat.complete(many))


@pytest.mark.parametrize(
    "ceilings", [{"calls": 5}, {"tokens": 5 * 15 + 66}, {"dollars": 5 * 15 / 1e6 + 66 / 1e6}]
)
def test_a_ceiling_stops_the_run_and_keeps_what_was_paid(
    ceilings: dict[str, float], tmp_path: Path
):
    """Calls stop before the ceiling, the rest fail as ``budget``, and a later run asks those."""
    many = [request(number) for number in range(20)]
    with FaultServer() as served:
        with client(served.url, tmp_path, **ceilings, **PRICED) as chat:
            outcomes = chat.complete(many)
            assert chat.counts["calls"] == len(served.asked) == reasons(outcomes).count(None)
            assert 5 <= len(served.asked) <= 6
            assert 20 - len(served.asked) == reasons(outcomes).count("budget")
            assert spent(chat) / 1e6 == pytest.approx(chat.details()["chat money_usd"])
        with client(served.url, tmp_path) as chat:
            assert [None] * 20 == reasons(chat.complete(many))
        assert 20 == len(served.asked)


@law(60)
@given(
    st.integers(1, 400),
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_tokens_never_pass_their_ceiling(ceiling: int, calls: list[tuple[int, float]]):
    """Where no call uses more than its estimate, their sum stays within the ceiling."""
    counts = Counts()

    async def spend() -> None:
        sender = Sender(settings(tokens=ceiling), (), SecretStr(""), counts)

        async def one(estimate: int, share: float) -> None:
            with suppress(CeilingReached):
                async with sender.room((0, estimate, True)):
                    await asyncio.sleep(0)
                    counts.add(calls=1, completion_tokens=int(estimate * share))

        await asyncio.gather(*(one(*call) for call in calls))

    asyncio.run(spend())
    assert counts["completion_tokens"] <= ceiling
    if sum(estimate for estimate, _ in calls) <= ceiling:
        assert len(calls) == counts["calls"]


def test_money_needs_a_price_and_a_ceiling_names_itself():
    """A ceiling in money would never stop a run whose costs nobody knows."""
    with pytest.raises(ConfigError, match=f"'{MODEL}'"):
        client("http://a/v1", dollars=1.0)
    with served_chat(calls=1) as (_, chat):
        _, failure = chat.complete([request(1), request(2)])
    assert isinstance(failure, ChatFailure)
    assert "1 calls" in failure.detail


@pytest.mark.parametrize(
    ("fault", "calls", "estimated", "tokens"),
    [
        (server.CUT, 3, 1, ESTIMATE[0]),
        (server.HANGING, 1, 1, ESTIMATE[0]),
        (server.NO_JSON, 1, 1, ESTIMATE[0]),
        (server.BROKEN, 3, 0, 0),
        (server.REFUSED, 1, 0, 0),
        (server.WELL, 1, 0, 15),
    ],
    ids=["cut", "timed out", "no completion", "broken", "refused", "well"],
)
def test_a_call_that_brought_no_reply_costs_its_prompt(
    fault: Answer, calls: int, estimated: int, tokens: int
):
    """The endpoint read it once; what it wrote nobody knows. A refusal costs nothing."""
    deadline_s = 0.3 if fault is server.HANGING else 20.0
    with served_chat(usual=fault, deadline_s=deadline_s) as (served, chat):
        chat.complete([request(1)])
        assert (calls, estimated) == (len(served.asked), chat.counts["estimated"])
        written = 5 if fault is server.WELL else 0
        assert (tokens, written) == (spent(chat), chat.counts["completion_tokens"])


def test_the_ceiling_in_calls_holds_for_repeated_calls_too():
    """Those of the package, and those at another address."""
    with FaultServer(usual=server.BROKEN) as one, FaultServer(usual=server.BROKEN) as other:
        both = settings(one.url, other.url, concurrency=2, calls=5)
        with ChatClient(both, None, retries=4) as chat:
            outcomes = chat.complete([request(number) for number in range(9)])
        assert 5 == len(one.asked) + len(other.asked) == chat.counts["calls"]
        assert "budget" in {outcome.reason for outcome in outcomes}


def test_a_released_reservation_lets_another_go():
    """A request that waits for room takes that of a call that used nothing."""
    counts = Counts()

    async def spend() -> None:
        sender = Sender(settings(tokens=ALL), (), SecretStr(""), counts)

        async def one() -> None:
            async with sender.room(ESTIMATE):
                await asyncio.sleep(0)
                counts.add(calls=1)

        await asyncio.gather(one(), one())

    asyncio.run(spend())
    assert (2, 0) == (counts["calls"], counts["prompt_tokens"])


def test_time_that_threads_spend_at_once_counts_once():
    """Busy time is that of the wall: two batches of 0.3 s beside each other are no 0.6 s."""
    with (
        FaultServer(usual=Answer(delay_s=0.3)) as served,
        client(served.url) as chat,
        ThreadPoolExecutor(2) as pool,
    ):
        started = time.monotonic()
        list(pool.map(chat.complete, [[request(1)], [request(2)]]))
        whole = time.monotonic() - started
        assert 0.3 <= chat.counts["busy_s"] <= whole
        before = chat.counts["busy_s"]
        time.sleep(0.1)
        chat.complete([request(1)])
        assert before + 0.3 <= chat.counts["busy_s"] <= before + time.monotonic() - started - whole
