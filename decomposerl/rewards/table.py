"""A rewarded batch for others: the long ``REWARDS`` table, and JSON objects by rollout.

The table has one row per value of a trace or question; the total is a reward named ``total``.
"""

from collections.abc import Iterator

import polars as pl

from decomposerl.rewards.scoring import RewardedBatch
from decomposerl.schemas import REWARDS

TOTAL = "total"
_Row = tuple[str, int, str, int, str, int | None, float | None, str, float, bool]


def rewards_frame(batch: RewardedBatch, run: str = "", step: int = 0) -> pl.DataFrame:
    """Rows by rollout, then reward in the catalogue's order, the trace before its questions.

    ``run`` and ``step`` say where the rollouts were sampled.

    Raises:
        SchemaError: two rollouts have the same group and number.
    """
    rows = [row for index in range(len(batch.cases)) for row in _rows(batch, index, run, step)]
    return REWARDS.conform(pl.DataFrame(rows, schema=REWARDS.schema, orient="row"))


def _rows(batch: RewardedBatch, index: int, run: str, step: int) -> Iterator[_Row]:
    rollout = batch.cases[index].rollout
    key = (run, step, rollout.group, rollout.number)
    for name, results in batch.results.items():
        result, weight = results[index], batch.weights[name]
        counts = batch.counted[name][index] is not None
        yield (*key, name, None, result.value, result.state, weight, counts)
        for number, question in enumerate(result.questions):
            yield (*key, name, number, question.value, question.state, weight, counts)
    total = batch.totals[index]
    state = "scored" if total is not None else "dropped"
    yield (*key, TOTAL, None, total, state, 1.0, total is not None)


def reward_objects(batch: RewardedBatch) -> list[dict[str, object]]:
    """Each rollout as JSON values: ``group``, ``rollout``, ``total`` and ``rewards`` by name.

    A reward has ``value`` (null unless ``state`` is scored), ``state``, ``weight``, ``counted``
    (what enters the total before the weight, or null) and, where it has values by question,
    ``questions`` in the order of the cycles.
    """
    return [
        {
            "group": case.rollout.group,
            "rollout": case.rollout.number,
            "total": batch.totals[index],
            "rewards": {name: _reward_object(batch, name, index) for name in batch.results},
        }
        for index, case in enumerate(batch.cases)
    ]


def _reward_object(batch: RewardedBatch, name: str, index: int) -> dict[str, object]:
    result = batch.results[name][index]
    values: dict[str, object] = {
        "value": result.value,
        "state": result.state,
        "weight": batch.weights[name],
        "counted": batch.counted[name][index],
    }
    asked = [{"value": one.value, "state": one.state} for one in result.questions]
    return values | ({"questions": asked} if asked else {})
