"""Which traces ``decomposerl view`` shows, and the judge's texts behind them.

Gives the sources of a data folder or of files, collected into what the page reads. A live page
collects again when a file has changed.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from dagster_project.environment import systems_for
from dagster_project.settings import Settings
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeCall
from decomposerl.reports.trace_page.details import judge_json
from decomposerl.reports.trace_page.items import TraceItem, judge_calls
from decomposerl.reports.trace_page.pages import PageAbout
from decomposerl.reports.trace_page.results import ClaimNames
from decomposerl.training.experiments import experiment
from resources.chat.reply_store import REPLIES_FILE
from resources.traces.collection import CollectedTraces, collect
from resources.traces.files import (
    BenchmarkClaims,
    PredictionFile,
    ResultFile,
    Warn,
    no_warning,
    prediction_files,
)
from resources.traces.rollouts import RunSplit, run_splits

_PARQUET = ".parquet"
_WHOLE_TEXT = 10_000_000
_OF_ONE_FILE = 16_000_000
"""Characters of judge's prompts and replies in an offline file."""
_LEFT_OUT = (
    "this file holds the judge's prompts and replies of its first traces only; "
    "'decomposerl view' shows all"
)
Source = PredictionFile | RunSplit | ResultFile
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """What to show: files, or parts of a data folder. ``limit`` is claims of each file; 0: all."""

    files: tuple[Path, ...] = ()
    systems: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    limit: int = 0

    def sources(self, data: Path, warn: Warn = no_warning) -> list[Source]:
        """The sources of traces; ``warn`` receives a line for each file of the folder left out.

        Raises:
            ConfigError: nothing is there to show, or a name matches nothing; the message names the
                next command, or what there is.
            SourceFileError: a given file is neither predictions nor results.
        """
        if self.files and (self.systems or self.benchmarks or self.runs):
            raise ConfigError(
                "FILE is shown whole: give it without --system, --benchmark and --run"
            )
        if self.files:
            claims, names = BenchmarkClaims(data), ClaimNames()
            return [self._file(path, claims, names) for path in self.files]
        left_out: list[str] = []
        predicted: list[PredictionFile] = []
        runs: list[RunSplit] = []
        if self.systems or self.benchmarks or not self.runs:
            predicted = prediction_files(
                data, self.systems, self.benchmarks, self.limit, left_out.append
            )
        if self.runs or not (self.systems or self.benchmarks):
            runs = run_splits(data, self.runs, self.limit, left_out.append)
        unmatched = self._unmatched(predicted, runs)
        if unmatched or not (predicted or runs):
            raise ConfigError("; ".join([_nothing(data, unmatched), *left_out]))
        for line in left_out:
            warn(line)
        return [*predicted, *runs]

    def _unmatched(self, predicted: Sequence[PredictionFile], runs: Sequence[RunSplit]) -> str:
        """The given names that none of the sources has."""
        there = [
            ("system", self.systems, {one.system for one in predicted}),
            ("test set", self.benchmarks, {one.benchmark for one in predicted}),
            ("run", self.runs, {one.folder.name for one in runs}),
        ]
        names = (
            f"{what} '{name}'" for what, given, had in there for name in given if name not in had
        )
        return ", ".join(names)

    def _file(self, path: Path, claims: BenchmarkClaims, names: ClaimNames) -> Source:
        if not path.is_file():
            raise ConfigError(f"there is no file {path}")
        if path.suffix.lower() == _PARQUET:
            return PredictionFile.at(path, claims, self.limit)
        return ResultFile(path, self.limit, names)


def _nothing(data: Path, unmatched: str) -> str:
    predicted, runs = prediction_files(data), run_splits(data)
    there = {
        "systems": sorted({one.system for one in predicted}),
        "test sets": sorted({one.benchmark for one in predicted}),
        "runs": sorted({one.folder.name for one in runs}),
    }
    named = "; ".join(f"{what}: {', '.join(names)}" for what, names in there.items() if names)
    if named:
        return f"nothing in {data} matches {unmatched}; there are {named}"
    return (
        f"there is no prediction and no training run in {data}. Next: decomposerl evaluate "
        "self_ask-rules-faithful, or decomposerl verify FILE --json > results.jsonl and "
        "decomposerl view results.jsonl"
    )


def stamp_of(sources: Sequence[Source], warnings: Sequence[str] = ()) -> str:
    """16 hex digits over path, size and time of all files, and over ``warnings``."""
    digest = hashlib.sha256("\n".join(warnings).encode())
    for path in (path for source in sources for path in source.paths):
        stat = path.stat()
        digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


class RecordingJudge(Protocol):
    """A judge that can show what it was asked and answered."""

    @property
    def engine(self) -> str:
        """Model, prompts and settings."""
        ...

    def recorded(self, calls: Sequence[JudgeCall]) -> list[tuple[str, str]]:
        """Prompt and stored reply of each call, in order; both empty where none is stored."""
        ...


