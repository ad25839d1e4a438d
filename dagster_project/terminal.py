"""What every command of ``decomposerl`` shares: output forms and the way errors end.

Left out deliberately: any command (``cli``).
"""

import atexit
import functools
import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import typer
from rich.console import Console
from rich.text import Text

from decomposerl.errors import DecomposeRLError
from resources.interrupt import STAGES_KEPT, ends_soon, guarded
from resources.places import local

if TYPE_CHECKING:
    import polars as pl

_Params = ParamSpec("_Params")
_RUNS = (["asset", "materialize"], ["job", "execute"])
_STYLES = {"✓": "green", "✗": "red", "·": "yellow"}


def in_red(command: Callable[_Params, None]) -> Callable[_Params, None]:
    """Let the project's errors, and those of files, end a command with one red line and code 2.

    Ctrl-C and SIGTERM end it with a sentence (``resources.interrupt``).
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
            Console(stderr=True).print(Text(_said(error), style="red"), soft_wrap=True)
            raise typer.Exit(2) from error

    return guarded


def _said(error: DecomposeRLError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def ends_soon_from_terminal() -> None:
    """Guard a run that somebody started in this very process with Dagster's own commands.

    Dagster keeps signals to itself while it loads, and ends an interrupted run with a traceback.
    """
    if sys.argv[1:3] in _RUNS and (guard := guarded(STAGES_KEPT)) is not None:
        atexit.register(guard.close)


class Format(StrEnum):
    """How a table is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


def print_marked(text: str) -> None:
    """Print lines in the colour of the mark that they begin with."""
    console = Console()
    for line in text.split("\n"):
        console.print(Text(line, style=_STYLES.get(line[:1], "")), soft_wrap=True)


def raw(frame: "pl.DataFrame", output: Format) -> str:
    """A frame as CSV or JSON, with its line end."""
    if output is Format.CSV:
        return frame.write_csv()
    return json.dumps(frame.to_dicts(), ensure_ascii=False, indent=2) + "\n"
