"""One file over HTTP: resumed where it broke, from named hosts alone, never longer than allowed.

What arrived is in a part file, the validator (ETag or date) that the server sent beside it. A
broken transfer, also of an earlier process, continues with a range request if the server still has
that content, and begins anew if not. pooch can neither continue nor bound redirects, so httpx is
used directly, with the proxies of the environment.
"""

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

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
_FINAL = {
    401: "refuses access (401) to",
    403: "refuses access (403) to",
    404: "no longer (404) has",
    410: "no longer (410) has",
}
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
        with _client(transfer) as client, room_said(transfer.what, part.parent.parent):
            while True:
                before = _size(part)
                try:
                    return self._attempt(client, transfer, part)
                except httpx.TooManyRedirects as error:
                    said = f"more than {_REDIRECTS} redirects from {transfer.url}"
                    raise SourceError(f"{transfer.what}: {said}") from error
                except (httpx.TransportError, _Broken) as error:
                    failed = failed + 1 if _size(part) <= before else 1
                    if failed >= (_CONNECTS if isinstance(error, _UNREACHABLE) else TRIES):
                        why = str(error) or type(error).__name__
                        raise SourceError(
                            f"{transfer.what}: {_host(transfer)} gave nothing more in {failed} "
                            f"attempts ({why}); {_size(part):,} bytes are kept, run the same "
                            "command again to continue"
                        ) from error
                    wait_s = getattr(error, "wait_s", None)
                    self.wait(min(2.0**failed if wait_s is None else wait_s, _LONGEST_WAIT_S))

    def _attempt(self, client: httpx.Client, transfer: Transfer, part: Path) -> None:
        version = _version_file(part)
        known = version.read_text("utf-8") if version.is_file() else ""
        start = _size(part) if known else 0
        headers = {"Range": f"bytes={start}-"} if start else {}
        with client.stream("GET", transfer.url, headers=headers) as answer:
            sent, span = _validator(answer), answer.headers.get("Content-Range", "")
            if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                if span == f"bytes */{start}" and sent in {"", known}:
                    return  # the part is all there is
                _restart(part)
            _refuse_status(answer, transfer)
            if answer.status_code != httpx.codes.PARTIAL_CONTENT:
                start = 0
            elif not start or sent != known or f"bytes {start}-" not in span:
                _restart(part)
            length = answer.headers.get("Content-Length", "")
            total = start + int(length) if length.isdecimal() else None
            self._refuse_size(transfer, part, start, total)
            version.write_text(sent, "utf-8")
            _receive(answer, transfer, part, start, total)

    def _refuse_size(self, transfer: Transfer, part: Path, start: int, total: int | None) -> None:
        if total is not None and total > transfer.most:
            raise SourceError(
                f"{transfer.what}: {_host(transfer)} sends {total:,} bytes; at most "
                f"{transfer.most:,} are expected"
            )
        needed = (total or 0) - start + transfer.room + _SPARE
        free = self.free(part.parent)
        if free < needed:
            raise SourceError(
                f"{transfer.what} needs {needed / 1e6:,.0f} MB on the disk of "
                f"{part.parent.parent}, which has {free / 1e6:,.0f} MB free"
            )


def _refuse_status(answer: httpx.Response, transfer: Transfer) -> None:
    code, url, headers = answer.status_code, transfer.url, answer.headers
    if code in _AGAIN:
        wait_s = headers.get("Retry-After", "")
        why = f"{_host(transfer)} answered {code}"
        raise _Broken(why, float(wait_s) if wait_s.isdecimal() else None)
    said = _FINAL.get(code, f"answered {code} for")
    if code in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
        said = ""
        if headers.get("Content-Type", "").startswith("text/html"):
            said = (
                "sent a web page in place of the file; open it in a browser and put the file there "
                "yourself, unpacked:"
            )
        elif headers.get("Content-Encoding", "identity") != "identity":
            said = "sent an encoding that was not requested for"
    if said:
        raise SourceError(f"{transfer.what}: {_host(transfer)} {said} {url}")


def _receive(
    answer: httpx.Response, transfer: Transfer, part: Path, start: int, total: int | None
) -> None:
    size = start
    with (
        part.open("ab" if start else "wb", buffering=0) as file,
        bar(transfer.what, -(-(total or 0) // _KB), "kB", start // _KB) as shown,
    ):
        for chunk in answer.iter_raw():
            size += len(chunk)
            if size > transfer.most:
                raise SourceError(f"{transfer.what}: more than {transfer.most:,} bytes arrived")
            rest = memoryview(chunk)
            while rest:
                rest = rest[file.write(rest) :]
            shown.move(size // _KB)
        if part.is_file():
            os.fsync(file.fileno())
    if total is not None and size < total:
        raise _Broken(f"{size:,} of {total:,} bytes arrived")


@contextmanager
def room_said(what: str, folder: Path) -> Iterator[None]:
    """A full disk or quota in the block as an error that says what to do."""
    try:
        yield
    except OSError as error:  # of the disk: httpx has its own for the network
        if error.errno not in FULL:
            raise
        raise SourceError(
            f"{what}: {(error.strerror or 'no space').lower()} on the disk of {folder}; free some "
            "and run the same command again, which continues where it stopped"
        ) from error


def _restart(part: Path) -> NoReturn:
    remove_part(part)
    raise _Broken("the server sent another range or another version than was asked for")


def remove_part(part: Path) -> None:
    """Remove what arrived and its validator."""
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _validator(answer: httpx.Response) -> str:
    return answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""


def _version_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.version")


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _host(transfer: Transfer) -> str:
    return httpx.URL(transfer.url).host


def _client(transfer: Transfer) -> httpx.Client:
    """A client that follows redirects to the hosts of a transfer alone."""

    def refuse_host(request: httpx.Request) -> None:
        url, schemes = request.url, {"https", httpx.URL(transfer.url).scheme}
        if url.host not in transfer.hosts or url.scheme not in schemes:
            raise SourceError(
                f"{transfer.what}: redirected to {url.scheme}://{url.host}, which is none of its "
                f"hosts ({', '.join(sorted(transfer.hosts))}); nothing was fetched from there"
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
