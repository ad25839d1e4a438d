"""``make demo``: the whole graph on the bundled sample (``python -m dagster_project``).

Runs the ``funnel`` job, trains the tiny policy for a few steps, evaluates every baseline as
published and that policy on the sample's test sets, and writes the report; the run configurations
are in ``configs``. Ends with one verified claim, what was made, the leaderboard, the commands that
come next, and the report's address. What was made before and did not change since is not made again
(``FinishedParts``). Needs no GPU and no key.
"""

import argparse
import hashlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from dagster_project.environment import load_env_file, read_settings, titles_for
from dagster_project.job_runs import JobRuns, read_config
from dagster_project.progress_display import own_stream
from dagster_project.run_progress import RunProgress
from dagster_project.settings import Settings
from dagster_project.terminal import Terminal
from dagster_project.verify_command import print_claim
from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import Verification
from decomposerl.claims.catalogue import SOURCES
from decomposerl.evaluation.published import MEANS
from decomposerl.evaluation.systems import systems as all_systems
from decomposerl.reports.attrition import attrition_text, attrition_wide
from decomposerl.reports.shown_confidence import stored_confidence
from decomposerl.reports.training_report import changes_text, duration
from decomposerl.reports.verified import VerifiedClaim, Verifying
from decomposerl.traces.trace import Cycle
from decomposerl.training.curves import changes
from resources.evaluation import results_folder
from resources.report.files import report_html_path
from resources.store.event_log import kept_open
from resources.store.parquet import DataFolder
from resources.store.temporary import replace_file
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, read_outcome

FILE = "demo.json"
_ROOT = Path(__file__).resolve().parent.parent
_CODE = ("assets", "dagster_project", "decomposerl", "resources", "sample")
_COMPILED = "__pycache__"


class FinishedParts:
    """The parts that were finished, in the order of the demo."""

    def __init__(self, data: Path, settings: str) -> None:
        """``profile`` is all of its settings as text."""
        self._data, self._file, self._settings = data, data / FILE, settings
        self._before = ""
        self._known = self._read()

    def has(self, name: str, settings: Mapping[str, Any], keys: Collection[str]) -> bool:
        """Whether the part is finished and unchanged; its assets are ``keys``."""
        digest = self._digest(name, settings, keys)
        if self._known.get(name) != digest:
            return False
        self._before = digest
        return True

    def add(self, name: str, settings: Mapping[str, Any], keys: Collection[str]) -> None:
        """The part is finished."""
        self._before = self._known[name] = self._digest(name, settings, keys)
        text = json.dumps(self._known, indent=1)
        replace_file(self._file, lambda path: path.write_text(text, "utf-8"))

    def forget(self) -> None:
        """No part is finished."""
        self._known = {}

    def _read(self) -> dict[str, str]:
        """What is recorded; nothing where the file is damaged."""
        try:
            known = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _digest(self, name: str, settings: Mapping[str, Any], keys: Collection[str]) -> str:
        partition = name.partition("/")[2]
        files = [self._left(key, partition) for key in sorted(keys)]
        facts = [name, self._before, self._settings, self._code, settings, files]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _left(self, key: str, partition: str) -> list[list[str | int]]:
        """Name, size and time of change of the files of an asset."""
        place = self._data / key / partition
        table = place.with_name(f"{place.name}.parquet")
        found = [table] if table.is_file() else sorted(filter(Path.is_file, place.rglob("*")))
        stats = [(one.name, one.stat()) for one in found]
        return [[one, stat.st_size, stat.st_mtime_ns] for one, stat in stats]

    @cached_property
    def _code(self) -> str:
        """Over the files of this project and the packages that decide what a part makes."""
        packages = sorted(f"{one.name} {one.version}" for one in distributions())
        digest = hashlib.sha256("\n".join(packages).encode())
        for folder in _CODE:
            for path in sorted((_ROOT / folder).rglob("*")):
                if path.is_file() and path.parent.name != _COMPILED:
                    digest.update(f"{path.relative_to(_ROOT)}\n".encode())
                    digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


_HELD_OUT = ("format", "verification", "question_count", "necessity", "joint", "total")
_MOST_QUESTIONS = 6


def attrition_page(folder: DataFolder) -> str:
    """The paper's table of the funnel."""
    raw = {source.name: source.paper_raw for source in SOURCES if source.paper_raw is not None}
    titles = {source.name: source.title for source in SOURCES}
    return attrition_text(attrition_wide(folder.read("attrition"), raw, titles))


def training_page(folder: DataFolder, recipe: str) -> str:
    """What training changed on held-out claims."""
    outcome = read_outcome(RunFolder(policy_folder(folder, recipe)))
    wanted = {f"held_out_sampled/{name}" for name in _HELD_OUT} | {
        "held_out_greedy/balanced_accuracy"
    }
    before, after = (
        {key: value for key, value in measures.items() if key in wanted}
        for measures in (outcome.before, outcome.after)
    )
    engine = outcome.judge.get("engine", "")
    return f"{changes_text(changes(before, after))}\n{outcome.steps} steps; judge {engine}"


