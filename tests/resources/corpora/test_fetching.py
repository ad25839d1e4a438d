"""The corpora folder after a fetch: laid out as the adapters read it, held to its checksums.

What it lacks, with the command that gets it, and named files out of made archives.
"""

import hashlib
import io
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

from decomposerl.claims.addresses import ACCESS
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Benchmark, NativeFile, Source
from decomposerl.errors import DecomposeRLError, SourceError, SourceFileError
from file_server import Fault, FileServer
from resources.corpora.fetching import Fetched, Fetcher
from resources.corpora.folder import FolderCorpora
from resources.corpora.status import corpora_checks, differing_files, missing_files
from resources.corpora.transfer import Downloader
from resources.corpora.unpacking import unpack
from resources.hub.download import read_lock, sha256_of
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
    plain = [replace(one, size=None, sha256="", git_blob="") for one in access.downloads]
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


def local_hub(root: Path, access: Access, made: Mapping[str, bytes]) -> str:
    """A hub laid out as folders with the files of a corpus; an address for ``endpoint``."""
    if access.hub is not None:
        folder = root / access.hub.repo_id
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("r1", "utf-8")
        for name, path in access.hub.files:
            target = folder / "r1" / name.replace("*", "")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(made[path])
    return root.as_uri()


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
        hub = local_hub(tmp_path / "hub", access, made)
        roomy = Downloader(free=lambda _: 10**12)
        fetcher = Fetcher(root=root, mirror=server.url(), endpoint=hub, downloader=roomy)
        got = list(fetcher.fetch(access, pages=True))
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


def one(server: FileServer, url: str, *files: tuple[str, str], unpacked: int = 0) -> Download:
    return Download(url=server.url(url), files=files, checked_in="a page", unpacked=unpacked)


MEMBERS = (("first.jsonl", FIRST), ("second.jsonl", SECOND))


def packed(server: FileServer, *files: tuple[str, str], unpacked: int = 0) -> Access:
    """The corpus whose files are members of the archive ``/set.zip``."""
    return Access(name="toy", downloads=(one(server, "/set.zip", *files, unpacked=unpacked),))


def fetched(root: Path, access: Access, *, changed: bool = False) -> list[Fetched]:
    fetcher = Fetcher(root=root, accept_changed=changed, downloader=Downloader(wait=lambda _: None))
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


DIFFERENT: list[tuple[dict[str, object], str]] = [
    ({"size": 5_401}, "5,400 bytes .*5,401"),
    ({"sha256": "0" * 64}, "SHA-256 .* 0000"),
    ({"git_blob": "0" * 40}, "Git object .* 0000"),
]


@pytest.mark.parametrize(("published", "said"), DIFFERENT)
def test_what_differs_from_the_published_facts_is_not_kept(
    tmp_path: Path, toy: Toy, published: dict[str, object], said: str
):
    """The error says what differs, where it was read, and the way to take it nevertheless."""
    access = only(toy[1], **published)
    with pytest.raises(SourceFileError, match=rf"{said}.*a page.*--accept-changed"):
        fetched(tmp_path, access)
    assert not (tmp_path / FIRST).exists()
    assert [] == [path for path in (tmp_path / ".downloads").iterdir() if path.suffix != ".lock"]
    assert "fetched" == fetched(tmp_path, access, changed=True)[0].state
    assert {} == differing_files(tmp_path, access)  # the record decides
    assert "kept" == fetched(tmp_path, access)[0].state


