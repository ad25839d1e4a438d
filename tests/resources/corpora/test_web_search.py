"""Pages of the web and documents as evidence: read within bounds, and cited by their place."""

import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from dagster_project.found_evidence import with_evidence
from dagster_project.verify import checked_record, claim_verifier
from decomposerl.errors import ConfigError, EngineError, EngineMissing, SourceFileError
from decomposerl.extras import install_command
from decomposerl.reports.verified import EvidenceSource
from decomposerl.traces.records import ClaimRecord
from environment import settings_of
from fault_server import Answer, FaultServer, redirect, streaming
from resources.corpora.documents import document_text
from resources.corpora.text_search import TextSearch
from resources.corpora.web_search import MOST_PAGES, Engine, WebSearch

ODENSE = "Ada Brown, a swimmer, was born in Odense."
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
PAGE = Answer(headers=PLAIN, body=f"{ODENSE}\n\nThe town is old.".encode())
CLAIM = checked_record({"claim": "Ada Brown was born in Odense."}, "a test", evidence=False)
SLOW = streaming("200 OK\r\nContent-Type: text/plain", b"word ", 0.01)


def finding(*urls: str) -> Engine:
    """An engine that finds these pages, whatever it is asked."""

    def engine(query: str, most: int) -> Sequence[tuple[str, str]]:
        assert (CLAIM.claim, MOST_PAGES) == (query, most)
        return [(url, f"Page {number}") for number, url in enumerate(urls, start=1)]

    return engine


def test_pages_are_read_with_their_title_and_time():
    """From any redirect's end; nothing but the page's own address is asked."""
    with FaultServer([PAGE, redirect(302, "/other"), PAGE]) as served:
        urls = f"{served.url}/a", f"{served.url}/b"
        web = WebSearch(finding(*urls), private=True)
        first, second = web.pages(CLAIM.claim)
        assert ["/v1/a", "/v1/b", "/other"] == [head.split()[1] for head in served.heads]
    assert (urls[0], "Page 1", PAGE.body) == (first.place, first.title, first.text.encode())
    assert (urls[1], "Page 2") == (second.place, second.title)
    assert abs((datetime.now(UTC) - datetime.fromisoformat(first.read_at)).total_seconds()) < 60
    assert [] == web.problems


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([Answer(headers=PLAIN, body=b"x" * 2_000)], "more than 1,000 bytes"),
        ([Answer(500, PLAIN, b"")], "HTTP 500"),
        ([Answer(headers={"Content-Type": "image/png"}, body=b"x")], "image/png"),
        ([redirect(302, "file:///etc/passwd")], "no http or https URL"),
        ([redirect(302, "/v1/again")] * 6, "redirects"),
        ([SLOW], "too slow"),
        ([Answer(headers=PLAIN, body=b"x", delay_s=60.0)], "timed out"),
        ([Answer(raw=b"no HTTP at all\r\n\r\n")], "was left out"),
    ],
)
def test_a_page_beyond_the_bounds_is_named_and_the_next_one_read(answers: list[Answer], why: str):
    """Bytes, seconds, kinds, redirects and broken answers."""
    with FaultServer([*answers, PAGE]) as served:
        urls = f"{served.url}/bad", f"{served.url}/good"
        web = WebSearch(finding(*urls), page_bytes=1_000, page_s=0.4, private=True)
        assert [urls[1]] == [page.place for page in web.pages(CLAIM.claim)]
    (problem,) = web.problems
    assert problem.startswith(urls[0])
    assert why in problem


def test_no_address_of_this_machine_or_its_network_is_asked():
    """By number, by name and in IPv6; other schemes neither."""
    hosts = ("127.0.0.1:1", "localhost:1", "10.1.2.3", "169.254.169.254", "[::1]", "[fe80::1]")
    urls = [
        *(f"http://{host}/" for host in hosts),
        "file:///etc/passwd",
        "ftp://a.org/",
        "http://x:y/",
    ]
    with FaultServer() as served:
        web = WebSearch(finding(*urls, served.url))
        assert [] == [*web.pages(CLAIM.claim)]
        assert [] == served.heads
    assert [*urls, served.url] == [line.split()[0] for line in web.problems]


