"""``leaderboard``, and the page that fills the tables."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from decomposerl.baselines.catalogue import SYSTEM_METHODS
from decomposerl.evaluation.leaderboard import LIMITED, leaderboard
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.reports.system_report import leaderboard_page
from decomposerl.schemas import BENCHMARK_CLAIMS, CURVES
from environment import resources_of, variables
from evaluation_graph import claim_row
from leaderboard_parts import SYSTEMS, score, scores
from project import ROOT, SUPPORT
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome
from resources.vllm.process import free_port
from stand_in_server import adapter, requests_of
from tables import cases_beside

TINY, BASE = "decomposerl-tiny", "simple-qwen2.5-7b-faithful"
TITLES = {"fever": "FEVER"}
CASES = cases_beside(__file__, "leaderboard_pages")
NOTES = ("one label", "What verdicts rest on", "project's words", "the spread of training")
RAN = (score(TINY, "fever", 70.0, engine="tiny"), score(BASE, "fever", 71.0, engine="qwen"))


def board(*rows: dict[str, object], limited: str = "") -> pl.DataFrame:
    return leaderboard(scores(rows or RAN), SYSTEMS, ["fever"], {(limited, "fever"): LIMITED})


def output(data: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--data", str(data)])
    assert code == done.exit_code, done.output
    return done.output


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_parquet(board(), tmp_path / "leaderboard.parquet")
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_the_page_says(case: dict[str, Any]):
    """The same in Markdown and text; a note only where it is about something."""
    shown = board(*(score(**row) for row in case["rows"]))
    page = leaderboard_page(shown, TITLES, markdown=True).replace("\\", "")
    markdown = "\n".join(" ".join(line.split()) for line in page.splitlines())
    text = " ".join(leaderboard_page(shown, TITLES).split())
    for words in case["said"]:
        assert words.removesuffix(" |") in markdown
        assert " ".join(words.replace("|", " ").split()) in text
    assert case["notes"] == [note for note in NOTES if note in markdown]
    below = markdown.partition("Further systems")[2]
    assert "↳" not in below


def test_the_page_has_what_was_run_or_what_is_asked_for():
    """Short runs are marked; ``only`` leaves out test sets, not engines."""
    assert "Self_Ask" not in leaderboard_page(board(), TITLES)
    assert "Self-Ask" in leaderboard_page(board(), {}, everything=True)
    alone = leaderboard_page(board(), TITLES, only=["mean_in_domain"])
    assert ("FEVER" in alone, "Avg in" in alone) == (False, True)
    assert {"[1]  qwen", "[2]  tiny"} < set(alone.splitlines())
    assert "nothing was scored yet" == leaderboard_page(board().clear(), {})
    short = leaderboard_page(board(limited=TINY), {})
    assert ("DecomposeRL @ tiny *" in short, "Simple *" in short) == (True, False)


def test_rows_of_the_bundled_sample_say_so(data: Path):
    """Below the tables, with the test sets; nothing where the user's corpora were read."""
    record = data / "stage_runs/benchmark__fever.json"
    record.parent.mkdir()
    for corpora, named in (("bundled sample", True), ("DECOMPOSERL_CORPORA", False)):
        record.write_text(json.dumps({"config": json.dumps({"corpora": corpora})}))
        for words in ((), ("--format", "markdown")):
            text = " ".join(output(data, "leaderboard", *words).split())
            assert named == ("bundled sample" in text)
            assert named == ("with the paper: FEVER" in text)


def test_the_command_prints_the_leaderboard(data: Path):
    """As text with titles of the catalogue; as CSV and JSON in the wide form, run rows alone."""
    assert "FEVER" in output(data, "leaderboard")
    rows = json.loads(output(data, "leaderboard", "--format", "json"))
    assert [BASE, BASE, TINY] == [row["system"] for row in rows]
    assert (71.0, 72.7, 1) == (rows[0]["fever"], rows[0]["fever_paper"], rows[0]["seeds"])
    every = output(data, "leaderboard", "--format", "csv", "--all").splitlines()
    assert len(every) > 1 + len(rows)


# docs/how-to/paper-tables.md, in order on one card

