"""A hostile or odd endpoint: what cannot be stored, cannot have been used, or does not end."""

import gzip
import json
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_parts import TEMPLATE, request, silver_questions
from chat_served import client, reasons, served_chat, stored_texts, texts
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Message, Price, Sampling
from fault_server import (
    DRIPPING,
    MODEL,
    Answer,
    FaultServer,
    replying,
    streaming,
    using,
    well_text,
)
from resources.chat.reply_store import REPLIES_FILE
from resources.chat.wire import tokens_of
from resources.store.chat_replies import DamagedReplyWarning
from strategies import LAW

HALF = "\ud800"
GOOD = '{"questions": ["Is it so?", "Who?"]}'
TOKEN = {"token": "Yes", "logprob": -0.1, "top_logprobs": [{"token": "Yes", "logprob": -0.1}]}
ONE_TOKEN = Sampling(max_tokens=1, top_logprobs=2)
CHOICE = {"message": {"content": GOOD}, "finish_reason": "stop"}
ODD_CHOICE = {"message": {"content": GOOD, "reasoning_content": HALF}, "finish_reason": "stop"}
WHOLE = json.dumps({"model": MODEL, "choices": [CHOICE], "usage": {"prompt_tokens": 9}})


def saying(text: str, **change: object) -> Answer:
    """A reply with this text and further fields of its JSON."""
    return Answer(change=replying(text).change | change)


def with_tokens(**changes: object) -> Answer:
    choice = {"message": {"content": "Yes"}, "finish_reason": "length"}
    return Answer(change={"choices": [choice | {"logprobs": {"content": [TOKEN | changes]}}]})


def bodied(text: str) -> Answer:
    """A response with this body."""
    return Answer(body=text.encode())


def headed(head: str) -> Answer:
    """A response that is all head."""
    return Answer(raw=f"HTTP/1.1 200 OK\r\n{head}".encode())


UNSTORABLE = {
    "content": replying(f"a{HALF}b"),
    "second half": replying("a\udc00b"),
    "escape in a question": replying('{"questions": ["Is it \\ud800?"]}'),
    "escape in prose": replying('Here: {"questions": ["Is it \\uDFFF?"]}'),
    "21 questions": replying(json.dumps({"questions": ["Who?"] * 21})),
    "9,999 questions": replying(json.dumps({"questions": ["a"] * 9_999})),
    "21 tags": replying(f"<questions>{'<question>a</question>' * 21}</questions>"),
    "open tags": replying(f"<questions>{'<question>' * 9_000}</questions>"),
    "a long question": replying(json.dumps({"questions": ["a" * 2_001]})),
    "a long number": replying(f'{{"questions": {"1" * 5_000}}}'),
}


def test_what_cannot_be_stored_is_asked_again_and_never_kept(tmp_path: Path):
    """Once: the second reply is taken. Always: a typed failure that a file can hold."""
    once = [request(n) for n in range(len(UNSTORABLE))]
    always = [request(100 + n) for n in range(len(UNSTORABLE))]
    script = [one for answer in UNSTORABLE.values() for one in (answer, replying(GOOD))]
    script += [one for answer in UNSTORABLE.values() for one in (answer, answer)]
    with served_chat(script, data=tmp_path, concurrency=1) as (served, chat):
        for _ in range(2):
            replies = texts(chat.complete(once, silver_questions))
            assert dict.fromkeys(UNSTORABLE, GOOD) == dict(zip(UNSTORABLE, replies, strict=True))
            assert 2 * len(UNSTORABLE) == len(served.asked)
        failures = dict(zip(UNSTORABLE, chat.complete(always, silver_questions), strict=True))
        assert {"unparsable"} == {*reasons([*failures.values()])}, failures
        assert 4 * len(UNSTORABLE) == len(served.asked)
        for failure in failures.values():
            f"{failure.detail}{failure.text}".encode()
        assert [GOOD] * len(UNSTORABLE) == stored_texts(chat)


NO_LOGPROBS = [
    {"logprob": float("nan")},
    {"logprob": 9.0},
    {"logprob": "high"},
    {"token": 5},
    {"top_logprobs": [{"token": "No", "logprob": float("nan")}]},
]


def test_log_probabilities_that_are_none_are_a_failure_and_asked_for_again(tmp_path: Path):
    """By the next run, where they are the answer; half a character in a token becomes ``?``."""
    many = [request(number, sampling=ONE_TOKEN) for number in range(len(NO_LOGPROBS))]
    with FaultServer(
        [with_tokens(**bad) for bad in NO_LOGPROBS], with_tokens(token=HALF)
    ) as served:
        for reason in ("no_logprobs", None, None):
            with client(served.url, tmp_path, concurrency=1) as chat:
                outcomes = chat.complete(many)
            assert {reason} == set(reasons(outcomes))
        assert 2 * len(NO_LOGPROBS) == len(served.asked)
    assert {"?"} == {each.tokens[0].text for each in outcomes if isinstance(each, ChatReply)}


