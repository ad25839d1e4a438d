"""The pages on studies: the table of commands is made from the code, and no study is missing."""

import re

from assets.training_studies import TrainingStudyConfig
from decomposerl.evaluation.published import ABLATIONS
from decomposerl.training.experiments import RECIPES
from decomposerl.training.studies import STUDIES
from project import ROOT
from studies.reference import study_rows

PAGE = (ROOT / "docs/how-to/studies.md").read_text("utf-8")
BLOCK = re.compile(
    r"<!-- study rows report: begin -->\n(.*)\n<!-- study rows report: end -->", re.DOTALL
)


def test_the_commands_of_the_page_are_those_of_the_code():
    """Each recipe of the paper once, with its judge's GPU-hours."""
    (shown,) = BLOCK.findall(PAGE)
    assert study_rows.block() == shown, "write it again: make reference"
    commands = re.findall(r"`decomposerl train (\w+)`", shown)
    assert sorted(one.name for one in RECIPES if one.paper) == sorted(commands)


def test_every_study_is_on_the_page():
    """With its asset, beside the section that the paper has it in, if it has one."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    for study in STUDIES:
        assert any(f"`study/{study.name}`" in line for line in lines), study.name
    assert {row.study for row in ABLATIONS} <= {study.name for study in STUDIES}


def test_the_page_counts_the_runs_of_the_job():
    """A recipe of several studies is trained once a seed; three verdicts have another job."""
    own = [one for one in STUDIES if one.name != "three_way"]
    recipes = {variant.embedded for study in own for variant in study.variants}
    runs = len(recipes) * TrainingStudyConfig().seeds
    assert f"all of them are {runs} runs of about six minutes" in " ".join(PAGE.split())
