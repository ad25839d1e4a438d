"""The output of a training process: a Dagster run's log, or a terminal.

Through Pipes each step is a log line and a structured message; open bars are messages, too.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from dagster_pipes import (
    PipesCliArgsParamsLoader,
    PipesContext,
    PipesParamsLoader,
    open_dagster_pipes,
)

from dagster_project.progress_display import ProgressDisplay
from dagster_project.terminal import Terminal, print_note
from decomposerl.progress import Bar, watched
from decomposerl.reports.training_report import changes_text, step_line
from decomposerl.training.curves import changes
from resources.training.process import (
    StepReport,
    TrainingOutcome,
    dry_run_message,
    outcome_message,
    progress_message,
    step_message,
)


class Output(Protocol):
    """Everything that a training process reports."""

    def note(self, text: str, level: int = logging.INFO) -> None:
        """Report one sentence."""
        ...

    def step(self, report: StepReport) -> None:
        """Report one optimizer step."""
        ...

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """Report the checks before the first step."""
        ...

    def outcome(self, outcome: TrainingOutcome) -> None:
        """Report the end of the run."""
        ...


_BARS_EVERY_S = 1.0


class PipesOutput:
    """Reports to the Dagster run that started this process."""

    def __init__(self, pipes: PipesContext) -> None:
        self._pipes = pipes
        self._bars, self._sent = 0, 0.0

    def bars(self, bars: Sequence[Bar]) -> None:
        """A structured message about the open bars, one a second where only their counts change."""
        now = time.monotonic()
        if len(bars) != self._bars or now - self._sent > _BARS_EVERY_S:
            self._bars, self._sent = len(bars), now
            self._pipes.report_custom_message(progress_message(bars))

    def note(self, text: str, level: int = logging.INFO) -> None:
        """A line of the run's log; an error is also the last line of the process's output."""
        self._pipes.log.log(level, text)
        _print_error(text, level)

    def step(self, report: StepReport) -> None:
        """A line and a structured message."""
        self.note(_line(report))
        for warning in report.warnings:
            self.note(warning, logging.WARNING)
        self._pipes.report_custom_message(step_message(report))

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """A structured message."""
        self._pipes.report_custom_message(dry_run_message(report))

    def outcome(self, outcome: TrainingOutcome) -> None:
        """A structured message, which the starter waits for."""
        self._pipes.report_custom_message(outcome_message(outcome))


class TerminalOutput:
    """Reports to a terminal, for a run that a person starts."""

    def __init__(self, console: Terminal) -> None:
        self._console = console

    def note(self, text: str, level: int = logging.INFO) -> None:
        """A line above the bar."""
        style = "yellow" if level >= logging.WARNING else None
        self._console.print(text, style=style)

    def step(self, report: StepReport) -> None:
        """Print the step's numbers."""
        self.note(_line(report))
        for warning in report.warnings:
            self.note(warning, logging.WARNING)

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """Print its page."""
        self.note(str(report["markdown"]))

    def outcome(self, outcome: TrainingOutcome) -> None:
        """Print both ends of the run as a table, and the paths of its results."""
        self.note(changes_text(changes(outcome.before, outcome.after)))
        self.note(f"adapter  {outcome.adapter}")
        self.note(f"curves   {outcome.curves}")
        if outcome.stopped:
            self.note(f"stopped early: {outcome.stopped}", logging.WARNING)


class SilentOutput:
    """Reports nothing but errors: of several processes only the main one reports."""

    def note(self, text: str, level: int = logging.INFO) -> None:
        """Print an error."""
        _print_error(text, level)

    def step(self, report: StepReport) -> None:
        """Nothing."""

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """Nothing."""

    def outcome(self, outcome: TrainingOutcome) -> None:
        """Nothing."""


def _print_error(text: str, level: int) -> None:
    if level >= logging.ERROR:
        print_note(text)


@contextmanager
def opened_output(*, silent: bool = False) -> Iterator[Output]:
    """The output of this process: Pipes if the command line has its options, else a terminal."""
    pipes: PipesParamsLoader = PipesCliArgsParamsLoader()  # type: ignore[no-untyped-call]
    if silent:
        yield SilentOutput()
    elif pipes.is_dagster_pipes_process():
        with open_dagster_pipes(params_loader=pipes) as context:
            output = PipesOutput(context)
            with watched(output.bars):
                yield output
    else:
        console = Terminal(stderr=True)
        with ProgressDisplay(console):
            yield TerminalOutput(console)


def _line(report: StepReport) -> str:
    return step_line(report.step, report.steps, {**report.means, **report.seconds}, report.eta_s)
