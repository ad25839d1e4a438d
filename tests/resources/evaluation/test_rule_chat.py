"""Every method over rules and over HTTP: each operation's reply, the calls, and the end."""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    Operation,
    Procedure,
    Protocol,
)
from decomposerl.baselines.program import parse_program
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from decomposerl.replies.answers import read_truth
from decomposerl.replies.lists import read_list
from decomposerl.text.numbers import lists_more
from evaluation_parts import run_all, shelf
from fakes import ScriptedVerifier
from fault_server import MODEL, FaultServer, replying
from fault_server import Answer as Served
from resources.chat.client import ChatClient
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import (
    CONTINUATION,
    ChatCaller,
    MethodPrompts,
    Prediction,
    Reply,
)
from resources.policy_tiny.folder import CHECKPOINT
from resources.verifier.lexical import LexicalVerifier
from tables import cases_beside
from tiny_server import TinyServer

PASSAGES = (
    "Marta Oller was born in Vienna in 1921.",
    "She directed the film Glass Harbour.",
    "The film won the Orion Prize in 1954.",
)
EVIDENCE = " ".join(PASSAGES)
FILE = Path(__file__).with_name("rule_chat_prompt.md").read_text("utf-8")
CASES_OF_RULES = json.loads(Path(__file__).with_name("rule_chat_cases.json").read_text("utf-8"))
CLAIM = "Marta Oller directed Glass Harbour and was born in 1921."
GRAZ = "Marta Oller was born in Graz."


@pytest.fixture
def chat(tmp_path: Path) -> RuleChat:
    (tmp_path / "simple.md").write_text(FILE, "utf-8")
    true = (CLAIM, "Marta Oller directed Glass Harbour.", "Marta Oller born in 1921.")
    weights = {**dict.fromkeys(true, 0.9), GRAZ: 0.2}
    return RuleChat(ScriptedVerifier(weights), MethodPrompts(str(tmp_path)))


def said(chat: RuleChat, operation: Operation, template: str, **variables: str) -> str:
    (reply,) = chat.answer("simple", [ModelCall(operation, template, variables)])
    assert not reply.answer.failure
    assert not reply.answer.tokens
    return reply.answer.text


def test_a_claim_is_cut_into_what_the_template_asks_for(chat: RuleChat):
    """Questions or statements, one a line; or one by one, planned ones first, until NONE."""
    questions = read_list(said(chat, "decompose", "questions", claim=CLAIM))
    parts = read_list(said(chat, "decompose", "parts", claim=CLAIM))
    assert questions
    assert parts
    assert {"?"} == {one[-1] for one in questions}
    assert ["Marta Oller directed Glass Harbour.", "Marta Oller was born in 1921."] == list(parts)
    first = said(chat, "next_question", "planned", claim=CLAIM, qa="none")
    qa = f"Q1: {first}\nA1: Yes."
    second = said(chat, "next_question", "planned", claim=CLAIM, qa=qa)
    assert first != second
    qa += f"\nQ2: {second}\nA2: unknown"
    assert "NONE" == said(chat, "next_question", "planned", claim=CLAIM, qa=qa)


@pytest.mark.parametrize(
    "case", cases_beside(__file__, "rule_chat_replies"), ids=lambda case: case["reply"][:30]
)
def test_replies_come_from_the_evidence(chat: RuleChat, case: dict[str, Any]):
    """In the words that the template offers; unknown where the evidence says nothing."""
    given = {name: text.format(evidence=EVIDENCE) for name, text in case["variables"].items()}
    assert case["reply"] == said(chat, case["operation"], case["template"], **given)


def test_a_conjunction_is_read():
    """All predicates true make the whole true."""
    assert "true" == read_truth("1: True\n[Supported]")


