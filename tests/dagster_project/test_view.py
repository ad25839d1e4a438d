"""``decomposerl view``: what it shows, its server, and its offline file."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import polars as pl
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.profiles import profile_from_environment, resources_for
from dagster_project.view import JudgeTexts, LiveTraces, Selection, judge_texts, page_about
from dagster_project.view_server import MOST_BODY, ViewServer, bound_socket
from decomposerl.errors import ConfigError
from decomposerl.reports.trace_page.pages import CONFIDENT
from decomposerl.training.experiments import experiment
from evaluation_files import SYSTEMS, predictions
from fault_server import MODEL, FaultServer, replying
from project import PYTHONPATH, ROOT
from resources.store.parquet import write_parquet
from resources.traces.collection import AT_ONCE
from resources.traces.marks import MARKS, MarksFile
from resources.training.run_inputs import judge_for
from trace_parts import EVIDENCE, write_benchmark
from trace_runs import judged_rollout, write_judged_run
from training_files import EXPERIMENT, write_policy

URL = "http://127.0.0.1:1234"
ORIGIN = {"Origin": URL}
IDS = ["c1", "c2", "c3"]
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
    claims = write_benchmark(tmp_path, "fever", IDS)
    for system in SYSTEMS:
        frame = predictions(system, "fever", claims)
        write_parquet(frame, tmp_path / f"predictions/fever/{system.key}.parquet")
    write_policy(tmp_path)
    return tmp_path


@pytest.fixture
def live(data: Path) -> LiveTraces:
    """The live traces of that folder."""
    profile = profile_from_environment({"DECOMPOSERL_DATA": str(data)})
    return LiveTraces(Selection(), data, page_about("T", live=True), JudgeTexts(profile))


@pytest.fixture
def client(live: LiveTraces, data: Path) -> Iterator[TestClient]:
    """A client of the server of that folder."""
    server = ViewServer("<html>page</html>", live, MarksFile(data / MARKS))
    with TestClient(server.app, base_url=URL) as opened:
        yield opened


def mark(**changed: object) -> dict[str, object]:
    plain = {"claim_id": "c1", "system": SIMPLE, "step": None, "rollout": None}
    return plain | {"reviewer": "ada", "mark": "agree", "note": "", "span": None} | changed


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
        (["--system", "absent"], f"nothing in .* matches; there are systems: {POLICY}, {SIMPLE}"),
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


@pytest.mark.parametrize("served", [[], ["--html", "page.html"]])
def test_with_nothing_to_show_the_next_command_is_named(served: list[str], tmp_path: Path):
    """In an empty folder."""
    result = view("--data", tmp_path, *served)
    assert 2 == result.exit_code
    assert "decomposerl evaluate" in result.stderr
    assert "decomposerl verify FILE --json" in result.stderr


def test_index_and_blocks(client: TestClient):
    """Compressed where the client takes it; every block of the index is there, and no other."""
    index = client.get("/data/index").json()
    assert index["live"]
    for number in range(index["blocks"]):
        answer = client.get(f"/data/block/{number}", params={"v": index["stamp"]})
        assert "gzip" == answer.headers["content-encoding"]
        plain = client.get(f"/data/block/{number}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert answer.json() == plain.json()
    assert 404 == client.get(f"/data/block/{index['blocks']}").status_code
    assert "<html>page</html>" == client.get("/").text
    assert 404 == client.get("/etc/passwd").status_code


def test_the_judges_part_of_a_trace(client: TestClient):
    """The same rulings as in its block; none beyond the last trace."""
    index = client.get("/data/index").json()
    row = index["step"].index(0)
    block, place = index["block_of"][row], index["place_of"][row]
    items = client.get(f"/data/block/{block}").json()["items"]
    assert items[place]["judge"] == client.get(f"/data/judge/{block}/{place}").json()
    assert items[place]["judge"]
    assert 404 == client.get(f"/data/judge/{block}/9999").status_code


def test_the_judges_texts_come_from_the_stored_replies(tmp_path: Path):
    """By today's judge, without a request; rulings whose reply was not stored have none."""
    with FaultServer(usual=replying("<answer>1</answer>")) as served:
        address = {"DECOMPOSERL_JUDGE_URL": served.url, "DECOMPOSERL_JUDGE_MODEL": MODEL}
        profile = profile_from_environment(
            {"DECOMPOSERL_PROFILE": "local", "DECOMPOSERL_DATA": str(tmp_path), **address}
        )
        resource = resources_for(profile)["judge"]
        with resource.process_config_and_initialize_cm() as opened:
            judge = judge_for(opened, experiment("tiny")).open()
            judge.judge([one for one in judged_rollout().calls if one.task == "answerability"])
        asked = len(served.prompts)
        write_judged_run(tmp_path, "tiny", judge.engine)
        with judge_texts(profile) as texts:
            live = LiveTraces(Selection(), tmp_path, page_about("T"), texts)
            live.current()
            rulings = live.judge(0, 0) or []
        assert asked == len(served.prompts)
    shown = {one["task"]: (one["prompt"], one["reply"]) for one in rulings}
    assert EVIDENCE in shown["answerability"][0]
    assert "<answer>1</answer>" == shown["answerability"][1]
    assert ("", "") == shown["correctness"] == shown["coverage"]


def test_without_stored_replies_no_judge_is_opened(tmp_path: Path):
    """Nor is a store made."""
    write_judged_run(tmp_path, "tiny")
    live = LiveTraces(
        Selection(), tmp_path, page_about("T"), JudgeTexts(profile_from_environment({}))
    )
    live.current()
    assert {""} == {one["prompt"] for one in live.judge(0, 0) or []}
    assert not list(tmp_path.rglob("*.sqlite"))