def board_page(folder: DataFolder, settings: Settings) -> str:
    """The leaderboard's means, one row a system."""
    board, titles = folder.read("leaderboard"), titles_for(settings)
    return results_folder.board_page(folder, board, titles, only=MEANS)


def made_page(folder: DataFolder, recipe: str) -> str:
    """What the demo made, and where it is."""
    claims, board = folder.read("training_claims").height, folder.read("leaderboard")
    systems = board.filter(pl.col("engine").is_not_null())["system"].n_unique()
    rows = (
        ("training claims", f"{claims:,}", "training_claims.parquet"),
        ("adapter", recipe, str(RunFolder(policy_folder(folder, recipe)).adapter)),
        ("systems with scores", f"{systems:,}", "scores/"),
        ("all tables, in DuckDB", "", "decomposerl.duckdb"),
    )
    return "\n".join(
        f"  {what:<24}{count:>6}  {folder.path / place}" for what, count, place in rows
    )


def shown_claim(folder: DataFolder, system: str) -> VerifiedClaim | None:
    """A claim that the system got right: the one with most answers that rest on the evidence."""
    return max(map(_verified, _right(folder, system)), key=_rank, default=None)


def dropped_claim(folder: DataFolder) -> str | None:
    """The id of a claim that was dropped because another one is similar."""
    drops = folder.read("drops/deduplicated").filter(pl.col("matched_claim_id").is_not_null())
    return min(drops["claim_id"].to_list(), default=None)


def _rank(one: VerifiedClaim) -> tuple[int, int]:
    return sum(bool(each.evidence) for each in one.questions), -len(one.questions)


def _right(folder: DataFolder, system: str) -> Iterator[dict[str, Any]]:
    """The predictions that match the label, with the claim's texts."""
    pattern = f"predictions/*/{system}.parquet"
    for path in sorted(folder.path.glob(pattern)):
        name = path.parent.name
        if folder.exists(f"benchmark/{name}"):  # else a test set that was removed since
            texts = folder.read(f"benchmark/{name}", ["claim_id", "claim", "evidence", "label"])
            rows = folder.read(f"predictions/{name}/{system}").join(texts, on="claim_id")
            few = pl.col("questions").is_between(1, _MOST_QUESTIONS)
            right = rows.filter(few, pl.col("verdict") == pl.col("label"))
            yield from right.sort("claim_id").iter_rows(named=True)


def _verified(row: dict[str, Any]) -> VerifiedClaim:
    cycles = tuple(Cycle(**cycle) for cycle in row["trace"]["cycles"])
    ended = Verification(row["verdict"], row["parse_status"], row["reply"], cycles)
    about = Verifying(row["system"], row["engine"], row["prompt_hash"])
    shown = about.verified(row["claim"], row["evidence"], ended, None, row["claim_id"])
    return replace(shown, confidence=stored_confidence(row))


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
    settings = read_settings().with_paths(corpora=None)
    with dg.DagsterInstance.get() as plain, kept_open(plain) as instance:
        return show(settings, instance, again=again)


def show(settings: Settings, instance: dg.DagsterInstance, *, again: bool = False) -> int:
    """Make every part that is not finished, and show the results; 0 on success."""
    stream = own_stream(sys.stdout)
    terminal = Terminal(file=stream)
    with RunProgress(settings.paths.data, messages=None, terminal=terminal) as progress:
        demo = Demo(settings, JobRuns(settings, instance, progress), progress, terminal)
        made = demo.make(again=again)
    if stream is not sys.stdout:
        stream.close()
    if made:
        _show_end(settings, DataFolder(base_dir=str(settings.paths.data)))
    return 0 if made else 1


@dataclass
class Demo:
    """The parts of the demo."""

    settings: Settings
    runs: JobRuns
    progress: RunProgress
    terminal: Terminal
    folder: DataFolder = field(init=False)
    finished: FinishedParts = field(init=False)

    def __post_init__(self) -> None:
        """Open what was recorded."""
        self.folder = DataFolder(base_dir=str(self.settings.paths.data))
        self.finished = FinishedParts(self.folder.path, repr(self.settings))

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
            self.terminal.print(f"\n{attrition_page(self.folder)}")
        return made

    def _train(self) -> bool:
        inputs = self._job("training_inputs")
        made = inputs and self._job("train", RECIPE, config=CONFIGS["train"])
        if made:
            self.terminal.print(f"\n{training_page(self.folder, RECIPE)}")
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


def _show_end(settings: Settings, folder: DataFolder) -> None:
    """One verified claim, what was made, the leaderboard, and the next commands."""
    say = Terminal().print
    claim = shown_claim(folder, policy())
    if claim is not None:
        say(f"\nA claim that {policy()} got right")
        print_claim(claim)
    say(f"Made\n{made_page(folder, RECIPE)}")
    say(f"\nThe leaderboard's means\n{board_page(folder, settings)}")
    say("\nNext")
    for what, words in _next(dropped_claim(folder)):
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
