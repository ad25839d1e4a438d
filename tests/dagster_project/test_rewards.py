"""Requests for rewards, ``serve-rewards``, and the two clients of docs/how-to/serve-rewards.md.

TRL is the installed one; of verl, the test has the form of the data and of the calls that its
source defines (0.9.0: ``RewardLoopWorker``, ``DataProto``, ``AgentLoopWorker._compute_score``).
"""

import asyncio
import json
import math
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
from types import SimpleNamespace
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import polars as pl
import pytest
import torch
from numpy.typing import NDArray
from typer.testing import CliRunner

from chat_parts import settings as chat_settings
from dagster_project.cli import app
from dagster_project.reward_server import MOST_CYCLES, Limits, RewardService
from dagster_project.score import Labels
from decomposerl.errors import ConfigError, EngineError
from decomposerl.judge.call import Judge, JudgeCall, Ruling, Task
from decomposerl.rewards.settings import RewardSettings
from environment import variables
from fakes import BagOfWordsEmbedder
from fault_server import MODEL, UNKNOWN_KEY, Answer, FaultServer
from planted_traces.planting import PlantedTrace
from project import PYTHONPATH, ROOT
from resources.chat.client import ChatClient
from resources.chat.settings import Ceilings
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.judge.rule_judge import RuleJudge
from resources.training.data import Completion, CompletionReader, completion_reader
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
    example,
    groups,
    imports,
    rows,
    running,
    service,
    serving,
)
from training_parts import BLOCKS, EXPERIMENT, FailingJudge, tiny_policy

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
    rewards = scorer.last.judged.rewards
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
    """A weight of 0 leaves a reward out; half of the claims may keep their label."""
    strict = RewardSettings({"joint": 2.5, "diversity": 0}, necessity="mean")
    one = service(settings=strict, labels=Labels(0.0))
    (first, *_) = scored(one, *rows(TRACES[:2]))
    assert "diversity" not in first["rewards"]
    assert 2.5 == first["rewards"]["joint"]["weight"]
    verification = first["rewards"]["verification"]
    assert ("absent", None) == (verification["state"], verification["counted"])
    counting = [reward for reward in first["rewards"].values() if reward["counted"] is not None]
    summed = sum(reward["weight"] * reward["counted"] for reward in counting)
    assert summed == pytest.approx(first["total"])
    health = one.health()
    assert {"profile": "embedded", "judge": "rule_judge:3", "labelled_share": 0.0}.items() <= (
        health.items()
    )
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
    _, reply = service().answer(body(ROW | {"extra": 1}, ROW | {"extra": 2}, model="x"))
    first, second = reply["notes"]
    assert "'model'" in first
    assert "row 0, field 'extra'" in second


@contextmanager
def asking(served: FaultServer, **changes: object) -> Iterator[RewardService]:
    """A service whose judge is at an endpoint and is asked for coverage alone."""
    client = ChatClient(chat_settings(served.url, attempts=1, **changes), None)
    with client:
        judge = ChatJudge(client, load_judge_prompts())
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
        asking(served, concurrency=1, ceilings=Ceilings(calls=12)) as one,
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
    patience = {"circuit_cooldown_s": 0.05, "circuit_patience_s": 0.05}
    with (
        FaultServer([UNKNOWN_KEY] * 400, usual=SUPPORTED) as served,
        asking(served, **patience) as one,
    ):
        status, reply = one.answer(body(*many))
        assert HTTPStatus.SERVICE_UNAVAILABLE == status
        assert "the endpoint answers no request" in reply["error"]
        served._script.clear()
        Event().wait(0.1)
        (again,) = scored(one, many[0])
    assert 1.0 == again["rewards"]["coverage"]["value"]


