"""Writes the report: ``report/`` in the data folder, as a whole or not at all.

::

    report.html     one page with its figures, for a browser without a network
    report.md       the same for a reader of Markdown
    traces.html     questions, answers and verdicts of some claims, where there are predictions
    figures/        each figure as SVG and PNG

Equal tables give equal bytes.
"""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from decomposerl.reports.report_page import FIGURES, ReportAbout, report_html, report_markdown
from decomposerl.reports.report_parts import ReportData, Section
from decomposerl.reports.run_report import report_sections
from decomposerl.reports.trace_page.page import offline_parts
from decomposerl.reports.trace_page.pages import PageAbout
from resources.store.temporary import empty_folder, folder_aside, publish_folder, replace_text
from resources.traces.collection import collect
from resources.traces.files import prediction_files

FOLDER, HTML, MARKDOWN, TRACES = "report", "report.html", "report.md", "traces.html"
_NO_TRACES = "decomposerl evaluate SYSTEM, then decomposerl run report"


def report_html_path(data: Path) -> Path:
    """The page that a reader opens."""
    return data / FOLDER / HTML


def write_report(data: Path, read: ReportData, traces: int) -> list[Section]:
    """Write the report of a data folder and return its sections.

    ``traces`` is the number of claims of each file of predictions on the trace page; 0: no page.

    Raises:
        SourceFileError: predictions cannot be read.
    """
    sections = report_sections(read)
    target = data / FOLDER
    written = folder_aside(target)
    empty_folder(written)
    shown = _write_traces(data, written, read.system_titles, traces)
    about = ReportAbout(
        "Report of a run", _made(read), TRACES if shown else "", "" if shown else _NO_TRACES
    )
    for section in sections:
        _write_figures(written / FIGURES, section)
    replace_text(written / MARKDOWN, [report_markdown(about, sections)])
    replace_text(written / HTML, [report_html(about, sections)])
    publish_folder(written, target)
    return sections


def _made(read: ReportData) -> str:
    """Program, and the time of the newest table: the report itself has no clock."""
    finished = [] if read.runs is None else read.runs["finished_at"].drop_nulls().to_list()
    newest = f"; newest table {max(finished)[:16].replace('T', ' ')} UTC" if finished else ""
    return f"decomposerl {version('decomposerl')}{newest}"


def _write_figures(folder: Path, section: Section) -> None:
    for one in section.pictures:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, content in one.drawn._asdict().items():
            if content:
                (folder / f"{one.name}.{ending}").write_bytes(content)


def _write_traces(data: Path, folder: Path, titles: Mapping[str, str], most: int) -> int:
    """The trace page of the first claims of each file; the number of traces."""
    sources = prediction_files(data, limit=most) if most else []
    if not sources:
        return 0
    about = PageAbout("Traces", f"decomposerl {version('decomposerl')}")
    collected = collect(sources, about, titles)
    replace_text(folder / TRACES, offline_parts(collected.index, collected.blocks))
    collected.blocks.close()
    return len(collected.index["claim_id"])
