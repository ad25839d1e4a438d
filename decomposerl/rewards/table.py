"""A scored batch as the ``REWARDS`` table: one row a value, traces and questions alike.

Takes ``RewardedBatch``, gives the long frame; the total stands in it as a reward named ``total``.

Left out deliberately: means (``reports.reward_report``) and the rulings (``JUDGE_CALLS``).
"""

from collections.abc import Iterator

import polars as pl

from decomposerl.rewards.composite import RewardedBatch
from decomposerl.schemas import REWARDS

TOTAL = "total"
Row = tuple[str, int, str, int, str, int | None, float | None, str, float, bool]


def rewards_frame(scored: RewardedBatch, run: str = "", step: int = 0) -> pl.DataFrame:
    """Rows by rollout, then reward in the catalogue's order, the trace before its questions.

    ``run`` and ``step`` say where the rollouts were sampled.

    Raises:
        SchemaError: two rollouts have the same group and number.
    """
    rows = [row for index in range(len(scored.rollouts)) for row in _rows(scored, index, run, step)]
    return REWARDS.conform(pl.DataFrame(rows, schema=REWARDS.schema, orient="row"))


def _rows(scored: RewardedBatch, index: int, run: str, step: int) -> Iterator[Row]:
    rollout = scored.rollouts[index]
    place = (run, step, rollout.group, rollout.number)
    for name, scores in scored.results.items():
        found, weight = scores[index], scored.weights[name]
        counts = scored.counted[name][index] is not None
        yield (*place, name, None, found.value, found.state, weight, counts)
        for number, question in enumerate(found.questions):
            yield (*place, name, number, question.value, question.state, weight, counts)
    total = scored.totals[index]
    state = "scored" if total is not None else "dropped"
    yield (*place, TOTAL, None, total, state, 1.0, total is not None)
