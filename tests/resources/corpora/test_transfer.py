"""One file over HTTP from a server on loopback: resumed, bounded, from named hosts alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.claims.downloads import Download
from decomposerl.errors import SourceError
from file_server import Fault, FileServer
from resources.corpora.transfer import TRIES, bring

CONTENT = bytes(range(256)) * 4_000
BIG = 10_000_000


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/rows.jsonl": CONTENT}) as running:
        yield running


def download(url: str, *hosts: str, most: int | None = BIG, unpacked: int = 0) -> Download:
    files = {"": "toy/rows.jsonl"}
    return Download(
        url=url, files=files, checked_in="", size=most, redirects=hosts, unpacked=unpacked
    )


def take(server: FileServer, part: Path, waits: list[float] | None = None, most: int | None = BIG):
    waited = waits if waits is not None else []
    bring(download(server.url("/rows.jsonl"), most=most), part, waited.append)


def break_off(server: FileServer, part: Path) -> None:
    """Leave the first 400,000 bytes."""
    server.faults["/rows.jsonl"] = [Fault(cut=400_000)] + [Fault(status=503)] * TRIES
    with pytest.raises(SourceError, match="400,000 bytes"):
        take(server, part)


def test_a_broken_transfer_continues_where_it_stopped(tmp_path: Path, server: FileServer):
    """Each byte is sent once: the next request asks for the rest of the same content."""
    server.faults["/rows.jsonl"] = [Fault(cut=300_000), Fault(cut=200_000)]
    waits: list[float] = []
    take(server, tmp_path / "part", waits)
    assert CONTENT == (tmp_path / "part").read_bytes()
    assert ["", "bytes=300000-", "bytes=500000-"] == [one.range for one in server.seen]
    assert len(CONTENT) == sum(one.sent for one in server.seen)
    assert [2.0, 2.0] == waits  # progress counts as a new start


@pytest.mark.parametrize("content", [CONTENT, CONTENT[::-1], b"short"], ids=["same", "new", "less"])
def test_what_an_earlier_process_left_is_continued(
    tmp_path: Path, server: FileServer, content: bytes
):
    """Nothing is fetched twice, and two versions are never joined; what is whole stays."""
    break_off(server, tmp_path / "part")
    server.files["/rows.jsonl"] = content
    take(server, tmp_path / "part")
    assert content == (tmp_path / "part").read_bytes()
    if content == CONTENT:
        rest = len(CONTENT) - 400_000
        assert (rest, "bytes=") == (server.seen[-1].sent, server.seen[-1].range[:6])
    requests = len(server.seen)
    take(server, tmp_path / "part")
    assert requests == len(server.seen)


def test_a_server_that_says_there_is_no_more_is_not_believed(tmp_path: Path, server: FileServer):
    """416 for a part of the file, with the part's own length: all is sent again."""
    break_off(server, tmp_path / "part")
    known = (tmp_path / "part.version").read_text()
    lie = {"Content-Range": "bytes */400000", "ETag": known}
    server.faults["/rows.jsonl"] = [Fault(416, headers=lie)]
    take(server, tmp_path / "part")
    assert CONTENT == (tmp_path / "part").read_bytes()
    assert ["bytes=400000-", ""] == [one.range for one in server.seen[-2:]]


@pytest.mark.parametrize("size", [None, len(CONTENT)], ids=["nothing published", "a size"])
def test_a_body_without_length_is_taken_only_where_a_cut_would_be_noticed(
    tmp_path: Path, server: FileServer, size: int | None
):
    """By a published size or checksum, or since its pieces say where it ends."""
    server.faults["/rows.jsonl"] = [Fault(lengthless=True, cut=300_000)]
    if size is None:
        with pytest.raises(SourceError, match=r"how long.*; open it in a browser and put"):
            take(server, tmp_path / "part", most=size)
        assert not (tmp_path / "part").exists()
    else:
        take(server, tmp_path / "part", most=size)
        assert 300_000 == (tmp_path / "part").stat().st_size  # its caller compares
    pieces = Fault(200, {"Transfer-Encoding": "chunked"}, b"3\r\none\r\n0\r\n\r\n", lengthless=True)
    server.faults["/rows.jsonl"] = [replace(pieces, cut=6), pieces]
    take(server, tmp_path / "other", most=size)
    assert b"one" == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("knows", [{"etag"}, {"ranges"}, set()], ids=sorted)
def test_servers_without_ranges_or_validators_send_all_again(tmp_path: Path, knows: set[str]):
    """The content is right in any case."""
    ranges, etag = "ranges" in knows, "etag" in knows
    with FileServer({"/rows.jsonl": CONTENT}, ranges=ranges, etag=etag) as server:
        server.faults["/rows.jsonl"] = [Fault(cut=300_000)]
        take(server, tmp_path / "part")
        assert CONTENT == (tmp_path / "part").read_bytes()


