"""The report's sections and pages: computed sentences, nothing active, missing parts named."""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from decomposerl.reports.figure_style import PALETTE, drawn, label_text, source_hatches
from decomposerl.reports.report_data import against_best, score_bars
from decomposerl.reports.report_figures import pairs_figure, scores_figure
from decomposerl.reports.report_page import (
    FIGURES,
    ReportAbout,
    report_html,
    report_markdown,
    table_html,
)
from decomposerl.reports.report_parts import ReportData, Section, slug
from decomposerl.reports.run_report import report_sections
from decomposerl.reports.tables import markdown_table
from report_parts_made import HOSTILE, PNG, board, board_row, comparison, pair, run_data

ABOUT = ReportAbout("Report of a run", "decomposerl 0", "traces.html")
ALLOWED = {
    *("html", "head", "meta", "link", "title", "style", "body", "h1", "h2", "p", "a", "nav", "ul"),
    *("li", "section", "figure", "figcaption", "img", "code", "details", "summary", "div"),
    *("table", "thead", "tbody", "tr", "th", "td", "strong"),
}


@pytest.fixture(scope="module")
def sections() -> list[Section]:
    return report_sections(run_data())


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        """The attributes of each element of a name."""
        return (attributes for name, attributes in self.found if name == tag)


def test_each_part_is_computed_from_the_data(sections: list[Section]):
    """Numbers of the made-up run, to the digit; each has a figure of its own and an engine."""
    said = {one.key: one.sentence for one in sections}
    numbers = {
        "funnel": ("10 claims", "4 (40.0 %)", "'rules', 6 claims"),
        "sources": ("a keeps", "40.0 %"),
        "selection": ("2 of 4 claims", "1 cell", "0.50"),
        "training-tiny": ("3 optimizer steps in 1 min 0 s", "from 0.50 to 0.75"),
        "leaderboard": ("a is best with 60.0 (55.0 to 65.0)", "0 of 1 others"),
        "comparison": ("1 of 1 other systems", "1 significantly (p < 0.05"),
        "reliability": ("80.0 %", "50.0 %", "40 verdicts", "30.0 %"),
        "cost": ("1 system", "35 calls", "1,000 tokens", "0.50 US dollars"),
        "study-1-a": ("What a shows.",),
    }
    for key, found in numbers.items():
        assert [] == [one for one in found if one not in said[key]], said[key]
    for section in sections:
        assert section.pictures, section.key
        assert section.engine, section.key
        assert not section.missing, section.key
    names = [one.name for section in sections for one in section.pictures]
    assert len(names) == len(set(names))
    assert len(sections) == len(said)


def test_what_is_not_there_is_named_with_the_command_that_makes_it():
    """An empty folder gives the same parts, each missing; nothing is drawn."""
    missing = report_sections(ReportData())
    for section in missing:
        assert section.missing, section.key
        assert section.command, section.key
        assert not section.pictures
    for page in (report_html(ABOUT, missing), report_markdown(ABOUT, missing)):
        assert len(missing) == page.count("Next: ")
        assert all(section.title in page for section in missing)


def test_missing_tables_leave_the_other_parts():
    """Every part that does not need one of them is there; curves and replies stand alone."""
    first, second = {"funnel", "sources", "reliability"}, {"selection", "leaderboard", "cost"}
    for absent, lost in (
        (("attrition", "comparison", "verdicts"), first | {"comparison"}),
        (("selected", "leaderboard", "calls", "runs", "replies"), second | {"comparison"}),
    ):
        changed = report_sections(replace(run_data(), **dict.fromkeys(absent)))
        assert lost == {one.key for one in changed if one.missing}


def test_names_from_outside_are_text(sections: list[Section]):
    """A name with tags, Markdown, mathematics, another script or a direction mark does nothing."""
    hostile = report_sections(run_data(HOSTILE))
    page, plain = Elements(report_html(ABOUT, hostile)), Elements(report_html(ABOUT, sections))
    assert {tag for tag, _ in page.found} <= ALLOWED
    assert [tag for tag, _ in plain.found] == [tag for tag, _ in page.found]
    for made in (report_html(ABOUT, hostile), report_markdown(ABOUT, hostile)):
        assert "<script" not in made
        assert "\u202e" not in made
    shown = report_markdown(ABOUT, hostile)
    assert "&lt;script&gt;alert\\(1\\)&lt;/script&gt;" in shown
    assert "| `y`" not in shown


