"""Traces into rewards: for ``decomposerl score``, ``decomposerl.api`` and the reward server.

A file of traces is scored into the reward table and the judge's verdicts, next to the file.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from dagster_project.environment import load_env_file, read_settings
from dagster_project.progress_display import shown_progress
from dagster_project.row_forms import (
    STANDARD_INPUT,
    in_score_form,
    lines_of,
    name_of,
    plain_rows,
)
from dagster_project.terminal import Format, print_note, print_rows, print_text
from decomposerl.errors import ConfigError, DecomposeRLError, SourceFileError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.reports.reward_report import reward_frame, reward_page
from decomposerl.rewards.scoring import RewardedBatch, active_rewards, reward_rollouts
from decomposerl.rewards.settings import RewardSettings, is_labelled
from decomposerl.schemas import LABELS, Verdict
from decomposerl.traces.records import Problem, TraceRecord, read_trace_records, read_trace_rows
from decomposerl.traces.rollout import Rollout
from resources.judge.replay import ReplayJudge
from resources.store.parquet import write_parquet
from resources.store.temporary import replace_text

_SHOWN = 20  # problems


@dataclass(frozen=True, slots=True)
class Scoring:
    """How traces are read and scored.

    ``labels`` are those of claims and the verdicts of traces. ``labelled_share`` is that of a
    semi-supervised run: other claims lose their label; None: every claim keeps its own.

    Raises:
        ConfigError: as ``active_rewards``, the share is not between 0 and 1, or silence refutes
            although there is a verdict for it.
    """

    rewards: RewardSettings = field(default_factory=RewardSettings)
    labels: tuple[Verdict, ...] = LABELS
    labelled_share: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would fail later, before anything is spent."""
        active_rewards(self.rewards)
        if self.labelled_share is not None and not 0.0 <= self.labelled_share <= 1.0:
            raise ConfigError(
                f"--labelled-share is {self.labelled_share}; it must be between 0 and 1"
            )
        if self.labels != LABELS and self.rewards.silence != "literal":
            raise ConfigError(
                f"--silence {self.rewards.silence} reads an open part as Refuted, and --three-way "
                "has a verdict for it; choose one"
            )

    def rollouts(self, records: Sequence[TraceRecord]) -> list[Rollout]:
        """The traces, parsed; with a share, those of other claims have no label."""
        share = self.labelled_share
        return [
            (
                record
                if share is None or is_labelled(record.claim, share)
                else replace(record, label=None)
            ).rollout()
            for record in records
        ]


def score_file(
    traces: Path,
    scoring: Scoring,
    *,
    recorded: Path | None = None,
    out: Path | None = None,
    output: Format = Format.TEXT,
    questions: bool = False,
) -> int:
    """Score a file of traces, write its tables and print them; how many lines were not scored.

    ``recorded`` is a ``judge_calls`` table to use instead of the judge; ``out`` is the path of the
    reward table, by default next to the traces. Lines that cannot be read are written next to the
    table, with their problems. ``questions``: also what each question earned.

    Raises:
        SourceFileError: the file cannot be read, or holds no trace that can be scored.
        DecomposeRLError: as ``rewards.scoring.reward_rollouts``.
    """
    name = "traces" if str(traces) == STANDARD_INPUT else traces.stem
    rewards = out or traces.with_name(f"{name}.rewards.parquet")
    stem = rewards.name.removesuffix(".parquet").removesuffix(".rewards")
    judge_calls = rewards.with_name(f"{stem}.judge_calls.parquet")
    rejects = rewards.with_name(f"{stem}.rejects.jsonl")
    taken = {os.path.realpath(path) for path in (rewards, rejects)}
    for path in filter(None, (traces, recorded)):
        if os.path.realpath(path) in taken:
            raise ConfigError(f"{path} would be overwritten: choose another --out")
    lines = lines_of(traces)
    records, problems = read_trace_records(lines, name_of(traces), scoring.labels, in_score_form)
    if not records:
        listed = "".join(f"\n  {problem}" for problem in problems[:10])
        raise SourceFileError(f"{name_of(traces)} holds no trace that can be scored{listed}")
    with shown_progress(), opened_engines(recorded) as (judge, embedder):
        scored = reward_rollouts(scoring.rollouts(records), judge, embedder, scoring.rewards)
    frames = {rewards: scored.frame()}
    if recorded is None:  # recorded verdicts are not written again, as that would lose columns
        frames[judge_calls] = scored.judge_calls
    try:
        for path, frame in frames.items():
            write_parquet(frame, path)
        rejected = _write_rejects(problems, lines, rejects)
    except OSError as error:
        raise DecomposeRLError(f"{rewards} cannot be written: {error.strerror}") from error
    if output.is_data:
        print_rows(reward_frame(scored), output)
    else:
        markdown = output is Format.MARKDOWN
        print_text(reward_page(scored, markdown=markdown, questions=questions))
    engines = (
        f"judge={judge.engine} ({scored.judge_calls['call_key'].n_unique():,} distinct calls)",
        f"question embedder={embedder.engine}",
    )
    written = (f"wrote {path}" for path in (*frames, *[rejects] * bool(rejected)))
    for note in (*_notes(scored, problems, rejected), *engines, *written):
        print_note(note)
    return rejected


