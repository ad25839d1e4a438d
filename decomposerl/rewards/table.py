"""A rewarded batch as the long ``REWARDS`` table: one row per value of a trace or question.

The total is in it as a reward named ``total``.
"""

from collections.abc import Iterator

import polars as pl

from decomposerl.rewards.composite import RewardedBatch
from decomposerl.schemas import REWARDS

TOTAL = "total"
_Row = tuple[str, int, str, int, str, int | None, float | None, str, float, bool]


def rewards_frame(batch: RewardedBatch, run: str = "", step: int = 0) -> pl.DataFrame:
    """Rows by rollout, then reward in the catalogue's order, the trace before its questions.

    ``run`` and ``step`` say where the rollouts were sampled.

    Raises:
        SchemaError: two rollouts have the same group and number.
    """
    rows = [row for index in range(len(batch.rollouts)) for row in _rows(batch, index, run, step)]
    return REWARDS.conform(pl.DataFrame(rows, schema=REWARDS.schema, orient="row"))


def _rows(batch: RewardedBatch, index: int, run: str, step: int) -> Iterator[_Row]:
    rollout = batch.rollouts[index]
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
