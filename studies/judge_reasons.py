"""Do shorter reasons change the judge's rulings? Agreement of its three forms on the same calls.

``python -m studies.judge_reasons TRACES`` takes the calls of a JSONL file of traces (as
``decomposerl score`` reads), asks the profile's judge for each in every form of ``judge.reasons``
and prints, by task, the share of equal rulings beside what two independent judges with the same
shares of each ruling would reach (chance). It changes no default: what a form saves is in tokens,
what it costs is in this table, and both depend on the model.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import get_args

from dagster_project.engine_resources import open_resources
from dagster_project.environment import read_settings
from dagster_project.row_forms import in_score_form, lines_of
from decomposerl.judge.call import Judge, JudgeCall, Ruling, needed_calls
from decomposerl.prompts.judge import TASKS, Reasons
from decomposerl.reports.tables import markdown_table
from decomposerl.traces.records import read_trace_records

FORMS: tuple[Reasons, ...] = get_args(Reasons)


def main(words: Sequence[str] | None = None) -> None:
    """Ask the profile's judge and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=Path, help="JSONL, as decomposerl score reads it")
    parser.add_argument("--calls", type=int, default=200, help="calls that are drawn")
    parser.add_argument("--seed", type=int, default=42, help="of the draw")
    options = parser.parse_args(words)
    calls = drawn_calls(lines_of(options.traces), options.calls, options.seed)
    with open_resources(read_settings(), "judge") as (judge,):
        opened = {form: judge.model_copy(update={"reasons": form}).open() for form in FORMS}
        print(agreement_table(calls, opened))


def drawn_calls(lines: Sequence[str], count: int, seed: int) -> list[JudgeCall]:
    """A seeded draw of the distinct calls of traces, as many of each task as there are."""
    rollouts, _ = read_trace_records(lines, "traces", prepared=in_score_form)
    own = chain.from_iterable(needed_calls(rollout).values() for rollout in rollouts.values())
    calls = list(dict.fromkeys(own))
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    by_task = [[call for call in calls if call.task == task] for task in TASKS]
    each = -(-count // len(TASKS))
    drawn = [call for own in by_task for call in chance.sample(own, min(each, len(own)))]
    return drawn[:count]


def agreement_table(calls: Sequence[JudgeCall], judges: dict[Reasons, Judge]) -> str:
    """A row for each task and pair of forms; rulings that failed in either form are left out."""
    rulings = {form: judge.judge(calls) for form, judge in judges.items()}
    rows = []
    for task in TASKS:
        places = [place for place, call in enumerate(calls) if call.task == task]
        for one, other in combinations(judges, 2):
            pairs = [(rulings[one][place], rulings[other][place]) for place in places]
            rows.append((task, f"{one}, {other}", *_agreement(pairs)))
    head = ("task", "forms", "calls", "both read", "agreement", "by chance")
    return markdown_table(head, rows)


def _agreement(pairs: Sequence[tuple[Ruling, Ruling]]) -> tuple[str, ...]:
    read = [(one.text, other.text) for one, other in pairs if one.text and other.text]
    if not read:
        return str(len(pairs)), "0", "–", "–"
    same = sum(one == other for one, other in read) / len(read)
    shares = [Counter(column) for column in zip(*read, strict=True)]
    chance = sum(count * shares[1][text] for text, count in shares[0].items()) / len(read) ** 2
    return str(len(pairs)), str(len(read)), f"{same:.2f}", f"{chance:.2f}"


if __name__ == "__main__":
    main()
