"""Fetches the files of a corpus into the corpora folder and holds them to their checksums.

What is there already is not fetched again. A published checksum decides first; the SHA-256 of each
file that was fetched is recorded in ``corpora.lock.toml`` and decides from then on.

A download comes from named hosts alone and is never longer than allowed; the proxies of the
environment are used. What arrived is in a part file in ``.downloads`` of the folder, the validator
(ETag or date) that the server sent beside it. A broken transfer, also of an earlier process,
continues with a range request if the server still has that content, and begins anew if not.
"""

import fnmatch
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import httpx

from decomposerl.claims.downloads import Access, Download
from decomposerl.claims.source import Corpus
from decomposerl.errors import SourceError, SourceFileError
from decomposerl.progress import bar
from resources.corpora.archives import DAMAGE, archive_members
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import LOCK_FILE, Lock, read_lock
from resources.corpora.status import difference
from resources.hub.locks import hub_failures, hub_package
from resources.store.integrity import file_sha256
from resources.store.run_lock import file_lock
from resources.store.temporary import aside, naming, put_in_place

State = Literal["fetched", "kept", "found"]
"""``kept``: as it was fetched before; ``found``: put there by a person."""
TRIES = 5
"""Attempts in a row that bring nothing, after which a transfer is given up."""
_REDIRECTS, _KB = 5, 1_000
_UNREACHABLE, _CONNECTS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError), 2
_TIMEOUT, _LONGEST_WAIT_S = httpx.Timeout(60.0, connect=20.0), 60.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_SPARE = 50_000_000
"""Bytes that stay free on the disk."""
_BY_HAND = "; open it in a browser and put the file there yourself, unpacked: {url}"
_WEB_PAGE = "sent a web page in place of the file" + _BY_HAND
_NO_LENGTH = "does not say how long the file is, so a cut would not be noticed" + _BY_HAND


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file of the corpora folder, where it came from, and its SHA-256 (empty: not computed).

    ``replaced`` is the new name of the file that was there before (empty: there was none).
    """

    path: str
    state: State
    sha256: str = ""
    replaced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches into ``root``.

    ``mirror`` is a server that has the files of ``https://host/path`` as ``/host/path``.
    ``accept_changed`` takes content that differs from the recorded or published checksum, and
    records its own. ``wait`` sleeps between attempts.
    """

    root: Path
    mirror: str = ""
    accept_changed: bool = False
    wait: Callable[[float], object] = time.sleep

    def accepts(self, corpus: Corpus, *, now: bool) -> bool:
        """Whether a person accepted these terms of the corpus before; ``now`` records that."""
        terms = hashlib.sha256(f"{corpus.license}\n{corpus.terms}".encode()).hexdigest()[:12]
        lock, today = read_lock(self.root, corpus.name), datetime.now().astimezone().date()
        accepted = lock.accepted.startswith(terms)  # other terms are shown again
        if now and not accepted:
            lock.accepted = f"{terms} on {today.isoformat()}"
            lock.write()
        return accepted

    def fetch(self, access: Access, *, pages: bool) -> Iterator[Fetched]:
        """Bring the files of a corpus, with or without page databases; each as it is there.

        Raises:
            SourceError: a server refuses or breaks off, the disk has no room, or another process
                fetches into this folder.
            SourceFileError: a file, fetched or found, is not the published or recorded one, or an
                archive is damaged.
            EngineMissing: a corpus of the hub, and ``huggingface_hub`` is not installed.
            OSError: a file cannot be written; ``filename`` is its path.
        """
        with file_lock(self.root / ".downloads/fetch.lock", str(self.root)):
            for download in access.downloads:
                if download.url and (pages or not download.pages):
                    with naming(self.root / download.name):
                        yield from self._bring(download, read_lock(self.root, access.name))

    def _bring(self, download: Download, lock: Lock) -> Iterator[Fetched]:
        states = [self._there(download, path, lock) for path in download.files.values()]
        there = {file.path: file for file in states if file is not None}
        yield from there.values()
        wanted = {member: path for member, path in download.files.items() if path not in there}
        if not wanted:
            return
        digest = hashlib.sha256(download.url.encode()).hexdigest()[:8]
        whole = self.root / ".downloads" / f"{digest}_{download.url.rpartition('/')[2]}"
        try:
            with aside(whole.with_name("new")) as new:
                new.mkdir()
                files = {member: new / Path(path).name for member, path in wanted.items()}
                files = self._contents(download, files, lock, whole)
                placed = self._placed({wanted[name]: file for name, file in files.items()}, lock)
        except SourceFileError:  # the next fetch asks for it again
            whole.unlink(missing_ok=True)
            raise
        whole.unlink(missing_ok=True)
        yield from placed

    def _there(self, download: Download, path: str, lock: Lock) -> Fetched | None:
        """The file if it is there and is not a damaged copy of the recorded one.

        A person's file, perhaps a ``.gz``, has to be the published one, or is recorded as it is
        with ``accept_changed``.
        """
        target, digest = self.root / path, lock.sha256.get(path, "")
        if not target.is_file():
            return Fetched(path, "found") if FolderCorpora(self.root).exists(path) else None
        if digest:
            return Fetched(path, "kept", digest) if file_sha256(target) == digest else None
        wrong = "" if download.archive else difference(download, target)
        if wrong and not self.accept_changed:
            raise SourceFileError(
                f"{path} was there before and is damaged or another version: {wrong} (read in "
                f"{download.checked_in}). Move it away and run the command again to fetch the "
                "published one, or keep it with --accept-changed"
            )
        if wrong:
            digest = lock.sha256[path] = file_sha256(target)
            lock.write()
        return Fetched(path, "found", digest)

    def _contents(
        self, download: Download, files: dict[str, Path], lock: Lock, whole: Path
    ) -> dict[str, Path]:
        """Write the ``files``, of which ``whole`` may be the only one; gives where they are."""
        if download.repo_id:
            lock.revision = _from_hub(download, files, lock.revision)
            return files
        if self.mirror:
            address = f"{self.mirror.rstrip('/')}/{download.url.partition('://')[2]}"
            download = replace(download, url=address, redirects=())
        bring(download, whole, self.wait)
        if (wrong := difference(download, whole)) and not self.accept_changed:
            raise SourceFileError(
                f"{download.name}: {wrong} (read in {download.checked_in}); nothing was kept. "
                "If the publisher has changed it, --accept-changed takes it as it is"
            )
        if not download.archive:
            return {"": whole}
        unpack(whole, files, download.most_bytes)
        return files

    def _placed(self, files: Mapping[str, Path], lock: Lock) -> list[Fetched]:
        """Hold new files to the recorded checksums and rename them to their paths.

        Another file that is there keeps a name: none is lost.
        """
        digests = {path: file_sha256(file) for path, file in files.items()}
        for path, digest in digests.items():
            if lock.sha256.get(path, digest) != digest and not self.accept_changed:
                raise SourceFileError(
                    f"{path} has SHA-256 {digest}, the first fetch recorded {lock.sha256[path]} in "
                    f"{self.root / LOCK_FILE}; nothing was kept. --accept-changed takes the new "
                    "content"
                )
        # Recorded first: a fetch that is killed among the renames knows its files afterwards, and
        # continues at the same commit of the hub.
        lock.sha256 |= digests
        lock.write()
        placed = []
        for path, digest in digests.items():
            target, replaced = self.root / path, ""
            if target.is_file():
                replaced = f"{target.name}.replaced-{file_sha256(target)[:8]}"
                target.replace(target.with_name(replaced))
            target.parent.mkdir(parents=True, exist_ok=True)
            put_in_place(files[path], target)
            placed.append(Fetched(path, "fetched", digest, replaced))
        return placed


