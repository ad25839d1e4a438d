"""The runner: one answer a call, no waves, resumed after a kill; and what a prediction's row holds.

``python test_runner.py URL FOLDER COUNT`` makes the predictions that a test kills.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from chat_parts import settings
from decomposerl.baselines import method
from decomposerl.baselines.method import ClaimInput, ModelCall, ModelReply, Steps, Verification, ask
from decomposerl.chat import Token
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineError
from decomposerl.evaluation.calibration import READING
from decomposerl.evaluation.systems import Model, System
from decomposerl.schemas import BENCHMARK_CLAIMS, CALLS, PREDICTIONS
from decomposerl.traces.trace import Cycle
from evaluation_graph import materialize, write_tests
from evaluation_parts import (
    PROMPT_HASH,
    ScriptedCaller,
    cases,
    prompts_in,
    run_all,
    shelf,
    two_steps,
)
from evaluation_runs import Predicted, predicted_by
from fakes import ScriptedVerifier
from fault_server import REFUSED, UNKNOWN_KEY, Answer, FaultServer, replying
from project import PYTHONPATH, ROOT, SUPPORT
from resources.chat.client import ChatClient
from resources.evaluation.generation import SHARDS, OpenedSystem
from resources.evaluation.runner import (
    ChatCaller,
    MethodCaller,
    Prediction,
    PredictionStore,
    VerifierCaller,
    run_claims,
    scored,
)
from resources.store.parquet import DataFolder

PATIENCE_S = 60
IDS = [*cases(60)]
each_way = pytest.mark.parametrize("way", ["batches", "threads"])


def run(count: int, caller: ScriptedCaller, folder: Path, **how: Any) -> list[Prediction]:  # noqa: ANN401 - of the runner
    """The two-step method over the first claims."""
    return run_all(two_steps, "simple", cases(count), caller, shelf(folder), **how)


def replies(predictions: list[Prediction]) -> list[str]:
    return [one.verification.reply for one in predictions]


@each_way
@pytest.mark.parametrize("count", [0, 1, 3, 4, 9])
def test_each_claim_is_driven_to_its_end(way: str, count: int, tmp_path: Path):
    """Two calls a claim, each answer to the claim that asked, results in the claims' order."""
    caller = ScriptedCaller(concurrent=way == "threads")
    found = run(count, caller, tmp_path)
    assert [f"yes claim {n}" for n in range(count)] == replies(found)
    assert IDS[:count] == [one.claim_id for one in found]
    assert {2} >= {len(one.calls) for one in found}
    assert 2 * count == len(caller.asked)


def test_an_engine_in_this_process_gets_full_batches(tmp_path: Path):
    """A claim that ended gives its place to another at once; it may start with fewer claims."""

    def by_length(question: method.ClaimInput) -> method.Steps:
        for _ in range(1 + int(question.claim.split()[1]) % 3):
            yield from method.ask(ModelCall("answer", "first", {"claim": question.claim}))
        return method.Verification(None, "unparsed", "")

    caller = ScriptedCaller(claims_at_once=5)
    run_all(by_length, "simple", cases(20), caller, shelf(tmp_path))
    sizes = [len(batch) for batch in caller.batches]
    assert {5} == set(sizes[:-3])
    assert sum(1 + n % 3 for n in range(20)) == sum(sizes)
    whole, few = ScriptedCaller(), ScriptedCaller()
    assert run(5, whole, tmp_path / "a") == run(5, few, tmp_path / "b", at_once=2)
    assert {4, 1} == set(map(len, whole.batches))
    assert 2 == max(map(len, few.batches))


@each_way
def test_results_are_handed_over_as_they_end(way: str, tmp_path: Path):
    """Before the next claims are asked; each claim once, and stored ones first in a second run."""
    caller = ScriptedCaller(concurrent=way == "threads", claims_at_once=1)
    for count, batches in ((3, [2, 4, 6]), (4, [6, 6, 6, 8])):
        results = run_claims(two_steps, "simple", cases(count), caller, shelf(tmp_path))
        assert [*zip(IDS, batches, strict=False)] == [
            (one.claim_id, len(caller.batches)) for one in results
        ]


def failing(*numbers: int) -> ScriptedCaller:
    """A caller whose calls about some claims fail."""

    def say(call: ModelCall) -> ModelReply:
        fails = int(call.variables["claim"].split()[1]) in numbers
        return ModelReply("", failure="timeout: late") if fails else ModelReply("yes")

    return ScriptedCaller(say)