def test_a_verdict_cites_the_page_of_each_sentence(tmp_path: Path):
    """Query, pages, time and the text that was used are in the result, as is what was not used."""
    pytest.importorskip("bm25s", reason="bm25s is not installed (extra retrieve)")
    other = Answer(headers=PLAIN, body=b"Ferries cross the river.")
    with FaultServer([PAGE, other, Answer(404)]) as served:
        urls = [f"{served.url}/{name}" for name in "abc"]
        web = WebSearch(finding(*urls), private=True)
        (record,), problems = with_evidence([CLAIM], web)
    with claim_verifier(settings_of(tmp_path)) as verifier:
        (one,) = verifier.verify([record])
    assert ("Supported", (ODENSE,)) == (one.verdict, one.questions[0].evidence)
    assert ((urls[0],),) == tuple(question.places for question in one.questions)
    used, unused = one.sources
    assert EvidenceSource(urls[0], ODENSE, "Page 1", CLAIM.claim, used.read_at) == used
    assert (urls[1], "") == (unused.place, unused.text)
    assert one.as_json()["sources"][0]["read_at"] == used.read_at
    assert (1, f"evidence found in {urls[0]}, ranked by BM25") == (len(problems), one.warnings[0])


def failing(_: str, __: int) -> Sequence[tuple[str, str]]:
    """An engine that refuses."""
    raise EngineError("too many queries")


def test_a_search_that_gives_nothing_is_no_verdict():
    """With the reason; claims with evidence of their own are not searched for."""
    (record,), _ = with_evidence([CLAIM], WebSearch(failing))
    assert ("", ("the search failed: too many queries",)) == (record.evidence, record.notes)
    pytest.importorskip("bm25s", reason="bm25s is not installed (extra retrieve)")
    (record,), _ = with_evidence([CLAIM], WebSearch(finding()))
    assert record.notes == ("nothing relevant was found in 0 pages of the web",)
    given = ClaimRecord("a", "b", ("b",))
    with pytest.raises(ConfigError, match="--search"):
        with_evidence([given], WebSearch(failing))


ARTICLE = "".join(f"<p>{ODENSE} She won race {number} in the city.</p>" for number in range(9))
HTML = f"<html><body><nav><a href='/'>Menu</a></nav><article>{ARTICLE}</article></body></html>"


def a_pdf(text: str) -> bytes:
    """A PDF of one page with a line of text."""
    file, page = io.BytesIO(), Figure()
    page.text(0.1, 0.5, text)
    page.savefig(file, format="pdf")
    return file.getvalue()


@pytest.mark.parametrize(
    ("package", "suffix", "data"),
    [("pypdf", ".pdf", a_pdf(ODENSE)), ("trafilatura", ".html", HTML.encode())],
)
def test_documents_are_evidence(package: str, suffix: str, data: bytes, tmp_path: Path):
    """Their text without menus; of damaged and empty ones why; without the extra its command."""
    if find_spec(package) is None:
        with pytest.raises(EngineMissing, match=re.escape(install_command(package))):
            document_text(data, suffix)
        (tmp_path / f"a{suffix}").write_bytes(data)
        (tmp_path / "b.txt").write_text(ODENSE)
        search = TextSearch(tmp_path)
        assert ["b.txt"] == [one.file for one in search.search(CLAIM.claim)]
        assert install_command(package) in search.problems[0]
        pytest.skip(f"{package} is not installed (extra documents)")
    text = document_text(data, suffix)
    assert ODENSE in text
    assert "Menu" not in text
    with pytest.raises(SourceFileError):
        document_text(b"\0\1\2", suffix)
