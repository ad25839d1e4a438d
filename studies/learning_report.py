"""The learning study as tables and a figure: medians over seeds, with their range.

Reads the folders of finished runs and gives Markdown and a PNG: each reward over the training
steps, smoothed, for the recipe and its controls. Lines are medians over seeds, bands show the
minimum and maximum.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.reports.figure_style import PALETTE, REST, legend, new_grid, png
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.training.curves import measure_named, smoothed

_TITLES = {
    "tiny": "labels on all claims",
    "tiny_s10": "labels on a tenth",
    "tiny_shuffled": "rewards shuffled in groups",
}
_COLOURS = {"tiny": PALETTE[-1], "tiny_s10": PALETTE[2], "tiny_shuffled": REST}
_PAID = tuple(reward.name for reward in REWARDS if reward.weight)
_VERDICTS = ("balanced_accuracy", "verdict_given", "right_among_given")
_REPORTED = (
    *(f"held_out_sampled/{name}" for name in (*_PAID, "total", *_VERDICTS, "questions")),
    "held_out_greedy/balanced_accuracy",
)
_PHASES = ("generation", "judging", "update")
_WINDOW = 9
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Study:
    """Outcomes and curves by variant, one entry per seed; ``control``: levels by seed."""

    outcomes: dict[str, list[dict[str, Any]]]
    curves: dict[str, list[pl.DataFrame]]
    control: list[dict[str, float]]

    @classmethod
    def read(cls, folder: Path, variants: Sequence[str], seeds: int) -> "Study":
        """All finished runs below ``folder``; runs that stopped early are left out."""
        done: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        for name in variants:
            paths = [folder / name / str(seed) for seed in range(1, seeds + 1)]
            outcomes = [(path, _outcome(path)) for path in paths]
            done[name] = [(path, outcome) for path, outcome in outcomes if _is_finished(outcome)]
        return cls(
            {name: [outcome for _, outcome in each] for name, each in done.items()},
            {
                name: [pl.read_parquet(path / "curves.parquet") for path, _ in each]
                for name, each in done.items()
            },
            [
                outcome["before"]
                for seed in range(1, seeds + 1)
                if _is_finished(outcome := _outcome(folder / "control" / str(seed)))
            ],
        )


def _outcome(folder: Path) -> dict[str, Any]:
    """Outcome of a run, empty if it has not finished."""
    path = folder / "outcome.json"
    outcome: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return outcome


def _is_finished(outcome: dict[str, Any]) -> bool:
    return bool(outcome) and not outcome["stopped"]


def study_page(study: Study, picture: Path) -> str:
    """The tables; writes the figure to ``picture``."""
    picture.write_bytes(_picture(study))
    parts = [f"![Each reward over the steps]({picture.name})\n"]
    for name, outcomes in study.outcomes.items():
        if outcomes:
            minutes = [sum(o["seconds"][phase] for phase in _PHASES) / 60 for o in outcomes]
            seeds = f"{len(outcomes)} seed{'s' * (len(outcomes) > 1)}"
            parts.append(
                f"### `{name}`: {_TITLES[name]}\n\n{seeds}, "
                f"{outcomes[0]['steps']} steps, {np.median(minutes):.1f} minutes of generation, "
                "judging and update.\n"
            )
            parts.append(_table(outcomes, study.control))
    return "\n".join(parts)


def _table(outcomes: Sequence[dict[str, Any]], control: Sequence[dict[str, float]]) -> str:
    lines = [
        "| measure, on held-out claims | before | after | change | clean warm start |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for key in _REPORTED:
        if not all(key in outcome[end] for outcome in outcomes for end in ("before", "after")):
            continue  # not measurable, for example without a trace of two questions
        before = np.array([outcome["before"][key] for outcome in outcomes])
        after = np.array([outcome["after"][key] for outcome in outcomes])
        split, _, name = key.partition("/")
        how = "greedy" if split.endswith("greedy") else "sampled"
        level = [each[key] for each in control if key in each]
        lines.append(
            f"| {measure_named(name).title}, {how} | {_band(before)} | {_band(after)} "
            f"| {_band(after - before, '+')} | {_band(np.array(level)) if level else ''} |"
        )
    return "\n".join(lines) + "\n"


def _band(values: NDArray[np.float64], sign: str = "") -> str:
    """Median, and minimum and maximum in brackets."""
    texts = [f"{value:{sign}.3f}" for value in (np.median(values), values.min(), values.max())]
    return texts[0] if len(values) == 1 else f"{texts[0]} ({texts[1]} to {texts[2]})"


def _picture(study: Study) -> bytes:
    names = [*_PAID, "total", "questions"]
    rows = -(-len(names) // _COLUMNS)
    figure, grid = new_grid(11.0, 0.8 + 2.2 * rows, rows, _COLUMNS)
    panels = [axes for line in grid for axes in line]
    for axes, name in zip(panels, names, strict=False):
        axes.set_title(measure_named(name).title, loc="left", fontsize=11)
        for variant, curves in study.curves.items():
            _draw(axes, [_smoothed(one, name) for one in curves], variant)
        key = f"held_out_sampled/{name}"
        levels = [each[key] for each in study.control if key in each]
        if levels:
            axes.axhline(
                float(np.median(levels)),
                color=PALETTE[4],
                linewidth=1.0,
                linestyle="--",
                label="warm start on clean traces",
            )
    for axes in panels[-_COLUMNS:]:
        axes.set_xlabel("optimizer steps")
    legend(figure, panels[0], columns=4)
    return png(figure)


def _draw(axes: Any, lines: Sequence[NDArray[np.float64]], variant: str) -> None:  # noqa: ANN401 - matplotlib's axes
    if not lines:
        return
    length = min(map(len, lines))
    stack = np.stack([line[:length] for line in lines])
    steps = np.arange(length)
    axes.fill_between(
        steps, stack.min(0), stack.max(0), color=_COLOURS[variant], alpha=0.18, linewidth=0
    )
    axes.plot(
        steps,
        np.median(stack, axis=0),
        color=_COLOURS[variant],
        linewidth=1.8,
        label=_TITLES[variant],
    )


def _smoothed(curves: pl.DataFrame, measure: str) -> NDArray[np.float64]:
    """Moving means of a measure's training means, in order of steps."""
    chosen = curves.filter(pl.col("split") == "train", pl.col("measure") == measure).sort("step")
    return np.array(smoothed(chosen["mean"].to_list(), _WINDOW), dtype=float)
