"""Every baseline over HTTP: the calls that it makes are those that it says."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ClaimInput, Method, ModelCall, Procedure, Protocol
from evaluation_parts import shelf
from fakes import ScriptedVerifier
from fault_server import MODEL, FaultServer, replying
from fault_server import Answer as Served
from resources.chat.client import ChatClient
from resources.chat.settings import ChatSettings
from resources.evaluation.caller import Reply
from resources.evaluation.chat_caller import CallSettings, ChatCaller
from resources.evaluation.method_prompts import CONTINUATION, MethodPrompts
from resources.evaluation.prediction_store import Prediction
from resources.evaluation.rule_chat.chat import RuleChat
from resources.evaluation.runner import ClaimToVerify, FailureLimit, run_claims
from resources.policy_tiny.folder import CHECKPOINT
from tiny_server import TinyServer

PASSAGES = (
    "Marta Oller was born in Vienna in 1921.",
    "She directed the film Glass Harbour.",
    "The film won the Orion Prize in 1954.",
)
EVIDENCE = "\n".join(PASSAGES)
CASES = [
    ClaimToVerify(
        "a", ClaimInput("Marta Oller was born in 1921 and made a film.", EVIDENCE, PASSAGES)
    ),
    ClaimToVerify("b", ClaimInput("Glass Harbour won the Vega Prize in 1960.", EVIDENCE, PASSAGES)),
]
SELF_ASKED = (
    "Yes.\nFollow up: When was Marta Oller born?",
    "In 1921.",
    "Follow up: Did she make a film?",
    "Glass Harbour.",
    "So the final answer is: Supported",
)
PROMPTED = [method for method in METHODS if method.engine == "chat"]
RUNS: list[tuple[Method, Protocol]] = [
    (method, protocol) for method in PROMPTED for protocol in method.procedures
]


@dataclass
class Recorder:
    """Asks rules and keeps the reply of each prompt, as words alone."""

    rules: RuleChat = field(default_factory=lambda: RuleChat(ScriptedVerifier()))
    replies: dict[str, str] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    concurrent: bool = False
    claims_at_once: int = 1
    engine: str = "recorder"

    def prompt_hash(self, prompt: str) -> str:
        """As the rules'."""
        return self.rules.prompt_hash(prompt)

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """As the rules'; no two calls with the same words have different replies."""
        found = self.rules.answer(prompt, calls)
        for call, reply in zip(calls, found, strict=True):
            words = _words(prompt, call)
            assert reply.answer.text == self.replies.setdefault(words, reply.answer.text)
            self.order.append(words)
        return found


@cache
def _prompts() -> MethodPrompts:
    return MethodPrompts()


def _words(prompt: str, call: ModelCall) -> str:
    """What the user's message says of a call, transcript included."""
    text = _prompts().filled(prompt, call)
    if not call.continues:
        return text
    words = _prompts().file(CONTINUATION)
    return str(words.filled("prompt", prompt=text, transcript=call.continues))


class _Replying(FaultServer):
    """Replies by the words of the last message."""

    replies: dict[str, str]

    def _well(self, asked: dict[str, Any], answer: Served) -> bytes:
        message = {"content": self.replies[asked["messages"][-1]["content"]]}
        change = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
        return super()._well(asked, replace(answer, change=change))


def _run(
    served: FaultServer | TinyServer, name: str, procedure: Procedure, prompt: str, folder: Path
) -> list[Prediction]:
    settings = ChatSettings(model=name, endpoints=(served.url,), needs_logprobs=False)
    with ChatClient(settings, None) as chat:
        caller = ChatCaller(chat, CallSettings(top_logprobs=0), claims_at_once=1)
        limits = FailureLimit(most_failed=0.0)
        return run_claims(procedure, prompt, CASES, caller, shelf(folder), limits=limits)


@pytest.mark.parametrize(("method", "protocol"), RUNS, ids=lambda one: getattr(one, "name", one))
def test_the_call_graph_over_http_is_that_of_the_method(
    method: Method, protocol: Protocol, tmp_path: Path
):
    """The same prompts as in process, the same end, and as many calls as the method says."""
    procedure, recorder = method.procedures[protocol], Recorder()
    here = run_claims(procedure, method.prompt, CASES, recorder, shelf(tmp_path / "here"))
    served = _Replying()
    served.replies = recorder.replies
    with served:
        there = _run(served, MODEL, procedure, method.prompt, tmp_path / "there")
    assert sorted(recorder.order) == sorted(served.prompts)
    for one, other in zip(here, there, strict=True):
        assert replace(one.verification, spoken=None) == replace(other.verification, spoken=None)
        assert [(c.operation, c.template) for c in one.calls] == [
            (c.operation, c.template) for c in other.calls
        ]
        if protocol == "faithful":
            assert method.expected_calls(other.verification) == len(other.calls)
    assert len(served.asked) == sum(len(one.calls) for one in there)


