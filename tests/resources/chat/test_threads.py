"""Batches beside each other, and what an interrupt or a kill at any moment costs.

In threads of one client, and in clients and processes of one cache.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import chat_child
import fault_server as server
from chat_child import IN_FLIGHT
from chat_parts import frame_of, request, settings
from chat_served import client, served_chat, texts
from fault_server import MODEL, Answer, FaultServer, well_text
from project import PYTHONPATH, ROOT
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE, ReplyStore


def wait_until_asked(served: FaultServer, times: int) -> None:
    while len(served.asked) < times:
        time.sleep(0.005)


@contextmanager
def interrupted(when: Callable[[], None]) -> Iterator[None]:
    """Interrupt this thread after ``when``, by the signal that wakes it under a guard."""
    main = threading.get_ident()

    def interrupt() -> None:
        when()
        signal.pthread_kill(main, signal.SIGURG)

    before = signal.signal(signal.SIGURG, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        thread.join()
        signal.signal(signal.SIGURG, before)


def test_threads_share_the_requests_in_flight(tmp_path: Path):
    """Four threads ask the same ten questions at once: each is sent once, all are answered."""
    many = [request(number) for number in range(10)]
    with (
        FaultServer(usual=Answer(delay_s=0.2)) as served,
        ChatClient(settings(served.url), tmp_path) as chat,
        ThreadPoolExecutor(4) as pool,
    ):
        found = [batch.result() for batch in [pool.submit(chat.complete, many) for _ in range(4)]]
        assert 10 == len(served.asked)
        assert (40, 30) == (chat.counts.asked, chat.counts.shared)
    expected = [well_text(f"q {number}") for number in range(10)]
    assert [expected] * 4 == [texts(batch) for batch in found]


def test_closing_does_not_wait_for_a_server_that_starts(tmp_path: Path):
    """A client that is closed while its server starts is closed at once, and sends nothing."""
    starting, started = threading.Event(), threading.Event()

    def access() -> tuple[tuple[str, ...], None]:
        starting.set()
        assert started.wait(30)
        return ("http://127.0.0.1:9",), None

    with ThreadPoolExecutor(1) as pool:
        chat = ChatClient(settings(), tmp_path, find_access=access)
        batch = pool.submit(chat.complete, [request(1)])
        assert starting.wait(30)
        chat.close()
        assert not started.is_set()
        started.set()
        with pytest.raises(RuntimeError, match="closed"):
            batch.result()


def test_no_more_calls_are_in_flight_than_allowed():
    """The server never sees more than ``concurrency`` requests at once, over two batches too."""
    with (
        FaultServer(usual=Answer(delay_s=0.02)) as served,
        ChatClient(settings(served.url, concurrency=5), None) as chat,
        ThreadPoolExecutor(2) as pool,
    ):
        batches = [[request(n) for n in range(start, start + 15)] for start in (0, 15)]
        list(pool.map(chat.complete, batches))
        assert (30, 5) == (len(served.asked), served.most_in_flight)


def test_an_interrupt_keeps_the_replies_that_are_on_their_way(tmp_path: Path):
    """Four of forty questions were sent: they are paid for, stored, and no fifth is sent."""
    many = [request(number) for number in range(40)]
    with FaultServer(usual=Answer(delay_s=0.5)) as served:
        with (
            ChatClient(settings(served.url, concurrency=4), tmp_path) as chat,
            interrupted(lambda: wait_until_asked(served, 4)),
        ):
            chat.complete(many)
        assert 4 == len(served.asked)
        with ChatClient(settings(served.url), tmp_path) as again:
            found = again.complete(many)
        assert (40, 4) == (len(served.asked), again.counts.hits)
        assert [well_text(f"q {number}") for number in range(40)] == texts(found)


def test_an_interrupt_does_not_wait_for_a_server_that_hangs(tmp_path: Path):
    """A second, no more; what did not come is asked by the next run."""
    with (
        FaultServer([server.HANGING]) as served,
        ChatClient(settings(served.url, call_deadline_s=60.0), tmp_path) as chat,
    ):
        started = time.monotonic()
        with interrupted(lambda: wait_until_asked(served, 1)):
            chat.complete([request(1)])
        assert time.monotonic() - started < 20


def test_a_batch_that_is_given_up_takes_no_other_with_it():
    """The deadline of the batch that asked passes; the one that waits along asks itself."""
    with (
        FaultServer([server.HANGING]) as served,
        ChatClient(settings(served.url, batch_deadline_s=1.0), None) as chat,
        ThreadPoolExecutor(1) as pool,
    ):
        early = pool.submit(chat.complete, [request(1)])
        wait_until_asked(served, 1)
        time.sleep(0.4)
        (late,) = chat.complete([request(1)])
        assert well_text("q 1") == late.text
        assert "timeout" == early.result()[0].reason
        assert 2 == len(served.asked)


def test_two_clients_of_one_cache_hand_out_the_same_reply(tmp_path: Path):
    """Both asked before either answer was stored: the first stored is what both return."""
    with (
        FaultServer(usual=server.replying("first")) as quick,
        FaultServer([Answer(delay_s=0.6, change=server.replying("second").change)]) as slow,
        ChatClient(settings(quick.url), tmp_path) as one,
        ChatClient(settings(slow.url), tmp_path) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        late = pool.submit(other.complete, [request(1)])
        wait_until_asked(slow, 1)
        assert "first" == one.complete([request(1)])[0].text
        assert "first" == late.result()[0].text


def test_closing_ends_batches_that_still_run():
    """Nobody waits forever for a client that another thread closed."""
    with FaultServer(usual=server.HANGING) as served, ThreadPoolExecutor(1) as pool:
        chat = ChatClient(settings(served.url), None)
        running = pool.submit(chat.complete, [request(1)])
        wait_until_asked(served, 1)
        chat.close()
        with pytest.raises(CancelledError):
            running.result(timeout=20)


def test_what_is_handed_back_is_on_disk(tmp_path: Path):
    """As soon as ``complete`` returns, another process finds every reply."""
    many = [request(number) for number in range(10)]
    with FaultServer() as served, ChatClient(settings(served.url), tmp_path) as chat:
        for number in range(10):
            chat.complete(many[number : number + 1])
            with ChatClient(settings(served.url), tmp_path) as other:
                assert other.store is not None
                assert number + 1 == frame_of(other.store).height


def test_a_closed_client_says_so(tmp_path: Path):
    """No request is accepted that would never be answered; closing twice does nothing."""
    chat = ChatClient(settings("http://127.0.0.1:1/v1"), tmp_path)
    chat.close()
    chat.close()
    with pytest.raises(RuntimeError, match="closed"):
        chat.complete([request(1)])


def test_the_deadline_is_one_for_all_attempts():
    """Retries do not renew it: nine attempts are allowed, the time is over before."""
    slow_fault = Answer(500, {}, b"{}", delay_s=0.3)
    with served_chat(usual=slow_fault, attempts=9, call_deadline_s=1.5) as (served, chat):
        (failure,) = chat.complete([request(1)])
        assert failure.reason in {"timeout", "server_error"}
        assert len(served.asked) < 9


# Kills of processes


ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH}
OF_OPENAI = {"OPENAI_API_KEY": "sk-environment", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
SIZE, KILLED_AFTER = 700, 300
PATIENCE_S = 120


def child(
    *arguments: object, environment: Mapping[str, str] = ENVIRONMENT
) -> "subprocess.Popen[str]":
    command = [sys.executable, chat_child.__file__, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert -signal.SIGKILL == process.returncode


def stored_replies(data: Path) -> int:
    with ReplyStore(data / REPLIES_FILE, MODEL) as cache:
        return frame_of(cache).height


def test_a_killed_batch_asks_only_for_what_is_missing(tmp_path: Path):
    """After kill -9 in the middle, the next run asks the rest once and the result is whole."""
    with FaultServer(usual=Answer(delay_s=0.002)) as served:
        running = child("batch", served.url, tmp_path, SIZE)
        while len(served.asked) < KILLED_AFTER:
            assert running.poll() is None
            time.sleep(0.01)
        kill(running)
        kept = stored_replies(tmp_path)
        assert 0 < kept < SIZE
        served.asked.clear()
        with client(served.url, tmp_path, concurrency=64) as chat:
            found = chat.complete([request(number) for number in range(SIZE)])
            assert (kept, SIZE - kept) == (chat.counts.hits, chat.counts.calls)
        assert SIZE - kept == len(served.asked) == len(set(served.prompts))
    assert [well_text(f"q {number}") for number in range(SIZE)] == texts(found)


def test_an_interrupted_batch_keeps_what_came(tmp_path: Path):
    """Ctrl-C ends the program at once, quietly but for its own trace; replies are stored.

    Variables that the openai package reads by itself change neither key nor address.
    """
    with FaultServer([server.WELL] * 9, usual=server.HANGING) as served:
        running = child("batch", served.url, tmp_path, 200, environment=ENVIRONMENT | OF_OPENAI)
        while len(served.asked) < 9 + IN_FLIGHT:  # so all nine replies were received
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, complaint = running.communicate(timeout=PATIENCE_S)
    assert "KeyboardInterrupt" in complaint
    assert "was destroyed" not in complaint
    assert 9 == stored_replies(tmp_path)
    assert {"Bearer none"} == set(served.authorizations)


@pytest.mark.parametrize("lines", [1, 40])
def test_what_was_flushed_survives_a_kill_while_writing(lines: int, tmp_path: Path):
    """Each reply that ``flush`` returned for is there, the file is whole, and can be written."""
    writing = child("write", tmp_path)
    assert writing.stdout is not None
    flushed = [int(writing.stdout.readline()) for _ in range(lines)][-1]
    kill(writing)
    with ReplyStore(tmp_path / REPLIES_FILE, MODEL) as cache:
        held = cache.get([f"{number:064x}" for number in range(flushed + 1)])
        assert [f"r {n}" for n in range(flushed + 1)] == [held[k].text for k in sorted(held)]
        check = frame_of(cache)
        assert check.height == check["key"].n_unique() >= flushed + 1


def test_the_first_of_several_processes_wins_everywhere(tmp_path: Path):
    """Processes that store under the same keys at once all hold the same replies after."""
    racing = [child("race", tmp_path, name) for name in "abc"]
    held = {process.communicate(timeout=PATIENCE_S)[0] for process in racing}
    assert [0] * len(racing) == [process.returncode for process in racing]
    assert 1 == len(held)
    assert len(chat_child.RACED_KEYS) == len(held.pop().split())
