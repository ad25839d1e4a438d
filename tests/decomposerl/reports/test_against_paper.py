"""The paper's table, and ours beside it."""

from dataclasses import astuple

import polars as pl
import pytest

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.claims.paper_counts import (
    DIFFERENCES,
    PAPER_COUNTS,
    PAPER_TOTAL,
    STAGE_REASONS,
    difference_of,
)
from decomposerl.reports.against_paper import (
    SCHEMA,
    against_paper,
    against_paper_markdown,
    against_paper_text,
)
from decomposerl.reports.attrition import STAGES, TOTAL, StageFrames, attrition, attrition_wide
from decomposerl.schemas import DROPS, REJECTS
from project import ROOT
from resources.corpora.folder import FolderCorpora
from studies.reference import corpus_rows

FOLDER = ROOT.parent / "shared" / "corpora"
TITLES = {one.name: one.title for one in SOURCES}
RAW = {one.name: one.paper_raw for one in SOURCES if one.paper_raw is not None}


def kept(**rows: int) -> pl.DataFrame:
    sources = [name for name, count in rows.items() for _ in range(count)]
    return pl.DataFrame({"source": sources, "label": ["Supported"] * len(sources)})


def compared(*stages: dict[str, int]) -> pl.DataFrame:
    """The comparison of a funnel that kept so many rows of each source at its first stages."""
    frames = [
        StageFrames(STAGES[order], order, kept(**rows), DROPS.empty(), REJECTS.empty())
        for order, rows in enumerate(stages)
    ]
    counted = attrition(frames)
    return against_paper(counted, attrition_wide(counted, RAW, TITLES))


def cell(frame: pl.DataFrame, source: str, column: str) -> tuple[object, ...]:
    (row,) = frame.filter(source=source, column=column).rows()
    return row[3:]


def test_the_papers_table_sums_to_its_totals():
    """Each of its four columns; Raw is that of the sources, and no source gains rows."""
    sums = [sum(column) for column in zip(*map(astuple, PAPER_COUNTS.values()), strict=True)]
    assert astuple(PAPER_TOTAL) == tuple(sums)
    assert RAW == {name: counts.raw for name, counts in PAPER_COUNTS.items()}
    assert list(PAPER_COUNTS) == [one.name for one in SOURCES]
    for counts in map(astuple, PAPER_COUNTS.values()):
        assert list(counts) == sorted(counts, reverse=True)


def test_every_corpus_has_one_reason_and_none_is_empty():
    """Each source in the table's order, then test sets; an equal count alone says "the same"."""
    named = [one.corpus for one in DIFFERENCES]
    assert list(PAPER_COUNTS) == named[: len(PAPER_COUNTS)]
    assert {*named[len(PAPER_COUNTS) :]} <= {one.name for one in BENCHMARKS}
    assert len(named) == len(set(named))
    for one in DIFFERENCES:
        assert one == difference_of(one.corpus)
        assert one.reason
        assert one.reason in one.text
        paper = PAPER_COUNTS.get(one.corpus)
        if paper is not None and one.rows is not None:
            assert (one.rows == paper.raw) == one.reason.startswith("The same"), one.corpus
    assert all(STAGE_REASONS.values())


def test_every_reading_of_the_catalogue_is_a_setting_of_the_table():
    """A reading that exists to match the paper is named, and a named one exists."""
    readings = {
        f"LoadSettings.readings = {{{one.name}: {reading.name}}}"
        for one in (*SOURCES, *BENCHMARKS)
        for reading in one.readings
    }
    assert readings == {one.setting for one in DIFFERENCES if "readings" in one.setting}


