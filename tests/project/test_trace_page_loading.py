"""How the trace page gets its data: many traces, a file that was cut off, a live server."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chromium import needs_chromium, opened_browser
from decomposerl.reports.trace_page.page import live_page, offline_page
from trace_pages import cycle, detail, pages, special_traces, trace
from trace_server import REFUSED, TraceServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MANY = 30_000

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with opened_browser() as opened:
        yield opened


def test_many_traces_are_drawn_at_once(browser: "Browser", tmp_path: Path):
    """The list of 30,000 stands within seconds, with as many rows as the window needs."""
    one = detail([cycle("Where?", "Here.")])
    block = [trace(f"c{at}", f"Claim {at} of many.", one) for at in range(500)]
    index, blocks = pages([block] * (MANY // 500))
    file = tmp_path / "many.html"
    file.write_text(offline_page(index, blocks), "utf-8")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(file.as_uri(), wait_until="commit")
    page.locator("a.row").first.wait_for()
    drawn_ms = page.evaluate("() => performance.now()")
    page.keyboard.press("End")
    page.get_by_text("Claim 499 of many.").wait_for()
    assert 80 > page.locator("a.row").count()
    assert 10_000 > drawn_ms  # two seconds on a quiet machine
    page.close()


def test_a_file_that_was_cut_off_says_so(browser: "Browser", tmp_path: Path):
    """The list is there, and a trace whose part is missing names the reason."""
    whole = offline_page(*special_traces())
    file = tmp_path / "cut.html"
    file.write_text(whole[: whole.index('<script type="application/json" data-block="1"')], "utf-8")
    page = browser.new_page()
    page.goto(f"{file.as_uri()}#/c2")
    page.get_by_text("Part 2 of this file is missing").wait_for(timeout=10_000)
    page.close()


def test_a_page_of_one_trace_opens_at_it(browser: "Browser", tmp_path: Path):
    """One verified claim is seen at once, and the list is one click away; any address is kept."""
    file = tmp_path / "one.html"
    only = trace("c1", "The only claim.", detail([cycle("Where?", "Here.")]))
    file.write_text(offline_page(*pages([[only]])), "utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    page.get_by_role("heading", name="Question 1: Where?").wait_for(timeout=10_000)
    page.get_by_role("link", name="List").click()
    page.locator("a.row").wait_for(timeout=10_000)
    assert page.url.endswith("one.html#/")
    page.close()


@pytest.fixture
def server() -> Iterator[TraceServer]:
    with TraceServer(live_page()) as opened:
        yield opened


def test_the_live_page_reads_and_marks_through_its_server(browser: "Browser", server: TraceServer):
    """Data and marks come from the server; what it refuses is reported, what it stores shown."""
    page = browser.new_page()
    page.goto(f"{server.address}#/c2")
    page.get_by_text("The token limit").wait_for()
    page.get_by_label("Note").fill(REFUSED)
    page.get_by_role("button", name="✓ Agree").click()
    page.get_by_text("The mark was not stored: no room").wait_for()
    page.get_by_label("Note").fill("cut too early")
    page.get_by_role("button", name="✓ Agree").click()
    page.locator(".marks").get_by_text("cut too early").wait_for()
    assert [("Ann", "agree")] == [(m["reviewer"], m["mark"]) for m in server.marks]
    page.goto(f"{server.address}#/c1")
    page.get_by_text("Prompt and reply").last.click()
    page.get_by_text("Asked live").wait_for()
    assert "/marks.jsonl" == page.get_by_text("Export marks").get_attribute("href")
    page.close()
