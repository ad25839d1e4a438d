"""The corpora folder after a fetch: laid out as the adapters read it, held to its checksums.

Also from the hub; and named files out of made archives.
"""

import hashlib
import io
import json
import pickle
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import ACCESS, Access, Download
from decomposerl.claims.source import Benchmark, HubLocation, NativeFile, Source
from decomposerl.errors import DecomposeRLError, SourceError, SourceFileError
from file_server import Fault, FileServer
from resources.corpora.fetching import Fetched, Fetcher, unpack
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import LOCK_FILE, Lock, read_lock, sha256_of
from resources.corpora.status import differing_files, missing_files
from resources.store.temporary import aside
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
    kept = [one for one in plain if not one.files[0][1].startswith(NOT_IN_SAMPLE)]
    return replace(access, downloads=tuple(kept))


def served(access: Access, made: Mapping[str, bytes]) -> dict[str, bytes]:
    """What a mirror has: each download at ``/host/path``, archives packed as published."""
    out = {}
    for one in access.downloads:
        members = {f"published/set/{name}": made[path] for name, path in one.files}
        content = zipped(members) if one.archive else made[one.files[0][1]]
        out["/" + one.url.partition("://")[2]] = content
    return out


def zipped(members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def publish(hub: Path, location: HubLocation, commit: str, contents: Mapping[str, bytes]) -> None:
    """Files of a repository at a commit, by their paths in the corpora folder; its main branch."""
    folder = hub / location.repo_id
    for name, path in location.files:
        target = folder / commit / name.replace("*", "")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents[path])
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(f"{commit}\n")


@pytest.mark.parametrize("name", ACCESS)
def test_a_fetch_lays_the_files_out_as_the_adapters_read_them(
    tmp_path: Path, made: Mapping[str, bytes], name: str
):
    """The claims of every source and test set, with their evidence, are those that were served."""
    access = unchecked(ACCESS[name])
    root, source = tmp_path / "corpora", tmp_path / "source"
    for path in access.files():
        for folder in (source, *(root for _ in access.placed)):  # a person's step
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(made[path])
    with FileServer(served(access, made)) as server:
        if access.hub is not None:
            publish(tmp_path, access.hub, "r1", made)
        fetcher = Fetcher(root=root, mirror=server.url(), endpoint=tmp_path.as_uri())
        got = list(fetcher.fetch(access, pages=False))
        claims = {f"/{one.url.partition('://')[2]}" for one in access.wanted(pages=False)}
        assert claims == {one.path for one in server.seen}
        got += [one for one in fetcher.fetch(access, pages=True) if one.state == "fetched"]
        assert set(access.files()) - set(access.placed) == {one.path for one in got}
        assert {"fetched"} >= {one.state for one in got}
        again = list(fetcher.fetch(access, pages=True))
        assert len(server.seen) == len(access.downloads)
    assert {"kept"} >= {one.state for one in again} or access.hub
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
        every = [one(server, url, ("", path)) for url, path in ways.items()]
        yield server, Access(name="toy", downloads=tuple(every))


def one(server: FileServer, url: str, *files: tuple[str, str]) -> Download:
    return Download(url=server.url(url), files=files, checked_in="a page")


MEMBERS = (("first.jsonl", FIRST), ("second.jsonl", SECOND))


def packed(server: FileServer, *files: tuple[str, str]) -> Access:
    """The corpus whose files are members of the archive ``/set.zip``."""
    return Access(name="toy", downloads=(one(server, "/set.zip", *files),))


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
    recorded = read_lock(tmp_path / "corpora.lock.toml")["toy"].sha256
    assert {path: sha256_of(tmp_path / path) for path in (FIRST, SECOND)} == recorded
    (tmp_path / FIRST).write_bytes(b"damaged")
    again = [(one.state, one.replaced) for one in fetched(tmp_path, access)]
    assert [("fetched", "first.jsonl.replaced-1"), ("kept", "")] == again
    assert (tmp_path / FIRST).read_bytes() == WHOLE
    aside = (tmp_path / FIRST).with_name("first.jsonl.replaced-1")
    assert b"damaged" == aside.read_bytes()  # perhaps a person's own
    server.files["/a.jsonl"] = b"forged"
    (tmp_path / FIRST).unlink()
    with pytest.raises(SourceFileError, match=r"first\.jsonl has SHA-256"):
        fetched(tmp_path, access)
    assert not (tmp_path / FIRST).exists()
    fetched(tmp_path, access, changed=True)
    assert b"forged" == (tmp_path / FIRST).read_bytes()
    assert "kept" == fetched(tmp_path, access)[0].state


