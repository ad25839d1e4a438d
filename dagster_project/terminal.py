"""What every ``decomposerl`` command shares: output forms, common options, error handling.

Everything a command prints passes through here and is made printable, so no claim, label, file name
or message can move the cursor, set the clipboard or reverse a line. Nothing else in this package
prints (``tests/dagster_project/test_terminal.py``).
"""

import atexit
import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup

from decomposerl.errors import DecomposeRLError
from decomposerl.extras import explained
from decomposerl.printable import printable, printable_json
from resources.process.interrupt import STAGES_KEPT, ends_soon, start_guard
from resources.store.paths import local

if TYPE_CHECKING:
    import polars as pl

_Params = ParamSpec("_Params")
_RUNS = (["asset", "materialize"], ["job", "execute"])
_USAGE_ERROR: type[Exception] = typer.BadParameter.mro()[1]
_NARROWEST = 20  # characters of a line beside its indent
_STYLES = {"✓": "green", "✗": "red", "·": "yellow"}


class Terminal(Console):
    """A console that prints strings verbatim: no markup, no highlighting, no wrapping."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - as rich has it
        """Print; strings are made printable."""
        shown = [Text(printable(item)) if isinstance(item, str) else item for item in objects]
        super().print(*shown, **{"soft_wrap": True, **options})

    def on_broken_pipe(self) -> None:
        """Print nothing more: rich would close standard output, whose reader may still be there."""
        self.quiet = True

    def show_cursor(self, show: bool = True) -> bool:  # noqa: FBT001, FBT002 - as rich has it
        """Never hide it: a process that is ended would leave it hidden."""
        return super().show_cursor(show) if show else False


class Commands(TyperGroup):
    """Commands whose usage errors, which repeat the user's input, are printable too."""

    def make_context(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as typer has it
        """Parse the arguments before the command."""
        return _printably(super().make_context, *args, **options)

    def invoke(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the same
        """Parse the command's arguments and run it."""
        return _printably(super().invoke, *args, **options)


def _printably(call: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
    try:
        return call(*args, **options)
    except _USAGE_ERROR as error:
        vars(error)["message"] = printable(str(vars(error)["message"]))
        raise


def report_errors(command: Callable[_Params, None]) -> Callable[_Params, None]:
    """End a command with one red line and exit code 2 on a project or file error.

    Ctrl-C and SIGTERM also end it with one sentence (``resources.process.interrupt``).
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
        except (DecomposeRLError, ModuleNotFoundError, OSError) as error:
            if isinstance(error, ModuleNotFoundError) and explained(str(error)) == str(error):
                raise
            print_failure(_message(error))
            raise typer.Exit(2) from error

    return guarded


def _message(error: DecomposeRLError | ModuleNotFoundError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return explained(f"{error.filename}: {error.strerror}")
    return str(error) if isinstance(error, DecomposeRLError) else explained(str(error))


def guard_dagster_run() -> None:
    """Handle interrupts of a run that a ``dagster`` command started in this process.

    Otherwise Dagster ends an interrupted run with a traceback.
    """
    if sys.argv[1:3] in _RUNS and (guard := start_guard(STAGES_KEPT)) is not None:
        atexit.register(guard.close)
        from dagster._utils.interrupts import pop_captured_interrupt

        # Dagster holds signals back while it loads: send one that came before this guard again.
        if pop_captured_interrupt():
            os.kill(os.getpid(), signal.SIGINT)


class Format(StrEnum):
    """How a table is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"

    @property
    def is_data(self) -> bool:
        """Whether rows are printed for programs, not a page for people."""
        return self in {Format.CSV, Format.JSON}


FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def counted(number: int, noun: str) -> str:
    """A number of things, such as ``1 trace`` and ``1,024 traces``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_text(text: str) -> None:
    """Print lines on standard output."""
    typer.echo(printable(text))


def print_note(line: str) -> None:
    """Print one line on standard error, with line breaks escaped."""
    typer.echo(printable(line, keep=""), err=True)


def print_failure(sentence: str) -> None:
    """Print why a command ends, in red on standard error."""
    Terminal(stderr=True).print(sentence, style="red")


def print_marked(text: str) -> None:
    """Print each line in the colour of its leading mark."""
    terminal = Terminal()
    for line in text.split("\n"):
        terminal.print(line, style=mark_style(line))


def mark_style(line: str) -> str:
    """The colour of the line's leading mark; empty where it has none."""
    return _STYLES.get(line[:1], "")


def print_block(text: str, style: str = "", indent: int = 0, lead: str = "") -> None:
    """Print a paragraph, wrapped to the terminal's width at this indent; ``lead`` stands in it."""
    terminal = Terminal()
    margin = f"{lead:>{indent}}"
    block = Text(printable(text), style=style)
    for line in block.wrap(terminal, max(terminal.width - indent, _NARROWEST)):
        line.rstrip()
        terminal.print(Text(margin, style=style).append_text(line))
        margin = " " * indent


def print_json(value: object) -> None:
    """Print a value as JSON; its strings read back unchanged."""
    typer.echo(printable_json(value))


def print_json_line(value: object) -> None:
    """The same on one line, sent at once, as a program reads it from a pipe."""
    typer.echo(printable_json(value, indent=None))
    sys.stdout.flush()


def print_rows(frame: "pl.DataFrame", output: Format) -> None:
    """Print a frame as JSON or CSV; in CSV, unprintable characters are escaped."""
    if output is Format.CSV:
        typer.echo(printable(frame.write_csv()), nl=False)
    else:
        print_json(frame.to_dicts())


def print_columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a frame; cells wrap, except names in the first column."""
    names, *others = headers
    table = Table(Column(names, no_wrap=True), *others, show_lines=False)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Terminal().print(table, soft_wrap=False)
