"""Figures and tables that are short enough for Dagster's pages to show them without a click."""

import base64
import re
from urllib.parse import unquote
from xml.etree.ElementTree import Element, fromstring

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.reports import figures
from decomposerl.reports.small_figures import (
    UNFOLDED,
    bars_markdown,
    curves_markdown,
    rows_markdown,
)

FOLDED = 1_000  # characters of Markdown from which on Dagster's pages fold
NAMES = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
FINITE = st.floats(-1e9, 1e9, allow_nan=False)


def drawn(markdown: str) -> Element:
    """The SVG in a Markdown image, parsed."""
    found = re.fullmatch(r"!\[.*\]\(<data:image/svg\+xml,([^<>\n]*)>\)", markdown, re.DOTALL)
    assert found, markdown
    return fromstring(unquote(found[1]))  # noqa: S314 - made here


def texts(picture: Element) -> list[str]:
    return [one.text or "" for one in picture.iter() if one.tag.endswith("text")]


@given(st.lists(st.tuples(NAMES, st.integers(0, 10**9)), min_size=1, max_size=40), NAMES)
def test_bars_fit_and_hold_every_count(rows: list[tuple[str, int]], alt: str):
    """Whatever the names: a valid picture below the limit; the last counts may be one bar."""
    markdown = bars_markdown(rows, alt)
    assert len(markdown) <= UNFOLDED < FOLDED
    if not markdown.startswith("!"):
        assert len(alt) > 10  # an alternative text that leaves no room for one bar
        return
    counts = [int(text.rsplit(" ", 1)[1].replace(",", "")) for text in texts(drawn(markdown))]
    assert sum(counts) == sum(number for _, number in rows)


def test_the_funnel_of_the_paper_fits_whole():
    """Nine stages with six digits each are nine bars, the largest across the whole width."""
    rows = [(f"decontaminated {n}", 155_506 - n) for n in range(9)]
    picture = drawn(bars_markdown(rows, "rows kept by each stage of the funnel", dark=9))
    assert [f"{name} {number:,}" for name, number in rows] == texts(picture)


def test_what_is_not_dark_is_an_outline():
    """So that kept and dropped rows differ on paper."""
    picture = drawn(bars_markdown([("kept", 5), ("gone", 3), ("lost", 2)], "rows"))
    filled, outlined = [one for one in picture.iter() if one.tag.endswith("path")]
    assert (1, 2) == tuple(str(one.get("d")).count("M") for one in (filled, outlined))
    assert (None, "none") == (filled.get("fill"), outlined.get("fill"))


@given(st.lists(st.lists(FINITE, max_size=3_000), max_size=4))
def test_curves_fit_and_end_with_the_last_value(values: list[list[float]]):
    """However long: below the limit, the last step drawn at the right edge."""
    markdown = curves_markdown([("sum of rewards", one) for one in values], "rewards")
    assert len(markdown) < FOLDED
    picture = drawn(markdown)
    lines = [str(one.get("d")) for one in picture.iter() if one.tag.endswith("path")]
    assert len(lines) == min(2, sum(bool(one) for one in values))
    for line in lines:
        assert line.rsplit("L", 1)[-1].strip("M").startswith(("328 ", "2 "))


@given(st.lists(st.tuples(NAMES, st.integers(0, 10**6)), max_size=60))
def test_a_table_has_the_rows_that_fit_and_says_how_many_more(rows: list[tuple[str, int]]):
    """Nothing is left out silently."""
    shown = rows_markdown(["name", "rows"], rows)
    assert len(shown) <= UNFOLDED
    more = re.search(r"and ([\d,]+) more$", shown)
    rest = int(more[1].replace(",", "")) if more else 0
    assert len(rows) == len(shown.split("\n\n")[0].splitlines()) - 2 + rest


def test_drop_reasons_are_told_apart_without_colours():
    """Each has a hatch of its own, the kept rows have none, and each bar says what it kept."""
    reasons = [f"reason_{n}" for n in range(9)]
    rows = pl.DataFrame({"source": "one", "reason": reasons, "claim_id": reasons})
    axes = figures.drops_figure(pl.concat([rows, rows]), rows, rows).axes[0]
    hatches = [bars.patches[0].get_hatch() for bars in axes.containers]
    assert "" == hatches[0]
    assert len(reasons) == len(set(hatches[1:]) - {""})
    assert [" 9 of 18 kept"] == [text.get_text() for text in axes.texts]


def test_data_uri_holds_the_picture():
    """The Markdown image decodes to the bytes it was made of."""
    shown = figures.data_uri(b"bytes", "alt")
    assert b"bytes" == base64.b64decode(shown.split("base64,")[1].removesuffix(")"))