@dataclass
class OneByOne:
    """An embedder that notices a second thread."""

    inner: BagOfWordsEmbedder = field(default_factory=BagOfWordsEmbedder)
    inside: Lock = field(default_factory=Lock)
    engine: str = "one by one"

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        """As the bag of words."""
        assert self.inside.acquire(blocking=False), "two threads at once"
        try:
            Event().wait(0.02)
            return self.inner.embed(texts)
        finally:
            self.inside.release()


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
    one = service(judge, embedder=embedder, limits=Limits(most_questions=80))
    whole = [ROW | {"trace": CYCLE * n, "rollout": n} for n in (40, 41, 39)]
    status, reply = one.answer(body(*whole, ROW | {"trace": CYCLE * 2, "rollout": 2}))
    assert (413, True) == (status, "81 questions" in str(reply["error"]))
    assert 0 == sum(judge.asked) + sum(embedder.asked)
    assert 3 == len(scored(one, *whole))


def test_a_misspelt_field_is_refused():
    """A group size that is not read would score a part of a group as the whole."""
    status, reply = service().answer(body(ROW, group_sise=8))
    assert (400, "group_size") == (status, str(reply["error"]).split("'")[3])
    status, reply = service().answer(body(ROW | {"lable": "Refuted"}))
    assert (400, "lable") == (status, reply["problems"][0]["field"])  # type: ignore[index]


def asked(url: str, headers: Mapping[str, str], sent: bytes | None = None) -> int:
    """The status of a request with these headers."""
    path = "/v1/health" if sent is None else "/v1/rewards"
    try:
        with urlopen(Request(url + path, sent, dict(headers)), timeout=30) as reply:  # noqa: S310 - loopback
            return int(reply.status)
    except HTTPError as error:
        with error:
            return error.code


ATTACKS: list[tuple[dict[str, str], int]] = [
    (JSON | {"Host": "evil.example:8005"}, 403),  # DNS rebinding: its name leads to loopback
    (JSON | {"Host": ""}, 403),
    (JSON | {"Origin": "https://evil.example"}, 403),
    (JSON | {"Origin": "null"}, 403),
    (JSON | {"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Content-Type": "text/plain"}, 415),  # what a page may send without being asked for leave
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    (JSON | {"Sec-Fetch-Site": "none", "Host": "LocalHost"}, 200),
]


@pytest.mark.parametrize(("headers", "status"), ATTACKS)
def test_a_page_of_the_web_spends_no_call(headers: dict[str, str], status: int):
    """Another host's name, another origin and what no program of a trainer sends are refused."""
    judge = FailingJudge("coverage")
    with serving(service(judge)) as url:
        assert status == asked(url, headers, body(*rows(TRACES[:1])))
        if status != HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            assert status == asked(url, headers)
    assert (status == HTTPStatus.OK) == bool(judge.asked)


def test_a_client_that_sends_slowly_is_cut_off():
    """Byte by byte, in the headers or the body; the others are served meanwhile."""
    begun = b"POST /v1/rewards HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    slow = service(limits=Limits(receive_s=0.3))
    with running(slow) as server, ExitStack() as stack:
        address = server.socket.getsockname()
        parts = (begun, begun + b"Content-Length: 9\r\n\r\n")
        clients = [stack.enter_context(socket.create_connection(address)) for _ in parts]
        for client, part in zip(clients, parts, strict=True):
            client.sendall(part)
        assert HTTPStatus.OK == asked(server.url, {})
        for client in clients:
            client.settimeout(10)
            received = client.recv(1_000)
            assert received == b"" or received.startswith(b"HTTP/1.1 400")


LEAN = ("--weight", "diversity=0")


