"""What a run measures at each step, and the table of its learning curves.

Takes values of one step (a number a rollout or a group, None where there is none) and gives
rows of ``schemas.CURVES``; takes such a table and gives what health rules, pictures and reports
read from it. The rewards' means and spreads are measures under their own names.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from decomposerl.rewards.catalogue import REWARDS
from decomposerl.schemas import CURVES
from decomposerl.training.health import spread_key

Split = Literal["train", "held_out_sampled", "held_out_greedy"]
Better = Literal["higher", "lower", ""]
TRAIN: Split = "train"


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: its name in tables, its title and unit for readers, and what it is.

    ``better`` says which way a run wants it, empty where neither.
    """

    name: str
    title: str
    unit: str
    meaning: str
    better: Better = ""


_REWARDS = tuple(
    Measure(reward.name, reward.title, "", f"{reward.symbol} over the rollouts", "higher")
    for reward in REWARDS
)
_SHARE, _TOKENS, _SECONDS = "share", "tokens", "s"
MEASURES: tuple[Measure, ...] = (
    *_REWARDS,
    Measure("total", "Weighted sum", "", "weighted sum of the counted rewards", "higher"),
    Measure("loss", "Loss", "", "policy loss of the optimizer step"),
    Measure("learning_rate", "Learning rate", "", "of the optimizer step"),
    Measure("grad_norm", "Gradient norm", "", "before it was clipped"),
    Measure("clip_ratio", "Clipped", _SHARE, "tokens whose probability ratio was clipped"),
    Measure("entropy", "Entropy", "nats", "of the policy's next token, mean over completions"),
    Measure("completion_tokens", "Completion length", _TOKENS, "the end token included"),
    Measure("truncated", "Truncated", _SHARE, "completions that the token limit ended", "lower"),
    Measure(
        "zero_spread_groups",
        "Groups without spread",
        _SHARE,
        "groups whose rollouts all have the same total, so that they move nothing",
        "lower",
    ),
    Measure("judge_failures", "Judge failures", _SHARE, "judged scores without a ruling", "lower"),
    Measure(
        "pseudo_label_agreement",
        "Pseudo-label agreement",
        _SHARE,
        "unlabelled claims whose majority vote is the label that was withheld",
        "higher",
    ),
    Measure("questions", "Questions", "a trace", "complete question-answer pairs"),
    Measure("n_star", "n*", "a claim", "silver sub-questions of the step's claims"),
    Measure(
        "balanced_accuracy",
        "Balanced accuracy",
        _SHARE,
        "mean over the labels of the share of right verdicts; no verdict is wrong",
        "higher",
    ),
    Measure("seconds_generation", "Generation", _SECONDS, "wall time of sampling the rollouts"),
    Measure("seconds_judging", "Judging", _SECONDS, "wall time of judge and embedder"),
    Measure("seconds_update", "Update", _SECONDS, "wall time of loss, gradient and optimizer"),
)
MEASURE_NAMES = tuple(measure.name for measure in MEASURES)
_BY_NAME = {measure.name: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One measure at one step; see ``schemas.CURVES``."""

    mean: float | None
    spread: float | None = None
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """A measure at both ends of a run."""

    split: str
    measure: Measure
    before: float | None
    after: float | None

    @property
    def difference(self) -> float | None:
        """After less before; None where an end has no value."""
        if self.before is None or self.after is None:
            return None
        return self.after - self.before


def measure_named(name: str) -> Measure:
    """The measure of a name; one that is not listed is its own title, without a unit."""
    return _BY_NAME.get(name) or Measure(name, name.replace("_", " "), "", "")


def curve_point(values: Sequence[float | None]) -> CurvePoint:
    """Mean and standard deviation (over all values, not a sample's estimate) of what is there.

    Values that are None or not finite count neither in the mean nor in ``rows``; one value
    alone has no spread.
    """
    found = [value for value in values if value is not None and math.isfinite(value)]
    if not found:
        return CurvePoint(None, None, 0)
    mean = math.fsum(found) / len(found)
    if len(found) == 1:
        return CurvePoint(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in found) / len(found)
    return CurvePoint(mean, math.sqrt(variance), len(found))


def curve_rows(
    run: str, experiment: str, step: int, split: Split, points: Mapping[str, CurvePoint]
) -> pl.DataFrame:
    """The rows of one step and split, one a measure, in the order of ``points``."""
    rows = [
        (run, experiment, step, split, name, at.mean, at.spread, at.rows)
        for name, at in points.items()
    ]
    return pl.DataFrame(rows, schema=CURVES.schema, orient="row")


def history(curves: pl.DataFrame, split: Split = TRAIN) -> list[dict[str, float | None]]:
    """What health rules read: one mapping a step, oldest first, means and spreads by key."""
    steps: dict[int, dict[str, float | None]] = {}
    chosen = curves.filter(pl.col("split") == split).sort("step", maintain_order=True)
    for step, name, mean, spread in chosen.select("step", "measure", "mean", "spread").iter_rows():
        steps.setdefault(step, {}).update({name: mean, spread_key(name): spread})
    return list(steps.values())


def smoothed(values: Sequence[float | None], window: int) -> list[float | None]:
    """The mean of the values in a window around each place, None and not finite left out.

    The window is ``window`` wide, an even one takes one more, and is cut at both ends, so
    that the line is as long as the values and starts and ends near them.
    """
    half = max(window, 1) // 2
    return [
        curve_point(values[max(0, place - half) : place + half + 1]).mean
        for place in range(len(values))
    ]


def ends(curves: pl.DataFrame, window: int) -> tuple[dict[str, float], dict[str, float]]:
    """The training measures at both ends: means over the first and the last ``window`` steps.

    Keys are ``train/<measure>``. A measure without a value at an end is missing there.
    """
    told = history(curves)
    return _mean_of(told[:window]), _mean_of(told[-window:] if window else [])


def _mean_of(steps: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in MEASURE_NAMES:
        mean = curve_point([step.get(name) for step in steps]).mean
        if mean is not None:
            found[f"{TRAIN}/{name}"] = mean
    return found


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[Change]:
    """Both ends side by side; keys are ``<split>/<measure>``, as in a training outcome.

    In the order of ``MEASURES``, splits in the order they are first named, what is not listed
    there at the end.
    """
    order = {name: place for place, name in enumerate(MEASURE_NAMES)}
    keys = list(dict.fromkeys([*before, *after]))
    splits = list(dict.fromkeys(key.rpartition("/")[0] for key in keys))

    def place(key: str) -> tuple[int, int, str]:
        split, _, name = key.rpartition("/")
        return splits.index(split), order.get(name, len(order)), name

    return [
        Change(
            key.rpartition("/")[0],
            measure_named(key.rpartition("/")[2]),
            before.get(key),
            after.get(key),
        )
        for key in sorted(keys, key=place)
    ]
