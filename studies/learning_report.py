"""The learning study as tables and a figure: medians over seeds, with their range.

Reads the folders of finished runs and gives Markdown and a PNG: each reward over the training
steps, smoothed, for the recipe and its controls. Lines are medians over seeds, bands show the
minimum and maximum.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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
_VERDICTS = ("verdict_given", "right_among_given")
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
_Outcomes = Sequence[dict[str, Any]]


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
    """The runs, one table over all of them; writes the figure to ``picture``."""
    picture.write_bytes(_picture(study))
    done = {name: outcomes for name, outcomes in study.outcomes.items() if outcomes}
    parts = [f"![Each reward over the steps]({picture.name})", *_runs(done)]
    if done:
        parts += ["", _table(study, done)]
    return "\n".join(parts)


def _runs(done: Mapping[str, _Outcomes]) -> Iterator[str]:
    yield ""
    for name, outcomes in done.items():
        minutes = [sum(one["seconds"][phase] for phase in _PHASES) / 60 for one in outcomes]
        seeds = f"{len(outcomes)} seed{'s' * (len(outcomes) > 1)}"
        yield (
            f"- `{name}`, {TITLES[name]}: {seeds}, {outcomes[0]['steps']} steps, "
            f"{np.median(minutes):.1f} minutes"
        )


def _table(study: Study, done: Mapping[str, _Outcomes]) -> str:
    """A row for each measure; runs that start from the same values share their column *before*."""
    with_clean = bool(study.clean) and CLEAN not in done and bool(_FLAWED & set(done))
    rows = []
    for key in _REPORTED:
        ends = [one[end] for runs in done.values() for one in runs for end in ("before", "after")]
        if not all(key in end for end in ends):
            continue  # not measurable, for example without a trace of two questions
        split, _, name = key.partition("/")
        cells = [measure_named(name).title + ", greedy" * split.endswith("greedy")]
        for variant, shared in zip(done, _shared(done), strict=True):
            before, change = _cells(done[variant], study.curves[variant], key)
            cells += [change] if shared else [before, change]
        if with_clean:
            cells.append(_band(np.array([each[key] for each in study.clean if key in each])))
        rows.append(cells)
    head = [*_head(done), *["clean warm start"] * with_clean]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(done: Mapping[str, _Outcomes]) -> list[str]:
    columns = ["held-out claims, sampled"]
    for name, shared in zip(done, _shared(done), strict=True):
        columns += [f"change, `{name}`"] if shared else ["before", f"change, `{name}`"]
    return columns


def _shared(done: Mapping[str, _Outcomes]) -> list[bool]:
    """Whether a variant starts from the same values as the variant left of it, seed by seed."""
    starts = [[one["before"] for one in outcomes] for outcomes in done.values()]
    return [at > 0 and start == starts[at - 1] for at, start in enumerate(starts)]


def _cells(outcomes: _Outcomes, curves: Sequence[pl.DataFrame], key: str) -> tuple[str, str]:
    """A measure before training, and its change: medians over seeds, or of a single run."""
    before = np.array([outcome["before"][key] for outcome in outcomes])
    change = np.array([outcome["after"][key] for outcome in outcomes]) - before
    if len(outcomes) > 1:
        return f"{np.median(before):.3f}", _band(change, "+")
    split, _, name = key.partition("/")
    errors = _errors(curves[0], split, name)
    half = f"±{_NORMAL_95 * np.hypot(*errors):.3f}" if errors else ""
    return f"{before[0]:.3f}", f"{change[0]:+.3f}{half}"


def _band(values: NDArray[np.float64], sign: str = "") -> str:
    """Median, and minimum and maximum in brackets; a single value alone, nothing for none."""
    if not len(values):
        return ""
    middle = f"{np.median(values):{sign}.3f}"
    return f"{middle} ({values.min():.3f}..{values.max():.3f})" if len(values) > 1 else middle


def _errors(curves: pl.DataFrame, split: str, name: str) -> tuple[float, float] | None:
    """Standard errors of a measure's mean over the claims, at the first and at the last step.

    The samples of both ends are taken as independent, which makes an interval of the change wide.
    None where the measure is not a mean over claims, as balanced accuracy.
    """
    chosen = curves.filter(pl.col("split") == split, pl.col("measure") == name).sort("step")
    ends = [chosen[_OVER].row(place) for place in (0, -1)] if chosen.height else []
    errors = [spread / rows**0.5 for spread, rows in ends if spread is not None]
    return (errors[0], errors[1]) if len(errors) == len(ends) > 0 else None


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
