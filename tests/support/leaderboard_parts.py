"""Hand-made systems and scores for tests of what is shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from decomposerl.baselines.method import ClaimInput, Method, Procedure, Steps
from decomposerl.evaluation.leaderboard import METRIC
from decomposerl.evaluation.systems import System, systems
from decomposerl.schemas import SCORES
from plain_rows import plain, table_of


def faithful(question: ClaimInput) -> Steps:
    """A procedure that nobody runs."""
    raise AssertionError(question)


def single_call(question: ClaimInput) -> Steps:
    """Another one."""
    raise AssertionError(question)


ONE = {"faithful": faithful}
TWO = ONE | {"single_call": single_call}
SAME = {"faithful": faithful, "single_call": faithful}


def method(name: str, procedures: Mapping[Any, Procedure]) -> Method:
    """A method by its name; without procedures it is a verifier's."""
    return Method(
        name=name,
        title=name.title(),
        publication="none",
        calls="1",
        procedures=procedures,
        formula=lambda _: 1,
        engine="chat" if procedures else "verifier",
    )


SYSTEMS: tuple[System, ...] = systems(
    (
        method("simple", SAME),
        method("self_ask", TWO),
        method("minicheck", {}),
    ),
    ("paper_7b", "tiny", *(f"{r}-seed_{n}" for r in ("paper_7b", "tiny") for n in (1, 2))),
)


def score(
    system: str,
    benchmark: str,
    value: float | None,
    *,
    engine: str = "rules",
    rows: int = 100,
    metric: str = METRIC,
    **columns: object,
) -> dict[str, object]:
    """One row of ``SCORES`` with an interval of 2 on both sides, and other columns as given."""
    low, high = (None, None) if value is None else (value - 2.0, value + 2.0)
    about = {"benchmark": benchmark, "system": system, "engine": engine, "metric": metric}
    counted = {"rows": rows, "supported": rows // 2}
    return plain("scores", **about, **counted, score=value, low=low, high=high) | columns


def scores(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """Rows as ``SCORES``."""
    return table_of(SCORES, rows)
