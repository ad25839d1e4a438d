"""Stages of the funnel end to end over HTTP: the protocol, the accounts, and a kill."""

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

import stage_child
from assets.catalog import chat_replies
from dagster_project.engine_resources import resources_for
from decomposerl.funnel.step import conservation_errors
from decomposerl.schemas import CHAT_REPLIES, DECONTAMINATED, RULE_FILTERED
from environment import settings_of
from fault_server import (
    BROKEN,
    BUSY,
    CUT,
    EMPTY,
    MODEL,
    REASONING,
    REFUSED,
    TRUNCATED,
    WELL,
    Answer,
    FaultServer,
    replying,
    using,
)
from project import PYTHONPATH, ROOT
from resources.chat.reply_store import REPLIES_FILE
from resources.store.integrity import file_sha256
from stage_child import IN_FLIGHT, run_stage, write_claims
from tiny_models import tiny_chat
from tiny_server import TinyServer

ROWS, KILLED_AFTER = 1_000, 400


class QuestionServer(FaultServer):
    """Writes questions that depend on the prompt alone: one for every third claim, else two."""

    spoiled: Mapping[int, Answer] = {}
    """How the claims with these numbers are answered."""

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:
        number = int(asked["messages"][-1]["content"].split("\n</claim>")[0].split()[-1])
        if number in self.spoiled and self.spoiled[number].change:
            return super()._well(asked, self.spoiled[number])
        if answer.change:
            return super()._well(asked, answer)
        digest = hashlib.sha256(asked["messages"][-1]["content"].encode()).hexdigest()
        questions = [f"Is {part} so?" for part in (digest[:6], digest[6:12])]
        asked_for = questions[: 1 if int(digest, 16) % 3 == 0 else 2]
        tags = "".join(f"<question>{question}</question>\n" for question in asked_for)
        return super()._well(asked, replying(f"<questions>\n{tags}</questions>"))


NO_ANSWERS = (
    *(EMPTY, REASONING, TRUNCATED, replying("I cannot")),
    replying("Is it \ud800?"),  # what no table can hold: half a pair
    replying('{"questions": ["Is it \\ud800?", "Who?"]}'),
    replying('{"questions": [' + '"a", ' * 99 + '"b"]}'),
    using({"prompt_tokens": 10**30, "completion_tokens": -5}),
)


def accounts(result: dg.ExecuteInProcessResult, stage: str) -> tuple[int, int]:
    """Items that the stage asked an engine for, and items it had stored."""
    metadata = result.asset_materializations_for_node(stage)[0].metadata
    return int(metadata["engine calls"].value), int(metadata["engine results reused"].value)  # type: ignore[arg-type]


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
    assert [] == conservation_errors(before, kept, drops)
    assert drops["engine"].str.contains("tiny-chat.* prompt=own@").all()
    metadata = first.asset_materializations_for_node("difficulty_band")[0].metadata
    assert "asked in this project's words" in str(metadata["prompt"].value)
    assert drops["value"].is_between(0, 1).all()
    assert drops["value"].n_unique() > 1
    assert hashes == [file_sha256(path) for path in sorted(tmp_path.glob("d*/*.parquet"))]


def test_passing_faults_are_not_seen_in_the_silver_table(tmp_path: Path):
    """What a retry fixes leaves no trace but a call more."""
    write_claims(tmp_path, DECONTAMINATED, 30)
    faults = (BUSY, BROKEN, CUT)
    with QuestionServer([WELL, *faults]) as server:
        result = run_stage("silver_decomposed", tmp_path, server.url, MODEL)
        assert 30 + len(faults) == len(server.asked)
    drops = read(tmp_path, "drops/silver_decomposed")
    assert {"too_few_questions"} == set(drops["reason"])
    metadata = result.asset_materializations_for_node("silver_decomposed")[0].metadata
    counted = tuple(metadata[f"chat {name}"].value for name in ("calls", "retries"))
    assert (30 + len(faults), len(faults)) == counted


