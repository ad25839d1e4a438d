"""Scored rollouts for a reader: one row per rollout, and what each of its questions earned."""

from collections.abc import Iterator, Sequence

import polars as pl

from decomposerl.reports.tables import markdown_table, one_line, text_table
from decomposerl.rewards.composite import RewardedBatch
from decomposerl.rewards.format import CONDITIONS, conditions_met
from decomposerl.rewards.reward import RewardResult
from decomposerl.traces.citations import citations
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle

_NONE = "–"
_WIDEST = 100
_HEAD = ("group", "rollout", "cycles", "verdict", "label")
_MEAN = "mean"


def reward_frame(scored: RewardedBatch) -> pl.DataFrame:
    """One row per rollout: group, rollout, cycles, verdict, label, each reward, total.

    A reward is null where a judge's ruling is missing or the reward does not apply.
    """
    rollouts = scored.rollouts
    columns: dict[str, Sequence[object]] = {
        "group": [rollout.group for rollout in rollouts],
        "rollout": [rollout.number for rollout in rollouts],
        "cycles": [len(rollout.trace.cycles) for rollout in rollouts],
        "verdict": [rollout.trace.verdict for rollout in rollouts],
        "label": [rollout.label for rollout in rollouts],
    }
    types = dict(zip(_HEAD, (pl.String, pl.Int64, pl.Int64, pl.String, pl.String), strict=True))
    for name, scores in scored.results.items():
        columns[name] = [score.value for score in scores]
    columns["total"] = list(scored.totals)
    schema = {name: types.get(name, pl.Float64) for name in columns}
    return pl.DataFrame(columns, schema=schema)


def reward_text(wide: pl.DataFrame) -> str:
    """The wide frame as aligned text with a line of means."""
    right = [name not in {"group", "verdict", "label"} for name in wide.columns]
    return text_table(_cells(wide), right, (1, -1))


def reward_markdown(wide: pl.DataFrame) -> str:
    """The same as a Markdown table."""
    headers, *rows = _cells(wide)
    return markdown_table(headers, rows)


def question_pages(scored: RewardedBatch) -> str:
    """For each rollout its claim, unmet format conditions, and the values of each question."""
    return "\n\n".join(_page(scored, index) for index in range(len(scored.rollouts)))


def _page(scored: RewardedBatch, index: int) -> str:
    rollout = scored.rollouts[index]
    scores = {name: values[index] for name, values in scored.results.items()}
    return "\n".join(
        [
            f"{one_line(rollout.group)}, rollout {rollout.number}: {_short(rollout.claim)}",
            *_form(rollout),
            *(
                line
                for number, cycle in enumerate(rollout.trace.cycles)
                for line in _cycle(number, cycle, rollout.evidence, scores)
            ),
        ]
    )


def _form(rollout: Rollout) -> Iterator[str]:
    met = set(conditions_met(rollout.trace))
    lacking = [name for name, _ in CONDITIONS if name not in met]
    if lacking:
        yield f"  form lacks: {'; '.join(lacking)}"
    for fault in rollout.trace.faults:
        detail = f" ({one_line(fault.detail)})" if fault.detail else ""
        yield f"  {fault.kind} at characters {fault.start}..{fault.end}{detail}"


def _cycle(
    number: int, cycle: Cycle, evidence: str, scores: dict[str, RewardResult]
) -> Iterator[str]:
    yield f"  {number + 1}. {_short(cycle.question)}"
    yield f"     {_short(cycle.answer)}"
    for quote in citations(cycle.answer, evidence):
        where = "nowhere in the evidence"
        if quote.found_start is not None:
            where = f"{quote.match} at characters {quote.found_start}..{quote.found_end}"
        yield f"     quotes {_short(cycle.answer[quote.start : quote.end])}: {where}"
    for name, score in scores.items():
        if number < len(score.questions):
            one = score.questions[number]
            detail = f": {one.detail}" if one.detail else ""
            yield f"     {name} {_number(one.value)}, {one.state}{detail}"


def _cells(wide: pl.DataFrame) -> list[list[str]]:
    rewards = [name for name in wide.columns if name not in _HEAD]
    head = [name.replace("_", " ") for name in wide.columns]
    rows = [
        [_cell(value, name in rewards) for name, value in zip(wide.columns, row, strict=True)]
        for row in wide.iter_rows()
    ]
    means = [_number(wide[name].mean()) for name in rewards]
    return [head, *rows, [_MEAN, *[""] * (len(_HEAD) - 1), *means]]


def _cell(value: object, reward: bool) -> str:  # noqa: FBT001 - which kind of column
    if reward or value is None:
        return _number(value)
    return one_line(str(value))


def _number(value: object) -> str:
    return f"{value:z.3f}" if isinstance(value, float) else _NONE


def _short(text: str) -> str:
    return one_line(text, _WIDEST)
