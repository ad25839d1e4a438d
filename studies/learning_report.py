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

CLEAN = "tiny_clean"
"""The run that starts from the warm start on clean traces."""
_FLAWED = {"tiny", "tiny_s10", "tiny_shuffled"}
"""Those that start from planted flaws, which are compared with the clean warm start."""
TITLES = {
    "tiny": "labels on all claims",
    "tiny_s10": "labels on a tenth",
    "tiny_shuffled": "rewards shuffled in groups",
    CLEAN: "from the clean warm start",
    "smol": "SmolLM2-135M-Instruct, labels on all claims",
}
_COLOURS = {
    "tiny": PALETTE[-1],
    "tiny_s10": PALETTE[2],
    "tiny_shuffled": REST,
    CLEAN: PALETTE[4],
    "smol": PALETTE[-1],
}
_PAID = tuple(reward.name for reward in REWARDS if reward.weight)
_VERDICTS = ("balanced_accuracy", "verdict_given", "right_among_given")
_REPORTED = (
    *(f"held_out_sampled/{name}" for name in (*_PAID, "total", *_VERDICTS, "questions")),
    "held_out_greedy/balanced_accuracy",
)
_DRAWN = (*_PAID, "total", "questions", "verdict_given", "right_among_given")
_PHASES = ("generation", "judging", "update")
_WINDOW = 9
_COLUMNS = 3
_NORMAL_95 = 1.96
_OVER = ["spread", "rows"]


@dataclass(frozen=True, slots=True)
class Study:
    """Outcomes and curves by variant, one entry per seed.

    ``clean``: the measures of the clean warm start before any step, by seed.
    """

    outcomes: dict[str, list[dict[str, Any]]]
    curves: dict[str, list[pl.DataFrame]]
    clean: list[dict[str, float]]

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
                if _is_finished(outcome := _outcome(folder / CLEAN / str(seed)))
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
                f"### `{name}`: {TITLES[name]}\n\n{seeds}, "
                f"{outcomes[0]['steps']} steps, {np.median(minutes):.1f} minutes of generation, "
                "judging and update.\n"
            )
            clean = study.clean if name in _FLAWED else ()
            parts.append(_table(outcomes, study.curves[name], clean))
    return "\n".join(parts)


def _table(
    outcomes: Sequence[dict[str, Any]],
    curves: Sequence[pl.DataFrame],
    clean: Sequence[dict[str, float]],
) -> str:
    lines = [
        "| measure, on held-out claims | before | after | change |",
        "| --- | ---: | ---: | ---: |",
    ]
    if clean:
        lines = [lines[0] + " clean warm start |", lines[1] + " ---: |"]
    for key in _REPORTED:
        if not all(key in outcome[end] for outcome in outcomes for end in ("before", "after")):
            continue  # not measurable, for example without a trace of two questions
        before = np.array([outcome["before"][key] for outcome in outcomes])
        after = np.array([outcome["after"][key] for outcome in outcomes])
        split, _, name = key.partition("/")
        how = "greedy" if split.endswith("greedy") else "sampled"
        cells = [f"{measure_named(name).title}, {how}"]
        if len(outcomes) > 1:
            cells += [_band(before), _band(after), _band(after - before, "+")]
        else:
            cells += _interval(before[0], after[0], _errors(curves[0], split, name))
        if clean:
            level = [each[key] for each in clean if key in each]
            cells.append(_band(np.array(level)) if level else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _band(values: NDArray[np.float64], sign: str = "") -> str:
    """Median, and minimum and maximum in brackets; a single value alone."""
    if len(values) == 1:
        return f"{values[0]:{sign}.3f}"
    return _cell(float(np.median(values)), values.min(), values.max(), sign)


def _cell(value: float, low: float, high: float, sign: str = "") -> str:
    return f"{value:{sign}.3f} ({low:{sign}.3f} to {high:{sign}.3f})"


def _errors(curves: pl.DataFrame, split: str, name: str) -> tuple[float, float] | None:
    """Standard errors of a measure's mean over the claims, at the first and at the last step.

    None where the measure is not a mean over claims, as balanced accuracy.
    """
    chosen = curves.filter(pl.col("split") == split, pl.col("measure") == name).sort("step")
    ends = [chosen[_OVER].row(place) for place in (0, -1)] if chosen.height else []
    errors = [spread / rows**0.5 for spread, rows in ends if spread is not None]
    return (errors[0], errors[1]) if len(errors) == len(ends) > 0 else None


def _interval(before: float, after: float, errors: tuple[float, float] | None) -> list[str]:
    """The cells of a single run: values and change with 95 % intervals over the claims.

    The samples of both ends are taken as independent, so the change's interval is wide.
    """
    change = after - before
    if errors is None:
        return [f"{before:.3f}", f"{after:.3f}", f"{change:+.3f}"]
    first, last = (_NORMAL_95 * error for error in errors)
    both = float(np.hypot(first, last))
    return [
        _cell(before, before - first, before + first),
        _cell(after, after - last, after + last),
        _cell(change, change - both, change + both, "+"),
    ]


def _picture(study: Study) -> bytes:
    rows = -(-len(_DRAWN) // _COLUMNS)
    figure, grid = new_grid(11.0, 0.8 + 2.2 * rows, rows, _COLUMNS)
    panels = [axes for line in grid for axes in line]
    for axes, name in zip(panels, _DRAWN, strict=False):
        axes.set_title(measure_named(name).title, loc="left", fontsize=11)
        for variant, curves in study.curves.items():
            _draw(axes, [_smoothed(one, name) for one in curves], variant)
        key = f"held_out_sampled/{name}"
        compared = study.clean if _FLAWED & set(study.curves) else ()
        levels = [each[key] for each in compared if key in each]
        if levels:
            axes.axhline(
                float(np.median(levels)),
                color=PALETTE[4],
                linewidth=1.0,
                linestyle="--",
                label="clean warm start, untrained",
            )
    for axes in panels[len(_DRAWN) :]:
        axes.set_visible(False)
    for axes in panels[len(_DRAWN) - _COLUMNS : len(_DRAWN)]:
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
        label=TITLES[variant],
    )


def _smoothed(curves: pl.DataFrame, measure: str) -> NDArray[np.float64]:
    """Moving means of a measure's training means, in order of steps."""
    chosen = curves.filter(pl.col("split") == "train", pl.col("measure") == measure).sort("step")
    return np.array(smoothed(chosen["mean"].to_list(), _WINDOW), dtype=float)
