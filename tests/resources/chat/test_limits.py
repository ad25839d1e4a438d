"""Pace, queues, retries, endpoints that are down and ceilings, many in made-up time."""

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fault_server as server
from chat_parts import MODEL, MadeUpTime, request, settings
from chat_served import client, reasons, served_chat
from decomposerl.chat import ChatFailure, ChatReply, Price, Sampling
from decomposerl.errors import ConfigError
from fault_server import Answer, FaultServer
from resources.chat.budget import Budget, Counts, Pace, Usage
from resources.chat.calls import DOWN_AFTER, Caller, Host
from resources.chat.client import ChatClient
from strategies import law

ADDRESSES = ("http://a/v1", "http://b/v1", "http://c/v1")


ESTIMATE = Usage.expected(request(1))
PRICED = {"prompt_price": 1, "completion_price": 1}


QUOTA = Answer(429, {"Retry-After": "86400"}, b'{"error": {"message": "daily quota"}}')


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
    """Sixty calls a minute, or sixty tokens; of tokens what was used counts, not the estimate."""
    for pace, least, most in (
        ({"requests_per_minute": 60}, 10, 12),
        ({"tokens_per_minute": 60, "concurrency": 1}, 140, 300),
    ):
        time = MadeUpTime()
        with served_chat(time=time, **pace) as (_, chat):
            chat.complete([request(number) for number in range(11)])
        assert least <= time.now - 1_000 <= most


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


def test_a_quota_of_a_day_is_not_waited_for():
    """The failure says what the endpoint said, after one call."""
    with served_chat(usual=QUOTA) as (served, chat):
        (outcome,) = chat.complete([request(1)])
    assert ("rate_limited", 1) == (outcome.reason, len(served.asked))
    assert "daily quota" in outcome.detail


@pytest.mark.parametrize(("begun", "waited_s"), [(False, 10), (True, 120)])
def test_an_address_where_nothing_listens_is_given_up_soon(begun: bool, waited_s: int):  # noqa: FBT001
    """After ten seconds; an endpoint that has answered before gets its whole patience."""
    time = MadeUpTime()
    with FaultServer() as served:
        chat = client(served.url, None, time, retries=0, concurrency=1)
        if begun:
            assert [None] == reasons(chat.complete([request(0)]))
    with chat:
        found = reasons(chat.complete([request(number) for number in range(1, 60)]))
    assert {"transport", "circuit_open"} == set(found)
    assert waited_s <= time.now - 1_000 < waited_s + 15


def test_the_least_loaded_endpoint_is_asked():
    """Calls in flight spread evenly; a slow endpoint gets fewer."""
    usual = Answer(delay_s=0.1)
    with FaultServer(usual=usual) as one, FaultServer(usual=usual) as two:
        with ChatClient(settings(one.url, two.url, concurrency=8), None) as chat:
            chat.complete([request(number) for number in range(8)])
        assert (4, 4) == (len(one.asked), len(two.asked))


def hosts(time: MadeUpTime, *down: int, urls: tuple[str, ...] = ADDRESSES) -> Caller:
    """A caller of some endpoints, of which those with these numbers are down."""
    timing = time.timing()
    made = Caller(settings(*urls), urls, None, Counts(), timing, sent_as="", needs_logprobs=False)
    for number in down:
        for _ in range(DOWN_AFTER):
            made.hosts[number].failed(timing)
    return made


def test_an_endpoint_is_down_after_faults_in_a_row_and_well_after_a_success():
    """A trial a cooldown; a success before there are too many starts the count again."""
    time = MadeUpTime()
    (host,) = hosts(time, urls=ADDRESSES[:1]).hosts
    for _ in range(2):
        for _ in range(DOWN_AFTER - 1):
            host.failed(time.timing())
        assert (None, True) == (host.down_since, host.ready_at <= time.now)
        host.succeeded()
    for _ in range(DOWN_AFTER):
        host.failed(time.timing())
    assert (1_000, 1_010) == (host.down_since, host.ready_at)
    host.succeeded()
    assert (None, True) == (host.down_since, host.ready_at <= time.now)


def test_one_trial_at_a_time_reaches_a_failing_endpoint():
    """Of those who wait for one that is down, one goes; the others wait another pause."""
    time = MadeUpTime()
    caller = hosts(time, 0, urls=ADDRESSES[:1])
    caller.hosts[0].reached = True

    async def three() -> list[float]:
        times = []
        for _ in range(3):
            assert isinstance(await caller.next_host(), Host)
            times.append(time.now)
        return times

    first, second, third = asyncio.run(three())
    assert first >= 1_010
    assert second >= first + 10
    assert third >= second + 10


def test_a_healthy_endpoint_takes_over_from_a_failing_one():
    """Only well endpoints are asked while there is one; a call that failed goes on to it."""
    caller = hosts(MadeUpTime(), 0, 2)
    for _ in range(5):
        chosen = asyncio.run(caller.next_host())
        assert isinstance(chosen, Host)
        assert ADDRESSES[1] == chosen.url
    with FaultServer(usual=server.BROKEN) as broken, FaultServer() as well:
        both = settings(broken.url, well.url, concurrency=4)
        with ChatClient(both, None, timing=MadeUpTime().timing(retries=9)) as chat:
            assert [None] * 50 == reasons(chat.complete([request(n) for n in range(50)]))
        assert len(broken.asked) <= 2 * DOWN_AFTER


