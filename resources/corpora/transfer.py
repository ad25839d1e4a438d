"""One file over HTTP: resumed where it broke, from named hosts alone, never longer than allowed.

What arrived is in a part file; beside it is the validator (ETag or date) that the server sent. A
broken transfer, of this process or of an earlier one, continues with a range request if the server
still has that content, and begins anew if not. pooch, the usual library, can do neither this nor
bound redirects (1.9 opens its file anew and follows every redirect), so httpx is used directly.
Proxies are those of the environment, as httpx reads them.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import httpx

from decomposerl.errors import SourceError
from decomposerl.progress import bar

TRIES = 5
"""Attempts in a row that bring nothing, after which a transfer is given up."""
_REDIRECTS, _KB = 5, 1_000
_UNREACHABLE, _CONNECTS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError), 2
_TIMEOUT = httpx.Timeout(60.0, connect=20.0)
_LONGEST_WAIT_S = 60.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk, of a quota and of a limit of file sizes."""
_SPARE = 50_000_000
"""Bytes that stay free on the disk."""


class _Broken(Exception):  # noqa: N818 - caught here
    """The transfer should be tried again, in ``wait_s`` if the server says so."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Transfer:
    """What to bring: ``hosts`` may send it, ``most`` bytes at most; ``what`` names it in messages.

    ``room`` are the bytes that its content will need on the disk besides the download.
    """

    url: str
    what: str
    hosts: frozenset[str]
    most: int
    room: int = 0


@dataclass(frozen=True, slots=True)
class Downloader:
    """Brings files; ``wait`` sleeps between attempts, ``free`` gives the free bytes of a folder."""

    wait: Callable[[float], object] = time.sleep
    free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free

    def bring(self, transfer: Transfer, part: Path) -> None:
        """Fill ``part`` with the content; on an error what arrived stays there.

        Raises:
            SourceError: the server refuses, lacks or cuts the file, redirects to another host,
                sends a web page or too much, the disk is full, or a proxy variable is wrong.
        """
        failed = 0
        with _client() as client:
            while True:
                before = _size(part)
                try:
                    return self._attempt(client, transfer, part)
                except (httpx.TransportError, _Broken) as error:
                    failed = failed + 1 if _size(part) <= before else 1
                    if failed >= (_CONNECTS if isinstance(error, _UNREACHABLE) else TRIES):
                        raise SourceError(_given_up(transfer, part, error, failed)) from error
                    said = getattr(error, "wait_s", None)
                    self.wait(min(2.0**failed if said is None else said, _LONGEST_WAIT_S))

    def _attempt(self, client: httpx.Client, transfer: Transfer, part: Path) -> None:
        start = _size(part) if _known(part) else 0
        with _answer(client, transfer, start) as answer:
            if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                return _refuse_unless_whole(answer, part, start)
            _refuse_status(answer, transfer)
            start = _start(answer, part, start)
            total = _total(answer, start)
            self._refuse_size(transfer, part, start, total)
            _validator_file(part).write_text(_validator(answer), "utf-8")
            _receive(answer, transfer, part, start, total)
        return None

    def _refuse_size(self, transfer: Transfer, part: Path, start: int, total: int | None) -> None:
        if total is not None and total > transfer.most:
            raise SourceError(
                f"{transfer.what}: {_host(transfer.url)} sends {total:,} bytes; at most "
                f"{transfer.most:,} are expected"
            )
        needed = (total or 0) - start + transfer.room + _SPARE
        free = self.free(part.parent)
        if free < needed:
            raise SourceError(
                f"{transfer.what} needs {needed / 1e6:,.0f} MB on the disk of "
                f"{part.parent.parent}, which has {free / 1e6:,.0f} MB free"
            )


@contextmanager
def _answer(client: httpx.Client, transfer: Transfer, start: int) -> Iterator[httpx.Response]:
    """The response to a request from byte ``start`` on, redirects within ``hosts`` followed."""
    headers = {"Range": f"bytes={start}-"} if start else {}
    request = client.build_request("GET", transfer.url, headers=headers)
    for _ in range(_REDIRECTS + 1):
        _refuse_host(request.url, transfer)
        answer = client.send(request, stream=True)
        if answer.next_request is None:
            try:
                yield answer
            finally:
                answer.close()
            return
        answer.close()
        request = answer.next_request
    raise SourceError(f"{transfer.what}: more than {_REDIRECTS} redirects from {transfer.url}")


def _refuse_host(url: httpx.URL, transfer: Transfer) -> None:
    scheme = httpx.URL(transfer.url).scheme
    if url.host not in transfer.hosts or url.scheme not in {"https", scheme}:
        known = ", ".join(sorted(transfer.hosts))
        raise SourceError(
            f"{transfer.what}: redirected to {url.scheme}://{url.host}, which is none of its hosts "
            f"({known}); nothing was fetched from there"
        )


def _refuse_status(answer: httpx.Response, transfer: Transfer) -> None:
    code, host = answer.status_code, _host(transfer.url)
    if code in _AGAIN:
        raise _Broken(f"{host} answered {code}", _seconds(answer.headers.get("Retry-After", "")))
    if code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        raise SourceError(f"{transfer.what}: {host} refuses access ({code}) to {transfer.url}")
    if code in {httpx.codes.NOT_FOUND, httpx.codes.GONE}:
        raise SourceError(f"{transfer.what}: {host} no longer has {transfer.url} ({code})")
    if code not in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
        raise SourceError(f"{transfer.what}: {host} answered {code} for {transfer.url}")
    if answer.headers.get("Content-Type", "").startswith("text/html"):
        raise SourceError(
            f"{transfer.what}: {host} sent a web page in place of the file; open {transfer.url} in "
            "a browser and put the file there yourself, unpacked"
        )
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise SourceError(f"{transfer.what}: {host} sent an encoding that was not requested")


def _start(answer: httpx.Response, part: Path, asked: int) -> int:
    """The byte that the body begins at: 0, or where the part ends and the content is the same."""
    if answer.status_code != httpx.codes.PARTIAL_CONTENT:
        return 0
    sent = answer.headers.get("Content-Range", "")
    if not asked or _validator(answer) != _known(part) or f"bytes {asked}-" not in sent:
        _restart(part, "the server sent another range or another version than was asked for")
    return asked


def _refuse_unless_whole(answer: httpx.Response, part: Path, size: int) -> None:
    """Nothing follows the part: it is all there is, or it is of another version."""
    same = _validator(answer) in {"", _known(part)}
    if answer.headers.get("Content-Range") != f"bytes */{size}" or not same:
        _restart(part, f"the server has another version, without byte {size:,}")


def _total(answer: httpx.Response, start: int) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return start + int(length) if length.isdecimal() else None


def _receive(
    answer: httpx.Response, transfer: Transfer, part: Path, start: int, total: int | None
) -> None:
    size = start
    with (
        _opened(part, start) as file,
        bar(transfer.what, -(-(total or 0) // _KB), "kB", start // _KB) as shown,
    ):
        for chunk in answer.iter_raw():
            size += len(chunk)
            if size > transfer.most:
                raise SourceError(f"{transfer.what}: more than {transfer.most:,} bytes arrived")
            _write(file, chunk, transfer, part)
            shown.move(size // _KB)
        _write(file, b"", transfer, part)
    if total is not None and size < total:
        raise _Broken(f"{size:,} of {total:,} bytes arrived")


def _opened(part: Path, start: int) -> BinaryIO:
    return part.open("ab" if start else "wb", buffering=0)


def _write(file: BinaryIO, chunk: bytes, transfer: Transfer, part: Path) -> None:
    """Write all of it; nothing: flush to disk."""
    try:
        view = memoryview(chunk)
        while view:
            view = view[file.write(view) :]
        if not chunk and part.is_file():
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in FULL:
            raise SourceError(disk_full(transfer.what, part.parent.parent, error)) from error
        raise


def disk_full(what: str, folder: Path, error: OSError) -> str:
    """The sentence for a full disk, a quota or a limit of file sizes."""
    why = (error.strerror or "no space").lower()
    return (
        f"{what}: {why} on the disk of {folder}; free some and run the same command again, which "
        "continues where it stopped"
    )


def _restart(part: Path, why: str) -> NoReturn:
    remove_part(part)
    raise _Broken(why)


def remove_part(part: Path) -> None:
    """Remove what arrived and its validator."""
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)


def _given_up(transfer: Transfer, part: Path, error: Exception, failed: int) -> str:
    why = str(error) or type(error).__name__
    return (
        f"{transfer.what}: {_host(transfer.url)} gave nothing more in {failed} attempts ({why}); "
        f"{_size(part):,} bytes are kept, run the same command again to continue"
    )


def _validator(answer: httpx.Response) -> str:
    return answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""


def _known(part: Path) -> str:
    """The validator of what arrived before; empty where there is none."""
    file = _validator_file(part)
    return file.read_text("utf-8") if file.is_file() else ""


def _validator_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _seconds(said: str) -> float | None:
    return float(said) if said.isdecimal() else None


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _host(url: str) -> str:
    return httpx.URL(url).host


def _client() -> httpx.Client:
    try:
        return httpx.Client(timeout=_TIMEOUT, headers={"Accept-Encoding": "identity"})
    except (ImportError, ValueError, httpx.InvalidURL) as error:  # socks:// needs a package
        raise SourceError(f"a proxy variable of the environment cannot be used: {error}") from error