RIGHT: list[dict[str, object]] = [
    {"size": len(WHOLE)},
    {"sha256": WHOLE_SHA},
    {"git_blob": hashlib.sha1(b"blob 5400\0" + WHOLE, usedforsecurity=False).hexdigest()},
]
WRONG: list[dict[str, object]] = [{"size": 5_401}, {"sha256": "0" * 64}, {"git_blob": "0" * 40}]


@pytest.mark.parametrize("published", RIGHT)
def test_the_right_published_facts_are_accepted(
    tmp_path: Path, toy: Toy, published: dict[str, object]
):
    """Of a person's file too, which is neither fetched nor recorded."""
    server, access = toy[0], only(toy[1], **published)
    assert ["fetched"] == [one.state for one in fetched(tmp_path / "new", access)]
    (tmp_path / "toy").mkdir()
    (tmp_path / FIRST).write_bytes(WHOLE)
    assert [Fetched(FIRST, "found")] == fetched(tmp_path, access)
    assert ({}, 1) == (differing_files(tmp_path, access), len(server.seen))


@pytest.mark.parametrize("published", WRONG)
@pytest.mark.parametrize("own", [False, True])
def test_what_differs_from_the_published_facts_is_not_taken(
    tmp_path: Path, toy: Toy, published: dict[str, object], *, own: bool
):
    """A download is not kept, a person's file stays; each is named with the way to take it."""
    server, access = toy[0], only(toy[1], **published)
    (tmp_path / "toy").mkdir()
    if own:
        (tmp_path / FIRST).write_bytes(WHOLE)
    with pytest.raises(SourceFileError, match=rf"{FIRST}.*a page.*--accept-changed"):
        fetched(tmp_path, access)
    assert (own, 0 if own else 1) == ((tmp_path / FIRST).exists(), len(server.seen))
    assert [] == [path for path in (tmp_path / ".downloads").iterdir() if path.suffix != ".lock"]
    assert (own and "size" in published) == bool(differing_files(tmp_path, access))
    taken = [one.state for one in fetched(tmp_path, access, changed=True)]
    assert ["found" if own else "fetched"] == taken
    assert {} == differing_files(tmp_path, access)  # the record decides
    assert ["kept"] == [one.state for one in fetched(tmp_path, access)]
    assert WHOLE == (tmp_path / FIRST).read_bytes()


@pytest.mark.parametrize("name", [FIRST, f"{FIRST}.gz"])
def test_a_person_s_own_file_stays(tmp_path: Path, toy: Toy, name: str):
    """A file that no fetch put there, plain or packed, is neither replaced nor recorded."""
    (tmp_path / "toy").mkdir()
    (tmp_path / name).write_bytes(b"mine")
    assert ["found", "fetched"] == [one.state for one in fetched(tmp_path, toy[1])]
    assert b"mine" == (tmp_path / name).read_bytes()
    assert [SECOND] == list(read_lock(tmp_path / "corpora.lock.toml")["toy"].sha256)


