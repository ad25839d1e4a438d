"""A funnel step and how a stage runs its steps: every row out once, with its reason.

A step sees the rows still alive, may add columns, and decides which rows leave. A stage is
an ordered list of steps. A later step sees survivors only, so "unique" means unique among
survivors, and a dropped claim drops no other. Rows in = kept + dropped, each of these once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from decomposerl.errors import ConservationError
from decomposerl.kernels.matches import Matches
from decomposerl.schemas import DROPS

_DECIDED = ("reason", "value", "threshold", "matched_claim_id", "matched_source", "engine")

# float32 vectors differ by about 1e-7 between processors, so an engine's number this near to
# its threshold may be on the other side of it elsewhere.
ROUNDING = 1e-6


def just_below(threshold: float) -> float:
    """The least threshold that rounding could turn into ``threshold`` (> 0)."""
    return threshold - ROUNDING if threshold > ROUNDING else threshold


@dataclass(frozen=True, slots=True)
class StepDecision:
    """What one step decided about the rows it saw (series have one entry per row of ``frame``).

    ``frame`` is the input with the step's new columns, rows unchanged in number and order.
    ``drop`` is true where the row leaves. ``reason`` is one word for all rows or a series;
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

    ``reasons`` is the closed list of drop reasons the step may give.
    """

    name: str
    judge: Callable[[pl.DataFrame], StepDecision]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage returns: survivors with their new columns, and the drops (``DROPS``).

    ``engines`` names the program behind each step that has one, whether or not it dropped a
    row; ``pairs`` (``PAIRS``) are the rows that are near each other, where requested;
    ``close`` counts, per step that compares rounded numbers, the rows decided by less than
    ``ROUNDING``; ``steps`` are the names of all steps in order.
    """

    kept: pl.DataFrame
    drops: pl.DataFrame
    engines: Mapping[str, str] = field(default_factory=dict)
    pairs: pl.DataFrame | None = None
    close: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[str, ...] = ()


def run_stage(stage: str, frame: pl.DataFrame, steps: Sequence[Step]) -> StageResult:
    """Run ``steps`` in order over ``frame`` (unique ``claim_id``, ``source``, ``label``).

    Raises:
        ConservationError: a step changed the number or the order of its rows, or used a
            reason outside its closed list.
    """
    alive, left = frame, [DROPS.empty()]
    engines: dict[str, str] = {}
    close: dict[str, int] = {}
    for step in steps:
        decision = step.judge(alive)
        if not decision.frame["claim_id"].equals(alive["claim_id"]):
            raise ConservationError(f"stage '{stage}', step '{step.name}': rows changed places")
        if isinstance(decision.engine, str):
            engines[step.name] = decision.engine
        if decision.close is not None:
            close[step.name] = decision.close
        drop = decision.drop.fill_null(value=False)
        drops = _drops(stage, step, decision).filter(drop)
        unknown = set(drops["reason"].unique()) - set(step.reasons)
        if unknown:
            raise ConservationError(f"step '{step.name}' gave unlisted reasons {sorted(unknown)}")
        left.append(drops)
        alive = decision.frame.filter(~drop)
    names = tuple(step.name for step in steps)
    return StageResult(alive, pl.concat(left), engines, close=close, steps=names)


def with_decided(batches: Iterable[pl.DataFrame], kept: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of ``batches`` that a stage kept, with the columns that it added.

    The stage saw only some columns of all rows, so ``kept`` has those (``claim_id`` among them)
    and the added ones, in the order of the rows.

    Raises:
        ConservationError: ``kept`` has a row that is not in ``batches``, or another order.
    """
    taken = 0
    for batch in batches:
        # The next kept rows are the batch's own, so at most as many as it has.
        ahead = kept[taken : taken + batch.height]
        added = ahead.select("claim_id", *(name for name in kept.columns if name not in batch))
        part = batch.join(added, on="claim_id", how="inner", maintain_order="left")
        if not part["claim_id"].equals(ahead["claim_id"].head(part.height)):
            raise ConservationError("rows changed places while a stage decided about them")
        taken += part.height
        yield part
    if taken != kept.height:
        raise ConservationError(f"{kept.height - taken} kept rows are not among those that came in")


def drop_matched(
    frame: pl.DataFrame, matches: Matches, searched: pl.DataFrame, reason: str, threshold: float
) -> StepDecision:
    """Drop each row of ``frame`` that has a match.

    ``searched`` (``claim_id``, ``source``) holds the rows that ``matches`` refers to.
    """
    return StepDecision(
        frame,
        drop=pl.Series(matches.is_matched),
        reason=reason,
        value=pl.Series(matches.similarity),
        threshold=threshold,
        matched_claim_id=matches.matched_values(searched["claim_id"]),
        matched_source=matches.matched_values(searched["source"]),
        engine=matches.engine,
    )


def where(flags: pl.Series, yes: float | str, no: float | str) -> pl.Series:
    """Per entry ``yes`` where ``flags`` is true, else ``no``."""
    choice = pl.when("flag").then(pl.lit(yes)).otherwise(pl.lit(no))
    return flags.to_frame("flag").select(choice.alias("choice"))["choice"]


def _drops(stage: str, step: Step, decision: StepDecision) -> pl.DataFrame:
    def column(name: str) -> pl.Expr:
        value, dtype = getattr(decision, name), DROPS.schema[name]
        return pl.lit(value.cast(dtype) if isinstance(value, pl.Series) else value, dtype=dtype)

    frame = decision.frame.select("claim_id", "source", "label").with_columns(
        **{name: column(name) for name in _DECIDED}, stage=pl.lit(stage), step=pl.lit(step.name)
    )
    return frame.select(list(DROPS.schema))


def conservation_errors(
    rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame
) -> list[str]:
    """One sentence per violation of a stage and source; empty if the law holds.

    All frames need ``claim_id`` and ``source``. A stage must keep or drop each of its rows,
    exactly once, and no other row.
    """
    out = pl.concat([kept.select("claim_id", "source"), drops.select("claim_id", "source")])
    twice = out.filter(pl.col("claim_id").is_duplicated())
    lost = rows_in.join(out, on="claim_id", how="anti")
    invented = out.join(rows_in, on="claim_id", how="anti")
    return [
        *_sentences("lost", lost),
        *_sentences("kept and dropped, or dropped twice", twice.unique()),
        *_sentences("not among the rows that came in", invented),
    ]


def _sentences(what: str, rows: pl.DataFrame, examples: int = 3) -> Sequence[str]:
    return [
        f"{source}: {part.height} rows {what}, e.g. {', '.join(part['claim_id'].head(examples))}"
        for (source,), part in rows.sort("claim_id").group_by("source", maintain_order=True)
    ]