def test_a_program_parses_and_checks_every_part(chat: RuleChat):
    """A program of the language; or pairs in lines and the verdict last, but of a step."""
    claim = 'Marta Oller directed "Glass \\ Harbour" and was born in 1921.'
    program = parse_program(said(chat, "program", "parts", claim=claim))
    assert ["Verify"] * 2 == [step.function for step in program.steps]
    whole = said(chat, "procedure", "single_call", claim=CLAIM, evidence=EVIDENCE).splitlines()
    assert "Verdict: Supported" == whole[-1]
    assert ["Q1", "A1", "Q2", "A2"] == [line[:2] for line in whole[:-1]]
    step = said(chat, "procedure", "about", claim=CLAIM, evidence=EVIDENCE)
    assert "Verdict" not in step


def test_a_batch_is_weighed_at_once(chat: RuleChat):
    """Replies do not depend on what else is asked, and the verifier is asked in few batches."""
    known = {"evidence": EVIDENCE}
    calls = [
        ModelCall("verify", "check", {"statement": CLAIM, **known}),
        ModelCall("answer", "answer", {"question": "Was Oller born in Vienna?", **known}),
        ModelCall("procedure", "single_call", {"claim": CLAIM, **known}),
        ModelCall("decompose", "parts", {"claim": CLAIM}),
    ] * 5
    together = [reply.answer.text for reply in chat.answer("simple", calls)]
    alone = [chat.answer("simple", [call])[0].answer.text for call in calls]
    assert alone == together
    verifier = ScriptedVerifier()
    RuleChat(verifier, chat._prompts).answer("simple", calls)
    assert len(verifier.asked) <= 3
    # A template without a place for a variable is an error here too.
    with pytest.raises(ConfigError, match="statement"):
        chat.answer("simple", [ModelCall("decompose", "parts", {"claim": "x", "statement": "y"})])


SWIMMER = (
    "Ada Brown was a Danish swimmer from Odense. She won the national championship in 1937. Ada "
    "Brown won the Nordic Cup from 1930 to 1934. She retired in 1940."
)
PROMPTED = [method for method in METHODS if method.engine == "chat"]
FAITHFUL = {method.name: method.procedures["faithful"] for method in PROMPTED}
COUNTS_HALVES = "claimdecomp"
"""By its publication it takes a claim for supported of which half the parts are."""
RULES = [
    pytest.param(procedure, method.prompt, id=f"{method.name}-{protocol}")
    for method in METHODS
    for protocol, procedure in method.procedures.items()
    if (method.name, protocol) != (COUNTS_HALVES, "faithful")
]


@pytest.mark.parametrize(("procedure", "prompt"), RULES)
def test_one_year_of_two_supports_no_claim(procedure: Procedure, prompt: str, tmp_path: Path):
    """Whichever method asks the rules, in any wording of the list."""
    asked = {
        claim: ClaimInput(claim, SWIMMER, tuple(SWIMMER.split(". ")))
        for claim in CASES_OF_RULES["partly_stated"]
    }
    found = run_all(procedure, prompt, asked, RuleChat(LexicalVerifier()), shelf(tmp_path))
    assert [] == [one.claim_id for one in found if one.verification.verdict == "Supported"]


@pytest.mark.parametrize(("statement", "text", "more"), CASES_OF_RULES["lists"])
def test_what_counts_as_a_list(statement: str, text: str, *, more: bool):
    """Years with years, numbers with numbers; a range holds what lies between its ends."""
    assert more == lists_more(statement, text)


def test_a_denial_lists_nothing(tmp_path: Path):
    """A claim that denies the other year is left to the verifier."""
    claim = "Ada Brown won the national championship in 1937 and not in 1936."
    simple = FAITHFUL["simple"]
    asked, chat = ClaimInput(claim, SWIMMER), RuleChat(ScriptedVerifier({claim: 0.9}))
    (plain,) = run_all(simple, "simple", {"a": asked}, chat, shelf(tmp_path))
    assert "Supported" == plain.verification.verdict


CLAIMS = (
    "Marta Oller was born in 1921 and made a film.",
    "Glass Harbour won the Vega Prize in 1960.",
    "The moon is made of cheese.",
    "Marta Oller was not born in Vienna.",
)
CASES = {claim: ClaimInput(claim, "\n".join(PASSAGES), PASSAGES) for claim in CLAIMS}
SELF_ASKED = (
    "Yes.\nFollow up: When was Marta Oller born?",
    "In 1921.",
    "Follow up: Did she make a film?",
    "Glass Harbour.",
    "So the final answer is: Supported",
)
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