class Served:
    """The command in a process of its own."""

    def __init__(self, folder: Path, *words: object, **env: str) -> None:
        self._command = [sys.executable, "-m", "dagster_project.cli", "serve-rewards"]
        self._command += ["--port", "0", *map(str, words)]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
        self._env = (
            kept | {"PYTHONPATH": PYTHONPATH, "DECOMPOSERL_DATA": str(folder / "data")} | env
        )

    def __enter__(self) -> Self:
        """Start it and wait for its address."""
        self.process = subprocess.Popen(
            self._command, cwd=ROOT, env=self._env, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        self.said = ""
        while (found := re.search(r"rewards on (http://\S+)/v1/rewards\n", self.said)) is None:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = found[1]
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()

    def send(self, path: str, sent: bytes | None = None, **heads: str) -> tuple[int, Json]:
        """Status and JSON of a GET, or of a POST."""
        try:
            request = Request(self.url + path, sent, JSON | heads)  # noqa: S310 - loopback
            with urlopen(request, timeout=120) as reply:  # noqa: S310 - loopback
                return reply.status, json.load(reply)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)


def table_rows(replied: Sequence[Json]) -> list[tuple[object, ...]]:
    """A reply as rows of the reward table."""
    found: list[tuple[object, ...]] = []
    for one in replied:
        key = (one["group"], one["rollout"])
        for name, reward in one["rewards"].items():
            counts = reward["counted"] is not None
            found.append((*key, name, None, reward["value"], reward["state"], counts))
            for number, one_of in enumerate(reward.get("questions", ())):
                found.append((*key, name, number, one_of["value"], one_of["state"], counts))
        state = "dropped" if one["total"] is None else "scored"
        found.append((*key, "total", None, one["total"], state, one["total"] is not None))
    return found


def test_the_command_serves_what_score_writes(tmp_path: Path):
    """Value for value over HTTP, unlabelled claims and a failed call too; too long is 413."""
    lines = [*rows(groups()[0]), *rows(groups()[1], label=None), *rows(groups()[2])]
    traces, calls = tmp_path / "traces.jsonl", tmp_path / "failed.parquet"
    traces.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    run = CliRunner(env={"DECOMPOSERL_DATA": str(tmp_path / "data")})
    assert 0 == run.invoke(app, ["score", str(traces), *LEAN]).exit_code
    recorded = pl.read_parquet(traces.with_suffix(".judge_calls.parquet"))
    group, key = recorded.filter(task="atomicity").select("group", "call_key").row(0)
    lost = pl.col("call_key") == key
    recorded.with_columns(
        value=pl.when(~lost).then("value"), failure=pl.when(lost).then(pl.lit("timeout"))
    ).write_parquet(calls)
    words = (*LEAN, "--judge-calls", str(calls))
    assert 0 == run.invoke(app, ["score", str(traces), *words]).exit_code
    written = pl.read_parquet(traces.with_suffix(".rewards.parquet"))
    columns = ("group", "rollout", "reward", "question", "value", "state", "counted")
    known = list(written.select(columns).iter_rows())
    with Served(tmp_path, *words, "--most-megabytes", "1") as server:
        status, reply = server.send("/v1/rewards", body(*lines, group_size=GROUP))
        assert 200 == status, reply
        assert known == table_rows(reply["rollouts"])
        status, health = server.send("/v1/health")
        assert (200, "replay of failed.parquet") == (status, health["judge"])
        status, refused = server.send("/v1/rewards", b" " * 1_000_001)
        assert (413, "the body has more than 1,000,000 bytes") == (status, refused["error"])
        assert 403 == server.send("/v1/rewards", body(*lines), Origin="http://a.example")[0]
        status, refused = server.send("/v1/rewards", body(ROW | {"claim": ""}))
        blank = {"row": 0, "field": "claim", "reason": "is blank"}
        assert (400, [blank]) == (status, refused["problems"])
    dropped = [one for one in reply["rollouts"] if one["rewards"]["joint"]["counted"] is None]
    assert [group] * GROUP == [one["group"] for one in dropped]
    assert None not in {one["total"] for one in reply["rollouts"]}


OFF = [word for name in COVERAGE for word in ("--weight", f"{name}=0")]


def at_endpoint(judge: FaultServer) -> dict[str, str]:
    """The variables of a judge at an endpoint, and of no other engine that is used."""
    return variables(PROFILE="paper", JUDGE_URL=judge.url, JUDGE_MODEL=MODEL)