def test_log_probabilities_that_nobody_needs_spoil_no_reply(tmp_path: Path):
    """The reply is kept without them; who needs them later asks again, and replaces it."""
    one = request(1, sampling=ONE_TOKEN)
    with FaultServer([with_tokens(logprob="high")], with_tokens()) as served:
        with client(served.url, tmp_path, needs_logprobs=False) as chat:
            assert ["Yes", "Yes"] == [chat.complete([one])[0].text for _ in range(2)]
        for _ in range(2):
            with client(served.url, tmp_path) as chat:
                assert chat.complete([one])[0].tokens
        assert 2 == len(served.asked)


HARMLESS = {
    "half of a model": saying(GOOD, model=f"{MODEL}@{HALF}"),
    "half a character": replying(f"{GOOD} {HALF}"),
    "finish reason": Answer(change={"choices": [ODD_CHOICE | {"finish_reason": ["stop"]}]}),
    "half a finish reason": Answer(change={"choices": [ODD_CHOICE | {"finish_reason": HALF}]}),
    "reasoning": Answer(change={"choices": [ODD_CHOICE], "system_fingerprint": HALF}),
    "20 choices": Answer(change={"choices": [ODD_CHOICE] * 20}),
    "created": saying(GOOD, created=10**30),
    "NUL": replying('{"questions": ["a\\u0000b", "c"]}'),
    "usage": using("many"),
    # Of a key that stands twice, the last counts.
    "byte order mark": bodied("\ufeff" + WHOLE),
    "content twice": bodied(WHOLE.replace('"content": ', '"content": "old", "content": ', 1)),
    "usage twice": bodied(WHOLE[:-1] + ', "usage": {"prompt_tokens": -1}}'),
    "no number": bodied(WHOLE[:-1] + ', "created": NaN}'),
    "space around": bodied(f"\r\n {WHOLE}\n\n"),
    # What a header says, in whatever bytes, decides nothing.
    "HTML": Answer(headers={"Content-Type": "text/html"}),
    "events": Answer(headers={"Content-Type": "text/event-stream"}),
    "another code page": Answer(headers={"Content-Type": "application/json; charset=utf-16"}),
    "no code page": Answer(headers={"Content-Type": "application/json; charset=\xff"}),
    "no type": Answer(headers={"Content-Type": ""}),
    "long type": Answer(headers={"Content-Type": "x" * 5_000}),
    "region": Answer(headers={"X-Region": "Zürich \udcff".encode("utf-8", "replace").decode()}),
}


def test_a_good_reply_stays_good_whatever_stands_around_it(tmp_path: Path):
    """What is not read, or is nonsense beside the text, throws no reply away."""
    many = [request(number) for number in range(len(HARMLESS))]
    own = {"NUL": '{"questions": ["a\\u0000b", "c"]}', "half a character": f"{GOOD} ?"}
    with FaultServer([*HARMLESS.values()]) as served:
        for _ in range(2):
            with client(served.url, tmp_path, concurrency=1) as chat:
                outcomes = dict(zip(HARMLESS, chat.complete(many), strict=True))
            for n, (name, outcome) in enumerate(outcomes.items()):
                assert isinstance(outcome, ChatReply), (name, outcome)
                assert outcome.text in {own.get(name, GOOD), well_text(f"q {n}")}, name
        assert len(HARMLESS) == len(served.asked)