def test_a_source_stands_beside_the_papers_row():
    """Our number, the paper's, ours minus the paper's; Silver stands beside Dedup."""
    later = [{"hover": rows} for rows in (18, 9, 8, 7, 6, 5, 5)]
    frame = compared({"hover": 20, "scitab": 868}, *later)
    assert SCHEMA == frame.schema
    assert (20, 18_171, -18_151) == cell(frame, "hover", "Raw")[:3]
    assert (9, 2_533, -2_524) == cell(frame, "hover", "Diff.")[:3]
    assert (6, 2_106, -2_100) == cell(frame, "hover", "Dedup")[:3]
    assert (5, 559, -554) == cell(frame, "hover", "Final")[:3]
    assert (868, 868, 0) == cell(frame, "scitab", "Raw")[:3]
    assert (888, 155_506, -154_618) == cell(frame, TOTAL, "Raw")[:3]
    assert (5, 5_464, -5_459) == cell(frame, TOTAL, "Final")[:3]
    assert 4 * (len(SOURCES) + 1) == frame.height


def test_what_the_paper_has_not_and_what_has_not_run_says_so():
    """A corpus of the user has no number there, a later stage none here; no reason is empty."""
    frame = compared({"bridge_notes": 3, "hover": 1, "scitab": 868})
    cells = [("bridge_notes", "Raw"), ("hover", "Diff."), ("scitab", "Raw"), ("hover", "Raw")]
    rows = [cell(frame, *named) for named in cells]
    assert [(3, None, None), (None, 2_533, None), (868, 868, 0)] == [row[:3] for row in rows[:3]]
    assert len(cells) == len({row[3] for row in rows}), "each has a reason of its own"
    assert 0 == frame.filter(pl.col("reason").str.strip_chars() == "").height


def test_pages_hold_every_source_and_each_reason_once():
    """Text and Markdown: a line per source, reasons below them, also of the user's corpus."""
    frame = compared({"hover": 20, "feverous": 7, "bridge_notes": 3}, {"hover": 18}, {"hover": 9})
    lines = against_paper_markdown(frame).splitlines()
    assert len(SOURCES) + 2 + 2 == sum(line.startswith("|") for line in lines)
    for page in (against_paper_text(frame), against_paper_markdown(frame)):
        plain = page.replace("\\", "")
        assert [] == [title for title in TITLES.values() if title not in page]
        assert 1 == plain.count(STAGE_REASONS["difficulty"])
        for words in ("LoadSettings.readings = {feverous: sentences}", "bridge_notes: ", "Rules"):
            assert words in plain


def test_the_page_on_readings_has_the_table():
    """It says of each corpus what its asset and the comparison say."""
    page = (ROOT / "docs/explanation/paper-readings.md").read_text("utf-8")
    block = page.split("<!-- corpora rows report: begin -->\n")[1]
    shown = block.split("\n<!-- corpora rows report: end -->")[0]
    assert corpus_rows.block() == shown, "write it again: make reference"


@pytest.mark.real
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the real corpora are not beside this folder")
def test_every_difference_on_the_real_corpora_has_its_reason():
    """Each source that is not the paper's says why, from this table and its own dropped rows."""
    files, settings = FolderCorpora(FOLDER), LoadSettings()
    loaded = [load_source(one, benchmark_of(one), files, settings) for one in SOURCES]
    claims, drops, rejects = (
        pl.concat([getattr(one, part) for one in loaded]) for part in ("claims", "drops", "rejects")
    )
    counted = attrition([StageFrames(STAGES[0], 0, claims, drops, rejects)])
    frame = against_paper(counted, attrition_wide(counted, RAW, TITLES))
    raw = frame.filter((pl.col("column") == "Raw") & (pl.col("source") != TOTAL))
    assert {"scitab"} == set(raw.filter(difference=0)["source"])
    for source, reason in raw.filter(pl.col("difference") != 0)["source", "reason"].iter_rows():
        known = difference_of(source)
        assert known is not None
        assert known.reason[1:] in reason
    assert "722 evidence_unavailable, 654 held_out_document" in cell(frame, "hover", "Raw")[3]
    assert (773, 1_295, -522) == cell(frame, "scifact", "Raw")[:3]
    assert "86 held_out_document" in cell(frame, "pubmedclaim", "Raw")[3]
    whole = {"scitab": 868, "scifact": 773}
    assert whole == {name: difference_of(name).rows for name in whole}  # type: ignore[union-attr]
