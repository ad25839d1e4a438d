"""End a failed command that runs the graph with one sentence that says what went wrong.

Filters the events that Dagster's console prints and handles uncaught errors. The terminal shows the
run's progress; after a failure, stack traces and all events go to a log file. The code server and
the UI show events themselves and are left alone.
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
from decomposerl.extras import explained
from decomposerl.printable import printable

if TYPE_CHECKING:
    from dagster_shared.error import SerializableErrorInfo

NOISE = "Dependencies for step "  # and its name: steps after a failed one
_COMMANDS = {"asset", "job"}


class PrintableFormatter(logging.Formatter):
    """Formats with another formatter after making the record's text printable."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The formatted line."""
        shown = copy.copy(record)  # the record itself also goes to Dagster's storage
        shown.msg, shown.args = printable(record.getMessage()), None
        if shown.exc_info:
            shown.exc_text = printable(self._inner.formatException(shown.exc_info))
        return self._inner.format(shown)


class RunErrors(logging.Filter):
    """Collects errors until the process ends, as a filter of the console that prints events."""

    def __init__(self) -> None:
        super().__init__()
        self._sentences: dict[str, None] = {}
        self._log: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the record to the log; return whether the terminal shows it."""
        message = record.getMessage()
        self._log.append(f"{record.levelname} {message}\n")
        event = getattr(record, "dagster_meta", {}).get("dagster_event")
        error = getattr(getattr(event, "event_specific_data", None), "error", None)
        if event is not None and error is not None:
            message, ours = event_message(error)
            step = event.step_key if event.step_key and not ours else ""
            if not any(sentence.endswith(message) for sentence in self._sentences):
                self._sentences[f"{step}: {message}" if step else message] = None
            return False
        failed = event is not None and record.levelno >= logging.ERROR
        return record.levelno >= logging.INFO and not failed and NOISE not in message

    def uncaught(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Record an error that ends the process; a ``sys.excepthook``."""
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        message, ours = _error_message(error)
        if not ours:
            self._log += traceback.format_exception(kind, error, trace)
        self._sentences[message] = None

    def report(self) -> None:
        """Print the errors and the log's path on standard error; nothing where there are none."""
        if self._sentences:
            log = self._write_log()
            sys.stdout.flush()
            Terminal(stderr=True).print(f"{'; '.join(self._sentences)}{log}")

    def _write_log(self) -> str:
        """Write the log and name its file; empty where there is no log or the disk is full."""
        with suppress(OSError):
            if self._log:
                with tempfile.NamedTemporaryFile(
                    prefix="decomposerl-", suffix=".log", delete=False
                ) as log:
                    log.write(printable("".join(self._log)).encode("utf-8"))
                return f" (log: {log.name})"
        return ""


def is_graph_command(words: Sequence[str]) -> bool:
    """Whether a command line is a ``dagster`` command that runs the graph itself."""
    program = Path(words[0])
    named = program.name == "dagster" or program.parts[-2:] == ("dagster", "__main__.py")
    return named and bool(set(words[1:2]) & _COMMANDS)


def install() -> None:
    """Let this process end with a summary of its errors."""
    errors = RunErrors()

    class Console(logging.Logger):
        """The process's logger class, of which Dagster creates a run's console."""

        def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802 - as logging has it
            """Add the handler; the console's also filters and prints printable text."""
            if self.name == "dagster":
                hdlr.addFilter(errors)
                hdlr.setFormatter(PrintableFormatter(hdlr.formatter or logging.Formatter()))
            super().addHandler(hdlr)

    for category in (dg.BetaWarning, dg.PreviewWarning, dg.SupersessionWarning):
        warnings.simplefilter("ignore", category)
    logging.setLoggerClass(Console)
    sys.excepthook = errors.uncaught
    atexit.register(errors.report)


def _error_names(kind: type[DecomposeRLError] = DecomposeRLError) -> Iterator[str]:
    yield kind.__name__
    for subclass in kind.__subclasses__():
        yield from _error_names(subclass)


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """The first failed step of a run and its error, as one sentence; empty where none failed."""
    if result.success:
        return ""
    for event in result.all_events:
        error = getattr(event.event_specific_data, "error", None)
        if error is not None:
            message, _ = event_message(error)
            return f"{event.step_key}: {message}" if event.step_key else message
    return "the run ended without an error of its own"


def event_message(error: "SerializableErrorInfo") -> tuple[str, bool]:
    """The message of the project's own error, else of the innermost cause; whether it is ours."""
    causes = [error]
    while causes[-1].cause is not None:
        causes.append(causes[-1].cause)
    ours = [cause for cause in causes if cause.cls_name in set(_error_names())]
    message = one_line((ours or causes[-1:])[0].message)
    return (message.partition(": ")[2] if ours else explained(message)), bool(ours)


def _error_message(error: BaseException) -> tuple[str, bool]:
    """The same for a raised error."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    ours = [cause for cause in causes if isinstance(cause, DecomposeRLError)]
    message = str(ours[0]) if ours else explained(f"{type(error).__name__}: {error}")
    return one_line(message), bool(ours)


def one_line(text: str) -> str:
    """One line, without what Dagster appends: a configuration's schema or a stack trace."""
    return re.split(r" (?:Expected|Stack Trace): ", " ".join(text.split()))[0]
