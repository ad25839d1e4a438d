"""Requests and replies as frames: one row a question, one row an outcome, in the same order.

Takes a frame with the columns of ``REQUESTS``; gives one with the columns of ``REPLIES``,
where a failed row has a null ``text`` and a ``failure`` of ``decomposerl.chat``.

Left out deliberately: other columns. The caller joins by position (``pl.concat`` of both).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from decomposerl.chat import (
    Chat,
    ChatFailure,
    ChatReply,
    ChatRequest,
    Message,
    Sampling,
    Template,
)
from decomposerl.errors import SchemaError

REQUESTS = pl.Schema(
    {
        "messages": pl.List(pl.Struct({"role": pl.String, "content": pl.String})),
        "temperature": pl.Float64(),
        "top_p": pl.Float64(),
        "seed": pl.Int64(),
        "max_tokens": pl.Int64(),
        "stop": pl.List(pl.String()),
        "top_logprobs": pl.Int64(),
        "template": pl.Struct({"name": pl.String, "digest": pl.String}),
        "thinking": pl.Boolean(),
        "schema": pl.String(),
    }
)
_LIKELY = pl.Struct({"text": pl.String, "logprob": pl.Float64})
_TOKEN = pl.Struct(
    {"text": pl.String, "logprob": pl.Float64, "alternatives": pl.List(_LIKELY)},
)
REPLIES = pl.Schema(
    {
        "text": pl.String(),
        "finish_reason": pl.String(),
        "model": pl.String(),
        "prompt_tokens": pl.Int64(),
        "completion_tokens": pl.Int64(),
        "latency_s": pl.Float64(),
        "cached": pl.Boolean(),
        "tokens": pl.List(_TOKEN),
        "failure": pl.String(),
        "detail": pl.String(),
        "attempts": pl.Int64(),
        "failed_text": pl.String(),
    }
)


def complete_frame(
    chat: Chat, requests: pl.DataFrame, parse: Callable[[str], Any] | None = None
) -> pl.DataFrame:
    """The outcome of each row, in order (columns: ``REPLIES``).

    Raises:
        SchemaError: a column of ``REQUESTS`` is missing or of another type.
    """
    return frame_of_outcomes(chat.complete(requests_of_frame(requests), parse))


def frame_of_requests(requests: Sequence[ChatRequest]) -> pl.DataFrame:
    """One row a request (columns: ``REQUESTS``)."""
    rows = [_flat(asdict(request)) for request in requests]
    return pl.DataFrame(rows, schema=REQUESTS)


def requests_of_frame(frame: pl.DataFrame) -> list[ChatRequest]:
    """The requests of a frame; the inverse of ``frame_of_requests``.

    Raises:
        SchemaError: a column of ``REQUESTS`` is missing or of another type.
    """
    wrong = [name for name, kind in REQUESTS.items() if frame.schema.get(name) != kind]
    if wrong:
        raise SchemaError(f"requests lack columns, or have them in another type: {wrong}")
    return [_request(row) for row in frame.select(REQUESTS.names()).iter_rows(named=True)]


def frame_of_outcomes(outcomes: Sequence[ChatReply | ChatFailure]) -> pl.DataFrame:
    """One row an outcome (columns: ``REPLIES``)."""
    return pl.DataFrame([_outcome(one) for one in outcomes], schema=REPLIES)


def _flat(request: dict[str, Any]) -> dict[str, Any]:
    sampling: dict[str, Any] = request.pop("sampling")
    return request | sampling


def _request(row: dict[str, Any]) -> ChatRequest:
    sampling = {name: row[name] for name in Sampling.__dataclass_fields__}
    return ChatRequest(
        messages=tuple(Message(**turn) for turn in row["messages"]),
        sampling=Sampling(**sampling | {"stop": tuple(row["stop"])}),
        template=Template(**row["template"]),
        thinking=row["thinking"],
        schema=row["schema"],
    )


def _outcome(outcome: ChatReply | ChatFailure) -> dict[str, Any]:
    if isinstance(outcome, ChatFailure):
        return {
            "failure": outcome.reason,
            "detail": outcome.detail,
            "attempts": outcome.attempts,
            "failed_text": outcome.text,
        }
    tokens = [
        {
            "text": token.text,
            "logprob": token.logprob,
            "alternatives": [{"text": t, "logprob": p} for t, p in token.alternatives],
        }
        for token in outcome.tokens
    ]
    return asdict(outcome) | {"tokens": tokens}