def test_failed_claims_are_counted_and_asked_again(tmp_path: Path):
    """Rows with a reason, asked again by the next run; above the limit the run ends."""
    found = run(10, failing(3), tmp_path, most_failed=0.1)
    (failed,) = [one for one in found if one.failed]
    assert IDS[3] == failed.claim_id
    assert "timeout: late" == failed.verification.reply == failed.calls[0]["failure"]
    caller = ScriptedCaller()
    run(10, caller, tmp_path)
    assert {"claim 3"} == {call.variables["claim"] for call in caller.asked}
    caller = failing(*range(20, 40))
    with pytest.raises(EngineError, match="3 of 40"):
        run(40, caller, tmp_path / "many", most_failed=0.05)
    assert len(caller.asked) < 60
    assert 20 == len(shelf(tmp_path / "many").read(IDS[:40]))


def over(url: str, folder: Path, count: int, **changes: Any) -> list[str]:  # noqa: ANN401 - of the client
    """The replies behind the verdicts; finished claims are stored, replies are not."""
    made = settings(url, **{"concurrency": 8, **changes})
    with ChatClient(made, None, needs_logprobs=False) as chat:
        caller = ChatCaller(chat, made, prompts_in(folder / "prompts"))
        shards = PredictionStore(folder / "shards", caller.engine, "two-steps", PROMPT_HASH)
        return replies(run_all(two_steps, "simple", cases(count), caller, shards))


def test_a_slow_reply_holds_up_its_claim_alone(tmp_path: Path):
    """The place of a claim that ended is taken at once: the first claim waits for all others."""
    count, over, ended = 30, threading.Event(), Counter[str]()

    def say(call: ModelCall) -> ModelReply:
        claim = call.variables["claim"]
        if claim == "claim 0":
            assert over.wait(PATIENCE_S)
        ended[call.template] += claim != "claim 0"
        if ended["second"] == count - 1:
            over.set()
        return ModelReply("yes")

    caller = ScriptedCaller(say, concurrent=True, claims_at_once=8)
    results = run_claims(two_steps, "simple", cases(count), caller, shelf(tmp_path))
    assert IDS[0] == [one.claim_id for one in results][-1]


@pytest.mark.parametrize(
    ("script", "changes", "said"),
    [
        ([UNKNOWN_KEY] * 9, {"concurrency": 1}, "wrong key"),
        ([REFUSED], {"concurrency": 1}, "prompt too long"),
        ([], {"concurrency": 2, "calls": 5}, "ceiling"),
    ],
)
def test_what_the_endpoint_says_ends_the_run(
    script: list[Answer], changes: dict[str, Any], said: str, tmp_path: Path
):
    """A wrong key at once, before a second question; a refused claim above the limit; a ceiling."""
    with FaultServer(script) as served, pytest.raises(EngineError, match=said):
        over(served.url, tmp_path, 10, **changes)
    if "key" in said:
        assert 1 == len(served.asked)


def killed_midway(shards: Path, *words: str) -> None:
    """Run a program that is killed as soon as something lies in ``shards``."""
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, **quiet)
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not list(shards.rglob("*.parquet")):
        assert child.poll() is None, "it ended before anything was stored"
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.005)
    child.kill()
    assert -signal.SIGKILL == child.wait(PATIENCE_S)


def test_a_killed_run_asks_nothing_twice(tmp_path: Path):
    """After kill -9 the next run asks for what was not stored, and ends with the same."""
    count = 150
    with FaultServer(usual=Answer(delay_s=0.01)) as served:
        killed_midway(tmp_path / "shards", __file__, served.url, str(tmp_path), str(count))
        first = len(served.asked)
        assert first < 2 * count
        found = over(served.url, tmp_path, count)
        kept = 2 * count - (len(served.asked) - first)
        assert 2 * 64 <= kept <= first
        twice = Counter(served.prompts)
        assert sum(times - 1 for times in twice.values()) <= first - kept
        before = len(served.asked)
        assert found == over(served.url, tmp_path, count)
        assert before == len(served.asked)
    with FaultServer() as other:
        assert found == over(other.url, tmp_path / "uninterrupted", count)


def test_what_the_model_did_is_an_answer(tmp_path: Path):
    """Empty and cut replies are the model's own; tokens, time and price of a reply are kept."""
    prompts, call = prompts_in(tmp_path), ModelCall("verify", "first", {"claim": "x"})
    script = [replying(""), replying("What is", "length"), replying("well")]
    with (
        FaultServer(script) as served,
        ChatClient(settings(served.url), None, needs_logprobs=False) as chat,
    ):
        priced = Endpoint(prompt_price=1.0, completion_price=2.0)
        caller = ChatCaller(chat, priced, prompts)
        empty, cut, well = (caller.answer("simple", [call])[0] for _ in script)
    assert ("", False, "") == (empty.answer.text, empty.answer.truncated, empty.answer.failure)
    assert ("What is", True, "") == (cut.answer.text, cut.answer.truncated, cut.answer.failure)
    assert (10, 5, 20e-6) == (well.prompt_tokens, well.completion_tokens, well.dollars)
    assert well.latency_s > 0
    assert {5} == {body["top_logprobs"] for body in served.asked}


