"""Bars with rate and time left on a terminal; in a file or pipe a line every ``LINE_EVERY_S``.

``ProgressDisplay`` shows the bars of ``decomposerl.progress`` and, of a run, the step in progress.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Self, TextIO

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from dagster_project.terminal import Terminal, mark_style
from decomposerl.printable import printable
from decomposerl.progress import Bar, watched
from decomposerl.reports.training_report import duration

LINE_EVERY_S = 30.0
_TICK_S = 1.0
_REDRAWN_A_SECOND = 4
_MINUTE_S, _HOUR_S = 60, 3_600


@dataclass(slots=True)
class _Row:
    """Something in progress, since when, and its row on a terminal; a step has no ``bar``."""

    what: str
    bar: Bar | None = None
    since: float = field(default_factory=time.monotonic)
    row: TaskID | None = None

    @property
    def facts(self) -> str:
        """``1,200 of 4,000 items, 40 a second, 1 min 10 s left``; of a step, how long it runs."""
        one, spent = self.bar, time.monotonic() - self.since
        if one is None:
            return duration(spent)
        parts = [f"{one.done:,} of {one.total:,} {one.unit}"]
        if one.done > one.known and spent > 0:
            rate = (one.done - one.known) / spent
            parts += [rate_text(rate), f"{duration((one.total - one.done) / rate)} left"]
        return ", ".join([*parts, printable(one.note)] if one.note else parts)


class ProgressDisplay:
    """Shows what is in progress during a block; ``log`` also receives the lines, for a file."""

    def __init__(
        self,
        terminal: Terminal,
        log: Callable[[str], None] | None = None,
        every_s: float = LINE_EVERY_S,
    ) -> None:
        """Bars are drawn on a terminal; to a file or pipe, lines are printed."""
        self._terminal, self._log, self._every_s = terminal, log, every_s
        self._rows: Progress | None = None
        self._shown: list[_Row] = []
        self._lock, self._end = threading.RLock(), threading.Event()
        self._said = time.monotonic()
        self._stack = ExitStack()

    def step(self, name: str) -> None:
        """A step begins; it is in progress until the next one, or the empty name."""
        with self._lock, self._drawing():
            steps = [_Row(printable(name))] if name else []
            self._show(steps + [one for one in self._shown if one.bar is not None])

    def bars(self, bars: Sequence[Bar]) -> None:
        """These bars are open now."""
        with self._lock, self._drawing():
            known = {id(one.bar): one for one in self._shown if one.bar is not None}
            steps = [one for one in self._shown if one.bar is None]
            now = [known.get(id(one)) or _Row(printable(one.what), one) for one in bars]
            self._show(steps + now)

    def said(self) -> None:
        """Something else was printed, so the next line can wait."""
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        """Start to draw, or to print a line now and then."""
        file = self._terminal.file  # FORCE_COLOR makes rich take a pipe for a terminal
        if file.isatty() and not self._terminal.is_dumb_terminal:
            what = TextColumn("{task.description}", markup=False)
            facts = TextColumn("{task.fields[shown].facts}", style="dim", markup=False)
            columns = (SpinnerColumn(), what, BarColumn(24), facts)
            self._rows = Progress(
                *columns,
                console=self._terminal,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                refresh_per_second=_REDRAWN_A_SECOND,
            )
            self._rows.start()
        self._stack.enter_context(watched(self.bars))
        ticks = threading.Thread(target=self._tick, name="progress", daemon=True)
        ticks.start()
        self._stack.callback(ticks.join)
        self._stack.callback(self._end.set)
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bars."""
        self._stack.close()
        with self._drawing():
            if self._rows is not None:
                self._rows.stop()

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """A terminal that is gone, as after a logout, ends the drawing and not the work."""
        try:
            yield
        except OSError:
            self._rows, self._terminal.quiet = None, True

    def _show(self, shown: list[_Row]) -> None:
        if self._rows is not None:
            for one in self._shown:
                if one not in shown and one.row is not None:
                    self._rows.remove_task(one.row)
            for one in shown:
                if one.row is None:
                    total = None if one.bar is None else one.bar.total
                    one.row = self._rows.add_task(one.what, total=total, shown=one)
                if one.bar is not None:
                    self._rows.update(one.row, completed=one.bar.done, total=one.bar.total)
            if [id(one) for one in shown] != [id(one) for one in self._shown]:
                self._rows.refresh()
        self._shown = shown

    def _tick(self) -> None:
        while not self._end.wait(min(_TICK_S, self._every_s)):
            if time.monotonic() - self._said >= self._every_s:
                self._say()

    def _say(self) -> None:
        with self._lock:
            line = "; ".join(f"{one.what}: {one.facts}" for one in self._shown)
            oldest = min((one.since for one in self._shown), default=time.monotonic())
        if time.monotonic() - oldest < min(_TICK_S, self._every_s):
            return  # it has only begun
        self.said()
        with self._drawing():
            if self._rows is None:
                self._terminal.print(f"  {line}")
        if self._log is not None:
            self._log(line)


def own_stream(stream: TextIO) -> TextIO:
    """``stream`` under a descriptor of its own: during a run Dagster redirects the usual ones.

    Itself where it is no file, as in tests.
    """
    try:
        return os.fdopen(os.dup(stream.fileno()), "w", encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return stream


@contextmanager
def shown_progress(stream: TextIO | None = None) -> Iterator[Callable[[str], None]]:
    """Show the bars of a command on ``stream``, standard error by default.

    Yields what prints a line there: on a terminal the bars are drawn below it.
    """
    given = stream or sys.stderr
    own = own_stream(given)
    terminal = Terminal(file=own)
    with ProgressDisplay(terminal) as display:

        def say(line: str) -> None:
            display.said()
            terminal.print(line, style=mark_style(line))

        yield say
    if own is not given:
        own.close()


def rate_text(rate: float) -> str:
    """A rate in words, a slow one by the minute or hour: ``40 a second``."""
    if rate >= 1:
        return f"{rate:,.0f} a second"
    if rate * _MINUTE_S >= 1:
        return f"{rate * _MINUTE_S:,.0f} a minute"
    return f"{rate * _HOUR_S:,.0f} an hour"
