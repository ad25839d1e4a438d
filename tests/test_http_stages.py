"""Stages of the funnel end to end over HTTP: the protocol, the accounts, and a kill."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import stage_child
from fault_server import MODEL, Answer, FaultServer, replying
from stage_child import run_stage, write_claims
from tiny_models import tiny_chat
from tiny_server import TinyServer

from decomposerl.funnel.conservation import broken_rules
from decomposerl.schemas import DECONTAMINATED, RULE_FILTERED
from resources.tables import file_sha256

ROOT = Path(__file__).resolve().parent.parent
ROWS, KILLED_AFTER = 2_000, 700


class QuestionServer(FaultServer):
    """Writes questions that depend on the prompt alone: one for every third claim, else two."""

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:  # noqa: ARG002 - overrides
        digest = hashlib.sha256(asked["messages"][-1]["content"].encode()).hexdigest()
        questions = [f"Is {part} so?" for part in (digest[:6], digest[6:12])]
        asked_for = questions[: 1 if int(digest, 16) % 3 == 0 else 2]
        tags = "".join(f"<question>{question}</question>\n" for question in asked_for)
        return super()._well(asked, replying(f"<questions>\n{tags}</questions>"))


def accounts(result: dg.ExecuteInProcessResult, stage: str) -> tuple[int, int]:
    """Items that the stage asked an engine for, and items it had stored."""
    told = result.asset_materializations_for_node(stage)[0].metadata
    return int(told["engine calls"].value), int(told["engine results reused"].value)  # type: ignore[arg-type]


def read(data: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(data / f"{name}.parquet")


def test_difficulty_over_http_scores_every_claim_once(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
):
    """A real model behind the endpoint: each row is scored, kept or dropped, and never again."""
    before = write_claims(tmp_path, RULE_FILTERED, 40)
    folder = tiny_chat(tmp_path_factory.mktemp("chat") / "tiny-chat")
    with TinyServer(folder) as server:
        first = run_stage("difficulty_band", tmp_path, server.url, server.name)
        hashes = [file_sha256(path) for path in sorted(tmp_path.glob("d*/*.parquet"))]
    # The server is gone: whatever asked it again would fail.
    second = run_stage("difficulty_band", tmp_path, server.url, server.name)
    assert [(40, 0), (0, 40)] == [accounts(run, "difficulty_band") for run in (first, second)]
    kept, drops = read(tmp_path, "difficulty_band"), read(tmp_path, "drops/difficulty_band")
    assert [] == broken_rules(before, kept, drops)
    assert drops["engine"].str.contains("tiny-chat").all()
    assert drops["value"].is_between(0, 1).all()
    assert drops["value"].n_unique() > 1
    assert hashes == [file_sha256(path) for path in sorted(tmp_path.glob("d*/*.parquet"))]


def test_a_killed_silver_run_asks_only_for_what_is_missing(tmp_path: Path):
    """2,000 claims, kill -9 in the middle: the next run asks the rest, and nothing differs."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    before = write_claims(killed, DECONTAMINATED, ROWS)
    write_claims(whole, DECONTAMINATED, ROWS)
    with QuestionServer(usual=Answer(delay_s=0.01)) as server:
        command = [sys.executable, stage_child.__file__, "silver_decomposed"]
        running = subprocess.Popen(
            [*command, str(killed), server.url, MODEL],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        )
        while len(server.asked) < KILLED_AFTER:
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        asked = len(set(server.prompts))
        server.asked.clear()
        result = run_stage("silver_decomposed", killed, server.url, MODEL)
        again = len(server.asked)
        run_stage("silver_decomposed", whole, server.url, MODEL)
    assert again == len(set(server.prompts[:again]))
    assert ROWS - asked <= again < ROWS - asked // 2
    told = result.asset_materializations_for_node("silver_decomposed")[0].metadata
    assert again == told["chat calls"].value
    kept, drops = read(killed, "silver_decomposed"), read(killed, "drops/silver_decomposed")
    assert [] == broken_rules(before, kept, drops)
    assert {"too_few_questions"} == set(drops["reason"])
    assert 0.5 < kept.height / ROWS < 0.8
    for name in ("silver_decomposed", "drops/silver_decomposed"):
        assert file_sha256(killed / f"{name}.parquet") == file_sha256(whole / f"{name}.parquet")