LABELS = ("Supported", "Refuted")


def claims(count: int) -> pl.DataFrame:
    rows = [
        {
            "claim_id": f"{n:016x}",
            "claim": f"claim {n}",
            "evidence": "one\ntwo",
            "passages": ["one", "two"],
            "label": LABELS[n % 2],
            "document_id": f"page {n // 2}",
        }
        for n in range(count)
    ]
    names = ("claim_id", "claim", "evidence", "passages", "label", "document_id")
    return pl.DataFrame(rows, {name: BENCHMARK_CLAIMS.schema[name] for name in names})


def traced(question: ClaimInput) -> Steps:
    """One call whose answer is the verdict; a trace of two cycles, one an abstention."""
    (spoken,) = yield from ask(ModelCall("verify", "first", {"claim": question.claim}))
    cycles = (Cycle("Who?", "Ann.", "Good."), Cycle("When?", "I don't know."))
    verdict = "Supported" if "Supported" in spoken.text else None
    notes = {"support_probability": 0.5, "rounds": len(question.passages)}
    status = "parsed" if verdict else "unparsed"
    return Verification(verdict, status, spoken.text, cycles, "Start.", spoken, notes)


def sure(call: ModelCall) -> ModelReply:
    """Supported with a probability by the claim's number; the last claims are unsure."""
    number = int(call.variables["claim"].split()[1])
    listed = (("Supported", -0.1 - number / 100), ("Refuted", -2.5 + number / 100))
    return ModelReply("Supported", tokens=(Token("Supported", listed[0][1], listed),))


def opened(caller: MethodCaller, folder: Path, **changes: object) -> OpenedSystem:
    """A system with these changes."""
    named = {"method": "s", "title": "S", "model": Model("m", "M", "open"), "protocol": "faithful"}
    of_system = {name: changes.pop(name, named[name]) for name in named}
    system = System(**of_system)  # type: ignore[arg-type]
    given: dict[str, Any] = {"procedure": traced, "prompt": "simple", **changes}
    return OpenedSystem(system, caller=caller, folder=folder, **given)


def predicted(
    folder: Path,
    rows: pl.DataFrame | int = 2,
    caller: MethodCaller | None = None,
    **changes: object,
) -> Predicted:
    """Predictions of some claims, or of the first ones, by a system with these changes."""
    frame = claims(rows) if isinstance(rows, int) else rows
    return predicted_by(
        opened(caller or ScriptedCaller(sure), folder, **changes), "hover", frame, 0.02
    )


CHANGES: tuple[dict[str, object], ...] = (
    {"settings": "[1]"},
    {"seed": 7},
    {"revision": 2},
    {"method": "other"},
    {"protocol": "single_call"},
)


def test_a_row_holds_what_was_said(tmp_path: Path):
    """Verdict, trace, notes; a confidence of the verdict that was read, or null, never 1."""
    made = predicted(tmp_path, 3)
    assert made.predictions.schema == PREDICTIONS.schema
    assert made.calls.schema == CALLS.schema
    assert 3 == made.asked
    row = made.predictions.row(1, named=True)
    expected = {
        "claim_id": f"{1:016x}",
        "verdict": "Supported",
        "parse_status": "parsed",
        "questions": 2,
        "abstentions": 1,
        "calls": 1,
        "confidence_bound": False,
        "confidence_calibrated": None,
        "support_score": 0.5,
    }
    assert expected == {name: row[name] for name in expected}
    assert 0.8 < row["confidence_raw"] < row["confidence_normalised"] < 1
    assert {"support_probability": 0.5, "rounds": 2} == json.loads(row["notes"])
    cycle = {"question": "When?", "answer": "I don't know.", "thought": None}
    assert cycle == row["trace"]["cycles"][1]
    assert [0, 0, 0] == made.calls["call"].to_list()
    assert {None} == set(made.calls["failure"])
    contrary = ModelReply("Supported", tokens=(Token("Refuted", -0.1, (("Refuted", -0.1),)),))
    for place, said in enumerate((ModelReply("Supported"), contrary)):
        caller = ScriptedCaller(lambda _, said=said: said)  # type: ignore[misc]
        found = predicted(tmp_path / str(place), 2, caller).predictions
        for name in ("confidence_raw", "confidence_normalised", "confidence_bound"):
            assert [None, None] == found[name].to_list()


