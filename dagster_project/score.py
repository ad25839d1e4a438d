"""``decomposerl score``: the reward ensemble over traces of any policy.

Reads a JSONL file of traces with their claims, or rows of a program, and writes the reward table
and the judge's verdicts next to the file.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.row_forms import in_score_form, plain_rows
from decomposerl.errors import ConfigError, DecomposeRLError, SourceFileError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import LABELS, Verdict
from decomposerl.traces.records import Problem, TraceRecord, read_trace_records, read_trace_rows
from decomposerl.traces.rollout import Rollout

if TYPE_CHECKING:
    from resources.judge.scoring import JudgedBatch

STANDARD_INPUT = "-"
_SHOWN = 20
_LONG = 50


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of claims and verdicts of traces, and the share of claims that keep theirs."""

    share: float | None = None  # of a semi-supervised run; None: every claim keeps its label
    names: tuple[Verdict, ...] = LABELS


ALL_LABELS = Labels()


@dataclass(frozen=True, slots=True)
class ScoreRun:
    """The result of one run of the command."""

    scoring: "JudgedBatch"
    judge: str
    embedder: str
    problems: tuple[Problem, ...]
    written: tuple[Path, ...]

    @property
    def unreadable(self) -> int:
        """Number of lines that were not scored."""
        return len({problem.line for problem in self.problems if problem.dropped})

    def notes(self) -> Iterator[str]:
        """The notes below the table, line by line."""
        yield from map(str, self.problems[:_SHOWN])
        if len(self.problems) > _SHOWN:
            yield f"and {len(self.problems) - _SHOWN:,} further problems"
        scored = self.scoring.rewards
        if self.unreadable:
            total = len(scored.rollouts) + self.unreadable
            yield f"scored {len(scored.rollouts):,} of {total:,} lines"
        longest = max(len(rollout.trace.cycles) for rollout in scored.rollouts)
        if longest > _LONG:
            yield f"the longest trace has {longest:,} cycles: up to {4 * longest + 1:,} judge calls"
        yield f"judge={self.judge} ({self.scoring.distinct_calls:,} distinct calls)"
        yield f"question embedder={self.embedder}"
        for name in scored.results:
            rate = scored.failure_rate(name)
            if rate:
                yield f"{name}: {rate:.1%} of the traces have no value, because a judge call failed"
        yield from (f"wrote {path}" for path in self.written)


def score_file(
    traces: Path,
    settings: RewardSettings,
    labels: Labels = ALL_LABELS,
    recorded: Path | None = None,
    out: Path | None = None,
) -> ScoreRun:
    """Score a file of traces and write its tables.

    ``recorded`` is a ``judge_calls`` table to use instead of the judge; ``out`` is the path of the
    reward table, by default next to the traces. Lines that cannot be read are written next to the
    table, with their problems.

    Raises:
        SourceFileError: the file cannot be read, or holds no trace that can be scored.
        DecomposeRLError: as ``resources.judge.scoring.reward_rollouts``.
    """
    from decomposerl.rewards.table import rewards_frame
    from resources.judge.scoring import reward_rollouts
    from resources.store.parquet import write_parquet

    check_settings(settings, labels)
    rewards = _target(traces, out)
    stem = rewards.name.removesuffix(".parquet").removesuffix(".rewards")
    judge_calls = rewards.with_name(f"{stem}.judge_calls.parquet")
    rejects = rewards.with_name(f"{stem}.rejects.jsonl")
    taken = {os.path.realpath(path) for path in (rewards, rejects)}
    for path in filter(None, (traces, recorded)):
        if os.path.realpath(path) in taken:
            raise ConfigError(f"{path} would be overwritten: choose another --out")
    lines, name = lines_of(traces), name_of(traces)
    records, problems = read_trace_records(lines, name, labels.names, in_score_form)
    if not records:
        listed = "".join(f"\n  {problem}" for problem in problems[:10])
        raise SourceFileError(f"{name} holds no trace that can be scored{listed}")
    rollouts = rollouts_of_records(records, labels.share)
    with opened_engines(recorded) as (judge, embedder):
        scoring = reward_rollouts(rollouts, judge, embedder, settings)
        engines = judge.engine, embedder.engine
    frames = {rewards: rewards_frame(scoring.rewards)}
    if recorded is None:  # recorded verdicts are not written again, as that would lose columns
        frames[judge_calls] = scoring.judge_calls
    wrote = [*frames, *[rejects] * any(problem.dropped for problem in problems)]
    try:
        for path, frame in frames.items():
            write_parquet(frame, path)
        _write_rejects(problems, lines, rejects)
    except OSError as error:
        raise DecomposeRLError(f"{rewards} cannot be written: {error.strerror}") from error
    return ScoreRun(scoring, *engines, tuple(problems), tuple(wrote))


