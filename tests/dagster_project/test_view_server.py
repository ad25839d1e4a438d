"""The server of the live trace page: its data, its marks, and whom it refuses."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from starlette.testclient import TestClient

from dagster_project.profiles import profile_from_environment, resources_for
from dagster_project.view import JudgeTexts, LiveTraces, Selection, judge_texts, page_about
from dagster_project.view_server import MOST_BODY, ViewServer, bound_socket
from decomposerl.errors import ConfigError
from decomposerl.training.experiments import experiment
from evaluation_files import SYSTEMS
from fault_server import MODEL, FaultServer, replying
from resources.store.parquet import write_parquet
from resources.traces.marks import MARKS, MarksFile
from resources.training.run_inputs import judge_for
from trace_parts import EVIDENCE
from trace_runs import judged_rollout, write_judged_run, write_traces

URL = "http://127.0.0.1:1234"
ORIGIN = {"Origin": URL}
SIMPLE = SYSTEMS[0].key


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with predictions of two systems and a training run."""
    return write_traces(tmp_path)


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
    texts = JudgeTexts(profile_from_environment({}))
    live = LiveTraces(Selection(), plain, page_about("T"), texts)
    live.current()
    assert {""} == {one["prompt"] for one in live.judge(0, 0) or []}
    assert not list(tmp_path.rglob("*.sqlite"))
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
    (400, "", b"{", {}),
    (400, "", b"\xff", {}),
    (400, "", b"[" * 10_000, {}),
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
    """By each of its names, whatever the port; another name that DNS leads here shows nothing."""
    others = ("evil.example", "evil.example:1234", "127.0.0.1.evil.example", "")
    for path in ("/", "/data/index", "/data/block/0", "/marks", "/marks.jsonl"):
        for host in others:
            assert 403 == client.get(path, headers={"Host": host}).status_code, (path, host)
    for host in ("127.0.0.1:1", "localhost:1234", "[::1]:1234", "LOCALHOST"):
        assert 200 == client.get("/marks", headers={"Host": host}).status_code, host


def test_headers_of_every_answer(client: TestClient):
    """No frame, no sniffing, no cache, no other origin."""
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