def test_a_stop_ends_within_ten_seconds(tmp_path: Path):
    """In the middle of a request whose judge takes a minute; the client is told."""
    slow: Answer = replace(SUPPORTED, delay_s=60)
    sent = body(ROW | {"trace": TRACES[0].text, "label": "Supported"})
    with (
        FaultServer(usual=slow) as judge,
        ThreadPoolExecutor(1) as pool,
        Served(tmp_path, *OFF, **at_endpoint(judge)) as server,
    ):
        reply = pool.submit(server.send, "/v1/rewards", sent)
        while not judge.asked:
            assert not reply.done(), reply.result()
            Event().wait(0.05)
        stopped_at = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        status, said = reply.result()
        assert (503, True) == (status, "stops" in said["error"])
        assert 128 + signal.SIGTERM == server.process.wait(timeout=30)
        assert 10 > time.monotonic() - stopped_at
        assert server.process.stderr is not None
        assert "stopped: no further request" in server.process.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_requests_under_way(number: signal.Signals, tmp_path: Path):
    """The reply still comes, though it takes longer than an interrupted command may live.

    The most calls, which are an option, are those of all requests together.
    """
    slow: Answer = replace(SUPPORTED, delay_s=2.5)
    texts = (TRACES[0].text, TRACES[GROUP].text)
    first, second = (body(ROW | {"trace": text, "label": "Supported"}) for text in texts)
    with (
        FaultServer(usual=slow) as judge,
        ThreadPoolExecutor(1) as pool,
        Served(tmp_path, *OFF, "--most-calls", "1", **at_endpoint(judge)) as server,
    ):
        reply = pool.submit(server.send, "/v1/rewards", first)
        while not judge.asked:
            assert not reply.done(), reply.result()
            Event().wait(0.05)
        assert 503 == server.send("/v1/rewards", second)[0]
        server.process.send_signal(number)
        status, scores = reply.result()
        assert 200 == status, scores
        assert 1.0 == scores["rollouts"][0]["rewards"]["coverage"]["counted"]
        assert 128 + number == server.process.wait(timeout=30)
        assert 1 == len(judge.asked)


# The clients

PAGE = (ROOT / "docs/how-to/serve-rewards.md").read_text("utf-8")
THOUGHT, WHO, WHEN, _, ALONE, SUPPORTED_BLOCK, REFUTED_BLOCK = BLOCKS
ROLLOUTS = (
    ((THOUGHT, WHO, THOUGHT, WHEN, THOUGHT, SUPPORTED_BLOCK), True),
    ((THOUGHT, WHO, THOUGHT, REFUTED_BLOCK), True),
    ((ALONE,), True),
    ((THOUGHT, WHEN, THOUGHT), False),  # cut off
)
SIZE = len(ROLLOUTS)
CLAIMS = (
    {"claim": "Ilva opened it", "evidence": "Ilva opened it. It was 1921.", "n_star": 2},
    {"claim": "Torbeck has a river", "evidence": "The river was in Torbeck.", "n_star": 1},
)
LABELS = ("Supported", None)


@dataclass
class Losing:
    """The rules, which lose rulings of some tasks on the first claim, or are away at first."""

    lost: tuple[Task, ...] = ()
    away: int = 0
    asked: list[int] = field(default_factory=list)
    engine: str = "losing"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings on a batch."""
        self.asked.append(len(calls))
        if len(self.asked) <= self.away:
            raise EngineError("the endpoint is away")
        first = CLAIMS[0]["evidence"]
        lost = [call.task in self.lost and call.document == first for call in calls]
        ruled = zip(lost, RuleJudge().judge(calls), strict=True)
        return [Ruling(None, "timeout") if gone else ruling for gone, ruling in ruled]


@dataclass
class Tidying:
    """A tokenizer that takes spaces out of a text, unless it is asked not to."""

    inner: Any

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the inner one's
        """The rest is the inner one's."""
        return getattr(self.inner, name)

    def decode(self, ids: list[int], **options: bool) -> str:
        """The text of tokens."""
        tidies = options.pop("clean_up_tokenization_spaces", True)
        text = self.inner.decode(ids, clean_up_tokenization_spaces=False, **options)
        return text.replace(" ", "") if tidies else str(text)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> CompletionReader:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_policy(tmp_path_factory.mktemp("base")))
    return completion_reader(tokenizer, [tokenizer.eos_token_id])