@contextmanager
def asking(served: FaultServer | TinyServer, name: str = MODEL, **how: Any) -> Iterator[ChatCaller]:  # noqa: ANN401 - of the calls
    endpoint = Endpoint(model=name, base_url=(served.url,))
    with ChatClient(endpoint, None, needs_logprobs=False) as chat:
        yield ChatCaller(chat, Endpoint(concurrency=1), **how)


def _run(
    caller: ChatCaller, procedure: Procedure, prompt: str, folder: Path, cases: int = len(CASES)
) -> list[Prediction]:
    asked = dict(islice(CASES.items(), cases))
    return run_all(procedure, prompt, asked, caller, shelf(folder), most_failed=0)


@pytest.mark.parametrize(("method", "protocol"), RUNS, ids=lambda one: getattr(one, "name", one))
def test_the_call_graph_over_http_is_that_of_the_method(
    method: Method, protocol: Protocol, tmp_path: Path
):
    """Prompts and end as in process, calls as the method says, and rules give every verdict."""
    procedure, recorder = method.procedures[protocol], Recorder()
    here = run_all(procedure, method.prompt, CASES, recorder, shelf(tmp_path / "here"))
    assert ["parsed"] * len(CASES) == [one.verification.status for one in here]
    served = _Replying()
    served.replies = recorder.replies
    with served, asking(served, top_logprobs=0) as caller:
        there = _run(caller, procedure, method.prompt, tmp_path / "there")
    assert sorted(recorder.order) == sorted(served.prompts)
    for one, other in zip(here, there, strict=True):
        assert replace(one.verification, spoken=None) == replace(other.verification, spoken=None)
        assert [(c["operation"], c["template"]) for c in one.calls] == [
            (c["operation"], c["template"]) for c in other.calls
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
    """Unparsed or cut, never a failure, after as many requests as the method's formula says."""
    with _Brief(CHECKPOINT) as served, asking(served, served.name, top_logprobs=0) as caller:
        for method in PROMPTED:
            procedure = method.procedures["faithful"]
            before = len(served.asked)
            found = _run(caller, procedure, method.prompt, tmp_path / method.name, cases=1)
            assert {"unparsed", "truncated"} >= {one.verification.status for one in found}
            calls = sum(len(one.calls) for one in found)
            assert calls == sum(method.expected_calls(one.verification) for one in found)
            # Equal calls of one claim are one request.
            assert 0 < len(served.asked) - before <= calls


def test_a_transcript_is_the_assistants_turn_where_the_endpoint_goes_on(tmp_path: Path):
    """It stands last and only ever grows; how sure its final line is, is known by alternatives."""

    def token(text: str, chance: float) -> dict[str, object]:
        return {"token": text, "logprob": math.log(chance), "bytes": None}

    words = [("So the final answer is:", []), (" Supported", [(" Supported", 0.8), (" Ref", 0.1)])]
    content = [
        token(text, 0.8) | {"top_logprobs": [token(*one) for one in top]} for text, top in words
    ]
    usual = replying(SELF_ASKED[-1])
    (choice,) = usual.change["choices"]
    last = replace(usual, change={"choices": [choice | {"logprobs": {"content": content}}]})
    served = FaultServer([replying(text) for text in SELF_ASKED[:-1]], last)
    with served, asking(served, continues=True) as caller, asking(served) as plain:
        (found,) = _run(caller, FAITHFUL["self_ask"], "self_ask", tmp_path, cases=1)
        assert f"{plain.engine} continued" == caller.engine
    assert ("Supported", 2) == (found.verification.verdict, len(found.verification.cycles))
    assert ["transcript", "answer"] * 2 + ["transcript"] == [one["template"] for one in found.calls]
    assert [5, None] * 2 + [5] == [body.get("top_logprobs") for body in served.asked]
    assert found.confidence.normalised == pytest.approx(0.8 / 0.9)
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
