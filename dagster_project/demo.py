"""``make demo``: the whole graph on the bundled sample (``python -m dagster_project``).

Runs the ``funnel`` job, trains the tiny policy for a few steps, evaluates every baseline as
published and that policy on the sample's test sets, and writes the report; the run configurations
are in ``configs``. Ends with one verified claim, what was made, the leaderboard, the commands that
come next, and the report's address. What was made before and did not change since is not made again
(``FinishedParts``). Needs no GPU and no key.
"""

import argparse
import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import dagster as dg

from dagster_project import demo_pages as pages
from dagster_project.finished_parts import FinishedParts
from dagster_project.job_runs import JobRuns, read_config
from dagster_project.profiles import Profile, load_env_file, profile_from_environment
from dagster_project.progress_display import own_stream
from dagster_project.run_progress import RunProgress
from dagster_project.terminal import Terminal
from dagster_project.verify_command import print_claim
from decomposerl.baselines.catalogue import METHODS
from decomposerl.evaluation.systems import systems as all_systems
from decomposerl.reports.training_report import duration
from resources.report.files import report_html_path
from resources.store.event_log import kept_open
from resources.store.parquet import DataFolder

RECIPE = "tiny"
CONFIGS = {"funnel": "demo.yaml", "train": "demo_train.yaml", "policy": "demo_evaluate.yaml"}
_ENGINES = {"rules", "lexical"}
_START = (
    "The bundled sample through funnel, training and evaluation. It needs no key and no GPU.\n"
    "On two quiet cores it takes about five minutes; its results take {disk} MB in {folder}."
)
_DISK_MB = 100


def main(words: Sequence[str] | None = None) -> int:
    """Run the demo on the sample; 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m dagster_project", description=__doc__)
    parser.add_argument("--again", action="store_true", help="make again what was made before")
    again = parser.parse_args(words).again
    load_env_file()
    profile = dataclasses.replace(profile_from_environment(), corpora=None)
    with dg.DagsterInstance.get() as plain, kept_open(plain) as instance:
        return show(profile, instance, again=again)


def show(profile: Profile, instance: dg.DagsterInstance, *, again: bool = False) -> int:
    """Make every part that is not finished, and show the results; 0 on success."""
    stream = own_stream(sys.stdout)
    terminal = Terminal(file=stream)
    with RunProgress(profile.data, messages=None, terminal=terminal) as progress:
        demo = Demo(profile, JobRuns(profile, instance, progress), progress, terminal)
        made = demo.make(again=again)
    if stream is not sys.stdout:
        stream.close()
    if made:
        _show_end(profile, DataFolder(base_dir=str(profile.data)))
    return 0 if made else 1


@dataclass
class Demo:
    """The parts of the demo."""

    profile: Profile
    runs: JobRuns
    progress: RunProgress
    terminal: Terminal
    folder: DataFolder = field(init=False)
    finished: FinishedParts = field(init=False)

    def __post_init__(self) -> None:
        """Open what was recorded."""
        self.folder = DataFolder(base_dir=str(self.profile.data))
        self.finished = FinishedParts(self.folder.path, repr(self.profile))

    def make(self, *, again: bool = False) -> bool:
        """Make every part that is not finished, or all of them; whether all are."""
        say = self.terminal.print
        say(_START.format(disk=_DISK_MB, folder=self.folder.path))
        if again:
            self.finished.forget()
        parts: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("funnel: from the corpora to training claims", self._curate),
            (f"training: {RECIPE}, a policy of 0.4 million parameters", self._train),
            ("evaluation: every baseline on rules, and the policy", self._evaluate),
            ("report: every table and figure on one page", self._report),
        )
        for title, part in parts:
            say(f"\n{title}")
            started = time.perf_counter()
            if not part():
                say(f"the run failed: {self.runs.failure} (log: {self.progress.log})", style="red")
                return False
            say(f"  {title.partition(':')[0]}: {duration(time.perf_counter() - started)}")
        return True

    def _curate(self) -> bool:
        made = self._job("funnel", config=CONFIGS["funnel"])
        if made:
            self.terminal.print(f"\n{pages.attrition_page(self.folder)}")
        return made

    def _train(self) -> bool:
        inputs = self._job("training_inputs")
        made = inputs and self._job("train", RECIPE, config=CONFIGS["train"])
        if made:
            self.terminal.print(f"\n{pages.training_page(self.folder, RECIPE)}")
        return made

    def _evaluate(self) -> bool:
        """Every baseline and the policy; then the ranking.

        Only the last system runs the asset checks: each is a step, 36 per system, and with them
        evaluation by rules takes 1.7 times as long.
        """
        systems = [(key, "") for key in baselines()] + [(policy(), CONFIGS["policy"])]
        self.progress.lists_assets = False
        for number, (system, config) in enumerate(systems, 1):
            if not self._job("evaluate", system, config=config, checks=number == len(systems)):
                return False
        self.progress.lists_assets = True
        return self._job("rank") and self._job("catalogue")

    def _report(self) -> bool:
        return self._job("write_report")

    def _job(
        self, job: str, partition: str | None = None, *, config: str = "", checks: bool = True
    ) -> bool:
        """Make a job's assets, unless it is finished; whether it is then."""
        settings = read_config(config)
        catalogue = self.runs.keys("catalogue")  # the funnel makes it too, and it is made again
        keys = catalogue if job == "catalogue" else self.runs.keys(job) - catalogue
        name = f"{job}/{partition}" if partition else job
        if self.finished.has(name, settings, keys):
            self.terminal.print(f"✓ {name}: made before, unchanged since")
            return True
        started = time.perf_counter()
        if not self.runs.run(job, settings, partition, checks=checks):
            return False
        if not self.progress.lists_assets:
            self.terminal.print(f"✓ {name:<49}{time.perf_counter() - started:>8.1f} s")
        self.finished.add(name, settings, keys)
        return True


def _show_end(profile: Profile, folder: DataFolder) -> None:
    """One verified claim, what was made, the leaderboard, and the next commands."""
    say = Terminal().print
    claim = pages.shown_claim(folder, policy())
    if claim is not None:
        say(f"\nA claim that {policy()} got right")
        print_claim(claim)
    say(f"Made\n{pages.made_page(folder, RECIPE)}")
    say(f"\nThe leaderboard's means\n{pages.board_page(folder, profile)}")
    say("\nNext")
    for what, words in _next(pages.dropped_claim(folder)):
        say(f"  {what:<28}{shlex.join(words)}")
    say(f"\nEvery table and figure, for a browser: {report_html_path(folder.path).as_uri()}")


def _next(dropped: str | None) -> list[tuple[str, list[str]]]:
    program = ".venv/bin/decomposerl"
    explained = (
        [] if dropped is None else [("why a claim was dropped", [program, "explain", dropped])]
    )
    return [
        ("every trace, in a browser", [program, "view"]),
        *explained,
        ("all scores", [program, "leaderboard"]),
        ("verify your own claim", [program, "verify", "--help"]),
        ("use your own corpus", [program, "init", "corpus", "--help"]),
        ("the graph", ["make", "ui"]),
    ]


def baselines() -> list[str]:
    """Each baseline in its published protocol, answered by rules; no model is needed."""
    return [
        system.key
        for system in all_systems(METHODS, [])
        if system.model.key in _ENGINES and system.protocol == "faithful"
    ]


def policy() -> str:
    """The policy that the demo trains."""
    (system,) = all_systems([], [RECIPE])
    return system.key
