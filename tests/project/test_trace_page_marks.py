"""Marks and names of traces in a real browser: drafts, two tabs, other replies, repeated traces."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from chromium import needs_chromium, opened_browser
from decomposerl.reports.trace_page.page import live_page, offline_page
from trace_pages import cycle, detail, pages, trace
from trace_server import TraceServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = needs_chromium
TURKISH = "İİ In İstanbul, Ada Brown met the mayor."


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def tabs(browser: "Browser") -> Iterator["BrowserContext"]:
    """Tabs of one browser, which share its storage."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(10_000)
    yield context
    context.close()


def write(file: Path, of: str = "0a1b2c3d") -> Path:
    """A claim with two different traces of one system, and a claim of two benchmarks."""
    asked = [detail([cycle("Where?", text)]) for text in ("First.", "Second.", "Here.")]
    every = [
        trace("c1", "Ada Brown swam.", asked[0], of=of),
        trace("c1", "Ada Brown swam.", asked[1], of="1" * 8, rollout=2),
        trace("c2", TURKISH, asked[2], system=1),
    ]
    file.write_text(offline_page(*pages([every], also={"2": [1]})), "utf-8")
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "traces.html")


def opened(tabs: "BrowserContext", file: Path, address: str) -> "Page":
    """A tab at an address, with the reviewer's name."""
    page = tabs.new_page()
    page.goto(f"{file.as_uri()}{address}")
    if "/c" in address:
        page.get_by_label("Your name").fill("Ann")
        page.locator("h1").focus()
    return page


def stored(page: "Page") -> list[dict[str, Any]]:
    kept = page.evaluate("() => Object.entries(localStorage)")
    return next((json.loads(text) for key, text in kept if key.startswith("trace-marks:")), [])


def test_a_note_is_kept_until_it_is_stored(tabs: "BrowserContext", file: Path):
    """By keys alone: the note goes with the mark, and waits while another trace is read."""
    page = opened(tabs, file, "#/c1")
    page.keyboard.press("m")
    page.keyboard.insert_text("wrong place")
    page.get_by_label("a whole sentence or answer").select_option("answer 1")
    page.locator("h1").focus()
    page.keyboard.press("j")
    expect(page.get_by_label("Note")).to_have_value("")
    page.keyboard.press("k")
    expect(page.get_by_label("Note")).to_have_value("wrong place")
    page.keyboard.press("m")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.locator(".marks")).to_contain_text("wrong place")
    (mark,) = stored(page)
    assert ("disagree", "wrong place", "First.") == (
        *(mark[name] for name in ("mark", "note")),
        mark["span"]["text"],
    )
    assert "0a1b2c3d" == mark["of"]


def test_a_second_tab_keeps_the_note_of_the_first(tabs: "BrowserContext", file: Path):
    """It shows the mark as soon as it is stored; its own later mark keeps note and span."""
    first, second = (opened(tabs, file, "#/c1") for _ in range(2))
    first.get_by_label("Note").fill("from the first tab")
    first.get_by_role("button", name="Disagree").click()
    expect(second.locator(".marks")).to_contain_text("from the first tab")
    second.keyboard.press("3")
    expect(second.locator(".marks")).to_contain_text("Unclear")
    notes = [(one["mark"], one["note"]) for one in stored(second)]
    assert [(kind, "from the first tab") for kind in ("disagree", "unclear")] == notes


def test_the_live_page_keeps_a_note_that_another_tab_stored(tabs: "BrowserContext"):
    """The marks are read before one is sent, and when the tab is looked at again."""
    with TraceServer(live_page()) as server:
        page = tabs.new_page()
        page.goto(f"{server.address}#/c2")
        page.locator(".review").wait_for()
        mark = {"claim_id": "c2", "system": "decomposerl-tiny", "step": None, "rollout": None}
        mark |= {"reviewer": "Ann", "mark": "agree", "note": "from elsewhere", "span": None}
        server.marks.append(mark | {"at": "2026-01-01T00:00:00Z"})
        page.keyboard.press("2")
        expect(page.locator(".marks .disagree")).to_be_visible()
        expect(page.locator(".marks")).to_contain_text("from elsewhere")
        assert ("disagree", "from elsewhere") == (
            server.marks[-1]["mark"],
            server.marks[-1]["note"],
        )
        server.marks.append(mark | {"reviewer": "Bo", "at": "2026-01-02T00:00:00Z"})
        page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator(".marks")).to_contain_text("Bo")


def test_a_mark_of_an_earlier_reply_says_so(tabs: "BrowserContext", file: Path):
    """It counts as no mark of the reply that is shown, whose own mark begins without its note."""
    page = opened(tabs, file, "#/c1")
    page.get_by_label("Note").fill("of the old one")
    page.get_by_role("button", name="Disagree").click()
    page.locator(".marks li").wait_for()
    assert 0 == page.get_by_text("of an earlier reply").count()
    write(file, of="9" * 8)
    page.reload()
    expect(page.locator(".marks")).to_contain_text("of an earlier reply")
    expect(page.get_by_role("button", name="Disagree")).to_have_attribute("aria-pressed", "false")
    page.locator("h1").focus()
    page.keyboard.press("1")
    expect(page.locator(".marks")).to_contain_text("Agree")
    assert [("of the old one", "0a1b2c3d"), ("", "9" * 8)] == [
        (one["note"], one["of"]) for one in stored(page)
    ]
    write(file, of="8" * 8)
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#/?mark=none")
    expect(page.locator("a.row")).to_have_count(3)
    expect(page.locator("a.row").first).to_contain_text("Agree, earlier reply")


def test_every_trace_of_a_system_can_be_reached(tabs: "BrowserContext", file: Path):
    """The second one by key and by link, under a name of its own; a mark is on one of them."""
    page = opened(tabs, file, "#/c1")
    expect(page.locator(".answer")).to_contain_text("First.")
    page.keyboard.press("j")
    expect(page.locator(".answer")).to_contain_text("Second.")
    assert page.url.endswith("#/c1/decomposerl-tiny//2")
    expect(page.locator(".facts")).to_contain_text("trace 2")
    page.keyboard.press("1")
    expect(page.locator(".marks li")).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator(".answer")).to_contain_text("Here.")
    page.goto(f"{file.as_uri()}#/?mark=any")
    expect(page.locator("a.row")).to_have_count(1)


def test_a_trace_of_two_benchmarks_is_found_under_both(tabs: "BrowserContext", file: Path):
    """Its row names both."""
    page = opened(tabs, file, "#/?benchmark=wice-with-a-name-that-is-longer-than-the-page-is-wide")
    expect(page.locator("a.row")).to_have_count(1)
    expect(page.locator("a.row")).to_contain_text("fever, wice-with-a-name")
    page.goto(f"{file.as_uri()}#/?benchmark=fever")
    expect(page.locator("a.row")).to_have_count(3)


@pytest.mark.parametrize("text", ["Brown", "mayor", "istanbul", "İstanbul"])
def test_what_was_found_is_lit_behind_letters_that_grow(
    tabs: "BrowserContext", file: Path, text: str
):
    """A capital I with a dot is two letters in lower case; places behind it stay where they are."""
    page = opened(tabs, file, f"#/?q={text}%20mayor")
    expect(page.locator("a.row")).to_have_count(1)
    lit = page.locator("a.row mark.found").all_inner_texts()
    assert {"mayor", "İstanbul" if text == "istanbul" else text} == set(lit)
