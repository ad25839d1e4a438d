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
    """Everything of the folder: predictions and each split of the run."""
    page = data / "page.html"
    result = view("--data", data, "--html", page)
    assert (0, f"20 traces: {page}\n") == (result.exit_code, result.stdout)
    index, *blocks = packed(page)
    assert {SIMPLE, POLICY, f"{EXPERIMENT}/train", f"{EXPERIMENT}/held_out_sampled"} == {
        one["key"] for one in index["systems"]
    }
    assert index["blocks"] == len(blocks)
    assert not index["live"]


@pytest.mark.parametrize(
    ("words", "systems"),
    [
        (["--system", SIMPLE], {SIMPLE}),
        (["--benchmark", "fever"], {SIMPLE, POLICY}),
        (["--run", EXPERIMENT], {f"{EXPERIMENT}/train", f"{EXPERIMENT}/held_out_sampled"}),
        (
            ["--experiment", EXPERIMENT, "--system", SIMPLE],
            {SIMPLE, f"{EXPERIMENT}/train", f"{EXPERIMENT}/held_out_sampled"},
        ),
    ],
)
def test_a_part_of_the_folder(words: list[str], systems: set[str], data: Path):
    """A run alone shows no predictions, and the other way round."""
    page = data / "page.html"
    assert 0 == view("--data", data, "--html", page, *words).exit_code
    assert systems == {one["key"] for one in packed(page)[0]["systems"]}


def test_files_alone(data: Path):
    """Results and predictions; the claims of predictions are found in the data folder."""
    results = data / "results.jsonl"
    results.write_text(json.dumps(RESULT), "utf-8")
    table = data / f"predictions/fever/{SIMPLE}.parquet"
    page = data / "page.html"
    assert 0 == view(results, table, "--data", data, "--html", page, "--limit", 2).exit_code
    assert ["one", SIMPLE, SIMPLE] == [
        packed(page)[0]["systems"][place]["key"] for place in packed(page)[0]["system"]
    ]
    assert EVIDENCE == packed(page)[1]["evidence"][0]["text"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--system", "absent"], f"system 'absent'; there are systems: {POLICY}, {SIMPLE}"),
        (["--system", "absent", "--system", SIMPLE], "nothing in .* matches system 'absent';"),
        (["--benchmark", "fever", "--benchmark", "hover"], "matches test set 'hover';"),
        (["--run", EXPERIMENT, "--run", "tony", "--system", "b"], "system 'b', run 'tony';"),
        (["--run", "absent"], f"runs: {EXPERIMENT}"),
        (["absent.jsonl"], "there is no file absent.jsonl"),
        (["absent.jsonl", "--run", "tiny"], "FILE is shown whole"),
    ],
)
def test_nothing_that_matches(words: list[str], message: str, data: Path):
    """One line that names what is there; no page is written."""
    page = data / "page.html"
    result = view("--data", data, "--html", page, *words)
    assert (2, "") == (result.exit_code, result.stdout)
    assert re.search(message, result.stderr)
    assert not page.exists()


def test_a_page_that_cannot_be_written_is_refused_before_a_trace_is_read(tmp_path: Path):
    """A folder, or a path below a file; the damaged results would be the later error."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text("{not json", "utf-8")
    for page, said in ((tmp_path, "Is a directory"), (lines / "page.html", "File exists")):
        result = view(lines, "--html", page)
        assert (2, "") == (result.exit_code, result.stdout)
        assert said in result.stderr


def test_runs_are_named_in_words(data: Path):
    """By recipe and split."""
    page = data / "page.html"
    view("--data", data, "--html", page)
    titles = {one["key"]: one["title"] for one in packed(page)[0]["systems"]}
    assert f"{EXPERIMENT}, held-out claims, sampled" == titles[f"{EXPERIMENT}/held_out_sampled"]
    assert f"{EXPERIMENT}, training claims" == titles[f"{EXPERIMENT}/train"]


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


def test_files_of_results_share_their_claim_ids(data: Path):
    """Two files that number their claims: a number stands for one claim."""
    files = [data / "a.jsonl", data / "b.jsonl"]
    for path, claim in zip(files, ("Ada won.", "Ada lost."), strict=True):
        path.write_text(json.dumps(RESULT | {"claim_id": "1", "claim": claim}), "utf-8")
    page = data / "page.html"
    assert 0 == view(*files, "--data", data, "--html", page).exit_code
    index = packed(page)[0]
    assert ["Ada won.", "Ada lost."] == index["claim"]
    assert 2 == len(set(index["claim_id"]))


@pytest.mark.parametrize(("name", "title"), [("traces", "Traces"), ("page", "Traces: page")])
def test_one_trace_of_a_file_with_passages(tmp_path: Path, name: str, title: str):
    """Counted in the singular, titled without repetition; passages are the evidence's lines."""
    lines, page = tmp_path / "lines.jsonl", tmp_path / f"{name}.html"
    lines.write_text(json.dumps(RESULT | {"evidence": ["Ada swam.", "Ada won."]}) + "\n")
    result = view(lines, "--html", page)
    assert (0, f"1 trace: {page}\n") == (result.exit_code, result.stdout)
    index, block = packed(page)
    assert title == index["title"]
    assert "Ada swam.\nAda won." == block["evidence"][0]["text"]


@pytest.mark.parametrize("served", [[], ["--html", "page.html"]])
def test_with_nothing_to_show_the_next_command_is_named(served: list[str], tmp_path: Path):
    """In an empty folder."""
    result = view("--data", tmp_path, *served)
    assert 2 == result.exit_code
    assert "decomposerl evaluate" in result.stderr
    assert "decomposerl verify FILE --json" in result.stderr


PAGE = (ROOT / "docs/how-to/traces.md").read_text("utf-8")


@pytest.mark.parametrize("line", re.findall(r"^\.venv/bin/decomposerl (.*)$", PAGE, re.MULTILINE))
def test_the_options_of_the_page_exist(line: str):
    """Every command of docs/how-to/traces.md, with its options."""
    command, *words = line.partition("#")[0].split()
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).stdout
    assert set() == {word for word in words if word.startswith("--")} - set(
        re.findall(r"--[a-z-]+", shown)
    )


def test_the_line_of_another_program_is_shown(tmp_path: Path):
    """The file that the page writes is one trace, with its gold label and confidence."""
    (line,) = re.findall(r"^cat > vendor.jsonl <<'END'\n(.*?\n)END$", PAGE, re.MULTILINE)
    lines, page = tmp_path / "vendor.jsonl", tmp_path / "vendor.html"
    lines.write_text(line)
    assert 0 == view(lines, "--html", page).exit_code
    index, block = packed(page)
    assert (["S"], [json.loads(line)["confidence"]["normalised"]]) == (
        index["gold"],
        index["confidence"],
    )
    assert "In 1890." == block["items"][0]["cycles"][0]["answer"]


def test_the_page_names_every_option_of_the_command():
    """And what it says of its flags and limits holds."""
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["view", "--help"]).stdout
    options = set(re.findall(r"(?<!\w)--[a-z]+\b", shown)) - {"--help", "--no"}
    assert set() == {name for name in options if name not in PAGE}
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
