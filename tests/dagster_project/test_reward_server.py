"""``decomposerl serve-rewards``: the values of ``score`` and of the trainer, over HTTP."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import polars as pl
import pytest
from typer.testing import CliRunner

from dagster_project.cli import app
from dagster_project.reward_server import reward_app, web_server
from fault_server import MODEL, Answer, FaultServer
from project import PYTHONPATH, ROOT
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
)

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

    def send(self, path: str, sent: bytes | None = None) -> tuple[int, Json]:
        """Status and JSON of a GET, or of a POST."""
        try:
            with urlopen(Request(self.url + path, sent), timeout=120) as reply:  # noqa: S310 - loopback
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
            found += [
                (*key, name, number, question["value"], question["state"], counts)
                for number, question in enumerate(reward.get("questions", ()))
            ]
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
        status, refused = server.send("/v1/rewards", body(ROW | {"claim": ""}))
        assert (400, [{"row": 0, "field": "claim", "reason": "is blank"}]) == (
            status,
            refused["problems"],
        )
    dropped = [one for one in reply["rollouts"] if one["rewards"]["joint"]["counted"] is None]
    assert [group] * GROUP == [one["group"] for one in dropped]
    assert None not in {one["total"] for one in reply["rollouts"]}


OFF = [word for name in COVERAGE for word in ("--weight", f"{name}=0")]


def at_endpoint(judge: FaultServer) -> dict[str, str]:
    """The variables of a judge at an endpoint, and of no other engine that is used."""
    return {
        "DECOMPOSERL_PROFILE": "paper",
        "DECOMPOSERL_JUDGE_URL": judge.url,
        "DECOMPOSERL_JUDGE_MODEL": MODEL,
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_requests_under_way(number: signal.Signals, tmp_path: Path):
    """The reply still comes, though it takes longer than an interrupted command may live."""
    slow: Answer = replace(SUPPORTED, delay_s=2.5)
    asked = body(ROW | {"trace": TRACES[0].text, "label": "Supported"})
    with (
        FaultServer(usual=slow) as judge,
        ThreadPoolExecutor(1) as pool,
        Served(tmp_path, *OFF, **at_endpoint(judge)) as server,
    ):
        reply = pool.submit(server.send, "/v1/rewards", asked)
        while not judge.asked:
            assert not reply.done(), reply.result()
            Event().wait(0.05)
        server.process.send_signal(number)
        status, scores = reply.result()
        assert 200 == status, scores
        assert 1.0 == scores["rollouts"][0]["rewards"]["coverage"]["counted"]
        assert 128 + number == server.process.wait(timeout=30)


def test_the_most_calls_are_an_option(tmp_path: Path):
    """Of all requests together; a reply that is stored is no call."""
    first, second = (
        body(ROW | {"trace": trace.text, "label": "Supported"})
        for trace in (TRACES[0], TRACES[GROUP])
    )
    with FaultServer(usual=SUPPORTED) as judge:
        words = (*OFF, "--most-calls", "1")
        with Served(tmp_path, *words, **at_endpoint(judge)) as server:
            assert [200, 503, 200] == [
                server.send("/v1/rewards", sent)[0] for sent in (first, second, first)
            ]
        assert 1 == len(judge.asked)


def test_a_signal_is_not_sent_on():
    """A second one would end the process before its engines are closed."""
    passed_on: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: passed_on.append(number))
    try:
        with ThreadPoolExecutor(1) as pool:
            server = web_server(reward_app(service(), pool, 1))
            with server.capture_signals():
                signal.raise_signal(signal.SIGTERM)
        assert server.should_exit
        assert [] == passed_on
        signal.raise_signal(signal.SIGTERM)
        assert [signal.SIGTERM] == passed_on, "the earlier handler is back"
    finally:
        signal.signal(signal.SIGTERM, before)
