"""Every shell block of the page on evaluation runs, or says that it is not run."""

import json
from pathlib import Path

from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_graph import write_tests
from metrics_parts import write
from page_commands import desk_in, sessions
from project import ROOT
from resources.store.parquet import write_parquet

PAGE = (ROOT / "docs/how-to/evaluate.md").read_text("utf-8")


def test_every_command_of_the_evaluation_page_runs(tmp_path: Path):
    """In the page's order, over one data folder: later blocks read what earlier ones wrote."""
    desk = desk_in(tmp_path, PAGE)
    write_results(desk.folder / "data")
    write_predictions(desk.folder)
    for heading, session in sessions(PAGE).items():
        status, printed = desk.run(PAGE, session, STAND_IN_SAYS="Supported")
        assert 0 == status, f"{heading}: {printed[-4_000:]}"


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
    adapter = data / "policy/paper_7b/adapter"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text('{"r": 64}')
    (adapter / "adapter_model.safetensors").write_bytes(b"weights")


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
