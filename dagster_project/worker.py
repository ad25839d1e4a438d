"""The process that trains a policy: ``python -m dagster_project.worker --run FILE``.

Takes a ``TrainingRun`` as JSON and the profile of its environment, looks whether the run can
be done, trains, and says every step where it was started: in a Dagster run's log through
Pipes, or on a terminal with a progress bar. Exits with 0 when the run is done, also where its
health rules ended it; 2 when it was refused; 128 and the signal's number after a signal, for
which a checkpoint was made; 1 after an error that nobody expected.

Left out deliberately: training (``resources.training``), and keys, which the engines read.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from dagster_project.profiles import (
    Profile,
    fill_environment,
    process_place,
    profile_from_environment,
    resources_for,
)
from dagster_project.worker_output import Output, opened_output
from decomposerl.errors import ConfigError, DecomposeRLError, TrainingError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.reports.training_plan import dry_run_plain, problem_lines
from resources.store.run_lock import file_lock
from resources.training.messages import DONE, REFUSED
from resources.training.run import TrainingOutcome, TrainingRun
from resources.training.run_judge import judge_for
from resources.training.run_key import run_key
from resources.training.stopping import Interrupted

_SIGNALLED, _PATIENCE_S = 128, 30.0


@dataclass(frozen=True, slots=True)
class Options:
    """The command line, besides what Pipes adds to it."""

    run: Path
    dry_run_only: bool
    start_anyway: bool


def main(words: Sequence[str] | None = None) -> int:
    """Train the run that the command line names; the exit status."""
    options = _options(words)
    fill_environment()
    rank, _ = process_place()
    with opened_output(silent=rank > 0) as output:
        try:
            run = _read(options.run)
            with _alone(run) if rank == 0 else nullcontext():
                outcome = _train(run, output, options)
        except DecomposeRLError as error:
            output.note(str(error), logging.ERROR)
            return REFUSED
        except Interrupted as stop:  # of several processes, which then write no outcome
            output.note(str(stop), logging.WARNING)
            return _status(str(stop))
        return _status("" if outcome is None else outcome.stopped)


def _alone(run: TrainingRun) -> AbstractContextManager[None]:
    """The run's folder to oneself, once an earlier process has written its last checkpoint."""
    beside = run.folder.with_name(f".{run.folder.name}.lock")
    return file_lock(beside, str(run.folder), wait_s=_PATIENCE_S)


def _options(words: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m dagster_project.worker", description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="a TrainingRun as JSON")
    parser.add_argument("--dry-run-only", action="store_true", help="look, train nothing")
    parser.add_argument("--start-anyway", action="store_true", help="whatever the look finds")
    known, _ = parser.parse_known_args(words)  # Pipes reads its own options
    return Options(known.run, known.dry_run_only, known.start_anyway)


def _read(path: Path) -> TrainingRun:
    try:
        return TrainingRun.from_json(path.read_text("utf-8"))
    except KeyError as error:
        raise ConfigError(f"{path} holds no training run: field {error} is missing") from error
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} holds no training run: {error}") from error


def _train(run: TrainingRun, output: Output, options: Options) -> TrainingOutcome | None:
    """The outcome; None after a look alone."""
    _set_threads(run.threads)
    profile = profile_from_environment()
    with _engines(run, profile) as (judge, embedder):
        _refuse_another_run(run, judge, embedder)
        _look(run, judge, profile, output, options)
        if options.dry_run_only:
            return None
        from resources.training.trainer import train

        outcome: TrainingOutcome = train(run, judge, embedder, output.step)
    output.outcome(outcome)
    return outcome


def _look(
    run: TrainingRun, judge: Judge, profile: Profile, output: Output, options: Options
) -> None:
    """The dry run, told.

    Raises:
        TrainingError: it found a problem, and nobody said to start anyway.
    """
    from resources.training.preflight import Known, dry_run

    server = profile.engines.judge_server
    price = None if server is None else server.price
    found = dry_run(run, judge, Known(price=price, processes=process_place()[1]))
    output.dry_run(dry_run_plain(found))
    problems = problem_lines(found)
    if problems and not options.start_anyway:
        raise TrainingError("before the first step: " + "; ".join(problems))
    for problem in problems:
        output.note(problem, logging.WARNING)


def _set_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


@contextmanager
def _engines(run: TrainingRun, profile: Profile) -> Iterator[tuple[Judge, Embedder]]:
    """Judge and question embedder of the profile, closed at the end."""
    engines = resources_for(profile)
    with ExitStack() as opened:
        judge = opened.enter_context(engines["judge"].process_config_and_initialize_cm())
        questions = engines["question_embedder"].process_config_and_initialize_cm()
        embedder = opened.enter_context(questions)
        yield judge_for(judge, run.experiment).open(), embedder.open()


def _refuse_another_run(run: TrainingRun, judge: Judge, embedder: Embedder) -> None:
    """What this process would learn from must be what the run's key names."""
    files, engines = (run.claims, run.held_out), (judge.engine, embedder.engine)
    found = run_key(run.experiment, files, run.base, engines, run.prompts)
    if found != run.key:
        raise ConfigError(
            f"the run's key is {run.key}, and what lies here gives {found}: claims, base weights, "
            f"prompts or engines (here {', '.join(engines)}) are not those it was planned with. "
            "Fields of judge and embedder set for one run alone do not reach this process"
        )


def _status(stopped: str) -> int:
    """The exit status of a run that ended early for this reason, or for none."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if number.name in stopped:
            return _SIGNALLED + number
    return DONE


if __name__ == "__main__":
    sys.exit(main())
