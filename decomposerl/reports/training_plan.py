"""What is checked and estimated before a training run starts, as Markdown and as plain values.

A finding in state ``missing`` is a problem: the run does not start unless it is forced.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from decomposerl.reports.cost import FREE, PER_PRICE, CostLine, Rate
from decomposerl.reports.readiness import ReadinessCheck
from decomposerl.reports.tables import markdown_table
from decomposerl.training.estimate import RunEstimate
from decomposerl.training.memory import MemoryEstimate
from decomposerl.training.token_report import TokenReport

_GIB = 2**30
_LISTED = 5
_MARKS = {"ok": "ok", "missing": "problem", "note": "note"}


@dataclass(frozen=True, slots=True)
class DryRun:
    """Findings and estimates of a dry run; an unknown estimate is None and a finding says why.

    ``disk`` is bytes by use, ``lengths`` the token report on the training prompts.
    """

    experiment: str
    findings: tuple[ReadinessCheck, ...]
    amounts: RunEstimate | None = None
    judging: CostLine | None = None
    memory: MemoryEstimate | None = None
    disk: Mapping[str, int] | None = None
    lengths: TokenReport | None = None

    @property
    def problems(self) -> tuple[ReadinessCheck, ...]:
        """The findings that prevent the run from starting."""
        return tuple(finding for finding in self.findings if finding.state == "missing")


def judging_cost(amounts: RunEstimate, engine: str, rate: Rate = FREE) -> CostLine:
    """The judge's line of a cost table."""
    tokens = amounts.judge_prompt_tokens, amounts.judge_completion_tokens
    return rate.line("judge", engine, amounts.judge_calls, *tokens)


def problem_lines(plan: DryRun) -> list[str]:
    """Each problem as one sentence with its remedy."""
    return [
        f"{problem.part} {problem.what}: {problem.said}" + f" ({problem.fix})" * bool(problem.fix)
        for problem in plan.problems
    ]


def dry_run_markdown(plan: DryRun) -> str:
    """The whole page: findings, amounts, memory and disk, lengths by source."""
    findings = [
        (_MARKS[one.state], f"{one.part} {one.what}", one.said, one.fix) for one in plan.findings
    ]
    parts = [
        f"### Before training {plan.experiment}",
        markdown_table(("", "what", "finding", "remedy"), findings),
        markdown_table(("what it takes", "amount"), amount_rows(plan)),
    ]
    if plan.memory is not None:
        rows = [(use, _gib(size)) for use, size in _uses(plan.memory).items()]
        parts.append(markdown_table(("memory on one device", "GiB"), rows))
    if plan.disk is not None:
        rows = [(use, _gib(size)) for use, size in plan.disk.items()]
        parts.append(markdown_table(("disk", "GiB"), rows))
    if plan.lengths is not None:
        parts.append(_lengths(plan.lengths))
    return "\n\n".join(parts) + "\n"


def amount_rows(plan: DryRun) -> list[tuple[str, str]]:
    """Steps, rollouts, the judge's cost and hours, as far as they are known."""
    rows = []
    amounts = plan.amounts
    if amounts is not None:
        rows += [
            ("optimizer steps", f"{amounts.steps:,}"),
            ("prompts", f"{amounts.prompts:,}"),
            ("completions", f"{amounts.completions:,}"),
            ("completions of held-out claims", f"{amounts.held_out:,}"),
            ("judge calls, estimated", f"{amounts.judge_calls:,}"),
        ]
    if plan.judging is not None:
        line = plan.judging
        tokens = (line.prompt_tokens + line.completion_tokens) / PER_PRICE
        rows.append(("judge tokens, millions", f"{tokens:,.1f}"))
        if line.dollars is not None:
            rows.append(("judge, US dollars", f"{line.dollars:,.2f}"))
        if line.gpu_hours is not None:
            rows.append(("judge, GPU-hours", f"{line.gpu_hours:,.1f}"))
    if amounts is not None:
        hours = amounts.hours
        rows.append(("hours", "not known: no step was timed" if hours is None else f"{hours:,.1f}"))
    return rows


def dry_run_plain(plan: DryRun) -> dict[str, Any]:
    """The page as JSON values, with ``problems`` as sentences."""
    lengths = plan.lengths
    return {
        "experiment": plan.experiment,
        "problems": problem_lines(plan),
        "findings": [asdict(finding) for finding in plan.findings],
        "amounts": None if plan.amounts is None else asdict(plan.amounts),
        "judging": None if plan.judging is None else asdict(plan.judging),
        "memory": None if plan.memory is None else _uses(plan.memory),
        "disk": None if plan.disk is None else dict(plan.disk),
        "prompt_tokens": None if lengths is None else lengths.by_source.to_dicts(),
        "too_long": None if lengths is None else lengths.too_long.to_dicts(),
        "markdown": dry_run_markdown(plan),
    }


def _uses(memory: MemoryEstimate) -> dict[str, int]:
    return {**asdict(memory), "total": memory.total}


def _gib(size: int) -> str:
    return f"{size / _GIB:,.2f}"


def _lengths(report: TokenReport) -> str:
    frame = report.by_source
    table = markdown_table(frame.columns, frame.rows())
    if report.too_long.is_empty():
        return f"Prompts in tokens (limit {report.limit:,}):\n\n{table}"
    worst = ", ".join(f"{i} ({n:,})" for i, _, n in report.too_long.head(_LISTED).iter_rows())
    return (
        f"Prompts in tokens (limit {report.limit:,}); {report.too_long.height:,} are too long and "
        f"left out, the longest: {worst}\n\n{table}"
    )
