"""The pages that studies write: tables of the code as it is, and commands that programs take."""

import re
from pathlib import Path

import pytest

from dagster_project.environment import known_variables
from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.evaluation.published import ABLATIONS
from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.experiments import RECIPES, experiment
from decomposerl.training.studies import STUDIES
from documents import shell_lines
from environment import settings_of
from project import ROOT
from resources.entities.resource import EntitiesResource
from resources.store.prompts import load_prompt
from resources.training.rollout_log import RolloutLog
from studies import interval_coverage, sampler_gaps
from studies.interval_coverage import PAIRED, SINGLE, SimulatedClaims, paired_line, single_line
from studies.prompt_contracts import CONTRACTS
from studies.prompt_page import every_prompt
from studies.real_model import MODEL
from studies.real_path import environment, executable, write_entity_model
from studies.reference import study_rows
from study_outcomes import study_named

HOW_TO, LEARNING, INTERVALS, PROMPTS = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("how-to/studies.md", "results/learning.md", "results/intervals.md",
                 "reference/prompts.md")
)  # fmt: skip
READERS = {
    "studies.sampler_gaps": sampler_gaps._options,
}
SECTIONS = {"studies.sampler_gaps": "sampler"}
INLINE = re.compile(r"`((?:make|python -m) [^`]+)`")


def inside(page: str, name: str) -> str:
    """What a program wrote between its markers."""
    return page.split(f"<!-- {name} report: begin -->\n")[1].split("\n<!--", maxsplit=1)[0]


def test_every_study_and_recipe_of_the_paper_is_on_the_page_of_studies():
    """Each recipe once, with its judge's GPU-hours; each study with its asset."""
    shown = inside(HOW_TO, "study rows")
    assert study_rows.block() == shown, "write it again: make reference"
    commands = re.findall(r"`decomposerl train (\w+)`", shown)
    assert sorted(one.name for one in RECIPES if one.paper) == sorted(commands)
    lines = [line for line in HOW_TO.splitlines() if line.startswith("| ")]
    for study in STUDIES:
        assert any(f"`study/{study.name}`" in line for line in lines), study.name
    assert {row.table for row in ABLATIONS} <= {study.name for study in STUDIES}


def test_every_command_of_the_page_on_learning_is_accepted():
    """Programs take their words and find their markers; the recipes shown are the study's."""
    ran = []
    lines = shell_lines(ROOT / "docs/results/learning.md")
    for line in (line for line in lines if " -m " in line):
        module, *words = line.split(" -m ")[1].split()
        options = READERS[module](words)
        if section := SECTIONS.get(module):
            assert ROOT / options.report == ROOT / "docs/results/learning.md"
            assert inside(LEARNING, section)
        ran.append(module)
    assert set(READERS) == set(ran)
    recipes = [variant.embedded for variant in study_named("learning").variants]
    assert ["tiny", "tiny_s10", "tiny_shuffled", "tiny_clean"] == recipes
    assert [] == [name for name in recipes if f"`{experiment(name).name}`" not in LEARNING]


def test_the_table_of_gaps_has_both_gaps_and_the_stop(tmp_path: Path):
    """A sampler that stays at the base is stopped once the policy has moved; others are left."""
    for step in range(4):
        means = {"sampler_gap": 0.01 * step, "sampler_gap_base": 0.0, "sampler_nll": 1.0}
        points = {name: CurvePoint(mean, 0, 1) for name, mean in means.items()}
        rows = curve_rows("k", "tiny", step, TRAIN, points)
        RolloutLog(tmp_path / "never", "k", 1).write_curves(step, TRAIN, rows)
    *_, row = sampler_gaps.gaps_table(tmp_path).splitlines()
    assert "| never gets the adapter | 0.02/0 |  | step 2 |" == row


