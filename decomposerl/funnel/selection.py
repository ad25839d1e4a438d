"""Diversity selection within label-by-source cells (paper, "Diversity Selection").

Every label has the same budget; its sources share it by the square root of their counts.
Claims that are not selected are not dropped here: see ``long_evidence``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from decomposerl.funnel.parts import embedded, embeds_in_blocks
from decomposerl.funnel.settings import SelectionSettings
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.kernels.cosine_parts import Vectors
from decomposerl.kernels.selectors import Rows, Selection, select_each
from decomposerl.kernels.stochastic_greedy import stochastic_greedy
from decomposerl.ports import Embedder, Tasks
from decomposerl.schemas import SELECTION_CELLS


@dataclass(frozen=True, slots=True)
class SelectedClaims:
    """The selected rows, and per cell its size, budget and selection.

    ``kept`` is in input order with ``bucket``, ``selection_rank`` and ``selection_gain``
    added; ``cells`` (``SELECTION_CELLS``) has one row per cell, by label and source.
    """

    kept: pl.DataFrame
    cells: pl.DataFrame


def quotas(available: Mapping[str, int], budget: int) -> dict[str, int]:
    """The number of rows to select from each source of one label.

    Shares are proportional to sqrt(available), rounded by largest remainder (ties to the
    larger source, then the smaller name). A source whose share reaches its size contributes
    all its rows, and the rest of the budget is shared again among the others. Quotas sum to
    ``min(budget, total)``, and a larger source never has a smaller quota.
    """
    quota_of: dict[str, int] = {}
    left = min(budget, sum(available.values()))
    sharing = {source for source, rows in available.items() if rows}
    while sharing:
        shares = _shares({source: available[source] for source in sharing}, left)
        full = {source for source in sharing if shares[source] >= available[source]}
        if not full:
            quota_of |= _rounded(shares, available, left)
            break
        quota_of |= {source: available[source] for source in full}
        left -= sum(available[source] for source in full)
        sharing -= full
    return {source: quota_of.get(source, 0) for source in available}


def _shares(available: Mapping[str, int], budget: int) -> dict[str, float]:
    total = math.fsum(math.sqrt(rows) for rows in available.values())
    return {source: budget * math.sqrt(rows) / total for source, rows in available.items()}


def _rounded(
    shares: Mapping[str, float], available: Mapping[str, int], total: int
) -> dict[str, int]:
    floors = {source: math.floor(share) for source, share in shares.items()}
    by_remainder = sorted(
        shares, key=lambda source: (floors[source] - shares[source], -available[source], source)
    )
    extra = set(by_remainder[: total - sum(floors.values())])
    return {source: floor + (source in extra) for source, floor in floors.items()}


def select_cells(
    frame: pl.DataFrame,
    settings: SelectionSettings,
    embedder: Embedder,
    tasks: Tasks | None = None,
) -> SelectedClaims:
    """Select up to ``budget_per_label`` claims of each label.

    ``frame`` needs ``claim``, ``label``, ``source``. Within a cell ``selection_rank``
    counts from 0 in order of choice and ``selection_gain`` sums to the cell's f(S).
    """
    cells = label_source_cells(frame, settings.budget_per_label)
    rows_of = [np.array(rows, np.int64) for rows in cells["rows"].to_list()]
    quota = list(zip(rows_of, cells["budget"].to_list(), strict=True))
    chosen = _chosen(frame["claim"], quota, settings, embedder, tasks)
    ranks, gains = np.full(frame.height, -1, np.int64), np.zeros(frame.height)
    for rows, selection in zip(rows_of, chosen, strict=True):
        ranks[rows[selection.picks]] = np.arange(len(selection.picks))
        gains[rows[selection.picks]] = selection.gains
    kept = frame.with_columns(
        bucket=pl.col("label") + "|" + pl.col("source"),
        selection_rank=pl.Series(ranks),
        selection_gain=pl.Series(gains),
    ).filter(pl.col("selection_rank") >= 0)
    named = cells.drop("rows").iter_rows(named=True)
    lines = [_line(cell, selection) for cell, selection in zip(named, chosen, strict=True)]
    return SelectedClaims(kept, pl.DataFrame(lines, schema=SELECTION_CELLS.schema))


def _chosen(
    claims: pl.Series,
    quota: Sequence[tuple[Rows, int]],
    settings: SelectionSettings,
    embedder: Embedder,
    tasks: Tasks | None,
) -> list[Selection]:
    """What is picked in each cell, one cell's vectors at a time where all are too many."""
    if embeds_in_blocks(settings, len(claims), tasks):
        chosen = list[Selection]()
        for rows, k in quota:
            vectors = np.concatenate([*embedded(claims.gather(rows), settings, embedder)])
            chosen += _picked(vectors, [(np.arange(len(rows)), k)], settings)
        return chosen
    texts = claims.to_list()
    empty = np.empty((0, 1), np.float32)
    return _picked(
        unit_rows(embedder.embed(texts), len(texts)) if texts else empty, quota, settings
    )


def _picked(
    vectors: Vectors, quota: Sequence[tuple[Rows, int]], settings: SelectionSettings
) -> list[Selection]:
    """What is picked of some rows of ``vectors``, which ascend, for each ``(rows, k)``."""
    method, seed, threads = settings.selector, settings.seed, settings.threads
    most = settings.exact_cell if method == "facility_location" else len(vectors)
    few = [(rows, k) for rows, k in quota if len(rows) <= most]
    exact = iter(select_each(vectors, few, method, seed, threads=threads))
    chosen = list[Selection]()
    for rows, k in quota:
        if len(rows) <= most:
            chosen.append(next(exact))
            continue
        part = vectors if len(rows) == len(vectors) else vectors[rows]
        chosen.append(stochastic_greedy(part, k, seed=seed, threads=threads))
    return chosen


def label_source_cells(frame: pl.DataFrame, budget_per_label: int) -> pl.DataFrame:
    """One row per cell, by label and source: ``rows`` of the frame, ``available``, ``budget``.

    ``frame`` needs ``label`` and ``source``.
    """
    cells = (
        frame.select("label", "source", rows=pl.int_range(pl.len()))
        .group_by("label", "source", maintain_order=True)
        .agg("rows", available=pl.len().cast(pl.Int64()))
        .sort("label", "source")
    )
    budgets = [
        budget
        for (_,), part in cells.group_by("label", maintain_order=True)
        for budget in quotas(
            dict(part.select("source", "available").rows()), budget_per_label
        ).values()
    ]
    return cells.with_columns(budget=pl.Series(budgets, dtype=pl.Int64()))


def _line(cell: Mapping[str, object], chosen: Selection) -> dict[str, object]:
    def within(cosine: float) -> float:
        return float((chosen.cover >= np.float32(cosine)).mean())

    return {
        "bucket": f"{cell['label']}|{cell['source']}",
        **cell,
        "selected": len(chosen.picks),
        "objective": chosen.objective,
        "mean_cover": chosen.objective / len(chosen.cover),
        "within_0_5": within(0.5),
        "within_0_7": within(0.7),
        "within_0_9": within(0.9),
        "evaluations": chosen.evaluations,
    }