def _from_hub(download: Download, files: Mapping[str, Path], commit: str) -> str:
    """Copy files of a dataset, by pattern, at a commit or else the newest; gives the commit.

    The hub's client resumes and retries, and keeps the files in its own cache. The path to the hub
    is tested against a server on loopback that speaks its protocol.
    """
    hub, repo, page = hub_package(), download.repo_id, download.url
    where = {"repo_type": "dataset", "revision": commit or None}
    try:
        snapshot = Path(hub.snapshot_download(repo, allow_patterns=list(files), **where))
    except hub.errors.RepositoryNotFoundError as error:  # as a gated one is to the unknown
        raise SourceError(
            f"{repo} is gated: accept its terms at {page}, then put a token of that account "
            "into HF_TOKEN (or: hf auth login)"
        ) from error
    except hub_failures(hub) as error:
        why = " ".join(str(error).split())
        raise SourceError(f"{repo} could not be fetched: {why} ({page})") from error
    here = [str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()]
    for pattern, file in files.items():
        if len(matches := sorted(fnmatch.filter(here, pattern))) != 1:
            raise SourceFileError(
                f"{len(matches)} files match '{pattern}' at revision {snapshot.name}: "
                f"{', '.join(matches) or 'none'}"
            )
        shutil.copyfile(snapshot / matches[0], file)
    return snapshot.name


