"""Seconds of the paper's training step on this machine, and the hours they make.

``python -m perf.grpo_step [--paged] [--report FILE]`` runs 16 completions a step (two prompts
of eight) at each length of prompts and completions, every case in a process of its own, and
prints a Markdown table; ``--tiny`` does the same with a small model on a CPU, to see that it
works. One command, no download. A case that fails, for want of memory say, has its reason in
the table, and the others go on.

Left out deliberately: the judge, whose calls depend on its server, and vLLM.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from decomposerl.reports.escape import markdown_table
from perf.grpo_case import Case
from perf.pages import write_between_markers

PROMPTS, COMPLETIONS = (1_024, 4_096, 11_000), (512, 1_024)
TINY_PROMPTS, TINY_COMPLETIONS = (24, 40), (8,)
STEPS, ROLLOUTS = 5_464, 16
LONG_SHARE = 464 / 5_464
"""Long-evidence claims among the paper's, of 4,700 tokens on average; the others' median is 500."""
PAPER_HOURS = "the paper: 120 h with its 32B judge (two H100, one of them the judge's), 48 h with \
its tiny judge (one H100)"
PHASES = ("generation", "judging", "update")
_HEAD = (
    *("prompt", "completion", "s/step", "generation s", "rewards s", "update s"),
    *("sampled tokens/s", "trained tokens/s", "peak GiB", "hours for 5,464 steps"),
)
_TOLD = 300


@dataclass(frozen=True, slots=True)
class Line:
    """One case: median seconds of a step by phase, or why there are none."""

    case: Case
    seconds: Mapping[str, float]
    peak_gib: float = 0.0
    device: str = ""
    failure: str = ""

    @property
    def whole(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def hours(self) -> float:
        """Hours of the paper's run, were every step like this one."""
        return self.whole * STEPS / 3_600

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        lengths = (f"{self.case.prompt:,}", f"{self.case.completion:,}")
        if self.failure:
            return (*lengths, self.failure, *("–" for _ in _HEAD[3:]))
        sampled = ROLLOUTS * self.case.completion / self.seconds["generation"]
        trained = ROLLOUTS * (self.case.prompt + self.case.completion) / self.seconds["update"]
        return (
            *lengths,
            f"{self.whole:.2f}",
            *(f"{self.seconds[phase]:.2f}" for phase in PHASES),
            f"{sampled:,.0f}",
            f"{trained:,.0f}",
            f"{self.peak_gib:.1f}",
            f"{self.hours:.1f}",
        )


def measured(case: Case) -> Line:
    """Run a case in a process of its own."""
    options = [
        *("--prompt", str(case.prompt), "--completion", str(case.completion)),
        *("--steps", str(case.steps), "--device", case.device),
        *(["--paged"] * case.paged + ["--tiny"] * case.tiny),
    ]
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", "perf.grpo_case", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.strip()]
        said = told[-1][:_TOLD] if told else "nothing"
        return Line(case, {}, failure=f"exit status {done.returncode}: {said}")
    found = json.loads(done.stdout.splitlines()[-1])
    seconds = {phase: median(step[phase] for step in found["steps"]) for phase in PHASES}
    return Line(case, seconds, found["peak_gib"], found["device"])


def report(lines: Sequence[Line]) -> str:
    """The table, and the hours of the paper's run at its own mix of lengths."""
    device = next((line.device for line in lines if line.device), "no case ran")
    how = "continuous batching" if any(line.case.paged for line in lines) else "generate"
    what = "a small model" if any(line.case.tiny for line in lines) else "Qwen2.5-7B's architecture"
    head = (
        f"{what[0].upper()}{what[1:]} with random weights on {device}, one process; rollouts by "
        f"transformers ({how}); median of the steps after the first; no judge."
    )
    parts = [head, markdown_table(_HEAD, [line.cells() for line in lines])]
    parts += [
        f"Completions of {completion:,} tokens at the paper's mix of claims (8.5 % long): "
        f"{hours:.1f} h for 5,464 steps; {PAPER_HOURS}."
        for completion, hours in mixed_hours(lines).items()
    ]
    return "\n\n".join(parts) + "\n"


def mixed_hours(lines: Sequence[Line]) -> dict[int, float]:
    """Hours by length of completions: most steps like the shortest prompts, some like the next.

    Only where both were measured. The longest prompts are the paper's limit, not its mean.
    """
    found = {}
    for completion in dict.fromkeys(line.case.completion for line in lines):
        done = [x for x in lines if x.case.completion == completion and not x.failure]
        by_prompt = sorted(done, key=lambda line: line.case.prompt)
        if len(by_prompt) > 1:
            short, long = by_prompt[:2]
            found[completion] = (1 - LONG_SHARE) * short.hours + LONG_SHARE * long.hours
    return found


def main(words: Sequence[str] | None = None) -> None:
    """Measure every case and print the table."""
    options = _options(words)
    lines = []
    for completion in options.completions or (TINY_COMPLETIONS if options.tiny else COMPLETIONS):
        for prompt in options.prompts or (TINY_PROMPTS if options.tiny else PROMPTS):
            device = "cpu" if options.tiny else options.device
            case = Case(prompt, completion, options.steps, device, options.paged, options.tiny)
            lines.append(measured(case))
            sys.stderr.write(f"{' | '.join(lines[-1].cells())}\n")
    text = report(lines)
    sys.stdout.write(text)
    if options.report is not None:
        write_between_markers(options.report, "grpo step", text)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=numbers, help="lengths in tokens, apart by commas")
    parser.add_argument("--completions", type=numbers, help="the same of completions")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of a case")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--paged", action="store_true", help="continuous batching")
    parser.add_argument("--tiny", action="store_true", help="a small model on the CPU")
    parser.add_argument("--report", type=Path, help="page with the two markers 'grpo step'")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
