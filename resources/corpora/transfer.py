"""One file over HTTP: resumed where it broke, from named hosts alone, never longer than allowed.

What arrived is in a part file, the validator (ETag or date) that the server sent beside it. A
broken transfer, also of an earlier process, continues with a range request if the server still has
that content, and begins anew if not. The proxies of the environment are used.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from decomposerl.claims.downloads import Download
from decomposerl.errors import SourceError
from decomposerl.progress import bar

TRIES = 5
"""Attempts in a row that bring nothing, after which a transfer is given up."""
_REDIRECTS, _KB = 5, 1_000
_UNREACHABLE, _CONNECTS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError), 2
_TIMEOUT, _LONGEST_WAIT_S = httpx.Timeout(60.0, connect=20.0), 60.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_SPARE = 50_000_000
"""Bytes that stay free on the disk."""
_PAGE_STARTS, _HEAD_BYTES = (b"<!doctype html", b"<html"), 1_000
_BY_HAND = "; open it in a browser and put the file there yourself, unpacked: {url}"
_WEB_PAGE = "sent a web page in place of the file" + _BY_HAND
_NO_LENGTH = "does not say how long the file is, so a cut would not be noticed" + _BY_HAND


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
    with part.open("rb") as file:  # whatever its header said
        web_page = file.read(_HEAD_BYTES).lstrip().lower().startswith(_PAGE_STARTS)
    if web_page:
        part.unlink()
        raise _refusal(download, _WEB_PAGE)
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
