"""The benchmark of the training step, at a size for a CPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.training.memory import shape_of
from perf import grpo_step
from perf.grpo_case import QWEN_7B, StepCase
from perf.grpo_step import CaseResult, mixed_hours, report

SECONDS = {"generation": 4.0, "judging": 0.5, "update": 3.5}
CASE = StepCase(1_024, 512, device="cuda")


def line(prompt: int, completion: int, factor: float = 1.0) -> CaseResult:
    seconds = {phase: factor * spent for phase, spent in SECONDS.items()}
    case = replace(CASE, prompt=prompt, completion=completion)
    return CaseResult(case, seconds, peak_gib=40.0, device="a card")


def test_it_measures_our_trainer_at_a_small_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """One command with a small model writes a table with every phase into a page."""
    report = tmp_path / "page.md"
    markers = [f"<!-- grpo step report: {end} -->" for end in ("begin", "end")]
    report.write_text("\n".join(["# Training", *markers, "the end"]), "utf-8")
    words = ["--tiny", "--steps", "1", "--prompts", "24", "--completions", "8"]
    grpo_step.main([*words, "--report", str(report)])
    page = capsys.readouterr().out
    written = "\n".join(["# Training", markers[0], page, markers[1], "the end"])
    assert written == report.read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| 24 |")]
    numbers = [float(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")]
    assert [24, 8] == numbers[:2]
    whole, *phases = numbers[2:6]
    assert whole == pytest.approx(sum(phases), abs=0.02)
    assert all(number > 0 for number in (whole, *numbers[6:]))
    assert "A small model with random weights on cpu" in page


def test_the_model_is_the_papers():
    """The architecture has the 7.6 billion parameters of Qwen2.5-7B."""
    assert 7_615_616_512 == shape_of(QWEN_7B | {"model_type": "qwen2"}).parameters


def test_the_table_projects_the_papers_run():
    """Eight seconds per step make 12.1 hours; 16 completions per step give the rates."""
    page = report([line(1_024, 512)])
    assert 5_464 * 8 / 3_600 == line(1_024, 512).hours
    (row,) = [text for text in page.splitlines() if text.startswith("| 1,024 |")]
    cells = row.strip("| ").split(" | ")
    assert ["8.00", "4.00", "0.50", "3.50"] == cells[2:6]
    assert [f"{16 * 512 / 4:,.0f}", f"{16 * 1_536 / 3.5:,.0f}", "40.0", "12.1"] == cells[6:]


def test_the_papers_mix_is_mostly_short():
    """91.5 % of steps count as the shortest prompts, the rest as the second shortest."""
    lines = [line(11_000, 512, 9.0), line(4_096, 512, 2.0), line(1_024, 512), line(1_024, 1_024)]
    hours = line(1_024, 512).hours
    assert {512: pytest.approx(hours * (5_000 + 2 * 464) / 5_464)} == mixed_hours(lines)
    assert "120 h" in report(lines)
    assert "48 h" in report(lines)


def test_a_case_that_fails_says_why_and_the_others_go_on():
    """Its row shows the reason, and it takes no part in the projected hours."""
    lost = CaseResult(CASE, {}, failure="exit status 1: out of memory")
    page = report([lost, line(4_096, 512)])
    assert "out of memory" in page
    assert {} == mixed_hours([lost, line(4_096, 512)])


def test_a_failed_process_reports_its_error():
    """With an unknown device the process fails, and its message is the result's."""
    result = grpo_step.measured(StepCase(24, 8, 1, "nothing", tiny=True))
    assert result.failure.startswith("exit status 1: ")
    assert "nothing" in result.failure