def tokens(reader: CompletionReader) -> list[list[int]]:
    """The rollouts of one claim."""
    end = [reader.tokenizer.eos_token_id]
    ids = [reader.tokenizer.convert_tokens_to_ids(list(blocks)) for blocks, _ in ROLLOUTS]
    return [one + end * ended for one, (_, ended) in zip(ids, ROLLOUTS, strict=True)]


def doubled(judge: Judge) -> RewardService:
    return service(judge, settings=RewardSettings({"joint": 2.0}))


def directly(one: RewardService, reader: CompletionReader) -> list[Json]:
    """What the service itself says of two claims, the second without a label."""
    ends = [ids[-1] in reader.ends for ids in tokens(reader)]
    rollouts = [
        {"group": str(number), "rollout": place, **claim, "label": label}
        | {"trace": reader.text(ids), "truncated": not ends[place]}
        for number, (claim, label) in enumerate(zip(CLAIMS, LABELS, strict=True))
        for place, ids in enumerate(tokens(reader))
    ]
    status, reply = one.answer(body(*rollouts))
    assert 200 == status, reply
    return list(reply["rollouts"])


def counted(replies: Sequence[Json], name: str) -> list[float]:
    """What counts of a reward, NaN where it does not."""
    values = [one["rewards"][name]["counted"] for one in replies]
    return [math.nan if one is None else one for one in values]


def trl_trainer(functions: Sequence[object], names: Sequence[str]) -> SimpleNamespace:
    """What ``GRPOTrainer._calculate_rewards`` reads of its trainer."""
    return SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", is_main_process=True),
        args=SimpleNamespace(report_to=[]),
        state=SimpleNamespace(global_step=3),
        reward_funcs=functions,
        reward_func_names=names,
        reward_processing_classes=[None] * len(names),
        **dict.fromkeys(("environments", "_log_completion_extra", "_log_metric")),
    )


@pytest.mark.parametrize("judge", [Losing(), Losing(("answerability",))])
def test_trl_gets_the_services_values(judge: Losing, reader: CompletionReader):
    """TRL's own summing of our functions gives our totals, nulls and weights included."""
    from trl import GRPOTrainer

    known = directly(doubled(judge), reader)
    inputs = [
        {"prompt": "Verify it.", "label": label, "claim_id": "x", **claim}
        for claim, label in zip(CLAIMS, LABELS, strict=True)
        for _ in range(SIZE)
    ]
    with serving(doubled(judge)) as url:
        rewards = example("trl_rewards").RewardServer(url, Tidying(reader.tokenizer), SIZE)
        functions = rewards.functions()
        names = [one.__name__ for one in functions]
        trainer = trl_trainer(functions, names)
        before = len(judge.asked)
        texts = ["Verify it."] * len(inputs)
        twice = tokens(reader) * 2
        calculated = GRPOTrainer._calculate_rewards(trainer, inputs, texts, texts, twice)
        assert 1 == len(judge.asked) - before, "one request for all functions"
    assert list(known[0]["rewards"]) == names
    for column, name in enumerate(names):
        values = calculated[:, column].tolist()
        assert counted(known, name) == pytest.approx(values, nan_ok=True), name
    lost = torch.isnan(calculated[:, names.index("joint")]).tolist()
    assert [bool(judge.lost)] * SIZE + [False] * SIZE == lost
    summed = (calculated * torch.tensor(rewards.weights)).nansum(dim=1).tolist()
    assert [one["total"] for one in known] == pytest.approx(summed)


