"""A reply of one machine is one of each that has its bucket: nothing is paid for twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from decomposerl.chat import ChatReply, Template
from decomposerl.errors import StorageError
from object_server import BUCKET, ObjectServer, object_server
from resources.chat.reply_store import REPLIES_FILE, ReplyStore, StoredReply
from resources.chat.shared_replies import replies_in
from resources.store.mirror import attach, detach

TEMPLATE = Template("silver", "digest")


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as one:
        yield one


@pytest.fixture
def caches(server: ObjectServer, tmp_path: Path) -> Iterator[list[Path]]:
    """The caches of two machines."""
    url, names = f"s3://{BUCKET}", ("one", "two")
    folders = [attach(url, tmp_path / name, server.options()) for name in names]
    yield [folder / "engine_results" / REPLIES_FILE for folder in folders]
    for folder in folders:
        detach(folder)


def entry(key: str, text: str) -> StoredReply:
    reply = ChatReply(text, "stop", "m", 1, 2, 0.5)
    return StoredReply(key, reply, TEMPLATE)


def test_a_reply_of_one_machine_is_a_hit_on_another(caches: list[Path], server: ObjectServer):
    """Each is sent once; the first under a key stays; a table shows all."""
    for number, cache in enumerate(caches):
        with ReplyStore(cache, "m") as store:
            assert number == len(store.get(["0"]))
            store.put(entry("same", f"of {number}"))
            store.put(entry(str(number), "text"))
    assert (
        {"0", "1", "same"} == set(replies_in(caches[0])["key"]) == set(replies_in(caches[1])["key"])
    )
    assert 2 == len(server.objects())
    with ReplyStore(caches[1], "m") as store:
        assert {"0", "1", "same"} == set(store.get(["0", "1", "same", "none"]))
    assert 2 == len(server.objects())


def test_what_could_not_be_sent_is_sent_by_the_next(caches: list[Path], server: ObjectServer):
    """A failure to send loses no reply: the machine's own file has it."""
    store = ReplyStore(caches[0], "m")
    store.put(entry("0", "text"))
    server.fail("503", "PUT", times=99)
    with pytest.raises(StorageError):
        store.close()
    assert ["0"] == replies_in(caches[0])["key"].to_list()
    server.faults.clear()
    ReplyStore(caches[0], "m").close()
    assert ["0"] == replies_in(caches[1])["key"].to_list()
