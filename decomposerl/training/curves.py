"""What a run measures at each step, and the table of its learning curves.

Values of one step (one per rollout or group, None where there is none) become rows of
``schemas.CURVES``; health rules, figures and reports read them back. The rewards' means and
spreads are measures under their own names.
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
_GAP = "mean distance a token between the sampler's log-probability and {}; vLLM only"
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
    Measure("judge_failures", "Judge failures", _SHARE, "judged rewards without a ruling", "lower"),
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
    Measure("verdict_given", "Verdict given", _SHARE, "completions with a verdict", "higher"),
    Measure(
        "right_among_given",
        "Right among given",
        _SHARE,
        "right verdicts among the completions with a verdict",
        "higher",
    ),
    Measure("sampler_gap", "Sampler to policy", "nats", _GAP.format("the trainer's"), "lower"),
    Measure("sampler_gap_base", "Sampler to base", "nats", _GAP.format("the base model's")),
    Measure("sampler_nll", "Sampler's surprisal", "nats", "of its tokens, by itself; vLLM only"),
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
    """The measure with this name; an unlisted one has its name as title and no unit."""
    return _BY_NAME.get(name) or Measure(name, name.replace("_", " "), "", "")


def curve_point(values: Sequence[float | None]) -> CurvePoint:
    """Mean and population standard deviation of the finite values; a single one has no spread.

    Values that are None or not finite count neither in the mean nor in ``rows``.
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return CurvePoint(None, None, 0)
    mean = math.fsum(finite) / len(finite)
    if len(finite) == 1:
        return CurvePoint(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in finite) / len(finite)
    return CurvePoint(mean, math.sqrt(variance), len(finite))


def curve_rows(
    run: str, experiment: str, step: int, split: Split, points: Mapping[str, CurvePoint]
) -> pl.DataFrame:
    """The rows of one step and split, one per measure, in the order of ``points``."""
    rows = [
        (run, experiment, step, split, name, at.mean, at.spread, at.rows)
        for name, at in points.items()
    ]
    return pl.DataFrame(rows, schema=CURVES.schema, orient="row")


def history(curves: pl.DataFrame, split: Split = TRAIN) -> list[dict[str, float | None]]:
    """What health rules read: one mapping per step, oldest first, means and spreads by key."""
    steps: dict[int, dict[str, float | None]] = {}
    chosen = curves.filter(pl.col("split") == split).sort("step", maintain_order=True)
    for step, name, mean, spread in chosen.select("step", "measure", "mean", "spread").iter_rows():
        steps.setdefault(step, {}).update({name: mean, spread_key(name): spread})
    return list(steps.values())


def smoothed(values: Sequence[float | None], window: int) -> list[float | None]:
    """The centred moving average over ``window`` values, without those that are not finite.

    An even window takes one more value. The window is cut at both ends, so that there are as
    many means as values.
    """
    half = max(window, 1) // 2
    return [
        curve_point(values[max(0, index - half) : index + half + 1]).mean
        for index in range(len(values))
    ]


def ends(curves: pl.DataFrame, window: int) -> tuple[dict[str, float], dict[str, float]]:
    """The training measures at both ends: means over the first and the last ``window`` steps.

    Keys are ``train/<measure>``. A measure without a value at an end is missing there.
    """
    steps = history(curves)
    return _mean_of(steps[:window]), _mean_of(steps[-window:] if window else [])


def _mean_of(steps: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
    means = {name: curve_point([step.get(name) for step in steps]).mean for name in MEASURE_NAMES}
    return {f"{TRAIN}/{name}": mean for name, mean in means.items() if mean is not None}


def changes(before: Mapping[str, float], after: Mapping[str, float]) -> list[Change]:
    """Both ends side by side; keys are ``<split>/<measure>``, as in a training outcome.

    Sorted by split in the order of first appearance, then as in ``MEASURES``, unlisted ones last.
    """
    order = {name: rank for rank, name in enumerate(MEASURE_NAMES)}
    keys = {key: key.rpartition("/")[::2] for key in (*before, *after)}
    splits = list(dict.fromkeys(split for split, _ in keys.values()))

    def rank(key: str) -> tuple[int, int, str]:
        split, name = keys[key]
        return splits.index(split), order.get(name, len(order)), name

    return [
        Change(keys[key][0], measure_named(keys[key][1]), before.get(key), after.get(key))
        for key in sorted(keys, key=rank)
    ]
