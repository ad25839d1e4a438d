"""The study of the intervals: every case is counted, and its page has a row for each group."""

import pytest

from project import ROOT
from studies import interval_coverage as study
from studies.interval_coverage import PAIRED, SINGLE, SimulatedClaims, paired_line, single_line

PAGE = (ROOT / "docs/results/intervals.md").read_text("utf-8")


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines]


def test_the_page_shows_least_and_greatest_of_each_group():
    """Of cases of one size; a value that all share stands alone."""
    rows = [
        [[*case.cells, f"{one}", "9.0", f"{-one}", "3.0"] for one, case in enumerate(SINGLE)],
        [[*case.cells, *"1234567"] for case in PAIRED],
    ]
    single = table_rows(study.ranges(rows, 7).split("**The difference")[0])[2:]
    assert ["4", "1", "0–4", "-4–0", "3.0"] == single[0]
    assert {"3.0"} == {row[-1] for row in single}


@pytest.mark.parametrize("cases", [SINGLE, PAIRED])
def test_the_committed_page_has_every_group(cases: tuple[SimulatedClaims, ...]):
    """In the order of the cases, so the page is of the study as it is now."""
    groups = list(dict.fromkeys(case.group for case in cases))
    size = len(groups[0])
    part = PAGE.split("**The difference")[cases is PAIRED]
    assert groups == [tuple(row[:size]) for row in table_rows(part)[2:]]


def test_a_case_covers_as_often_as_it_says():
    """Shares are percent of the samples; the bootstrap of a perfect system has no width."""
    perfect = SimulatedClaims(4, 1.0)
    assert ["100.0", "0.0", "100.0"] == single_line(perfect, 5)[4:7]
    assert ["0.0", "0.0", "0.0"] == paired_line(SimulatedClaims(4, 1.0, other=1.0), 5)[-3:]
