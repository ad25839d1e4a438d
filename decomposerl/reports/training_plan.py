"""What was found before a training run was started, and what it will take, for a reader.

Takes findings about the machine and the estimates of ``decomposerl.training``, gives a
``DryRun`` as Markdown and as plain values. A finding that is ``missing`` is a problem: the run
does not start, unless a person says that it shall.

Left out deliberately: looking (``resources.training.preflight``).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from decomposerl.chat import Price
from decomposerl.reports.cost import PER_PRICE, SECONDS_AN_HOUR, CostLine
from decomposerl.reports.escape import markdown_table
from decomposerl.reports.readiness import Finding
from decomposerl.training.estimate import Amounts
from decomposerl.training.memory import Memory
from decomposerl.training.token_report import TokenReport

_GIB = 2**30
_LISTED = 5
_MARKS = {"ok": "ok", "missing": "problem", "note": "note"}


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run found. What could not be known is None: then a finding says why.

    ``disk`` is bytes by use, ``lengths`` the token report on the training prompts.
    """

    experiment: str
    findings: tuple[Finding, ...]
    amounts: Amounts | None = None
    judging: CostLine | None = None
    memory: Memory | None = None
    disk: Mapping[str, int] | None = None
    lengths: TokenReport | None = None

    @property
    def problems(self) -> tuple[Finding, ...]:
        """What forbids to start."""
        return tuple(finding for finding in self.findings if finding.state == "missing")


def judging_cost(
    amounts: Amounts, engine: str, price: Price | None = None, tokens_per_s: float | None = None
) -> CostLine:
    """The judge's line of a cost table; None where no money or no card of ours is due."""
    prompt, completion = amounts.judge_prompt_tokens, amounts.judge_completion_tokens
    dollars = hours = None
    if price is not None:
        dollars = price.dollars(prompt, completion)
    if tokens_per_s is not None:
        hours = (prompt + completion) / tokens_per_s / SECONDS_AN_HOUR
    return CostLine("judge", engine, amounts.judge_calls, prompt, completion, dollars, hours)


def problem_lines(found: DryRun) -> list[str]:
    """Each problem as one sentence with what mends it."""
    return [
        f"{problem.part} {problem.what}: {problem.said}" + f" ({problem.mend})" * bool(problem.mend)
        for problem in found.problems
    ]


def dry_run_markdown(found: DryRun) -> str:
    """The whole page: findings, amounts, memory and disk, lengths by source."""
    findings = [
        (_MARKS[one.state], f"{one.part} {one.what}", one.said, one.mend) for one in found.findings
    ]
    parts = [
        f"### Before training {found.experiment}",
        markdown_table(("", "what", "found", "to mend it"), findings),
        markdown_table(("what it takes", "amount"), amount_rows(found)),
    ]
    if found.memory is not None:
        rows = [(use, _gib(size)) for use, size in _uses(found.memory).items()]
        parts.append(markdown_table(("memory on one device", "GiB"), rows))
    if found.disk is not None:
        rows = [(use, _gib(size)) for use, size in found.disk.items()]
        parts.append(markdown_table(("disk", "GiB"), rows))
    if found.lengths is not None:
        parts.append(_lengths(found.lengths))
    return "\n\n".join(parts) + "\n"


def amount_rows(found: DryRun) -> list[tuple[str, str]]:
    """Steps, rollouts, the judge's share and hours, as far as they are known."""
    rows = []
    if found.amounts is not None:
        told = found.amounts
        rows += [
            ("optimizer steps", f"{told.steps:,}"),
            ("prompts", f"{told.prompts:,}"),
            ("completions", f"{told.completions:,}"),
            ("judge calls, at most", f"{told.judge_calls:,}"),
        ]
    if found.judging is not None:
        line = found.judging
        tokens = (line.prompt_tokens + line.completion_tokens) / PER_PRICE
        rows.append(("judge tokens, millions", f"{tokens:,.1f}"))
        if line.dollars is not None:
            rows.append(("judge, US dollars", f"{line.dollars:,.2f}"))
        if line.gpu_hours is not None:
            rows.append(("judge, GPU-hours", f"{line.gpu_hours:,.1f}"))
    if found.amounts is not None:
        hours = found.amounts.hours
        rows.append(("hours", "not known: no step was timed" if hours is None else f"{hours:,.1f}"))
    return rows


def dry_run_plain(found: DryRun) -> dict[str, Any]:
    """The same as values that JSON has, with ``problems`` as sentences."""
    lengths = found.lengths
    return {
        "experiment": found.experiment,
        "problems": problem_lines(found),
        "findings": [asdict(finding) for finding in found.findings],
        "amounts": None if found.amounts is None else asdict(found.amounts),
        "judging": None if found.judging is None else asdict(found.judging),
        "memory": None if found.memory is None else _uses(found.memory),
        "disk": None if found.disk is None else dict(found.disk),
        "prompt_tokens": None if lengths is None else lengths.by_source.to_dicts(),
        "too_long": None if lengths is None else lengths.too_long.to_dicts(),
        "markdown": dry_run_markdown(found),
    }


def _uses(memory: Memory) -> dict[str, int]:
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