@pytest.mark.parametrize(
    ("fault", "most_calls", "waited_s"),
    [(server.BROKEN, 80, 120.0), (server.UNKNOWN_KEY, 24, 0.0), (server.OTHER_MODEL, 24, 0.0)],
    ids=["down", "wrong key", "wrong model"],
)
def test_an_endpoint_that_stays_down_is_given_up(fault: Answer, most_calls: int, waited_s: float):
    """Of 150 requests most never leave; an outage is waited for, a wrong key is not."""
    time = MadeUpTime()
    with served_chat(usual=fault, time=time, concurrency=4) as (served, chat):
        last = chat.complete([request(number) for number in range(150)])[-1]
        assert len(served.asked) <= most_calls
    assert isinstance(last, ChatFailure)
    assert "circuit_open" == last.reason
    assert any(said in last.detail for said in ("HTTP 500", "HTTP 401", "another"))
    assert waited_s <= time.now - 1_000 <= waited_s + 60


def test_an_outage_that_ends_in_time_costs_no_request():
    """45 failures, then a well server. Made-up time outruns real waits: patience has no end."""
    with served_chat([server.BROKEN] * 45, concurrency=8, patience_s=float("inf")) as (_, chat):
        assert [None] * 60 == reasons(chat.complete([request(number) for number in range(60)]))


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
            assert chat.counts.calls == len(served.asked) == reasons(outcomes).count(None)
            assert 5 <= len(served.asked) <= 6
            assert 20 - len(served.asked) == reasons(outcomes).count("budget")
            assert Price(prompt=1, completion=1).dollars(chat.counts.tokens, 0) == pytest.approx(
                chat.counts.money
            )
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
        budget = Budget(settings(tokens=ceiling), counts)

        async def one(estimate: int, share: float) -> None:
            if await budget.reserve(Usage(0, estimate)):
                await asyncio.sleep(0)
                budget.spend(Usage(0, int(estimate * share)))
                budget.release(Usage(0, estimate), sent=True)

        await asyncio.gather(*(one(*call) for call in calls))

    asyncio.run(spend())
    assert counts.tokens <= ceiling
    if sum(estimate for estimate, _ in calls) <= ceiling:
        assert len(calls) == counts.calls


def test_a_reservation_costs_the_same_however_many_there_are():
    """Threads that each send a rollout's calls reserve thousands, in the loop that sends them."""

    async def reserve() -> float:
        budget, started = Budget(settings(), Counts()), time.process_time()
        for _ in range(10_000):
            assert await budget.reserve(ESTIMATE)
        return time.process_time() - started

    assert asyncio.run(reserve()) < 3  # 0.1; where each sums all of them 10


def test_an_estimate_counts_prompt_and_budget():
    """Characters make the prompt's tokens, the token budget bounds the reply's."""
    one = request(1, sampling=Sampling(max_tokens=70))
    assert 70 == Usage.expected(one).completion_tokens
    assert Usage.expected(one).prompt_tokens > len(one.messages[0].content) / 4


def test_money_needs_a_price_and_a_ceiling_names_itself():
    """A ceiling in money would never stop a run whose costs are no number of 0 or more."""
    with pytest.raises(ConfigError, match=f"'{MODEL}'"):
        client(ADDRESSES[0], dollars=1.0)
    for dollars in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="price"):
            Price(prompt=dollars)
    with served_chat(calls=1) as (_, chat):
        _, failure = chat.complete([request(1), request(2)])
    assert isinstance(failure, ChatFailure)
    assert "1 calls" in failure.detail


@pytest.mark.parametrize(
    "ceilings", [{"tokens": 5 * ESTIMATE.tokens}, {"dollars": 5 * ESTIMATE.tokens / 1e6 + 1e-9}]
)
def test_a_ceiling_holds_where_no_usage_is_reported(ceilings: dict[str, float]):
    """Such a reply is booked as estimated: five calls fit, not all twenty."""
    with served_chat(usual=server.NO_USAGE, **ceilings, **PRICED) as (served, chat):
        outcomes = chat.complete([request(number) for number in range(20)])
        assert [5, 15] == [reasons(outcomes).count(reason) for reason in (None, "budget")]
        assert 5 == len(served.asked) == chat.counts.estimated
        assert 5 * ESTIMATE.tokens == chat.counts.tokens
        assert 5 == chat.counts.metadata()["estimated"]