@pytest.mark.parametrize(
    "published", [{"size": 5_400}, {"sha256": WHOLE_SHA}, {"git_blob": "0" * 40}], ids=str
)
def test_a_found_file_that_is_not_the_published_one_is_named_and_stays(
    tmp_path: Path, toy: Toy, published: dict[str, object]
):
    """A download of a person that broke off is not taken for the file, nor written over."""
    server, access = toy[0], only(toy[1], **published)
    cut = WHOLE[:-5]
    (tmp_path / "toy").mkdir()
    (tmp_path / FIRST).write_bytes(cut)
    with pytest.raises(SourceFileError, match=FIRST):
        fetched(tmp_path, access)
    assert (cut, []) == ((tmp_path / FIRST).read_bytes(), server.seen)
    assert ("size" in published) == bool(differing_files(tmp_path, access))
    assert ["found"] == [one.state for one in fetched(tmp_path, access, changed=True)]
    assert ["kept"] == [one.state for one in fetched(tmp_path, access)]
    assert (cut, []) == ((tmp_path / FIRST).read_bytes(), server.seen)


def test_the_right_published_facts_are_accepted(tmp_path: Path, toy: Toy):
    """``git hash-object`` gives this id; a person's file is checked, and not recorded."""
    toy[0].files["/a.jsonl"] = b"hello\n"
    right = only(toy[1], size=6, git_blob="ce013625030ba8dba906f756967f9e9ca394464a")
    assert "fetched" == fetched(tmp_path, right)[0].state
    own = tmp_path / "own"
    (own / "toy").mkdir(parents=True)
    (own / FIRST).write_bytes(WHOLE)
    access = only(toy[1], size=len(WHOLE), sha256=WHOLE_SHA)
    assert [Fetched(FIRST, "found")] == fetched(own, access)
    assert {} == differing_files(own, access)


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


def test_the_same_database_is_fetched_once(tmp_path: Path):
    """Ex-FEVER uses HoVer's pages: the second corpus gets a link; a damaged twin is not used."""
    hover, ex_fever = unchecked(ACCESS["hover"]), unchecked(ACCESS["ex_fever"])
    with FileServer({f"/{hover.downloads[-1].url.partition('://')[2]}": b"pages" * 99}) as server:
        fetcher = Fetcher(root=tmp_path, mirror=server.url(), known=ACCESS)
        pages = [replace(one, downloads=one.downloads[-1:]) for one in (hover, ex_fever)]
        states = [one.state for access in pages for one in fetcher.fetch(access, pages=True)]
        assert ["fetched", "linked"] == states
        first, second = tmp_path / "hover/wiki_wo_links.db", tmp_path / "ex_fever/pages.db"
        assert first.stat().st_ino == second.stat().st_ino
        second.unlink()
        second.write_bytes(b"edited")
        (linked,) = fetcher.fetch(pages[1], pages=True)
        assert ("linked", "pages.db.replaced-1") == (linked.state, linked.replaced)
        assert b"edited" == second.with_name(linked.replaced).read_bytes()
        first.unlink()
        first.write_bytes(b"damaged")
        second.unlink()
        assert ["fetched"] == [one.state for one in fetcher.fetch(pages[1], pages=True)]


def test_pages_are_fetched_only_on_request(tmp_path: Path, made: Mapping[str, bytes]):
    """Without ``pages`` no request goes to a page database."""
    access = unchecked(ACCESS["hover"])
    with FileServer(served(access, made)) as server:
        list(Fetcher(root=tmp_path, mirror=server.url()).fetch(access, pages=False))
        assert not [one for one in server.seen if one.path.endswith(".db")]
    assert () == missing_files(tmp_path, access)
    assert ("hover/wiki_wo_links.db",) == missing_files(tmp_path, access, pages=True)


def test_two_fetches_into_one_folder_do_not_mix(tmp_path: Path, toy: Toy):
    """The second is refused while the first runs, and runs when it has ended."""
    fetching = Fetcher(root=tmp_path).fetch(toy[1], pages=True)
    next(fetching)
    with ThreadPoolExecutor(1) as other, pytest.raises(DecomposeRLError, match="process"):
        other.submit(fetched, tmp_path, toy[1]).result()
    assert 1 == len(list(fetching))
    assert ["kept", "kept"] == [one.state for one in fetched(tmp_path, toy[1])]


