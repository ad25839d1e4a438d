"""The client as its callers see it: order, one request a question, parsing, what is sent."""

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
from chat_parts import TEMPLATE, MadeUpTime, frame_of, request, settings
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Message, Sampling, Token
from decomposerl.errors import ConfigError
from decomposerl.progress import Bar, watched
from fault_server import Answer, FaultServer, well_text
from resources.chat.budget import Counts, batch_progress
from resources.chat.client import ChatClient
from resources.chat.settings import effort_of
from strategies import law


def client(url: str, data: Path | None, **changes: object) -> ChatClient:
    return ChatClient(settings(url, **changes), data, timing=MadeUpTime().timing())


def needs_good(reply: ChatReply[object]) -> int:
    """The reply's length, of a good one."""
    if "good" not in reply.text:
        raise ValueError(f"no good in {reply.text!r}")
    return len(reply.text)


@pytest.mark.parametrize("stored", [True, False], ids=["cache", "no cache"])
def test_outcomes_are_in_order_and_equal_requests_share_one_call(tmp_path: Path, *, stored: bool):
    """For any batch: one outcome a request, in order, one call a distinct one, all counted."""
    known: set[int] = set()
    with FaultServer() as served, client(served.url, tmp_path if stored else None) as chat:

        @law(40)
        @given(st.lists(st.integers(0, 30), max_size=12))
        def holds(numbers: list[int]) -> None:
            served.asked.clear()
            before = replace(chat.counts)
            found = chat.complete([request(number) for number in numbers])
            fresh = set(numbers) - (known if stored else set())
            assert [well_text(f"q {n}") for n in numbers] == [o.text for o in found]
            assert sorted(f"q {n}" for n in fresh) == sorted(served.prompts)
            assert len(numbers) == chat.counts.asked - before.asked
            assert len(fresh) == chat.counts.calls - before.calls
            assert len(set(numbers)) - len(fresh) == chat.counts.hits - before.hits
            assert len(numbers) - len(set(numbers)) == chat.counts.shared - before.shared
            known.update(numbers)

        holds()


def test_a_reply_that_does_not_parse_is_asked_once_more(tmp_path: Path):
    """The second reply parses and is the one that is kept."""
    script = [server.replying("bad"), server.replying("good")]
    with FaultServer(script) as served, client(served.url, tmp_path) as chat:
        assert [("good", 4)] == [(o.text, o.value) for o in chat.complete([request(1)], needs_good)]
        assert [("good", None)] == [(o.text, o.value) for o in chat.complete([request(1)])]
        assert [4] == [o.value for o in chat.recall([request(1)], needs_good)]
        assert 2 == len(served.asked)


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
    with FaultServer([server.replying("bad")]) as served, client(served.url, tmp_path) as chat:
        assert [None, None] == chat.recall([request(1), request(2)])
        assert {} == chat.details()
        chat.complete([request(1)])
        assert [None, None] == chat.recall([request(1), request(2)], needs_good)
        assert ["bad", None, "bad"] == [
            one and one.text for one in chat.recall([request(1), request(2), request(1)])
        ]
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
                assert [well_text(f"q {number}")] == [
                    o.text for o in chat.complete([request(number)])
                ]
        with ChatClient(settings(), data, find_access=lost) as chat:
            assert [well_text("q 2")] == [one.text for one in chat.complete([request(2)])]
        with pytest.raises(ConfigError, match="no endpoint"), ChatClient(settings(), data) as chat:
            chat.complete([request(3)])
        assert ["Bearer sk-long-enough"] * 2 == served.authorizations
    assert [1, 2] == tries


def test_a_reply_that_never_parses_is_a_failure(tmp_path: Path):
    """Twice unparsable: the failure says why, shows the text, and nothing is kept."""
    usual = server.replying("bad")
    with FaultServer(usual=usual) as served, client(served.url, tmp_path) as chat:
        (found,) = chat.complete([request(1)], needs_good)
        assert found == ChatFailure("unparsable", "no good in 'bad'", 2, "bad")
        assert chat.store is not None
        assert (2, 0) == (len(served.asked), frame_of(chat.store).height)