def scored_rows(
    rows: Iterable[Mapping[str, object]], settings: RewardSettings, labels: tuple[Verdict, ...]
) -> list[dict[str, object]]:
    """The rewards of traces given as rows (``plain_rows``); nothing is written.

    Raises:
        SourceFileError: a row cannot be scored; the message has every problem.
        DecomposeRLError: as ``score_file``.
    """
    from decomposerl.rewards.table import reward_objects
    from resources.judge.scoring import reward_rollouts

    check_settings(settings, Labels(names=labels))
    given = [in_score_form(row) for row in plain_rows(rows)]
    records, problems = read_trace_rows(given, "traces", labels)
    wrong = [str(problem) for problem in problems if problem.dropped]
    if wrong:
        raise SourceFileError("; ".join(wrong))
    with opened_engines() as (judge, embedder):
        scoring = reward_rollouts(rollouts_of_records(records, None), judge, embedder, settings)
    return reward_objects(scoring.rewards)


@contextmanager
def opened_engines(
    recorded: Path | None = None, most_calls: int = 0
) -> Iterator[tuple[Judge, Embedder]]:
    """The judge and the question embedder of the profile; what they start ends with the block.

    ``recorded`` is a ``judge_calls`` table to use instead of the judge, ``most_calls`` the ceiling
    of calls to an endpoint, 0 for none.

    Raises:
        ConfigError: the environment is wrong.
    """
    from dagster_project.engine_resources import open_resources
    from dagster_project.environment import load_env_file, read_settings
    from resources.judge.replay import ReplayJudge

    load_env_file()
    names = ["question_embedder", *["judge"] * (recorded is None)]
    with open_resources(read_settings(), *names) as (questions, *judges):
        judge: Judge = ReplayJudge(recorded or Path())
        for resource in judges:
            limited = resource.endpoint.model_copy(update={"calls": most_calls})
            judge = resource.model_copy(update={"endpoint": limited}).open()
        yield judge, questions.open()


def name_of(traces: Path) -> str:
    """What messages call a file, or standard input."""
    return "standard input" if str(traces) == STANDARD_INPUT else str(traces)


def lines_of(traces: Path) -> list[str]:
    """The lines of a file or standard input; bytes that are not UTF-8 become surrogates."""
    try:
        content = sys.stdin.buffer.read() if str(traces) == STANDARD_INPUT else traces.read_bytes()
    except OSError as error:
        raise SourceFileError(f"{name_of(traces)} cannot be read: {error.strerror}") from error
    return content.decode("utf-8", "surrogateescape").split("\n")


def check_settings(settings: RewardSettings, labels: Labels) -> None:
    """Refuse what would fail later, before anything is spent.

    Raises:
        ConfigError: as ``check_rewards``, the share is not between 0 and 1, or silence refutes
            although there is a verdict for it.
    """
    from decomposerl.rewards.composite import check_rewards

    check_rewards(settings)
    if labels.share is not None and not 0.0 <= labels.share <= 1.0:
        raise ConfigError(f"--labelled-share is {labels.share}; it must be between 0 and 1")
    if labels.names != LABELS and settings.silence != "literal":
        raise ConfigError(
            f"--silence {settings.silence} reads an open part as Refuted, and --three-way has a "
            "verdict for it; choose one"
        )


def rollouts_of_records(
    records: Sequence[TraceRecord], labelled_share: float | None
) -> list[Rollout]:
    """The rollouts; with a share, those of other claims lose their label."""
    return [_relabelled(record, labelled_share).rollout() for record in records]


def _relabelled(record: TraceRecord, share: float | None) -> TraceRecord:
    from decomposerl.rewards.supervision import is_labelled

    keeps = share is None or is_labelled(record.claim, share)
    return record if keeps else replace(record, label=None)


def _target(traces: Path, out: Path | None) -> Path:
    if out is not None:
        return out
    stem = Path("traces") if str(traces) == STANDARD_INPUT else traces
    return stem.with_name(f"{stem.stem}.rewards.parquet")


def _write_rejects(problems: Sequence[Problem], lines: Sequence[str], path: Path) -> None:
    """Write each line that was not scored, unchanged, with its problems; no such line, no file.

    The file of an earlier run is removed, because its lines may be scored now.
    """
    from resources.store.temporary import replace_file

    wrong: dict[int, list[dict[str, str]]] = {}
    for problem in problems:
        if problem.dropped:
            entry = {"field": problem.field, "reason": problem.reason}
            wrong.setdefault(problem.line, []).append(entry)
    rows = (
        json.dumps({"line": line, "problems": entries, "text": lines[line - 1]})
        for line, entries in wrong.items()
    )
    if not wrong:
        path.unlink(missing_ok=True)
        return
    text = "".join(f"{row}\n" for row in rows)
    replace_file(path, lambda aside: aside.write_text(text, "ascii"))
