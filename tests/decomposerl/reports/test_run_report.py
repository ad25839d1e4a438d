"""The report's sections and pages: computed sentences, nothing active, missing parts named."""

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from decomposerl.reports.figure_style import HATCHES, PALETTE, drawn, label_text, source_hatches
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


def test_each_sentence_is_computed_from_the_data(sections: list[Section]):
    """Numbers of the made-up run, to the digit."""
    said = {one.key: one.sentence for one in sections}
    assert "Of 10 claims of the sources, 4 (40.0 %) are left at stage 'rules'" in said["funnel"]
    assert "the largest cut is at stage 'rules', 6 claims" in said["funnel"]
    assert "a keeps the largest share of its claims (40.0 %)" in said["sources"]
    assert "2 of 4 claims are picked in 1 cell of" in said["selection"]
    assert "nearest pick is 0.50" in said["selection"]
    assert "3 optimizer steps in 1 min 0 s; " in said["training-tiny"]
    assert "balanced accuracy on held-out claims went from 0.50 to 0.75" in said["training-tiny"]
    assert "a is best with 60.0 (55.0 to 65.0)" in said["leaderboard"]
    assert "the intervals of 0 of 1 others reach its own" in said["leaderboard"]
    assert "a is ahead of 1 of 1 other systems" in said["comparison"]
    assert "of 1 significantly (p < 0.05" in said["comparison"]
    assert "80.0 % sure and 50.0 % right over 40 verdicts" in said["reliability"]
    assert "a calibration error of 30.0 %" in said["reliability"]
    assert "1 system took 35 calls, 1,000 tokens and 0.50 US dollars" in said["cost"]
    assert "What a shows." == said["study-1-a"]


def test_each_part_has_a_sentence_a_figure_and_an_engine(sections: list[Section]):
    """What is there is shown whole; figures have names of their own."""
    names = [one.name for section in sections for one in section.pictures]
    for section in sections:
        assert section.sentence.endswith("."), section.key
        assert section.pictures, section.key
        assert section.engine, section.key
        assert not section.missing, section.key
    assert len(names) == len(set(names))
    assert len(sections) == len({one.key for one in sections})


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


@pytest.mark.parametrize(
    "absent",
    ["attrition", "selected", "leaderboard", "comparison", "verdicts", "calls", "runs", "replies"],
)
def test_one_missing_table_leaves_the_other_parts(absent: str):
    """Every part that does not need the table is there."""
    changed = report_sections(replace(run_data(), **{absent: None}))
    lost = {one.key for one in changed if one.missing}
    expected = {
        "attrition": {"funnel", "sources"},
        "selected": {"selection"},
        "leaderboard": {"leaderboard", "comparison"},
        "comparison": {"comparison"},
        "verdicts": {"reliability"},
        "calls": {"cost"},
    }
    assert expected.get(absent, set()) == lost


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


def test_a_print_without_colours_tells_sources_apart():
    """Each colour has a hatch of its own, and smaller sources share the last."""
    many = [str(number) for number in range(len(PALETTE) + 3)]
    assert len(PALETTE) + 1 == len(HATCHES) == len(set(HATCHES))
    assert len(PALETTE) + 1 == len(set(source_hatches(many).values()))


def test_a_print_without_colours_tells_runs_and_significance_apart():
    """A short run is hatched; a marker is filled, open or a cross."""
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


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_bounds_of_a_mean_over_seeds_are_not_called_an_interval(seeds: int):
    """They are its runs' least and greatest score, and the legend says so where there is one."""
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


@pytest.mark.parametrize("name", ["..", "", "a/b", "<x>", "测", "x" * 300])
def test_a_name_in_a_path_stays_in_its_folder(name: str):
    """Only letters, digits, dots, dashes and underscores, and never nothing."""
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,59}", slug(name))