def test_a_stored_reply_that_a_new_parser_refuses_is_asked_again(tmp_path: Path):
    """It counts as the first asking; the reply that parses takes its place on disk."""
    script = [server.replying("bad"), server.replying("good")]
    with FaultServer(script) as served, client(served.url, tmp_path) as chat:
        chat.complete([request(1)])
        assert [4] == [o.value for o in chat.complete([request(1)], needs_good)]
        assert 2 == len(served.asked)
        assert chat.store is not None
        assert ["good"] == frame_of(chat.store)["text"].to_list()


def test_a_reply_that_is_nested_without_end_is_unparsable(tmp_path: Path):
    """A model that repeats a bracket costs its own question, not the batch."""
    with (
        FaultServer([server.replying("[" * 100_000)] * 2) as served,
        client(served.url, tmp_path, concurrency=1) as chat,
    ):
        found = chat.complete([request(1), request(2)], lambda reply: json.loads(reply.text))
        assert ["unparsable", "unparsable"] == [one.reason for one in found]


def test_a_body_that_is_nested_without_end_is_no_chat_completion(tmp_path: Path):
    """It is the endpoint's fault, and asked again, like any other body that is none."""
    nested = Answer(body=b'{"choices": ' + b"[" * 100_000)
    with FaultServer([nested]) as served, client(served.url, tmp_path) as chat:
        assert [well_text("q 1")] == [one.text for one in chat.complete([request(1)])]
        assert 2 == len(served.asked)


def test_another_error_of_a_parser_is_not_swallowed(tmp_path: Path):
    """A parser with a bug raises its own error, not a million unparsable replies."""
    with FaultServer() as served, client(served.url, tmp_path) as chat:
        with pytest.raises(KeyError):
            chat.complete([request(1)], lambda reply: {}[reply.text])
        assert ["q 1"] == served.prompts


def test_the_engine_names_model_and_revision():
    """Results stored by engine never mix two revisions."""
    for revision, expected in (("", "chat:tiny"), ("r1", "chat:tiny@r1")):
        with client("http://127.0.0.1:1/v1", None, revision=revision) as chat:
            assert expected == chat.engine


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


