"""The report of a run: its numbers, sections and pages; nothing lost, made up or active."""

import base64
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from decomposerl.evaluation.published import MEAN_IN, MEAN_OUT
from decomposerl.reports.attrition import STAGES
from decomposerl.reports.figure_style import PALETTE, drawn, label_text, source_hatches
from decomposerl.reports.report_data import (
    KEPT,
    against_best,
    calibration_gap,
    confidence_bins,
    cost_by_claim,
    score_bars,
    scored_columns,
    share_bounds,
    shares,
    source_fates,
)
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
from decomposerl.schemas import ATTRITION
from report_parts_made import (
    HOSTILE,
    PNG,
    board,
    board_row,
    calls,
    comparison,
    pair,
    run_data,
    verdicts,
)
from strategies import FRAME_LAW, LAW

Sources = dict[str, tuple[list[int], int, int]]
FUNNEL = [stage for stage in STAGES[1:] if stage != "diversity_selected"]
drops = st.lists(st.integers(0, 5), min_size=len(FUNNEL), max_size=len(FUNNEL))
funnel = st.tuples(drops, st.integers(0, 9), st.integers(0, 3))
funnels = st.dictionaries(st.sampled_from(("hover", "wice", "scitab")), funnel, min_size=1)


def attrition_of(sources: Sources, ran: int) -> pl.DataFrame:
    """A funnel whose first ``ran`` stages ran; of each source: drops, rows at the end, rejects."""
    rows = []
    for source, (dropped, left, rejected) in sources.items():
        raw = sum(dropped) + left
        rows.append(("claims", 0, source, "none", "rejected", "reading", "bad", rejected))
        rows.append(("claims", 0, source, "Supported", "kept", "", "", raw))
        for stage, lost in zip(FUNNEL[:ran], dropped, strict=False):
            raw, order = raw - lost, STAGES.index(stage)
            rows.append((stage, order, source, "Supported", "kept", "", "", raw))
            rows.append((stage, order, source, "Supported", "dropped", "step", "why", lost))
    frame = pl.DataFrame(rows, schema=ATTRITION.schema, orient="row")
    return ATTRITION.conform(frame.filter(pl.col("rows") > 0))


@FRAME_LAW
@given(sources=funnels, ran=st.integers(0, len(FUNNEL)))
def test_every_claim_of_a_source_ends_once(sources: Sources, ran: int):
    """What was kept and what each stage dropped are together the claims of the source."""
    counted = attrition_of(sources, ran)
    fates = source_fates(counted)
    ended = dict(fates.group_by("source").agg(pl.col("rows").sum()).iter_rows())
    kept = dict(fates.filter(stage=KEPT).select("source", "rows").iter_rows())
    for source, (dropped, left, _) in sources.items():
        assert sum(dropped) + left == ended.get(source, 0)
        assert left + sum(dropped[ran:]) == kept.get(source, 0)


def test_systems_stand_from_best_to_worst_and_short_runs_last():
    """A short run is no measure, so a lucky one never stands on top."""
    rows = [board_row("a", 50.0), board_row("b", 70.0), board_row("lucky", 99.0, status="limited")]
    rows += [board_row("a", 88.0, benchmark=MEAN_OUT), board_row("unrun", None)]
    rows += [board_row("few", 90.0) | {"ranked": False}]
    bars = score_bars(board(rows))
    assert ["b", "a", "lucky", "few", "a"] == bars["system"].to_list()
    assert [False, False, True, True, False] == bars["limited"].to_list()
    assert [MEAN_IN, MEAN_OUT] == scored_columns(board(rows))


def test_a_system_that_stands_in_two_tables_is_one_bar():
    """The paper lists its policy in both tables; systems of one title have distinct names."""
    twice = [board_row("a", 60.0, table=1), board_row("a", 60.0, table=2)]
    bars = score_bars(board([*twice, board_row("b", 50.0, title="System a")]))
    assert ["a", "b"] == bars["system"].to_list()
    assert ["System a (a)", "System a (b)"] == bars["label"].to_list()


def test_test_sets_stand_in_where_no_mean_is_complete():
    """The two with most systems, by name where they have as many."""
    ran = (("a", "wice"), ("a", "hover"), ("b", "hover"), ("a", "fever"), ("b", "fever"))
    rows = [board_row(system, 60.0, benchmark=name) for system, name in ran]
    assert ["fever", "hover"] == scored_columns(board(rows))
    assert {"fever", "hover"} == set(score_bars(board(rows))["benchmark"])


@LAW
@given(turned=st.lists(st.booleans(), min_size=3, max_size=3))
def test_a_difference_does_not_depend_on_which_system_comes_first(turned: list[bool]):
    """(best, other) and (other, best) with the opposite difference say the same."""
    scores = {"a": 50.0, "b": 60.0, "c": 70.0}
    bars = score_bars(board([board_row(key, score) for key, score in scores.items()]))
    rows = []
    for (one, other), turn in zip((("a", "b"), ("a", "c"), ("b", "c")), turned, strict=True):
        first, second = (other, one) if turn else (one, other)
        rows.append(pair(first, second, scores[first] - scores[second]))
    columns = ["best", "system", "difference", "low", "high"]
    found = against_best(comparison(rows), bars).select(columns).rows()
    assert [("c", "a", 20.0, 15.0, 25.0), ("c", "b", 10.0, 5.0, 15.0)] == found


