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
SEEDS = {
    "an undeclared folder": ("decomposerl/utils/__init__.py", '"""Odds."""\n', "The domain reads"),
    "an undeclared step": ("decomposerl/funnel/stray.py", '"""Odd."""\n', "funnel step"),
    "a step that knows a sibling": (
        "decomposerl/funnel/overlap.py",
        "import decomposerl.funnel.passages\n",
        "funnel step",
    ),
    "a source that knows a sibling": (
        "decomposerl/claims/sources/hover.py",
        "import decomposerl.claims.sources.wice\n",
        "Sources do not know each other",
    ),
    "a benchmark that knows a sibling": (
        "decomposerl/claims/benchmarks/fever.py",
        "import decomposerl.claims.benchmarks.coverbench\n",
        "Benchmarks do not know each other",
    ),
    "an asset that imports an asset": (
        "assets/funnel.py",
        "import assets.corpora\n",
        "Assets meet through argument names",
    ),
    "the domain reaching up": (
        "decomposerl/claims/load.py",
        "def late():\n    import resources.store.parquet\n",
        "never back",
    ),
    "a benchmark that knows a study": (
        "perf/pages.py",
        "def late():\n    import studies.growth\n",
        "never back",
    ),
    "a product that knows its benchmarks": (
        "dagster_project/doctor.py",
        "def late():\n    import perf.timing\n",
        "never back",
    ),
    "dagster in the domain": ("decomposerl/claims/load.py", "import dagster\n", "no service"),
    "a clock in the domain": ("decomposerl/funnel/step.py", "import time\n", "no service"),
    "a late torch outside the kernels": (
        "decomposerl/funnel/catalogue.py",
        "def late():\n    import torch\n",
        "kernels load torch",
    ),
    "a type that knows an adapter": (
        "decomposerl/claims/claim.py",
        "import decomposerl.claims.source\n",
        "a corpus knows the types",
    ),
    "a kernel that reaches up": (
        "decomposerl/kernels/matches.py",
        "import decomposerl.kernels.set_join\n",
        "Kernels build on each other",
    ),
    "a reward that knows a sibling": (
        "decomposerl/rewards/joint.py",
        "import decomposerl.rewards.coverage\n",
        "A reward knows the type",
    ),
    "a baseline that knows a sibling": (
        "decomposerl/baselines/cot.py",
        "import decomposerl.baselines.simple\n",
        "A baseline knows the type",
    ),
    "a block that knows the grammar": (
        "decomposerl/traces/blocks.py",
        "def late():\n    import decomposerl.traces.grammar\n",
        "Traces: the grammar",
    ),
    "a call that knows the plan": (
        "decomposerl/judge/call.py",
        "def late():\n    import decomposerl.judge.plan\n",
        "The judge: a plan",
    ),
    "a recipe's type that knows the recipes": (
        "decomposerl/training/experiment.py",
        "def late():\n    import decomposerl.training.experiments\n",
        "Training in the domain",
    ),
    "an evaluation that knows the rewards": (
        "decomposerl/baselines/method.py",
        "def late():\n    import decomposerl.rewards.composite\n",
        "Evaluation does not import rewards",
    ),
    "a list of systems that knows the leaderboard": (
        "decomposerl/evaluation/systems.py",
        "def late():\n    import decomposerl.evaluation.leaderboard\n",
        "Evaluation: what is shown",
    ),
    "a caller's port that knows the runner": (
        "resources/evaluation/caller.py",
        "def late():\n    import resources.evaluation.runner\n",
        "Asking for verdicts",
    ),
    "a checkpoint that knows the trainer": (
        "resources/training/safe_point.py",
        "def late():\n    import resources.training.train\n",
        "The trainer reads",
    ),
    "a profile that knows the definitions": (
        "dagster_project/jobs.py",
        "def late():\n    import dagster_project.definitions\n",
        "The wiring reads",
    ),
    "a second door to the hub": (
        "resources/corpora/pages.py",
        "import huggingface_hub\n",
        "One seam",
    ),
    "an item that knows the page": (
        "decomposerl/reports/trace_page/items.py",
        "def late():\n    import decomposerl.reports.trace_page.pages\n",
        "The trace page",
    ),
    "a source of traces that knows the collection": (
        "resources/traces/marks.py",
        "def late():\n    import resources.traces.collection\n",
        "Traces on the page",
    ),
    "a port that knows the evaluation": (
        "resources/judge/replay.py",
        "def late():\n    import resources.evaluation.model\n",
        "one folder a port",
    ),
    "a loose file in resources": ("resources/stray.py", '"""Odd."""\n', "one folder a port"),
    "a path that knows the tables": (
        "resources/store/paths.py",
        "import resources.store.parquet\n",
        "The store: files below",
    ),
    "a row that knows its reader": (
        "studies/reply_rows.py",
        "import studies.reply_operations\n",
        "The studies of prompts and replies",
    ),
    "an endpoint that knows the client": (
        "resources/chat/endpoints.py",
        "def late():\n    import resources.chat.client\n",
        "The chat client reads",
    ),
    "a judge that knows its resource": (
        "resources/judge/rule_judge.py",
        "def late():\n    import resources.judge.resource\n",
        "The judge port",
    ),
    "a chunk that knows a model": (
        "resources/verifier/chunks.py",
        "def late():\n    import resources.verifier.minicheck_local\n",
        "The verifier port",
    ),
    "an embedder that knows its resource": (
        "resources/embedder/minilm.py",
        "def late():\n    import resources.embedder.resource\n",
        "The embedder port",
    ),
    "an undeclared decomposer": (
        "resources/decomposer/odd.py",
        '"""Odd."""\n',
        "The decomposer port",
    ),
    "an undeclared token counter": ("resources/tokens/odd.py", '"""Odd."""\n', "The token port"),
    "an undeclared entity engine": ("resources/entities/odd.py", '"""Odd."""\n', "The entity port"),
    "a view that knows the database": (
        "resources/catalogue/sql.py",
        "def late():\n    import resources.catalogue.database\n",
        "The catalogue",
    ),
    "an undeclared report": ("decomposerl/reports/odd.py", '"""Odd."""\n', "Reports: pages"),
    "a template that knows a request": (
        "decomposerl/prompts/template.py",
        "def late():\n    import decomposerl.prompts.silver\n",
        "Prompts: requests",
    ),
    "words that know clauses": (
        "decomposerl/text/words.py",
        "def late():\n    import decomposerl.text.clauses\n",
        "Text: clauses",
    ),
    "a world that knows its claims": (
        "sample/world.py",
        "def late():\n    import sample.planting\n",
        "The sample: raw formats",
    ),
    "a network client in an asset": ("assets/funnel.py", "import requests\n", "through a resource"),
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
