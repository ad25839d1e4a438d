"""The corpora folder after a fetch: laid out as the adapters read it, held to its checksums.

Also from the hub; named files out of made archives; and one file over HTTP from a server on
loopback: resumed, bounded, from named hosts alone.
"""

import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import ACCESS, Access, Download
from decomposerl.claims.source import Benchmark, NativeFile, Source
from decomposerl.errors import DecomposeRLError, SourceError, SourceFileError
from file_server import Fault, FileServer
from project import PYTHONPATH
from resources.corpora.fetching import TRIES, Fetched, Fetcher, bring, unpack
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import LOCK_FILE, read_lock
from resources.corpora.status import differing_files, missing_files
from resources.store.integrity import file_sha256
from sample import Sample

EVERY = (*SOURCES, *BENCHMARKS)
NOT_IN_SAMPLE = "feverous_s/dev.json", "wice/non_supported_tokens"
FIRST, SECOND = "toy/first.jsonl", "toy/second.jsonl"
WHOLE = b"first\n" * 900
WHOLE_SHA = hashlib.sha256(WHOLE).hexdigest()


def native(corpus: Source | Benchmark) -> tuple[NativeFile, ...]:
    more = corpus.extra if isinstance(corpus, Source) else (*corpus.shared, *corpus.claim_lists)
    return (*corpus.files, *more)


@pytest.fixture
def made(sample: Sample) -> Mapping[str, bytes]:
    """The sample's native files by path: made content in the true layouts."""
    return sample.files


def unchecked(access: Access) -> Access:
    """The same addresses without checksums, which made content cannot have."""
    plain = [
        replace(one, size=None, sha256="", git_blob="", unpacked=0) for one in access.downloads
    ]
    kept = [one for one in plain if not one.name.startswith(NOT_IN_SAMPLE)]
    return replace(access, downloads=tuple(kept))


