"""The client as its callers see it: order, one call a question, parsing, faults, what is sent."""

import json
import logging
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
from decomposerl.progress import Bar, watched
from fault_server import Answer, FaultServer, replying, well_text
from resources.chat.budget import Counts, batch_progress
from resources.chat.client import ChatClient
from resources.chat.settings import effort_of
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
            before = replace(chat.counts)
            outcomes = chat.complete([request(number) for number in numbers])
            fresh = set(numbers) - (known if stored else set())
            assert [well_text(f"q {n}") for n in numbers] == texts(outcomes)
            assert sorted(f"q {n}" for n in fresh) == sorted(served.prompts)
            assert len(numbers) == chat.counts.asked - before.asked
            assert len(fresh) == chat.counts.calls - before.calls
            assert len(set(numbers)) - len(fresh) == chat.counts.hits - before.hits
            assert len(numbers) - len(set(numbers)) == chat.counts.shared - before.shared
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
    """What is not stored, or what the parser refuses, is None; only ``complete`` sends it."""
    with served_chat([replying("bad")], data=tmp_path) as (served, chat):
        assert [None, None] == chat.recall([request(1), request(2)])
        assert {} == chat.details()
        chat.complete([request(1)])
        assert [None, None] == chat.recall([request(1), request(2)], needs_good)
        assert ["bad", "", "bad"] == texts(chat.recall([request(1), request(2), request(1)]))
        assert (3, 1, 1) == (chat.counts.asked, chat.counts.hits, chat.counts.shared)
        assert 1 == len(served.asked)


def test_access_is_looked_for_with_the_first_request_that_is_sent(tmp_path: Path):
    """A stored reply needs no endpoint, no key and no server; making a client opens nothing."""
    tries: list[int] = []

    def lost() -> tuple[tuple[str, ...], SecretStr | None]:
        tries.append(1)
        raise ConfigError("no key")

    with FaultServer() as served:

        def found() -> tuple[tuple[str, ...], SecretStr | None]:
            tries.append(2)
            return (served.url,), SecretStr("sk-long-enough")

        data = tmp_path / "data"
        with ChatClient(settings(), data, find_access=lost) as chat:
            assert [] == chat.complete([])
            assert not data.exists()
            with pytest.raises(ConfigError, match="no key"):
                chat.complete([request(1)])
        with ChatClient(settings(), data, find_access=found) as chat:
            for number in (1, 1, 2):
                assert [well_text(f"q {number}")] == texts(chat.complete([request(number)]))
        with ChatClient(settings(), data, find_access=lost) as chat:
            assert [well_text("q 2")] == texts(chat.complete([request(2)]))
        with pytest.raises(ConfigError, match="endpoint"), ChatClient(settings(), data) as chat:
            chat.complete([request(3)])
        assert ["Bearer sk-long-enough"] * 2 == served.authorizations
    assert [1, 2] == tries


def test_a_reply_that_never_parses_is_a_failure(tmp_path: Path):
    """Twice unparsable: the failure says why, shows the text, and nothing is kept."""
    with served_chat(usual=replying("bad"), data=tmp_path) as (served, chat):
        failure = ChatFailure("unparsable", "no good in 'bad'", 2, "bad")
        assert [failure] == chat.complete([request(1)], needs_good)
        assert (2, []) == (len(served.asked), stored_texts(chat))


def test_a_reply_that_is_nested_without_end_is_unparsable():
    """A model that repeats a bracket costs its own question, not the batch."""
    with served_chat([replying("[" * 100_000)] * 2, concurrency=1) as (_, chat):
        outcomes = chat.complete([request(1), request(2)], lambda reply: json.loads(reply.text))
        assert ["unparsable", "unparsable"] == reasons(outcomes)


def test_another_error_of_a_parser_is_not_swallowed():
    """A parser with a bug raises its own error, not a million unparsable replies."""
    with served_chat() as (served, chat):
        with pytest.raises(KeyError):
            chat.complete([request(1)], lambda reply: {}[reply.text])
        assert ["q 1"] == served.prompts


def test_the_engine_names_model_and_revision():
    """Results stored by engine never mix two revisions."""
    for revision, expected in (("", "chat:tiny"), ("r1", "chat:tiny@r1")):
        with client("http://127.0.0.1:1/v1", revision=revision) as chat:
            assert expected == chat.engine


# Fault by fault: what the server does, what the user sees, what was kept


# fault, then: the reason that the user sees, how often the server was asked
LASTING = {
    "429": (server.BUSY, "rate_limited", 3),
    "500": (server.BROKEN, "server_error", 3),
    "hang": (server.HANGING, "timeout", 1),
    "cut mid-reply": (server.CUT, "transport", 3),
    "no JSON": (server.NO_JSON, "server_error", 3),
    "JSON of another kind": (server.NO_CHOICES, "server_error", 3),
    "400": (server.REFUSED, "refused", 1),
    "401": (server.UNKNOWN_KEY, "refused", 1),
    "empty": (server.EMPTY, "empty", 1),
    "blank": (replying(" \n"), "empty", 1),
    "reasoning ate the budget": (server.REASONING, "empty", 1),
    "truncated": (server.TRUNCATED, "truncated", 1),
    "another model": (server.OTHER_MODEL, "wrong_model", 1),
    "no model named": (Answer(change={"model": None}), "wrong_model", 1),
}
PASSING = (server.BUSY, server.BROKEN, server.CUT, server.NO_JSON, server.NO_CHOICES)