NOT_A_REPLY = {
    "error object": bodied('{"error": {"message": "no"}}'),
    "list": bodied("[]"),
    "parts": replying([{"type": "text", "text": 5}]),  # type: ignore[arg-type]
    "nested": bodied('{"choices": ' + "[" * 100_000),
    "chunks": headed("Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "length too long": headed("Content-Length: 999\r\n\r\n{}"),
    "length of digits": headed(f"Content-Length: {'9' * 5_000}\r\n\r\n{{}}"),
    "headers": Answer(raw=b"HTTP/1.1 200 OK\r\n", endless=b"X-A: 1\r\n" * 999),
    "one long header": Answer(raw=b"HTTP/1.1 200 OK\r\nX-A: ", endless=b"1" * 9_999),
    "choices twice": bodied(WHOLE[:-1] + ', "choices": []}'),
    "another code page": Answer(body=WHOLE.replace("Who", "W\xe9").encode("latin-1")),
    "junk behind": bodied(f"{WHOLE}x"),
    "events": bodied(f"data: {WHOLE}\n\n"),
}


@pytest.mark.parametrize("answer", NOT_A_REPLY.values(), ids=NOT_A_REPLY)
def test_what_is_no_reply_costs_one_question(answer: Answer):
    """Bodies and heads of all kinds: typed failures, and the next question is answered."""
    calls = 3 if answer.raw else 1
    with served_chat([answer] * calls, concurrency=1) as (served, chat):
        bad, good = chat.complete([request(1), request(2)])
        assert isinstance(bad, ChatFailure)
        assert bad.reason == "server_error" or (answer.raw and bad.reason == "transport")
        assert (calls + 1, well_text("q 2")) == (len(served.asked), good.text)
        assert served.sent < 20_000_000  # what the sockets hold is sent too


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("header", ["nan", "9" * 5_000, "1000000000"])
def test_no_retry_after_hangs_or_breaks_a_question(header: str, status: int):
    """What is no time to come is not waited for; far off, the question fails by name."""
    headers = {"Retry-After": header, "X-Why": "zu schnell für uns"}
    with served_chat([Answer(status, headers, b"{}")]) as (served, chat):
        (outcome,) = chat.complete([request(1)])
        reason = "rate_limited" if status == 429 else "server_error"
        assert (getattr(outcome, "reason", ""), len(served.asked)) in {(reason, 1), ("", 2)}


DAMAGE = [
    "text = CAST(x'ff00fe' AS TEXT)",
    "text = x'fffe'",
    """text = '{"questions": ["Is it \\ud800?"]}'""",
    f"text = '{json.dumps({'questions': ['a'] * 25})}'",
    "finish_reason = 'tired'",
    "finish_reason = CAST(x'ff' AS TEXT)",
    "tokens = '[['",
    "tokens = '" + "[" * 5_000 + "'",
    "prompt_tokens = 'many'",
    "latency_s = 'long'",
    "reported_model = CAST(x'ff' AS TEXT)",
]


def test_a_stored_reply_that_no_longer_reads_is_asked_again_and_replaced(tmp_path: Path):
    """Damage of every column, and texts of before there was a check: one asking each."""
    many = [request(number) for number in range(len(DAMAGE) + 1)]
    with FaultServer(usual=replying(GOOD)) as served:
        with client(served.url, tmp_path) as chat:
            chat.complete(many, silver_questions)
        with closing(sqlite3.connect(tmp_path / REPLIES_FILE)) as file, file:
            file.execute("UPDATE replies SET digest = NULL")
            keys = [row[0] for row in file.execute("SELECT key FROM replies")]
            for key, change in zip(keys, DAMAGE, strict=False):
                file.execute(f"UPDATE replies SET {change} WHERE key = ?", [key])  # noqa: S608 - ours
        with client(served.url, tmp_path) as chat:
            assert len(many) - 3 == len(stored_texts(chat))  # a BLOB and two numbers are none
        for expected, noticed in (
            (len(DAMAGE), pytest.warns(DamagedReplyWarning, match="asked again")),
            (0, nullcontext()),
        ):
            served.asked.clear()
            with noticed, client(served.url, tmp_path) as chat:
                assert [GOOD] * len(many) == texts(chat.complete(many, silver_questions))
                assert expected == len(served.asked)
                assert len(many) == len(stored_texts(chat))


# Usage


PRICE = Price(prompt=3.0, completion=15.0)
ASKED = Sampling(max_tokens=1_000)
numbers = st.integers() | st.floats() | st.booleans() | st.none() | st.text() | st.just("Infinity")
usages = (
    numbers
    | st.lists(numbers)
    | st.dictionaries(
        st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens"]), numbers
    )
)


@LAW
@given(usages, st.text(max_size=300), st.text(max_size=99))
def test_booked_usage_is_what_the_request_can_have_used(reported: Any, prompt: str, text: str):  # noqa: ANN401 - any JSON
    """Whatever is reported: whole numbers within the bounds, and no cost below nothing."""
    one = ChatRequest((Message("user", prompt),), ASKED, TEMPLATE)
    prompt_tokens, completion_tokens, _ = tokens_of(one, reported, text)
    assert type(prompt_tokens) is type(completion_tokens) is int
    assert 1 <= prompt_tokens <= 6 * len(prompt.encode("utf-8", "replace")) + 2_000
    assert bool(text) <= completion_tokens <= ASKED.max_tokens
    assert PRICE.dollars(prompt_tokens, completion_tokens) > 0


def tokens(prompt: object, completion: object) -> dict[str, object]:
    """A report of usage."""
    return {"prompt_tokens": prompt, "completion_tokens": completion}


IMPLAUSIBLE = {
    "negative": tokens(-(10**9), 5),
    "huge": tokens(10**30, 10**30),
    "zero": tokens(0, 0),
    "no prompt": {"completion_tokens": 5},
    "float": tokens(10.0, 5.0),
    "bool": tokens(prompt=True, completion=True),
    "text": tokens("10", "inf"),
    "nan": tokens(float("nan"), float("inf")),
    "a word": "many",
    "list": [10, 5],
    "nested": tokens({"n": 10}, [5]),
    "more than asked for": tokens(10, 51),
}


def test_usage_that_cannot_be_is_estimated_and_reported(tmp_path: Path):
    """The reply is kept, booked as estimated, and counted under its name."""
    many = [request(number) for number in range(len(IMPLAUSIBLE))]
    expected = [tokens_of(one)[:2] for one in many]
    script = [using(reported) for reported in IMPLAUSIBLE.values()]
    with served_chat(script, data=tmp_path, concurrency=1) as (served, chat):
        booked = [
            (one.prompt_tokens, one.completion_tokens)
            for one in chat.complete(many)
            if isinstance(one, ChatReply)
        ]
        assert dict(zip(IMPLAUSIBLE, expected, strict=True)) == dict(
            zip(IMPLAUSIBLE, booked, strict=True)
        )
        assert len(many) == chat.counts["estimated"]
        totals = (chat.counts["prompt_tokens"], chat.counts["completion_tokens"])
        assert (sum(prompt for prompt, _ in expected), 50 * len(many)) == totals
        with client(served.url, tmp_path) as again:
            assert [None] * len(many) == reasons(again.complete(many))
        assert len(many) == len(served.asked)


@pytest.mark.parametrize(
    ("reported", "every"),
    [(IMPLAUSIBLE["negative"], 1), (IMPLAUSIBLE["zero"], 10), (None, 1), (None, 10)],
)
def test_the_dollar_ceiling_holds_whatever_is_reported(reported: object, every: int):
    """60 questions under a ceiling that stops honest replies at 30: never more than that."""
    guess = tokens_of(request(100, sampling=ASKED))
    dollars = 30 * PRICE.dollars(*guess[:2])
    honest = using(tokens(guess[0], 1_000))
    script = [using(reported) if n % every == 0 else honest for n in range(60)]
    limits = {"prompt_price": 3.0, "completion_price": 15.0, "dollars": dollars * 1.001}
    with served_chat(script, **limits) as (served, chat):
        outcomes = chat.complete([request(n, sampling=ASKED) for n in range(100, 160)])
        assert 30 == len(served.asked) == reasons(outcomes).count(None)
        assert float(chat.details()["chat money_usd"]) <= dollars * 1.001


# Size and time


BOMB = gzip.compress(b" " * 20_000_000)
WITHOUT_END = {
    "body": streaming("200 OK", b" " * 65_536),
    "chunks": streaming(
        "200 OK\r\nTransfer-Encoding: chunked", b"400\r\n" + b" " * 1_024 + b"\r\n"
    ),
    "length": streaming("200 OK\r\nContent-Length: 99999999999999", b" " * 65_536),
    "bomb": Answer(headers={"Content-Encoding": "gzip"}, body=BOMB),
    "bomb without end": streaming("200 OK\r\nContent-Encoding: gzip", BOMB),
}


@pytest.mark.parametrize("answer", WITHOUT_END.values(), ids=WITHOUT_END)
def test_a_body_without_end_is_cut_off(answer: Answer):
    """It stops at the limit, in bytes and not in time; other questions are answered."""
    with served_chat([answer], concurrency=1, most_reply_bytes=300_000) as (served, chat):
        bad, good = chat.complete([request(1), request(2)])
        assert isinstance(bad, ChatFailure)
        assert ("refused", 2) == (bad.reason, len(served.asked))
        assert "300,000 bytes" in bad.detail
        assert well_text("q 2") == good.text
        assert served.sent < 20_000_000


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_refusal_without_end_is_still_a_refusal(status: int):
    """Its status counts; of its words only the beginning is read."""
    endless = streaming(f"{status} X", b"<p>no</p>" * 9_999)
    with served_chat(usual=endless, retries=0) as (served, chat):
        (failure,) = chat.complete([request(1)])
        assert isinstance(failure, ChatFailure)
        assert f"HTTP {status}" in failure.detail
        assert served.sent < 20_000_000


@pytest.mark.parametrize("answer", DRIPPING.values(), ids=DRIPPING)
def test_a_dripping_reply_ends_at_the_deadline(answer: Answer):
    """However slowly it comes, one byte after the other."""
    with served_chat(usual=answer, deadline_s=1.0) as (served, chat):
        assert ["timeout"] == reasons(chat.complete([request(1)]))
        assert 1 == len(served.asked)


def test_no_cookie_is_kept():
    """A jar that an endpoint fills would grow, and tell questions apart."""
    with served_chat(usual=Answer(headers={"Set-Cookie": "a=" + "b" * 4_000})) as (served, chat):
        chat.complete([request(1), request(2)])
        assert not any("cookie" in head.lower() for head in served.heads)