def test_changed_files_are_read_again(client: TestClient, data: Path):
    """With the next index; blocks of the old one are refused by their stamp."""
    first = client.get("/data/index").json()
    assert first == client.get("/data/index").json()
    path = data / f"predictions/fever/{SIMPLE}.parquet"
    write_parquet(pl.read_parquet(path).head(1), path)
    second = client.get("/data/index").json()
    assert len(first["claim"]) - 2 == len(second["claim"])
    for part in ("block/0", "judge/0/0"):
        old = client.get(f"/data/{part}", params={"v": first["stamp"]})
        assert (409, True) == (old.status_code, "reload" in old.json()["error"])


def test_files_that_are_gone(client: TestClient, data: Path):
    """The page is told, in place of an error without a word."""
    for path in data.glob("p*/*/*"):
        if path.is_file():
            path.unlink()
    answer = client.get("/data/index")
    assert 503 == answer.status_code
    assert "error" in answer.json()


def test_a_mark_is_stored_and_exported(client: TestClient, data: Path):
    """With the server's time; all reviewers' marks come back."""
    span = {"where": "evidence", "cycle": None, "start": 0, "end": 3, "text": "Ada"}
    answer = client.post("/marks", json=mark(span=span, note="it’s so"), headers=ORIGIN)
    assert 200 == answer.status_code
    stored = answer.json()
    assert mark(span=span, note="it’s so") == {n: v for n, v in stored.items() if n != "at"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", stored["at"])
    assert 200 == client.post("/marks", json=mark(reviewer="eva"), headers=ORIGIN).status_code
    assert ["ada", "eva"] == [one["reviewer"] for one in client.get("/marks").json()]
    export = client.get("/marks.jsonl")
    assert (data / MARKS).read_text("utf-8") == export.text
    assert "attachment" in export.headers["content-disposition"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (mark(mark="yes"), "'mark'"),
        (mark(reviewer=""), "'reviewer'"),
        (mark(claim_id="c9"), "no such trace"),
        (mark(system="absent"), "no such trace"),
        (mark(step=3), "no such trace"),
        ([], "a JSON object"),
    ],
)
def test_what_is_no_mark_is_refused(client: TestClient, data: Path, body: object, named: str):
    """400 with the reason; nothing is stored."""
    answer = client.post("/marks", json=body, headers=ORIGIN)
    assert 400 == answer.status_code
    assert named in answer.json()["error"]
    assert not (data / MARKS).exists()


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b"[" * 10_000, {}, 400),
        (b" " * (MOST_BODY + 1), {}, 413),
        (json.dumps(mark()).encode(), {"Content-Type": "text/plain"}, 403),
    ],
)
def test_a_body_that_is_no_json(
    client: TestClient, content: bytes, headers: dict[str, str], status: int
):
    """Refused with a reason, however it is malformed."""
    sent = ORIGIN | {"Content-Type": "application/json"} | headers
    answer = client.post("/marks", content=content, headers=sent)
    assert (status, True) == (answer.status_code, bool(answer.json()["error"]))


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "http://127.0.0.1:9", "https://127.0.0.1:1234"],
)
def test_marks_come_from_the_page_alone(client: TestClient, data: Path, origin: str | None):
    """Another site, another port, or a program without an origin is refused."""
    headers = {} if origin is None else {"Origin": origin}
    assert 403 == client.post("/marks", json=mark(), headers=headers).status_code
    assert not (data / MARKS).exists()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:1234", "127.0.0.1.evil.example", ""]
)
@pytest.mark.parametrize("path", ["/", "/data/index", "/data/block/0", "/marks", "/marks.jsonl"])
def test_another_host_is_refused(client: TestClient, path: str, host: str):
    """A name that someone else's DNS leads here shows nothing."""
    assert 403 == client.get(path, headers={"Host": host}).status_code


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:1234", "[::1]:1234", "LOCALHOST"])
def test_this_machine_is_answered(client: TestClient, host: str):
    """By each of its names; a forwarded port may differ."""
    assert 200 == client.get("/marks", headers={"Host": host}).status_code


def test_headers_of_every_answer(client: TestClient):
    """No frame, no sniffing, no cache, no other origin."""
    for answer in (client.get("/"), client.get("/data/index"), client.post("/marks", json={})):
        assert "DENY" == answer.headers["x-frame-options"]
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-store" == answer.headers["cache-control"]
        assert "same-origin" == answer.headers["cross-origin-resource-policy"]
        assert "access-control-allow-origin" not in answer.headers


def test_nothing_else_can_be_sent(client: TestClient):
    """Only marks are."""
    assert 405 == client.post("/data/index", headers=ORIGIN).status_code
    assert 405 == client.delete("/marks", headers=ORIGIN).status_code


def test_a_taken_port_is_one_line():
    """The message names it."""
    with bound_socket(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}"):
            bound_socket(port)


PAGE = (ROOT / "docs/traces.md").read_text("utf-8")


@pytest.mark.parametrize("line", re.findall(r"^\.venv/bin/decomposerl (.*)$", PAGE, re.MULTILINE))
def test_the_options_of_the_page_exist(line: str):
    """Every command of docs/traces.md, with its options."""
    command, *words = line.partition("#")[0].split()
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).stdout
    assert set() == {word for word in words if word.startswith("--")} - set(
        re.findall(r"--[a-z-]+", shown)
    )


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
