"""The output of a training process: a Dagster run's log, or a terminal.

Through Pipes each step is a log line and a structured message; on a terminal it moves a progress
bar.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from dagster_pipes import (
    PipesCliArgsParamsLoader,
    PipesContext,
    PipesParamsLoader,
    open_dagster_pipes,
)
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dagster_project.terminal import Terminal, print_note
from decomposerl.reports.training_report import changes_text, duration, step_line
from decomposerl.training.curves import changes
from resources.training.process import (
    StepReport,
    TrainingOutcome,
    dry_run_message,
    outcome_message,
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


class PipesOutput:
    """Reports to the Dagster run that started this process."""

    def __init__(self, pipes: PipesContext) -> None:
        self._pipes = pipes

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

    def __init__(self, console: Terminal, progress: Progress) -> None:
        self._console, self._progress = console, progress
        self._task = progress.add_task("training", total=None, left="")

    def note(self, text: str, level: int = logging.INFO) -> None:
        """A line above the bar."""
        style = "yellow" if level >= logging.WARNING else None
        self._console.print(text, style=style)

    def step(self, report: StepReport) -> None:
        """Print the step's numbers and move the bar."""
        self.note(_line(report))
        for warning in report.warnings:
            self.note(warning, logging.WARNING)
        left = f"{duration(report.eta_s)} left"
        self._progress.update(
            self._task, completed=report.step, total=report.steps, left=left, refresh=True
        )

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """Print its page."""
        self.note(str(report["markdown"]))

    def outcome(self, outcome: TrainingOutcome) -> None:
        """Print both ends of the run as a table, and the paths of its results."""
        self._progress.stop()
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
            yield PipesOutput(context)
    else:
        console = Terminal(stderr=True)
        name, left = TextColumn("{task.description}"), TextColumn("{task.fields[left]}")
        columns = (name, BarColumn(), MofNCompleteColumn(), left)
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            yield TerminalOutput(console, progress)


def _line(report: StepReport) -> str:
    return step_line(report.step, report.steps, {**report.means, **report.seconds}, report.eta_s)
