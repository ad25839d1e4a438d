"""Requests for rewards, and ``serve-rewards`` in a process of its own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import polars as pl
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from chat_parts import settings as chat_settings
from dagster_project.cli import app
from dagster_project.reward_server import LARGEST_BODY, MOST_CYCLES, RewardService
from decomposerl.errors import ConfigError, EngineError
from decomposerl.judge.call import Judge, JudgeCall, Ruling
from decomposerl.rewards.settings import RewardSettings
from environment import variables
from fakes import BagOfWordsEmbedder
from fault_server import MODEL, UNKNOWN_KEY, FaultServer
from planted_traces.planting import PlantedTrace
from project import PYTHONPATH, ROOT
from resources.chat.client import ChatClient
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.judge.rule_judge import RuleJudge
from resources.training.data import Completion
from resources.training.reward_scoring import RewardScorer
from resources.training.rollout_log import RolloutLog
from reward_serving import (
    COVERAGE,
    GROUP,
    ROW,
    SUPPORTED,
    TRACES,
    Json,
    body,
    groups,
    rows,
    service,
    serving,
)
from training_parts import EXPERIMENT, FailingJudge

JSON = {"Content-Type": "application/json"}
SAME = ("claim", "evidence", "label", "n_star", "truncated")


def scored(one: RewardService, *rollouts: Mapping[str, object]) -> list[Json]:
    status, reply = one.answer(body(*rollouts))
    assert HTTPStatus.OK == status, reply
    return json.loads(json.dumps(reply))["rollouts"]  # type: ignore[no-any-return]


def completion(trace: PlantedTrace, *, labelled: bool) -> Completion:
    same = {name: getattr(trace, name) for name in SAME}
    of_run = {"source": "hover", "prompt_digest": "0" * 64, "prompt_tokens": 5, "tokens": ()}
    return Completion(claim_id=trace.group, text=trace.text, labelled=labelled, **same, **of_run)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("judge", [RuleJudge(), FailingJudge("correctness")])
def test_the_values_are_the_trainers(*, labelled: bool, judge: Judge, tmp_path: Path):
    """Value for value, with a label and without, and where a judge call fails."""
    recipe = replace(EXPERIMENT, grpo=replace(EXPERIMENT.grpo, group_size=GROUP))
    log = RolloutLog(tmp_path, "key", 1)
    scorer = RewardScorer(recipe, judge, BagOfWordsEmbedder(), log, MOST_CYCLES)
    counted = scorer.training(0, [completion(trace, labelled=labelled) for trace in TRACES])
    assert scorer.last is not None
    rewards = scorer.last.rewards
    label = {} if labelled else {"label": None}
    replied = scored(service(judge), *rows(TRACES, **label))
    places = [(one["group"], one["rollout"]) for one in replied]
    assert [(one.group, one.number) for one in TRACES] == places
    assert list(rewards.totals) == [one["total"] for one in replied]
    for name, results in rewards.results.items():
        mine = [one["rewards"][name] for one in replied]
        assert list(counted[name]) == [one["counted"] for one in mine], name
        shown = [(one["value"], one["state"]) for one in mine]
        assert [(one.value, one.state) for one in results] == shown
        asked = [[(q["value"], q["state"]) for q in one.get("questions", ())] for one in mine]
        assert [[(q.value, q.state) for q in one.questions] for one in results] == asked
        assert {1.0} == {one["weight"] for one in mine}
    lost = {one["rewards"]["joint"]["counted"] for one in replied[:GROUP]} == {None}
    assert isinstance(judge, FailingJudge) == lost, "one failed call: null for its whole group"
    assert None not in {one["rewards"]["joint"]["counted"] for one in replied[GROUP:]}


def test_weights_and_readings_are_those_of_the_service():
    """A weight of 0 leaves a reward out."""
    strict = RewardSettings({"joint": 2.5, "diversity": 0}, necessity="mean")
    one = service(settings=strict)
    (first, *_) = scored(one, *rows(TRACES[:2]))
    assert "diversity" not in first["rewards"]
    assert 2.5 == first["rewards"]["joint"]["weight"]
    health = one.health()
    assert {"status": "ok", "judge": "rule_judge:4"}.items() <= health.items()
    assert ["Supported", "Refuted"] == health["verdicts"]
    weights = {reward["name"]: reward["weight"] for reward in health["rewards"]}
    assert (2.5, 1.0, None) == tuple(map(weights.get, ("joint", "format", "diversity")))
    assert {"necessity": "mean", "failures": "drop_group"}.items() <= health["readings"].items()


BAD: list[tuple[bytes, int | None, str, str]] = [
    (b"{", None, "", "JSON"),
    (b"\xff", None, "", "UTF-8"),
    (b"[]", None, "", "a list instead of an object"),
    *((b'{"rollouts": %s}' % none, None, "", "'rollouts'") for none in (b"{}", b"[]")),
    *((body(ROW, group_size=size), None, "", "'group_size'") for size in (0, True)),
    (body(ROW, group_sise=8), None, "", "'group_size' is absent"),  # a part would be the whole
    (body(ROW, model="x"), None, "", "'model'"),
    (body(ROW | {"lable": "Refuted"}), 0, "lable", "'label' is absent"),
    (body(ROW, 3), 1, "", "a number instead of an object"),
    (body(ROW, ROW | {"label": "true"}), 1, "label", "'true'"),
    (body(ROW, ROW | {"evidence": "Other."}), 1, "evidence", "differs from row 0"),
    (body(ROW | {"rollout": 4}, ROW | {"rollout": 4}), 1, "rollout", "4 is the number of row 0"),
    (body({"claim": 1}, ROW), 0, "claim", "a number instead of a text (and 2 further problems)"),
    (body(ROW, ROW | {"group": 7}, ROW, group_size=2), 1, "group", "'7' has 1 rollouts"),
]


@pytest.mark.parametrize(("sent", "row", "field", "said"), BAD)
def test_a_bad_request_names_row_and_field(sent: bytes, row: int | None, field: str, said: str):
    """Status 400, the first problem in words, all of them as data, and nothing is judged."""
    judge = FailingJudge("coverage")
    status, reply = service(judge).answer(sent)
    assert HTTPStatus.BAD_REQUEST == status
    assert said in str(reply["error"])
    assert [] == judge.asked
    problems: Any = reply["problems"]
    if row is not None:
        place = f"rollouts, row {row}, field '{field}'" if field else f"rollouts, row {row}"
        assert str(reply["error"]).startswith(place)
        assert (row, field) == (problems[0]["row"], problems[0]["field"])


@dataclass
class Broken:
    """A judge that cannot answer at all."""

    fault: Exception
    engine: str = "broken"

    def judge(self, _calls: Sequence[JudgeCall]) -> list[Ruling]:
        """None."""
        raise self.fault


def test_a_judge_that_cannot_answer_is_no_reward():
    """503 says that another attempt may help; unknown fields cost nothing and are named once."""
    for fault, status in ((EngineError("no answer"), 503), (ConfigError("no key is set"), 500)):
        replied = service(Broken(fault)).answer(body(*rows(TRACES)))
        assert (status, {"error": str(fault)}) == replied
    _, reply = service().answer(body(ROW | {"extra": 1}, ROW | {"extra": 2}))
    (note,) = reply["notes"]
    assert "row 0, field 'extra'" in note


@contextmanager
def asking(served: FaultServer, **changes: object) -> Iterator[RewardService]:
    """A service whose judge is at an endpoint and is asked for coverage alone."""
    chosen = chat_settings(served.url, **changes)
    with ChatClient(chosen, None, retries=0, cooldown_s=0.05) as chat:
        judge = ChatJudge(chat, load_judge_prompts())
        yield service(judge, settings=RewardSettings(COVERAGE))


def together(one: RewardService, requests: Sequence[bytes]) -> list[tuple[HTTPStatus, Json]]:
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one.answer, requests))


def test_requests_at_once_share_the_judges_limits():
    """Groups of several ranks are in flight together, never more calls than the judge may have."""
    slow = replace(SUPPORTED, delay_s=0.05)
    with FaultServer(usual=slow) as served, asking(served, concurrency=3) as one:
        replies = together(one, [body(*rows(group)) for group in groups()])
        assert {HTTPStatus.OK} == {status for status, _ in replies}
        assert 3 == served.most_in_flight
        alone = [one.answer(body(*rows(group))) for group in groups()]
    assert [reply["rollouts"] for _, reply in replies] == [r["rollouts"] for _, r in alone]


def test_a_ceiling_of_calls_holds_over_all_requests():
    """What it refuses is an error that says so, never a value."""
    with (
        FaultServer(usual=SUPPORTED) as served,
        asking(served, concurrency=1, calls=12) as one,
    ):
        replies = [one.answer(body(*rows(group))) for group in groups()]
        assert 12 == len(served.asked)
    assert HTTPStatus.OK == replies[0][0]
    assert HTTPStatus.SERVICE_UNAVAILABLE == replies[-1][0]
    assert "ceiling of 12 calls" in replies[-1][1]["error"]


def test_an_outage_ends_with_its_request():
    """The next request is scored, even if the judge refused the key until it was given up."""
    trace = "<question>Who?</question><answer>Number {}.</answer>"
    many = [ROW | {"trace": trace.format(n), "label": "Supported"} for n in range(40)]
    with (
        FaultServer([UNKNOWN_KEY] * 400, usual=SUPPORTED) as served,
        asking(served) as one,
    ):
        status, reply = one.answer(body(*many))
        assert HTTPStatus.SERVICE_UNAVAILABLE == status
        assert "the endpoint answers no request" in reply["error"]
        served._script.clear()
        Event().wait(0.1)
        (again,) = scored(one, many[0])
    assert 1.0 == again["rewards"]["coverage"]["value"]


@dataclass
class OneByOne(BagOfWordsEmbedder):
    """An embedder that notices a second thread."""

    inside: Lock = field(default_factory=Lock)

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """As the bag of words."""
        assert self.inside.acquire(blocking=False), "two threads at once"
        Event().wait(0.02)
        self.inside.release()
        return super().embed(texts)


def test_the_embedder_has_one_thread_at_a_time():
    """Its store of results is not for several."""
    replies = together(service(embedder=OneByOne()), [body(*rows(group)) for group in groups() * 2])
    assert {HTTPStatus.OK} == {status for status, _ in replies}


CYCLE = "<question>Who?</question><answer>Ada.</answer>"


@pytest.mark.parametrize(
    "text",
    ["<question>" * 5_000, "<think>So.</think>" + CYCLE * 1_100, " " * 300_000, CYCLE * 9_000],
)
def test_a_degenerate_rollout_is_scored(text: str):
    """Thousands of questions, or a text without an end, never refuse their group nor cost more."""
    judge, embedder = FailingJudge("coverage"), BagOfWordsEmbedder()
    given = [ROW | {"rollout": 0}, ROW | {"rollout": 1, "trace": text}]
    first, second = scored(service(judge, embedder=embedder), *given)
    assert (0, -1) == tuple(second["rewards"][name]["value"] for name in ("joint", "diversity"))
    assert first["rewards"]["format"]["state"] == second["rewards"]["format"]["state"]
    assert 0 == sum(judge.asked) + sum(embedder.asked)


def test_a_request_has_a_ceiling_of_questions():
    """Above it nothing is judged or embedded: rollouts too long to be judged do not count."""
    judge, embedder = FailingJudge("coverage"), BagOfWordsEmbedder()
    one = service(judge, embedder=embedder, most_questions=80)
    whole = [ROW | {"trace": CYCLE * n, "rollout": n} for n in (40, 41, 39)]
    status, reply = one.answer(body(*whole, ROW | {"trace": CYCLE * 2, "rollout": 2}))
    assert (413, True) == (status, "81 questions" in str(reply["error"]))
    assert 0 == sum(judge.asked) + sum(embedder.asked)
    assert 3 == len(scored(one, *whole))


def send(url: str, sent: bytes | None = None, heads: Mapping[str, str] = JSON) -> tuple[int, Json]:
    """Status and JSON of health, or of a request for rewards."""
    path = "/v1/health" if sent is None else "/v1/rewards"
    try:
        with urlopen(Request(url + path, sent, dict(heads)), timeout=120) as reply:  # noqa: S310 - loopback
            return reply.status, json.load(reply)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


ATTACKS: list[tuple[dict[str, str], int]] = [
    (JSON | {"Host": "evil.example:8005"}, 403),  # DNS rebinding: its name leads to loopback
    (JSON | {"Host": ""}, 403),
    (JSON | {"Origin": "https://evil.example"}, 403),
    (JSON | {"Origin": "null"}, 403),
    (JSON | {"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Content-Type": "text/plain"}, 415),  # what a page may send without being asked for leave
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    (JSON | {"Sec-Fetch-Site": "none", "Host": "LocalHost"}, 200),
    (JSON | {"Host": "10.0.0.5:8005"}, 200),  # as behind a forwarded port; no page can send one
]


@pytest.mark.parametrize(("headers", "status"), ATTACKS)
def test_a_page_of_the_web_spends_no_call(headers: dict[str, str], status: int):
    """Another host's name, another origin and what no program of a trainer sends are refused."""
    judge = FailingJudge("coverage")
    with serving(service(judge)) as url:
        assert status == send(url, body(*rows(TRACES[:1])), headers)[0]
        if status != HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            assert status == send(url, None, headers)[0]
    assert (status == HTTPStatus.OK) == bool(judge.asked)


