"""The ledger's row of prompts: the requests as they go over HTTP, and where the replies lead.

Each method is driven by fixed replies, by the rules, and by replies that cannot be read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, get_args

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import (
    CallFailedError,
    ClaimInput,
    Method,
    ModelCall,
    ModelReply,
    Steps,
    Verification,
)
from decomposerl.chat import Sampling
from decomposerl.endpoint import Endpoint
from decomposerl.judge.call import JudgeCall
from decomposerl.prompts.judge import JudgeSettings
from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.template import PromptSettings, VerdictRule
from fault_server import MODEL, FaultServer, replying
from ledger import digest
from ledger_inputs import INPUTS
from resources.chat.client import ChatClient
from resources.decomposer.chat_engine import ChatDecomposer
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import ChatCaller, MethodPrompts
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.store.prompts import load_prompt
from resources.verifier.chunks import ClaimSplit
from resources.verifier.hosted import HostedVerifier
from resources.verifier.lexical import LexicalVerifier

CLAIMS = {
    name: ClaimInput(given["claim"], "\n".join(given["passages"]), tuple(given["passages"]))
    for name, given in INPUTS["prompts"]["claims"].items()
}
Reply = Callable[[ModelCall], str]
_WORDINGS = {
    "default": (PromptSettings(), {}),
    "continued, three-way": (
        PromptSettings("three_way", demonstrations=1),
        {"seed": 7, "top_logprobs": 0, "continues": True},
    ),
}


def prompt_entries(_: Path) -> Mapping[str, Any]:
    """A digest of the requests of each method, judge task, silver question, verifier, policy."""
    return {"methods": method_requests(), "others": other_requests(), "policy": policy_prompts()}


def method_requests() -> dict[str, Any]:
    """By method, protocol, claim and kind of reply: templates asked, request bodies, the end."""
    entries = {}
    methods = [method for method in ENTRY_METHODS if method.engine == "chat"]
    with FaultServer() as server, _client(server) as chat:
        for wording, (settings, calls) in _WORDINGS.items():
            prompts = MethodPrompts(settings=settings)
            caller = ChatCaller(chat, Endpoint(), prompts, **calls)
            for method, (name, given) in product(methods, CLAIMS.items()):
                for protocol, procedure in method.procedures.items():
                    for kind, reply in _repliers(method, prompts, wording):
                        key = f"{method.name}/{protocol} {wording} {name} {kind}"
                        answer = partial(caller.answer, method.prompt)
                        entries[key] = _driven(procedure(given), reply, answer, server)
    return entries


def _repliers(method: Method, prompts: MethodPrompts, wording: str) -> Iterator[tuple[str, Reply]]:
    """What answers the calls, by a name; the second wording has the written replies alone."""
    yield "written", _written(method.name)
    if wording == "default":
        rules = RuleChat(LexicalVerifier(), prompts)
        yield "rules", lambda call: rules.answer(method.prompt, [call])[0].answer.text
        yield "unreadable", lambda _: "(..)"


def _written(method: str) -> Reply:
    """The prepared replies, the last one of a template again and again."""
    times, prepared = Counter[str](), INPUTS["prompts"]["replies"]

    def reply(call: ModelCall) -> str:
        texts = prepared.get(f"{method}/{call.template}", prepared[call.template])
        times[call.template] += 1
        return texts[min(times[call.template], len(texts)) - 1]

    return reply


def _driven(
    steps: Steps, reply: Reply, answer: Callable[[Sequence[ModelCall]], object], server: FaultServer
) -> dict[str, Any]:
    """Templates of the calls in order, a digest of their requests, and how the claim ended."""
    templates, bodies = list[str](), list[Any]()
    ended: dict[str, Any]
    try:
        calls = next(steps)
        while True:
            server.asked.clear()
            answer(calls)
            bodies.append(sorted(map(digest, server.asked)))
            templates += [f"{call.template}{'!' * bool(call.form)}" for call in calls]
            calls = steps.send(tuple(ModelReply(reply(call)) for call in calls))
    except StopIteration as end:
        ended = _shown(end.value)
    except CallFailedError as error:
        ended = {"ended": str(error)}
    return {"calls": " ".join(templates), "requests": digest(bodies)} | ended


def _shown(ended: Verification) -> dict[str, Any]:
    """How a claim ended: verdict, status, notes, and digests of its cycles and its text."""
    text = digest([list(map(astuple, ended.cycles)), ended.opening, ended.reply])
    notes = "; ".join(f"{name}={value}" for name, value in sorted(ended.notes.items()))
    shown = f"{ended.status} {ended.verdict} {len(ended.cycles)} {text}"
    return {"ended": shown, "notes": notes}


def other_requests() -> dict[str, Any]:
    """The bodies of silver, judge and MiniCheck requests, with their settings, by digest."""
    entries: dict[str, Any] = {}
    pairs = [(given.evidence, given.claim) for given in CLAIMS.values()]
    for structured in (False, True):
        with FaultServer(usual=replying("(..)")) as server, _client(server) as chat:
            silver = load_prompt("silver")
            engine = ChatDecomposer(
                chat, silver, Sampling(), structured=structured, thinking=None, most_unanswered=1
            )
            engine.decompose(pairs)
            entries[f"silver structured={structured}"] = _bodies(server)
            judge = ChatJudge(chat, load_judge_prompts(), JudgeSettings(structured=structured))
            for call in _judge_calls():
                judge.judge([call])
                entries[f"judge {call.task} structured={structured}"] = _bodies(server)
            entries[f"engines structured={structured}"] = [engine.engine, judge.engine]
    likely = [{"token": word, "logprob": chance} for word, chance in (("Yes", -0.25), ("No", -1.5))]
    yes = replying("Yes", "length")
    yes.change["choices"][0]["logprobs"] = {"content": [likely[0] | {"top_logprobs": likely}]}
    with FaultServer(usual=yes) as server, _client(server, logprobs=True) as chat:
        for split in get_args(ClaimSplit):
            verifier = HostedVerifier(chat, claim_split=split, budget=120)
            verifier.answers(pairs)
            entries[f"minicheck claim={split}"] = _bodies(server)
    return entries


def _judge_calls() -> Sequence[JudgeCall]:
    """A call of each task."""
    given, question = CLAIMS["text"], "Who built the mill?"
    return (
        JudgeCall("answerability", document=given.evidence, question=question),
        JudgeCall("atomicity", claim=given.claim, question=question),
        JudgeCall("correctness", document=given.evidence, question=question, answers=("Ada Holm",)),
        JudgeCall("coverage", claim=given.claim, answers=("Ada Holm <b>", "unknown")),
    )


def _bodies(server: FaultServer) -> dict[str, Any]:
    """Digests of the requests so far, repetitions included, and their fields beside the text."""
    bodies = sorted(server.asked, key=lambda body: (body["seed"], digest(body)))
    server.asked.clear()
    fields = {name: value for name, value in bodies[0].items() if name != "messages"}
    if "response_format" in fields:
        fields["response_format"] = digest(fields["response_format"])
    return {"requests": [digest(body) for body in bodies], "fields": fields}


def _client(server: FaultServer, *, logprobs: bool = False) -> ChatClient:
    endpoint = Endpoint(model=MODEL, base_url=(server.url,))
    return ChatClient(endpoint, None, needs_logprobs=logprobs)


def policy_prompts() -> dict[str, str]:
    """What the policy is asked, by verdict rule and claim."""
    entries = {}
    for rule, (name, given) in product(get_args(VerdictRule), CLAIMS.items()):
        prompt = load_prompt("policy", "", PromptSettings(rule))
        messages = policy_messages(prompt, given.evidence, given.claim)
        entries[f"{rule} {name}"] = digest(list(map(astuple, messages)))
    return entries