def unpack(archive: Path, wanted: Mapping[str, Path], most: int) -> None:
    """Write the members of a zip or tar archive to the paths of ``wanted``.

    A member is found by its name without folders and must be the only regular file of that name;
    its own path decides nothing. All members together have at most ``most`` bytes.

    Raises:
        SourceError: the disk has no room for a member.
        SourceFileError: the archive is damaged or too large, or a member is missing or doubled.
        OSError: the disk is full, or a path cannot be written.
    """
    missing = set(wanted)
    try:
        for path, size, _, opened in archive_members(archive):
            name = path.name
            most -= size  # of every member: a tar is unpacked from its start
            if most < 0:
                raise SourceFileError(f"{archive.name}: {path} unpacks to more than is expected")
            if name not in wanted or "__MACOSX" in path.parts:
                continue
            if name not in missing:
                raise SourceFileError(f"{archive.name} has several members {name}")
            missing.remove(name)
            require_space(name, archive.parent, size)
            with opened() as source, wanted[name].open("wb") as file:
                shutil.copyfileobj(source, file)
    except DAMAGE as error:
        if getattr(error, "errno", None) is not None:  # of the disk, not of what is packed
            raise
        raise SourceFileError(
            f"{archive.name} is damaged or cannot be read: {error}; run the same command again, "
            "which downloads it anew"
        ) from error
    if missing:
        raise SourceFileError(f"{archive.name} has no file {', '.join(sorted(missing))}")


