"""Fetching a corpus at a pinned revision, from a repository laid out as a folder."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from decomposerl.claims.source import HubLocation
from decomposerl.errors import SourceError, SourceFileError
from resources.hub.download import fetch, read_lock, sha256_of

LOCATION = HubLocation("org/toy", (("data/a.jsonl", "toy/a.jsonl"), ("b.csv", "toy/b.csv")))


def publish(hub: Path, revision: str, text: str, *, main: bool = True) -> None:
    folder = hub / "org" / "toy"
    for file, _ in LOCATION.files:
        path = folder / revision / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} {file}")
    if main:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / "main").write_text(revision + "\n")


def get(tmp_path: Path, revision: str | None = None) -> list[Path]:
    endpoint = (tmp_path / "hub with space").resolve().as_uri()
    lock = tmp_path / "corpora.lock.toml"
    return fetch(LOCATION, tmp_path / "corpora", lock, revision=revision, endpoint=endpoint)


@pytest.fixture(autouse=True)
def hub(tmp_path: Path) -> Path:
    folder = tmp_path / "hub with space"
    publish(folder, "c0ffee", "first")
    return folder


def test_the_first_fetch_pins_the_commit_and_the_hashes(tmp_path: Path):
    """Files land below the corpora folder and the lock holds commit and SHA-256 of each."""
    paths = get(tmp_path)
    assert [tmp_path / "corpora" / local for _, local in LOCATION.files] == paths
    assert "first data/a.jsonl" == paths[0].read_text()
    lock = read_lock(tmp_path / "corpora.lock.toml")["org/toy"]
    assert "c0ffee" == lock.revision
    assert {"data/a.jsonl": sha256_of(paths[0]), "b.csv": sha256_of(paths[1])} == lock.sha256


def test_a_file_of_a_person_is_kept_under_another_name(tmp_path: Path):
    """The fetched one takes its place; a further fetch renames nothing."""
    own = tmp_path / "corpora" / LOCATION.files[0][1]
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    for _ in range(2):
        get(tmp_path)
        assert "first data/a.jsonl" == own.read_text()
    kept = list(own.parent.glob("*.replaced-*"))
    assert ["mine"] == [one.read_text() for one in kept]


def test_later_fetches_stay_on_the_locked_commit(tmp_path: Path, hub: Path):
    """A branch that moves changes nothing, and a damaged local file is fetched again."""
    paths = get(tmp_path)
    publish(hub, "beef", "second")
    before = (tmp_path / "corpora.lock.toml").read_text()
    paths[0].write_text("damaged")
    assert ["first data/a.jsonl", "first b.csv"] == [path.read_text() for path in get(tmp_path)]
    assert before == (tmp_path / "corpora.lock.toml").read_text()


def test_a_fetch_that_broke_off_while_it_copied_continues_at_its_commit(tmp_path: Path, hub: Path):
    """What it copied is neither renamed nor of another commit than the rest."""
    blocking = tmp_path / "corpora" / LOCATION.files[1][1]
    blocking.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        get(tmp_path)
    publish(hub, "beef", "second")
    blocking.rmdir()
    assert ["first data/a.jsonl", "first b.csv"] == [path.read_text() for path in get(tmp_path)]
    assert "c0ffee" == read_lock(tmp_path / "corpora.lock.toml")["org/toy"].revision
    assert [] == list(blocking.parent.glob("*.replaced-*"))


def test_an_explicit_revision_pins_anew(tmp_path: Path, hub: Path):
    """Asking for another commit replaces the entry; other entries of the lock stay."""
    get(tmp_path)
    lock = tmp_path / "corpora.lock.toml"
    lock.write_text(lock.read_text() + '\n["org/other"]\nrevision = "x"\n["org/other".sha256]\n')
    publish(hub, "beef", "second", main=False)
    assert "second b.csv" == get(tmp_path, "beef")[1].read_text()
    assert {"org/toy": "beef", "org/other": "x"} == {
        repo: entry.revision for repo, entry in read_lock(lock).items()
    }


def test_a_pattern_takes_the_one_file_that_matches_and_pins_its_name(tmp_path: Path, hub: Path):
    """A file whose exact name is unknown is found by pattern; two matches are refused."""
    endpoint, lock = hub.resolve().as_uri(), tmp_path / "corpora.lock.toml"
    location = HubLocation("org/toy", (("*.jsonl", "toy/rows.jsonl"),))
    (path,) = fetch(location, tmp_path, lock, endpoint=endpoint)
    assert "first data/a.jsonl" == path.read_text()
    assert {"data/a.jsonl"} == set(read_lock(lock)["org/toy"].sha256)
    (hub / "org" / "toy" / "c0ffee" / "z.jsonl").write_text("a later neighbour")
    assert [path] == fetch(location, tmp_path, lock, endpoint=endpoint)
    with pytest.raises(SourceFileError, match=r"'\*\.jsonl'.*data/a\.jsonl, z\.jsonl"):
        fetch(location, tmp_path, tmp_path / "other.toml", endpoint=endpoint)


def test_changed_content_at_the_locked_commit_is_refused(tmp_path: Path, hub: Path):
    """A hash that differs names file and lock, and the corpora folder keeps its copy."""
    paths = get(tmp_path)
    publish(hub, "c0ffee", "forged")
    paths[1].unlink()
    with pytest.raises(SourceFileError, match=r"b\.csv has SHA-256"):
        get(tmp_path)
    assert "first data/a.jsonl" == paths[0].read_text()
    assert not paths[1].exists()


def test_absent_revisions_files_and_broken_locks_are_named(tmp_path: Path, hub: Path):
    """Each failure is an error of the corpus that says what is absent."""
    with pytest.raises(SourceError, match="'dead'"):
        get(tmp_path, "dead")
    (hub / "org" / "toy" / "c0ffee" / "b.csv").unlink()
    with pytest.raises(SourceFileError, match=r"b\.csv"):
        get(tmp_path)
    (tmp_path / "corpora.lock.toml").write_text("[broken")
    with pytest.raises(SourceFileError, match="lock"):
        get(tmp_path)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub(BaseHTTPRequestHandler):
    """The few answers of the hub's protocol that a fetch asks for; ``org/gated`` is gated."""

    def do_HEAD(self) -> None:
        """Headers only."""
        self.answer(body=False)

    def do_GET(self) -> None:
        """Headers and content."""
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        """Answer by path alone."""
        content, headers, status = b"from the hub", {"ETag": '"e1"', "X-Repo-Commit": COMMIT}, 200
        if "/org/gated" in self.path:
            content, headers, status = b"", {"X-Error-Code": "GatedRepo"}, 403
        elif self.path.startswith("/api/datasets/org/toy"):
            content = json.dumps({"id": "org/toy", "sha": COMMIT, "siblings": []}).encode()
        elif f"/datasets/org/toy/resolve/{COMMIT}/" not in self.path:
            content, headers, status = b"", {"X-Error-Code": "EntryNotFound"}, 404
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


ELSEWHERE = """
import sys
from pathlib import Path
from decomposerl.claims.source import HubLocation
from decomposerl.errors import DecomposeRLError
from resources.hub.download import fetch
def said(repo, endpoint):
    where = HubLocation(repo, (("d/a.jsonl", "toy/a.jsonl"),), gated=True)
    try:
        print(fetch(where, Path("c"), Path("lock"), endpoint=endpoint)[0].read_text())
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
    """The real client resolves the branch, downloads at that commit, and the lock says so.

    Where terms must be accepted the page is named, and the token; a missing package names its
    command, a dead endpoint the corpus. In a process with the network settings of a plain user.
    """
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
    assert "pip install 'decomposerl[hub]'" in missing
    assert dead.startswith("SourceError org/dead ")
    assert gated.startswith("SourceError org/gated ")
    assert "https://" in gated
    assert "token" in gated
    assert "from the hub" == content
    lock = read_lock(tmp_path / "lock")["org/toy"]
    assert (COMMIT, ["d/a.jsonl"]) == (lock.revision, list(lock.sha256))