def columns(rows: int, claim: int = 0) -> dict[str, list[object]]:
    return {name: [value] * rows for name, value in CLAIMS[claim].items()}


PADDING = 3


def sampled(ids: list[int], claim: int, split: str = "train", uid: str = "") -> list[Any]:
    """One rollout, as ``_compute_score`` of the agent loop makes it: a batch of one, padded."""
    prompt = [1, 1]
    mask = [1] * (len(prompt) + len(ids)) + [0] * PADDING
    batch = {
        "prompts": torch.tensor(prompt),
        "responses": torch.tensor([*ids, *[0] * PADDING]),
        "attention_mask": torch.tensor(mask),
    }
    row = {
        "uid": uid or f"uid {claim}",
        "data_source": "decomposerl",
        "reward_model": {"style": "rule", "ground_truth": LABELS[claim]},
        "extra_info": {**CLAIMS[claim], "split": split, "index": claim},
    }
    return [SimpleNamespace(batch=batch, non_tensor_batch=row)]


def manager(url: str, reader: CompletionReader, **own: object) -> Any:  # noqa: ANN401 - a class of the example
    """The reward manager, as ``load_reward_manager`` makes it."""
    rollout = {"n": SIZE, "val_kwargs": {"n": 1}}
    config = {"actor_rollout_ref": {"rollout": rollout}, "decomposerl": {"url": url, **own}}
    return example("verl_rewards").GroupRewards(
        config=config,
        tokenizer=Tidying(reader.tokenizer),
        compute_score=len,
        reward_router_address=None,
        reward_model_tokenizer=None,
    )


async def scored_at_once(one: Any, *batch: list[SimpleNamespace]) -> list[Any]:  # noqa: ANN401 - the same
    """All rollouts at once, as the reward loop gets them from the agent loops."""
    return await asyncio.gather(*map(one.run_single, batch), return_exceptions=True)


@pytest.mark.parametrize("judge", [Losing(), Losing(("answerability",))])
def test_verl_gets_the_services_totals(judge: Losing, reader: CompletionReader):
    """Rollouts of two groups come mixed; each gets its total, and NaN for what does not count."""
    known = directly(doubled(judge), reader)
    first, second = ([sampled(ids, claim) for ids in tokens(reader)] for claim in (0, 1))
    mixed = [one for pair in zip(first, second, strict=True) for one in pair]
    before = len(judge.asked)
    with serving(doubled(judge)) as url:
        replies = asyncio.run(scored_at_once(manager(url, reader), *mixed))
    assert 2 == len(judge.asked) - before, "one request for each group"
    in_order = replies[::2] + replies[1::2]
    assert [one["total"] for one in known] == [one["reward_score"] for one in in_order]
    for name in known[0]["rewards"]:
        values = [one["reward_extra_info"][name] for one in in_order]
        assert counted(known, name) == pytest.approx(values, nan_ok=True), name


def test_the_page_shows_what_the_server_says():
    """Request, reply, refusal and health's fields; its clients need the standard library alone."""
    from resources.embedder.minilm import MiniLM

    blocks = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    request, reply, bad = map(json.loads, blocks)
    one = RewardService("embedded", RuleJudge(), MiniLM(), RewardSettings())
    _, said = one.answer(json.dumps(request).encode())
    assert rounded(reply) == rounded(json.loads(json.dumps(said)))
    request["rollouts"][0]["label"] = "true"
    status, refused = one.answer(json.dumps(request).encode())
    assert (400, bad) == (status, refused)
    (health,) = [part for part in PAGE.split("\n\n") if part.startswith("`GET /v1/health`")]
    assert list(one.health()) == re.findall(r"`([a-z_]+)`", health)
    assert [set(), set()] == [imports(name) for name in ("trl_rewards", "verl_rewards")]


def rounded(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Numbers as the page has them: vectors differ a little between processors."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value
