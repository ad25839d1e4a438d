"""Seconds of the paper's training step on this machine, and the resulting hours.

``python -m perf.grpo_step [--paged] [--report FILE]`` runs 16 completions per step (two prompts
of eight) at each length of prompts and completions, each case in its own process, and prints a
Markdown table; ``--tiny`` does the same with a small model on a CPU, as a smoke test. Nothing is
downloaded. A case that fails, for example out of memory, shows its error in the table, and the
other cases continue. Judge calls are not included: their time depends on the judge's server.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from decomposerl.reports.tables import markdown_table
from perf.grpo_case import StepCase
from perf.pages import write_between_markers

PROMPTS, COMPLETIONS = (1_024, 4_096, 11_000), (512, 1_024)
TINY_PROMPTS, TINY_COMPLETIONS = (24, 40), (8,)
STEPS, ROLLOUTS = 5_464, 16
LONG_SHARE = 464 / 5_464
"""Share of long-evidence claims in the paper: 4,700 tokens on average; others: median 500."""
PAPER_HOURS = "the paper: 120 h with its 32B judge (two H100, one of them the judge's), 48 h with \
its tiny judge (one H100)"
PHASES = ("generation", "judging", "update")
_HEAD = (
    *("prompt", "completion", "s/step", "generation s", "rewards s", "update s"),
    *("sampled tokens/s", "trained tokens/s", "peak GiB", "hours for 5,464 steps"),
)
_MOST_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: median seconds of a step by phase, or why it failed."""

    case: StepCase
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
        """Hours of the paper's run if every step took as long as this one."""
        return self.whole * STEPS / 3_600

    def cells(self) -> tuple[str, ...]:
        """Cells of the case's table row."""
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


def measured(case: StepCase) -> CaseResult:
    """Run a case in its own process."""
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
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        error = errors[-1][:_MOST_ERROR_CHARACTERS] if errors else "no message"
        return CaseResult(case, {}, failure=f"exit status {done.returncode}: {error}")
    result = json.loads(done.stdout.splitlines()[-1])
    seconds = {phase: median(step[phase] for step in result["steps"]) for phase in PHASES}
    return CaseResult(case, seconds, result["peak_gib"], result["device"])


def report(results: Sequence[CaseResult]) -> str:
    """The table, and the hours of the paper's run at its mix of lengths."""
    device = next((one.device for one in results if one.device), "no case ran")
    how = "continuous batching" if any(one.case.paged for one in results) else "generate"
    what = "a small model" if any(one.case.tiny for one in results) else "Qwen2.5-7B's architecture"
    head = (
        f"{what[0].upper()}{what[1:]} with random weights on {device}, one process; rollouts by "
        f"transformers ({how}); median of the steps after the first; no judge."
    )
    parts = [head, markdown_table(_HEAD, [one.cells() for one in results])]
    parts += [
        f"Completions of {completion:,} tokens at the paper's mix of claims (8.5 % long): "
        f"{hours:.1f} h for 5,464 steps; {PAPER_HOURS}."
        for completion, hours in mixed_hours(results).items()
    ]
    return "\n\n".join(parts) + "\n"


def mixed_hours(results: Sequence[CaseResult]) -> dict[int, float]:
    """Hours by length of completions, from the two shortest prompt lengths measured.

    A step of long evidence counts as the second shortest, any other as the shortest; the
    longest prompts are the paper's limit, not its mean. Needs both lengths.
    """
    hours = {}
    for completion in dict.fromkeys(one.case.completion for one in results):
        done = [x for x in results if x.case.completion == completion and not x.failure]
        by_prompt = sorted(done, key=lambda one: one.case.prompt)
        if len(by_prompt) > 1:
            short, long = by_prompt[:2]
            hours[completion] = (1 - LONG_SHARE) * short.hours + LONG_SHARE * long.hours
    return hours


def main(words: Sequence[str] | None = None) -> None:
    """Measure every case and print the table."""
    options = _options(words)
    results = []
    for completion in options.completions or (TINY_COMPLETIONS if options.tiny else COMPLETIONS):
        for prompt in options.prompts or (TINY_PROMPTS if options.tiny else PROMPTS):
            device = "cpu" if options.tiny else options.device
            case = StepCase(prompt, completion, options.steps, device, options.paged, options.tiny)
            results.append(measured(case))
            sys.stderr.write(f"{' | '.join(results[-1].cells())}\n")
    text = report(results)
    sys.stdout.write(text)
    if options.report is not None:
        write_between_markers(options.report, "grpo step", text)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=numbers, help="lengths in tokens, comma-separated")
    parser.add_argument("--completions", type=numbers, help="the same for completions")
    parser.add_argument("--steps", type=int, default=3, help="measured steps per case")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--paged", action="store_true", help="continuous batching")
    parser.add_argument("--tiny", action="store_true", help="a small model on the CPU")
    parser.add_argument(
        "--report", type=Path, help="Markdown file with the two markers 'grpo step'"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
