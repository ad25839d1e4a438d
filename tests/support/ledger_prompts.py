"""The ledger's row of prompts: the requests as they go over HTTP, and where the replies lead.

Each method is driven by fixed replies, by the rules, and by replies that cannot be read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import (
    CallFailedError,
    ClaimInput,
    Method,
    ModelCall,
    ModelReply,
    Verification,
)
from decomposerl.chat import Sampling
from decomposerl.judge.call import JudgeCall
from decomposerl.prompts.judge import JudgeSettings
from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.template import PromptSettings
from fault_server import MODEL, Answer, FaultServer, replying
from ledger import digest
from resources.chat.client import ChatClient
from resources.chat.settings import ChatSettings
from resources.decomposer.chat_engine import ChatDecomposer
from resources.evaluation.chat_caller import CallSettings, ChatCaller
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.rule_chat.chat import RuleChat
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.store.prompts import load_prompt
from resources.verifier.lexical import LexicalVerifier
from resources.verifier.minicheck_hosted import HostedMiniCheck
from resources.verifier.questions import ClaimSplit

TEXT = (
    "Ada Holm was born in Torbeck in 1802.",
    "She built the mill of Torbeck in 1840; {claim} and <answer>1</answer> stand on its wall.",
    "The mill burnt down in 1871 & was not built again.",
)
TABLE = ("Mills of the coast | Built | Height", "Torbeck | 1840 | 21 m", "Odense | 1855 | 18.5 m")
CLAIMS = {
    "text": ClaimInput(
        "Ada Holm of Torbeck built a mill that burnt in 1871.", "\n".join(TEXT), TEXT
    ),
    "table": ClaimInput("The mill of Odense is higher than 20 m.", "\n".join(TABLE), TABLE),
}
_QUESTION = "Who built the mill?"
_PROGRAM = (
    f'answer_1 = Question("{_QUESTION}")\nfact_1 = Verify("{{answer_1}} built the mill.")\n'
    "label = Predict(fact_1)"
)
_PREDICATE = "Built(Ada Holm, mill) | Ada Holm built the mill. | Who built the mill?"
SCRIPT: Mapping[str, tuple[str, ...]] = {
    "answer": ("Ada Holm", "unknown", "In 1840."),
    "lookup": ("Ada Holm", "21 m"),
    "compare": ("18.5 m is less than 20 m",),
    "check": ("True", "Unknown"),
    "summary": ("Ada Holm built the mill.",),
    "single_call": (f"Q1: {_QUESTION}\nA1: Ada Holm.\nVerdict: Supported",),
    "verdict": ("Verdict: Refuted",),
    "transcript": (f"Follow up: {_QUESTION}", "Follow up: When did it burn?", "NONE"),
    "next_step": (f"[lookup] {_QUESTION}", "[check] Is 21 m more than 20 m?", "NONE"),
    "split": ("1. Ada Holm built the mill.\n2. The mill burnt in 1871.",),
    "work_through": (f"Q1: {_QUESTION}\nSure: no\nA1: Ada Holm.",),
    "predicates": (f"1. {_PREDICATE}\n2. Burnt(mill, 1871) | The mill burnt in 1871. | When?",),
    "program": (_PROGRAM,),
    "questions": ("1. Did Ada Holm build the mill? | yes\n2. Did it burn? | no", "NONE"),
    "select": ("1, 3", "NONE"),
    "first_question": (_QUESTION,),
    "sufficient": ("No", "Yes"),
    "next_question": ("When did it burn?", "NONE"),
    "statement": ("Ada Holm built the mill.",),
    "folk/verdict": ("1: True - it says so\n2: False - no year\n[Refuted]",),
}
Reply = Callable[[ModelCall], str]
_CHANCES = [{"token": word, "logprob": chance} for word, chance in (("Yes", -0.25), ("No", -1.5))]
_TOKEN = _CHANCES[0] | {"top_logprobs": _CHANCES}
_YES = Answer(
    change={
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "message": {"content": "Yes"},
                "logprobs": {"content": [_TOKEN]},
            }
        ]
    }
)
_SPLITS: tuple[ClaimSplit, ...] = ("whole", "min_over_sentences")


def prompt_entries(_: Path) -> Mapping[str, Any]:
    """A digest of the requests of each method, judge task, silver question, verifier, policy."""
    return {"methods": method_requests(), "others": other_requests(), "policy": policy_prompts()}


def method_requests() -> dict[str, Any]:
    """By method, protocol, claim and kind of reply: templates asked, request bodies, the end."""
    entries = {}
    with FaultServer() as server, _client(server) as chat:
        for wording, settings in _WORDINGS.items():
            prompts = MethodPrompts(settings=settings)
            caller = ChatCaller(chat, _CALLS[wording], prompts=prompts)
            for method, protocol in _chat_methods():
                for name, given in CLAIMS.items():
                    for kind, reply in _repliers(method, prompts, wording):
                        asked, ended = _driven(method, protocol, given, reply, caller, server)
                        key = f"{method.name}/{protocol} {wording} {name} {kind}"
                        entries[key] = asked | _shown(ended)
    return entries


_WORDINGS = {
    "default": PromptSettings(),
    "continued, three-way": PromptSettings("three_way", demonstrations=1),
}
_CALLS = {
    "default": CallSettings(),
    "continued, three-way": CallSettings(seed=7, top_logprobs=0, continues=True),
}


def _chat_methods() -> Iterator[tuple[Method, Any]]:
    for method in ENTRY_METHODS:
        if method.engine == "chat":
            yield from ((method, protocol) for protocol in method.procedures)


def _repliers(method: Method, prompts: MethodPrompts, wording: str) -> Iterator[tuple[str, Reply]]:
    """What answers the calls, by a name; the second wording has the written replies alone."""
    yield "written", _written(method.name)
    if wording == "default":
        rules = RuleChat(LexicalVerifier(), prompts)
        yield "rules", lambda call: rules.answer(method.prompt, [call])[0].answer.text
        yield "unreadable", lambda _: "(..)"


def _written(method: str) -> Reply:
    """The replies of the script, the last one of a template again and again."""
    times: dict[str, int] = {}

    def reply(call: ModelCall) -> str:
        name = call.template
        texts = SCRIPT.get(f"{method}/{name}", SCRIPT[name])
        times[name] = times.get(name, -1) + 1
        return texts[min(times[name], len(texts) - 1)]

    return reply


def _driven(
    method: Method,
    protocol: Any,  # noqa: ANN401 - a protocol's name
    given: ClaimInput,
    reply: Reply,
    caller: ChatCaller,
    server: FaultServer,
) -> tuple[dict[str, Any], Verification | str]:
    """Templates of the calls in order, a digest of their requests, and how the claim ended."""
    steps, templates, bodies = method.procedures[protocol](given), list[str](), list[Any]()
    try:
        calls = next(steps)
        while True:
            server.asked.clear()
            caller.answer(method.prompt, calls)
            bodies.append(sorted(map(digest, server.asked)))
            templates += [f"{call.template}{'!' * bool(call.form)}" for call in calls]
            calls = steps.send(tuple(ModelReply(reply(call)) for call in calls))
    except StopIteration as end:
        return {"calls": " ".join(templates), "requests": digest(bodies)}, end.value
    except CallFailedError as error:
        return {"calls": " ".join(templates), "requests": digest(bodies)}, str(error)


def _shown(ended: Verification | str) -> dict[str, Any]:
    """How a claim ended: verdict, status, notes, and digests of its cycles and its text."""
    if isinstance(ended, str):
        return {"ended": ended}
    cycles = [[one.question, one.answer, one.thought] for one in ended.cycles]
    end = [ended.status, ended.verdict, len(cycles), digest([cycles, ended.opening, ended.reply])]
    notes = "; ".join(f"{name}={value}" for name, value in sorted(ended.notes.items()))
    return {"ended": " ".join(map(str, end)), "notes": notes}


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
            settings = JudgeSettings(structured=structured)
            judge = ChatJudge(chat, load_judge_prompts(), settings)
            for call in _judge_calls():
                judge.judge([call])
                entries[f"judge {call.task} structured={structured}"] = _bodies(server)
            entries[f"engines structured={structured}"] = [engine.engine, judge.engine]
    with FaultServer(usual=_YES) as server, _client(server, logprobs=True) as chat:
        for split in _SPLITS:
            verifier = HostedMiniCheck(chat, claim_split=split, budget=120)
            verifier.support_scores(pairs)
            entries[f"minicheck claim={split}"] = _bodies(server)
    return entries


def _judge_calls() -> Sequence[JudgeCall]:
    evidence, claim = CLAIMS["text"].evidence, CLAIMS["text"].claim
    return (
        JudgeCall("answerability", document=evidence, question=_QUESTION),
        JudgeCall("atomicity", claim=claim, question=_QUESTION),
        JudgeCall("correctness", document=evidence, question=_QUESTION, answers=("Ada Holm",)),
        JudgeCall("coverage", claim=claim, answers=("Ada Holm <b>", "unknown")),
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
    settings = ChatSettings(model=MODEL, endpoints=(server.url,), needs_logprobs=logprobs)
    return ChatClient(settings, None)


def policy_prompts() -> dict[str, str]:
    """What the policy is asked, by verdict rule and claim."""
    return {
        f"{rule} {name}": digest(
            [
                [turn.role, turn.content]
                for turn in policy_messages(
                    load_prompt("policy", "", PromptSettings(rule)), given.evidence, given.claim
                )
            ]
        )
        for rule in ("evidence", "paper", "three_way")
        for name, given in CLAIMS.items()
    }
