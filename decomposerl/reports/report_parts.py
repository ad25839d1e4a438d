"""What the report is made from, and what a part of it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from decomposerl.reports.figure_style import Drawn, drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUN = "decomposerl run"
_NAME = 60


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure under a file name without ending."""

    name: str
    alt: str
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report; texts are plain, ``table`` is Markdown of ``tables``.

    ``paper`` names what the paper shows of it, empty where nothing. ``missing`` is empty, or what
    is not there, and then ``command`` makes it.
    """

    key: str
    title: str
    sentence: str = ""
    engine: str = ""
    paper: str = ""
    pictures: tuple[Picture, ...] = ()
    table: str = ""
    missing: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """A run of training: its ``CURVES``, held-out measures at both ends, wall time by phase."""

    name: str
    curves: pl.DataFrame
    engine: str = ""
    steps: int = 0
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StudyPicture:
    """A figure that a study left, with its sentence; without SVG that is empty."""

    name: str
    drawn: Drawn
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class ReportData:
    """What a data folder has; a table is None where it is not there.

    ``verdicts`` and ``calls`` are as ``report_data`` takes them, ``runs`` is ``STAGE_RUNS``.
    ``study_tables`` are those of ``reports.study_tables`` by study. The names of sources, test sets
    and systems are shown by ``titles``.
    """

    attrition: pl.DataFrame | None = None
    selected: pl.DataFrame | None = None
    cells: pl.DataFrame | None = None
    leaderboard: pl.DataFrame | None = None
    comparison: pl.DataFrame | None = None
    calibrations: pl.DataFrame | None = None
    verdicts: pl.DataFrame | None = None
    calls: pl.DataFrame | None = None
    replies: pl.DataFrame | None = None
    runs: pl.DataFrame | None = None
    trained: tuple[TrainedRun, ...] = ()
    studies: tuple[StudyPicture, ...] = ()
    study_tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    source_titles: Mapping[str, str] = field(default_factory=dict)
    benchmark_titles: Mapping[str, str] = field(default_factory=dict)
    system_titles: Mapping[str, str] = field(default_factory=dict)
    paper_raw: Mapping[str, int] = field(default_factory=dict)


def picture(name: str, alt: str, figure: "Figure") -> Picture:
    """A drawn figure."""
    return Picture(name, alt, drawn(figure))


def slug(name: str) -> str:
    """A name as part of a file name or anchor."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._")[:_NAME] or "unnamed"
