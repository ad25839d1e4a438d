"""Tables and pictures of a made-up run, for tests of the report."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from decomposerl.evaluation.published import MEAN_IN
from decomposerl.reports.figure_style import Drawn
from decomposerl.reports.report_parts import ReportData, StudyPicture, TrainedRun
from decomposerl.schemas import (
    ATTRITION,
    CHAT_REPLIES,
    COMPARISON,
    CURVES,
    LEADERBOARD,
    SELECTION_CELLS,
    STAGE_RUNS,
)
from plain_rows import plain, table_of

HOSTILE = "<script>alert(1)</script> $x$ | `y` **z** 测 \u202e&amp;"
PNG = b"\x89PNG\r\n\x1a\n made up"
_VERDICTS = {
    "system": pl.String(),
    "engine": pl.String(),
    "reading": pl.String(),
    "confidence": pl.Float64(),
    "right": pl.Boolean(),
}
_CALLS = {
    "system": pl.String(),
    "engine": pl.String(),
    **dict.fromkeys(("claims", "calls", "prompt_tokens", "completion_tokens"), pl.Int64()),
    **dict.fromkeys(("dollars", "seconds"), pl.Float64()),
}


def board_row(
    system: str,
    score: float | None,
    *,
    benchmark: str = MEAN_IN,
    status: str = "scored",
    title: str = "",
    table: int = 0,
    paper: float | None = None,
) -> dict[str, object]:
    """A row of ``LEADERBOARD``; without a score it was not run."""
    shown = {"system": system, "method": system, "title": title or f"System {system}"}
    unscored = {"engine": None, "low": None, "high": None}
    interval = unscored if score is None else {"low": score - 5, "high": score + 5}
    given = {"benchmark": benchmark, "status": status, "table": table, "paper": paper}
    return plain("leaderboard", **shown, **interval, **given, score=score)


def board(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """``LEADERBOARD`` of rows in any order."""
    return pl.DataFrame(list(rows), schema=LEADERBOARD.schema)


def pair(system: str, other: str, difference: float, p: float | None = 0.01) -> dict[str, object]:
    """A row of ``COMPARISON`` with an interval of five points on both sides."""
    limited = {"limited": p is None, "no_p": "limited run" if p is None else None}
    interval = {"difference": difference, "low": difference - 5, "high": difference + 5}
    return plain("comparison", system=system, other=other, **interval, **limited, p=p, p_holm=p)


def comparison(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
    """``COMPARISON`` of these rows."""
    return table_of(COMPARISON, rows)


def verdicts(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """System, engine, reading, confidence, right."""
    return pl.DataFrame(list(rows), schema=_VERDICTS, orient="row")


def calls(rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """System, engine, claims, calls, tokens of prompts and completions, dollars, seconds."""
    return pl.DataFrame(list(rows), schema=_CALLS, orient="row")


def run_data(name: str = "a") -> ReportData:
    """A run that has every part; ``name`` is its source, its systems' title, its study."""
    return ReportData(
        attrition=_attrition(name),
        selected=pl.DataFrame(
            {"bucket": ["c", "c"], "selection_rank": [0, 1], "selection_gain": [1.5, 0.5]}
        ),
        cells=_cells(name),
        leaderboard=board([board_row("a", 60.0, title=name, paper=58.0), board_row("b", 40.0)]),
        comparison=comparison([pair("a", "b", 20.0)]),
        verdicts=verdicts([("a", "rules:1", "test sets", 0.8, n % 2 == 0) for n in range(40)]),
        calls=calls([("a", "rules:1", 10, 35, 900, 100, 0.5, 2.0)]),
        replies=_replies(),
        runs=_runs(),
        trained=(_trained(),),
        studies=(StudyPicture(name, Drawn(b"", PNG), f"What {name} shows."),),
        source_titles={"toy": name},
        benchmark_titles={"fever": "FEVER"},
        system_titles={"a": name},
        paper_raw={"toy": 100},
    )


def _attrition(reason: str) -> pl.DataFrame:
    rows = [
        ("claims", 0, "toy", "Supported", "kept", "", "", 10),
        ("rule_filtered", 1, "toy", "Supported", "kept", "", "", 4),
        ("rule_filtered", 1, "toy", "Supported", "dropped", "entities", reason, 6),
    ]
    return pl.DataFrame(rows, schema=ATTRITION.schema, orient="row")


def _cells(source: str) -> pl.DataFrame:
    row = ("c", "Supported", source, 4, 2, 2, 2.0, 0.5, 0.5, 0.5, 0.5, 3)
    return pl.DataFrame([row], schema=SELECTION_CELLS.schema, orient="row")


def _replies() -> pl.DataFrame:
    row = {"key": "k", "model": "m", "template": "silver", "prompt_tokens": 7}
    return pl.DataFrame([row | {"completion_tokens": 3}], schema=CHAT_REPLIES.schema)


def _runs() -> pl.DataFrame:
    row = {
        "stage": "rule_filtered",
        "finished_at": "2026-01-02T03:04:05+00:00",
        "seconds": 2.0,
        "engine": "rules:1",
        "engine_calls": 10,
        "engine_hits": 2,
        "step_engines": '{"entities": "rules:1"}',
    }
    picked = {"stage": "diversity_selected", "engine": "minilm:1", "seconds": 0.5}
    return pl.DataFrame([row, picked], schema=STAGE_RUNS.schema)


def _trained() -> TrainedRun:
    rows = [
        ("r", "tiny", step, "train", name, float(step), 0.1, 8)
        for step in range(3)
        for name in ("format", "total")
    ]
    curves = pl.DataFrame(rows, schema=CURVES.schema, orient="row")
    before = {"held_out_greedy/balanced_accuracy": 0.5, "held_out_sampled/total": 1.0}
    after = {"held_out_greedy/balanced_accuracy": 0.75, "held_out_sampled/total": 2.0}
    return TrainedRun("tiny", curves, "judge rules:1", 3, before, after, {"generation": 60.0})