def test_claims_without_an_answer_are_dropped_and_asked_again_next_time(tmp_path: Path):
    """Empty, cut, unparsable or unstorable answers: they leave with that reason, only for now.

    The stage's metadata says how many calls reported a usage that cannot be.
    """
    before = write_claims(tmp_path, DECONTAMINATED, 300)
    with QuestionServer() as server:
        server.spoiled = dict(enumerate(NO_ANSWERS, start=7))
        first = run_stage("silver_decomposed", tmp_path, server.url, MODEL)
        drops = read(tmp_path, "drops/silver_decomposed")
        lost = drops.filter(reason="no_silver_answer")["claim_id"]
        assert set(before["claim_id"][7 : 7 + len(NO_ANSWERS)]) == set(lost)
        assert [] == conservation_errors(before, read(tmp_path, "silver_decomposed"), drops)
        metadata = first.asset_materializations_for_node("silver_decomposed")[0].metadata
        assert metadata["chat estimated"].value >= 1
        server.asked.clear()
        server.spoiled = {}
        run_stage("silver_decomposed", tmp_path, server.url, MODEL)
        assert len(NO_ANSWERS) == len(server.asked)
    assert {"too_few_questions"} == set(read(tmp_path, "drops/silver_decomposed")["reason"])


def test_a_poisoned_cache_poisons_no_run(tmp_path: Path):
    """A stored reply that no table can hold, from before there was a check, is asked again."""
    write_claims(tmp_path, DECONTAMINATED, 40)
    with QuestionServer() as server:
        run_stage("silver_decomposed", tmp_path, server.url, MODEL)
        before = read(tmp_path, "silver_decomposed")
        assert not (tmp_path / "engine_results" / "decomposer").exists()  # one memory
        bad = json.dumps({"questions": ["Is it \ud800?", "Who?"]})
        with closing(sqlite3.connect(tmp_path / "engine_results" / REPLIES_FILE)) as file, file:
            file.execute("UPDATE replies SET digest = NULL")
            file.execute("UPDATE replies SET text = ? WHERE rowid = 3", [bad])
        server.asked.clear()
        digests = set()
        for _ in range(2):
            run_stage("silver_decomposed", tmp_path, server.url, MODEL)
            digests.add(file_sha256(tmp_path / "silver_decomposed.parquet"))
        assert (1, 1) == (len(server.asked), len(digests))
    after = read(tmp_path, "silver_decomposed")
    # The stored reply was the first attempt; the second names the form, so its answer may differ.
    both = before.join(after, on=["claim_id", "questions"], how="inner", nulls_equal=True)
    assert both.height >= max(before.height, after.height) - 1


def test_a_refused_claim_is_dropped_and_the_rest_is_kept(tmp_path: Path):
    """A request that the endpoint refuses is not repeated and costs one claim."""
    write_claims(tmp_path, DECONTAMINATED, 40)
    with QuestionServer([WELL, REFUSED]) as server:
        run_stage("silver_decomposed", tmp_path, server.url, MODEL)
        assert 40 == len(server.asked)
    reasons = read(tmp_path, "drops/silver_decomposed")["reason"].to_list()
    assert 1 == reasons.count("no_silver_answer")
    exported = dg.materialize(
        [chat_replies, dg.AssetSpec("difficulty_band"), dg.AssetSpec("silver_decomposed")],
        selection=["chat_replies"],
        resources=resources_for(settings_of(tmp_path)),
    )
    assert exported.success
    replies = CHAT_REPLIES.conform(read(tmp_path, "chat_replies"))
    assert (39, {MODEL}, 5 * 39) == (
        replies.height,
        set(replies["model"]),
        replies["completion_tokens"].sum(),
    )


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
            env=os.environ | {"PYTHONPATH": PYTHONPATH},
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
    # Lost at most: what was in flight, and what came in the moment of the last transaction.
    assert ROWS - asked <= again <= ROWS - asked + 2 * IN_FLIGHT
    metadata = result.asset_materializations_for_node("silver_decomposed")[0].metadata
    assert again == metadata["chat calls"].value
    kept, drops = read(killed, "silver_decomposed"), read(killed, "drops/silver_decomposed")
    assert [] == conservation_errors(before, kept, drops)
    assert {"too_few_questions"} == set(drops["reason"])
    assert 0.5 < kept.height / ROWS < 0.8
    for name in ("silver_decomposed", "drops/silver_decomposed"):
        assert file_sha256(killed / f"{name}.parquet") == file_sha256(whole / f"{name}.parquet")