class _Brief(TinyServer):
    """The tiny model, cut short: what it writes of prompts that it never saw has no end."""

    def reply(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """As the model's, 12 tokens at most."""
        return super().reply(path, body and body | {"max_tokens": 12})


def test_every_method_ends_on_whatever_a_model_says(tmp_path: Path):
    """A tiny model that cannot follow leads to honest ends: unparsed or cut, never a failure.

    The number of requests is what each method's formula says of such an end.
    """
    with _Brief(CHECKPOINT) as served:
        for method in PROMPTED:
            procedure = method.procedures["faithful"]
            before = len(served.asked)
            found = _run(served, served.name, procedure, method.prompt, tmp_path / method.name)
            assert {"unparsed", "truncated"} >= {one.verification.status for one in found}
            calls = sum(len(one.calls) for one in found)
            assert calls == sum(method.expected_calls(one.verification) for one in found)
            # Equal calls of one claim are one request.
            assert 0 < len(served.asked) - before <= calls


def test_a_transcript_is_the_assistants_turn_where_the_endpoint_goes_on(tmp_path: Path):
    """Self-Ask's transcript stands last, unfinished, and only ever grows."""
    (self_ask,) = (method for method in METHODS if method.name == "self_ask")
    procedure, case = self_ask.procedures["faithful"], CASES[:1]
    with FaultServer([replying(text) for text in SELF_ASKED]) as served:
        settings = ChatSettings(model=MODEL, endpoints=(served.url,), needs_logprobs=False)
        with ChatClient(settings, None) as chat:
            caller = ChatCaller(chat, CallSettings(continues=True), claims_at_once=1)
            (found,) = run_claims(procedure, "self_ask", case, caller, shelf(tmp_path))
            assert {f"{chat.engine} continued", chat.engine} == {
                caller.engine,
                ChatCaller(chat).engine,
            }
    assert ("Supported", 2) == (found.verification.verdict, len(found.verification.cycles))
    went_on = [body for body in served.asked if body["messages"][-1]["role"] == "assistant"]
    assert 3 == len(went_on)
    for body in went_on:
        assert (True, False) == (body["continue_final_message"], body["add_generation_prompt"])
        assert "user" == body["messages"][0]["role"]
    transcripts = [body["messages"][-1]["content"] for body in went_on]
    for earlier, later in pairwise(transcripts):
        assert later.startswith(earlier)
        assert len(later) > len(earlier)
    others = [body for body in served.asked if body not in went_on]
    assert not any("continue_final_message" in json.dumps(body) for body in others)


def test_self_ask_knows_how_sure_its_final_line_was(tmp_path: Path):
    """A call that goes on may end the transcript, so it asks for alternatives; answers do not."""
    (self_ask,) = (method for method in METHODS if method.name == "self_ask")
    words = [("So the final answer is:", []), (" Supported", [(" Supported", 0.8), (" Ref", 0.1)])]
    content = [
        {
            "token": text,
            "logprob": math.log(0.8),
            "bytes": None,
            "top_logprobs": [
                {"token": one, "logprob": math.log(chance), "bytes": None} for one, chance in top
            ],
        }
        for text, top in words
    ]
    usual = replying(SELF_ASKED[-1])
    (choice,) = usual.change["choices"]
    last = replace(usual, change={"choices": [choice | {"logprobs": {"content": content}}]})
    with FaultServer([replying(text) for text in SELF_ASKED[:-1]], last) as served:
        settings = ChatSettings(model=MODEL, endpoints=(served.url,), needs_logprobs=False)
        with ChatClient(settings, None) as chat:
            caller = ChatCaller(chat, CallSettings(continues=True), claims_at_once=1)
            procedure = self_ask.procedures["faithful"]
            (found,) = run_claims(procedure, "self_ask", CASES[:1], caller, shelf(tmp_path))
    assert ["transcript", "answer"] * 2 + ["transcript"] == [one.template for one in found.calls]
    assert [5, None] * 2 + [5] == [body.get("top_logprobs") for body in served.asked]
    assert found.confidence is not None
    assert found.confidence.normalised == pytest.approx(0.8 / 0.9)
