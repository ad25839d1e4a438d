"""The reply cache: what is stored comes back as it was, once and for all."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_parts import TEMPLATE, frame_of, replies, reply, request, requests, settings
from decomposerl.chat import ChatReply, ChatRequest
from decomposerl.errors import StorageError
from object_server import BUCKET, ObjectServer, object_server
from resources.chat import reply_store as module
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE, ReplyStore, ReplyStoreError, StoredReply
from resources.chat.shared_replies import replies_in
from resources.chat.wire import request_key
from resources.store.mirror import attach, detach
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
    """All fields survive, before and after writing, and the reply is marked as cached."""
    expected = {f"{row:064x}": reply for row, reply in enumerate(made)}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.sqlite"
        with ReplyStore(path, "m") as cache:
            for key, one in expected.items():
                cache.put(StoredReply(key, one, TEMPLATE))
            early = cache.get(list(expected))
        with ReplyStore(path, "m") as cache:
            late = cache.get([*expected, KEY])
    assert early == late
    assert {k: unmarked(one) for k, one in late.items()} == expected
    assert all(one.cached for one in late.values())


def unmarked(one: ChatReply) -> ChatReply:
    plain = {name: getattr(one, name) for name in ChatReply.__dataclass_fields__}
    return ChatReply(**plain | {"cached": False})


def test_the_first_reply_stays(tmp_path: Path):
    """A later one under the same key is dropped, and ``flush`` tells what stays instead."""
    with ReplyStore(tmp_path / "c", "m") as early, ReplyStore(tmp_path / "c", "m") as late:
        early.put(StoredReply(KEY, reply("first"), TEMPLATE))
        early.put(StoredReply(KEY, reply("at once after it"), TEMPLATE))
        assert "first" == early.get([KEY])[KEY].text
        assert {} == early.flush()
        late.put(StoredReply(KEY, reply("second"), TEMPLATE))
        late.put(StoredReply(OTHER, reply("third"), TEMPLATE))
        assert ["first"] == [one.text for one in late.flush().values()]
        assert {} == late.flush()
        assert ["first", "third"] == frame_of(early)["text"].to_list()


def test_a_rejected_reply_is_replaced_and_no_other(tmp_path: Path):
    """A writer that names the stored text replaces it; one that names another does not."""
    with ReplyStore(tmp_path / "c", "m") as cache:
        cache.put(StoredReply(KEY, reply("bad"), TEMPLATE))
        cache.put(StoredReply(KEY, reply("good"), TEMPLATE, replaces="bad"))
        cache.flush()
        cache.put(StoredReply(KEY, reply("late"), TEMPLATE, replaces="bad"))
        cache.flush()
        assert "good" == cache.get([KEY])[KEY].text


def test_more_keys_than_one_query_holds_are_found(tmp_path: Path):
    """A look-up of thousands of keys misses none."""
    keys = [f"{number:064x}" for number in range(1_777)]
    with ReplyStore(tmp_path / "c", "m") as cache:
        for key in keys:
            cache.put(StoredReply(key, reply(key), TEMPLATE))
        cache.flush()
        assert {key: key for key in keys} == {k: r.text for k, r in cache.get(keys).items()}


def test_replies_are_written_without_a_flush(tmp_path: Path):
    """A full batch goes to disk by itself, so a kill never loses much more than that."""
    with ReplyStore(tmp_path / "c", "m") as cache, ReplyStore(tmp_path / "c", "m") as other:
        for number in range(module.BATCH_ROWS):
            cache.put(StoredReply(f"{number:064x}", reply("text"), TEMPLATE))
        while frame_of(other).height < module.BATCH_ROWS:
            assert cache.get([KEY]) == {}


def test_the_frame_can_be_a_parquet_file(tmp_path: Path):
    """All columns have plain types, in an empty cache too, and prompts are not among them."""
    with ReplyStore(tmp_path / "c", "m", "r") as cache:
        empty = frame_of(cache)
        cache.put(StoredReply(KEY, reply("text"), TEMPLATE))
        full = frame_of(cache)
    full.write_parquet(tmp_path / "cache.parquet")
    assert empty.schema == full.schema == pl.read_parquet_schema(tmp_path / "cache.parquet")
    assert ("m", "r", "silver", "0f") == full.row(0)[1:5]
    assert request(1).messages[0].content not in str(full.rows())


def test_a_file_of_another_kind_is_an_error_that_names_it(tmp_path: Path):
    """Neither overwritten nor taken for an empty cache."""
    path = tmp_path / "c"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(ReplyStoreError, match=str(path)):
        ReplyStore(path, "m")
    assert b"no database" * 100 == path.read_bytes()


def test_a_reply_that_cannot_be_written_is_an_error(tmp_path: Path):
    """Storing fails aloud: at the next flush and at every reply after it."""
    with ReplyStore(tmp_path / "c", "m") as cache:
        other = sqlite3.connect(tmp_path / "c")
        other.execute("DROP TABLE replies")
        other.close()
        cache.put(StoredReply(KEY, reply("text"), TEMPLATE))
        for use in (
            cache.flush,
            lambda: cache.put(StoredReply(OTHER, reply("text"), TEMPLATE)),
            lambda: cache.get([OTHER]),
        ):
            with pytest.raises(ReplyStoreError):
                use()


def test_a_closed_cache_takes_no_reply(tmp_path: Path):
    """A reply is never accepted that will not be written; closing twice does nothing."""
    cache = ReplyStore(tmp_path / "c", "m")
    cache.close()
    cache.close()
    with pytest.raises(ReplyStoreError, match="closed"):
        cache.put(StoredReply(KEY, reply("text"), TEMPLATE))


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
        assert (1, 0) == (chat.counts.hits, chat.counts.calls)
        assert chat.store is not None
        assert [row] == frame_of(chat.store).rows()


# A bucket that several machines have


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[list[Path], ObjectServer]]:
    """The caches of two machines, and the server that has their bucket."""
    with object_server() as server:
        url, names = f"s3://{BUCKET}", ("one", "two")
        folders = [attach(url, tmp_path / name, server.options()) for name in names]
        yield [folder / "engine_results" / REPLIES_FILE for folder in folders], server
        for folder in folders:
            detach(folder)


def test_a_reply_of_one_machine_is_a_hit_on_another(shared: tuple[list[Path], ObjectServer]):
    """Each is sent once, at the next chance; the first under a key stays; a table shows all.

    A failure to send loses no reply: the machine's own file has it.
    """
    caches, server = shared
    for number, cache in enumerate(caches):
        with ReplyStore(cache, "m") as store:
            assert number == len(store.get(["0"]))
            store.put(StoredReply("same", reply(f"of {number}"), TEMPLATE))
            store.put(StoredReply(str(number), reply("text"), TEMPLATE))
    assert (
        {"0", "1", "same"} == set(replies_in(caches[0])["key"]) == set(replies_in(caches[1])["key"])
    )
    assert 2 == len(server.objects())
    with ReplyStore(caches[1], "m") as store:
        assert {"0", "1", "same"} == set(store.get(["0", "1", "same", "none"]))
    assert 2 == len(server.objects())
    store = ReplyStore(caches[0], "m")
    store.put(StoredReply("unsent", reply("text"), TEMPLATE))
    server.fail("503", "PUT", times=99)
    with pytest.raises(StorageError):
        store.close()
    assert "unsent" in replies_in(caches[0])["key"]
    server.faults.clear()
    ReplyStore(caches[0], "m").close()
    assert "unsent" in replies_in(caches[1])["key"]
