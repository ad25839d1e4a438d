"""The trick study as tables and figures: what tricks earn, and what a free policy found.

Beyond the paper, which has no such table. Intervals are percentiles of a bootstrap over claims;
claims that share their evidence are drawn together.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from decomposerl.evaluation.metrics import Numbers, ratio, shared_evidence
from decomposerl.reports.figure_style import GREY, INK, PALETTE, Drawn, drawn, legend, new_figure
from decomposerl.reports.tables import markdown_table
from decomposerl.rewards.scoring import TOTAL, RewardedBatch
from decomposerl.rewards.settings import STRICT, UNGUARDED, RewardSettings
from studies.trick_scripts import TRICKS
from studies.trick_tables import TRICK_STUDY

READINGS: Mapping[str, RewardSettings] = {
    "paper": RewardSettings(),
    "literal": RewardSettings(abstention="literal"),
    "necessity_mean": RewardSettings(necessity="mean"),
    "unguarded": UNGUARDED,
    "grounding": RewardSettings(grounding="required"),
    "silence": RewardSettings(silence="refutes"),
    "part": RewardSettings(abstention="part"),
    "restating": RewardSettings(restating="marked"),
    "strict": STRICT,
}
"""What tricks are paid under: the default, each other setting alone, and all guards off or on."""
_TITLES = {trick.name: trick.title for trick in TRICKS}
DRAWN = ("unguarded", "paper", "strict")
"""The readings in the figure."""
_MARKERS = {
    "unguarded": ("^", PALETTE[4]),
    "paper": ("o", PALETTE[-1]),
    "strict": ("s", PALETTE[2]),
}
_NOTICED = ("sign seen", "false alarms", "health")


class _Paid(NamedTuple):
    """One reward: what each trace earns, shape (claims, traces), the honest trace first."""

    reading: str
    reward: str
    values: Numbers


def trick_table(batches: Mapping[str, RewardedBatch], engine: str) -> pl.DataFrame:
    """``TRICK_STUDY`` from one batch per reading.

    Each batch has, claim by claim, the honest trace and then those of ``TRICKS``.
    """
    paid = [one for reading, batch in batches.items() for one in _paid(reading, batch)]
    some = next(iter(batches.values()))
    bounds = _bounds(paid, some)
    rows = [
        row
        for one, (low, high) in zip(paid, bounds, strict=True)
        for row in _rows(one, low, high, engine)
    ]
    return TRICK_STUDY.conform(pl.DataFrame(rows, schema=TRICK_STUDY.schema, orient="row"))


def _paid(reading: str, batch: RewardedBatch) -> list[_Paid]:
    columns = {**batch.counted, TOTAL: batch.totals}
    return [
        _Paid(reading, name, np.array(values, dtype=float).reshape(-1, 1 + len(TRICKS)))
        for name, values in columns.items()
    ]


def _bounds(paid: Sequence[_Paid], batch: RewardedBatch) -> list[tuple[Numbers, Numbers]]:
    """Lower and upper ends of the gains of each reward, shape (tricks,) each."""
    first = [case.rollout for case in batch.cases[:: 1 + len(TRICKS)]]
    evidence = shared_evidence([one.evidence for one in first])
    ends = []
    for one in paid:
        gains = (one.values[:, 1:] - one.values[:, :1]).T
        means = [ratio(np.nan_to_num(gain), ~np.isnan(gain), evidence) for gain in gains]
        ends.append(
            (np.array([mean.low for mean in means]), np.array([mean.high for mean in means]))
        )
    return ends


def _rows(one: _Paid, low: Numbers, high: Numbers, engine: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for at, trick in enumerate(TRICKS):
        pair = one.values[:, [0, at + 1]]
        pair = pair[~np.isnan(pair).any(axis=1)]
        gains = pair[:, 1] - pair[:, 0]
        means = [_number(column.mean()) if len(pair) else None for column in (*pair.T, gains)]
        more = _number((gains > _EQUAL).mean()) if len(pair) else None
        ends = (_number(low[at]), _number(high[at]))
        rows.append((one.reading, trick.name, one.reward, len(pair), *means, *ends, more, engine))
    return rows


_DECIMALS = 9
_EQUAL = 10.0**-_DECIMALS


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _gain(row: Mapping[str, object]) -> str:
    gain, low, high = row["gain"], row["low"], row["high"]
    if gain is None:
        return "–"
    ends = "" if low is None else f" ({low:+.2f}..{high:+.2f})"
    pays = isinstance(low, float) and low > 0
    return f"{gain:+.2f}{ends}{'*' * pays}"


def paid_and_noticed_markdown(table: pl.DataFrame, signs: pl.DataFrame) -> str:
    """One row per trick: its gain in the weighted sum by reading, and what notices it.

    An asterisk marks a gain whose interval is above 0.
    """
    totals = table.filter(reward=TOTAL)
    readings = totals["reading"].unique(maintain_order=True).to_list()
    gains = {(row["trick"], row["reading"]): row for row in totals.iter_rows(named=True)}
    rows = [
        [row["title"], *(_gain(gains[row["trick"], one]) for one in readings), *_noticed(row)]
        for row in signs.iter_rows(named=True)
    ]
    return markdown_table(["trick", *readings, *_NOTICED], rows)


def _noticed(row: Mapping[str, Any]) -> list[str]:
    rules = ", ".join(row["health_rules"]) or "none"
    return [f"{100 * row['seen']:.0f} %", f"{100 * row['false_alarms']:.0f} %", rules]


def tricks_figure(table: pl.DataFrame) -> Drawn:
    """The gain in the weighted sum of each trick under three readings, with intervals."""
    chosen = table.filter(pl.col("reward") == TOTAL, pl.col("reading").is_in(DRAWN))
    names = [trick.name for trick in TRICKS]
    figure, axes = new_figure(8.0, 0.9 + 0.36 * len(names))
    for shift, reading in enumerate(DRAWN):
        part = {row["trick"]: row for row in chosen.filter(reading=reading).iter_rows(named=True)}
        marker, colour = _MARKERS[reading]
        places = [place + 0.22 * (shift - 1) for place in range(len(names))]
        gains = [part[name]["gain"] for name in names]
        axes.plot(gains, places, marker, color=colour, markersize=5, label=reading)
        for place, name in zip(places, names, strict=True):
            if part[name]["low"] is not None:
                ends = [part[name]["low"], part[name]["high"]]
                axes.plot(ends, [place, place], "-", color=colour, linewidth=1.2)
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set_yticks(range(len(names)), [_TITLES[name] for name in names], color=INK)
    axes.invert_yaxis()
    axes.set_xlabel("weighted sum: trick less honest trace")
    legend(figure, axes, columns=3)
    return drawn(figure)
