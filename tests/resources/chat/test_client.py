"""The client as its callers see it: order, one call a question, parsing, faults, what is sent.

The second request, where a reply could not be read: another seed, and a line with the form.
"""

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

import fault_server as server
from chat_parts import PLAIN, TEMPLATE, request, settings
from chat_served import client, reasons, served_chat, stored_texts, texts
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Message, Sampling, Token
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.progress import Bar, watched
from decomposerl.prompts.judge import JudgeSettings
from fault_server import REASONING, TRUNCATED, Answer, FaultServer, replying, well_text
from resources.chat.client import ChatClient
from resources.chat.wire import effort_of, read_reply
from resources.decomposer.chat_engine import ChatDecomposer
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.store.prompts import load_prompt
from strategies import law


def needs_good(reply: ChatReply[object]) -> int:
    """The reply's length, of a good one."""
    if "good" not in reply.text:
        raise ValueError(f"no good in {reply.text!r}")
    return len(reply.text)


@pytest.mark.parametrize("stored", [True, False], ids=["cache", "no cache"])
def test_outcomes_are_in_order_and_equal_requests_share_one_call(tmp_path: Path, *, stored: bool):
    """For any batch: one outcome a request, in order, one call a distinct one, all counted."""
    known: set[int] = set()
    with served_chat(data=tmp_path if stored else None) as (served, chat):

        @law(40)
        @given(st.lists(st.integers(0, 30), max_size=12))
        def holds(numbers: list[int]) -> None:
            served.asked.clear()
            before = dict(chat.counts)
            outcomes = chat.complete([request(number) for number in numbers])
            fresh = set(numbers) - (known if stored else set())
            assert [well_text(f"q {n}") for n in numbers] == texts(outcomes)
            assert sorted(f"q {n}" for n in fresh) == sorted(served.prompts)
            assert len(numbers) == chat.counts["asked"] - before["asked"]
            assert len(fresh) == chat.counts["calls"] - before["calls"]
            assert len(set(numbers)) - len(fresh) == chat.counts["hits"] - before["hits"]
            assert len(numbers) - len(set(numbers)) == chat.counts["shared"] - before["shared"]
            known.update(numbers)

        holds()


def test_a_reply_is_parsed_exactly_once(tmp_path: Path):
    """However often its request is in the batch, fresh or stored."""
    read: list[str] = []

    def parse(reply: ChatReply[object]) -> int:
        read.append(reply.text)
        return len(read)

    many = [request(1), request(2), request(1)]
    with FaultServer() as served:
        for _ in range(2):
            read.clear()
            with client(served.url, tmp_path) as chat:
                first, second, third = (one.value for one in chat.complete(many, parse))
            assert {1, 2} == {first, second}
            assert first == third
            assert sorted(read) == [well_text("q 1"), well_text("q 2")]
        assert 2 == len(served.asked)


def test_stored_replies_are_recalled_without_a_call(tmp_path: Path):
    """What is not stored is None; only ``complete`` sends it."""
    with served_chat([replying("bad")], data=tmp_path) as (served, chat):
        assert [None, None] == chat.recall([request(1), request(2)])
        assert {} == chat.details()
        chat.complete([request(1)])
        assert ["bad", "", "bad"] == texts(chat.recall([request(1), request(2), request(1)]))
        assert 1 == len(served.asked)


def test_access_is_looked_for_with_the_first_request_that_is_sent(tmp_path: Path):
    """A stored reply needs no endpoint, no key and no server; making a client opens nothing."""
    tries: list[int] = []

    def lost() -> tuple[tuple[str, ...], SecretStr]:
        tries.append(1)
        raise ConfigError("no key")

    with FaultServer() as served:

        def found() -> tuple[tuple[str, ...], SecretStr]:
            tries.append(2)
            return (served.url,), SecretStr("sk-long-enough")

        data = tmp_path / "data"
        with ChatClient(settings(), data, lost) as chat:
            assert [] == chat.complete([])
            assert not data.exists()
            with pytest.raises(ConfigError, match="no key"):
                chat.complete([request(1)])
        with ChatClient(settings(), data, found) as chat:
            for number in (1, 1, 2):
                assert [well_text(f"q {number}")] == texts(chat.complete([request(number)]))
        with ChatClient(settings(), data, lost) as chat:
            assert [well_text("q 2")] == texts(chat.complete([request(2)]))
        with pytest.raises(ConfigError, match="endpoint"), ChatClient(settings(), data) as chat:
            chat.complete([request(3)])
        assert ["Bearer sk-long-enough"] * 2 == served.authorizations
    assert [1, 2] == tries