class _Broken(httpx.TransportError):
    """The transfer should be tried again, in ``wait_s`` if the server says so."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.wait_s = wait_s


def bring(download: Download, target: Path, wait: Callable[[float], object] = time.sleep) -> None:
    """Fetch the whole content to ``target``, unless it is there; else what arrived stays beside it.

    ``wait`` sleeps between attempts.

    Raises:
        SourceError: the server refuses, lacks or cuts the file, redirects to another host,
            sends a web page or too much, the disk has no room, or a proxy variable is wrong.
    """
    if target.is_file():
        return
    part, failed = target.with_name(f"{target.name}.part"), 0
    with _client(download) as client:
        while True:
            before = _size(part)
            try:
                _attempt(client, download, part)
                break
            except httpx.TooManyRedirects as error:
                raise _refusal(download, f"sends more than {_REDIRECTS} redirects") from error
            except httpx.TransportError as error:
                failed = failed + 1 if _size(part) <= before else 1
                if failed >= (_CONNECTS if isinstance(error, _UNREACHABLE) else TRIES):
                    raise _refusal(
                        download,
                        f"gave nothing more in {failed} attempts "
                        f"({str(error) or type(error).__name__}); {_size(part):,} bytes are "
                        "kept, run the same command again to continue",
                    ) from error
                wait_s = getattr(error, "wait_s", None)
                wait(min(2.0**failed if wait_s is None else wait_s, _LONGEST_WAIT_S))
    part.with_suffix(".version").unlink()
    part.replace(target)


def _attempt(client: httpx.Client, download: Download, part: Path) -> None:
    """Receive what is missing of the part, or all of it where the server has other content."""
    version = part.with_suffix(".version")
    known = version.read_text("utf-8") if version.is_file() else ""
    start = _size(part) if known else 0
    headers = {"Range": f"bytes={start}-"} if start else {}
    with client.stream("GET", download.url, headers=headers) as answer:
        code, span = answer.status_code, answer.headers.get("Content-Range", "")
        sent = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        partial = code == httpx.codes.PARTIAL_CONTENT
        continues = start and sent == known and span.startswith(f"bytes {start}-")
        # A part is never whole: a server that says it has no more than that is wrong.
        no_more = start and code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE
        if no_more or (partial and not continues):
            part.unlink(missing_ok=True)
            raise _Broken("the server sent another range or another version than asked for")
        _refuse(answer, download)
        start = start if partial else 0
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else 0
        needed = max(total - start, 0) + download.unpacked + _SPARE
        require_space(download.name, part.parent.parent, needed)
        version.write_text(sent, "utf-8")
        with (
            part.open("ab" if start else "wb") as file,
            bar(download.name, -(-total // _KB), "kB", start // _KB) as shown,
        ):
            for chunk in answer.iter_raw():
                # Whatever its header said.
                if not start and chunk.lstrip().lower().startswith((b"<!doctype html", b"<html")):
                    raise _refusal(download, _WEB_PAGE)
                start += len(chunk)
                if (least := max(start, total)) > (most := download.most_bytes):
                    raise _refusal(download, f"sends {least:,} bytes or more of at most {most:,}")
                file.write(chunk)
                file.flush()  # what arrived outlives a process that is killed
                shown.move(start // _KB)
        if start < total:
            raise _Broken(f"{start:,} of {total:,} bytes arrived")


def require_space(what: str, folder: Path, needed: int) -> None:
    """Check that the disk of a folder has room for ``needed`` bytes.

    Raises:
        SourceError: it has not.
    """
    if (free := shutil.disk_usage(folder).free) < needed:
        raise SourceError(
            f"{what} needs {needed / 1e6:,.0f} MB on the disk of {folder}, which has "
            f"{free / 1e6:,.0f} MB free; free some and run the same command again"
        )


def _refusal(download: Download, why: str) -> SourceError:
    why = why.replace("{url}", download.url)
    return SourceError(f"{download.name}: {httpx.URL(download.url).host} {why}")


def _refuse(answer: httpx.Response, download: Download) -> None:
    """Whatever is not the content: to be tried again, or an error."""
    code, headers = answer.status_code, answer.headers
    if code in _AGAIN:
        wait_s = headers.get("Retry-After", "")
        raise _Broken(f"it answered {code}", float(wait_s) if wait_s.isdecimal() else None)
    if code not in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
        raise _refusal(download, f"answered {code} for {{url}}")
    if "html" in headers.get("Content-Type", "").lower():
        raise _refusal(download, _WEB_PAGE)
    if headers.get("Content-Encoding", "identity") != "identity":
        raise _refusal(download, "sent an encoding that was not requested for {url}")
    # Such a body ends with the connection, so one that was cut looks whole.
    published = download.size or download.sha256 or download.git_blob
    if not published and headers.keys().isdisjoint({"content-length", "transfer-encoding"}):
        raise _refusal(download, _NO_LENGTH)


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _client(download: Download) -> httpx.Client:
    """A client that follows redirects to the hosts of a transfer alone."""
    own = httpx.URL(download.url)
    hosts, schemes = {own.host, *download.redirects}, {"https", own.scheme}

    def refuse_host(request: httpx.Request) -> None:
        url = request.url
        if url.host not in hosts or url.scheme not in schemes:
            raise _refusal(
                download,
                f"redirected to {url.scheme}://{url.host}, which is none of the file's hosts "
                f"({', '.join(sorted(hosts))}); nothing was fetched from there",
            )

    try:
        return httpx.Client(
            timeout=_TIMEOUT,
            headers={"Accept-Encoding": "identity"},
            follow_redirects=True,
            max_redirects=_REDIRECTS,
            event_hooks={"request": [refuse_host]},
        )
    except (ImportError, ValueError, httpx.InvalidURL) as error:  # socks:// needs a package
        raise SourceError(f"a proxy variable of the environment cannot be used: {error}") from error