def _notes(scored: RewardedBatch, problems: Sequence[Problem], rejected: int) -> Iterator[str]:
    """What could not be read, and which rewards lack values."""
    yield from map(str, problems[:_SHOWN])
    if len(problems) > _SHOWN:
        yield f"and {len(problems) - _SHOWN:,} further problems"
    if rejected:
        done = len(scored.cases)
        yield f"scored {done:,} of {done + rejected:,} lines"
    for name in scored.results:
        if rate := scored.failure_rate(name):
            yield f"{name}: {rate:.1%} of the traces have no value, because a judge call failed"


def _write_rejects(problems: Sequence[Problem], lines: Sequence[str], path: Path) -> int:
    """Write each line that was not scored, unchanged, with its problems; the number of lines.

    The file of an earlier run is removed, because its lines may be scored now.
    """
    wrong: dict[int, list[dict[str, str]]] = defaultdict(list)
    for problem in problems:
        if problem.dropped:
            wrong[problem.line].append({"field": problem.field, "reason": problem.reason})
    entries = ({"line": n, "problems": wrong[n], "text": lines[n - 1]} for n in wrong)
    if wrong:
        replace_text(path, (f"{json.dumps(entry)}\n" for entry in entries))
    else:
        path.unlink(missing_ok=True)
    return len(wrong)


def scored_rows(rows: Iterable[Mapping[str, object]], scoring: Scoring) -> list[dict[str, object]]:
    """The rewards of traces given as rows (``plain_rows``); nothing is written.

    Raises:
        SourceFileError: a row cannot be scored; the message has every problem.
        DecomposeRLError: as ``score_file``.
    """
    given = list(map(in_score_form, plain_rows(rows)))
    records, problems = read_trace_rows(given, "traces", scoring.labels)
    if wrong := [str(problem) for problem in problems if problem.dropped]:
        raise SourceFileError("; ".join(wrong))
    with opened_engines() as engines:
        scored = reward_rollouts(scoring.rollouts(records), *engines, scoring.rewards)
    return scored.objects()


@contextmanager
def opened_engines(
    recorded: Path | None = None, most_calls: int = 0
) -> Iterator[tuple[Judge, Embedder]]:
    """The judge and the question embedder of the profile; what they start ends with the block.

    ``recorded`` is a ``judge_calls`` table to use instead of the judge, ``most_calls`` the ceiling
    of calls to an endpoint, 0 for none.

    Raises:
        ConfigError: the environment is wrong.
        EngineError: ``recorded`` is no table of rulings.
    """
    from dagster_project.engine_resources import open_resources

    load_env_file()
    names = ["question_embedder", *["judge"] * (recorded is None)]
    with open_resources(read_settings(), *names) as (questions, *judges):
        judge: Judge = ReplayJudge(recorded or Path())
        for resource in judges:
            limited = resource.endpoint.model_copy(update={"calls": most_calls})
            judge = resource.model_copy(update={"endpoint": limited}).open()
        if recorded is not None:
            judge.judge([])  # reads the table
        yield judge, questions.open()