def test_redirects_are_followed_to_named_hosts_alone(tmp_path: Path, server: FileServer):
    """A host that the table does not name is never contacted; a circle ends."""
    with FileServer({"/rows.jsonl": b"elsewhere"}) as other:
        away = Fault(302, headers={"Location": other.url("/rows.jsonl", "localhost")})
        server.faults["/rows.jsonl"] = [away, away]
        url = server.url("/rows.jsonl")
        with pytest.raises(SourceError, match="http://localhost"):
            bring(download(url), tmp_path / "part")
        assert [] == other.seen
        bring(download(url, "127.0.0.1", "localhost"), tmp_path / "part")
        assert b"elsewhere" == (tmp_path / "part").read_bytes()
    server.seen.clear()
    server.faults["/rows.jsonl"] = [Fault(302, headers={"Location": url})] * 50
    with pytest.raises(SourceError, match="5 redirects"):
        take(server, tmp_path / "circle")
    assert 6 == len(server.seen)


FINAL = {
    "401": Fault(401),
    "404": Fault(404),
    "418": Fault(418),
    "web page": Fault(200, headers={"Content-Type": "Text/HTML; charset=utf-8"}),
    "a web page": Fault(200, body=b"\n<!DocType HTML><p>Log in"),
    "encoding": Fault(200, headers={"Content-Encoding": "gzip"}),
}


def test_what_cannot_succeed_is_not_tried_again(tmp_path: Path, server: FileServer):
    """The error names file, host and reason after one request."""
    for said, fault in FINAL.items():
        server.seen.clear()
        server.faults["/rows.jsonl"] = [fault] * TRIES
        with pytest.raises(SourceError, match=f"toy/rows.jsonl: 127.0.0.1.*{said}"):
            take(server, tmp_path / "part")
        assert 1 == len(server.seen)
        assert not (tmp_path / "part").exists()


def test_a_busy_server_is_tried_again_after_its_own_time(tmp_path: Path, server: FileServer):
    """``Retry-After`` is kept up to a minute, otherwise the waits grow; then it is given up."""
    busy = Fault(503, headers={"Retry-After": "7"})
    server.faults["/rows.jsonl"] = [busy, Fault(429, headers={"Retry-After": "900"}), Fault(500)]
    waits: list[float] = []
    take(server, tmp_path / "part", waits)
    assert [7.0, 60.0, 8.0] == waits
    server.faults["/rows.jsonl"] = [Fault(503)] * TRIES
    with pytest.raises(SourceError, match=f"{TRIES} .*503"):
        take(server, tmp_path / "other")
    gone = download("http://127.0.0.1:9/rows.jsonl")
    with pytest.raises(SourceError, match=r"127\.0\.0\.1"):
        bring(gone, tmp_path / "gone", lambda _: None)


@pytest.mark.parametrize("fault", [Fault(), Fault(lengthless=True)])
def test_more_than_expected_is_refused(tmp_path: Path, server: FileServer, fault: Fault):
    """By the announced length, and by the bytes that arrive where none is announced."""
    server.faults["/rows.jsonl"] = [fault]
    with pytest.raises(SourceError, match=r"5,000"):
        take(server, tmp_path / "part", most=5_000)
    assert not (tmp_path / "part").is_file() or (tmp_path / "part").stat().st_size <= 5_000


def test_a_disk_without_room_is_said_before_and_during_the_download(
    tmp_path: Path, server: FileServer
):
    """Before: how much is needed and free. During: the real error of a full device."""
    parts = tmp_path / "corpora" / ".downloads"
    parts.mkdir(parents=True)
    large = download(server.url("/rows.jsonl"), unpacked=10**15)
    with pytest.raises(SourceError, match=r"1,000,000,051 MB .*corpora, .* MB free"):
        bring(large, parts / "part")
    (parts / "full.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        take(server, parts / "full")


PROXIED = """
import sys
from pathlib import Path
from decomposerl.claims.downloads import Download
from resources.corpora.transfer import bring
one = Download(url="http://files.example/rows.jsonl", files={"": "rows"}, checked_in="")
bring(one, Path(sys.argv[1]))
"""


@pytest.mark.parametrize("unusable", ["", "foo://proxy:1", "socks5://127.0.0.1:1"])
def test_the_proxy_of_the_environment_is_used(tmp_path: Path, unusable: str):
    """A request for another host goes to it; one that cannot be used is named."""
    with FileServer({"/files.example/rows.jsonl": CONTENT}) as proxy:
        words = [sys.executable, "-c", PROXIED, str(tmp_path / "part")]
        env = {"PYTHONPATH": os.pathsep.join(sys.path), "http_proxy": unusable or proxy.url()}
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (not unusable) == (tmp_path / "part").is_file()
    assert bool(unusable) == ("SourceError: a proxy variable of the" in done.stderr)
