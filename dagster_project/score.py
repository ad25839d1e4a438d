"""Traces into rewards: for ``decomposerl score``, ``decomposerl.api`` and the reward server.

A file of traces is scored into the reward table and the judge's verdicts, next to the file.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dagster_project import row_forms
from dagster_project.environment import read_settings
from dagster_project.progress_display import shown_progress
from dagster_project.terminal import Format, print_note, print_rows, print_text
from decomposerl.errors import ConfigError, SourceFileError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.reports.reward_report import reward_frame, reward_page
from decomposerl.rewards.scoring import active_rewards, reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import LABELS, VERDICTS, Verdict
from decomposerl.traces.records import Problem, read_trace_records, read_trace_rows
from resources.judge.replay import ReplayJudge
from resources.store.parquet import write_parquet
from resources.store.temporary import replace_text, require_writable

_SHOWN = 20  # problems


def offered_labels(settings: RewardSettings, *, three_way: bool) -> tuple[Verdict, ...]:
    """The labels of claims and verdicts of traces, for settings that fit them.

    Raises:
        ConfigError: as ``active_rewards``, or silence refutes although there is a verdict for it.
    """
    active_rewards(settings)
    if three_way and settings.silence != "literal":
        raise ConfigError(
            f"the reading silence={settings.silence} takes an open part as Refuted, and "
            "--three-way has a verdict for it; choose one"
        )
    return VERDICTS if three_way else LABELS


def score_file(
    traces: Path,
    settings: RewardSettings,
    labels: tuple[Verdict, ...],
    *,
    recorded: Path | None = None,
    out: Path | None = None,
    output: Format = Format.TEXT,
) -> int:
    """Score a file of traces, write its tables and print them; how many lines were not scored.

    ``recorded`` is a ``judge_calls`` table to use instead of the judge; ``out`` is the path of the
    reward table, by default next to the traces. Lines that cannot be read are written next to the
    table, with their problems.

    Raises:
        SourceFileError: the file cannot be read, or holds no trace that can be scored.
        DecomposeRLError: as ``rewards.scoring.reward_rollouts``.
    """
    name = "traces" if str(traces) == row_forms.STANDARD_INPUT else traces.stem
    table = out or traces.with_name(f"{name}.rewards.parquet")
    stem = table.name.removesuffix(".parquet").removesuffix(".rewards")
    rejects = table.with_name(f"{stem}.rejects.jsonl")
    taken = {os.path.realpath(path) for path in (table, rejects)}
    for path in filter(None, (traces, recorded)):
        if os.path.realpath(path) in taken:
            raise ConfigError(f"{path} would be overwritten: choose another --out")
    lines, file = row_forms.lines_of(traces), row_forms.name_of(traces)
    read, problems = read_trace_records(lines, file, labels, row_forms.in_score_form)
    if not read:
        listed = "".join(f"\n  {problem}" for problem in problems[:10])
        raise SourceFileError(f"{file} holds no trace that can be scored{listed}")
    require_writable(table)  # before the judge is paid
    with shown_progress(), opened_engines(recorded) as (judge, embedder):
        scored = reward_rollouts(list(read.values()), judge, embedder, settings)
    frames = {table: scored.frame()}
    if recorded is None:  # recorded verdicts are not written again, as that would lose columns
        frames[table.with_name(f"{stem}.judge_calls.parquet")] = scored.judge_calls
    for path, frame in frames.items():
        write_parquet(frame, path)
    rejected = _write_rejects(problems, lines, rejects)
    if output.is_data:
        print_rows(reward_frame(scored), output)
    else:
        markdown = output is Format.MARKDOWN
        print_text(reward_page(scored, markdown=markdown))
    notes = list(map(str, problems[:_SHOWN]))
    notes += [f"and {len(problems) - _SHOWN:,} further problems"] * (len(problems) > _SHOWN)
    notes += [f"scored {len(read):,} of {len(read) + rejected:,} lines"] * bool(rejected)
    lost = "of the traces have no value, because a judge call failed"
    rates = {name: scored.failure_rate(name) for name in scored.results}
    notes += [f"{name}: {rate:.1%} {lost}" for name, rate in rates.items() if rate]
    distinct = scored.judge_calls["call_key"].n_unique()
    notes += [f"judge={judge.engine} ({distinct:,} distinct calls)"]
    notes += [f"question embedder={embedder.engine}"]
    for note in [*notes, *(f"wrote {path}" for path in (*frames, *[rejects] * bool(rejected)))]:
        print_note(note)
    return rejected


def _write_rejects(problems: Sequence[Problem], lines: Sequence[str], path: Path) -> int:
    """Write each line that was not scored, unchanged, with its problems; the number of lines.

    The file of an earlier run is removed, because its lines may be scored now.
    """
    wrong: dict[int, list[dict[str, str]]] = defaultdict(list)
    for problem in problems:
        if problem.dropped:
            wrong[problem.line].append({"field": problem.field, "reason": problem.reason})
    path.unlink(missing_ok=True)
    if wrong:
        entries = ({"line": n, "problems": wrong[n], "text": lines[n - 1]} for n in wrong)
        replace_text(path, (f"{json.dumps(entry)}\n" for entry in entries))
    return len(wrong)


def scored_rows(
    rows: Iterable[Mapping[str, object]], settings: RewardSettings, labels: tuple[Verdict, ...]
) -> list[dict[str, object]]:
    """The rewards of traces given as rows (``plain_rows``); nothing is written.

    Raises:
        SourceFileError: a row cannot be scored; the message has every problem.
        DecomposeRLError: as ``score_file``.
    """
    given = list(map(row_forms.in_score_form, row_forms.plain_rows(rows)))
    rollouts, problems = read_trace_rows(given, "traces", labels)
    if wrong := [str(problem) for problem in problems if problem.dropped]:
        raise SourceFileError("; ".join(wrong))
    with opened_engines() as engines:
        return reward_rollouts(list(rollouts.values()), *engines, settings).objects()


@contextmanager
def opened_engines(recorded: Path | None = None) -> Iterator[tuple[Judge, Embedder]]:
    """The judge and the question embedder of the profile; what they start ends with the block.

    ``recorded`` is a ``judge_calls`` table to use instead of the judge.

    Raises:
        ConfigError: the environment is wrong.
    """
    from dagster_project.engine_resources import open_resources

    names = ["question_embedder", *["judge"] * (recorded is None)]
    with open_resources(read_settings(), *names) as (questions, *judges):
        yield ReplayJudge(recorded) if recorded else judges[0].open(), questions.open()