def test_a_full_disk_is_said_before_the_download_and_while_unpacking(tmp_path: Path):
    """Before: with the unpacked size. While unpacking: the real error of a full device."""
    with FileServer({"/set.zip": zipped({"first.jsonl": b"1" * 90_000})}) as server:
        access = packed(server, MEMBERS[0], unpacked=7_000_000)
        little = Downloader(free=lambda _: 55_000_000)
        with pytest.raises(SourceError, match=r"57 MB .*55 MB"):
            list(Fetcher(root=tmp_path, downloader=little).fetch(access, pages=True))
        (tmp_path / "toy").mkdir()
        with aside(tmp_path / FIRST) as written:
            written.symlink_to("/dev/full")
            with pytest.raises(SourceError, match=r"first\.jsonl: no space left on device"):
                fetched(tmp_path, access)
        assert "fetched" == fetched(tmp_path, access)[0].state
        assert ["", "bytes=" + str(len(server.files["/set.zip"])) + "-"] == [
            one.range for one in server.seen[-2:]
        ]


# What is missing


SIZES = {path: one.size for it in ACCESS.values() for one in it.downloads for _, path in one.files}


def place(root: Path, *paths: str) -> None:
    """Files of their published sizes that take no space."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with (root / path).open("wb") as file:
            file.truncate(SIZES.get(path) or 0)


def test_an_empty_folder_names_the_command_of_every_corpus(tmp_path: Path):
    """One note each, none of which stops a run; the bundled sample needs none."""
    assert [] == list(corpora_checks(None))
    summary, *notes = corpora_checks(tmp_path)
    assert "0 of 16 have all their files" == summary.said
    assert {f"decomposerl fetch {name}" for name in ACCESS} == {note.fix for note in notes}
    assert {"note"} == {note.state for note in notes}


def test_what_is_there_is_not_missing(tmp_path: Path):
    """Packed files count; page databases are asked for once the claims are there."""
    place(tmp_path, "scitab/sci_tab.json.gz", *ACCESS["hover"].files(pages=False))
    place(tmp_path, "wice/claim/train.jsonl", "pubmedqa/pqal_train_dev.json")
    found = {note.what: note for note in corpora_checks(tmp_path)}
    assert "scitab" not in found
    assert "decomposerl fetch hover --pages" == found["hover"].fix
    assert "hover/wiki_wo_links.db" in found["hover"].said
    assert "4 of 5 files are missing: wice/claim/dev.jsonl, wice/claim/test.jsonl, …" == (
        found["wice"].said
    )
    assert found["pubmedclaim"].said.endswith("; pubmedqa/pqal_train_dev.json is read")
    # A file that is there in the hub's form is not missing.
    place(tmp_path, "scifact/claims/train.parquet", "scifact/claims/validation/0000.parquet")
    lacking = {note.what: note for note in corpora_checks(tmp_path)}["scifact"]
    assert "1 of 3 files are missing: scifact/corpus.jsonl; " in f"{lacking.said}; "
    place(tmp_path, "hover/wiki_wo_links.db", "scifact/corpus/train.parquet")
    assert () == missing_files(tmp_path, ACCESS["hover"], pages=True)
    assert "3 of 16 have all their files" == next(corpora_checks(tmp_path)).said


# Archives


ARCHIVED = {"set/train.tsv": b"train", "set/dev.tsv": b"dev", "set/readme.txt": b"not wanted"}
MOST = 10_000
Make = Callable[[Path, Mapping[str, bytes]], Path]


def made_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
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
    info = tarfile.TarInfo("set/train.tsv")
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path, "w") as archive:
        archive.addfile(info)
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


def locked(data: bytearray) -> bytes:
    """With the marks of a password."""
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
    ((changed(made_zip, lambda _: b"<html>no archive</html>" * 40),), SOUND, "archive is damaged"),
    ((changed(made_zip, locked),), SOUND, "archive cannot be read"),
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
