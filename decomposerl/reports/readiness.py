"""What is ready and what is missing for a profile, and what a run will cost; text and JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from decomposerl.reports.cost import (
    CostLine,
    Workload,
    at_least,
    clock_hours,
    cost_rows,
    cost_totals,
)
from decomposerl.reports.tables import text_table

State = Literal["ok", "missing", "note"]
_MARKS: dict[State, str] = {"ok": "✓", "missing": "✗", "note": "·"}
_HEADER = ("port", "engine", "calls", "tokens", "US dollars")


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """One thing a run needs. ``fix`` is the command or variable that provides a missing one.

    The state ``note`` stops nothing: an optional thing that is absent, or that cannot be checked
    from here.
    """

    part: str
    what: str
    state: State
    said: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a run costs; ``basis`` says which rows and lengths were assumed.

    ``work`` is None if the run is not the funnel's; then its ports work ``at_once``, while those of
    the funnel follow each other.
    """

    basis: str
    work: Workload | None
    lines: tuple[CostLine, ...]
    run: str = "A full run"

    @property
    def at_once(self) -> bool:
        """Whether its ports work side by side."""
        return self.work is None


@dataclass(frozen=True, slots=True)
class Readiness:
    """The page: profile, findings, estimates, and the sources of their numbers."""

    profile: str
    data: str
    findings: tuple[ReadinessCheck, ...]
    estimates: tuple[CostEstimate, ...]
    sources: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Number of required things that are missing."""
        return sum(finding.state == "missing" for finding in self.findings)


def readiness_text(page: Readiness) -> str:
    """The page for a terminal; each finding's line begins with its mark."""
    lines = [f"profile {page.profile}, data folder {page.data}", ""]
    for finding in page.findings:
        lines.append(
            f"{_MARKS[finding.state]} {finding.part:<9} {finding.what}: {finding.said}".rstrip()
        )
        if finding.fix and finding.state != "ok":
            lines += [f"    {line}" for line in finding.fix.splitlines()]
    for estimate in page.estimates:
        lines += ["", f"{estimate.run} over {estimate.basis}:", "", estimate_text(estimate)]
    if page.estimates:
        lines += ["", "Nothing stored and nothing repeated is assumed. Figures used:"]
        lines += [f"- {source}" for source in page.sources]
    verdict = f"{page.missing} required thing{'s' * (page.missing != 1)} missing"
    return "\n".join([*lines, "", verdict if page.missing else "nothing required is missing"])


def readiness_json(page: Readiness) -> dict[str, Any]:
    """The page as plain values; each estimate with its total.

    ``at_least`` names the sums that lack a part, as no public figure gives it.
    """
    estimates = []
    for estimate in page.estimates:
        calls, tokens, dollars, hours = cost_totals(estimate.lines)
        sums = {"calls": calls, "tokens": tokens, "dollars": dollars, "gpu_hours": hours}
        clock = clock_hours(estimate.lines, at_once=estimate.at_once)
        total = sums | {"hours": clock, "at_least": at_least(estimate.lines)}
        estimates.append(asdict(estimate) | {"total": total})
    return asdict(page) | {"estimates": estimates, "missing": page.missing}


def estimate_text(estimate: CostEstimate, *hours: str) -> str:
    """The lines of an estimate and their total, aligned; ``hours`` are the titles of its hours.

    By default those of GPUs, and on the clock with all cards at work; a single one is of the first.
    """
    header = (*_HEADER, *(hours or ("GPU-hours", "hours")))
    rows = cost_rows(estimate.lines, at_once=estimate.at_once)
    right = [column not in {"port", "engine"} for column in header]
    return text_table([header, *(row[: len(header)] for row in rows)], right, rules=())
