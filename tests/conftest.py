"""One setting for every property test, and an order of the files that keeps all workers busy."""

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # a slow example on a busy machine is no failure
settings.load_profile("house")

LONGEST_FIRST = (
    "tests/project/test_real_funnel.py",
    "tests/project/test_page_commands.py",
    "tests/project/test_pipeline.py",
    "tests/project/test_evaluation_page.py",
    "tests/project/test_resume.py",
    "tests/resources/training/test_worker.py",
    "tests/decomposerl/kernels/test_compiling.py",
    "tests/resources/process/test_interrupt.py",
    "tests/resources/training/test_processes.py",
    "tests/resources/chat/test_transformers_serve.py",
    "tests/project/test_trace_page.py",
    "tests/project/test_ui.py",
    "tests/sample/test_sample.py",
    "tests/perf/test_grpo_step.py",
    "tests/resources/training/test_resume.py",
)
"""Files of over ten seconds. One that starts last leaves the other workers idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the longest files first; ``--no-loadscope-reorder`` keeps xdist from sorting again."""
    rank = {name: index for index, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))
