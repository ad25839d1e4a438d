"""The options and the output of ``decomposerl view``; ``view`` and ``view_server`` do the work."""

import time
import webbrowser
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.evaluation_commands import DataOption
from dagster_project.terminal import counted, print_note, print_text, report_errors
from decomposerl.extras import require

if TYPE_CHECKING:
    from dagster_project.settings import Settings
    from dagster_project.view import Selection

_TITLE = "Traces"
_NOTE_S = 5.0
Several = list[str] | None
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE...",
        help="Results of 'verify --json' (.jsonl) or predictions (.parquet); default: all of the "
        "data folder.",
    ),
]
Runs = Annotated[
    Several,
    typer.Option("--run", "--experiment", help="Rollouts of this training run; repeatable."),
]


@report_errors
def view(  # noqa: PLR0913 - each is one option
    files: Files = None,
    *,
    system: Annotated[Several, typer.Option(help="Only this system; repeatable.")] = None,
    benchmark: Annotated[Several, typer.Option(help="Only this test set; repeatable.")] = None,
    run: Runs = None,
    limit: Annotated[int, typer.Option(min=0, help="Most claims of each file; 0: all.")] = 0,
    html: Annotated[
        Path | None, typer.Option(help="Write one offline file instead of serving.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Default: a free one.")] = 0,
    reviewer: Annotated[str, typer.Option(help="Name that marks are stored under.")] = "",
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Show traces: questions, answers, evidence and verdicts of systems and training runs.

    Serves the page on this machine until interrupted; marks of reviewers are stored in marks.jsonl
    of the data folder. See docs/how-to/traces.md.
    """
    from dagster_project.environment import read_settings
    from dagster_project.view import Selection

    settings = read_settings(data=data)
    selection = Selection(
        tuple(files or ()), tuple(system or ()), tuple(benchmark or ()), tuple(run or ()), limit
    )
    if html is None:
        _serve(settings, selection, port, reviewer, open_browser=open_browser)
        return
    _write(settings, selection, html, reviewer)
    if open_browser:
        webbrowser.open(html.resolve().as_uri())


def _write(settings: "Settings", selection: "Selection", html: Path, reviewer: str) -> None:
    from dagster_project.view import JudgeTexts, page_about, whole_page
    from decomposerl.reports.trace_page.page import offline_parts
    from resources.store.temporary import replace_text, require_writable

    require_writable(html)
    with closing(JudgeTexts(settings)) as texts:
        warnings: list[str] = []
        sources = selection.sources(settings.paths.data, warnings.append)
        about = page_about(_titled(html.stem), warnings, reviewer=reviewer)
        collected = whole_page(sources, about, texts, _progress())
    parts = offline_parts(collected.index, collected.blocks)
    replace_text(html, parts)
    collected.blocks.close()
    print_text(f"{counted(len(collected.index['claim_id']), 'trace')}: {html}")


def _serve(
    settings: "Settings", selection: "Selection", port: int, reviewer: str, *, open_browser: bool
) -> None:
    require("starlette", "uvicorn")
    from dagster_project.view import JudgeTexts, LiveTraces, page_about
    from dagster_project.view_server import ViewServer, bound_socket, serve
    from decomposerl.reports.trace_page.page import live_page
    from resources.traces.marks import MARKS, MarksFile

    listening = bound_socket(port)
    with closing(JudgeTexts(settings)) as texts, listening:
        about = page_about(_titled(settings.paths.data.name), live=True, reviewer=reviewer)
        traces = LiveTraces(selection, settings.paths.data, about, texts, _progress())
        shown = len(traces.current().index["claim_id"])
        server = ViewServer(live_page(), traces, MarksFile(settings.paths.data / MARKS))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        print_text(f"{counted(shown, 'trace')} at {url} (Ctrl-C ends it)")
        if open_browser and not webbrowser.open(url):
            print_note("no browser could be opened")
        serve(server.app, listening)


def _titled(name: str) -> str:
    """The page's title: of a file or folder, unless that is named like the page."""
    return _TITLE if name.lower() == _TITLE.lower() else f"{_TITLE}: {name}"


def _progress() -> Callable[[int, int], None]:
    """A line on standard error at most every five seconds."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _NOTE_S:
            last = time.monotonic()
            print_note(f"read {done:,} of {total:,} traces")

    return show
