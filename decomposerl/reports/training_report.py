"""A training run for a reader: measures before and after, step lines, and wall time."""

from collections.abc import Mapping, Sequence

from decomposerl.reports.tables import markdown_table, one_line, text_table
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.training.curves import Change, changes, measure_named
from decomposerl.training.health import spread_key

_NONE = "–"
_HEAD = ("", "measure", "before", "after", "change")
_SPLITS = {
    "train": "training claims",
    "held_out_sampled": "held-out claims, sampled",
    "held_out_greedy": "held-out claims, greedy",
}
_LARGE, _MIDDLE, _SMALL = 1000.0, 10.0, 1e-3
_ALSO = (
    *("completion_tokens", "truncated", "zero_spread_groups"),
    *("judge_failures", "pseudo_label_agreement"),
    *("seconds_generation", "seconds_judging", "seconds_update"),
)
_TENTH_SECONDS, _MINUTE, _HOUR = 10.0, 60.0, 3600.0


def changes_markdown(measured: Sequence[Change]) -> str:
    """One row per measure: before, after and the difference; a note without measures."""
    if not measured:
        return "nothing was measured"
    return markdown_table(_HEAD, _rows(measured))


def changes_text(measured: Sequence[Change]) -> str:
    """The same as aligned text for a terminal."""
    if not measured:
        return "nothing was measured"
    right = [name in {"before", "after", "change"} for name in _HEAD]
    return text_table([_HEAD, *_rows(measured)], right)


def measures_markdown(measures: Mapping[str, float]) -> str:
    """Measures by key (``<split>/<measure>``) at one step; a note without measures."""
    if not measures:
        return "nothing was measured"
    rows = [
        (one.measure.title, one.measure.unit, measure_text(one.after))
        for one in changes({}, measures)
    ]
    return markdown_table(("measure", "unit", "mean"), rows)


def seconds_markdown(seconds: Mapping[str, float]) -> str:
    """Wall time by phase, with each phase's share of the sum."""
    whole = sum(seconds.values())
    rows = [
        (name.removeprefix("seconds_"), duration(spent), f"{100 * spent / whole:.1f} %")
        for name, spent in seconds.items()
        if whole > 0
    ]
    return markdown_table(("phase", "wall time", "share"), rows) if rows else "nothing was timed"


def step_line(step: int, steps: int, means: Mapping[str, float | None], eta_s: float) -> str:
    """One step on one line: the sum, each reward with its spread, lengths, shares, time left."""
    names = ["total", "loss", *(reward.name for reward in REWARDS), *_ALSO]
    measures = ", ".join(part for part in (_shown(means, name) for name in names) if part)
    return f"step {step:,} of {steps:,}: {measures or 'nothing measured'}; {duration(eta_s)} left"


def _shown(means: Mapping[str, float | None], name: str) -> str:
    mean, spread = means.get(name), means.get(spread_key(name))
    if mean is None:
        return ""
    unit = measure_named(name).unit
    around = "" if spread is None else f" ± {measure_text(spread, mean)}"
    forms = {"share": f"{100 * mean:.0f} %", "s": duration(mean)}
    value = forms.get(unit, measure_text(mean) + around)
    return f"{measure_named(name).title.lower()} {value}"


def duration(seconds: float) -> str:
    """A span for a reader: ``0.4 s``, ``41 s``, ``4 min 5 s``, ``3 h 12 min``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{seconds:.1f} s" if seconds < _TENTH_SECONDS else f"{whole} s"
    if whole < _HOUR:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def measure_text(value: float | None, like: float | None = None, *, signed: bool = False) -> str:
    """A measure with at most four digits; ``–`` for None.

    ``like`` is a number whose decimals are used: a difference is as precise as its terms.
    """
    if value is None:
        return _NONE
    sign, size = "+" if signed else "", abs(value if like is None else like)
    if size and size < _SMALL:
        return f"{value:{sign}.1e}"
    digits = 0 if size >= _LARGE else 1 if size >= _MIDDLE else 3
    return f"{value:{sign},.{digits}f}"


def _rows(measured: Sequence[Change]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    shown = ""
    for change in measured:
        larger = max(abs(change.before or 0), abs(change.after or 0))
        split = _SPLITS.get(change.split, one_line(change.split))
        unit = f" ({change.measure.unit})" if change.measure.unit else ""
        rows.append(
            (
                "" if split == shown else split,
                one_line(change.measure.title) + unit,
                measure_text(change.before, larger),
                measure_text(change.after, larger),
                measure_text(change.difference, larger, signed=True),
            )
        )
        shown = split
    return rows
