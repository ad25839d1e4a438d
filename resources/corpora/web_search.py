"""Pages of the web about a claim: ddgs finds them (extra ``search``), bounded requests read them.

A page comes from a public address by http or https: a search result must not make this machine read
its own services. Each redirect is checked again, and so is the address that answered.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from decomposerl.errors import EngineError, EngineMissing, SourceFileError
from decomposerl.extras import require
from decomposerl.reports.verified import EvidenceSource
from resources.corpora.documents import document_text

if TYPE_CHECKING:
    import httpx

MOST_PAGES = 6
_KINDS = {"text/html": ".html", "application/xhtml+xml": ".html", "application/pdf": ".pdf"}
_PLAIN = "text/plain"
_REDIRECTS = 5
_AGENT = {"User-Agent": "decomposerl (claim verification; one request a page)"}
Engine = Callable[[str, int], Sequence[tuple[str, str]]]
"""URL and title of at most so many pages for a query, best first."""


def duckduckgo(query: str, most: int) -> list[tuple[str, str]]:
    """What DuckDuckGo finds, through ddgs.

    Raises:
        EngineMissing: ddgs is not installed.
        EngineError: it finds nothing, or refuses further queries for some time.
    """
    require("ddgs")
    from ddgs import DDGS
    from ddgs.exceptions import DDGSException

    try:
        found = DDGS(timeout=10).text(query, max_results=most, backend="duckduckgo")
    except DDGSException as error:
        raise EngineError(f"DuckDuckGo gives no page: {error}") from error
    return [(str(one["href"]), str(one["title"])) for one in found]


@dataclass
class WebSearch:
    """Finds and reads pages, one after the other, within limits of bytes and seconds.

    ``problems`` are the pages that were not read, and why. ``private`` addresses are for tests.
    """

    engine: Engine = duckduckgo
    page_bytes: int = 4_000_000
    page_s: float = 10.0
    all_s: float = 40.0
    private: bool = False
    problems: list[str] = field(default_factory=list)

    def pages(self, query: str) -> Iterator[EvidenceSource]:
        """The pages for a query that can be read, whole.

        Raises:
            EngineMissing, EngineError: the engine gives none.
        """
        import httpx

        until = time.monotonic() + self.all_s
        failures = (EngineError, SourceFileError, OSError, ValueError, httpx.HTTPError)
        for url, title in self.engine(query, MOST_PAGES):
            try:
                text = self._text(url, min(until, time.monotonic() + self.page_s))
            except EngineMissing:
                raise
            except (*failures, httpx.InvalidURL) as error:
                self.problems.append(f"{url} was left out: {error or type(error).__name__}")
                continue
            read_at = datetime.now(UTC).isoformat(timespec="seconds")
            yield EvidenceSource(url, text, title, query, read_at)

    def _text(self, url: str, until: float) -> str:
        import httpx

        # Through no proxy: its address, and not that of the page, would be checked.
        with httpx.Client(trust_env=False, headers=_AGENT, timeout=self.page_s) as client:
            for _ in range(_REDIRECTS):
                self._refuse_private(url)
                with client.stream("GET", url) as reply:
                    peer = reply.extensions["network_stream"].get_extra_info("server_addr")
                    self._refuse_address(peer[0], url)
                    if not reply.has_redirect_location:
                        return self._read(reply, until)
                    url = urljoin(url, reply.headers["location"])
        raise EngineError(f"more than {_REDIRECTS} redirects")

    def _read(self, reply: "httpx.Response", until: float) -> str:
        if reply.is_error:
            raise EngineError(f"HTTP {reply.status_code}")
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in {*_KINDS, _PLAIN}:
            raise EngineError(f"is no page but {kind or 'of an unknown type'}")
        body = b""
        for part in reply.iter_bytes():
            body += part
            if len(body) > self.page_bytes:
                raise EngineError(f"has more than {self.page_bytes:,} bytes")
            if time.monotonic() > until:
                raise EngineError("is too slow")
        if kind == _PLAIN:
            return body.decode(reply.charset_encoding or "utf-8", "replace")
        return document_text(body, _KINDS[kind])

    def _refuse_private(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise EngineError(f"{url} is no http or https URL")
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        for *_, address in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM):
            self._refuse_address(str(address[0]), url)

    def _refuse_address(self, address: str, url: str) -> None:
        if not (self.private or ip_address(address.partition("%")[0]).is_global):
            raise EngineError(f"{url} leads to {address}, which is no public address")