def test_the_page_asks_for_nothing_and_runs_nothing(sections: list[Section]):
    """Its policy admits its own style by hash and inlined pictures; no element has a style."""
    html = report_html(ABOUT, sections)
    page = Elements(html)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [one["content"] for one in page.named("meta") if "http-equiv" in one]
    assert "default-src 'none'" in str(policy)
    assert f"style-src 'sha256-{digest}'" in str(policy)
    assert all(str(one["src"]).startswith("data:image/") for one in page.named("img"))
    assert all("style" not in attributes for _, attributes in page.found)
    links = [str(one["href"]) for one in page.named("a")]
    assert all(re.match(r"#|figures/|traces\.html$", link) for link in links)


def test_both_pages_show_every_figure(sections: list[Section]):
    """Inline on the page, with links to its files; as files in Markdown."""
    pictures = [one for section in sections for one in section.pictures]
    page = Elements(report_html(ABOUT, sections))
    assert len(pictures) == len([*page.named("img")])
    links = {str(one["href"]) for one in page.named("a")}
    drawn_ones = [one for one in pictures if one.drawn.svg]
    assert {f"{FIGURES}/{one.name}.svg" for one in drawn_ones} <= links
    assert {f"{FIGURES}/{one.name}.png" for one in pictures} <= links
    shown = report_markdown(ABOUT, sections)
    assert len(pictures) == shown.count(f"]({FIGURES}/")
    assert f"({FIGURES}/study-1-a.png)" in shown
    assert [PNG] == [one.drawn.png for one in pictures if not one.drawn.svg]
    anchors = {str(one["id"]) for one in page.named("section")}
    assert {link[1:] for link in links if link.startswith("#")} == anchors


def test_equal_tables_give_equal_bytes(sections: list[Section]):
    """Figures in both formats and both pages, drawn again."""
    again = report_sections(run_data())
    assert [one.pictures for one in sections] == [one.pictures for one in again]
    assert report_html(ABOUT, sections) == report_html(ABOUT, again)
    assert report_markdown(ABOUT, sections) == report_markdown(ABOUT, again)
    svg = b"".join(one.drawn.svg for section in sections for one in section.pictures)
    assert b"<dc:date>" not in svg


def test_a_print_without_colours_tells_runs_and_significance_apart():
    """A short run is hatched, as sources are; a marker is filled, open or a cross."""
    assert len(PALETTE) + 1 == len(
        set(source_hatches([*map(str, range(len(PALETTE) + 3))]).values())
    )
    rows = [board_row(key, 50.0 + n) for n, key in enumerate("abc")]
    bars = score_bars(board([*rows, board_row("short", 90.0, status="limited")]))
    (panel,) = scores_figure(bars, {}).axes
    assert ["", "", "", "////"] == [patch.get_hatch() or "" for patch in panel.patches]
    pairs = comparison(
        [pair("c", "a", 9.0), pair("c", "b", 5.0, 0.4), pair("c", "short", 1.0, None)]
    )
    (panel,) = pairs_figure(against_best(pairs, bars), {}).axes
    points = [line for line in panel.lines if line.get_marker() in {"o", "X"}]
    looks = [(line.get_marker(), line.get_markerfacecolor() != "white") for line in points]
    assert [("o", True), ("o", False), ("X", False)] == looks[:3]


def test_the_bounds_of_a_mean_over_seeds_are_not_called_an_interval():
    """They are its runs' least and greatest score, and the legend says so where there is one."""
    for seeds in (1, 3):
        figure = scores_figure(score_bars(board([board_row("a", 50.0) | {"seeds": seeds}])), {})
        said = [text.get_text() for text in figure.legends[0].get_texts()]
        assert (seeds > 1) == any("least to greatest" in one for one in said)


def test_a_label_is_drawn_as_it_is():
    """No mathematics, no line break, and a box for what the font does not have."""
    assert r"a\$b □ c" == label_text("a$b 测\n\u202ec")
    (panel,) = scores_figure(score_bars(board([board_row("a", 1.0, title="$\\frac$")])), {}).axes
    assert drawn(panel.figure).svg


def test_a_table_is_html_without_the_html_of_its_cells():
    """Cells come out as they went in, whatever Markdown or HTML they look like."""
    page = Elements(table_html(markdown_table(["a", "n"], [(HOSTILE, 3), ("[x](http://y)", 4)])))
    assert {"div", "table", "thead", "tbody", "tr", "th", "td"} == {tag for tag, _ in page.found}
    assert ["right"] * 3 == [one["class"] for _, one in page.found if one.get("class") == "right"]


def test_a_name_in_a_path_stays_in_its_folder():
    """Only letters, digits, dots, dashes and underscores, and never nothing."""
    for name in ("..", "", "a/b", "<x>", "测", "x" * 300):
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,59}", slug(name))