def test_a_reply_that_never_parses_is_a_failure(tmp_path: Path):
    """Twice unparsable: the failure says why, shows the text, and nothing is kept."""
    with served_chat(usual=replying("bad"), data=tmp_path) as (served, chat):
        failure = ChatFailure("unparsable", "no good in 'bad'", "bad")
        assert [failure] == chat.complete([request(1)], needs_good)
        assert (2, []) == (len(served.asked), stored_texts(chat))
    # A model that repeats a bracket costs its own question, not the batch.
    with served_chat([replying("[" * 100_000)] * 2, concurrency=1) as (_, chat):
        outcomes = chat.complete([request(1), request(2)], lambda reply: json.loads(reply.text))
        assert ["unparsable", "unparsable"] == reasons(outcomes)


def test_another_error_of_a_parser_is_not_swallowed():
    """A parser with a bug raises its own error, not a million unparsable replies."""
    with served_chat() as (served, chat):
        with pytest.raises(KeyError):
            chat.complete([request(1)], lambda reply: {}[reply.text])
        assert ["q 1"] == served.prompts


# Fault by fault: what the server does, what the user sees, what was kept


# fault, then: the reason that the user sees, how often the server was asked
LASTING = {
    "429": (server.BUSY, "rate_limited", 3),
    "500": (server.BROKEN, "server_error", 3),
    "hang": (server.HANGING, "timeout", 1),
    "cut mid-reply": (server.CUT, "transport", 3),
    "no JSON": (server.NO_JSON, "server_error", 1),
    "JSON of another kind": (server.NO_CHOICES, "server_error", 1),
    "400": (server.REFUSED, "refused", 1),
    "401": (server.UNKNOWN_KEY, "refused", 1),
    "empty": (server.EMPTY, "empty", 1),
    "blank": (replying(" \n"), "empty", 1),
    "reasoning ate the budget": (server.REASONING, "empty", 1),
    "truncated": (server.TRUNCATED, "truncated", 1),
    "another model": (server.OTHER_MODEL, "wrong_model", 1),
    "no model named": (Answer(change={"model": None}), "wrong_model", 1),
}
PASSING = (server.BUSY, server.BROKEN, server.CUT)


@pytest.mark.parametrize(("fault", "reason", "calls"), LASTING.values(), ids=LASTING)
def test_a_lasting_fault_is_a_typed_failure_of_one_request(
    fault: Answer, reason: str, calls: int, tmp_path: Path
):
    """Asked as often as it makes sense, not stored; no other hurt; a later run asks it alone."""
    many = [request(number) for number in range(5)]
    deadline_s = 0.5 if reason == "timeout" else 20.0
    limits = {"deadline_s": deadline_s, "concurrency": 1}
    with served_chat([fault] * calls, data=tmp_path, **limits) as (served, chat):
        failure, *replies = chat.complete(many)
        assert isinstance(failure, ChatFailure)
        assert reason == failure.reason
        assert failure.detail
        kept = [well_text(f"q {n}") for n in range(1, 5)]
        assert kept == texts(replies)
        assert sorted(kept) == sorted(stored_texts(chat))
        assert calls + 4 == len(served.asked) == chat.counts["calls"]
        assert (calls - 1, 1) == (chat.counts["retries"], chat.counts[f"failed_{reason}"])
        assert [well_text(f"q {n}") for n in range(5)] == texts(chat.complete(many))
        assert calls + 5 == len(served.asked)


