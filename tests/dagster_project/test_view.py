"""``decomposerl view``: what it shows, live and as an offline file."""

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from decomposerl.reports.trace_page.pages import CONFIDENT
from evaluation_files import SYSTEMS
from project import PYTHONPATH, ROOT
from resources.traces.collection import AT_ONCE
from trace_parts import EVIDENCE
from trace_runs import write_traces
from training_files import EXPERIMENT

SIMPLE, POLICY = (system.key for system in SYSTEMS)
RESULT = {"claim": "Ada won.", "evidence": EVIDENCE, "system": "one", "verdict": "Supported"}
BORN = "Ada Brown was born in Odense. Ada Brown won the national championship in 1937."
TRUE = "Ada Brown was born in Odense."
FALSE = "Ada Brown won the national championship in 1937 and 1936."


def view(*words: object, **env: str) -> Result:
    environment = {"DECOMPOSERL_PROFILE": "embedded", "COLUMNS": "120", **env}
    return CliRunner(env=environment).invoke(app, ["view", *map(str, words)])


def packed(page: Path) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" [^>]*>([^<]*)</script>', page.read_text())
    return [json.loads(gzip.decompress(base64.b64decode(text))) for text in found]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with predictions of two systems and a training run."""
    return write_traces(tmp_path)


def test_the_offline_file(data: Path):
    """Everything of the folder: predictions and each split of the run, which is named in words."""
    page = data / "page.html"
    result = view("--data", data, "--html", page)
    assert (0, f"20 traces: {page}\n") == (result.exit_code, result.stdout)
    index, *blocks = packed(page)
    titles = {one["key"]: one["title"] for one in index["systems"]}
    runs = {f"{EXPERIMENT}/{split}" for split in ("train", "held_out_sampled")}
    assert {SIMPLE, POLICY, *runs} == set(titles)
    assert f"{EXPERIMENT}, held-out claims, sampled" == titles[f"{EXPERIMENT}/held_out_sampled"]
    assert f"{EXPERIMENT}, training claims" == titles[f"{EXPERIMENT}/train"]
    assert index["blocks"] == len(blocks)
    assert not index["live"]


def test_a_part_of_the_folder(data: Path):
    """A run alone shows no predictions, and the other way round."""
    page, runs = data / "page.html", {f"{EXPERIMENT}/train", f"{EXPERIMENT}/held_out_sampled"}
    for words, systems in (
        (["--system", SIMPLE], {SIMPLE}),
        (["--benchmark", "fever"], {SIMPLE, POLICY}),
        (["--run", EXPERIMENT], runs),
        (["--experiment", EXPERIMENT, "--system", SIMPLE], runs | {SIMPLE}),
    ):
        assert 0 == view("--data", data, "--html", page, *words).exit_code
        assert systems == {one["key"] for one in packed(page)[0]["systems"]}


def test_files_alone(data: Path):
    """Results and predictions, whose claims are in the data folder; a number is one file's."""
    files = [data / "a.jsonl", data / "b.jsonl"]
    for path, claim in zip(files, ("Ada won.", "Ada lost."), strict=True):
        path.write_text(json.dumps(RESULT | {"claim_id": "1", "claim": claim}), "utf-8")
    table, page = data / f"predictions/fever/{SIMPLE}.parquet", data / "page.html"
    assert 0 == view(*files, table, "--data", data, "--html", page, "--limit", 2).exit_code
    index, *blocks = packed(page)
    keys = [index["systems"][place]["key"] for place in index["system"]]
    assert ["one", "one", SIMPLE, SIMPLE] == keys
    assert ["Ada won.", "Ada lost."] == index["claim"][:2]
    assert index["claim_id"][0] != index["claim_id"][1]
    assert EVIDENCE == blocks[0]["evidence"][0]["text"]


def test_a_file_that_cannot_be_read_is_named_on_the_page(data: Path):
    """The others are shown; where nothing is left, the command names the file."""
    for path in data.glob("predictions/fever/*"):
        path.write_bytes(b"")
    page = data / "page.html"
    assert 0 == view("--data", data, "--html", page).exit_code
    index = packed(page)[0]
    assert 14 == len(index["claim"])
    assert [True, True] == [one.startswith("left out: ") for one in index["warnings"]]
    refused = view("--data", data, "--html", page, "--system", SIMPLE)
    assert 2 == refused.exit_code
    assert f"{SIMPLE}.parquet cannot be read" in refused.stderr


