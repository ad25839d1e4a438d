"""What several tests of the whole project read: one run of the demo, and started commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sample import Sample
    from shared_runs import DemoRun


@pytest.fixture(scope="session")
def demo(of_all_workers: Path, sample: "Sample") -> "DemoRun":
    """The funnel on the bundled sample as ``make demo`` runs it: once for all workers."""
    from shared_runs import demo_run

    return demo_run(of_all_workers, sample)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of the server that starts ``decomposerl`` and ``dagster`` at once."""
    from warm_programs import warm_programs

    with warm_programs(tmp_path_factory.mktemp("warm")) as address:
        yield address
