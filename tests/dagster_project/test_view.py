"""``view``: the live page and the offline file of traces, and marks on them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import polars as pl
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from dagster_project.view import JudgeTexts, LiveTraces, Selection, page_about
from dagster_project.view_server import MOST_BODY, ViewServer, bound_socket
from decomposerl.errors import ConfigError
from decomposerl.reports.trace_page.pages import CONFIDENT
from decomposerl.training.experiments import experiment
from environment import variables
from evaluation_files import SYSTEMS
from fault_server import MODEL, FaultServer, replying
from project import PYTHONPATH, ROOT
from resources.store.parquet import write_parquet
from resources.traces.collection import AT_ONCE
from resources.traces.marks import MARKS, MarksFile
from resources.training.run_inputs import judge_for
from trace_pages import packed
from trace_parts import EVIDENCE
from trace_runs import judged_rollout, write_judged_run, write_traces
from training_files import EXPERIMENT

SIMPLE, POLICY = (system.key for system in SYSTEMS)
RESULT = {"claim": "Ada won.", "evidence": EVIDENCE, "system": "one", "verdict": "Supported"}


def view(*words: object, **env: str) -> Result:
    environment = {"DECOMPOSERL_PROFILE": "embedded", "COLUMNS": "120", **env}
    return CliRunner(env=environment).invoke(app, ["view", *map(str, words)])


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
    (line,) = re.findall(r"^cat > vendor.jsonl <<'END'\n(.*?\n)END$", TRACES_PAGE, re.MULTILINE)
    lines.write_text(line)
    assert 0 == view(lines, "--html", page).exit_code
    index, block = packed(page)
    said = json.loads(line)["confidence"]["normalised"]
    assert (["S"], [said]) == (index["gold"], index["confidence"])
    assert "In 1890." == block["items"][0]["cycles"][0]["answer"]


TRACES_PAGE = (ROOT / "docs/how-to/traces.md").read_text("utf-8")


def test_the_page_has_the_options_of_the_command():
    """The commands of docs/how-to/traces.md exist; it names ``view``'s options and limits."""

    def options(command: str) -> set[str]:
        shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [command, "--help"]).stdout
        return set(re.findall(r"(?<!\w)--[a-z-]+\b", shown))

    for line in re.findall(r"^\.venv/bin/decomposerl (.*)$", TRACES_PAGE, re.MULTILINE):
        command, *words = line.partition("#")[0].split()
        assert {word for word in words if word.startswith("--")} <= options(command), line
    own = {name for name in options("view") if not name.startswith("--no-")} - {"--help"}
    assert set() == {name for name in own if name not in TRACES_PAGE}
    assert f"at least {CONFIDENT:.2f}" in TRACES_PAGE
    assert f"{AT_ONCE:,} traces" in TRACES_PAGE


