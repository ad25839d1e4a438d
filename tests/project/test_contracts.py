"""Each import contract of ``pyproject.toml`` holds, and is alive: a planted breach breaks it."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from contract_child import planted
from project import ROOT, SUPPORT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONTRACTS = [contract["name"] for contract in PYPROJECT["tool"]["importlinter"]["contracts"]]


def late(module: str) -> str:
    """An import inside a function."""
    return f"def late():\n    import {module}\n"


CYCLE, DOWN = "No folder and no file imports", "never back"
SEEDS = {
    "the domain reaching up": ("decomposerl/claims/load.py", late("resources.store.parquet"), DOWN),
    "a benchmark that knows a study": ("perf/pages.py", late("studies.growth"), DOWN),
    "a product that knows its benchmarks": ("dagster_project/doctor.py", late("perf.timing"), DOWN),
    "two files that know each other": (
        "decomposerl/claims/claim.py",
        "import decomposerl.claims.source\n",
        CYCLE,
    ),
    "an endpoint that knows the client": (
        "resources/chat/wire.py",
        late("resources.chat.client"),
        CYCLE,
    ),
    "a profile that knows the definitions": (
        "dagster_project/jobs.py",
        late("dagster_project.definitions"),
        CYCLE,
    ),
    "a folder that knows what imports it": (
        "resources/evaluation/rule_chat.py",
        late("resources.evaluation.model"),
        CYCLE,
    ),
    "an undeclared folder": ("decomposerl/utils/__init__.py", '"""Odds."""\n', "domain's folders"),
    "a folder that knows one above it": (
        "decomposerl/funnel/step.py",
        late("decomposerl.evaluation.metrics"),
        "domain's folders",
    ),
    "a port that knows the evaluation": (
        "resources/judge/replay.py",
        late("resources.evaluation.model"),
        "One folder a port",
    ),
    "a loose file in resources": ("resources/stray.py", '"""Odd."""\n', "One folder a port"),
    "an asset that imports an asset": (
        "assets/funnel.py",
        "import assets.corpora\n",
        "Assets meet through argument names",
    ),
    "a source that knows a sibling": (
        "decomposerl/claims/sources/hover.py",
        "import decomposerl.claims.sources.scifact\n",
        "Corpora do not know each other",
    ),
    "a step that knows a sibling": (
        "decomposerl/funnel/rules.py",
        "import decomposerl.funnel.silver\n",
        "Funnel steps",
    ),
    "a new step that knows a sibling": (
        "decomposerl/funnel/stray.py",
        "import decomposerl.funnel.silver\n",
        "Funnel steps",
    ),
    "a reward that knows a sibling": (
        "decomposerl/rewards/joint.py",
        "import decomposerl.rewards.coverage\n",
        "Rewards do not know each other",
    ),
    "a baseline that knows a sibling": (
        "decomposerl/baselines/hiss.py",
        "import decomposerl.baselines.direct\n",
        "Baselines do not know each other",
    ),
    "a baseline that knows the rewards": (
        "decomposerl/baselines/method.py",
        late("decomposerl.rewards.scoring"),
        "Evaluation does not import rewards",
    ),
    "dagster in the domain": ("decomposerl/claims/load.py", "import dagster\n", "no service"),
    "a clock in the domain": ("decomposerl/funnel/step.py", "import time\n", "no service"),
    "a network client in an asset": ("assets/funnel.py", "import requests\n", "through a resource"),
    "a late torch outside the kernels": (
        "decomposerl/funnel/catalogue.py",
        late("torch"),
        "kernels load torch",
    ),
    "a second door to the hub": (
        "resources/corpora/pages.py",
        "import huggingface_hub\n",
        "One seam",
    ),
}

SIBLING = "a step that knows a sibling"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    for package in PYPROJECT["tool"]["importlinter"]["root_packages"]:
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=skipped)
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def broken_contracts(tree: Path) -> set[str]:
    """Names of the import contracts that ``lint-imports`` finds broken in a tree."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    broken = set(re.findall(r"^(.+) BROKEN", done.stdout, re.MULTILINE))
    assert (done.returncode == 0) == (not broken), done.stdout + done.stderr
    assert "KEPT" in done.stdout, done.stdout + done.stderr
    return broken


@pytest.fixture(scope="module")
def broken_by_seed(tree: Path) -> dict[str, list[str]]:
    """The contracts that each seed breaks when it alone is planted; all in one process.

    Of a seed, only the contracts that are to forbid it are checked: any other would cost as much.
    """
    whole = {"nothing": ("decomposerl/errors.py", "", ""), "any": (*SEEDS[SIBLING][:2], "")}
    asked = json.dumps(SEEDS | whole)
    command = [sys.executable, str(SUPPORT / "contract_child.py")]
    subprocess.run(command, cwd=tree, input=asked, text=True, capture_output=True, check=True)
    return json.loads((tree / "broken.json").read_text("utf-8"))


def test_the_import_contracts_hold(tree: Path, broken_by_seed: dict[str, list[str]]):
    """The house as it stands breaks no contract, and each seed leaves it as it was."""
    assert set() == broken_contracts(tree)
    assert [] == broken_by_seed["nothing"]


def test_the_command_reports_a_breach(tree: Path, broken_by_seed: dict[str, list[str]]):
    """``lint-imports`` itself finds what the seeds' process finds, and fails."""
    name, text, _ = SEEDS[SIBLING]
    with planted(tree / name, text):
        assert set(broken_by_seed["any"]) == broken_contracts(tree)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_violation_breaks_its_contract(broken_by_seed: dict[str, list[str]], seed: str):
    """Each contract is alive: a planted violation breaks the contract that forbids it."""
    _, _, fragment = SEEDS[seed]
    assert broken_by_seed[seed]
    assert all(fragment in contract for contract in broken_by_seed[seed])


def test_every_contract_has_a_seed():
    """No contract is taken on trust: for each one there is a violation that must break it."""
    fragments = [fragment for _, _, fragment in SEEDS.values()]
    assert [] == [name for name in CONTRACTS if not any(part in name for part in fragments)]


def test_the_contracts_are_few():
    """At most 14: a folder's inner order is a matter of circles, not of a contract of its own."""
    assert 14 >= len(CONTRACTS)
