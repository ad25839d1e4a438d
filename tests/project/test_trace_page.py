"""The trace page in a real browser: list, one claim, training, marks, loading, and safety."""

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from chromium import needs_chromium, opened_browser
from decomposerl.reports.trace_page.page import live_page
from project import ROOT
from tables import value_beside
from trace_pages import EVIDENCE, HOSTILE, cycle, detail, offline_page, pages, special_traces, trace
from trace_server import REFUSED, TraceServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

AXE = ROOT / "tests/support/vendor/axe.min.js"
MANY = 30_000
TURKISH = "İİ In İstanbul, Ada Brown met the mayor."

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def offline(browser: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator["Page"]:
    """The special traces in a file; what the page asks for and complains of is kept with it."""
    file = tmp_path_factory.mktemp("page") / "traces.html"
    file.write_text(offline_page(*special_traces()), "utf-8")
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(10_000)
    page.on("request", lambda one: REQUESTED.append(one.url))
    page.on("console", lambda one: COMPLAINTS.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda one: COMPLAINTS.append(str(one)))
    page.goto(file.as_uri())
    page.locator("a.row").first.wait_for()
    yield page
    page.close()


REQUESTED: list[str] = []
COMPLAINTS: list[str] = []


@pytest.fixture
def page(offline: "Page") -> Iterator["Page"]:
    """The one page at its list, without filters; no test may leave a complaint in the console."""
    offline.keyboard.press("Escape")
    offline.evaluate("() => document.activeElement.blur()")
    at(offline, "#/")
    COMPLAINTS.clear()
    yield offline
    assert [] == COMPLAINTS


def at(page: "Page", address: str) -> "Page":
    """Go to an address of the page without loading it again."""
    page.evaluate("(address) => { location.hash = address; }", address)
    page.evaluate("() => new Promise((done) => setTimeout(done, 60))")
    return page


def claims(page: "Page") -> list[str]:
    return page.locator("a.row .claim").all_inner_texts()


def test_the_list_shows_each_trace_with_its_signs(page: "Page"):
    """Verdict, result, confidence, system, benchmark and kinds of errors stand in a row."""
    index, _ = special_traces()
    assert len(index["claim"]) == page.locator("a.row").count()
    row = page.locator("a.row").first.inner_text()
    for sign in ("Supported", "✕ wrong", "0.93", "DecomposeRL tiny", "fever", "4 questions",
                 "confident and wrong", "partly answered"):  # fmt: skip
        assert sign in row, sign


@pytest.mark.parametrize(("query", "rows"), value_beside(__file__, "trace_filters").items())
def test_filters_of_a_link_hold(page: "Page", query: str, rows: int):
    """Each filter keeps exactly the traces that it names, and the summary counts them."""
    at(page, f"#/?{query}")
    expect(page.locator("a.row")).to_have_count(rows)
    expect(page.locator(".summary")).to_contain_text(f"{rows} of 14 traces")


def test_filters_are_set_by_hand_and_kept_in_the_address(page: "Page"):
    """A checkbox, a select and a sort change the list and the link; one button clears them."""
    page.get_by_label("confident and wrong").check()
    expect(page.locator("a.row")).to_have_count(1)
    page.get_by_role("button", name="Clear all filters").click()
    page.get_by_role("combobox", name="Verdict").select_option("Refuted")
    page.get_by_role("combobox", name="Sort").select_option("Reward, high to low")
    expect(page.locator(".cell-from").first).to_contain_text("step 20 · rollout 1")
    assert page.url.endswith("#/?verdict=refuted&sort=best")


@pytest.mark.parametrize(
    ("text", "rows", "place"),
    [
        ("odense 1938", 8, None),
        ("no tags at all", 1, "reply:"),
        ('"She was born in Odense."', 1, "answer 1:"),
        ('"kept no records" unread', 1, "evidence:"),
        ("nowhere at all in here", 0, None),
    ],
)
def test_search_finds_claims_and_then_every_text(
    page: "Page", text: str, rows: int, place: str | None
):
    """All words must occur; the row says where, if it is not in the claim."""
    page.keyboard.press("/")
    page.keyboard.insert_text(text)
    page.locator(".busy").wait_for(state="hidden")
    expect(page.locator("a.row")).to_have_count(rows)
    if place:
        expect(page.locator(".snippet i").first).to_have_text(place)


def test_a_link_addresses_one_trace_of_a_claim(page: "Page"):
    """System, step and rollout choose among the traces of a claim; an unknown id says so."""
    at(page, "#/c1/self_ask-rules")
    expect(page.locator(".facts")).to_contain_text("Self-Ask, rules")
    at(page, "#/c1/decomposerl-tiny/20/1")
    expect(page.locator(".facts")).to_contain_text("step 20 · rollout 1")
    at(page, "#/no-such-claim")
    expect(page.locator("main")).to_contain_text("There is no trace here of “no-such-claim”")


def test_texts_from_outside_are_only_texts(page: "Page"):
    """Tags, comments, separators and lone surrogates are shown as they are and never run."""
    shown = "(part) => document.querySelector(part).textContent"
    for number, text in enumerate(HOSTILE):
        at(page, "#/").locator("a.row").nth(11 + number).click()
        page.locator(".card").wait_for()
        assert text == page.evaluate(shown, "h1")
        assert text == page.evaluate(shown, ".answer").strip()
        assert page.evaluate("() => window.hacked") is None
        assert 0 == page.locator("#app img, #app script, #app b >> text=not bold").count()


@pytest.mark.usefixtures("page")
def test_the_file_asks_for_nothing():
    """Offline, whatever was clicked so far, the page reads its own file and nothing else."""
    assert {"file"} == {url.split(":")[0] for url in REQUESTED} - {"data"}


def test_the_keyboard_reaches_everything(page: "Page"):
    """List, one claim, its questions, the next claim, help and back, without a mouse."""
    focused = page.locator(":focus")
    page.keyboard.press("Home")
    expect(focused).to_contain_text("confident and wrong")
    page.keyboard.press("j")
    expect(focused).to_contain_text("Self-Ask")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_have_count(2)
    page.keyboard.press("n")
    expect(focused).to_contain_text("Where was Ada Brown born?")
    page.keyboard.press("k")
    expect(page.locator(".card")).to_have_count(4)
    page.keyboard.press("n")
    expect(page.locator(".evidence .cite.on")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(focused).to_contain_text("confident and wrong")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()


def test_answers_and_evidence_light_each_other(page: "Page"):
    """A card lights what it cites, a sentence the cards that cite it; the match is named."""
    at(page, "#/c1/decomposerl-tiny")
    cited = page.locator(".evidence-text .cite")
    expect(cited).to_have_text(["She was born in Odense", "in 1937."])
    page.locator(".card").nth(1).hover()
    expect(page.locator(".evidence-text .cite.on")).to_have_text(["in 1937."])
    assert "normalised" in (cited.nth(1).get_attribute("class") or "")
    page.get_by_role("button", name="Sentence 2, cited by question 1").focus()
    page.mouse.move(2, 2)
    expect(page.locator(".card.on .ordinal")).to_have_text(["Q1"])
    at(page, "#/c1/decomposerl-tiny?q=swimmer")
    expect(page.locator(".evidence-text .found")).to_have_text(["swimmer"])
    expect(cited).to_have_count(2)


def test_one_claim_shows_all_that_is_known(page: "Page"):
    """Status, leave-one-out, answerability, atomicity, nearest question, rewards, judge, facts."""
    at(page, "#/c1/decomposerl-tiny")
    page.locator(".card").first.wait_for()
    shown = page.locator("main").inner_text()
    for text in (
        "necessary: the verdict is lost without it (then: Not enough information)",
        "✕ yes, so the abstention misses it",
        "✕ single focus",
        "question 1, cosine 0.41",
        "Not in evidence",
        "raw 0.9900 · normalised 0.9700 · calibrated 0.9300",
        "weighted sum",
        "of 200 dev",
        "3fa9",
    ):
        assert text in shown, text
    page.locator("section").get_by_text("Prompt and reply").last.click()
    expect(page.locator("pre")).to_have_text(["Is it <covered>?", "Yes."])


@pytest.mark.parametrize(
    ("claim", "texts"),
    [
        ("c2", ["token limit", "Why", "So", "<question>Why</question><ans"]),
        ("c3", ["No verdict could be read", "no tags at all", "no_verdict"]),
        ("c4", ["A call failed"]),
    ],
)
def test_broken_traces_are_shown_with_what_there_is(page: "Page", claim: str, texts: list[str]):
    """What was produced before the fault is on the page, and the fault is named."""
    at(page, f"#/{claim}").locator(".trace").wait_for()
    if claim == "c2":
        page.get_by_text("Raw reply").click()
        page.locator("pre").wait_for()
    shown = page.locator("main").inner_text()
    assert [] == [text for text in texts if text not in shown]


def test_two_systems_stand_side_by_side(page: "Page"):
    """The second trace is chosen, differences are named, and the link holds both."""
    at(page, "#/c1/decomposerl-tiny")
    page.get_by_role("combobox", name="Compare with").select_option(index=1)
    page.locator('.trace[data-side="1"] .card').first.wait_for()
    assert "vs=self_ask-rules" in page.url
    expect(page.get_by_text("Verdicts differ")).to_be_visible()
    alone = "asked here only"
    marked = ["answer differs", alone, alone, alone, "answer differs", alone]
    expect(page.locator(".card .difference")).to_have_text(marked)
    page.reload()
    page.locator('.trace[data-side="1"] .card').first.wait_for()


def test_the_slider_walks_through_training(page: "Page"):
    """The same rollout of the claim at the next step, by slider and by key; others by link."""
    at(page, "#/c1/decomposerl-tiny/0/1")
    page.get_by_label(re.compile("^Step")).press("ArrowRight")
    page.get_by_text("What happened at step 10?").wait_for()
    assert "step 10 · rollout 1" in page.locator(".facts").inner_text()
    page.locator("h1").focus()
    page.keyboard.press("]")
    page.get_by_text("What happened at step 20?").wait_for()
    page.get_by_role("navigation", name="Rollouts").get_by_role("link").first.click()
    page.get_by_text("Answer 0.").wait_for()


def select_text(page: "Page", part: str, start: int, end: int) -> None:
    """Select characters of the first text in ``part``."""
    page.evaluate(
        """([part, start, end]) => {
          const host = document.querySelector(part), range = document.createRange();
          const node = document.createTreeWalker(host, NodeFilter.SHOW_TEXT).nextNode();
          range.setStart(node, start); range.setEnd(node, end);
          getSelection().removeAllRanges(); getSelection().addRange(range);
        }""",
        [part, start, end],
    )


def test_marks_are_stored_exported_and_imported(page: "Page", tmp_path: Path):
    """A mark with note and span survives a reload and goes out and in as JSONL; it is withdrawn."""
    at(page, "#/c1/decomposerl-tiny")
    page.get_by_label("Your name").fill("Ann")
    page.get_by_label("Note").fill("wrong year")
    select_text(page, "#s2 .words", 4, 9)
    page.get_by_role("button", name="Attach selected text").click()
    page.get_by_role("button", name="Disagree").click()
    page.get_by_text("Marked: Disagree.").wait_for()
    page.reload()
    page.get_by_text("wrong year").first.wait_for()

    with page.expect_download() as download:
        page.get_by_role("button", name="Export marks").click()
    (mark,) = map(json.loads, Path(download.value.path()).read_text("utf-8").splitlines())
    span = {"where": "evidence", "cycle": None, "start": 36, "end": 41, "text": EVIDENCE[36:41]}
    assert {"claim_id": "c1", "system": "decomposerl-tiny", "step": None, "rollout": None,
            "reviewer": "Ann", "mark": "disagree", "note": "wrong year", "span": span,
            "at": mark["at"], "of": "0a1b2c3d"} == mark  # fmt: skip

    other = tmp_path / "marks.jsonl"
    lines = [mark | {"reviewer": "Bo", "mark": "agree", "span": None}, {"mark": 3}]
    other.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    page.get_by_label("Import marks").set_input_files(other)
    page.get_by_text("1 mark imported, 1 line of another form skipped.").wait_for()
    expect(page.locator(".marks li")).to_have_count(2)
    page.get_by_role("button", name="Withdraw").click()
    page.get_by_text("Mark withdrawn.").wait_for()
    expect(page.locator(".marks li")).to_have_count(1)
    expect(page.locator(".marks")).to_contain_text("Bo")
    at(page, "#/?mark=agree")
    expect(page.locator("a.row")).to_have_count(1)


VIEWS = ("#/", "#/c1/decomposerl-tiny", "#/c1/decomposerl-tiny?vs=self_ask-rules",
         "#/c1/decomposerl-tiny/10/0", "#/c2")  # fmt: skip


def test_axe_finds_nothing_serious(page: "Page"):
    """List, claim, comparison, training, broken trace and help, in both themes."""
    page.evaluate(AXE.read_text("utf-8"))
    found = []
    for theme, view in product(("dark", "light"), (*VIEWS, "?")):
        page.emulate_media(color_scheme=theme)
        if view == "?":
            page.keyboard.press("?")
        else:
            page.keyboard.press("Escape")
            at(page, view).locator("main").wait_for()
        ran = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        found += [
            (theme, view, one["id"], one["impact"], one["nodes"][0]["html"][:200])
            for one in ran["violations"]
            if one["impact"] in {"serious", "critical"}
        ]
    page.keyboard.press("Escape")
    assert [] == found


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


def test_the_live_page_keeps_a_note_that_another_tab_stored(
    tabs: "BrowserContext", server: TraceServer
):
    """The marks are read before one is sent, and when the tab is looked at again."""
    page = tabs.new_page()
    page.goto(f"{server.address}#/c2")
    page.locator(".review").wait_for()
    mark = {"claim_id": "c2", "system": "decomposerl-tiny", "step": None, "rollout": None}
    mark |= {"reviewer": "Ann", "mark": "agree", "note": "from elsewhere", "span": None}
    server.marks.append(mark | {"at": "2026-01-01T00:00:00Z"})
    page.keyboard.press("2")
    expect(page.locator(".marks .disagree")).to_be_visible()
    expect(page.locator(".marks")).to_contain_text("from elsewhere")
    last = server.marks[-1]
    assert ("disagree", "from elsewhere") == (last["mark"], last["note"])
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