def drip(client: socket.socket) -> None:
    """Send byte by byte for some seconds."""
    for _ in range(500):
        client.sendall(b"x")
        Event().wait(0.01)


def test_a_client_that_sends_slowly_is_cut_off():
    """Byte by byte, in the headers or the body; the others are served meanwhile."""
    begun = b"POST /v1/rewards HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with serving(service(), receive_s=0.3) as url, ExitStack() as stack:
        address = ("127.0.0.1", urlsplit(url).port)
        parts = (begun, begun + b"Content-Length: 9000\r\n\r\n")
        clients = [stack.enter_context(socket.create_connection(address)) for _ in parts]
        for client, part in zip(clients, parts, strict=True):
            client.sendall(part)
        assert HTTPStatus.OK == send(url)[0]
        for client in clients:
            with pytest.raises(OSError, match=r"reset|pipe"):
                drip(client)


LEAN = ("--weight", "diversity=0")


@contextmanager
def served(folder: Path, *words: object, **env: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command in a process of its own, and its address."""
    command = [sys.executable, "-m", "dagster_project.cli", "serve-rewards", "--port", "0"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    kept |= {"PYTHONPATH": PYTHONPATH, "DECOMPOSERL_DATA": str(folder / "data")} | env
    process = subprocess.Popen(
        [*command, *map(str, words)], cwd=ROOT, env=kept, stderr=subprocess.PIPE, text=True
    )
    try:
        said = ""
        while (found := re.search(r"rewards on (http://\S+)/v1/rewards\n", said)) is None:
            line = process.stderr.readline()  # type: ignore[union-attr]
            assert line, said
            said += line
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def table_rows(replied: Sequence[Json]) -> Iterator[tuple[object, ...]]:
    """A reply as rows of the reward table."""
    for one in replied:
        key = (one["group"], one["rollout"])
        for name, reward in one["rewards"].items():
            counts = reward["counted"] is not None
            for place, part in [(None, reward), *enumerate(reward.get("questions", ()))]:
                yield (*key, name, place, part["value"], part["state"], counts)
        counts = one["total"] is not None
        yield (*key, "total", None, one["total"], "scored" if counts else "dropped", counts)


def test_the_command_serves_what_score_writes(tmp_path: Path):
    """Value for value over HTTP, unlabelled claims too; a body that is too long is 413."""
    lines = [*rows(groups()[0]), *rows(groups()[1], label=None), *rows(groups()[2])]
    traces = tmp_path / "traces.jsonl"
    traces.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    run = CliRunner(env={"DECOMPOSERL_DATA": str(tmp_path / "data")})
    words = (*LEAN, "--reading", "necessity=mean")
    assert 0 == run.invoke(app, ["score", str(traces), *words]).exit_code
    written = pl.read_parquet(traces.with_suffix(".rewards.parquet"))
    columns = ("group", "rollout", "reward", "question", "value", "state", "counted")
    known = list(written.select(columns).iter_rows())
    with served(tmp_path, *words) as (url, _):
        status, reply = send(url, body(*lines, group_size=GROUP))
        assert 200 == status, reply
        assert known == list(table_rows(reply["rollouts"]))
        status, health = send(url)
        assert (200, "rule_judge:4") == (status, health["judge"])
        status, refused = send(url, b" " * (LARGEST_BODY + 1))
        assert (413, "16,000,000 bytes" in refused["error"]) == (status, True)
        assert 403 == send(url, body(*lines), JSON | {"Origin": "http://a.example"})[0]
        status, refused = send(url, body(ROW | {"claim": ""}))
        blank = {"row": 0, "field": "claim", "reason": "is blank"}
        assert (400, [blank]) == (status, refused["problems"])


OFF = [word for name in COVERAGE for word in ("--weight", f"{name}=0")]


@contextmanager
def judging(folder: Path, delay_s: float, **more: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """A server that waits for its judge: its address, process, reply to come, and judge."""
    sent = body(ROW | {"trace": TRACES[0].text, "label": "Supported"})
    with FaultServer(usual=replace(SUPPORTED, delay_s=delay_s)) as judge:
        env = variables(PROFILE="paper", JUDGE_URL=judge.url, JUDGE_MODEL=MODEL) | more
        with ThreadPoolExecutor(1) as pool, served(folder, *OFF, **env) as (url, process):
            reply = pool.submit(send, url, sent)
            while not judge.asked:
                assert not reply.done(), reply.result()
                Event().wait(0.05)
            yield url, process, reply, judge


def test_a_stop_ends_within_ten_seconds(tmp_path: Path):
    """In the middle of a request whose judge takes a minute; the client is told."""
    with judging(tmp_path, 60) as (_, process, reply, _):
        stopped_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        status, said = reply.result()
        assert (503, True) == (status, "stops" in said["error"])
        assert 128 + signal.SIGTERM == process.wait(timeout=30)
        assert 10 > time.monotonic() - stopped_at
        assert "stopped: no further request" in process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_requests_under_way(number: signal.Signals, tmp_path: Path):
    """The reply still comes, though it takes longer than an interrupted command may live.

    The profile's ceiling of calls is that of all requests together.
    """
    second = body(ROW | {"trace": TRACES[GROUP].text, "label": "Supported"})
    ceiling = {"DECOMPOSERL_JUDGE__CALLS": "1"}
    with judging(tmp_path, 2.5, **ceiling) as (url, process, reply, judge):
        assert 503 == send(url, second)[0]
        process.send_signal(number)
        status, scores = reply.result()
        assert 200 == status, scores
        assert 1.0 == scores["rollouts"][0]["rewards"]["coverage"]["counted"]
        assert 128 + number == process.wait(timeout=30)
        assert 1 == len(judge.asked)
