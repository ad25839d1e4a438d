"""Every shell block of the pages on evaluation runs, or says that it is not run."""

import json
import re
from pathlib import Path

import pytest

from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.schemas import BENCHMARK_CLAIMS, CURVES
from evaluation_graph import write_tests
from metrics_parts import write
from page_commands import HEAD, blocks, desk_in, sessions
from project import ROOT
from resources.store.parquet import write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome
from stand_in_server import adapter

EVALUATE, TABLES, BASELINES, INTERVALS = (
    (ROOT / "docs" / name).read_text("utf-8")
    for name in (
        "how-to/evaluate.md",
        "how-to/paper-tables.md",
        "results/baselines.md",
        "results/intervals.md",
    )
)
REPLACED = f"""\
{HEAD}
| --- | --- |
| `tests/support/vllm_stand_in.py` | `vllm` |
| `--partition simple-qwen2.5-7b-faithful` | `--partition decomposerl-paper_7b` |

"""


def test_every_command_of_the_evaluation_page_runs(tmp_path: Path):
    """In the page's order, over one data folder: later blocks read what earlier ones wrote."""
    page = REPLACED + EVALUATE
    desk = desk_in(tmp_path, page)
    write_results(desk.folder / "data")
    write_predictions(desk.folder)
    printed = {}
    for heading, session in sessions(page).items():
        status, printed[heading] = desk.run(page, session, STAND_IN_SAYS="Supported")
        assert 0 == status, f"{heading}: {printed[heading][-4_000:]}"
    (example,) = re.findall(r"```\n(System .*?)```", page, re.DOTALL)
    assert example in printed["Score a system"]


def test_every_command_for_the_papers_tables_runs(tmp_path: Path):
    """As one shell session, which the page asks for; of each block the first system."""
    page = REPLACED + TABLES
    desk = desk_in(tmp_path, page)
    write_results(desk.folder / "data")
    whole = [block for session in sessions(page).values() for block in session]
    status, printed = desk.run(page, whole, STAND_IN_SAYS="Supported")
    assert 0 == status, printed[-4_000:]


@pytest.mark.parametrize("page", [EVALUATE, TABLES, BASELINES, INTERVALS])
def test_a_block_that_is_not_run_says_why(page: str):
    """Each sentence has a reason and belongs to one block; every shell block is looked at."""
    reasons = re.findall(r"^Not run by a test: \w.{9}", page, re.MULTILINE)
    assert sum(block.not_run for block in blocks(page)) == len(reasons)
    assert len(blocks(page)) == len(re.findall(r"^ *```(?:sh|bash|console)$", page, re.MULTILINE))


def write_results(data: Path) -> None:
    """Test sets of a few claims, and an adapter."""
    write_tests(data, 6)
    for benchmark in BENCHMARKS:
        path = data / f"benchmark/{benchmark.name}.parquet"
        if not path.exists():
            write_parquet(BENCHMARK_CLAIMS.empty(), path)
    settings = DecontaminationSettings().model_dump_json()
    record = {"status": "ok", "config": settings}
    (data / "stage_runs").mkdir(exist_ok=True)
    (data / "stage_runs/decontaminated.json").write_text(json.dumps(record))
    for name in ("paper_7b", "no_necessity"):
        run = RunFolder(data / "policy" / name)
        run.path.mkdir(parents=True)
        adapter(run.adapter, rank=64)
        write_parquet(CURVES.empty(), run.curves)
        write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))


def write_predictions(folder: Path) -> None:
    """The files that ``decomposerl metrics`` reads."""
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
