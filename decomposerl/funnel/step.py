"""A funnel step and how a stage runs its steps: every row out once, with its reason.

A step sees the rows still alive, may add columns, and says which rows leave. A stage is
an ordered list of steps. Because a later step sees survivors only, "unique" means unique
among survivors and a dropped claim drops nobody.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from decomposerl.errors import ConservationError
from decomposerl.schemas import DROPS

ROUNDING = 1e-6
"""A number of an engine nearer than this to its threshold may fall on the other side on a
processor that rounds differently: float32 vectors differ by about 1e-7."""


def just_below(threshold: float) -> float:
    """The least threshold that rounding could turn into ``threshold`` (> 0)."""
    return threshold - ROUNDING if threshold > ROUNDING else threshold


@dataclass(frozen=True, slots=True)
class StepDecision:
    """One step's word on the rows it saw (all series have one entry a row of ``frame``).

    ``frame`` is the input with the step's new columns, rows unchanged in number and order.
    ``drop`` is true where the row leaves. ``reason`` is one word for all or a series;
    ``value`` and ``threshold`` are the number and the bound; ``matched_*`` name the claim
    that a duplicate or a leak was matched with; ``engine`` the program that gave ``value``;
    ``close`` counts the rows decided by less than ``ROUNDING``, null where nothing rounds.
    """

    frame: pl.DataFrame
    drop: pl.Series
    reason: str | pl.Series
    value: pl.Series | None = None
    threshold: float | pl.Series | None = None
    matched_claim_id: pl.Series | None = None
    matched_source: pl.Series | None = None
    engine: str | pl.Series | None = None
    close: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A named test over the rows still alive.

    ``reasons`` is the closed list of drop reasons the step may give; ``idempotent`` says
    whether running it on its own survivors drops nothing (a law of every rule step).
    """

    name: str
    judge: Callable[[pl.DataFrame], StepDecision]
    reasons: tuple[str, ...]
    idempotent: bool = True


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage gives: survivors with their new columns, and the drops (``DROPS``).

    ``engines`` names the program behind each step that has one, whether or not it dropped a
    row; ``pairs`` (``PAIRS``) are the rows that are near each other, where asked for;
    ``close`` says for each step that compares rounded numbers how many rows were decided by
    less than ``ROUNDING``.
    """

    kept: pl.DataFrame
    drops: pl.DataFrame
    engines: Mapping[str, str] = field(default_factory=dict)
    pairs: pl.DataFrame | None = None
    close: Mapping[str, int] = field(default_factory=dict)


def run_stage(stage: str, frame: pl.DataFrame, steps: Sequence[Step]) -> StageResult:
    """Run ``steps`` in order over ``frame`` (unique ``claim_id``, ``source``, ``label``).

    Raises:
        ConservationError: a step changed the number or the order of its rows, or gave a
            reason outside its closed list.
    """
    alive, left = frame, [DROPS.empty()]
    engines: dict[str, str] = {}
    close: dict[str, int] = {}
    for step in steps:
        judged = step.judge(alive)
        if not judged.frame["claim_id"].equals(alive["claim_id"]):
            raise ConservationError(f"stage '{stage}', step '{step.name}': rows changed places")
        if isinstance(judged.engine, str):
            engines[step.name] = judged.engine
        if judged.close is not None:
            close[step.name] = judged.close
        drop = judged.drop.fill_null(value=False)
        drops = _drops(stage, step, judged).filter(drop)
        unknown = set(drops["reason"].unique()) - set(step.reasons)
        if unknown:
            raise ConservationError(f"step '{step.name}' gave unlisted reasons {sorted(unknown)}")
        left.append(drops)
        alive = judged.frame.filter(~drop)
    return StageResult(alive, pl.concat(left), engines, close=close)


def _drops(stage: str, step: Step, judged: StepDecision) -> pl.DataFrame:
    def column(value: object, dtype: pl.DataType) -> pl.Expr:
        return (
            pl.lit(value, dtype=dtype)
            if not isinstance(value, pl.Series)
            else pl.lit(value.cast(dtype))
        )

    frame = judged.frame.select("claim_id", "source", "label").with_columns(
        stage=pl.lit(stage),
        step=pl.lit(step.name),
        reason=column(judged.reason, pl.String()),
        value=column(judged.value, pl.Float64()),
        threshold=column(judged.threshold, pl.Float64()),
        matched_claim_id=column(judged.matched_claim_id, pl.String()),
        matched_source=column(judged.matched_source, pl.String()),
        engine=column(judged.engine, pl.String()),
    )
    return frame.select(list(DROPS.schema))
