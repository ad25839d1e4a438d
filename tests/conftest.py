"""What all tests share: a setting of property tests, the order of the files, the sample."""

import fcntl
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from sample import Sample

# No deadline, as machines are busy. `--hypothesis-profile nightly`: three times as many, new ones.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=33)
settings.register_profile("nightly", deadline=None, print_blob=True)
settings.load_profile("house")
if Path("decomposerl.toml").exists():
    pytest.exit("move decomposerl.toml away: tests would read its settings")

LONGEST_FIRST = (
    "tests/project/test_first_pages.py",
    "tests/assets/test_studies.py",
    "tests/project/test_ui.py",
    "tests/resources/training/test_resume.py",
    "tests/assets/test_evaluation_graph.py",
    "tests/dagster_project/test_run_commands.py",
    "tests/dagster_project/test_run_errors.py",
    "tests/assets/test_report.py",
    "tests/assets/test_training_graph.py",
    "tests/resources/judge/test_tiny_judge.py",
    "tests/dagster_project/test_terminal.py",
    "tests/project/test_trace_page.py",
    "tests/dagster_project/test_settings.py",
    "tests/project/test_resume.py",
    "tests/resources/training/test_judge_heads.py",
    "tests/resources/training/test_worker.py",
    "tests/project/test_pipeline.py",
    "tests/dagster_project/test_rewards.py",
)
"""Files of over ten seconds. One that starts last leaves the other workers idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest files first; ``--no-loadscope-reorder`` keeps xdist from sorting again."""
    rank = {name: index for index, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))


@pytest.fixture(scope="session")
def of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run of the tests; of all its workers, where there are several."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def sample(of_all_workers: Path) -> "Sample":
    """The bundled sample, which takes seconds to generate: once for all workers."""
    from sample import generate

    with (of_all_workers / "sample.pickle").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        file.seek(0)
        if stored := file.read():
            found: Sample = pickle.loads(stored)  # noqa: S301 - written below
            return found
        made = generate()
        file.write(pickle.dumps(made))
        return made
