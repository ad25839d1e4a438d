"""Every shell block of the pages on GPUs and evaluation runs, or says that it is not run."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS
from page_commands import Block, FreePorts, script, sessions, stand_ins, write_programs
from project import PYTHONPATH, ROOT
from resources.policy_tiny.folder import load_base_policy
from resources.store.parquet import write_parquet
from tiny_models import tiny_chat
from training_graph import claims

LIMIT_S = 120
JUDGED = '{"answer": 1}'


@dataclass(frozen=True)
class Desk:
    """A folder in which the commands of a page run as a reader's do in the project's."""

    folder: Path

    def run(self, page: str, session: list[Block], **variables: str) -> tuple[int, str]:
        """Exit status and output of a session; every process that it started is gone."""
        text = script(session, stand_ins(page), FreePorts())
        output = self.folder / "output"
        with output.open("w") as printed:
            shell = subprocess.Popen(
                ["bash", "-c", text],
                cwd=self.folder,
                env=self._environment() | variables,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status = shell.wait(LIMIT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        return status, output.read_text()

    def _environment(self) -> dict[str, str]:
        programs = (self.folder / "programs", Path(sys.prefix) / "bin")
        return {
            "PATH": ":".join([*map(str, programs), "/usr/bin", "/bin"]),
            "PYTHONPATH": PYTHONPATH,
            "HOME": str(self.folder),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "DAGSTER_HOME": str(self.folder / ".dagster_home"),
            "DECOMPOSERL_DATA": str(self.folder / "data"),
            "STAND_IN_HOLDS": str(self.folder / "held"),
            "STAND_IN_SAYS": JUDGED,
        }


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A project's folder with claims, the tiny base policy and a tiny chat model."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("configs", "constraints-gpu.txt"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".dagster_home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", folder / ".dagster_home")
    (folder / "data").mkdir()
    for table, rows in ((SILVER_DECOMPOSED, 12), (TRAINING_CLAIMS, 8)):
        write_parquet(claims(table, rows), folder / f"data/{table.name}.parquet")
    load_base_policy(folder / "data/base_policy")
    (folder / "models").mkdir()
    tiny_chat(folder / "models/tiny")
    return Desk(folder)


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


@pytest.mark.parametrize("heading", sessions(read("running-on-gpus.md")))
def test_every_command_of_the_gpu_page_runs(desk: Desk, heading: str):
    """As printed, with what the page's table replaces."""
    page = read("running-on-gpus.md")
    write_programs(desk.folder / "programs", stand_ins(page), sys.executable, ROOT)
    status, printed = desk.run(page, sessions(page)[heading])
    assert 0 == status, printed[-4_000:]