@pytest.mark.parametrize(
    ("fault", "calls", "estimated", "spent"),
    [
        (server.CUT, 3, 3, 3 * ESTIMATE.prompt_tokens),
        (server.HANGING, 1, 1, ESTIMATE.prompt_tokens),
        (server.NO_JSON, 3, 3, 3 * ESTIMATE.prompt_tokens),
        (server.BROKEN, 3, 0, 0),
        (server.REFUSED, 1, 0, 0),
        (server.WELL, 1, 0, 15),
    ],
    ids=["cut", "timed out", "no completion", "broken", "refused", "well"],
)
def test_a_call_that_brought_no_reply_costs_its_prompt(
    fault: Answer, calls: int, estimated: int, spent: int
):
    """The endpoint read it; what it wrote nobody knows. A refusal costs nothing."""
    deadline_s = 0.3 if fault is server.HANGING else 20.0
    with served_chat(usual=fault, deadline_s=deadline_s) as (served, chat):
        chat.complete([request(1)])
        assert (calls, estimated) == (len(served.asked), chat.counts.estimated)
        written = 5 if fault is server.WELL else 0
        assert (spent, written) == (chat.counts.tokens, chat.counts.completion_tokens)


@pytest.mark.parametrize("pace", [{"requests_per_minute": 60}, {"tokens_per_minute": 600}])
def test_a_ceiling_stops_at_once_whatever_the_pace(pace: dict[str, float]):
    """Of 300 calls five are allowed: the others take no time and no part of the pace."""
    time = MadeUpTime()
    limits = {"calls": 5, "concurrency": 8, **pace}
    with served_chat(time=time, **limits) as (served, chat):
        outcomes = chat.complete([request(number) for number in range(300)])
        assert (5, 5) == (len(served.asked), chat.counts.calls)
    assert 295 == reasons(outcomes).count("budget")
    assert time.now - 1_000 <= 60


def test_what_no_endpoint_takes_gives_its_pace_and_reservation_back():
    """Refusals for want of an endpoint cost neither time nor calls of the ceiling."""
    time = MadeUpTime()
    limits = {"requests_per_minute": 60, "concurrency": 1, "calls": DOWN_AFTER + 1}
    with served_chat(usual=server.UNKNOWN_KEY, time=time, **limits) as (_, chat):
        outcomes = chat.complete([request(number) for number in range(100)])
        assert ["refused", "circuit_open"] == list(dict.fromkeys(reasons(outcomes)))
        assert DOWN_AFTER == chat.counts.calls
    assert time.now - 1_000 <= DOWN_AFTER + 1


def test_a_released_reservation_lets_another_go():
    """Whoever waits for room takes that of a call that was not sent."""
    counts = Counts()

    async def spend() -> bool:
        budget = Budget(settings(calls=1), counts)
        assert await budget.reserve(ESTIMATE)
        second = asyncio.create_task(budget.reserve(ESTIMATE))
        await asyncio.sleep(0)
        budget.release(ESTIMATE, sent=False)
        return await second

    assert asyncio.run(spend())
    assert 1 == counts.calls


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


# A busy server is no failure, a hung one is


WORK = Answer(delay_s=0.2)


def queued(served: FaultServer, calls: int, **changes: object) -> list[ChatReply | ChatFailure]:
    """The outcomes of calls that are sent at once, in real time."""
    with ChatClient(settings(served.url, **changes), None) as chat:
        chat.complete([request(99)])  # loads the openai package
        return chat.complete([request(number) for number in range(calls)])


def test_a_call_in_the_queue_of_a_busy_server_is_not_overdue():
    """Sixteen calls, worked on one by one for 3.2 s: the deadline of 1.6 s is no one's."""
    with FaultServer(usual=WORK, at_once=1) as served:
        assert [None] * 16 == reasons(queued(served, 16, deadline_s=1.6))
        assert 17 == len(served.asked)


def test_a_queue_that_stands_still_is_a_hung_server():
    """After two replies none comes: the others end a deadline later, all at about one time."""
    with FaultServer([server.WELL, WORK, WORK], usual=server.HANGING, at_once=1) as served:
        started = time.monotonic()
        outcomes = queued(served, 6, deadline_s=0.8)
    assert [None, None, *["timeout"] * 4] == sorted(reasons(outcomes), key=str)
    assert 1.0 < time.monotonic() - started < 10.0


def test_replies_to_later_calls_do_not_hold_up_a_lost_one():
    """The first call gets no reply while those behind it do: its own deadline ends it."""
    with FaultServer([server.WELL, server.HANGING], usual=WORK) as served:
        outcomes = queued(served, 16, deadline_s=1.2, concurrency=2)
    assert ["timeout", *[None] * 15] == reasons(outcomes)
    assert isinstance(outcomes[0], ChatFailure)
    assert float(outcomes[0].detail.split()[3]) < 2.0, outcomes[0].detail


def test_no_queue_is_waited_for_without_end():
    """Replies keep coming, but the call at the end has waited as long as a queue may take."""
    with FaultServer(usual=WORK, at_once=1) as served:
        outcomes = queued(served, 16, deadline_s=1.2, queue_deadline_s=1.9)
    assert {None, "timeout"} == set(reasons(outcomes))
    assert isinstance(outcomes[-1], ChatFailure)
    assert 1.9 <= float(outcomes[-1].detail.split()[3])
    # A deadline above that of the queue is meant as it stands.
    with FaultServer(usual=WORK) as served:
        outcomes = queued(served, 1, deadline_s=5.0, queue_deadline_s=0.05)
    assert [None] == reasons(outcomes)