def test_a_process_that_is_killed_loses_nothing(tmp_path: Path, toy: Toy):
    """After SIGKILL in the middle, the next fetch has the folder's lock and sends the rest."""
    server, access = toy
    server.faults["/b.jsonl"] = [Fault(cut=4_000, stalls=True)]
    program = (
        "import pickle, sys\nfrom pathlib import Path\n"
        "from resources.corpora.fetching import Fetcher\n"
        "access = pickle.loads(bytes.fromhex(sys.argv[2]))\n"
        "list(Fetcher(root=Path(sys.argv[1])).fetch(access, pages=True))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path), pickle.dumps(access).hex()]
    with subprocess.Popen(words) as process:
        deadline = time.monotonic() + 60
        while 4_000 not in sizes(tmp_path / ".downloads") and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    assert b"first\n" * 900 == (tmp_path / FIRST).read_bytes()
    assert not (tmp_path / SECOND).exists()
    assert ["kept", "fetched"] == [one.state for one in fetched(tmp_path, access)]
    assert "bytes=4000-" == server.seen[-1].range
    assert b"second\n" * 900 == (tmp_path / SECOND).read_bytes()


def sizes(folder: Path) -> set[int]:
    return {path.stat().st_size for path in folder.iterdir()} if folder.is_dir() else set()


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from resources.corpora.fetching import Fetcher
renamed = False
def hook(event, words):
    global renamed
    before, renamed = renamed, event == "os.rename" and str(words[1]) == sys.argv[3]
    if before or (renamed and sys.argv[4] == "before"):
        os.kill(os.getpid(), signal.SIGKILL)
access = pickle.loads(bytes.fromhex(sys.argv[2]))
sys.addaudithook(hook)
list(Fetcher(root=Path(sys.argv[1])).fetch(access, pages=True))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_a_rename_leaves_no_file_without_its_record(tmp_path: Path, when: str):
    """Killed at the system call of the first of two renames: the next fetch knows its file."""
    with FileServer({"/set.zip": zipped({"first.jsonl": WHOLE, "second.jsonl": b"2"})}) as server:
        access = packed(server, *MEMBERS)
        words = [str(tmp_path), pickle.dumps(access).hex(), str(tmp_path / FIRST), when]
        killed = subprocess.run([sys.executable, "-c", KILLED, *words], check=False)
        assert killed.returncode == -signal.SIGKILL
        assert (when == "after", False) == tuple((tmp_path / one).exists() for _, one in MEMBERS)
        states = [one.state for one in fetched(tmp_path, access)]
    assert ["kept" if when == "after" else "fetched", "fetched"] == states
    recorded = read_lock(tmp_path / "corpora.lock.toml")["toy"].sha256
    assert {path: sha256_of(tmp_path / path) for _, path in MEMBERS} == recorded
    assert {"first.jsonl", "second.jsonl"} == {one.name for one in (tmp_path / "toy").iterdir()}


def test_members_that_are_there_stay_and_a_bad_archive_leaves_nothing(tmp_path: Path):
    """Only missing members are written; damage in the second member keeps the first out."""
    members = {"a/first.jsonl": b"1" * 9_000, "a/second.jsonl": bytes(range(256)) * 40}
    with FileServer({"/set.zip": zipped(members)}) as server:
        access = packed(server, *MEMBERS)
        good, broken = server.files["/set.zip"], bytearray(server.files["/set.zip"])
        broken[len(good) - 400] ^= 0xFF
        server.files["/set.zip"] = bytes(broken)
        with pytest.raises(SourceFileError, match="damaged"):
            fetched(tmp_path, access)
        assert [] == list((tmp_path / "toy").iterdir())
        server.files["/set.zip"] = good
        (tmp_path / FIRST).write_bytes(b"mine")
        states = [(one.path, one.state) for one in fetched(tmp_path, access)]
    assert [(FIRST, "found"), (SECOND, "fetched")] == states
    assert b"mine" == (tmp_path / FIRST).read_bytes()


def test_two_fetches_into_one_folder_do_not_mix(tmp_path: Path, toy: Toy):
    """The second is refused while the first runs, and runs when it has ended."""
    fetching = Fetcher(root=tmp_path).fetch(toy[1], pages=True)
    next(fetching)
    with ThreadPoolExecutor(1) as other, pytest.raises(DecomposeRLError, match="process"):
        other.submit(fetched, tmp_path, toy[1]).result()
    assert 1 == len(list(fetching))
    assert ["kept", "kept"] == [one.state for one in fetched(tmp_path, toy[1])]


def test_a_disk_that_is_full_while_unpacking_is_said(tmp_path: Path):
    """The real error of a full device; what was downloaded is kept."""
    with FileServer({"/set.zip": zipped({"first.jsonl": b"1" * 90_000})}) as server:
        access = packed(server, MEMBERS[0])
        (tmp_path / "toy").mkdir()
        with aside(tmp_path / FIRST) as written:
            written.symlink_to("/dev/full")
            with pytest.raises(SourceError, match=r"first\.jsonl: no space left on device"):
                fetched(tmp_path, access)
        assert "fetched" == fetched(tmp_path, access)[0].state
        assert ["", "bytes=" + str(len(server.files["/set.zip"])) + "-"] == [
            one.range for one in server.seen[-2:]
        ]


# The hub


FIRST_TEXTS = ["first data/a.jsonl", "first b.csv"]
LOCATION = HubLocation("org/toy", (("data/a.jsonl", "toy/a.jsonl"), ("b.csv", "toy/b.csv")))


def publish_toy(hub: Path, commit: str, word: str) -> None:
    texts = {path: f"{word} {name}".encode() for name, path in LOCATION.files}
    publish(hub, LOCATION, commit, texts)


def get(tmp_path: Path, revision: str | None = None, *, location: HubLocation = LOCATION):
    endpoint = (tmp_path / "hub with space").resolve().as_uri()
    fetcher = Fetcher(root=tmp_path / "corpora", endpoint=endpoint, revision=revision)
    return list(fetcher.fetch(Access(name="toy", hub=location), pages=False))


def texts(tmp_path: Path) -> list[str]:
    return [(tmp_path / "corpora" / path).read_text() for _, path in LOCATION.files]


def locked(tmp_path: Path) -> Lock:
    return read_lock(tmp_path / "corpora" / LOCK_FILE)["org/toy"]


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    folder = tmp_path / "hub with space"
    publish_toy(folder, "c0ffee", "first")
    return folder


def test_the_first_fetch_pins_the_commit_and_the_hashes(tmp_path: Path, hub: Path):
    """A branch that moves changes nothing; a damaged file is fetched again, the other is kept."""
    assert ["fetched", "fetched"] == [file.state for file in get(tmp_path)]
    assert FIRST_TEXTS == texts(tmp_path)
    paths = [tmp_path / "corpora" / path for _, path in LOCATION.files]
    hashes = dict(zip(("data/a.jsonl", "b.csv"), map(sha256_of, paths), strict=True))
    assert Lock("c0ffee", hashes) == locked(tmp_path)
    publish_toy(hub, "beef", "second")
    paths[0].write_text("damaged")
    for states in (["fetched", "kept"], ["kept", "kept"]):
        assert states == [file.state for file in get(tmp_path)]
        assert FIRST_TEXTS == texts(tmp_path)
        assert Lock("c0ffee", hashes) == locked(tmp_path)
    kept = list(paths[0].parent.glob("*.replaced-*"))
    assert ["damaged"] == [file.read_text() for file in kept]  # perhaps a person's own


def test_a_fetch_that_broke_off_while_it_copied_continues_at_its_commit(tmp_path: Path, hub: Path):
    """What it copied is neither renamed nor of another commit than the rest."""
    blocking = tmp_path / "corpora" / LOCATION.files[1][1]
    blocking.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        get(tmp_path)
    publish_toy(hub, "beef", "second")
    blocking.rmdir()
    get(tmp_path)
    assert FIRST_TEXTS == texts(tmp_path)
    assert "c0ffee" == locked(tmp_path).revision
    assert [] == list(blocking.parent.glob("*.replaced-*"))


def test_an_explicit_revision_pins_anew(tmp_path: Path, hub: Path):
    """Asking for another commit replaces the entry; other entries of the lock stay."""
    get(tmp_path)
    lock = tmp_path / "corpora" / LOCK_FILE
    lock.write_text(lock.read_text() + '\n["org/other"]\nrevision = "x"\n["org/other".sha256]\n')
    publish_toy(hub, "beef", "second")
    get(tmp_path, "beef")
    assert "second b.csv" == texts(tmp_path)[1]
    revisions = {repo: entry.revision for repo, entry in read_lock(lock).items()}
    assert {"org/toy": "beef", "org/other": "x"} == revisions


def test_a_pattern_takes_the_one_file_that_matches_and_pins_its_name(tmp_path: Path, hub: Path):
    """A file whose exact name is unknown is found by pattern; two matches are refused."""
    location = HubLocation("org/toy", (("*.jsonl", "toy/a.jsonl"),))
    get(tmp_path, location=location)
    assert {"data/a.jsonl"} == set(locked(tmp_path).sha256)
    (hub / "org" / "toy" / "c0ffee" / "z.jsonl").write_text("a later neighbour")
    path = tmp_path / "corpora/toy/a.jsonl"
    path.unlink()
    assert ["fetched"] == [file.state for file in get(tmp_path, location=location)]
    assert "first data/a.jsonl" == path.read_text()
    with pytest.raises(SourceFileError, match=r"'\*\.jsonl'.*data/a\.jsonl, z\.jsonl"):
        get(tmp_path, "c0ffee", location=location)


def test_changed_content_absent_revisions_and_broken_locks_are_named(tmp_path: Path, hub: Path):
    """Each is an error of the corpus; the folder keeps its copies."""
    with pytest.raises(SourceError, match="'dead'"):
        get(tmp_path, "dead")
    get(tmp_path)
    publish_toy(hub, "c0ffee", "forged")
    (tmp_path / "corpora/toy/b.csv").unlink()
    with pytest.raises(SourceFileError, match="SHA-256"):
        get(tmp_path)
    assert "first data/a.jsonl" == (tmp_path / "corpora/toy/a.jsonl").read_text()
    assert not (tmp_path / "corpora/toy/b.csv").exists()
    (hub / "org" / "toy" / "c0ffee" / "b.csv").unlink()
    with pytest.raises(SourceFileError, match=r"b\.csv"):
        get(tmp_path, "c0ffee")
    (tmp_path / "corpora" / LOCK_FILE).write_text("[broken")
    with pytest.raises(SourceFileError, match="lock"):
        get(tmp_path)


FILES = [{"type": "file", "path": "d/a.jsonl", "size": 12, "oid": "0" * 40}]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub(BaseHTTPRequestHandler):
    """The few answers of the hub's protocol that a fetch asks for; ``org/gated`` is gated."""

    def do_GET(self) -> None:
        """Answer by path alone."""
        content, headers, status = b"from the hub", {"ETag": '"e1"', "X-Repo-Commit": COMMIT}, 200
        if "/org/gated" in self.path:
            content, headers, status = b"", {"X-Error-Code": "GatedRepo"}, 403
        elif self.path.startswith("/api/datasets/org/toy"):
            tree = "/tree/" in self.path
            content = json.dumps(FILES if tree else {"id": "org/toy", "sha": COMMIT}).encode()
        elif f"/datasets/org/toy/resolve/{COMMIT}/" not in self.path:
            content, headers, status = b"", {"X-Error-Code": "EntryNotFound"}, 404
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815 - the base's name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


ELSEWHERE = """
import sys
from pathlib import Path
from decomposerl.claims.downloads import Access
from decomposerl.claims.source import HubLocation
from decomposerl.errors import DecomposeRLError
from resources.corpora.fetching import Fetcher
def said(repo, endpoint):
    where = HubLocation(repo, (("d/a.jsonl", "toy/a.jsonl"),), gated=True)
    try:
        fetcher = Fetcher(root=Path("c"), endpoint=endpoint)
        (file,) = fetcher.fetch(Access(name="toy", hub=where), pages=False)
        print((fetcher.root / file.path).read_text())
    except DecomposeRLError as error:
        print(type(error).__name__, error)
endpoint, nobody = sys.argv[1:]
sys.modules["huggingface_hub"] = None
said("org/toy", nobody)
del sys.modules["huggingface_hub"]
said("org/dead", nobody)
said("org/gated", endpoint)
said("org/toy", endpoint)
"""


def test_the_network_path_fetches_and_pins(tmp_path: Path):
    """The client takes the branch's commit; terms, a missing package, a dead host are named."""
    home = {"HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with ThreadingHTTPServer(("127.0.0.1", 0), LoopbackHub) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=[0.02])
        thread.start()
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE]
            + [f"http://127.0.0.1:{port}" for port in (httpd.server_address[1], 9)],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **home},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        httpd.shutdown()
        thread.join()
    missing, dead, gated, content = done.stdout.splitlines()
    assert missing.startswith("EngineMissing")
    assert "pip install -e '.[hub]'" in missing
    assert dead.startswith("SourceError org/dead ")
    assert gated.startswith("SourceError org/gated ")
    assert "https://" in gated
    assert "token" in gated
    assert "from the hub" == content
    lock = read_lock(tmp_path / "c" / LOCK_FILE)["org/toy"]
    assert (COMMIT, ["d/a.jsonl"]) == (lock.revision, list(lock.sha256))


