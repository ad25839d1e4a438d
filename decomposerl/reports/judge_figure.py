"""Tables and figure of the tiny judge: its heads beside the large judge, and its rewards."""

from typing import TYPE_CHECKING

import polars as pl

from decomposerl.reports.figure_style import GREY, PALETTE, Drawn, drawn, label_text, new_grid
from decomposerl.reports.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_ROW = (
    "The paper reports the end of a training run only: in-domain mean 85.8 with its tiny judge and "
    "86.3 with Qwen3-32B, CoverBench 61.0 and 62.5, LLM-AggreFact 76.4 and 77.0, 48 and 240 "
    "GPU-hours (Table G.6). It gives no agreement and no rewards."
)
_CELL = ("metric", "value", "low", "high")
_HEAD_METRICS = {"agreement": "agreement", "macro_f1": "macro-F1", "kappa": "Cohen's kappa"}
_REWARD_METRICS = {
    "rank_correlation": "rank correlation",
    "mean_shift": "mean shift",
    "reversed_pairs": "pairs reversed",
    "reordered_groups": "groups reordered",
}


def agreement_markdown(agreement: pl.DataFrame) -> str:
    """A row per head: rows, documents, the three metrics with intervals, the most common class."""
    metrics = {**_HEAD_METRICS, "most_common": "most common class"}
    return _wide(agreement, "head", metrics, {"rows": "rows", "documents": "documents"})


def rewards_markdown(study: pl.DataFrame) -> str:
    """A row per judged reward and the total: how the tiny judge changes it."""
    return _wide(study, "reward", _REWARD_METRICS, {"rollouts": "rollouts", "groups": "groups"})


def judges_figure(agreement: pl.DataFrame, study: pl.DataFrame) -> Drawn:
    """Kappa of each head, and how often each reward orders a group otherwise, with intervals."""
    heads, rewards = agreement["head"].n_unique(), study["reward"].n_unique()
    figure, ((left, right),) = new_grid(
        11.0, 1.4 + 0.36 * max(heads, rewards, 4), 1, 2, shared_x=False
    )
    _intervals(left, agreement.filter(metric="kappa"), "head")
    left.set_xlabel("Cohen's kappa with the large judge")
    _intervals(right, study.filter(metric="reordered_groups"), "reward")
    right.set_xlabel("share of groups whose order changes")
    return drawn(figure)


def _intervals(axes: "Axes", rows: pl.DataFrame, name: str) -> None:
    shown = rows.drop_nulls("value").reverse()
    places = range(shown.height)
    low, high = (shown[end].fill_null(shown["value"]) for end in ("low", "high"))
    axes.hlines(places, low, high, color=GREY, linewidth=2)
    axes.plot(shown["value"], places, "o", color=PALETTE[6])
    axes.set_yticks(places, [label_text(one.replace("_", " ")) for one in shown[name]])
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle=":")


def _wide(frame: pl.DataFrame, name: str, metrics: dict[str, str], sizes: dict[str, str]) -> str:
    rows = []
    for (key,), own in frame.group_by(name, maintain_order=True):
        cells = {metric: (v, lo, hi) for metric, v, lo, hi in own.select(_CELL).iter_rows()}
        texts = [_cell(*cells.get(metric, (None, None, None))) for metric in metrics]
        rows.append((key, *own.select(*sizes).row(0), *texts))
    return markdown_table((name, *sizes.values(), *metrics.values()), rows)


def _cell(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if low is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"