@pytest.mark.parametrize(
    "name",
    ["docs/results/benchmarks.md", "docs/explanation/embedded-engines.md", "CONTRIBUTING.md"],
)
def test_every_command_names_a_target_or_a_program_with_its_options(name: str):
    """``make`` targets are in the Makefile; options, values of ``--only`` too, in the program."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    lines = shell_lines(ROOT / name) + INLINE.findall((ROOT / name).read_text("utf-8"))
    assert lines
    for line in lines:
        words, module = line.replace('"', " ").split(), "perf.bench"
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line
        else:
            module = [word for word in words if re.match(r"(perf|studies|tests)\.", word)][-1]
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
        known = [f'"{one}"' for one in re.findall(r"--[a-z-]+", line)]
        known += [f'"{one}":' for one in re.findall(r"--only (\w+)", line)]
        assert [] == [one for one in known if one not in source], line


def test_every_prompt_is_on_the_page_of_prompts():
    """Each section of each method, each file with its revision; contracts are of those shown."""
    shown = {(one.file, one.section) for one in every_prompt()}
    assert shown >= {
        (method.prompt, section)
        for method in ENTRY_METHODS
        if method.prompt
        for section in load_prompt(method.prompt).sections
    }
    files = {path.stem for path in (ROOT / "decomposerl/prompts").glob("*.md")}
    assert files - {"again", "question", "reasons"} == {file for file, _ in shown}
    for file in files - {"question"}:
        assert f"`{load_prompt(file).digest[:12]}`" in PROMPTS
    assert set() == CONTRACTS.keys() - {f"{file}/{section}" for file, section in shown}


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines]


def test_the_table_of_intervals_shows_least_and_greatest_of_each_group():
    """Of cases of one size; a value that all share stands alone; the page has every group."""
    rows = [
        [[*case.cells, f"{-one}", "3.0"] for one, case in enumerate(SINGLE)],
        [[*case.cells, *"1234"] for case in PAIRED],
    ]
    single = table_rows(interval_coverage.ranges(rows, 7).split("**The difference")[0])[2:]
    assert ["4", "1", "-4–0", "3.0"] == single[0]
    assert {"3.0"} == {row[-1] for row in single}
    for cases, part in zip((SINGLE, PAIRED), INTERVALS.split("**The difference"), strict=True):
        groups = list(dict.fromkeys(case.group for case in cases))
        size = len(groups[0])
        assert groups == [tuple(row[:size]) for row in table_rows(part)[2:]]


def test_a_case_covers_as_often_as_it_says():
    """Shares are percent of the samples; the interval of a perfect system has a width."""
    perfect = SimulatedClaims(4, 1.0)
    assert ["100.0", "46.5"] == single_line(perfect, 5)[4:]
    assert ["0.0", "0.0"] == paired_line(SimulatedClaims(4, 1.0, other=1.0), 5)[-2:]


def test_the_real_path_sets_variables_that_a_user_may_set(tmp_path: Path):
    """Every model of the profile is the small one, at the servers that were started."""
    env = environment(tmp_path, "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
    assert {name for name in env if name.startswith("DECOMPOSERL_")} <= known_variables()
    settings = settings_of(tmp_path, profile="paper", env=env)
    models = {role.model for role in settings.served.values()}
    assert ({MODEL}, MODEL) == (models, settings.text.tokenizer)
    assert executable(tmp_path) == settings.machine.vllm


def test_the_entity_model_of_the_real_path_finds_capitalised_words(tmp_path: Path):
    """It is loaded as a user's own spaCy folder is."""
    write_entity_model(tmp_path / "spacy")
    folders = [str(tmp_path / "spacy")]
    resource = EntitiesResource(results_dir=str(tmp_path), engine="spacy", models=folders)
    (named,) = resource.open().entities(["the mill of Torbeck burnt in Lund"])
    assert {"torbeck", "lund"} == {name.lower() for name in named}


def test_what_the_real_path_installs_is_pinned_by_hash():
    """Every line names one version and one file; torch comes from the Makefile."""
    for name in ("real-requirements.txt", "real-model.txt"):
        lines = (ROOT / "studies" / name).read_text("utf-8").splitlines()
        pinned = [line for line in lines if not line.startswith("#")]
        assert pinned
        for line in pinned:
            assert re.fullmatch(r"[a-z0-9-]+==\S+ --hash=sha256:[0-9a-f]{64}", line), line
            assert not re.match(r"torch(vision|audio|codec)?==", line)