def served(downloads: list[Download], made: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a mirror has: each download at ``/host/path``, archives packed as published."""
    out = {}
    for one in downloads:
        members = {f"published/set/{name}": made[path] for name, path in one.files.items()}
        content = zipped(members) if one.archive else made[one.name]
        out["/" + one.url.partition("://")[2]] = content
    return out


def zipped(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize("name", ACCESS)
def test_a_fetch_lays_the_files_out_as_the_adapters_read_them(
    tmp_path: Path, made: Mapping[str, bytes], name: str
):
    """The claims of every source and test set, with their evidence, are those that were served."""
    access = unchecked(ACCESS[name])
    root, source = tmp_path / "corpora", tmp_path / "source"
    ours = [one for one in access.downloads if one.url and not one.repo_id]
    fetchable = {path for one in ours for path in one.files.values()}
    for path in access.files():
        for folder in (source, *([] if path in fetchable else [root])):  # a person's step
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(made[path])
    with FileServer(served(ours, made)) as server:
        fetcher = Fetcher(root=root, mirror=server.url())
        got = list(fetcher.fetch(access, pages=False))
        claims = {f"/{one.url.partition('://')[2]}" for one in ours if not one.pages}
        assert claims == {one.path for one in server.seen}
        got += [one for one in fetcher.fetch(access, pages=True) if one.state == "fetched"]
        assert fetchable == {one.path for one in got if one.state == "fetched"}
        again = list(fetcher.fetch(access, pages=True))
        assert len(server.seen) == len(ours)
    assert fetchable == {one.path for one in again if one.state == "kept"}
    assert () == missing_files(root, access, pages=True)
    for corpus in (one for one in EVERY if one.name == name):
        for file in native(corpus):
            wanted = list(corpus.read(FolderCorpora(source), file))
            assert wanted == list(corpus.read(FolderCorpora(root), file))
            assert wanted or not (source / file.path).is_file()


@pytest.fixture
def toy() -> Iterator[tuple[FileServer, Access]]:
    """Two plain files on a server."""
    with FileServer({"/a.jsonl": WHOLE, "/b.jsonl": b"second\n" * 900}) as server:
        ways = {"/a.jsonl": FIRST, "/b.jsonl": SECOND}
        every = [one(server, url, {"": path}) for url, path in ways.items()]
        yield server, Access(name="toy", obtained="direct", downloads=tuple(every))


def one(server: FileServer, url: str, files: Mapping[str, str]) -> Download:
    return Download(url=server.url(url), files=files, checked_in="a page")


MEMBERS = {"first.jsonl": FIRST, "second.jsonl": SECOND}


def packed(server: FileServer, files: Mapping[str, str]) -> Access:
    """The corpus whose files are members of the archive ``/set.zip``."""
    return Access(name="toy", obtained="direct", downloads=(one(server, "/set.zip", files),))


def fetched(root: Path, access: Access, *, changed: bool = False) -> list[Fetched]:
    fetcher = Fetcher(root=root, accept_changed=changed, wait=lambda _: None)
    return list(fetcher.fetch(access, pages=True))


def only(access: Access, **published: object) -> Access:
    """The first download alone, with these facts published."""
    return replace(access, downloads=(replace(access.downloads[0], **published),))  # type: ignore[arg-type]


Toy = tuple[FileServer, Access]


def test_the_first_fetch_records_and_later_ones_are_held_to_it(tmp_path: Path, toy: Toy):
    """Another copy is fetched beside what is there; other content of the server is refused."""
    server, access = toy
    fetched(tmp_path, access)
    recorded = read_lock(tmp_path, "toy").sha256
    assert {path: file_sha256(tmp_path / path) for path in (FIRST, SECOND)} == recorded
    (tmp_path / FIRST).write_bytes(b"damaged")
    again = [(one.state, one.replaced) for one in fetched(tmp_path, access)]
    kept = f"first.jsonl.replaced-{hashlib.sha256(b'damaged').hexdigest()[:8]}"
    assert [("fetched", kept), ("kept", "")] == again
    assert (tmp_path / FIRST).read_bytes() == WHOLE
    assert b"damaged" == (tmp_path / FIRST).with_name(kept).read_bytes()  # perhaps a person's own
    server.files["/a.jsonl"] = b"forged"
    (tmp_path / FIRST).unlink()
    with pytest.raises(SourceFileError, match=r"first\.jsonl has SHA-256"):
        fetched(tmp_path, access)
    assert ["fetch.lock"] == [path.name for path in (tmp_path / ".downloads").iterdir()]
    assert not (tmp_path / FIRST).exists()
    fetched(tmp_path, access, changed=True)
    assert b"forged" == (tmp_path / FIRST).read_bytes()
    assert "kept" == fetched(tmp_path, access)[0].state


BLOB = hashlib.sha1(b"blob 5400\0" + WHOLE, usedforsecurity=False).hexdigest()
PUBLISHED: list[tuple[str, object, object]] = [
    ("size", len(WHOLE), 5_401),
    ("sha256", WHOLE_SHA, "0" * 64),
    ("git_blob", BLOB, "0" * 40),
]


@pytest.mark.parametrize(("fact", "right", "wrong"), PUBLISHED)
@pytest.mark.parametrize("own", [False, True])
def test_what_differs_from_the_published_facts_is_not_taken(
    tmp_path: Path, toy: Toy, fact: str, right: object, wrong: object, *, own: bool
):
    """A download is not kept, a person's file stays; each is named with the way to take it."""
    server, access = toy[0], only(toy[1], **{fact: wrong})
    (tmp_path / "toy").mkdir()
    if own:
        (tmp_path / FIRST).write_bytes(WHOLE)
        assert [Fetched(FIRST, "found")] == fetched(tmp_path, only(access, **{fact: right}))
    else:
        got = fetched(tmp_path / "new", only(access, **{fact: right}))
        assert ["fetched"] == [one.state for one in got]
    with pytest.raises(SourceFileError, match=rf"{FIRST}.*a page.*--accept-changed"):
        fetched(tmp_path, access)
    assert (own, 0 if own else 2) == ((tmp_path / FIRST).exists(), len(server.seen))
    assert ["fetch.lock"] == [path.name for path in (tmp_path / ".downloads").iterdir()]
    assert (own and fact == "size") == bool(differing_files(tmp_path, access))
    taken = [one.state for one in fetched(tmp_path, access, changed=True)]
    assert ["found" if own else "fetched"] == taken
    assert {} == differing_files(tmp_path, access)  # the record decides
    assert ["kept"] == [one.state for one in fetched(tmp_path, access)]
    assert WHOLE == (tmp_path / FIRST).read_bytes()


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from resources.corpora.fetching import Fetcher
root, access, target, when = sys.argv[1:]
renamed = False
def hook(event, words):
    global renamed
    before, renamed = renamed, event == "os.rename" and str(words[1]) == target
    if before or (renamed and when == "before"):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
list(Fetcher(root=Path(root)).fetch(pickle.loads(bytes.fromhex(access)), pages=True))
"""


def child(root: Path, access: Access, target: object = "", when: str = "") -> list[str]:
    """A process that fetches, and is killed at the system call that renames to ``target``."""
    words = map(str, (root, pickle.dumps(access).hex(), target, when))
    return [sys.executable, "-c", KILLED, *words]


def test_a_process_that_is_killed_loses_nothing(tmp_path: Path, toy: Toy):
    """After SIGKILL in the middle, the next fetch has the folder's lock and sends the rest."""
    server, access = toy
    server.faults["/b.jsonl"] = [Fault(cut=4_000, stalls=True)]
    with subprocess.Popen(child(tmp_path, access)) as process:
        deadline = time.monotonic() + 60
        arrived = 0
        while arrived < 4_000 and time.monotonic() < deadline:
            time.sleep(0.02)
            arrived = sum(
                part.stat().st_size for part in tmp_path.glob(".downloads/*_b.jsonl.part")
            )
        process.kill()
    assert b"first\n" * 900 == (tmp_path / FIRST).read_bytes()
    assert not (tmp_path / SECOND).exists()
    assert ["kept", "fetched"] == [one.state for one in fetched(tmp_path, access)]
    assert "bytes=4000-" == server.seen[-1].range
    assert b"second\n" * 900 == (tmp_path / SECOND).read_bytes()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_a_rename_leaves_no_file_without_its_record(tmp_path: Path, when: str):
    """Killed at the first of two renames: the next fetch knows its file; nothing is sent twice."""
    with FileServer({"/set.zip": zipped({"first.jsonl": WHOLE, "second.jsonl": b"2"})}) as server:
        access = packed(server, MEMBERS)
        killed = subprocess.run(child(tmp_path, access, tmp_path / FIRST, when), check=False)
        assert killed.returncode == -signal.SIGKILL
        there = tuple((tmp_path / path).exists() for path in MEMBERS.values())
        assert (when == "after", False) == there
        states = [one.state for one in fetched(tmp_path, access)]
        assert 1 == len(server.seen)
    assert ["kept" if when == "after" else "fetched", "fetched"] == states
    recorded = read_lock(tmp_path, "toy").sha256
    assert {path: file_sha256(tmp_path / path) for path in MEMBERS.values()} == recorded
    assert {"first.jsonl", "second.jsonl"} == {one.name for one in (tmp_path / "toy").iterdir()}


def test_members_that_are_there_stay_and_a_bad_archive_leaves_nothing(tmp_path: Path):
    """A person's file, packed, is neither replaced nor recorded; damage keeps all members out."""
    members = {"a/first.jsonl": b"1" * 9_000, "a/second.jsonl": bytes(range(256)) * 40}
    with FileServer({"/set.zip": zipped(members)}) as server:
        access = packed(server, MEMBERS)
        good, broken = server.files["/set.zip"], bytearray(server.files["/set.zip"])
        broken[len(good) - 400] ^= 0xFF
        server.files["/set.zip"] = bytes(broken)
        with pytest.raises(SourceFileError, match=r"set\.zip is damaged .*; run the same"):
            fetched(tmp_path, access)
        assert [".downloads"] == [path.name for path in tmp_path.iterdir()]
        server.files["/set.zip"] = good
        (tmp_path / "toy").mkdir()
        (tmp_path / f"{FIRST}.gz").write_bytes(b"mine")
        states = [(one.path, one.state) for one in fetched(tmp_path, access)]
    assert [(FIRST, "found"), (SECOND, "fetched")] == states
    assert b"mine" == (tmp_path / f"{FIRST}.gz").read_bytes()
    assert [SECOND] == list(read_lock(tmp_path, "toy").sha256)


def test_two_fetches_into_one_folder_do_not_mix(tmp_path: Path, toy: Toy):
    """The second is refused while the first runs, and runs when it has ended."""
    fetching = Fetcher(root=tmp_path).fetch(toy[1], pages=True)
    next(fetching)
    with ThreadPoolExecutor(1) as other, pytest.raises(DecomposeRLError, match="process"):
        other.submit(fetched, tmp_path, toy[1]).result()
    assert 1 == len(list(fetching))
    assert ["kept", "kept"] == [one.state for one in fetched(tmp_path, toy[1])]


def test_a_disk_that_is_full_while_unpacking_is_said(tmp_path: Path):
    """The real error of a limit of file sizes; what was downloaded is kept."""
    with FileServer({"/set.zip": zipped({"first.jsonl": b"1" * 9_000_000})}) as server:
        access = packed(server, {"first.jsonl": FIRST})
        limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))"
        words = child(tmp_path, access)
        words[2] = f"{limit}\n{words[2]}"
        full = subprocess.run(words, check=False, capture_output=True, text=True)
        assert f"File too large: '{tmp_path / FIRST}'" in full.stderr
        assert "fetched" == fetched(tmp_path, access)[0].state
        assert 1 == len(server.seen)


