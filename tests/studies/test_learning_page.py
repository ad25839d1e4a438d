"""The page on learning: programs and recipes that it names, and the table of the sampler's gaps."""

from pathlib import Path

from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.experiments import experiment
from decomposerl.training.studies import study_named
from documents import shell_lines
from perf import grpo_step
from project import ROOT
from resources.training.rollout_log import RolloutLog
from studies import sampler_gaps, warm_start
from studies.sampler_gaps import gaps_table

PAGE = ROOT / "docs/results/learning.md"
READERS = {
    "studies.sampler_gaps": sampler_gaps._options,
    "studies.warm_start": warm_start._options,
    "perf.grpo_step": grpo_step._options,
}
SECTIONS = {"studies.sampler_gaps": "sampler", "perf.grpo_step": "grpo step"}


def test_every_command_of_the_page_is_accepted():
    """Each program takes its words, and its markers stand on the page that it writes to."""
    page, ran = PAGE.read_text("utf-8"), []
    for line in (line for line in shell_lines(PAGE) if " -m " in line):
        module, *words = line.split(" -m ")[1].split()
        options = READERS[module](words)
        if section := SECTIONS.get(module):
            assert ROOT / options.report == PAGE
            assert f"<!-- {section} report: begin -->" in page
        ran.append(module)
    assert set(READERS) == set(ran)


def test_the_page_shows_the_recipes_of_the_study():
    """Those of the tables are the study's, which trains them again."""
    page = PAGE.read_text("utf-8")
    recipes = [variant.embedded for variant in study_named("learning").variants]
    assert ["tiny", "tiny_s10", "tiny_shuffled", "tiny_clean"] == recipes
    assert [] == [name for name in recipes if f"`{experiment(name).name}`" not in page]


def test_the_table_of_gaps_has_both_gaps_and_the_stop(tmp_path: Path):
    """A sampler that stays at the base is stopped once the policy has moved; others are left."""
    for step in range(4):
        moved = 0.01 * step
        points = {"sampler_gap": moved, "sampler_gap_base": 0.0, "sampler_nll": 1.0}
        rows = curve_rows(
            "k",
            "tiny",
            step,
            TRAIN,
            {name: CurvePoint(mean, 0, 1) for name, mean in points.items()},
        )
        RolloutLog(tmp_path / "never", "k", 1).write_curves(step, TRAIN, rows)
    *_, row = gaps_table(tmp_path).splitlines()
    assert "| never gets the adapter | 0.02/0 |  | step 2 |" == row