def test_the_best_of_a_comparison_is_a_whole_run():
    """A short run is compared, but not the one that others are measured by."""
    bars = score_bars(board([board_row("a", 60.0), board_row("b", 90.0, status="limited")]))
    (row,) = against_best(comparison([pair("a", "b", -30.0, p=None)]), bars).to_dicts()
    assert ("a", "b", -30.0, None) == (row["best"], row["system"], row["difference"], row["p_holm"])


@FRAME_LAW
@given(sure=st.lists(st.tuples(st.integers(50, 100), st.booleans()), min_size=1, max_size=90))
def test_every_verdict_is_in_one_bin(sure: list[tuple[int, bool]]):
    """Bins keep the number of verdicts, their mean confidence and their share of right ones."""
    rows = [("s", "e", "test sets", number / 100, right) for number, right in sure]
    bins = confidence_bins(verdicts(rows))
    weights = bins["rows"] / bins["rows"].sum()
    mean, right = ((bins[name] * weights).sum() for name in ("confidence", "right"))
    assert len(sure) == bins["rows"].sum()
    assert mean == pytest.approx(sum(number for number, _ in sure) / len(sure) / 100)
    assert right == pytest.approx(sum(right for _, right in sure) / len(sure))
    assert abs(mean - right) - 1e-9 <= calibration_gap(bins) <= 1


@LAW
@given(rows=st.integers(1, 400), data=st.data())
def test_the_interval_of_a_share_is_wilsons(rows: int, data: st.DataObject):
    """SciPy gives the same bounds, and the share lies between them."""
    hits = data.draw(st.integers(0, rows))
    low, high = share_bounds(hits / rows, rows)
    peer = binomtest(hits, rows).proportion_ci(0.95, method="wilson")
    assert (low, high) == pytest.approx((peer.low, peer.high), abs=1e-6)
    assert low <= hits / rows <= high


def test_the_cost_of_a_claim_is_over_all_test_sets():
    """Sums of both; without any price there are no dollars, not none spent."""
    rows = [
        ("free", "rules", 10, 10, 0, 0, None, 1.0),
        ("paid", "chat", 10, 30, 1_000, 100, 0.5, 20.0),
        ("paid", "chat", 10, 50, 3_000, 300, None, 40.0),
        ("empty", "rules", 0, 0, 0, 0, None, 0.1),
    ]
    paid, free = cost_by_claim(calls(rows)).to_dicts()
    names = ("system", "claims", "calls", "prompt_tokens", "completion_tokens")
    assert ["paid", 20, 80, 4_000, 400] == [paid[name] for name in names]
    by_claim = [paid[f"{name}_by_claim"] for name in ("calls", "dollars", "seconds")]
    assert [4.0, 0.025, 3.0] == by_claim
    assert ("free", None, None) == (free["system"], free["dollars"], free["dollars_by_claim"])


@LAW
@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_shares_are_of_the_whole(rows: list[int]):
    """They sum to 100, or are all zero where nothing is."""
    assert math.isclose(sum(shares(rows)), 100.0 if sum(rows) else 0.0)


ABOUT = ReportAbout("Report of a run", "decomposerl 0", "traces.html")
ALLOWED = set(
    "html head meta link title style body h1 h2 p a nav ul li section figure figcaption img code "
    "details summary div table thead tbody tr th td strong".split()
)


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
        "leaderboard": ("a is best with 60.0 (55.0 to 65.0, n 100)", "0 of 1 others"),
        "comparison": ("1 of 1 other systems", "1 significantly (p < 0.05"),
        "reliability": ("80.0 %", "50.0 %", "40 verdicts", "30.0 %"),
        "cost": ("1 system", "35 calls", "1,000 tokens", "0.50 US dollars"),
        "study-1-a": ("What a shows.",),
    }
    for key, found in numbers.items():
        assert [] == [one for one in found if one not in said[key]], said[key]
    for section in sections:
        assert all((section.pictures, section.engine, not section.missing)), section.key
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
    hatches = source_hatches([str(number) for number in range(len(PALETTE) + 3)])
    assert len(PALETTE) + 1 == len(set(hatches.values()))
    rows = [board_row(key, 50.0 + n) for n, key in enumerate("abc")]
    bars = score_bars(board([*rows, board_row("short", 90.0, status="limited")]))
    (panel,) = scores_figure(bars, {}).axes
    assert ["", "", "", "////"] == [patch.get_hatch() or "" for patch in panel.patches]
    pairs = [pair("c", "a", 9.0), pair("c", "b", 5.0, 0.4), pair("c", "short", 1.0, None)]
    (panel,) = pairs_figure(against_best(comparison(pairs), bars), {}).axes
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