@pytest.mark.parametrize("damage", ["[broken", f"a = {'[' * 100_000}", "[toy]\nother = 1"])
def test_a_damaged_lock_file_is_refused_with_the_way_out(tmp_path: Path, toy: Toy, damage: str):
    """No TOML, nested without end, or of another layout: delete it; nothing is requested."""
    (tmp_path / LOCK_FILE).write_text(damage)
    with pytest.raises(SourceFileError, match=rf"lock file .*{LOCK_FILE}.*; delete it"):
        fetched(tmp_path, toy[1])
    assert [] == toy[0].seen


# The hub


COMMIT, LATER = "0123456789abcdef0123456789abcdef01234567", "f" * 40
API = "/api/datasets/org/toy"
TREE = f"{API}/tree/{COMMIT}?recursive=true&expand=false"
LISTED = [{"type": "file", "path": "d/a.jsonl", "size": 12, "oid": "0" * 40}]


def branch(commit: str) -> bytes:
    return json.dumps({"id": "org/toy", "sha": commit}).encode()


FROM_HUB = """
import sys
from pathlib import Path
from decomposerl.claims.downloads import Access, Download
from decomposerl.errors import DecomposeRLError
from resources.corpora.fetching import Fetcher
def said(repo, pattern="*/a.jsonl"):
    files = {pattern: "toy/a.jsonl"}
    one = Download(url="https://hub", repo_id=repo, files=files, checked_in="")
    access = Access(name="toy", obtained="hub", downloads=[one])
    try:
        fetcher = Fetcher(root=Path("c"))
        (file,) = fetcher.fetch(access, pages=False)
        print(file.state, (fetcher.root / file.path).read_text())
    except DecomposeRLError as error:
        print(type(error).__name__, error)
sys.modules["huggingface_hub"] = None
said("org/toy")
del sys.modules["huggingface_hub"]
said("org/dead")
said("org/gated")
said("org/toy", "b.jsonl")
said("org/toy")
Path("c/toy/a.jsonl").write_text("damaged")
said("org/toy")
said("org/toy")
"""


