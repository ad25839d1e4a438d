"""The runner: one answer a call, no waves, resumed after a kill, stopped where too many fail."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import evaluation_child
from chat_parts import settings
from decomposerl.baselines import method
from decomposerl.baselines.method import ModelCall
from decomposerl.errors import EngineError
from evaluation_parts import (
    ScriptedCaller,
    cases,
    prompts_in,
    shelf,
    two_steps,
)
from fault_server import REFUSED, UNKNOWN_KEY, Answer, FaultServer, replying
from project import PYTHONPATH, ROOT
from resources.chat.client import ChatClient
from resources.chat.settings import Ceilings, Price
from resources.evaluation.chat_caller import CallSettings, ChatCaller
from resources.evaluation.runner import FailureLimit, run_claims

ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH}
PATIENCE_S = 60


@pytest.mark.parametrize("way", ["batches", "threads"])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_each_claim_is_driven_to_its_end(way: str, count: int, tmp_path: Path):
    """Two calls a claim, each answer to the claim that asked, results in the claims' order."""
    caller = ScriptedCaller(concurrent=way == "threads")
    progress: list[tuple[int, int]] = []
    found = run_claims(
        two_steps,
        "simple",
        cases(count),
        caller,
        shelf(tmp_path),
        progress=lambda done, total: progress.append((done, total)),
    )
    assert [f"yes claim {n}" for n in range(count)] == [one.verification.reply for one in found]
    assert [case.claim_id for case in cases(count)] == [one.claim_id for one in found]
    assert {2} >= {len(one.calls) for one in found}
    assert 2 * count == len(caller.asked)
    assert [(done, count) for done in range(count + 1)] == progress


def test_an_engine_in_this_process_gets_full_batches(tmp_path: Path):
    """The place of a claim that ended is taken at once, by claims at their own step."""

    def by_length(question: method.ClaimInput) -> method.Steps:
        for _ in range(1 + int(question.claim.split()[1]) % 3):
            yield from method.ask(ModelCall("answer", "first", {"claim": question.claim}))
        return method.Verification(None, "unparsed", "")

    caller = ScriptedCaller(claims_at_once=5)
    run_claims(by_length, "simple", cases(20), caller, shelf(tmp_path))
    sizes = [len(batch) for batch in caller.batches]
    assert {5} == set(sizes[:-3])
    assert sum(1 + n % 3 for n in range(20)) == sum(sizes)


@pytest.mark.parametrize("way", ["batches", "threads"])
def test_results_are_handed_over_as_they_end(way: str, tmp_path: Path):
    """Before the next claims are asked; each claim once, and stored ones first in a second run."""
    caller = ScriptedCaller(concurrent=way == "threads", claims_at_once=1)
    seen: list[tuple[str, int]] = []

    def run(count: int) -> list[str]:
        seen.clear()
        run_claims(
            two_steps,
            "simple",
            cases(count),
            caller,
            shelf(tmp_path),
            finished=lambda one: seen.append((one.claim_id, len(caller.batches))),
        )
        return [claim_id for claim_id, _ in seen]

    ids = [case.claim_id for case in cases(4)]
    assert ids[:3] == run(3)
    assert [2, 4, 6] == [batches for _, batches in seen]
    assert ids == run(4)
    assert [6, 6, 6, 8] == [batches for _, batches in seen]


def test_a_batching_engine_may_start_with_fewer_claims(tmp_path: Path):
    """The first result then waits for that many claims only; the results are the same."""
    whole, few = ScriptedCaller(), ScriptedCaller()
    everything = run_claims(two_steps, "simple", cases(5), whole, shelf(tmp_path / "a"))
    found = run_claims(two_steps, "simple", cases(5), few, shelf(tmp_path / "b"), at_once=2)
    assert everything == found
    assert {4, 1} == set(map(len, whole.batches))
    assert 2 == max(map(len, few.batches))


def test_a_finished_run_asks_nothing(tmp_path: Path):
    """The same claims again: every answer comes from the shelf and is the same."""
    first = run_claims(two_steps, "simple", cases(7), ScriptedCaller(), shelf(tmp_path))
    caller = ScriptedCaller()
    again = run_claims(two_steps, "simple", cases(7), caller, shelf(tmp_path))
    assert [] == caller.batches
    assert [one.verification.reply for one in first] == [one.verification.reply for one in again]
    assert [one.calls for one in first] == [one.calls for one in again]
    other = ScriptedCaller()
    run_claims(two_steps, "simple", cases(7), other, shelf(tmp_path, "b" * 64))
    assert 14 == len(other.asked)  # other words, other answers


def test_failed_claims_are_counted_and_asked_again(tmp_path: Path):
    """Below the limit they are rows with a reason; the next run asks for them alone."""

    def third_fails(call: ModelCall) -> method.ModelReply:
        bad = call.variables["claim"] == "claim 3"
        return method.ModelReply("", failure="timeout: late") if bad else method.ModelReply("yes")

    found = run_claims(
        two_steps,
        "simple",
        cases(10),
        ScriptedCaller(third_fails),
        shelf(tmp_path),
        limits=FailureLimit(most_failed=0.1),
    )
    failed = [one for one in found if one.failed]
    assert ["claim 3"] == [f"claim {int(one.claim_id, 16)}" for one in failed]
    assert ("timeout: late", "timeout: late") == (
        failed[0].verification.reply,
        failed[0].calls[0].failure,
    )
    caller = ScriptedCaller()
    run_claims(two_steps, "simple", cases(10), caller, shelf(tmp_path))
    assert {"claim 3"} == {call.variables["claim"] for call in caller.asked}