@pytest.mark.parametrize(("fault", "reason", "calls"), LASTING.values(), ids=LASTING)
def test_a_lasting_fault_is_a_typed_failure_of_one_request(
    fault: Answer, reason: str, calls: int, tmp_path: Path
):
    """It is asked as often as it makes sense, not stored, and hurts no other request.

    A later run asks for it alone.
    """
    many = [request(number) for number in range(5)]
    deadline_s = 0.5 if reason == "timeout" else 20.0
    limits = {"call_deadline_s": deadline_s, "concurrency": 1}
    with served_chat([fault] * calls, data=tmp_path, **limits) as (served, chat):
        failure, *replies = chat.complete(many)
        assert isinstance(failure, ChatFailure)
        assert (reason, calls) == (failure.reason, failure.attempts)
        assert failure.detail
        kept = [well_text(f"q {n}") for n in range(1, 5)]
        assert kept == texts(replies)
        assert sorted(kept) == sorted(stored_texts(chat))
        assert calls + 4 == len(served.asked) == chat.counts.calls
        assert (calls - 1, {reason: 1}) == (chat.counts.retries, dict(chat.counts.failures))
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
        assert ("transport", 3) == (failure.reason, failure.attempts)
        assert (3, 0, 0) == (chat.counts.calls, chat.counts.estimated, chat.counts.tokens)


def test_a_failure_shows_what_came():
    """Where reasoning ended the budget it is named; a truncated reply carries its text."""
    with served_chat([server.REASONING, server.TRUNCATED], concurrency=1) as (_, chat):
        thought, truncated = chat.complete([request(1), request(2)])
    assert isinstance(thought, ChatFailure)
    assert "reasoning" in thought.detail
    assert "50" in thought.detail
    assert "What is" == truncated.text


def test_a_request_that_cannot_be_sent_is_refused():
    """Half a surrogate pair in a prompt, or a schema that is no JSON, fails alone."""
    broken = ChatRequest((Message("user", "\ud800"),), PLAIN, TEMPLATE)
    with served_chat(structured=True) as (served, chat):
        outcomes = chat.complete([broken, request(1, schema="{no JSON"), request(2)])
        assert ["refused", "refused", None] == reasons(outcomes)
        assert ["q 2"] == served.prompts


def test_a_batch_ends_at_its_deadline_and_keeps_what_came(tmp_path: Path):
    """What was answered before is returned and stored; the rest are timeouts."""
    limits = {"batch_deadline_s": 1.5, "concurrency": 1}
    with served_chat([server.WELL] * 2, server.HANGING, tmp_path, **limits) as (_, chat):
        outcomes = chat.complete([request(number) for number in range(4)])
        assert [None, None, "timeout", "timeout"] == reasons(outcomes)
        assert 2 == len(stored_texts(chat))


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


def test_an_endpoint_without_log_probabilities_is_given_up_after_a_window():
    """Of 100 such questions a circuit's window is sent; the rest fail at once."""
    many = [request(n, sampling=ONE_TOKEN.sampling) for n in range(100)]
    with served_chat(usual=WITHOUT_TOKENS, concurrency=4) as (served, chat):
        outcomes = chat.complete(many)
        assert len(served.asked) <= 24
    assert {"no_logprobs", "circuit_open"} == set(reasons(outcomes))
    assert all(isinstance(one, ChatFailure) and one.lasting for one in outcomes)


def test_which_model_names_are_the_one_asked_for():
    """Dated snapshots, revisions and names given beforehand; not a smaller sibling."""
    asked = settings("http://h/v1", served_as=("local",)).model_copy(update={"model": "gpt-5"})
    same = ("gpt-5", "gpt-5-2025-08-07", "gpt-5-0807", "gpt-5@main", "local")
    assert same == tuple(name for name in same if asked.names_the_model(name))
    others = ("gpt-5-mini", "gpt-5-mini-2025-08-07", "")
    assert () == tuple(name for name in others if asked.names_the_model(name))


def test_counts_are_plain_numbers():
    """Metadata is JSON: every counter, each failure by its reason, and what the first said."""
    with served_chat([server.EMPTY]) as (_, chat):
        chat.complete([request(1), request(1)])
        noted = json.loads(json.dumps(chat.counts.metadata()))
    assert noted["failed_empty"] == noted["asked"] == 2
    assert "5 tokens" in noted["example empty"]
    assert (1, 1, 10, 5) == tuple(
        noted[name] for name in ("calls", "shared", "prompt_tokens", "completion_tokens")
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


def test_the_progress_of_a_batch_has_rate_hits_and_cost():
    """How far, calls a second, share of hits, money; a small batch shows nothing."""
    counts, seen = Counts(), []

    def look(bars: Sequence[Bar]) -> None:
        seen.extend((one.done, one.total, one.note) for one in bars)

    with watched(look):
        for total in (16, 15):
            with batch_progress(total, total - 3, counts) as step:
                counts.add(calls=3, money=1.25)
                for _ in range(3):
                    step()
    assert [13, 14, 15, 16] == [done for done, _, _ in seen]
    assert {16} == {total for _, total, _ in seen}
    assert all(part in seen[-1][2] for part in ("a second", "81%", "$1.2500"))