def test_files_of_the_hub_are_pinned_by_commit_and_hash(tmp_path: Path):
    """A branch that moves changes nothing; terms, a missing package or file are named."""
    moved = {f"{API}/revision/main": branch(LATER), f"{API}/revision/{COMMIT}": branch(COMMIT)}
    files = {TREE: json.dumps(LISTED).encode()}
    files[f"/datasets/org/toy/resolve/{COMMIT}/d/a.jsonl"] = b"from the hub"
    with FileServer({**moved, **files}, headers={"X-Repo-Commit": COMMIT}) as server:
        server.faults[f"{API}/revision/main"] = [Fault(200, body=branch(COMMIT))] * 2
        gate = Fault(403, {"X-Error-Code": "GatedRepo"})
        server.faults["/api/datasets/org/gated/revision/main"] = [gate]
        quiet = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        paths = {"PATH": "/usr/bin:/bin", "PYTHONPATH": PYTHONPATH, "HOME": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", FROM_HUB],
            cwd=tmp_path,
            env={**paths, **quiet, "HF_ENDPOINT": server.url()},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    missing, dead, gated, absent, *rest = done.stdout.splitlines()
    assert missing.startswith("EngineMissing")
    assert "pip install -e '.[hub]'" in missing
    assert dead.startswith("SourceError org/dead could not be fetched: ")
    assert gated.startswith("SourceError org/gated is gated: accept its terms at https://")
    assert "SourceFileError 0 files match 'b.jsonl' at revision" in absent
    assert ["fetched from the hub", "fetched from the hub", "kept from the hub"] == rest
    (kept,) = tmp_path.glob("c/toy/a.jsonl.replaced-*")
    assert "damaged" == kept.read_text()
    lock = read_lock(tmp_path / "c", "toy")
    digest = file_sha256(tmp_path / "c/toy/a.jsonl")
    assert (COMMIT, {"toy/a.jsonl": digest}) == (lock.revision, lock.sha256)


# Archives


MOST = 10_000
SOUND = {"set/train.tsv": bytes(range(256)) * 30}


def tarred(members: Mapping[str, bytes], mode: str = "w:gz", **facts: object) -> bytes:
    """An archive whose members have these facts."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            for fact, value in {"size": len(content), **facts}.items():
                setattr(info, fact, value)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def take(folder: Path, archive: bytes, *names: str, most: int = MOST) -> dict[str, bytes]:
    """The wanted members as they were written; nothing else is in the folder."""
    (folder / "out").mkdir()
    (folder / "archive").write_bytes(archive)
    unpack(folder / "archive", {name: folder / "out" / name for name in names}, most)
    assert {"archive", "out"} == {path.name for path in folder.iterdir()}
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


@pytest.mark.parametrize("pack", [zipped, tarred, lambda members: tarred(members, "w")])
def test_wanted_members_are_written_and_no_other(
    tmp_path: Path, pack: Callable[[Mapping[str, bytes]], bytes]
):
    """By name, whatever folder a member names; resource forks of a Mac do not count."""
    members = {"../../train.tsv": b"train", "/etc/dev.tsv": b"dev", "set/readme.txt": b"no"}
    members |= {"__MACOSX/set/train.tsv": b"fork", "set/sub/train_1.tsv": b"fold"}
    found = take(tmp_path, pack(members), "train.tsv", "dev.tsv")
    assert {"train.tsv": b"train", "dev.tsv": b"dev"} == found


def flipped(data: bytes) -> bytes:
    return bytes([*data[:60], data[60] ^ 0xFF, *data[61:]])


def with_password(data: bytes) -> bytes:
    """The marks of one."""
    central = b"PK\x01\x02\x14\x03\x14\x00\x00"
    plain = data.replace(central, central[:-1] + b"\x01")
    return plain.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01")


EITHER: list[tuple[dict[str, bytes], str]] = [
    ({"a/train.tsv": b"x", "b/train.tsv": b"y"}, "several .*train.tsv"),
    ({"a/dev.tsv": b"x"}, "no file train.tsv"),
    ({"a/train.tsv": b"x" * (MOST + 1)}, "train.tsv unpacks to more"),
]
HOSTILE: dict[bytes, str] = {
    **{pack(members): said for pack in (zipped, tarred) for members, said in EITHER},
    tarred({"train.tsv": b""}, type=tarfile.SYMTYPE, linkname="/etc/passwd"): "no file train.tsv",
    # A tar is read from its start, so a huge member before the wanted one is refused too.
    tarred({"huge": b"0" * 5_000_000, "train.tsv": b"x"}): "unpacks to more",
    tarred({"train.tsv": b""}, pax_headers={"comment": "x" * 8_000_000}): "a header of 8,000,",
    tarred(SOUND)[:-120]: "archive is damaged",
    flipped(zipped(SOUND)): "archive is damaged",
    b"<html>no archive</html>" * 40: "archive is damaged",
    with_password(zipped(SOUND)): "archive is damaged",
}


@pytest.mark.parametrize(("archive", "said"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_hostile_and_incomplete_archives_are_refused(tmp_path: Path, archive: bytes, said: str):
    """Archive and member are named, nothing is written outside, and the bound holds."""
    with pytest.raises(SourceFileError, match=said):
        take(tmp_path, archive, "train.tsv")
    assert {"archive", "out"} == {path.name for path in tmp_path.iterdir()}
    assert MOST >= sum(path.stat().st_size for path in (tmp_path / "out").iterdir())


def test_a_member_that_is_larger_than_the_disk_is_refused_before_it_is_written(tmp_path: Path):
    """Needed and free bytes are said."""
    large = tarfile.TarInfo("train.tsv")
    large.size = 10**15
    archive = large.tobuf(tarfile.GNU_FORMAT) + bytes(10_240)
    with pytest.raises(SourceError, match=r"needs 1,000,000,000 MB .* MB free; free some"):
        take(tmp_path, archive, "train.tsv", most=10**16)
    assert [] == list((tmp_path / "out").iterdir())


# Transfers


CONTENT = bytes(range(256)) * 4_000
BIG = 10_000_000


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/rows.jsonl": CONTENT}) as running:
        yield running


def download_of(url: str, *hosts: str, most: int | None = BIG, unpacked: int = 0) -> Download:
    files = {"": "toy/rows.jsonl"}
    return Download(
        url=url, files=files, checked_in="", size=most, redirects=hosts, unpacked=unpacked
    )


def receive(
    server: FileServer, part: Path, waits: list[float] | None = None, most: int | None = BIG
):
    waited = waits if waits is not None else []
    bring(download_of(server.url("/rows.jsonl"), most=most), part, waited.append)


def break_off(server: FileServer, part: Path) -> None:
    """Leave the first 400,000 bytes."""
    server.faults["/rows.jsonl"] = [Fault(cut=400_000)] + [Fault(status=503)] * TRIES
    with pytest.raises(SourceError, match="400,000 bytes"):
        receive(server, part)


def test_a_broken_transfer_continues_where_it_stopped(tmp_path: Path, server: FileServer):
    """Each byte is sent once: the next request asks for the rest of the same content."""
    server.faults["/rows.jsonl"] = [Fault(cut=300_000), Fault(cut=200_000)]
    waits: list[float] = []
    receive(server, tmp_path / "part", waits)
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
    receive(server, tmp_path / "part")
    assert content == (tmp_path / "part").read_bytes()
    if content == CONTENT:
        rest = len(CONTENT) - 400_000
        assert (rest, "bytes=") == (server.seen[-1].sent, server.seen[-1].range[:6])
    requests = len(server.seen)
    receive(server, tmp_path / "part")
    assert requests == len(server.seen)


def test_a_server_that_says_there_is_no_more_is_not_believed(tmp_path: Path, server: FileServer):
    """416 for a part of the file, with the part's own length: all is sent again."""
    break_off(server, tmp_path / "part")
    known = (tmp_path / "part.version").read_text()
    lie = {"Content-Range": "bytes */400000", "ETag": known}
    server.faults["/rows.jsonl"] = [Fault(416, headers=lie)]
    receive(server, tmp_path / "part")
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
            receive(server, tmp_path / "part", most=size)
        assert not (tmp_path / "part").exists()
    else:
        receive(server, tmp_path / "part", most=size)
        assert 300_000 == (tmp_path / "part").stat().st_size  # its caller compares
    pieces = Fault(200, {"Transfer-Encoding": "chunked"}, b"3\r\none\r\n0\r\n\r\n", lengthless=True)
    server.faults["/rows.jsonl"] = [replace(pieces, cut=6), pieces]
    receive(server, tmp_path / "other", most=size)
    assert b"one" == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("knows", [{"etag"}, {"ranges"}, set()], ids=sorted)
def test_servers_without_ranges_or_validators_send_all_again(tmp_path: Path, knows: set[str]):
    """The content is right in any case."""
    ranges, etag = "ranges" in knows, "etag" in knows
    with FileServer({"/rows.jsonl": CONTENT}, ranges=ranges, etag=etag) as server:
        server.faults["/rows.jsonl"] = [Fault(cut=300_000)]
        receive(server, tmp_path / "part")
        assert CONTENT == (tmp_path / "part").read_bytes()


def test_redirects_are_followed_to_named_hosts_alone(tmp_path: Path, server: FileServer):
    """A host that the table does not name is never contacted; a circle ends."""
    with FileServer({"/rows.jsonl": b"elsewhere"}) as other:
        away = Fault(302, headers={"Location": other.url("/rows.jsonl", "localhost")})
        server.faults["/rows.jsonl"] = [away, away]
        url = server.url("/rows.jsonl")
        with pytest.raises(SourceError, match="http://localhost"):
            bring(download_of(url), tmp_path / "part")
        assert [] == other.seen
        bring(download_of(url, "127.0.0.1", "localhost"), tmp_path / "part")
        assert b"elsewhere" == (tmp_path / "part").read_bytes()
    server.seen.clear()
    server.faults["/rows.jsonl"] = [Fault(302, headers={"Location": url})] * 50
    with pytest.raises(SourceError, match="5 redirects"):
        receive(server, tmp_path / "circle")
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
            receive(server, tmp_path / "part")
        assert 1 == len(server.seen)
        assert not (tmp_path / "part").exists()


def test_a_busy_server_is_tried_again_after_its_own_time(tmp_path: Path, server: FileServer):
    """``Retry-After`` is kept up to a minute, otherwise the waits grow; then it is given up."""
    busy = Fault(503, headers={"Retry-After": "7"})
    server.faults["/rows.jsonl"] = [busy, Fault(429, headers={"Retry-After": "900"}), Fault(500)]
    waits: list[float] = []
    receive(server, tmp_path / "part", waits)
    assert [7.0, 60.0, 8.0] == waits
    server.faults["/rows.jsonl"] = [Fault(503)] * TRIES
    with pytest.raises(SourceError, match=f"{TRIES} .*503"):
        receive(server, tmp_path / "other")
    gone = download_of("http://127.0.0.1:9/rows.jsonl")
    with pytest.raises(SourceError, match=r"127\.0\.0\.1"):
        bring(gone, tmp_path / "gone", lambda _: None)


@pytest.mark.parametrize("fault", [Fault(), Fault(lengthless=True)])
def test_more_than_expected_is_refused(tmp_path: Path, server: FileServer, fault: Fault):
    """By the announced length, and by the bytes that arrive where none is announced."""
    server.faults["/rows.jsonl"] = [fault]
    with pytest.raises(SourceError, match=r"5,000"):
        receive(server, tmp_path / "part", most=5_000)
    assert not (tmp_path / "part").is_file() or (tmp_path / "part").stat().st_size <= 5_000


def test_a_disk_without_room_is_said_before_and_during_the_download(
    tmp_path: Path, server: FileServer
):
    """Before: how much is needed and free. During: the real error of a full device."""
    parts = tmp_path / "corpora" / ".downloads"
    parts.mkdir(parents=True)
    large = download_of(server.url("/rows.jsonl"), unpacked=10**15)
    with pytest.raises(SourceError, match=r"1,000,000,051 MB .*corpora, .* MB free"):
        bring(large, parts / "part")
    (parts / "full.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        receive(server, parts / "full")


PROXIED = """
import sys
from pathlib import Path
from decomposerl.claims.downloads import Download
from resources.corpora.fetching import bring
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
