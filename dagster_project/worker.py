"""The process that trains: a policy with ``python -m dagster_project.worker --run FILE``.

It reads a ``TrainingRun`` as JSON and the profile of its environment, checks that the run can
succeed, trains, and reports every step: to a Dagster run's log through Pipes, or on a terminal
with a progress bar. The exit status is 0 when the run is done, also where its health rules ended
it; 2 when it was refused; 128 plus the signal's number after a signal, which leaves a checkpoint;
1 after an unexpected error. With ``--heads FILE`` it trains the heads of the tiny judge.
"""

import argparse
import logging
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_pipes import (
    PipesCliArgsParamsLoader,
    PipesContext,
    PipesEnvVarParamsLoader,
    PipesParamsLoader,
    open_dagster_pipes,
)
from pydantic import ValidationError

from dagster_project.engine_resources import open_resources, resources_for
from dagster_project.environment import process_rank, read_key, read_settings
from dagster_project.progress_display import ProgressDisplay
from dagster_project.settings import Settings
from dagster_project.terminal import Terminal, print_note
from dagster_project.training_estimate import judge_tokens
from decomposerl.errors import ConfigError, DecomposeRLError, TrainingError
from decomposerl.extras import require
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.progress import Bar, plain_bars, watched
from decomposerl.reports.training_plan import dry_run_plain, problem_lines
from decomposerl.reports.training_report import changes_text, step_line
from decomposerl.training.curves import changes
from resources.hub.locks import at_commit
from resources.preflight.servers import served_context
from resources.store.run_lock import file_lock
from resources.training.judge_heads import HeadsRun, train_heads
from resources.training.process import (
    DONE,
    DRY_RUN,
    OUTCOME,
    PROGRESS,
    REFUSED,
    STEP,
    StepReport,
    TrainingOutcome,
    TrainingRun,
)
from resources.training.run_inputs import judge_for, run_key
from resources.training.safe_point import Interrupted

if TYPE_CHECKING:
    from resources.training.preflight import DryRunFacts

_BARS_EVERY_S = 1.0
_SIGNALLED, _PATIENCE_S = 128, 30.0


class Output:
    """What a training process reports: nothing but errors, where it is not the main one."""

    def note(self, text: str, level: int = logging.INFO) -> None:
        """Report one sentence; here, print an error."""
        if level >= logging.ERROR:
            print_note(text)

    def step(self, report: StepReport) -> None:
        """Report one optimizer step."""

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """Report the checks before the first step."""

    def outcome(self, outcome: TrainingOutcome) -> None:
        """Report the end of the run."""


class PipesOutput(Output):
    """Reports to the Dagster run that started this process."""

    def __init__(self, pipes: PipesContext) -> None:
        self._pipes = pipes
        self._bars, self._sent = 0, 0.0

    def bars(self, bars: Sequence[Bar]) -> None:
        """A structured message about the open bars, one a second where only their counts change."""
        now = time.monotonic()
        if len(bars) != self._bars or now - self._sent > _BARS_EVERY_S:
            self._bars, self._sent = len(bars), now
            self._pipes.report_custom_message({"kind": PROGRESS, "bars": plain_bars(bars)})

    def note(self, text: str, level: int = logging.INFO) -> None:
        """A line of the run's log; an error is also the last line of the process's output."""
        self._pipes.log.log(level, text)
        super().note(text, level)

    def step(self, report: StepReport) -> None:
        """A line and a structured message."""
        self.note(_line(report))
        for warning in report.warnings:
            self.note(warning, logging.WARNING)
        self._pipes.report_custom_message({"kind": STEP, **asdict(report)})

    def dry_run(self, report: Mapping[str, Any]) -> None:
        """A structured message."""
        self._pipes.report_custom_message({"kind": DRY_RUN, "report": dict(report)})

    def outcome(self, outcome: TrainingOutcome) -> None:
        """A structured message, which the starter waits for."""
        paths = {"adapter": str(outcome.adapter), "curves": str(outcome.curves)}
        self._pipes.report_custom_message({"kind": OUTCOME, **asdict(outcome), **paths})


class TerminalOutput(Output):
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


@contextmanager
def opened_output(*, silent: bool = False) -> Iterator[Output]:
    """The output of this process: Pipes if its options are there, else a terminal.

    They are on the command line, and of a Ray job in the environment.
    """
    loaders: tuple[PipesParamsLoader, ...] = (PipesCliArgsParamsLoader(), PipesEnvVarParamsLoader())  # type: ignore[no-untyped-call]
    pipes = next((each for each in loaders if each.is_dagster_pipes_process()), None)
    if silent:
        yield Output()
    elif pipes is not None:
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


def main(words: Sequence[str] | None = None) -> int:
    """Train the run that the command line names; return the exit status."""
    options = _options(words)
    rank, _ = process_rank()
    with opened_output(silent=rank > 0) as output:
        try:
            if options.heads is not None:
                _train_heads(options.heads, output)
                return DONE
            run = _read(options.run)
            with _exclusive(run) if rank == 0 else nullcontext():
                outcome = _train(run, output, options)
        except DecomposeRLError as error:
            output.note(str(error), logging.ERROR)
            return REFUSED
        except Interrupted as stop:  # raised with several processes, which write no outcome
            output.note(str(stop), logging.WARNING)
            return _status(str(stop))
        return _status("" if outcome is None else outcome.stopped)


