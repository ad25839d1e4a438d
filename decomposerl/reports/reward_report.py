"""Scored rollouts for a reader: one row per rollout."""

import polars as pl

from decomposerl.reports.tables import markdown_table, one_line, text_table
from decomposerl.rewards.scoring import TOTAL, RewardedBatch

_NONE = "–"
_WIDEST = 100
_HEAD = {"group": pl.String, "rollout": pl.Int64, "cycles": pl.Int64}
_HEAD |= {"verdict": pl.String, "label": pl.String}


def reward_frame(scored: RewardedBatch) -> pl.DataFrame:
    """One row per rollout: group, rollout, cycles, verdict, label, each reward, total.

    A reward is null where a judge's ruling is missing or the reward does not apply.
    """
    head = [
        (one.group, one.number, len(one.trace.cycles), one.trace.verdict, one.label)
        for one in (case.rollout for case in scored.cases)
    ]
    values = {name: [one.value for one in found] for name, found in scored.results.items()}
    values[TOTAL] = list(scored.totals)
    rewards = pl.DataFrame(values, schema=dict.fromkeys(values, pl.Float64))
    return pl.DataFrame(head, schema=_HEAD, orient="row").hstack(rewards)


def reward_page(scored: RewardedBatch, *, markdown: bool = False) -> str:
    """The frame with a line of means, as aligned text or Markdown."""
    wide, size = reward_frame(scored), len(_HEAD)
    head = [name.replace("_", " ") for name in wide.columns]
    rows = [[*map(_text, row[:size]), *map(_number, row[size:])] for row in wide.iter_rows()]
    means = (_number(wide[name].mean()) for name in wide.columns[size:])
    rows.append(["mean", *[""] * (size - 1), *means])
    right = [kind != pl.String for kind in wide.dtypes]
    return markdown_table(head, rows) if markdown else text_table([head, *rows], right, (1, -1))


def _number(value: object) -> str:
    return f"{value:z.3f}" if isinstance(value, float) else _NONE


def _text(value: object) -> str:
    return _NONE if value is None else one_line(str(value), _WIDEST)