@pytest.mark.parametrize(
    ("changes", "thinking", "expected"),
    [
        ({}, True, ORDINARY),
        ({"structured": True}, None, ORDINARY | {"response_format": SCHEMA}),
        (
            {"thinking_style": "qwen"},
            False,
            ORDINARY | {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        ({"thinking_style": "qwen"}, None, ORDINARY),
        (
            {"thinking_style": "openai"},
            False,
            {"max_completion_tokens": 50, "reasoning_effort": "minimal", "model": "gpt-5-mini"},
        ),
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


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("o1", "low"),
        ("o3-mini-2025-01-31", "low"),
        ("o4-mini", "low"),
        ("gpt-5", "minimal"),
        ("openai/gpt-5-nano", "minimal"),
        ("gpt-5-mini-2025-08-07", "minimal"),
        ("gpt-5.1", "none"),
        ("gpt-5.4-mini-2026-03-17", "none"),
    ],
)
def test_thinking_is_switched_off_as_far_as_the_family_goes(model: str, least: str):
    """Each of OpenAI's families refuses the efforts of the others; all of them take medium."""
    assert [least, "medium"] == [effort_of(model, thinking=on) for on in (False, True)]


@pytest.mark.parametrize("model", ["o1-mini", "gpt-5-pro", "gpt-5-chat-latest", "gpt-6", "tiny"])
def test_thinking_that_cannot_be_switched_off_is_a_mistake_in_the_settings(model: str):
    """An unknown family is refused before anything is sent; its default thinking is not."""
    with FaultServer() as served:
        chosen = settings(served.url, thinking_style="openai").model_copy(update={"model": model})
        with ChatClient(chosen, None) as chat:
            with pytest.raises(ConfigError, match=f"thinking of '{model}' is not known"):
                chat.complete([request(1), request(2, thinking=False)])
            assert [] == served.asked
            chat.complete([request(1)])
        assert 1 == len(served.asked)


def test_what_is_never_sent_does_not_tell_replies_apart(tmp_path: Path):
    """An endpoint that is asked without schema and thinking has one answer for all of them."""
    many = [request(1), request(1, schema="{}"), request(1, thinking=True)]
    with FaultServer() as served, client(served.url, tmp_path) as chat:
        chat.complete(many)
        assert 1 == len(served.asked)
    with (
        FaultServer() as served,
        client(served.url, tmp_path, structured=True, thinking_style="qwen") as chat,
    ):
        chat.complete(many)
        assert 2 == len(served.asked)  # the first is known, the other two are questions now


TOP = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}]
LOGPROBS = {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": TOP}]}
BARE_CHOICE = {"message": {"content": "Yes"}, "finish_reason": "length"}
WITH_TOKENS = Answer(change={"choices": [BARE_CHOICE | {"logprobs": LOGPROBS}]})
ONE_TOKEN = request(1, sampling=Sampling(max_tokens=1, top_logprobs=2))


def test_log_probabilities_are_read_and_stored(tmp_path: Path):
    """One new token with its alternatives is a whole answer although the budget ended it."""
    with (
        FaultServer(usual=WITH_TOKENS) as served,
        client(served.url, tmp_path) as chat,
    ):
        for _ in range(2):
            (found,) = chat.complete([ONE_TOKEN])
            assert isinstance(found, ChatReply)
            assert (Token("Yes", -0.1, (("Yes", -0.1), ("No", -2.5))),) == found.tokens
        assert 1 == len(served.asked)


def test_a_reply_without_the_log_probabilities_asked_for_is_not_stored(tmp_path: Path):
    """Once the endpoint gives them, the same question gets them; nothing poisons the cache."""
    without = Answer(change={"choices": [BARE_CHOICE]})
    with FaultServer([without], WITH_TOKENS) as served:
        for reason in ("no_logprobs", None, None):
            with client(served.url, tmp_path) as chat:
                (found,) = chat.complete([ONE_TOKEN])
                assert reason == getattr(found, "reason", None)
        assert 2 == len(served.asked)


def test_an_endpoint_without_log_probabilities_is_given_up_after_a_window(tmp_path: Path):
    """Of 300 such questions a circuit's window is sent; the rest fail at once."""
    many = [request(n, sampling=ONE_TOKEN.sampling) for n in range(300)]
    without = Answer(change={"choices": [BARE_CHOICE]})
    with (
        FaultServer(usual=without) as served,
        client(served.url, tmp_path, concurrency=4) as chat,
    ):
        found = chat.complete(many)
        assert len(served.asked) <= 24
    assert {"no_logprobs", "circuit_open"} == {one.reason for one in found}
    assert all(one.lasting for one in found)


@pytest.mark.parametrize(
    ("reported", "accepted"),
    [
        ("gpt-5", True),
        ("gpt-5-2025-08-07", True),
        ("gpt-5-0807", True),
        ("gpt-5@main", True),
        ("local", True),
        ("gpt-5-mini", False),
        ("gpt-5-mini-2025-08-07", False),
        ("", False),
    ],
)
def test_which_model_names_are_the_one_asked_for(reported: str, *, accepted: bool):
    """Dated snapshots, revisions and names given beforehand; not a smaller sibling."""
    asked = settings("http://h/v1", served_as=("local",)).model_copy(update={"model": "gpt-5"})
    assert accepted == asked.names_the_model(reported)


def test_counts_are_plain_numbers(tmp_path: Path):
    """Metadata is JSON: every counter, each failure by its reason, and what the first said."""
    with FaultServer([server.EMPTY]) as served, client(served.url, tmp_path) as chat:
        chat.complete([request(1), request(1)])
        noted = json.loads(json.dumps(chat.counts.metadata()))
    assert noted["failed_empty"] == noted["asked"] == 2
    assert "no text came; 5 tokens were used" == noted["example empty"]
    assert (1, 1, 10, 5) == tuple(
        noted[name] for name in ("calls", "shared", "prompt_tokens", "completion_tokens")
    )


def test_a_batch_with_failures_is_told_in_one_warning(caplog: pytest.LogCaptureFixture):
    """How many, for which reason, what the endpoint said; a batch without failures is silent."""
    caplog.set_level(logging.WARNING, "resources.chat.client")
    with FaultServer(usual=server.UNKNOWN_KEY) as served, client(served.url, None) as chat:
        chat.complete([request(1), request(2), request(3)])
    with FaultServer() as served, client(served.url, None) as chat:
        chat.complete([request(1)])
    (record,) = caplog.records
    assert "3 of 3 requests got no reply: refused 3 (HTTP 401: " in record.getMessage()
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
    assert all(part in seen[-1][2] for part in ("calls a second", "81% hits", "$1.2500"))