def test_a_passing_fault_is_not_seen_at_all(tmp_path: Path):
    """After one retry the reply is there and stored; a slow one is not asked for again."""
    script = [answer for fault in PASSING for answer in (fault, server.WELL)]
    many = [request(number) for number in range(len(PASSING) + 1)]
    with served_chat([*script, server.SLOW], data=tmp_path, concurrency=1) as (served, chat):
        expected = [well_text(f"q {n}") for n in range(len(many))]
        assert expected == texts(chat.complete(many))
        calls = [served.prompts.count(f"q {n}") for n in range(len(many))]
        assert [*[2] * len(PASSING), 1] == calls
        assert sorted(expected) == sorted(stored_texts(chat))


def test_nobody_listening_is_a_transport_failure_that_costs_nothing():
    """An address without a server is tried as often as allowed; no prompt was read."""
    with FaultServer() as served:
        url = served.url
    with client(url) as chat:
        (failure,) = chat.complete([request(1)])
        assert "transport" == failure.reason
        assert (3, 0, 0) == (
            chat.counts["calls"],
            chat.counts["estimated"],
            chat.counts["prompt_tokens"],
        )


def test_a_request_that_cannot_be_sent_is_refused():
    """Half a surrogate pair in a prompt, or a schema that is no JSON, fails alone."""
    broken = ChatRequest((Message("user", "\ud800"),), PLAIN, TEMPLATE)
    with served_chat(structured=True) as (served, chat):
        outcomes = chat.complete([broken, request(1, schema="{no JSON"), request(2)])
        assert ["refused", "refused", None] == reasons(outcomes)
        assert ["q 2"] == served.prompts
        assert (10, 0) == (chat.counts["prompt_tokens"], chat.counts["estimated"])


# What is sent


SAMPLED = Sampling(0.5, 0.9, 7, 50, ("END",), 2)
SENT = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hi"}],
    "seed": 7,
    "logprobs": True,
    "top_logprobs": 2,
}
ORDINARY = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 50, "stop": ["END"]}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "reply", "schema": {}, "strict": True}}
SILENT = {"chat_template_kwargs": {"enable_thinking": False}}
EFFORT = {"max_completion_tokens": 50, "reasoning_effort": "minimal", "model": "gpt-5-mini"}


@pytest.mark.parametrize(
    ("changes", "thinking", "expected"),
    [
        ({}, True, ORDINARY),
        ({"structured": True}, None, ORDINARY | {"response_format": SCHEMA}),
        ({"thinking_style": "qwen"}, False, ORDINARY | SILENT),
        ({"thinking_style": "qwen"}, None, ORDINARY),
        ({"thinking_style": "openai"}, False, EFFORT),
    ],
)
def test_what_is_sent(
    changes: dict[str, Any], thinking: Literal[True, False] | None, expected: dict[str, Any]
):
    """Each setting changes the JSON as its endpoint wants it, and nothing else."""
    one = ChatRequest((Message("user", "hi"),), SAMPLED, TEMPLATE, thinking, "{}")
    model = (SENT | expected)["model"]
    with FaultServer() as served:
        chosen = settings(served.url, **changes).model_copy(update={"model": model})
        with ChatClient(chosen, None) as chat:
            chat.complete([one])
    assert [SENT | expected] == served.asked


LEAST_EFFORTS = {
    "o1": "low",
    "o3-mini-2025-01-31": "low",
    "o4-mini": "low",
    "gpt-5": "minimal",
    "openai/gpt-5-nano": "minimal",
    "gpt-5-mini-2025-08-07": "minimal",
    "gpt-5.1": "none",
    "gpt-5.4-mini-2026-03-17": "none",
}


def test_thinking_is_switched_off_as_far_as_the_family_goes():
    """Each of OpenAI's families refuses the efforts of the others; all of them take medium."""
    assert LEAST_EFFORTS == {model: effort_of(model, thinking=False) for model in LEAST_EFFORTS}
    assert {"medium"} == {effort_of(model, thinking=True) for model in LEAST_EFFORTS}


def test_thinking_that_cannot_be_switched_off_is_a_mistake_in_the_settings():
    """An unknown family is refused before anything is sent; its default thinking is not."""
    with FaultServer() as served:
        plain = settings(served.url, thinking_style="openai")
        for model in ("o1-mini", "gpt-5-pro", "gpt-5-chat-latest", "gpt-6", "tiny"):
            served.asked.clear()
            with ChatClient(plain.model_copy(update={"model": model}), None) as chat:
                with pytest.raises(ConfigError, match=f"'{model}'"):
                    chat.complete([request(1), request(2, thinking=False)])
                assert [] == served.asked
                chat.complete([request(1)])
            assert 1 == len(served.asked)