# Archives


ARCHIVED = {"set/train.tsv": b"train", "set/dev.tsv": b"dev", "set/readme.txt": b"not wanted"}
MOST = 10_000
Make = Callable[[Path, Mapping[str, bytes]], Path]


def made_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    path.write_bytes(zipped(members))
    return path


def made_tar(path: Path, members: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def take(archive: Path, out: Path, *names: str, most: int = MOST) -> dict[str, bytes]:
    """The wanted members as they were written; nothing else is in the folder."""
    out.mkdir()
    unpack(archive, {name: out / f"new-{name}" for name in names}, most)
    assert {f"new-{name}" for name in names} == {path.name for path in out.iterdir()}
    return {name: (out / f"new-{name}").read_bytes() for name in names}


@pytest.mark.parametrize("make", [made_zip, made_tar, lambda p, m: made_tar(p, m, "w")])
def test_wanted_members_are_written_and_no_other(tmp_path: Path, make: Make):
    """By name without folders, from zip, tar.gz and tar; resource forks of a Mac do not count."""
    members = {**ARCHIVED, "__MACOSX/set/train.tsv": b"fork", "set/sub/train_1.tsv": b"fold"}
    archive = make(tmp_path / "archive", members)
    found = take(archive, tmp_path / "out", "train.tsv", "dev.tsv")
    assert {"train.tsv": b"train", "dev.tsv": b"dev"} == found


def linked_zip(path: Path, _: Mapping[str, bytes]) -> Path:
    """The wanted member is a symbolic link."""
    link = zipfile.ZipInfo("set/train.tsv")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    return path


def linked_tar(path: Path, _: Mapping[str, bytes]) -> Path:
    link = tarfile.TarInfo("set/train.tsv")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path, "w") as archive:
        archive.addfile(link)
    return path