POLICIES = ("paper_7b", "supervision_10", "no_necessity")
PAGE_SYSTEMS = systems(SYSTEM_METHODS, POLICIES)
PATIENCE_S = 300
PASSED_ON = (
    "DECOMPOSERL_PROFILE",
    "DECOMPOSERL_EVALUATION__BASE_URL",
    "DECOMPOSERL_EVALUATION__CONTEXT",
)
DAGSTER = """#!/bin/sh
for name in {names}; do set -- "$@" --data-urlencode "$name=$(printenv $name)"; done
while [ "$1" != --partition ]; do shift; done
partition=$2; shift 2
exec curl -sSf -G "http://127.0.0.1:{port}/$partition" "$@"
"""
VLLM = """#!/bin/sh
STAND_IN_HOLDS={held} CUDA_VISIBLE_DEVICES=0 exec {python} {program} "$@"
"""


def blocks() -> list[str]:
    """The shell blocks that evaluate on the card: not those that cost money or only rank."""
    page = (ROOT / "docs/how-to/paper-tables.md").read_text("utf-8")
    found = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [one for one in found if "serve" in one]


COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""MiniCheck runs code of its repository, so its server starts at a commit only."""


class Evaluation:
    """Predicts one claim with a system in this process, as a line of the page would all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[str] = []

    def predict(self, key: str, env: dict[str, str]) -> None:
        """Raises whatever the run would."""
        own = variables(VLLM=f"{self.folder}/bin/vllm serve", ALLOW_OWN_PROMPT="yes")
        made = resources_of("paper", self.folder, env | own)
        model, verifier = made["evaluation_model"], made["verifier"]
        endpoint = verifier.endpoint.model_copy(update={"revision": COMMIT})
        verifier = verifier.model_copy(update={"endpoint": endpoint})
        row = pl.DataFrame([claim_row(len(self.done))], schema=BENCHMARK_CLAIMS.schema)
        try:
            data = DataFolder(base_dir=str(self.folder))
            engine = model.opened(system_named(key, PAGE_SYSTEMS), data, verifier)
            engine.predict("fever", BENCHMARK_CLAIMS.conform(row), 0.0, str)
            self.done.append(key)
        finally:
            model.close()
            verifier.close()


@pytest.fixture
def evaluation(tmp_path: Path) -> Iterator[tuple[Evaluation, int]]:
    """A folder with both policies, and the port at which its lines are answered."""
    for name in POLICIES:
        run = RunFolder(tmp_path / "policy" / name)
        run.path.mkdir(parents=True)
        adapter(run.adapter, rank=64)
        write_parquet(CURVES.empty(), run.curves)
        write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))
    mine = Evaluation(tmp_path)

    class Line(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Evaluate; 500 with the error where the line fails."""
            asked = urlsplit(self.path)
            env = {name: values[0] for name, values in parse_qs(asked.query).items()}
            status, said = 200, ""
            try:
                mine.predict(asked.path.strip("/"), env)
            except Exception as error:  # noqa: BLE001 - the line's failure
                status, said = 500, str(error)
                sys.stderr.write(f"{asked.path}: {said}\n")
            self.send_response(status)
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Line) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield mine, server.server_port
        server.shutdown()


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_rows_of_the_tables_are_filled_in_order_on_one_card(
    evaluation: tuple[Evaluation, int], tmp_path: Path
):
    """Every line evaluates; no server is asked for what it lacks, and no two share the card."""
    mine, port = evaluation
    stand_in = {"python": sys.executable, "program": SUPPORT / "vllm_stand_in.py"}
    stand_in |= {"held": tmp_path / "held"}
    script(tmp_path / "bin/vllm", VLLM.format(**stand_in))
    names = " ".join(PASSED_ON)
    script(tmp_path / ".venv/bin/dagster", DAGSTER.format(names=names, port=port))
    ending = "trap 'kill $server 2> /dev/null || true' EXIT"
    lines = "\n".join(["set -eE", ending, *blocks()]).replace(
        "wait $server;", "wait $server || true;"
    )
    ran = subprocess.run(
        ["/bin/bash", "-c", lines.replace("8004", str(free_port()))],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    printed = re.findall(r"^evaluate (\S+)", "\n".join(blocks()), re.MULTILINE)
    assert printed == mine.done
    assert 20 < len(printed)
    assert {200} == {one["status"] for one in requests_of(tmp_path)}