def test_what_is_never_sent_does_not_tell_replies_apart(tmp_path: Path):
    """An endpoint that is asked without schema and thinking has one answer for all of them."""
    many = [request(1), request(1, schema="{}"), request(1, thinking=True)]
    with FaultServer() as served:
        with client(served.url, tmp_path) as chat:
            chat.complete(many)
        assert 1 == len(served.asked)
        with client(served.url, tmp_path, structured=True, thinking_style="qwen") as chat:
            chat.complete(many)
        assert 3 == len(served.asked)  # the first is known, the other two are questions now


# Log probabilities, names, counts


TOP = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}]
LOGPROBS = {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": TOP}]}
BARE_CHOICE = {"message": {"content": "Yes"}, "finish_reason": "length"}
WITHOUT_TOKENS = Answer(change={"choices": [BARE_CHOICE]})
WITH_TOKENS = Answer(change={"choices": [BARE_CHOICE | {"logprobs": LOGPROBS}]})
ONE_TOKEN = request(1, sampling=Sampling(max_tokens=1, top_logprobs=2))


def test_log_probabilities_are_read_and_stored(tmp_path: Path):
    """One new token with its alternatives is a whole answer although the budget ended it."""
    with served_chat(usual=WITH_TOKENS, data=tmp_path) as (served, chat):
        for _ in range(2):
            (reply,) = chat.complete([ONE_TOKEN])
            assert isinstance(reply, ChatReply)
            assert (Token("Yes", -0.1, (("Yes", -0.1), ("No", -2.5))),) == reply.tokens
        assert 1 == len(served.asked)


def test_a_reply_without_the_log_probabilities_asked_for_is_not_stored(tmp_path: Path):
    """Once the endpoint gives them, the same question gets them; nothing poisons the cache."""
    with FaultServer([WITHOUT_TOKENS], WITH_TOKENS) as served:
        for reason in ("no_logprobs", None, None):
            with client(served.url, tmp_path) as chat:
                assert [reason] == reasons(chat.complete([ONE_TOKEN]))
        assert 2 == len(served.asked)


def test_which_model_names_are_the_one_asked_for():
    """Dated snapshots, revisions, names given beforehand, no sibling; its own has the revision."""

    def accepted(name: str, sent_as: str = "gpt-5") -> bool:
        body = json.dumps({"model": name, "choices": [{"message": {"content": "x"}}]}).encode()
        return isinstance(read_reply(body, 0.0, request(1), asked, sent_as)[0], ChatReply)

    asked = settings("http://h/v1", served_as=("local",)).model_copy(update={"model": "gpt-5"})
    same = ("gpt-5", "gpt-5-2025-08-07", "gpt-5-0807", "gpt-5@main", "local")
    assert same == tuple(filter(accepted, same))
    assert accepted("short", "short")
    assert not any(map(accepted, ("gpt-5-mini", "gpt-5-mini-2025-08-07", "")))
    for revision, expected in (("", "chat:tiny"), ("r1", "chat:tiny@r1")):
        with client("http://127.0.0.1:1/v1", revision=revision) as chat:
            assert expected == chat.engine


NAMED = [
    (["/models/tiny.gguf"], {"model": "/models/tiny.gguf"}, ""),
    (["tiny"], {"model": "Upstream/Tiny-7B"}, ""),
    (["tiny", "other"], {"model": "other"}, r"add served_as = \[\"other\"\]"),
    ([], {"model": "other"}, "the endpoint serves 'other'"),
]


@pytest.mark.parametrize(("listed", "change", "said"), NAMED)
def test_a_single_model_answers_by_any_name(listed: list[str], change: dict[str, str], said: str):
    """Alias, path or upstream name; with several models the message has the line to add."""
    served = FaultServer(usual=Answer(change=change), lists=listed)
    with served, client(served.url, None) as chat:
        (outcome,) = chat.complete([request(1)])
    assert bool(said) == isinstance(outcome, ChatFailure)
    if said:
        assert "wrong_model" == outcome.reason
        assert re.search(said, outcome.detail)
    else:
        assert change["model"] == outcome.model


PARTS = [{"type": "thinking", "thinking": "Hm."}, *({"text": text} for text in ("good ", "reply"))]
INSTEAD = {
    "thought": (replying(None, "length", reasoning="Hm."), "tokens ended: raise thinking_tokens"),
    "silence": (replying(None, "length"), "the budget of 50 tokens ended"),
    "refusal": (replying(None, refusal="I cannot help."), r"refused \(I cannot help"),
}


def test_a_text_may_come_in_parts():
    """They are joined, without thoughts."""
    with served_chat([replying(PARTS)]) as (_, chat):  # type: ignore[arg-type]
        assert ["good reply"] == texts(chat.complete([request(1)]))


@pytest.mark.parametrize(("answer", "said"), INSTEAD.values(), ids=INSTEAD)
def test_what_came_in_place_of_a_text_is_named(answer: Answer, said: str):
    """The limit that ended and the setting that raises it."""
    with served_chat([answer]) as (_, chat):
        (outcome,) = chat.complete([request(1)])
    assert "empty" == outcome.reason
    assert re.search(said, outcome.detail)


def test_counts_are_plain_numbers():
    """Metadata is JSON: every counter, and failures by their reason."""
    with served_chat([server.EMPTY]) as (_, chat):
        chat.complete([request(1), request(1)])
        noted = json.loads(json.dumps(chat.details()))
    assert noted["chat failed_empty"] == noted["chat asked"] == 2
    assert (1, 1, 10, 5) == tuple(
        noted[f"chat {name}"] for name in ("calls", "shared", "prompt_tokens", "completion_tokens")
    )


def test_a_batch_with_failures_is_told_in_one_warning(caplog: pytest.LogCaptureFixture):
    """How many, for which reason, what the endpoint said; a batch without failures is silent."""
    caplog.set_level(logging.WARNING, "resources.chat.client")
    with served_chat([server.UNKNOWN_KEY] * 3) as (_, chat):
        chat.complete([request(1), request(2), request(3)])
        chat.complete([request(4)])
    (record,) = caplog.records
    assert "3 of 3" in record.getMessage()
    assert "refused 3 (HTTP 401: " in record.getMessage()
    assert "wrong key" in record.getMessage()


def test_the_progress_of_a_batch_is_shown():
    """How far, with what was stored; a small batch shows nothing."""
    seen = []

    def look(bars: Sequence[Bar]) -> None:
        seen.extend((each.done, each.total) for each in bars)

    with served_chat(concurrency=1) as (_, chat), watched(look):
        chat.complete([request(number) for number in range(15)])
        assert [] == seen
        chat.complete([request(number) for number in range(16)])
    assert [(done, 16) for done in range(17)] == seen


# The second request


LINE = 'End with "good".'
ASKED = request(1, again=LINE)
AGAIN = load_prompt("again").sections
CLAIM = "Ilva opened the bridge in 1921."


def good(reply: ChatReply[object]) -> str:
    if "good" not in reply.text:
        raise ValueError("not good")
    return reply.text


def test_the_line_is_no_part_of_the_key():
    """Replies that were stored before the line was written stay valid."""
    assert request(1).canonical("m", "r") == ASKED.canonical("m", "r")
    assert ASKED.repeated().canonical("m", "r") != ASKED.canonical("m", "r")


def test_the_line_ends_the_last_message_of_the_user():
    """Whatever stands behind it: a transcript that is continued stays the last message."""
    for roles, expected in {
        "user": ["x\n\nL"],
        "system user": ["x", "x\n\nL"],
        "user assistant": ["x\n\nL", "x"],
        "user assistant user": ["x", "x", "x\n\nL"],
        "system": ["x"],
        "": [],
    }.items():
        messages = tuple(Message(role, "x") for role in roles.split())
        repeated = replace(ASKED, messages=messages, again="L").repeated()
        assert expected == [message.content for message in repeated.messages]
        assert roles.split() == [message.role for message in repeated.messages]


def test_a_request_without_seed_or_line_is_repeated_as_it_is():
    """None is not a number to add to; no line, no empty one."""
    plain = request(1, sampling=Sampling(seed=None))
    assert plain == plain.repeated()
    assert (PLAIN.seed or 0) + 1_000 == request(1).repeated().sampling.seed
    once = ASKED.repeated()
    assert "" == once.again
    assert once.messages == once.repeated().messages


AGAIN_SEED = {"seed": 1_042}
WARMER = AGAIN_SEED | {"temperature": 0.3}
LONGER = WARMER | {"max_tokens": 100}
SILENCED = WARMER | {
    "chat_template_kwargs": {"enable_thinking": False},
    "thinking_token_budget": None,
}
BAD = replying("bad")
THOUGHT = {"resample": True, "thinking_tokens": 9}
# the first answer, what is asked, how thinking is switched, what the second request changes
SECOND: list[tuple[Answer, dict[str, Any], str, dict[str, Any]]] = [
    (BAD, {}, "none", AGAIN_SEED),
    (BAD, {"resample": True}, "none", WARMER),
    (BAD, {"resample": True, "sampling": replace(PLAIN, temperature=0.8)}, "none", AGAIN_SEED),
    (TRUNCATED, {"resample": True, "thinking": False}, "qwen", LONGER),
    (REASONING, {"resample": True, "thinking": False}, "qwen", LONGER),
    (REASONING, THOUGHT, "none", LONGER),
    (REASONING, THOUGHT, "qwen", SILENCED),
    (REASONING, THOUGHT | {"thinking": True}, "qwen", SILENCED),
]


@pytest.mark.parametrize(("answer", "changes", "style", "expected"), SECOND)
def test_the_second_request_differs_and_its_reply_is_kept_under_the_first(
    answer: Answer, changes: dict[str, Any], style: str, expected: dict[str, Any], tmp_path: Path
):
    """Another seed and the line; warmer, longer or without a thought where the first asks for it.

    The next run finds the reply under the first request's key, also without its line.
    """
    asked = replace(ASKED, **changes)
    with FaultServer([answer, replying("good")]) as served:
        with client(served.url, tmp_path, thinking_style=style) as chat:
            assert ["good"] == [one.value for one in chat.complete([asked], good)]
        with client(served.url, tmp_path, thinking_style=style) as chat:
            assert ["good"] == texts(chat.recall([replace(asked, again="")]))
            assert ["good"] == [one.value for one in chat.complete([asked], good)]
    assert ["q 1", f"q 1\n\n{LINE}"] == served.prompts
    first, second = ({k: v for k, v in body.items() if k != "messages"} for body in served.asked)
    changed = {name for name in first | second if first.get(name) != second.get(name)}
    assert expected == {name: second.get(name) for name in changed}


def test_a_stored_reply_that_no_longer_reads_is_the_first_attempt(tmp_path: Path):
    """The one request that follows has the line already, and its reply takes the place."""
    with FaultServer([replying("bad"), replying("good")]) as served:
        with client(served.url, tmp_path) as chat:
            chat.complete([ASKED])
        with client(served.url, tmp_path) as chat:
            assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
            assert ["good"] == stored_texts(chat)
        assert ["q 1", f"q 1\n\n{LINE}"] == served.prompts


def test_a_retry_after_a_fault_of_the_endpoint_is_the_same_request():
    """The line blames a reply; where none came there is nothing to blame."""
    fault = replace(replying("x"), status=500)
    with served_chat([fault, replying("good")]) as (served, chat):
        assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
        assert ["q 1", "q 1"] == served.prompts
        assert [42, 42] == [body["seed"] for body in served.asked]


def test_the_ceiling_counts_the_longer_request():
    """The expected tokens of the second request are those of its own text."""
    for again, reason in (("", "unparsable"), ("word " * 200, "budget")):
        with served_chat(usual=replying("bad"), tokens=300) as (_, chat):
            assert [reason] == reasons(chat.complete([request(1, again=again)], good))


CALLS = {
    "digit": JudgeCall("answerability", "Torbeck.", question="Who?"),
    "criteria": JudgeCall("atomicity", claim=CLAIM, question="Who?"),
    "coverage": JudgeCall("coverage", claim=CLAIM, answers=("Ilva.",)),
}
RULINGS = {
    "digit": ("<answer>1</answer>", True),
    "criteria": ("is_question single_focus no_conjunctions verifiable grounded", (True,) * 5),
    "coverage": ("<answer>SUPPORTED</answer>", "Supported"),
}


@pytest.mark.parametrize("form", CALLS)
@pytest.mark.parametrize("structured", [False, True])
def test_the_judge_names_its_form(form: str, *, structured: bool, tmp_path: Path):
    """Each task its own; the ruling is that of the second reply, and costs nothing again."""
    text, value = RULINGS[form]
    names = text.split()
    if structured:
        field = {"digit": '"answer": 1', "coverage": '"verdict": "SUPPORTED"'}
        text = "{" + field.get(form, ", ".join(f'"{name}": "YES"' for name in names)) + "}"
    elif form == "criteria":
        text = "<answer>{}</answer>".format("\n".join(f"{name}:YES" for name in names))
    with FaultServer([replying("I cannot say."), replying(text)]) as served:
        for _ in range(2):
            with client(served.url, tmp_path) as chat:
                asking = JudgeSettings(structured=structured)
                judge = ChatJudge(chat, load_judge_prompts(), asking)
                assert [Ruling(value)] == judge.judge([CALLS[form]])
        first, second = served.prompts
        assert second == f"{first}\n\n{AGAIN['json' if structured else form]}"


@pytest.mark.parametrize("structured", [False, True])
def test_the_decomposer_names_its_form(*, structured: bool):
    """Tags or JSON, as it was asked for."""
    text = '{"questions": ["Who?"]}'
    with served_chat([replying("I cannot say."), replying(text)]) as (served, chat):
        silver = ChatDecomposer(chat, load_prompt("silver"), Sampling(), structured=structured)
        assert [["Who?"]] == silver.decompose([("Evidence.", CLAIM)])
        first, second = served.prompts
        assert second == f"{first}\n\n{AGAIN['json' if structured else 'silver']}"


def test_a_users_lines_take_the_place_of_the_packages():
    """``again.md`` of a prompt folder serves the judge and the decomposer as it does methods."""
    theirs = replace(load_prompt("again"), sections=dict.fromkeys(AGAIN, "Once more."))
    with served_chat(usual=replying("I cannot say.")) as (served, chat):
        ChatJudge(chat, load_judge_prompts() | {"again": theirs}).judge([CALLS["digit"]])
        ChatDecomposer(
            chat, load_prompt("silver"), Sampling(), again=theirs, most_unanswered=1.0
        ).decompose([("Evidence.", CLAIM)])
        assert 2 == sum(prompt.endswith("\n\nOnce more.") for prompt in served.prompts)


def test_a_reply_that_is_cut_off_twice_is_a_failure(tmp_path: Path):
    """Two requests, one failure with the reason, nothing stored."""
    with served_chat(usual=TRUNCATED, data=tmp_path) as (served, chat):
        assert ["truncated"] == reasons(chat.complete([replace(ASKED, resample=True)], good))
        assert (2, []) == (len(served.asked), stored_texts(chat))


def test_a_longer_reply_that_does_not_fit_reports_the_first_fault():
    """The second request asks for more tokens than the context has; the cause is the first."""
    refused = Answer(400, {}, b'{"error": {"message": "longer than the context"}}')
    with served_chat([TRUNCATED, refused]) as (_, chat):
        (found,) = chat.complete([replace(ASKED, resample=True)], good)
    assert ("truncated", "What is") == (found.reason, found.text)


def test_the_bound_of_a_thought_is_part_of_the_key_where_there_is_one():
    """Requests without one keep the keys of their stored replies."""
    bound = replace(ASKED, thinking_tokens=9)
    assert "thinking_tokens" not in ASKED.canonical("m", "r")
    assert ASKED.canonical("m", "r") != bound.canonical("m", "r")
    assert replace(bound, thinking_tokens=8).canonical("m", "r") != bound.canonical("m", "r")
    assert ASKED.canonical("m", "r") == replace(ASKED, resample=True).canonical("m", "r")
