"""The reply cache: what is stored comes back as it was, once and for all.

Batches beside each other, in threads, clients and processes of one cache, and what an interrupt
or a kill at any moment costs.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

import chat_child
import fault_server as server
from chat_child import IN_FLIGHT
from chat_parts import TEMPLATE, frame_of, replies, reply, request, requests, settings
from chat_served import client, served_chat, texts
from decomposerl.chat import ChatReply, ChatRequest
from decomposerl.errors import EngineError
from fault_server import MODEL, Answer, FaultServer, well_text
from project import PYTHONPATH, ROOT
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE, ReplyStore
from resources.chat.wire import request_key
from strategies import law

KEY, OTHER = "1" * 64, "2" * 64


@given(requests, requests)
def test_keys_differ_exactly_where_requests_do(one: ChatRequest, other: ChatRequest):
    """Two requests share a key if and only if they are equal."""
    assert (one == other) == (request_key(one, "m", "") == request_key(other, "m", ""))
    assert request_key(one, "m", "") == request_key(one, "m", "")


@given(requests)
def test_models_and_revisions_have_keys_of_their_own(one: ChatRequest):
    """The same request to another model, or another revision, is another question."""
    assert 4 == len({request_key(one, model, revision) for model in "ab" for revision in "ab"})


@law(50)
@given(st.lists(replies, min_size=1, max_size=5))
def test_a_reply_comes_back_as_it_was(made: list[ChatReply]):
    """All fields survive, and the reply is marked as cached."""
    expected = {f"{row:064x}": reply for row, reply in enumerate(made)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.sqlite"
        with ReplyStore(path, "m") as cache:
            for key, one in expected.items():
                cache.put(key, one, TEMPLATE)
        with ReplyStore(path, "m") as cache:
            late = cache.get([*expected, KEY])
    assert {k: unmarked(one) for k, one in late.items()} == expected
    assert all(one.cached for one in late.values())


def unmarked(one: ChatReply) -> ChatReply:
    return replace(one, cached=False)


def test_the_first_reply_stays(tmp_path: Path):
    """A later one under the same key is dropped, and ``put`` says so, also to another store."""
    with ReplyStore(tmp_path / "c", "m") as early, ReplyStore(tmp_path / "c", "m") as late:
        assert early.put(KEY, reply("first"), TEMPLATE)
        assert not early.put(KEY, reply("after it"), TEMPLATE)
        assert not late.put(KEY, reply("second"), TEMPLATE)
        assert late.put(OTHER, reply("third"), TEMPLATE)
        assert ["first", "third"] == frame_of(early)["text"].to_list()


def test_a_rejected_reply_is_replaced_and_no_other(tmp_path: Path):
    """A writer that names the stored text replaces it; one that names another does not."""
    with ReplyStore(tmp_path / "c", "m") as cache:
        cache.put(KEY, reply("bad"), TEMPLATE)
        assert cache.put(KEY, reply("good"), TEMPLATE, replaces="bad")
        assert not cache.put(KEY, reply("late"), TEMPLATE, replaces="bad")
        assert "good" == cache.get([KEY])[KEY].text


def test_writing_waits_for_another_process_and_reading_does_not(tmp_path: Path):
    """Its lock holds up the writer alone, whose reply is on disk when ``put`` returns."""
    with (
        ReplyStore(tmp_path / "c", "m") as cache,
        closing(sqlite3.connect(tmp_path / "c", isolation_level=None)) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        cache.put(KEY, reply("first"), TEMPLATE)
        other.execute("BEGIN IMMEDIATE")
        late = pool.submit(cache.put, OTHER, reply("second"), TEMPLATE)
        assert [KEY] == list(cache.get([KEY, OTHER]))
        other.execute("COMMIT")
        assert late.result()
        assert [KEY, OTHER] == list(cache.get([KEY, OTHER]))


def test_more_keys_than_one_query_holds_are_found(tmp_path: Path):
    """A look-up of thousands of keys misses none."""
    keys = [f"{number:064x}" for number in range(1_777)]
    with ReplyStore(tmp_path / "c", "m") as cache:
        for key in keys:
            cache.put(key, reply(key), TEMPLATE)
        assert {key: key for key in keys} == {k: r.text for k, r in cache.get(keys).items()}


def test_the_frame_can_be_a_parquet_file(tmp_path: Path):
    """All columns have plain types, in an empty cache too, and prompts are not among them."""
    with ReplyStore(tmp_path / "c", "m", "r") as cache:
        empty = frame_of(cache)
        cache.put(KEY, reply("text"), TEMPLATE)
        full = frame_of(cache)
    full.write_parquet(tmp_path / "cache.parquet")
    assert empty.schema == full.schema == pl.read_parquet_schema(tmp_path / "cache.parquet")
    assert ("m", "r", "silver", "0f") == full.row(0)[1:5]
    assert request(1).messages[0].content not in str(full.rows())


def test_a_file_of_another_kind_is_an_error_that_names_it(tmp_path: Path):
    """Neither overwritten nor taken for an empty cache."""
    path = tmp_path / "c"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(EngineError, match=str(path)):
        ReplyStore(path, "m")
    assert b"no database" * 100 == path.read_bytes()


def test_a_reply_that_cannot_be_written_is_an_error(tmp_path: Path):
    """Storing and looking up fail aloud."""
    with ReplyStore(tmp_path / "c", "m") as cache:
        other = sqlite3.connect(tmp_path / "c")
        other.execute("DROP TABLE replies")
        other.close()
        with pytest.raises(EngineError):
            cache.put(KEY, reply("text"), TEMPLATE)
        with pytest.raises(EngineError):
            cache.get([OTHER])


def test_a_closed_cache_takes_no_reply(tmp_path: Path):
    """A reply is never accepted that will not be written; closing twice does nothing."""
    cache = ReplyStore(tmp_path / "c", "m")
    cache.close()
    cache.close()
    with pytest.raises(EngineError, match="closed"):
        cache.put(KEY, reply("text"), TEMPLATE)


FIRST_LAYOUT = """
CREATE TABLE replies (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, revision TEXT NOT NULL, template TEXT NOT NULL,
  template_digest TEXT NOT NULL, text TEXT NOT NULL, finish_reason TEXT NOT NULL,
  reported_model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, latency_s REAL NOT NULL, tokens TEXT
)"""
FIRST_KEY = "2e5a3e59e84dac336fd733cf08ba063c2cf50f4c14e0e4922407ca66545fbf93"
"""Of ``request(1)`` to revision r1 of the model "tiny", since the first version."""


def test_a_file_of_an_earlier_version_answers(tmp_path: Path):
    """No reply that was paid for is asked again after an update: same file, same keys."""
    file = sqlite3.connect(tmp_path / REPLIES_FILE)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute(FIRST_LAYOUT)
    row = (FIRST_KEY, "tiny", "r1", "silver", "0f", "Paid.", "stop", "tiny", 3, 2, 0.5, None)
    file.execute("INSERT INTO replies VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", row)
    file.commit()
    file.close()
    nowhere = settings("http://127.0.0.1:1/v1", revision="r1")
    with ChatClient(nowhere, tmp_path) as chat:
        assert ["Paid."] == [one.text for one in chat.complete([request(1)])]
        assert (1, 0) == (chat.counts["hits"], chat.counts["calls"])
        assert chat.store is not None
        assert [row] == frame_of(chat.store).rows()


# Batches beside each other


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
        assert (40, 30) == (chat.counts["asked"], chat.counts["shared"])
    expected = [well_text(f"q {number}") for number in range(10)]
    assert [expected] * 4 == [texts(batch) for batch in found]


def test_closing_does_not_wait_for_a_server_that_starts(tmp_path: Path):
    """A client that is closed while its server starts is closed at once, and sends nothing."""
    starting, started = threading.Event(), threading.Event()

    def access() -> tuple[tuple[str, ...], SecretStr]:
        starting.set()
        assert started.wait(30)
        return ("http://127.0.0.1:9",), SecretStr("")

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


def test_an_interrupt_does_not_wait_for_a_server_that_hangs(tmp_path: Path):
    """What did not come is asked by the next run."""
    with (
        FaultServer([server.HANGING]) as served,
        ChatClient(settings(served.url, deadline_s=60.0), tmp_path) as chat,
    ):
        started = time.monotonic()
        with interrupted(lambda: wait_until_asked(served, 1)):
            chat.complete([request(1)])
        assert time.monotonic() - started < 20


def test_a_batch_that_is_given_up_takes_no_other_with_it():
    """The batch that asked is interrupted; the one that waits along asks itself."""
    with (
        FaultServer([server.HANGING]) as served,
        ChatClient(settings(served.url), None) as chat,
        ThreadPoolExecutor(1) as pool,
    ):

        def beside() -> list[object]:
            wait_until_asked(served, 1)
            return [*chat.complete([request(1)])]

        def waited() -> None:
            wait_until_asked(served, 1)
            time.sleep(0.4)

        late = pool.submit(beside)
        with interrupted(waited):
            chat.complete([request(1)])
        assert [well_text("q 1")] == texts(late.result())
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
    """Nobody waits forever for a client that another thread closed; it takes nothing more."""
    with FaultServer(usual=server.HANGING) as served, ThreadPoolExecutor(1) as pool:
        chat = ChatClient(settings(served.url), None)
        running = pool.submit(chat.complete, [request(1)])
        wait_until_asked(served, 1)
        chat.close()
        chat.close()
        with pytest.raises(CancelledError):
            running.result(timeout=20)
        with pytest.raises(RuntimeError, match="closed"):
            chat.complete([request(1)])


def test_what_is_handed_back_is_on_disk(tmp_path: Path):
    """As soon as ``complete`` returns, another process finds every reply."""
    many = [request(number) for number in range(10)]
    with FaultServer() as served, ChatClient(settings(served.url), tmp_path) as chat:
        for number in range(10):
            chat.complete(many[number : number + 1])
            with ChatClient(settings(served.url), tmp_path) as other:
                assert other.store is not None
                assert number + 1 == frame_of(other.store).height


def test_the_deadline_is_one_for_all_attempts():
    """Retries do not renew it: nine attempts are allowed, the time is over before."""
    slow_fault = Answer(500, {}, b"{}", delay_s=0.3)
    with served_chat(usual=slow_fault, retries=9, deadline_s=1.5) as (served, chat):
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
            assert (kept, SIZE - kept) == (chat.counts["hits"], chat.counts["calls"])
        assert SIZE - kept == len(served.asked) == len(set(served.prompts))
    assert [well_text(f"q {number}") for number in range(SIZE)] == texts(found)


def test_an_interrupted_batch_keeps_what_came(tmp_path: Path):
    """Ctrl-C ends it at once, quietly; replies are stored; openai's variables change nothing."""
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
def test_what_was_stored_survives_a_kill_while_writing(lines: int, tmp_path: Path):
    """Each reply that ``put`` returned for is there, the file is whole, and can be written."""
    writing = child("write", tmp_path)
    assert writing.stdout is not None
    stored = [int(writing.stdout.readline()) for _ in range(lines)][-1]
    kill(writing)
    with ReplyStore(tmp_path / REPLIES_FILE, MODEL) as cache:
        held = cache.get([f"{number:064x}" for number in range(stored + 1)])
        assert [f"r {n}" for n in range(stored + 1)] == [held[k].text for k in sorted(held)]
        check = frame_of(cache)
        assert check.height == check["key"].n_unique() >= stored + 1


def test_the_first_of_several_processes_wins_everywhere(tmp_path: Path):
    """Processes that store under the same keys at once all hold the same replies after."""
    racing = [child("race", tmp_path, name) for name in "abc"]
    held = {process.communicate(timeout=PATIENCE_S)[0] for process in racing}
    assert [0] * len(racing) == [process.returncode for process in racing]
    assert 1 == len(held)
    assert len(chat_child.RACED_KEYS) == len(held.pop().split())
