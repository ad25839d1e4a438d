"""Shows a run as one line per asset on standard error; Dagster's own lines go to a log file.

What is in progress has a bar on a terminal, or a line now and then (``ProgressDisplay``).

``RunProgress.logger`` is the console logger of the jobs in ``job_runs``. The log has every event
with its stack trace and is named after the run's id, which the UI shows too.
"""

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import dagster as dg

from dagster_project.progress_display import LINE_EVERY_S, ProgressDisplay, own_stream
from dagster_project.run_errors import NOISE, PrintableFormatter
from dagster_project.terminal import Terminal, mark_style
from decomposerl.reports.stage_page import MOST_LEFT

_LOGS = "logs"
_LONG_S = 10.0  # a step that runs longer than this also shows its own messages
_ROWS = ("dagster/row_count", "dagster/partition_row_count")
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class RunProgress:
    """Prints what a run did; ``log`` is the file of its last run, None before the first."""

    def __init__(
        self,
        data: Path,
        *,
        verbose: bool = False,
        messages: bool | None = False,
        terminal: Terminal | None = None,
        line_every_s: float = LINE_EVERY_S,
    ) -> None:
        """Logs are written to ``logs/`` of the data folder.

        ``verbose`` also prints Dagster's lines; ``messages`` prints those of every asset, such as
        the steps of a training, and not only of assets that take long; None prints warnings alone.
        ``terminal``: standard error by default.
        """
        self.log: Path | None = None
        self.lists_assets = True
        """Whether an asset that was made is a line."""
        self.folder = data / _LOGS
        self._verbose, self._messages = verbose, messages
        self._stream = None if terminal else own_stream(sys.stderr)
        self._terminal = terminal or Terminal(file=self._stream)
        self._display = ProgressDisplay(self._terminal, self._log_line, line_every_s)
        self._file: logging.FileHandler | None = None
        self._made: dict[str, dg.AssetMaterialization] = {}
        self._started = 0.0

    @property
    def logger(self) -> dg.LoggerDefinition:
        """The logger that a job opens when its run starts."""
        standard = dg.colored_console_logger
        return dg.LoggerDefinition(self._opened, standard.config_schema, standard.description)

    def end_run(self) -> None:
        """Close the log file of the run."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def show(self, record: logging.LogRecord) -> None:
        """Print the line that stands for this record, if there is one."""
        meta: Mapping[str, Any] = getattr(record, "dagster_meta", {})
        event: dg.DagsterEvent | None = meta.get("dagster_event")
        if event is None:
            self._message(record, str(meta.get("orig_message", record.getMessage())))
        else:
            self._event(event, record.created)

    def __enter__(self) -> Self:
        """Start to show; among Dagster's own lines there is no bar."""
        if not self._verbose:
            self._display.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bars, and close the log file and the stream."""
        self._display.__exit__()
        self.end_run()
        if self._stream not in {None, sys.stderr}:
            self._stream.close()

    def _opened(self, context: dg.InitLoggerContext) -> logging.Logger:
        shown = dg.colored_console_logger.logger_fn(context)
        for handler in list(shown.handlers):
            handler.setFormatter(PrintableFormatter(handler.formatter or logging.Formatter()))
            handler.setLevel(logging.DEBUG)
            if not self._verbose:
                shown.removeHandler(handler)
        shown.addHandler(self._log_file(f"{context.run_id}.log"))
        shown.addHandler(_Shown(self))
        shown.setLevel(logging.DEBUG)
        return shown

    def _log_file(self, name: str) -> logging.FileHandler:
        """The handler of the run's log; Dagster opens its loggers several times in a run."""
        if self._file is None:
            self.log = self.folder / name
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self._file = logging.FileHandler(self.log, encoding="utf-8", errors="backslashreplace")
            self._file.setFormatter(PrintableFormatter(logging.Formatter(_FORMAT)))
        return self._file

    def _event(self, event: dg.DagsterEvent, at: float) -> None:
        step, kind = event.step_key or "", event.event_type
        if kind is dg.DagsterEventType.STEP_START:
            self._started = at
            self._display.step(step.replace("__", "/"))
        elif kind is dg.DagsterEventType.ASSET_MATERIALIZATION:
            self._made[step] = event.step_materialization_data.materialization
        elif kind is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            self._check(event.asset_check_evaluation_data)
        elif kind in {dg.DagsterEventType.STEP_SUCCESS, dg.DagsterEventType.STEP_FAILURE}:
            self._end(step, at - self._started, failed=event.is_step_failure)

    def _end(self, step: str, seconds: float, *, failed: bool) -> None:
        made = self._made.pop(step, None)
        self._display.step("")
        name = step.replace("__", "/") if made is None else made.asset_key.to_user_string()
        facts = {} if made is None else made.metadata
        count = next((facts[one] for one in _ROWS if one in facts), None)
        rows = f"{count.value:>11,} rows" if isinstance(count, dg.IntMetadataValue) else " " * 16
        # A step without a materialization is an asset check, or a run that only looks.
        shown = (made is not None and self.lists_assets) or failed
        left = f"  ({facts[MOST_LEFT].value})" if MOST_LEFT in facts else ""
        self._print(f"{'✗' if failed else '✓'} {name:<36}{rows}{seconds:>9,.1f} s{left}" * shown)

    def _check(self, check: dg.AssetCheckEvaluation) -> None:
        if not check.passed:
            asset = check.asset_key.to_user_string()
            said = check.description or f"failed{_figures(check.metadata)}"
            self._print(f"· {asset}: check {check.check_name}: {said}")

    def _message(self, record: logging.LogRecord, text: str) -> None:
        """What an asset logged: its warnings, and the rest where that is wanted."""
        warning = record.levelno >= logging.WARNING
        long = self._messages is False and record.created - self._started > _LONG_S
        wanted = self._messages or long
        shown = warning or (wanted and record.levelno >= logging.INFO)
        if self._verbose or not shown or text.startswith(NOISE):
            return
        self._print(f"{'·' if warning else ' '} {text}")

    def _print(self, line: str) -> None:
        if line:
            self._display.said()
            self._terminal.print(line, style=mark_style(line))

    def _log_line(self, line: str) -> None:
        """What is in progress, as a line of the run's log."""
        if self._file is not None:
            fields = {"msg": line, "levelno": logging.INFO, "levelname": "INFO"}
            self._file.handle(logging.makeLogRecord(fields))


def _figures(metadata: Mapping[str, dg.MetadataValue]) -> str:
    """The values that a line can hold, for a check without words of its own."""
    short = (dg.IntMetadataValue, dg.FloatMetadataValue, dg.TextMetadataValue, dg.JsonMetadataValue)
    shown = {name: one.value for name, one in metadata.items() if isinstance(one, short)}
    return "".join(f"; {name} {value}" for name, value in shown.items() if value not in ([], ""))


class _Shown(logging.Handler):
    """Passes records on. Apart, as Dagster's storage closes every handler when it is set up."""

    def __init__(self, progress: RunProgress) -> None:
        super().__init__(logging.DEBUG)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        self._progress.show(record)
