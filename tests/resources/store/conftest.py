"""An S3 server for the tests of the store, and two machines that have the same bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from object_server import BUCKET, URL, ObjectServer, object_server
from resources.store.mirror import attach, detach


@pytest.fixture(scope="module")
def one_server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def server(one_server: ObjectServer) -> ObjectServer:
    """The server with an empty bucket and no faults."""
    one_server.ask("POST", "/moto-api/reset")
    one_server.ask("PUT", f"/{BUCKET}")
    one_server.faults.clear()
    one_server.seen.clear()
    return one_server


@pytest.fixture
def machines(server: ObjectServer, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The folders of two machines that have the same bucket."""
    folders = [attach(URL, tmp_path / name, server.options()) for name in ("one", "two")]
    yield folders[0], folders[1]
    for folder in folders:
        detach(folder)
