"""Requests and settings for tests of the chat client."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from hypothesis import strategies as st

from decomposerl.chat import (
    ChatFailure,
    ChatReply,
    ChatRequest,
    Message,
    Parse,
    Sampling,
    Template,
    Token,
)
from decomposerl.endpoint import Endpoint
from decomposerl.prompts.silver import read_questions
from fault_server import MODEL
from resources.chat.reply_store import ReplyStore
from resources.store.chat_replies import replies_in

PLAIN = Sampling(max_tokens=50)
TEMPLATE = Template("silver", "0f")


def request(number: int, **changes: object) -> ChatRequest:
    """A distinct question for each number."""
    made: dict[str, Any] = {"sampling": PLAIN, "template": TEMPLATE} | changes
    return ChatRequest((Message("system", "Be brief."), Message("user", f"q {number}")), **made)


def settings(*urls: str, **changes: object) -> Endpoint:
    """The fault server's model; the deadline is short."""
    short: dict[str, Any] = {"deadline_s": 20.0, "concurrency": 16}
    return Endpoint(model=MODEL, base_url=urls, **(short | changes))


def reply(text: str, **changes: object) -> ChatReply:
    """A reply as the client hands it out."""
    made: dict[str, Any] = {"prompt_tokens": 3, "completion_tokens": 2, "latency_s": 0.5}
    return ChatReply(text, "stop", MODEL, **(made | changes))


def frame_of(store: ReplyStore) -> pl.DataFrame:
    """Every stored reply, all models and revisions, as a ``CHAT_REPLIES`` table."""
    return replies_in(store.path)


def silver_questions(reply: ChatReply[object]) -> list[str]:
    """The parser of silver replies, as the client takes one."""
    return read_questions(reply.text)


def parsed(text: str, parse: Parse[Any] | None) -> ChatReply[Any] | ChatFailure:
    """What a client makes of a model's text."""
    plain: ChatReply[Any] = ChatReply(text, "stop", "m", 1, 1, 0.0)
    try:
        return replace(plain, value=parse(plain) if parse else None)
    except ValueError as error:
        return ChatFailure("unparsable", str(error), text)


class NothingStored:
    """What a chat with an empty store answers; base of hand-written chats."""

    def recall(self, requests: Sequence[ChatRequest]) -> list[None]:
        """None for each request."""
        return [None] * len(requests)

    def details(self) -> dict[str, int | float | str]:
        """It counts nothing."""
        return {}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
samplings = st.builds(
    Sampling,
    temperature=st.floats(0, 2).map(abs),
    top_p=st.floats(0, 1).map(abs),
    seed=st.none() | st.integers(0, 3),
    max_tokens=st.integers(1, 3),
    stop=st.lists(texts, max_size=2).map(tuple),
    top_logprobs=st.integers(0, 20),
)
requests = st.builds(
    ChatRequest,
    messages=st.lists(
        st.builds(Message, st.sampled_from(["system", "user", "assistant"]), texts), max_size=3
    ).map(tuple),
    sampling=samplings,
    template=st.builds(Template, texts, texts),
    thinking=st.sampled_from([None, True, False]),
    schema=st.none() | texts,
)
logprobs = st.floats(-50, 0)
replies = st.builds(
    ChatReply,
    text=texts,
    finish_reason=st.sampled_from(["stop", "length", "content_filter", "other"]),
    model=texts,
    prompt_tokens=st.integers(0, 9),
    completion_tokens=st.integers(0, 9),
    latency_s=st.floats(0, 9),
    tokens=st.lists(
        st.builds(
            Token, texts, logprobs, st.lists(st.tuples(texts, logprobs), max_size=2).map(tuple)
        ),
        max_size=2,
    ).map(tuple),
)
