"""The pages on evaluation name what the code has: fields, columns, checks and test sets."""

import re

import dagster as dg
import yaml

from assets.evaluation_checks import evaluation_checks
from dagster_project.definitions import defs
from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.evaluation.systems import CHAT_MODELS, VERIFIERS
from decomposerl.schemas import COMPARISON, PREDICTIONS
from project import ROOT

HOW_TO, EXPLAINED = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in ("how-to/evaluate.md", "explanation/evaluation.md")
)


def section(page: str, heading: str) -> str:
    return page.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]


def first_cells(text: str) -> list[str]:
    """Code in the first cell of each table row."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_configuration_is_accepted():
    """By the job ``evaluate``, by Dagster's own reading."""
    configurations = re.findall(r"```yaml\n(.*?)```", HOW_TO, re.DOTALL)
    job = defs.resolve_job_def("evaluate")
    assert 2 == len(configurations)
    assert all(dg.validate_run_config(job, yaml.safe_load(one)) for one in configurations)


def test_every_field_of_an_entry_is_documented():
    """Each field that a user may set stands in the section on own systems."""
    named = re.findall(r"`([^`\n]+)`", section(HOW_TO, "Your own systems"))
    assert set() == set(SystemEntry.model_fields) - {"name", *named}


def test_every_model_is_documented():
    """The table of models has each one of the catalogue, a suffix for sizes of one model."""
    named = first_cells(section(HOW_TO, "Name a system"))
    known = [one.key for one in (*CHAT_MODELS, *VERIFIERS)]
    family = "qwen2.5"
    assert set(known) <= {f"{family}{name}" if name[0] == "-" else name for name in named}


def test_the_test_sets_are_counted():
    """The first sentence says how many there are."""
    words = {11: "eleven", 12: "twelve"}
    assert f"on {words[len(BENCHMARKS)]} test sets" in HOW_TO


def test_the_guards_are_the_checks():
    """Each check on the evaluation's assets has a row, and no row is of another one."""
    checks = evaluation_checks([one.name for one in BENCHMARKS], [])
    names = {key.name for check in checks for key in check.check_keys}
    assert names == set(first_cells(section(EXPLAINED, "Guards")))


def test_columns_are_as_in_the_tables():
    """Confidences are all explained; p-values and differences exist."""
    confidences = {one.name for one in PREDICTIONS.columns if one.name.startswith("confidence_")}
    named = set(re.findall(r"`([^`\n]+)`", section(EXPLAINED, "Confidence")))
    assert confidences <= named
    explained = set(re.findall(r"`(p_\w+|no_p|difference)`", EXPLAINED))
    assert {"p_bootstrap", "p_mcnemar", "p_holm", "no_p", "difference"} == explained
    assert explained <= {one.name for one in COMPARISON.columns}
