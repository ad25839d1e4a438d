"""Scores in the layout of LLM-AggreFact's public leaderboard, llm-aggrefact.github.io.

One row for each system: ``model``, ``Size`` (``-`` where the model's name has none), ``Average``,
then the balanced accuracy of the eleven parts, all in percent with one decimal as there. The
average is the mean of the rounded parts, as that page computes it.
"""

import re
from collections.abc import Mapping, Sequence

import polars as pl

from decomposerl.evaluation.systems import System

BENCHMARK = "llm_aggrefact"
PARTS: Mapping[str, str] = {
    "AggreFact-CNN": "CNN",
    "AggreFact-XSum": "XSum",
    "TofuEval-MediaS": "MediaS",
    "TofuEval-MeetB": "MeetB",
    "Wice": "WiCE",
    "Reveal": "REVEAL",
    "ClaimVerify": "ClaimVerify",
    "FactCheck-GPT": "FactCheck",
    "ExpertQA": "ExpertQA",
    "Lfqa": "LFQA",
    "RAGTruth": "RAGTruth",
}
"""The leaderboard's column of each part of the data set, in its order."""
COLUMNS = {
    "model": pl.String(),
    "Size": pl.String(),
    "Average": pl.Float64(),
    **dict.fromkeys(PARTS.values(), pl.Float64()),
}
_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)[ _]?b(?![a-z\d])", re.IGNORECASE)


def aggrefact_rows(scores: pl.DataFrame, systems: Sequence[System]) -> pl.DataFrame:
    """The rows of the systems with ``SCORES`` of LLM-AggreFact, best average first.

    A part without a score is null, and so is the average then.
    """
    of_parts = scores.filter(benchmark=BENCHMARK, slice="subset", metric="balanced_accuracy")
    found = {(row["system"], row["value"]): row["score"] for row in of_parts.to_dicts()}
    scored = set(scores.filter(benchmark=BENCHMARK)["system"])
    rows = [
        _row(one, [found.get((one.key, part)) for part in PARTS])
        for one in systems
        if one.key in scored
    ]
    table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    return table.sort("Average", "model", descending=[True, False], nulls_last=True)


def _row(system: System, parts: Sequence[float | None]) -> tuple[object, ...]:
    shown = [None if part is None else round(part, 1) for part in parts]
    known = [part for part in shown if part is not None]
    average = round(sum(known) / len(PARTS), 1) if len(known) == len(PARTS) else None
    return (system.reader_title, _size(system), average, *shown)


def _size(system: System) -> str:
    entry = system.entry
    names = (entry.model, entry.title) if entry else (system.model.title, system.model.key)
    sizes = (match[1] for name in names if (match := _SIZE.search(name)))
    size = next(sizes, None)
    return f"{size}B" if size else "-"