def test_the_command_serves_until_it_is_interrupted(data: Path):
    """It prints the address of a free port, answers there, and ends with one sentence."""
    words = [sys.executable, "-m", "dagster_project.cli", "view", "--data", str(data)]
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "DECOMPOSERL_PROFILE": "embedded"}
    env |= {"HTTP_PROXY": "", "http_proxy": "", "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=env, cwd=ROOT) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        said = r"(\d+) traces at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n"
        found = re.fullmatch(said, line)
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


URL = "http://127.0.0.1:1234"
ORIGIN = {"Origin": URL}


@pytest.fixture
def live(data: Path) -> LiveTraces:
    """The live traces of that folder."""
    profile = read_settings({"DECOMPOSERL_DATA": str(data)})
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


def test_index_and_blocks(client: TestClient):
    """Compressed where the client takes it; every block of the index is there, and no other.

    The judge's part of a trace has the rulings of its block; there is none beyond the last trace.
    """
    index = client.get("/data/index").json()
    assert index["live"]
    for number in range(index["blocks"]):
        answer = client.get(f"/data/block/{number}", params={"v": index["stamp"]})
        assert "gzip" == answer.headers["content-encoding"]
        plain = client.get(f"/data/block/{number}", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert answer.json() == plain.json()
    row = index["step"].index(0)
    block, place = index["block_of"][row], index["place_of"][row]
    rulings = client.get(f"/data/block/{block}").json()["items"][place]["judge"]
    assert rulings
    assert rulings == client.get(f"/data/judge/{block}/{place}").json()
    for absent in (f"/data/block/{index['blocks']}", f"/data/judge/{block}/9999", "/etc/passwd"):
        assert 404 == client.get(absent).status_code
    assert "<html>page</html>" == client.get("/").text


def test_the_judges_texts_come_from_the_stored_replies(tmp_path: Path):
    """By today's judge, without a request; rulings whose reply was not stored have none.

    Where none was, no judge is opened, nor is a store made.
    """
    plain = tmp_path / "plain"
    write_judged_run(plain, "tiny")
    texts = JudgeTexts(read_settings({}))
    live = LiveTraces(Selection(), plain, page_about("T"), texts)
    live.current()
    assert {""} == {one["prompt"] for one in live.judge(0, 0) or []}
    assert not list(tmp_path.rglob("*.sqlite"))
    with FaultServer(usual=replying("<answer>1</answer>")) as served:
        address = variables(JUDGE_URL=served.url, JUDGE_MODEL=MODEL)
        place = variables(PROFILE="local", DATA=str(tmp_path))
        profile = read_settings(place | address)
        resource = resources_for(profile)["judge"]
        with resource.process_config_and_initialize_cm() as opened:
            judge = judge_for(opened, experiment("tiny")).open()
            judge.judge([one for one in judged_rollout().values() if one.task == "answerability"])
        asked = len(served.prompts)
        write_judged_run(tmp_path, "tiny", judge.engine)
        with closing(JudgeTexts(profile)) as texts:
            live = LiveTraces(Selection(), tmp_path, page_about("T"), texts)
            live.current()
            rulings = live.judge(0, 0) or []
        assert asked == len(served.prompts)
    shown = {one["task"]: (one["prompt"], one["reply"]) for one in rulings}
    assert EVIDENCE in shown["answerability"][0]
    assert "<answer>1</answer>" == shown["answerability"][1]
    assert ("", "") == shown["correctness"] == shown["coverage"]


def test_changed_files_are_read_again(client: TestClient, data: Path):
    """With the next index; old blocks are refused by their stamp, a damaged file is named."""
    first = client.get("/data/index").json()
    assert first == client.get("/data/index").json()
    assert [] == first["warnings"]
    path = data / f"predictions/fever/{SIMPLE}.parquet"
    write_parquet(pl.read_parquet(path).head(1), path)
    second = client.get("/data/index").json()
    assert len(first["claim"]) - 2 == len(second["claim"])
    for part in ("block/0", "judge/0/0"):
        assert 409 == client.get(f"/data/{part}", params={"v": first["stamp"]}).status_code
    path.write_bytes(b"PAR1")
    third = client.get("/data/index").json()
    assert len(first["claim"]) - 3 == len(third["claim"])
    assert f"{SIMPLE}.parquet" in third["warnings"][0]


def test_a_mark_is_stored_and_exported(client: TestClient, data: Path):
    """With the server's time; all reviewers' marks come back."""
    span = {"where": "evidence", "cycle": None, "start": 0, "end": 3, "text": "Ada"}
    answer = client.post("/marks", json=mark(span=span, note="it’s so"), headers=ORIGIN)
    assert 200 == answer.status_code
    stored = answer.json()
    assert mark(span=span, note="it’s so") == {n: v for n, v in stored.items() if n != "at"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", stored["at"])
    eva = client.post("/marks", json=mark(reviewer="eva", of="0a1b2c3d"), headers=ORIGIN)
    assert (200, "0a1b2c3d") == (eva.status_code, eva.json()["of"])
    assert ["ada", "eva"] == [one["reviewer"] for one in client.get("/marks").json()]
    export = client.get("/marks.jsonl")
    assert (data / MARKS).read_text("utf-8") == export.text
    assert "attachment" in export.headers["content-disposition"]


def test_marks_that_cannot_be_read_or_stored(live: LiveTraces, data: Path):
    """A reason in place of a traceback, for each request."""
    (data / MARKS).mkdir()
    for name in ("x" * 300, MARKS):
        server = ViewServer("", live, MarksFile(data / name))
        with TestClient(server.app, base_url=URL) as client:
            client.get("/data/index")
            read = [client.get("/marks"), client.get("/marks.jsonl")] if name != MARKS else []
            stored = client.post("/marks", json=mark(), headers=ORIGIN)
        assert [*[503] * len(read), 507] == [one.status_code for one in (*read, stored)]
        assert all(one.json()["error"] for one in (*read, stored))


def test_files_that_are_gone(client: TestClient, data: Path):
    """Before the first index, too: a reason in place of a traceback."""
    for path in data.glob("p*/*/*"):
        if path.is_file():
            path.unlink()
    answers = [client.get("/data/block/0"), client.post("/marks", json=mark(), headers=ORIGIN)]
    answers.append(client.get("/data/index"))
    assert [503] * 3 == [one.status_code for one in answers]
    assert all(one.json()["error"] for one in answers)


NO_MARKS: list[tuple[int, str, object, dict[str, str]]] = [
    (400, "'mark'", mark(mark="yes"), {}),
    (400, "'reviewer'", mark(reviewer=""), {}),
    (400, "no such trace", mark(claim_id="c9"), {}),
    (400, "no such trace", mark(system="absent"), {}),
    (400, "no such trace", mark(step=3), {}),
    (400, "object", [], {}),
    *((400, "", text, {}) for text in (b"{", b"\xff", b"[" * 10_000)),
    (413, "", b" " * (MOST_BODY + 1), {}),
    (403, "", mark(), {"Content-Type": "text/plain"}),
    *((403, "", mark(), {"Origin": origin}) for origin in ("", "null", "http://evil.example")),
    *((403, "", mark(), {"Origin": origin}) for origin in (f"{URL}4", "https://127.0.0.1:1234")),
]


def test_what_is_no_mark_is_refused(client: TestClient, data: Path):
    """With the reason, however it is malformed, or sent by another page; nothing is stored."""
    for status, named, body, more in NO_MARKS:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = ORIGIN | {"Content-Type": "application/json"} | more
        answer = client.post("/marks", content=content, headers=headers)
        assert status == answer.status_code, body
        assert named in answer.json()["error"], body
        assert answer.json()["error"]
    assert 403 == client.post("/marks", json=mark()).status_code, "a program without an origin"
    assert 405 == client.post("/data/index", headers=ORIGIN).status_code
    assert 405 == client.delete("/marks", headers=ORIGIN).status_code
    assert not (data / MARKS).exists()


def test_only_this_machine_is_answered(client: TestClient):
    """By each of its names; no frame, no sniffing, no cache and no other origin in any answer."""
    others = ("evil.example", "evil.example:1234", "127.0.0.1.evil.example", "")
    for path in ("/", "/data/index", "/data/block/0", "/marks", "/marks.jsonl"):
        for host in others:
            assert 403 == client.get(path, headers={"Host": host}).status_code, (path, host)
    for host in ("127.0.0.1:1", "localhost:1234", "[::1]:1234", "LOCALHOST"):
        assert 200 == client.get("/marks", headers={"Host": host}).status_code, host
    for answer in (client.get("/"), client.get("/data/index"), client.post("/marks", json={})):
        assert "DENY" == answer.headers["x-frame-options"]
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert "no-store" == answer.headers["cache-control"]
        assert "same-origin" == answer.headers["cross-origin-resource-policy"]
        assert "access-control-allow-origin" not in answer.headers


def test_a_taken_port_is_one_line():
    """The message names it."""
    with bound_socket(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}"):
            bound_socket(port)
