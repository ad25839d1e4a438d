"""How a command that runs the graph ends: one sentence for what went wrong, last and alone.

Takes the events of a run as Dagster's console would print them, and errors that nobody caught.
While the run goes on, the terminal shows its progress. Where something went wrong, stack traces and
all events go to a log file at the end; Dagster keeps the events where DAGSTER_HOME is set.

Left out deliberately: the code server and the UI, which show a run's events themselves.
"""

import atexit
import copy
import logging
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import dagster as dg

from dagster_project.terminal import Terminal
from decomposerl.errors import DecomposeRLError
from decomposerl.printable import printable

if TYPE_CHECKING:
    from dagster_shared.error import SerializableErrorInfo

_NOISE = "Dependencies for step "  # and its name: the steps after one that failed
_COMMANDS = {"asset", "job"}


class PrintableFormatter(logging.Formatter):
    """Another formatter's lines of records whose text is made printable."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The line; the record itself, which goes to Dagster's storage too, stays."""
        shown = copy.copy(record)
        shown.msg, shown.args = printable(record.getMessage()), None
        if shown.exc_info:
            shown.exc_text = printable(self._inner.formatException(shown.exc_info))
        return self._inner.format(shown)


class RunErrors(logging.Filter):
    """Keeps what went wrong until the process ends; a filter of the console that prints events."""

    def __init__(self) -> None:
        super().__init__()
        self._sentences: dict[str, None] = {}
        self._log: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Write every record to the log; whether the terminal shows it too."""
        message = record.getMessage()
        self._log.append(f"{record.levelname} {message}\n")
        event = getattr(record, "dagster_meta", {}).get("dagster_event")
        error = getattr(getattr(event, "event_specific_data", None), "error", None)
        if event is not None and error is not None:
            said, ours = _sentence(error)
            step = event.step_key if event.step_key and not ours else ""
            if not any(one.endswith(said) for one in self._sentences):
                self._sentences[f"{step}: {said}" if step else said] = None
            return False
        failed = event is not None and record.levelno >= logging.ERROR
        return record.levelno >= logging.INFO and not failed and _NOISE not in message

    def uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """An error that ends the process, as ``sys.excepthook`` has it."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        said, ours = _raised(error)
        if not ours:
            self._log += traceback.format_exception(kind, error, trace)
        self._sentences[said] = None

    def speak(self) -> None:
        """The sentences and where the log is, on standard error; without one nothing is written."""
        if self._sentences:
            said, where = "; ".join(self._sentences), self._written()
            sys.stdout.flush()
            Terminal(stderr=True).print(f"{said}{where}")

    def _written(self) -> str:
        """The log's place, after it was written; empty where it is empty or the disk is full."""
        with suppress(OSError):
            if self._log:
                with tempfile.NamedTemporaryFile(
                    prefix="decomposerl-", suffix=".log", delete=False
                ) as log:
                    log.write(printable("".join(self._log)).encode("utf-8"))
                return f" (log: {log.name})"
        return ""


def is_graph_command(words: Sequence[str]) -> bool:
    """Whether a command line is the demo, or a ``dagster`` that runs the graph in its process."""
    program = Path(words[0])
    if program.parts[-2:] == ("dagster_project", "__main__.py"):
        return True
    named = program.name == "dagster" or program.parts[-2:] == ("dagster", "__main__.py")
    return named and bool(set(words[1:2]) & _COMMANDS)


def install() -> None:
    """From here on this process ends as said above."""
    word = RunErrors()

    class Console(logging.Logger):
        """Dagster makes the console of a run of the process's class of loggers."""

        def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802 - as logging has it
            """As of any logger; what the console prints is filtered and printable."""
            if self.name == "dagster":
                hdlr.addFilter(word)
                hdlr.setFormatter(PrintableFormatter(hdlr.formatter or logging.Formatter()))
            super().addHandler(hdlr)

    for category in (dg.BetaWarning, dg.PreviewWarning, dg.SupersessionWarning):
        warnings.simplefilter("ignore", category)
    logging.setLoggerClass(Console)
    sys.excepthook = word.uncaught
    atexit.register(word.speak)


def _names(kind: type[DecomposeRLError] = DecomposeRLError) -> Iterator[str]:
    yield kind.__name__
    for one in kind.__subclasses__():
        yield from _names(one)


def _sentence(error: "SerializableErrorInfo") -> tuple[str, bool]:
    """The message of the project's own error, else of the innermost cause; and which it is."""
    causes = [error]
    while causes[-1].cause is not None:
        causes.append(causes[-1].cause)
    ours = [one for one in causes if one.cls_name in set(_names())]
    said = _one_line((ours or causes[-1:])[0].message)
    return (said.partition(": ")[2] if ours else said), bool(ours)


def _raised(error: BaseException) -> tuple[str, bool]:
    """The same of an error that was raised."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    ours = [one for one in causes if isinstance(one, DecomposeRLError)]
    return _one_line(str(ours[0]) if ours else f"{type(error).__name__}: {error}"), bool(ours)


def _one_line(text: str) -> str:
    """Without what Dagster appends: what a configuration may hold, or the trace of its error."""
    return re.split(r" (?:Expected|Stack Trace): ", " ".join(text.split()))[0]
