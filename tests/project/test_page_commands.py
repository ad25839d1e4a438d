"""Every shell block of the pages on GPUs and evaluation runs, or says that it is not run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.schemas import BENCHMARK_CLAIMS, SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.training.layout import GIB, LAYOUTS
from evaluation_graph import write_tests
from metrics_parts import write
from page_commands import (
    HEAD,
    Block,
    FreePorts,
    blocks,
    script,
    sessions,
    stand_ins,
    write_programs,
)
from project import PYTHONPATH, ROOT
from resources.policy_tiny.folder import load_base_policy
from resources.store.parquet import write_parquet
from tiny_models import tiny_chat
from training_graph import claims

LIMIT_S = 300
REASON = re.compile(r"^ *Not run by a test: \w.{9}", re.MULTILINE)
RULING = "<answer>1</answer>"


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
                ["/bin/bash", "-c", text],
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
            "STAND_IN_SAYS": RULING,
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
    for table, rows in ((SILVER_DECOMPOSED, 60), (TRAINING_CLAIMS, 8)):
        page = pl.format("Page {}. {}", pl.int_range(pl.len()), "evidence")
        frame = claims(table, rows).with_columns(evidence=page)
        write_parquet(frame, folder / f"data/{table.name}.parquet")
    load_base_policy(folder / "data/base_policy")
    (folder / "models").mkdir()
    tiny_chat(folder / "models/tiny")
    return Desk(folder)


def read(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


GPUS, EVALUATION = read("running-on-gpus.md"), read("evaluation.md")
CARDS = {layout.name: str(layout.gpu.gib * GIB / 1e9) for layout in LAYOUTS}


@pytest.mark.parametrize("heading", sessions(GPUS))
def test_every_command_of_the_gpu_page_runs(desk: Desk, heading: str):
    """As printed, with what the page's table replaces; a layout asks judge and embedder."""
    write_programs(desk.folder / "programs", stand_ins(GPUS), sys.executable, ROOT)
    journal = desk.folder / "held.requests"
    journal.unlink(missing_ok=True)
    card = {"STAND_IN_CARD_GB": CARDS[heading]} if heading in CARDS else {}
    status, printed = desk.run(GPUS, sessions(GPUS)[heading], **card)
    assert 0 == status, printed[-4_000:]
    asked = {json.loads(line)["path"] for line in requests(journal)}
    assert asked == ({"/v1/chat/completions", "/v1/embeddings"} if heading in CARDS else set())


def test_every_command_of_the_evaluation_page_runs(desk: Desk):
    """In the page's order, over one data folder: later blocks read what earlier ones wrote."""
    write_programs(desk.folder / "programs", stand_ins(EVALUATION), sys.executable, ROOT)
    write_evaluated(desk.folder)
    for heading, session in sessions(EVALUATION).items():
        status, printed = desk.run(EVALUATION, session, STAND_IN_SAYS="Supported")
        assert 0 == status, f"{heading}: {printed[-4_000:]}"


def requests(journal: Path) -> list[str]:
    return journal.read_text().splitlines() if journal.exists() else []


def write_evaluated(folder: Path) -> None:
    """Test sets of a few claims, an adapter, and the files that ``decomposerl metrics`` reads."""
    write_tests(folder / "data", 6)
    for benchmark in BENCHMARKS:
        path = folder / f"data/benchmark/{benchmark.name}.parquet"
        if not path.exists():
            write_parquet(BENCHMARK_CLAIMS.empty(), path)
    settings = DecontaminationSettings().model_dump_json()
    record = {"status": "ok", "config": settings}
    (folder / "data/stage_runs").mkdir(exist_ok=True)
    (folder / "data/stage_runs/decontaminated.json").write_text(json.dumps(record))
    adapter = folder / "data/policy/paper_7b/adapter"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text('{"r": 64}')
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")
    labels = ("SUPPORTS", "REFUTES", "SUPPORTS", "REFUTES")
    words = [{"id": n, "label": label} for n, label in enumerate(labels)]
    scores = [{"id": n, "p": 0.9 - 0.2 * n, "dataset": "ab"[n % 2]} for n in range(4)]
    write(folder / "said.jsonl", [{"id": n, "predicted_label": "SUPPORTS"} for n in range(4)])
    write(folder / "gold.csv", words)
    write(folder / "scores.csv", [one | two for one, two in zip(scores, words, strict=True)])
    parts = [{"meta": {"id": n}, "label": ("supported", "refuted")[n % 2]} for n in range(4)]
    for name in ("test", "dev"):
        write(folder / f"{name}.json", [{"id": n, "p": 0.9 - 0.2 * n} for n in range(4)])
        write(folder / f"{name}.jsonl", parts)
    write(folder / "chunks.parquet", [{"id": n // 2, "p": 0.1 * n} for n in range(8)])
    write(folder / "gold.tsv", words)
    write(folder / "predictions.jsonl", [{"predicted_label": one} for one in labels])
    write(folder / "gold.jsonl", [{"label": one} for one in labels])
    answers = [{"answer": "SUPPORTS", "model": "ours", "split": "dev", "hops": 2} for _ in words]
    rows = [one | two | {"dataset": "a"} for one, two in zip(answers, words, strict=True)]
    write(folder / "all.jsonl", rows)


def test_a_block_that_is_not_run_says_so():
    """On both pages the sentence has a reason; a replaced word stands on its page."""
    for page in (GPUS, EVALUATION):
        body = page.split(HEAD)[0] + page.split(HEAD)[1].split("\n\n", 1)[1]
        assert [] == [printed for printed in stand_ins(page) if printed not in body]
        assert sum(block.not_run for block in blocks(page)) == len(REASON.findall(page))
