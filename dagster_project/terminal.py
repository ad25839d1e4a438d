"""What every command of ``decomposerl`` shares: output forms and the way errors end.

All that a command prints passes through here, where text from outside becomes printable:
no claim, label, file name or message can move the cursor, set the clipboard or turn a line
around. Nothing else in this package prints (``tests/dagster_project/test_terminal.py``).

Left out deliberately: any command (``cli``).
"""

import atexit
import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from decomposerl.errors import DecomposeRLError
from decomposerl.printable import printable, printable_json
from resources.process.interrupt import STAGES_KEPT, ends_soon, guarded
from resources.store.paths import local

if TYPE_CHECKING:
    import polars as pl

_Params = ParamSpec("_Params")
_RUNS = (["asset", "materialize"], ["job", "execute"])
_USAGE_ERROR: type[Exception] = typer.BadParameter.mro()[1]
_STYLES = {"✓": "green", "✗": "red", "·": "yellow"}


class Terminal(Console):
    """A console that prints strings as they are: no markup, no colours of its own, no wrapping."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - as rich has it
        """Print; strings are made printable."""
        shown = [Text(printable(one)) if isinstance(one, str) else one for one in objects]
        super().print(*shown, **{"soft_wrap": True, **options})


class Commands(TyperGroup):
    """Commands whose usage errors are printable too: they repeat what was typed."""

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as typer has it
        """Read the words before the command."""
        return _printably(super().make_context, *args, **options)

    def invoke(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the same
        """Read the command's words and run it."""
        return _printably(super().invoke, *args, **options)


def _printably(act: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
    try:
        return act(*args, **options)
    except _USAGE_ERROR as error:
        vars(error)["message"] = printable(str(vars(error)["message"]))
        raise


def report_errors(command: Callable[_Params, None]) -> Callable[_Params, None]:
    """Let the project's errors, and those of files, end a command with one red line and code 2.

    Ctrl-C and SIGTERM end it with a sentence (``resources.process.interrupt``).
    """

    @functools.wraps(command)
    def guarded(*args: _Params.args, **kwargs: _Params.kwargs) -> None:
        try:
            for name, value in kwargs.items():
                if isinstance(value, Path):
                    local(str(value), name)
            with ends_soon():
                command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (DecomposeRLError, OSError) as error:
            Terminal(stderr=True).print(_said(error), style="red")
            raise typer.Exit(2) from error

    return guarded


def _said(error: DecomposeRLError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def guard_dagster_run() -> None:
    """Guard a run that somebody started in this very process with Dagster's own commands.

    Dagster keeps signals to itself while it loads, and ends an interrupted run with a traceback.
    One that came before this guard is sent to it again.
    """
    if sys.argv[1:3] in _RUNS and (guard := guarded(STAGES_KEPT)) is not None:
        atexit.register(guard.close)
        from dagster._utils.interrupts import pop_captured_interrupt

        if pop_captured_interrupt():
            os.kill(os.getpid(), signal.SIGINT)


class Format(StrEnum):
    """How a table is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


def print_text(text: str) -> None:
    """Print lines on standard output."""
    typer.echo(printable(text))


def print_note(line: str) -> None:
    """Print one line on standard error, line breaks within it escaped."""
    typer.echo(printable(line, keep=""), err=True)


def print_marked(text: str) -> None:
    """Print lines in the colour of the mark that they begin with."""
    terminal = Terminal()
    for line in text.split("\n"):
        terminal.print(line, style=_STYLES.get(line[:1], ""))


def print_json(value: object) -> None:
    """Print a value as JSON; its strings read back as they are."""
    typer.echo(printable_json(value))


def print_rows(frame: "pl.DataFrame", output: Format) -> None:
    """Print a frame as JSON or CSV; in CSV what does not show is escaped."""
    if output is Format.CSV:
        typer.echo(printable(frame.write_csv()), nl=False)
    else:
        print_json(frame.to_dicts())


def print_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a framed table that wraps its cells."""
    table = Table(*headers, show_lines=False)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Terminal().print(table, soft_wrap=False)