def test_labels_are_never_seen_and_runs_are_no_ops(tmp_path: Path):
    """Nothing is asked again without labels; other words, settings or evidence are."""
    first, caller = predicted(tmp_path, 5), ScriptedCaller(sure)
    again = predicted(tmp_path, claims(5).drop("label"), caller)
    assert ([], 0) == (caller.batches, again.asked)
    assert first.predictions.equals(again.predictions)
    assert first.calls.equals(again.calls)
    for change in CHANGES[:4]:
        assert 5 == predicted(tmp_path, 5, **change).asked
    recut = pl.when(pl.col("claim") == "claim 1").then(pl.lit(["one two"])).otherwise("passages")
    made = predicted(tmp_path, claims(3).with_columns(passages=recut), caller)
    assert 1 == made.asked
    rounds = [json.loads(notes)["rounds"] for notes in made.predictions["notes"]]
    assert [2, 1, 2] == rounds
    caller = ScriptedCaller()
    changes = ({}, *CHANGES[:3], CHANGES[4])
    hashes = [opened(caller, tmp_path, **change).prompt_hash for change in changes]
    assert 5 == len(set(hashes))
    parts = [caller.prompt_hash("simple"), "faithful", 1, "{}", 42]
    read = [*parts, READING]  # a confidence that is read anew is another result
    assert hashes[0] == hashlib.sha256(json.dumps(read).encode()).hexdigest()


def test_a_baseline_without_decomposition_has_no_trace(tmp_path: Path):
    """Null, not empty; a verifier gives a score, no claims empty frames."""
    plain = {"procedure": two_steps, "decomposes": False}
    made = predicted(tmp_path, 2, ScriptedCaller(), **plain)
    assert [None, None] == made.predictions["trace"].to_list()
    assert [0, 1, 0, 1] == made.calls["call"].to_list()
    assert {3} == set(made.calls["prompt_tokens"])
    nothing = predicted(tmp_path, 0)
    assert (0, 0) == (nothing.predictions.height, nothing.calls.height)
    verifier = ScriptedVerifier({"claim 0": 0.5, "claim 1": 0.9})
    minicheck = {"procedure": scored, "prompt": "minicheck", "decomposes": False}
    found = predicted(tmp_path, 2, VerifierCaller(verifier), **minicheck).predictions
    assert [0.5, 0.9] == found["support_score"].to_list()
    assert ["Refuted", "Supported"] == found["verdict"].to_list()
    assert [2] == verifier.asked
    assert ["scripted-verifier"] == found["engine"].unique().to_list()


SYSTEM, KEY = "simple-rules-faithful", "predictions/fever/simple-rules-faithful"
CLAIMS = 300
"""More than are in progress at a time, so that some are stored before others are asked."""


def kept(data: Path) -> int:
    """Claims that lie in whole shards."""
    return sum(pq.read_metadata(path).num_rows for path in (data / SHARDS).rglob("*.parquet"))


def run_of(data: Path) -> tuple[int, int]:
    """Claims that the last run asked, and those that it found."""
    record = DataFolder(base_dir=str(data)).run(KEY)
    return record["engine_calls"], record["engine_hits"]


def test_a_killed_run_goes_on_and_ends_as_if_it_had_not_been(tmp_path: Path):
    """Nothing half done is left; what was stored is not asked again; a third run asks nothing."""
    data, whole = tmp_path / "killed", tmp_path / "whole"
    write_tests(data, CLAIMS)
    killed_midway(data / SHARDS, str(SUPPORT / "evaluation_graph.py"), SYSTEM, str(data))
    folder, stored = DataFolder(base_dir=str(data)), kept(data)
    assert 0 < stored < CLAIMS
    assert not folder.exists(KEY)
    assert materialize(data, SYSTEM, "fever").success
    assert (CLAIMS - stored, stored) == run_of(data)
    assert materialize(data, SYSTEM, "fever").success
    assert (0, CLAIMS) == run_of(data)
    write_tests(whole, CLAIMS)
    shutil.copytree(data / "engine_results", whole / "engine_results")  # the verifier's vectors
    assert materialize(whole, SYSTEM, "fever").success
    assert (CLAIMS, 0) == run_of(whole)
    uninterrupted = DataFolder(base_dir=str(whole)).read(KEY)
    assert folder.read(KEY).equals(uninterrupted)


if __name__ == "__main__":
    over(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
