"""Pace, retries, circuits, endpoints and ceilings, in made-up time."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import fault_server as server
from chat_parts import MODEL, MadeUpTime, request, settings
from decomposerl.chat import ChatFailure, Price, Sampling
from fault_server import Answer, FaultServer
from resources.chat.budget import Budget, Counts, Usage
from resources.chat.client import ChatClient
from resources.chat.endpoints import (
    LONGEST_PAUSE_S,
    LONGEST_REST_S,
    WINDOW,
    Circuit,
    Endpoint,
    Endpoints,
    Pace,
    pause_before_retry,
    retry_after_s,
)
from resources.chat.settings import Ceilings
from strategies import law

ADDRESSES = ("http://a/v1", "http://b/v1", "http://c/v1")


def failures(found: list[object]) -> list[str | None]:
    return [getattr(one, "reason", None) for one in found]


@given(st.integers(1, 600), st.lists(st.integers(1, 5), min_size=1, max_size=50))
def test_no_minute_holds_more_than_the_pace(per_minute: int, amounts: list[int]):
    """In any minute at most ``per_minute`` units start, beside the one that began it."""
    time = MadeUpTime()
    starts: list[tuple[float, int]] = []

    async def take_all() -> None:
        pace = Pace(per_minute, time.timing())
        for amount in amounts:
            await pace.take(amount)
            starts.append((time.now, amount))

    asyncio.run(take_all())
    for start, amount in starts:
        inside = sum(units for when, units in starts if start <= when < start + 60 - 1e-6)
        assert inside <= per_minute + max(amounts) + amount


def test_pace_is_kept_by_the_client():
    """Sixty a minute: eleven calls take ten seconds, whatever is in flight."""
    time = MadeUpTime()
    with (
        FaultServer() as served,
        ChatClient(settings(served.url, requests_per_minute=60), None, None, time.timing()) as chat,
    ):
        chat.complete([request(number) for number in range(11)])
    assert time.now >= 1_010


def test_the_pace_of_tokens_counts_what_was_used():
    """Eleven calls of 15 tokens at 60 a minute: some 150 seconds, not what was estimated."""
    time = MadeUpTime()
    with FaultServer() as served:
        chosen = settings(served.url, tokens_per_minute=60, concurrency=1)
        with ChatClient(chosen, None, None, time.timing()) as chat:
            chat.complete([request(number) for number in range(11)])
    assert 1_140 <= time.now <= 1_300


def test_unused_tokens_are_given_back():
    """What was estimated and not used makes the next call wait less."""
    time = MadeUpTime()

    async def take_twice(given_back: int) -> float:
        pace, start = Pace(60, time.timing()), time.now
        await pace.take(30)
        pace.give_back(given_back)
        await pace.take(1)
        return time.now - start

    assert [30, 10] == [asyncio.run(take_twice(units)) for units in (0, 20)]


@given(st.integers(1, 40), st.integers(0, 99))
def test_pauses_double_up_to_a_bound(attempt: int, seed: int):
    """A pause lies between half and all of its bound, which never passes the longest."""
    bound = min(LONGEST_PAUSE_S, 0.5 * 2 ** (attempt - 1))
    assert bound / 2 <= pause_before_retry(attempt, Random(seed)) <= bound


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Wed, 01 Jan 2025 00:00:30 GMT", 30.0),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 0.0),
        ("soon", None),
        (None, None),
        ("inf", None),
        ("1e400", None),
        ("nan", None),
        ("1e12", LONGEST_REST_S),
        ("Wed, 01 Jan 9999 00:00:00 GMT", LONGEST_REST_S),
        ("Wed, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, expected: float | None):
    """Both forms of the header are read, up to a day; what is no time is as if not there."""
    headers = {} if value is None else {"retry-after": value}
    assert expected == retry_after_s(headers, datetime(2025, 1, 1, tzinfo=UTC) + timedelta(0))


def test_the_client_waits_as_long_as_it_was_told():
    """A 429 with ``Retry-After`` rests the endpoint for that long, not for the drawn pause."""
    time = MadeUpTime()
    reported = Answer(429, {"Retry-After": "77"}, b"{}")
    with (
        FaultServer([reported]) as served,
        ChatClient(settings(served.url), None, None, time.timing()) as chat,
    ):
        assert [None] == failures(chat.complete([request(1)]))
    assert 1_077 <= time.now < 1_090


def test_a_rest_of_hours_is_not_waited_for():
    """Where the endpoint says to come back tomorrow, the failure says so at once."""
    time = MadeUpTime()
    reported = Answer(429, {"Retry-After": "86400"}, b'{"error": {"message": "daily quota"}}')
    with (
        FaultServer(usual=reported) as served,
        ChatClient(settings(served.url, concurrency=1), None, None, time.timing()) as chat,
    ):
        found = chat.complete([request(number) for number in range(5)])
        assert ["rate_limited"] * 5 == failures(found)
        assert 1 == len(served.asked)
    assert time.now < 1_100


def test_an_endpoint_at_rest_for_hours_is_tried_by_one_call_now_and_then():
    """One call every ``circuit_patience_s``; the first that is answered ends the rest."""
    time = MadeUpTime()
    reported = Answer(429, {"Retry-After": "86400"}, b'{"error": {"message": "daily quota"}}')
    chosen = {"concurrency": 1, "circuit_patience_s": 60.0}
    with (
        FaultServer([reported, reported]) as served,
        ChatClient(settings(served.url, **chosen), None, None, time.timing()) as chat,
    ):
        counts = []
        for number in range(4):
            found = chat.complete([request(3 * number + n) for n in range(3)])
            counts.append((len(served.asked), failures(found).count(None)))
            time.now += 45
    # After 0 s, 45 s, 90 s (the trial, refused) and 135 s.
    assert [(1, 0), (1, 0), (2, 0), (2, 0)] == counts
    with (
        FaultServer([reported]) as served,
        ChatClient(settings(served.url, **chosen), None, None, time.timing()) as chat,
    ):
        chat.complete([request(1)])
        time.now += 61
        assert [None] * 3 == failures(chat.complete([request(n) for n in range(3)]))


def test_a_rest_says_for_how_long_and_why():
    """Where no circuit is open, the failure still says what the endpoint asked for."""
    reported = Answer(429, {"Retry-After": "7200"}, b'{"error": {"message": "daily quota"}}')
    with (
        FaultServer(usual=reported) as served,
        ChatClient(settings(served.url), None, None, MadeUpTime().timing()) as chat,
    ):
        chat.complete([request(1)])
        (found,) = chat.complete([request(2)])
    assert isinstance(found, ChatFailure)
    assert "it asked to be left alone for 7,200 s (HTTP 429: " in found.detail
    assert "daily quota" in found.detail


@pytest.mark.parametrize(("begun", "waited_s"), [(False, 10), (True, 120)])
def test_an_address_where_nothing_listens_is_given_up_soon(begun: bool, waited_s: int):  # noqa: FBT001
    """After ten seconds; an endpoint that has answered before gets its whole patience."""
    time = MadeUpTime()
    with FaultServer() as served:
        chosen = settings(served.url, attempts=1, concurrency=1)
        chat = ChatClient(chosen, None, None, time.timing())
        if begun:
            assert [None] == failures(chat.complete([request(0)]))
    with chat:
        found = failures(chat.complete([request(number) for number in range(1, 60)]))
    assert {"transport", "circuit_open"} == set(found)
    assert waited_s <= time.now - 1_000 < waited_s + 15


def test_a_resting_endpoint_leaves_its_calls_to_another():
    """One endpoint asks for a pause: its call goes to the other without one."""
    time = MadeUpTime()
    reported = Answer(429, {"Retry-After": "100"}, b"{}")
    with FaultServer(usual=reported) as busy, FaultServer() as free:
        both = settings(busy.url, free.url, concurrency=1)
        with ChatClient(both, None, None, time.timing()) as chat:
            assert [None] * 6 == failures(chat.complete([request(n) for n in range(6)]))
        assert (1, 6) == (len(busy.asked), len(free.asked))
    assert 1_000 == time.now


def test_the_least_loaded_endpoint_is_asked():
    """Calls in flight spread evenly; a slow endpoint gets fewer."""
    usual = Answer(delay_s=0.1)
    with FaultServer(usual=usual) as one, FaultServer(usual=usual) as two:
        with ChatClient(settings(one.url, two.url, concurrency=8), None) as chat:
            chat.complete([request(number) for number in range(8)])
        assert (4, 4) == (len(one.asked), len(two.asked))


def test_a_circuit_opens_on_a_sustained_failure_rate_and_closes_on_a_success():
    """Closed below half, open from half of a full window; a trial a pause; success closes."""
    time = MadeUpTime()
    circuit = Circuit(lambda: time.now, 10.0)
    for _ in range(WINDOW // 2):
        circuit.succeeded()
    for _ in range(WINDOW // 2 - 1):
        circuit.failed("down")
    assert circuit.ready_at() <= time.now
    circuit.failed("down")
    assert (1_000, 1_010) == (circuit.open_since, circuit.ready_at())
    time.now = 1_010
    circuit.begin()
    circuit.failed("down")
    assert (1_000, 1_020) == (circuit.open_since, circuit.ready_at())
    circuit.succeeded()
    assert circuit.ready_at() <= time.now
    for _ in range(WINDOW - 1):
        circuit.failed("down")
    assert circuit.open_since is None


def test_one_trial_at_a_time_reaches_a_failing_endpoint():
    """Of those who wait for an open circuit, one goes; the others wait another pause."""
    time = MadeUpTime()
    endpoints = Endpoints(settings(ADDRESSES[0]), None, time.timing())
    for _ in range(WINDOW):
        endpoints.every[0].circuit.failed("down")

    async def three() -> list[float]:
        times = []
        for _ in range(3):
            assert isinstance(await endpoints.next(), Endpoint)
            times.append(time.now)
        return times

    first, second, third = asyncio.run(three())
    assert first >= 1_010
    assert second >= first + 10
    assert third >= second + 10


def test_a_healthy_endpoint_takes_over_from_a_failing_one():
    """Only endpoints whose circuit is closed are asked while there is one."""
    endpoints = Endpoints(settings(*ADDRESSES), None, MadeUpTime().timing())
    for _ in range(WINDOW):
        endpoints.every[0].circuit.failed("down")
        endpoints.every[2].circuit.failed("down")
    for _ in range(5):
        chosen = asyncio.run(endpoints.next())
        assert isinstance(chosen, Endpoint)
        assert ADDRESSES[1] == chosen.url


@pytest.mark.parametrize(
    ("fault", "most_calls", "waited_s"),
    [(server.BROKEN, 80, 120.0), (server.UNKNOWN_KEY, 24, 0.0), (server.OTHER_MODEL, 24, 0.0)],
    ids=["down", "wrong key", "wrong model"],
)
def test_an_endpoint_that_stays_down_is_given_up(
    fault: Answer, most_calls: int, waited_s: float, tmp_path: Path
):
    """Of 300 requests most never leave; an outage is waited for, a wrong key is not."""
    time = MadeUpTime()
    with (
        FaultServer(usual=fault) as served,
        ChatClient(settings(served.url, concurrency=4), tmp_path, None, time.timing()) as chat,
    ):
        found = chat.complete([request(number) for number in range(300)])
        assert len(served.asked) <= most_calls
        last = found[-1]
        assert isinstance(last, ChatFailure)
        assert "circuit_open" == last.reason
        assert "no endpoint can be asked at present: " in last.detail
        assert len(last.detail) > len("no endpoint can be asked at present: ")
    assert waited_s <= time.now - 1_000 <= waited_s + 60


def test_an_outage_that_ends_in_time_costs_no_request():
    """Twenty-five failures in a row, then a well server: every request is answered."""
    with (
        FaultServer([server.BROKEN] * 25) as served,
        ChatClient(
            settings(served.url, concurrency=8, attempts=9), None, None, MadeUpTime().timing()
        ) as chat,
    ):
        found = chat.complete([request(number) for number in range(60)])
    assert [None] * 60 == failures(found)


@pytest.mark.parametrize(
    "ceilings", [{"calls": 5}, {"tokens": 5 * 15 + 66}, {"money": 5 * 15 / 1e6 + 66 / 1e6}]
)
def test_a_ceiling_stops_the_run_and_keeps_what_was_paid(
    ceilings: dict[str, float], tmp_path: Path
):
    """Calls stop before the ceiling, the rest fail as ``budget``, and a later run asks those."""
    many = [request(number) for number in range(20)]
    priced = {"prices": {MODEL: {"prompt": 1, "completion": 1}}, "ceilings": ceilings}
    with FaultServer() as served:
        with ChatClient(settings(served.url, **priced), tmp_path) as chat:
            found = chat.complete(many)
            assert chat.counts.calls == len(served.asked) == failures(found).count(None)
            assert 5 <= len(served.asked) <= 6
            assert 20 - len(served.asked) == failures(found).count("budget")
            assert Price(prompt=1, completion=1).dollars(chat.counts.tokens, 0) == pytest.approx(
                chat.counts.money
            )
        with ChatClient(settings(served.url), tmp_path) as chat:
            assert [None] * 20 == failures(chat.complete(many))
        assert 20 == len(served.asked)


@law(60)
@given(
    st.integers(0, 400),
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_tokens_never_pass_their_ceiling(ceiling: int, calls: list[tuple[int, float]]):
    """Where no call uses more than its estimate, their sum stays within the ceiling."""
    counts = Counts()

    async def spend() -> None:
        budget = Budget(Ceilings(tokens=ceiling), Price(), counts)

        async def one(estimate: int, share: float) -> None:
            if await budget.reserve(Usage(0, estimate)):
                await asyncio.sleep(0)
                budget.settle(Usage(0, estimate), Usage(0, int(estimate * share)))

        await asyncio.gather(*(one(*call) for call in calls))

    asyncio.run(spend())
    assert counts.tokens <= ceiling
    if sum(estimate for estimate, _ in calls) <= ceiling:
        assert len(calls) == counts.calls


def test_an_estimate_counts_prompt_and_budget():
    """Characters make the prompt's tokens, the token budget bounds the reply's."""
    one = request(1, sampling=Sampling(max_tokens=70))
    assert 70 == Usage.expected(one).completion_tokens
    assert Usage.expected(one).prompt_tokens > len(one.messages[0].content) / 4


def test_money_without_a_price_is_refused():
    """A ceiling that could never be reached is a mistake in the settings."""
    with pytest.raises(ValidationError, match=f"a ceiling in money needs a price of '{MODEL}'"):
        settings(ADDRESSES[0], ceilings=Ceilings(money=1.0))


def test_every_setting_says_what_it_is():
    """Each field has a description, because a launchpad shows nothing else."""
    models = (type(settings(ADDRESSES[0])), Ceilings)
    bare = [n for m in models for n, f in m.model_fields.items() if not f.description]
    assert [] == bare