def _exclusive(run: TrainingRun) -> AbstractContextManager[None]:
    """Lock the run's folder, once an earlier process has written its last checkpoint."""
    beside = run.folder.with_name(f".{run.folder.name}.lock")
    return file_lock(beside, str(run.folder), wait_s=_PATIENCE_S)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line, without what Pipes adds to it."""
    parser = argparse.ArgumentParser(prog="python -m dagster_project.worker", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", type=Path, help="a TrainingRun as JSON")
    what.add_argument("--heads", type=Path, help="a HeadsRun as JSON: train the tiny judge")
    parser.add_argument("--dry-run-only", action="store_true", help="check, train nothing")
    parser.add_argument("--start-anyway", action="store_true", help="despite problems it finds")
    return parser.parse_known_args(words)[0]  # Pipes reads its own options


def _train_heads(path: Path, output: Output) -> None:
    require("torch", "transformers", "peft", "accelerate")
    try:
        run = HeadsRun.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} holds no run of heads: {error}") from error
    _set_threads(run.threads)
    beside = run.folder.with_name(f".{run.folder.name}.lock")
    with file_lock(beside, str(run.folder), wait_s=_PATIENCE_S):
        train_heads(run, output.note)


def _read(path: Path) -> TrainingRun:
    try:
        return TrainingRun.from_json(path.read_text("utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        why = f"field '{'.'.join(map(str, first['loc']))}': {first['msg']}"
        raise ConfigError(f"{path} holds no training run: {why}") from error
    except OSError as error:
        raise ConfigError(f"{path} holds no training run: {error}") from error


def _train(run: TrainingRun, output: Output, options: argparse.Namespace) -> TrainingOutcome | None:
    """The outcome; None after a dry run only."""
    tracker = [] if run.report_to == "none" else [run.report_to]
    require("torch", "transformers", "trl", "peft", "accelerate", "datasets", *tracker)
    _set_threads(run.threads)
    settings = read_settings()
    with _engines(run, settings) as (judge, embedder):
        _refuse_another_run(run, judge, embedder)
        _dry_run(run, judge, embedder, settings, output, options)
        if options.dry_run_only:
            return None
        from resources.training.train import train

        outcome: TrainingOutcome = train(run, judge, embedder, output.step)
    output.outcome(outcome)
    return outcome


def _dry_run(
    run: TrainingRun,
    judge: Judge,
    embedder: Embedder,
    settings: Settings,
    output: Output,
    options: argparse.Namespace,
) -> None:
    """Check the run and report the result.

    Raises:
        TrainingError: there is a problem, and ``--start-anyway`` is not set.
    """
    from resources.training.preflight import dry_run

    result = dry_run(run, judge, judge_facts(run, settings), embedder)
    output.dry_run(dry_run_plain(result))
    problems = problem_lines(result)
    if problems and not options.start_anyway:
        raise TrainingError("before the first step: " + "; ".join(problems))
    for problem in problems:
        output.note(problem, logging.WARNING)


def judge_facts(run: TrainingRun, settings: Settings) -> "DryRunFacts":
    """What a dry run takes from the profile: the judge's price, lengths and limits."""
    from resources.training.preflight import DryRunFacts

    recipe, judge = run.experiment, settings.judge
    lengths, processes = judge_tokens(settings, recipe), process_rank()[1]
    if not judge.in_use or recipe.judge == "tiny":
        return DryRunFacts(judge_tokens=lengths, processes=processes)
    key = read_key(judge.key_variable)
    contexts = [served_context(url, judge.model, key) for url in judge.base_url]
    return DryRunFacts(
        price=judge.price,
        judge_tokens=lengths,
        judge_context=min((one for one in contexts if one is not None), default=None),
        judge_reply=judge_for(resources_for(settings)["judge"], recipe).most_tokens,
        processes=processes,
    )


def _set_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


@contextmanager
def _engines(run: TrainingRun, settings: Settings) -> Iterator[tuple[Judge, Embedder]]:
    """Open judge and question embedder of the profile, and close them at the end."""
    with open_resources(settings, "judge", "question_embedder") as (judge, questions):
        yield judge_for(judge, run.experiment).open(), questions.open()


def _refuse_another_run(run: TrainingRun, judge: Judge, embedder: Embedder) -> None:
    """The inputs and engines of this process must be those of the run's key."""
    files, engines = (run.claims, run.held_out), (judge.engine, embedder.engine)
    base = at_commit(run.base, run.revision)
    key = run_key(run.experiment, files, base, engines, run.prompts)
    if key != run.key:
        raise ConfigError(
            f"the run's key is {run.key}, but this process gets {key}: claims, base weights, "
            f"prompts or engines (here {', '.join(engines)}) are not those it was planned with. "
            "Fields of judge and embedder that are set for a single run do not reach this process"
        )


def _status(stopped: str) -> int:
    """The exit status of a run that stopped for this reason; empty: for none."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if number.name in stopped:
            return _SIGNALLED + number
    return DONE


if __name__ == "__main__":
    sys.exit(main())
