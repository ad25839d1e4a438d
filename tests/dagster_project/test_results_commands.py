"""``leaderboard --format aggrefact`` and ``export-inspect``, over a data folder."""

import dataclasses
import json
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from decomposerl.evaluation.aggrefact import PARTS
from decomposerl.evaluation.systems import System
from decomposerl.schemas import BENCHMARK_CLAIMS
from evaluation_files import SYSTEMS, write_evaluation
from evaluation_graph import claim_row
from resources.store.parquet import StageRun, run_path, write_parquet

WHOLE, SHORT = (one.key for one in SYSTEMS)
NAME = "llm_aggrefact"
WITHOUT = pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect-ai is installed")


def output(data: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--data", str(data)])
    assert code == done.exit_code, done.output
    return done.output


def record(data: Path, system: System | str, status: str = "ok") -> None:
    """The run records of a system's predictions and scores."""
    for kind in ("predictions", "scores"):
        key = f"{kind}/{NAME}/{system}"
        run = StageRun(key, "r", "2026-01-02T03:04:05+00:00", 60.0, 1, 1, 0, 0, "e", 0, 0, "{}")
        path = run_path(data, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(dataclasses.replace(run, status=status))))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two systems on four claims of each part, one of them in a short run."""
    parts = [part for part in PARTS for _ in range(4)]
    rows = [claim_row(number, subset=part) for number, part in enumerate(parts)]
    claims = BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, BENCHMARK_CLAIMS.schema))
    write_parquet(claims, tmp_path / f"benchmark/{NAME}.parquet")
    write_evaluation(tmp_path, NAME, claims)
    record(tmp_path, WHOLE)
    record(tmp_path, SHORT, "limited")
    return tmp_path


def test_the_leaderboard_of_llm_aggrefact_is_a_csv_of_whole_runs(data: Path):
    """One row for each system, with the page's columns; a short run is named, not shown."""
    note, header, *rows = output(data, "leaderboard", "--format", "aggrefact").splitlines()
    assert f"{SHORT} is left out: a short run is no measurement" == note
    assert ["model", "Size", "Average", *PARTS.values()] == header.split(",")
    assert ["Simple @ rules,-,100.0" + ",100.0" * 11] == rows


def test_without_a_whole_run_the_command_says_what_to_do(data: Path, tmp_path: Path):
    """Short runs alone, and no run at all."""
    record(data, WHOLE, "limited")
    for folder in (data, tmp_path / "empty"):
        shown = output(folder, "leaderboard", "--format", "aggrefact", code=2)
        assert "decomposerl evaluate SYSTEM --benchmarks llm_aggrefact" in " ".join(shown.split())


@WITHOUT
def test_without_inspect_the_export_names_its_environment(data: Path, tmp_path: Path):
    """Before anything is written."""
    shown = output(data, "export-inspect", WHOLE, "--out", str(tmp_path / "logs"), code=2)
    assert ".venv-inspect/bin/pip install -e '.[inspect]'" in " ".join(shown.split())
    assert not (tmp_path / "logs").exists()


def test_inspect_reads_the_exported_logs(data: Path, tmp_path: Path):
    """With its own reader: every sample, its score and the metrics; a second export replaces it."""
    log = pytest.importorskip("inspect_ai.log", reason="inspect-ai has an environment of its own")
    logs = tmp_path / "logs"
    for _ in range(2):
        shown = output(data, "export-inspect", WHOLE, SHORT, "--out", str(logs))
    assert 2 == shown.count("44 claims")
    found = {one.task: one for one in log.list_eval_logs(str(logs))}
    assert {f"decomposerl/{NAME}"} == set(found)
    read = log.read_eval_log(str(logs / f"{NAME}-{SHORT}.eval"))
    assert ("success", f"decomposerl/{SHORT}", 44) == (
        read.status,
        read.eval.model,
        len(read.samples),
    )
    assert {"C", "I"} == {sample.scores["verdict"].value for sample in read.samples}
    assert 0.5 == read.results.scores[0].metrics["balanced_accuracy"].value
    assert "limited" == read.eval.metadata["status"]
    assert 2 == len(list(logs.iterdir()))


def test_a_system_that_was_not_evaluated_has_no_logs(data: Path, tmp_path: Path):
    """The message names the command that predicts."""
    pytest.importorskip("inspect_ai.log", reason="inspect-ai has an environment of its own")
    key = "cot-rules-faithful"
    shown = output(data, "export-inspect", key, "--out", str(tmp_path / "logs"), code=2)
    assert f"first: decomposerl evaluate {key}" in " ".join(shown.split())