def with_judge_texts(item: TraceItem, judge: RecordingJudge) -> TraceItem:
    """The trace with the prompts and replies behind its rulings, where they are stored.

    They are rebuilt: a log names each call by its key, the call itself follows from claim, evidence
    and trace, its prompt from the judge's settings. So there is a text only where today's judge is
    the one that ruled.

    Raises:
        EngineError: the store of replies cannot be read.
    """
    rulings = item.judged.rulings
    calls = judge_calls(item)
    known = {
        one.call_key: calls[one.call_key]
        for one in rulings
        if one.engine == judge.engine and one.call_key in calls
    }
    texts = dict(zip(known, judge.recorded(list(known.values())), strict=True))
    shown = []
    for one in rulings:
        prompt, reply = texts.get(one.call_key, ("", ""))
        shown.append(replace(one, prompt=prompt, reply=reply))
    return replace(item, judged=replace(item.judged, rulings=tuple(shown)))


@dataclass(slots=True)
class JudgeTexts:
    """Adds prompts and replies of the judge to traces of training, where they are stored.

    The judge is the profile's, as each recipe asks it; it is opened once, for the first ruling of a
    chat model, and sends nothing.
    """

    settings: Settings
    _opened: dict[str, RecordingJudge | None] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _resource: Any = None

    def added(self, item: TraceItem) -> TraceItem:
        """The trace with the texts that are stored."""
        if not any(one.engine.startswith("chat:") for one in item.judged.rulings):
            return item
        judge = self._judge(item.origin.model)
        return item if judge is None else with_judge_texts(item, judge)

    def close(self) -> None:
        """Close the judge."""
        self._stack.close()

    def _judge(self, recipe: str) -> RecordingJudge | None:
        if recipe not in self._opened:
            self._opened[recipe] = self._open(recipe)
        return self._opened[recipe]

    def _open(self, recipe: str) -> RecordingJudge | None:
        from resources.judge.chat_judge import ChatJudge
        from resources.training.run_inputs import judge_for

        if not (self.settings.paths.results / REPLIES_FILE).is_file():
            return None
        if self._resource is None:
            from dagster_project.engine_resources import open_resources

            (self._resource,) = self._stack.enter_context(open_resources(self.settings, "judge"))
        try:
            judge = judge_for(self._resource, experiment(recipe)).open()
        except ConfigError:
            return None
        return judge if isinstance(judge, ChatJudge) else None


def system_titles(settings: Settings, sources: Sequence[Source] = ()) -> dict[str, str]:
    """Method and model of each system of the catalogue and of ``systems.toml``, by key.

    Training runs among ``sources`` are named by recipe and split.
    """
    titles = {one.key: one.reader_title for one in systems_for(settings)}
    return titles | {one.system: one.title for one in sources if isinstance(one, RunSplit)}


def page_about(
    title: str, warnings: Sequence[str] = (), *, live: bool = False, reviewer: str = ""
) -> PageAbout:
    """The head of a page."""
    made = f"decomposerl {version('decomposerl')}"
    return PageAbout(title, made, tuple(warnings), live=live, reviewer=reviewer)


def whole_page(
    sources: Sequence[Source],
    about: PageAbout,
    texts: JudgeTexts,
    progress: Progress | None = None,
) -> CollectedTraces:
    """Everything for an offline file, with as many of the judge's texts as it may hold."""
    left, left_out = _OF_ONE_FILE, False

    def enriched(item: TraceItem) -> TraceItem:
        nonlocal left, left_out
        if left <= 0:
            left_out = left_out or bool(item.judged.rulings)
            return item
        added = texts.added(item)
        if added is not item:
            shown = judge_json(added.judged.rulings)
            left -= sum(len(one["prompt"]) + len(one["reply"]) for one in shown)
        return added

    titles = system_titles(texts.settings, sources)
    collected = collect(sources, about, titles, enriched, progress)
    if left_out:
        collected.index["warnings"].append(_LEFT_OUT)
    return collected


@dataclass(slots=True)
class LiveTraces:
    """The traces of a selection, collected again once their files have changed."""

    selection: Selection
    data: Path
    about: PageAbout
    texts: JudgeTexts
    progress: Progress | None = None
    _collected: CollectedTraces | None = None
    _stamp: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> CollectedTraces:
        """The traces as they are on disk now.

        Raises:
            ConfigError, SourceFileError, OSError: the files are gone, or one cannot be read.
        """
        with self._lock:
            warnings: list[str] = []
            sources = self.selection.sources(self.data, warnings.append)
            stamp = stamp_of(sources, warnings)
            if self._collected is None or stamp != self._stamp:
                titles = system_titles(self.texts.settings, sources)
                about = replace(self.about, warnings=(*self.about.warnings, *warnings))
                self._collected = collect(sources, about, titles, progress=self.progress)
                self._collected.index["stamp"] = self._stamp = stamp
            return self._collected

    def last(self) -> CollectedTraces:
        """The traces as they were collected last."""
        return self._collected or self.current()

    def judge(self, block: int, place: int) -> list[dict[str, Any]] | None:
        """The rulings of a trace with prompts and replies; None where there is no such trace."""
        with self._lock:
            item = None if self._collected is None else self._collected.item(block, place)
            if item is None:
                return None
            return judge_json(self.texts.added(item).judged.rulings, _WHOLE_TEXT)
