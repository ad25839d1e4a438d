"""A rehearsal for a reader: what each step proved and measured, and the full run at those rates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from decomposerl.reports.cost import SECONDS_AN_HOUR, CostLine, Port
from decomposerl.reports.readiness import CostEstimate, estimate_text
from decomposerl.reports.tables import markdown_table, text_table
from decomposerl.training.estimate import RunEstimate

_HEADER = ("step", "engine", "seconds", "calls", "calls/s", "tokens", "tokens/s", "GPU MiB", "note")
_TEXT = {"step", "engine", "note"}
FEW_CLAIMS = (
    "eight claims do not fill a server, so a full run is faster than these rates; hours are of one "
    "server or one training run, and times its number of GPUs they are GPU-hours"
)


@dataclass(frozen=True, slots=True)
class RehearsedStep:
    """What one step took. Counts are of requests that were sent, none of them repeated.

    ``busy_s`` is the time with at least one request in flight, so without the start of a server; 0
    where it is not known, as of an engine in this process, which spends most of a rehearsal loading
    its model. Rates are of this time. ``gpu_mib`` is the peak of the fullest GPU, None without one.
    """

    step: str
    engine: str
    seconds: float
    calls: int = 0
    tokens: int = 0
    busy_s: float = 0.0
    gpu_mib: int | None = None
    note: str = ""

    def rate(self, amount: int) -> float | None:
        """``amount`` a second; None where there is nothing to divide."""
        return amount / self.busy_s if amount and self.busy_s > 0 else None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The page: the steps in order, the full run at the measured rates, and what failed.

    ``failure`` is one sentence, empty where every step succeeded.
    """

    profile: str
    experiment: str
    steps: tuple[RehearsedStep, ...]
    estimates: tuple[CostEstimate, ...] = ()
    training: str = ""
    failure: str = ""


def steps_text(steps: Sequence[RehearsedStep]) -> str:
    """The steps as an aligned table."""
    right = [name not in _TEXT for name in _HEADER]
    return text_table([_HEADER, *map(_cells, steps)], right)


def rehearsal_text(page: Rehearsal) -> str:
    """The page for a terminal."""
    lines = [f"profile {page.profile}, recipe {page.experiment}", "", steps_text(page.steps)]
    for one in page.estimates:
        lines += ["", _heading(one), "", estimate_text(one, "hours")]
    if page.training:
        lines += ["", page.training, f"({FEW_CLAIMS})"]
    return "\n".join([*lines, "", _verdict(page)])


def rehearsal_markdown(page: Rehearsal) -> str:
    """The page as Markdown, for ``--report``."""
    table = markdown_table(_HEADER, [*map(_cells, page.steps)])
    lines = [f"Profile `{page.profile}`, recipe `{page.experiment}`.", "", table]
    for one in page.estimates:
        lines += ["", _heading(one), "", "```text", estimate_text(one, "hours"), "```"]
    if page.training:
        lines += ["", f"{page.training}. {FEW_CLAIMS[0].upper()}{FEW_CLAIMS[1:]}."]
    return "\n".join([*lines, "", f"{_verdict(page)}.", ""])


def at_measured_rates(
    estimates: Iterable[CostEstimate], measured: Mapping[Port, RehearsedStep]
) -> tuple[CostEstimate, ...]:
    """The estimates with hours from the rates of ``measured``; other ports have none.

    Tokens count where the step counted them, else calls. A priced API keeps its price and has no
    hours.
    """
    return tuple(
        replace(one, lines=tuple(_timed(line, measured.get(line.port)) for line in one.lines))
        for one in estimates
    )


def training_sentence(amounts: RunEstimate, seconds_per_step: float, waiting: float) -> str:
    """The hours of the whole run, ``amounts.hours``; ``waiting`` is the judge's share of a step."""
    return (
        f"training: {amounts.steps:,} steps of {seconds_per_step:,.1f} s (rewards {waiting:.0%} of "
        f"it) and {amounts.held_out:,} held-out completions are at most {amounts.hours:,.1f} hours"
    )


def _timed(line: CostLine, step: RehearsedStep | None) -> CostLine:
    if step is None or line.dollars is not None:
        return replace(line, gpu_hours=None)
    tokens, calls = step.rate(step.tokens), step.rate(step.calls)
    if tokens is not None:
        seconds = (line.prompt_tokens + line.completion_tokens) / tokens
    elif calls is not None:
        seconds = line.calls / calls
    else:
        return replace(line, gpu_hours=None)
    return replace(line, gpu_hours=seconds / SECONDS_AN_HOUR)


def _cells(step: RehearsedStep) -> tuple[str, ...]:
    return (
        step.step,
        step.engine.partition(" ")[0],  # its settings would make the table too wide
        f"{step.seconds:,.1f}",
        _count(step.calls),
        _rate(step.rate(step.calls)),
        _count(step.tokens),
        _rate(step.rate(step.tokens)),
        "" if step.gpu_mib is None else f"{step.gpu_mib:,}",
        step.note,
    )


def _heading(one: CostEstimate) -> str:
    """A recipe's lines are its judge and embedder; ``training_sentence`` has the hours of training.

    ``work`` is the funnel's.
    """
    run = one.run if one.work else one.run.replace("Training", "Judging of", 1)
    return f"{run} over {one.basis}, hours at the measured rates:"


def _verdict(page: Rehearsal) -> str:
    return page.failure or "every step succeeded"


def _count(amount: int) -> str:
    return f"{amount:,}" if amount else ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.1f}" if rate >= 1 else f"{rate:.2g}"