def changed(make: Make, change: Callable[[bytearray], bytes]) -> Make:
    """The archive after a change of its bytes."""

    def made(path: Path, members: Mapping[str, bytes]) -> Path:
        path.write_bytes(change(bytearray(make(path, members).read_bytes())))
        return path

    return made


def flipped(data: bytearray) -> bytes:
    data[60] ^= 0xFF
    return bytes(data)


def with_password(data: bytearray) -> bytes:
    """The marks of one."""
    central = b"PK\x01\x02\x14\x03\x14\x00\x00"
    plain = bytes(data).replace(central, central[:-1] + b"\x01")
    return plain.replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01")


BOTH = (made_zip, made_tar)
SOUND = {"set/train.tsv": bytes(range(256)) * 30}
HOSTILE: list[tuple[tuple[Make, ...], dict[str, bytes], str]] = [
    (BOTH, {"../../train.tsv": b"x"}, "member ../../train.tsv leaves"),
    (BOTH, {"/etc/train.tsv": b"x"}, "member /etc/train.tsv leaves"),
    (BOTH, {"a/train.tsv": b"x", "b/train.tsv": b"y"}, "several .*train.tsv"),
    (BOTH, {"a/dev.tsv": b"x"}, "no member train.tsv"),
    (BOTH, {"a/train.tsv": b"x" * (MOST + 1)}, "a/train.tsv unpacks to more"),
    ((linked_zip, linked_tar), {}, r"train\.tsv is no regular file"),
    # A tar is read from its start, so a huge member before the wanted one is refused too.
    ((made_tar,), {"huge": b"0" * 5_000_000, "train.tsv": b"x"}, "unpacks to more"),
    ((changed(made_tar, lambda data: bytes(data[:-120])),), SOUND, "archive is damaged"),
    ((changed(made_zip, flipped),), SOUND, "archive is damaged"),
    (
        (changed(made_zip, lambda _: b"<html>no archive</html>" * 40),),
        SOUND,
        "archive is damaged",
    ),
    ((changed(made_zip, with_password),), SOUND, "archive is damaged"),
]


@pytest.mark.parametrize(
    ("make", "members", "said"), [(one, *rest) for makes, *rest in HOSTILE for one in makes]
)
def test_hostile_and_incomplete_archives_are_refused(
    tmp_path: Path, make: Make, members: dict[str, bytes], said: str
):
    """Archive and member are named, nothing is written outside, and the bound holds."""
    archive = make(tmp_path / "archive", members)
    with pytest.raises(SourceFileError, match=said):
        take(archive, tmp_path / "out", "train.tsv")
    assert {"archive", "out"} == {path.name for path in tmp_path.iterdir()}
    assert MOST >= sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