def test_too_many_failures_end_the_run(tmp_path: Path):
    """The run raises as soon as the limit cannot be kept, and keeps what was answered."""

    def late_ones_fail(call: ModelCall) -> method.ModelReply:
        number = int(call.variables["claim"].split()[1])
        return method.ModelReply("yes") if number < 20 else method.ModelReply("", failure="timeout")

    caller = ScriptedCaller(late_ones_fail)
    with pytest.raises(EngineError, match="3 of 40 claims failed"):
        run_claims(
            two_steps,
            "simple",
            cases(40),
            caller,
            shelf(tmp_path),
            limits=FailureLimit(most_failed=0.05),
        )
    assert len(caller.asked) < 60
    kept = shelf(tmp_path).read([case.claim_id for case in cases(40)])
    assert 20 == len(kept)


def _over(served: FaultServer, folder: Path, count: int, **changes: object) -> list[str]:
    at_once = int(str(changes.get("concurrency", 8)))
    made = settings(served.url, needs_logprobs=False, **{"concurrency": at_once, **changes})
    with ChatClient(made, None) as chat:
        prompts = prompts_in(folder / "prompts")
        caller = ChatCaller(chat, CallSettings(), prompts=prompts, claims_at_once=at_once)
        found = run_claims(two_steps, "simple", cases(count), caller, shelf(folder))
    return [one.verification.reply for one in found]


class _Watched(FaultServer):
    """Counts what is in flight each time that a reply leaves."""

    seen: list[int]

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:
        self.seen.append(self.in_flight + 1)
        return super()._well(asked, answer)


def test_the_server_is_kept_full(tmp_path: Path):
    """Nearly as many requests are in flight as may be, whenever a reply leaves before the end.

    In waves, each of which waits for its straggler, it would be about half as many.
    """
    count, width, usual_s = 30, 8, 0.15
    script = [Answer(delay_s=usual_s * (3 if n % width == 0 else 1)) for n in range(2 * count)]
    served = _Watched(script)
    served.seen = []
    with served:
        _over(served, tmp_path, count, concurrency=width)
    assert width == served.most_in_flight
    steady = served.seen[: 2 * count - 2 * width]
    assert sum(steady) / len(steady) / width > 0.8, steady


def test_no_claim_waits_for_another(tmp_path: Path):
    """A reply that takes long holds up its own claim: all others end before it comes."""
    count = 30
    with FaultServer([Answer(delay_s=3.0)]) as served:
        _over(served, tmp_path, count, concurrency=4)
        slow = served.prompts[0].partition("about ")[2].rstrip(".")
        assert [n for n, asked in enumerate(served.prompts) if f"{slow}, after" in asked] == [
            2 * count - 1
        ]


def test_a_wrong_key_ends_the_run_at_once(tmp_path: Path):
    """No claim could be answered, so no second one is tried; the message says what was said."""
    with (
        FaultServer(usual=UNKNOWN_KEY) as served,
        pytest.raises(EngineError, match="wrong key"),
    ):
        _over(served, tmp_path, 50, concurrency=1)
    assert 1 == len(served.asked)


def test_a_refused_request_fails_its_claim_alone(tmp_path: Path):
    """A prompt that is too long for the endpoint is that claim's failure."""
    with FaultServer([REFUSED]) as served, pytest.raises(EngineError, match="prompt too long"):
        _over(served, tmp_path, 10, concurrency=1)


def test_a_ceiling_ends_the_run(tmp_path: Path):
    """A ceiling is no failure of claims: the run stops and says so."""
    with FaultServer() as served, pytest.raises(EngineError, match="ceiling"):
        _over(served, tmp_path, 10, concurrency=2, ceilings=Ceilings(calls=5))


def test_a_killed_run_asks_nothing_twice(tmp_path: Path):
    """After kill -9 the next run asks for claims that were not stored, and ends with the same.

    No reply is cached by the client, so each repeated question would reach the server.
    """
    count = 150
    with FaultServer(usual=Answer(delay_s=0.01)) as served:
        command = [sys.executable, evaluation_child.__file__, served.url, str(tmp_path), str(count)]
        running = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT)
        while not list((tmp_path / "shards").glob("*/*.parquet")):
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait(PATIENCE_S)
        first = len(served.asked)
        assert first < 2 * count
        found = evaluation_child.run(served.url, tmp_path, count)
        kept = 2 * count - (len(served.asked) - first)
        assert 2 * 64 <= kept <= first
        twice = Counter(served.prompts)
        assert sum(times - 1 for times in twice.values()) <= first - kept
        before = len(served.asked)
        assert found == evaluation_child.run(served.url, tmp_path, count)
        assert before == len(served.asked)
    with FaultServer() as other:
        assert found == evaluation_child.run(other.url, tmp_path / "uninterrupted", count)


def test_what_the_model_did_is_an_answer(tmp_path: Path):
    """Empty and cut replies are the model's own; tokens, time and price of a reply are kept."""
    prompts = prompts_in(tmp_path)
    call = ModelCall("verify", "first", {"claim": "x"})
    script = [replying(""), replying("What is", "length"), replying("well")]
    with (
        FaultServer(script) as served,
        ChatClient(settings(served.url, concurrency=1, needs_logprobs=False), None) as chat,
    ):
        price = Price(prompt=1.0, completion=2.0)
        caller = ChatCaller(chat, CallSettings(), prompts=prompts, price=price)
        empty, cut, well = (caller.answer("simple", [call])[0] for _ in script)
    assert ("", False, "") == (empty.answer.text, empty.answer.truncated, empty.answer.failure)
    assert ("What is", True, "") == (cut.answer.text, cut.answer.truncated, cut.answer.failure)
    assert (10, 5, 20e-6) == (well.prompt_tokens, well.completion_tokens, well.dollars)
    assert well.latency_s > 0
    assert {5} == {body["top_logprobs"] for body in served.asked}
