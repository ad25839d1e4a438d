"""Traces for tests of the trace page: hand-made items, results and judged rollouts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl import schemas
from decomposerl.judge.call import JudgeCall
from decomposerl.reports.shown_confidence import VerdictConfidence
from decomposerl.reports.trace_page.items import TraceItem, TraceOrigin
from decomposerl.traces.trace import Cycle
from plain_rows import plain, table_of
from resources.store.parquet import write_parquet

EVIDENCE = (
    "Ada Brown was a swimmer 🏊 from Torbeck. She was born in Odense. Ada Brown won the national "
    "championship in 1937. She retired in 1940."
)
CYCLES = (
    Cycle("Where was Ada Brown born?", "She was born in Odense.", "So far."),
    Cycle("When did Ada Brown win the championship?", "Ada Brown won it in 1937."),
    Cycle("Who trained her?", "I don't know."),
    Cycle("Which bridge did she cross?", "She crossed the long bridge of Maurea."),
)


def item(claim_id: str = "c1", system: str = "one", **changed: Any) -> TraceItem:  # noqa: ANN401 - any field
    """A parsed trace; ``changed`` are fields of ``TraceItem`` or ``TraceOrigin``."""
    names = TraceOrigin.__dataclass_fields__
    own = {name: changed.pop(name) for name in list(changed) if name in names}
    made = TraceItem(
        claim_id=claim_id,
        claim=f"Ada Brown won the national championship ({claim_id}).",
        evidence=EVIDENCE,
        origin=TraceOrigin(system, engine="rules"),
        verdict="Supported",
        status="parsed",
        cycles=CYCLES,
        opening="Let me look.",
        reply="<think>Let me look.</think>",
        gold="Supported",
    )
    return replace(made, origin=replace(made.origin, **own), **changed)


def confidence(normalised: float, calibrated: float | None = None) -> VerdictConfidence:
    """A confidence with a raw part of its own."""
    return VerdictConfidence(0.99, normalised, calibrated, "raw is the word's probability")


@dataclass(frozen=True, slots=True)
class ListedTraces:
    """A ``TraceSource`` over items in memory."""

    given: Sequence[TraceItem]

    @property
    def paths(self) -> list[Path]:
        """No file."""
        return []

    def claim_ids(self) -> list[str]:
        """The claim of each item."""
        return [one.claim_id for one in self.given]

    def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
        """The items of these claims."""
        return (one for one in self.given if one.claim_id in set(claim_ids))


@dataclass(frozen=True, slots=True)
class EchoJudge:
    """A judge whose stored prompt and reply repeat the call's task."""

    engine: str = "chat:echo"

    def recorded(self, calls: Sequence[JudgeCall]) -> list[tuple[str, str]]:
        """One pair of texts for each call."""
        return [(f"prompt of {call.task}", f"reply to {call.task}") for call in calls]


def write_benchmark(data: Path, name: str, claim_ids: Sequence[str]) -> pl.DataFrame:
    """A test set of claims with the evidence of this module, every second one refuted."""
    rows = [
        (
            plain("benchmark_claims")
            | {"claim_id": claim_id, "native_id": claim_id, "source": name}
            | {"native_label": "x", "claim": f"Ada Brown won ({claim_id})."}
            | {"evidence": EVIDENCE, "passages": [EVIDENCE]}
            | {"label": "Refuted" if number % 2 else "Supported"}
        )
        for number, claim_id in enumerate(claim_ids)
    ]
    claims = table_of(schemas.BENCHMARK_CLAIMS, rows)
    write_parquet(claims, data / f"benchmark/{name}.parquet")
    return claims
