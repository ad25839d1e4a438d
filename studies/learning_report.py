"""The learning study as a table and a picture: medians over seeds, with their band.

Takes the folders of finished runs, gives Markdown and a PNG of small multiples: each reward
over the training steps, for the recipe and its controls, smoothed; lines are medians over
seeds, bands go from the least to the greatest.

Left out deliberately: training (``studies.learning_study``).
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
_TOLD = (
    *(f"held_out_sampled/{name}" for name in (*_PAID, "total", "balanced_accuracy", "questions")),
    "held_out_greedy/balanced_accuracy",
)
_PHASES = ("generation", "judging", "update")
_WINDOW = 9
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Study:
    """Outcomes and curves by variant, one entry a seed; ``control``: each seed's level."""

    outcomes: dict[str, list[dict[str, Any]]]
    curves: dict[str, list[pl.DataFrame]]
    control: list[dict[str, float]]

    @classmethod
    def read(cls, folder: Path, variants: Sequence[str], seeds: int) -> "Study":
        """All finished runs below ``folder``; one that stopped early is none."""
        done: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        for name in variants:
            places = [folder / name / str(seed) for seed in range(1, seeds + 1)]
            told = [(place, _outcome(place)) for place in places]
            done[name] = [(place, outcome) for place, outcome in told if _is_whole(outcome)]
        return cls(
            {name: [outcome for _, outcome in each] for name, each in done.items()},
            {
                name: [pl.read_parquet(place / "curves.parquet") for place, _ in each]
                for name, each in done.items()
            },
            [
                outcome["before"]
                for seed in range(1, seeds + 1)
                if _is_whole(outcome := _outcome(folder / "control" / str(seed)))
            ],
        )


def _outcome(place: Path) -> dict[str, Any]:
    """How a run ended; empty where it did not."""
    path = place / "outcome.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def _is_whole(outcome: dict[str, Any]) -> bool:
    return bool(outcome) and not outcome["stopped"]


def study_page(study: Study, picture: Path) -> str:
    """The tables; the picture is written to ``picture``."""
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
    for key in _TOLD:
        if not all(key in outcome[end] for outcome in outcomes for end in ("before", "after")):
            continue  # nothing to measure it on, such as no trace with two questions
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
    """Median and, in brackets, least and greatest."""
    told = [f"{value:{sign}.3f}" for value in (np.median(values), values.min(), values.max())]
    return told[0] if len(values) == 1 else f"{told[0]} ({told[1]} to {told[2]})"


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
    """The training means of a measure in the order of steps, as moving means."""
    chosen = curves.filter(pl.col("split") == "train", pl.col("measure") == measure).sort("step")
    return np.array(smoothed(chosen["mean"].to_list(), _WINDOW), dtype=float)
