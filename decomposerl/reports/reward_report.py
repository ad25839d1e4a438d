"""Scored rollouts for a reader: one row per rollout, and what each of its questions earned."""

import polars as pl

from decomposerl.reports.tables import markdown_table, one_line, text_table
from decomposerl.rewards.composite import RewardedBatch
from decomposerl.rewards.format import CONDITIONS, conditions_met
from decomposerl.traces.grounding import quotes

_NONE, _NOWHERE = "–", "nowhere in the evidence"
_WIDEST = 100
_HEAD = {
    "group": pl.String,
    "rollout": pl.Int64,
    "cycles": pl.Int64,
    "verdict": pl.String,
    "label": pl.String,
}


def reward_frame(scored: RewardedBatch) -> pl.DataFrame:
    """One row per rollout: group, rollout, cycles, verdict, label, each reward, total.

    A reward is null where a judge's ruling is missing or the reward does not apply.
    """
    head = [
        (one.group, one.number, len(one.trace.cycles), one.trace.verdict, one.label)
        for one in scored.rollouts
    ]
    values = {name: [one.value for one in found] for name, found in scored.results.items()}
    values["total"] = list(scored.totals)
    rewards = pl.DataFrame(values, schema=dict.fromkeys(values, pl.Float64))
    return pl.DataFrame(head, schema=_HEAD, orient="row").hstack(rewards)


def reward_page(scored: RewardedBatch, *, markdown: bool = False, questions: bool = False) -> str:
    """The frame with a line of means, as aligned text or Markdown.

    ``questions``: then each rollout's claim, unmet format conditions and values of each question.
    """
    wide = reward_frame(scored)
    head = [name.replace("_", " ") for name in wide.columns]
    rewards = wide.columns[len(_HEAD) :]
    rows = [
        [
            *(_NONE if value is None else one_line(str(value)) for value in row[: len(_HEAD)]),
            *map(_number, row[len(_HEAD) :]),
        ]
        for row in wide.iter_rows()
    ]
    means = [_number(wide[name].mean()) for name in rewards]
    rows.append(["mean", *[""] * (len(_HEAD) - 1), *means])
    right = [kind != pl.String for kind in wide.dtypes]
    table = markdown_table(head, rows) if markdown else text_table([head, *rows], right, (1, -1))
    pages = [_page(scored, index) for index in range(len(rows) - 1) if questions]
    return "\n\n".join([table, *pages])


def _page(scored: RewardedBatch, index: int) -> str:
    rollout = scored.rollouts[index]
    found = {name: results[index].questions for name, results in scored.results.items()}
    lines = [f"{one_line(rollout.group)}, rollout {rollout.number}: {_short(rollout.claim)}"]
    met = conditions_met(rollout.trace)
    if lacking := [name for name, _ in CONDITIONS if name not in met]:
        lines.append(f"  form lacks: {'; '.join(lacking)}")
    for fault in rollout.trace.faults:
        detail = f" ({one_line(fault.detail)})" if fault.detail else ""
        lines.append(f"  {fault.kind} at characters {fault.start}..{fault.end}{detail}")
    for number, cycle in enumerate(rollout.trace.cycles):
        answer = cycle.answer
        lines += [f"  {number + 1}. {_short(cycle.question)}", f"     {_short(answer)}"]
        for quoted, hit in quotes(answer, rollout.evidence):
            where = "{1} at characters {0[0]}..{0[1]}".format(*hit) if hit else _NOWHERE
            lines.append(f"     quotes {_short(answer[slice(*quoted)])}: {where}")
        for name, results in found.items():
            if number < len(results):
                one = results[number]
                detail = f": {one.detail}" if one.detail else ""
                lines.append(f"     {name} {_number(one.value)}, {one.state}{detail}")
    return "\n".join(lines)


def _number(value: object) -> str:
    return f"{value:z.3f}" if isinstance(value, float) else _NONE


def _short(text: str) -> str:
    return one_line(text, _WIDEST)