def test_one_trace_of_a_file_with_passages(tmp_path: Path):
    """Counted in the singular, titled without repetition; passages are the evidence's lines.

    The line of another program, which docs/how-to/traces.md shows, has its gold and confidence.
    """
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(RESULT | {"evidence": ["Ada swam.", "Ada won."]}) + "\n")
    for name, title in (("traces", "Traces"), ("page", "Traces: page")):
        page = tmp_path / f"{name}.html"
        result = view(lines, "--html", page)
        assert (0, f"1 trace: {page}\n") == (result.exit_code, result.stdout)
        index, block = packed(page)
        assert title == index["title"]
        assert "Ada swam.\nAda won." == block["evidence"][0]["text"]
    (line,) = re.findall(r"^cat > vendor.jsonl <<'END'\n(.*?\n)END$", PAGE, re.MULTILINE)
    lines.write_text(line)
    assert 0 == view(lines, "--html", page).exit_code
    index, block = packed(page)
    said = json.loads(line)["confidence"]["normalised"]
    assert (["S"], [said]) == (index["gold"], index["confidence"])
    assert "In 1890." == block["items"][0]["cycles"][0]["answer"]


def test_the_page_of_verified_claims(tmp_path: Path):
    """``verify --html`` holds every claim once, with what ``--json`` prints beside it."""
    claims = [(TRUE, "a"), (FALSE, "a"), (TRUE, "a")]
    rows = [{"claim": claim, "evidence": BORN, "claim_id": key} for claim, key in claims]
    page = tmp_path / "page.html"
    result = CliRunner(env={"DECOMPOSERL_DATA": str(tmp_path / "data")}).invoke(
        app, ["verify", "-", "--json", "--html", str(page)], input="\n".join(map(json.dumps, rows))
    )
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert (0, 3) == (result.exit_code, len(printed))
    index, block = packed(page)
    assert ([TRUE, FALSE], ["S", "R"]) == (index["claim"], index["verdict"])
    assert "a" == index["claim_id"][0] != index["claim_id"][1]
    assert [BORN] == [one["text"] for one in block["evidence"]]
    said = [(one["question"], one["answer"]) for one in block["items"][0]["cycles"]]
    assert [(one["question"], one["answer"]) for one in printed[0]["questions"]] == said
    assert "2 traces" in result.stderr


PAGE = (ROOT / "docs/how-to/traces.md").read_text("utf-8")


def test_the_page_has_the_options_of_the_command():
    """The commands of docs/how-to/traces.md exist; it names ``view``'s options and limits."""

    def options(command: str) -> set[str]:
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).stdout
        return set(re.findall(r"(?<!\w)--[a-z-]+\b", shown))

    for line in re.findall(r"^\.venv/bin/decomposerl (.*)$", PAGE, re.MULTILINE):
        command, *words = line.partition("#")[0].split()
        assert {word for word in words if word.startswith("--")} <= options(command), line
    own = {name for name in options("view") if not name.startswith("--no-")} - {"--help"}
    assert set() == {name for name in own if name not in PAGE}
    assert f"at least {CONFIDENT:.2f}" in PAGE
    assert f"{AT_ONCE:,} traces" in PAGE


def test_the_command_serves_until_it_is_interrupted(data: Path):
    """It prints the address of a free port, answers there, and ends with one sentence."""
    words = [sys.executable, "-m", "dagster_project.cli", "view", "--data", str(data)]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "DECOMPOSERL_PROFILE": "embedded"}
    env |= {"HTTP_PROXY": "", "http_proxy": "", "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(
            r"(\d+) traces at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line
        )
        assert found, line + process.communicate()[1]
        asked = urllib.request.Request(f"{found[2]}data/index")  # noqa: S310 - on loopback
        index = json.load(_answered(asked))
        assert int(found[1]) == len(index["claim"])
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=30)
    assert ("", 130) == (printed, process.returncode)
    assert "Traceback" not in errors
    assert len(errors.splitlines()) <= 1


def _answered(asked: urllib.request.Request) -> IO[bytes]:
    """The answer of a server that has just said its address."""
    for _ in range(50):
        try:
            return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")
