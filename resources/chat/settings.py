"""Settings of a chat client: the model, its endpoints, limits, prices and how it thinks.

Keys are not settings (``ChatClient`` takes one in memory), and sampling is part of a request.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from decomposerl.chat import ChatRequest, Price
from decomposerl.endpoint import MOST_REPLY_BYTES, ThinkingStyle
from decomposerl.errors import ConfigError
from decomposerl.settings import Settings

_SNAPSHOT = r"(-\d{4}(-?\d{2}-?\d{2})?|@.+)?"  # gpt-5-mini-2025-08-07, gpt-4-0613, name@main

_FRAME_BYTES = 2**18  # what the endpoint adds to the model's text: headers, filters, echoes
_BYTES_A_TOKEN = 256  # of JSON-escaped text, twice where reasoning has two names


_DATE = r"(-\d{4}-\d{2}-\d{2})?"
# The least reasoning effort that OpenAI's reasoning models accept. Others (pro, chat and codex
# variants, later families) are not known: the client refuses to switch their thinking off.
_LEAST_EFFORT = {
    rf"(o1|o3|o3-mini|o4-mini){_DATE}": "low",
    rf"gpt-5(-mini|-nano)?{_DATE}": "minimal",
    rf"gpt-5\.[1-9]\d*(-mini|-nano)?{_DATE}": "none",
}


def effort_of(model: str, *, thinking: bool) -> str:
    """The ``reasoning_effort`` that switches a model's thinking on, or off as far as it goes.

    Raises:
        ConfigError: it is to be switched off, and what the model accepts is not known.
    """
    if thinking:
        return "medium"
    for names, least in _LEAST_EFFORT.items():
        if re.fullmatch(names, model.rpartition("/")[2]):
            return least
    raise ConfigError(
        f"how to switch off the thinking of '{model}' is not known (it is for o1, o3, o4-mini, "
        "gpt-5 and gpt-5.1 with their mini and nano); leave thinking at its default"
    )


class Ceilings(Settings):
    """The most that one client may use; None for no ceiling."""

    calls: int | None = Field(None, ge=0, description="HTTP requests, retries included")
    tokens: int | None = Field(None, ge=0, description="prompt and completion tokens together")
    money: float | None = Field(None, ge=0, description="US dollars, by the price table")


class ChatSettings(Settings):
    """One model behind one or more endpoints, and the limits of calling it."""

    model: str = Field(min_length=1, description="the model's name as the endpoints know it")
    revision: str = Field("", description="weights or snapshot; each has its own stored replies")
    find_revision: Callable[[], str] | None = Field(
        None, description="gives the revision at the first use, in place of ``revision``"
    )
    endpoints: tuple[str, ...] = Field(
        (),
        description="base URLs ending in /v1; the least loaded is used",
    )
    sent_as: str = Field(
        "", description="the model's name in requests, where it is not that of its stored replies"
    )
    served_as: tuple[str, ...] = Field(
        (), description="further names by which an endpoint may report the same model"
    )
    concurrency: int = Field(256, ge=1, description="most requests in flight, over all endpoints")
    requests_per_minute: float | None = Field(
        None, gt=0, description="most requests a minute, None for no limit"
    )
    tokens_per_minute: float | None = Field(
        None, gt=0, description="most tokens a minute (estimated before), None for no limit"
    )
    call_deadline_s: float = Field(
        300.0,
        gt=0,
        description="seconds for one request with its retries, from its first attempt, or from the "
        "latest reply to a call that the endpoint got before it",
    )
    queue_deadline_s: float = Field(
        1_800.0,
        gt=0,
        description="most seconds for one request where replies to earlier calls keep coming",
    )
    batch_deadline_s: float | None = Field(
        None, gt=0, description="seconds for one batch, None for no deadline"
    )
    most_reply_bytes: int = Field(
        MOST_REPLY_BYTES,
        ge=1,
        description="most bytes of one reply, however many tokens it may have",
    )
    attempts: int = Field(5, ge=1, description="most attempts per request")
    circuit_cooldown_s: float = Field(
        10.0, gt=0, description="seconds between trials of an endpoint that failed too often"
    )
    circuit_patience_s: float = Field(
        120.0,
        ge=0,
        description="seconds to wait for a failing endpoint before calls fail; at most 10 for one "
        "that no call has reached",
    )
    prices: dict[str, Price] = Field(
        default_factory=dict, description="price table, by model name; a local model costs nothing"
    )
    ceilings: Ceilings = Field(Ceilings(), description="most calls, tokens and money of a run")
    structured: bool = Field(
        default=False, description="whether the endpoints enforce a JSON schema"
    )
    needs_logprobs: bool = Field(
        default=True, description="whether a reply without requested log probabilities is a failure"
    )
    thinking_style: ThinkingStyle = Field(
        "none",
        description="how thinking is switched: not at all, chat_template_kwargs of vLLM and Qwen, "
        "or OpenAI's reasoning models, which also refuse temperature, top_p and stop",
    )

    @field_validator("endpoints")
    @classmethod
    def _are_plain_urls(cls, endpoints: tuple[str, ...]) -> tuple[str, ...]:
        for endpoint in endpoints:
            parts = urlsplit(endpoint)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ValueError("an endpoint is an http or https URL that ends in /v1")
            if parts.username or parts.password or parts.query:
                raise ValueError("an endpoint has no user, password or query; set keys separately")
        return endpoints

    @model_validator(mode="after")
    def _money_has_a_price(self) -> Self:
        if self.ceilings.money is not None and self.model not in self.prices:
            raise ValueError(f"a ceiling in money needs a price of {self.model!r} in prices")
        return self

    def at(self, endpoints: tuple[str, ...]) -> Self:
        """The same settings with these endpoints."""
        return type(self)(**{**dict(self), "endpoints": endpoints})

    @property
    def used_revision(self) -> str:
        """The revision that is part of the engine's name and of the keys of stored replies."""
        return self.revision if self.find_revision is None else self.find_revision()

    @property
    def price(self) -> Price:
        """The model's price; zero where the table does not name it."""
        return self.prices.get(self.model, Price())

    @property
    def wire_name(self) -> str:
        """The model's name in requests."""
        return self.sent_as or self.model

    def reply_bytes(self, request: ChatRequest) -> int:
        """The most bytes that the body of a reply may have, a multiple of what it can need."""
        likely = request.sampling.top_logprobs
        tokens = request.sampling.max_tokens * (2 + likely if likely else 1)
        return min(self.most_reply_bytes, _FRAME_BYTES + _BYTES_A_TOKEN * tokens)

    def names_the_model(self, reported: str) -> bool:
        """Whether a reply that reports this model name comes from the requested model."""
        own = re.fullmatch(re.escape(self.model) + _SNAPSHOT, reported)
        return own is not None or reported in (*self.served_as, self.wire_name)

    def as_sent(self, request: ChatRequest) -> ChatRequest:
        """The request as it is sent, without what the endpoints do not support.

        Its canonical text is the key of the answer, so replies with and without an enforced
        schema, for example, are never confused.

        Raises:
            ConfigError: thinking is to be switched in a way that the model does not know.
        """
        if request.schema is not None and not self.structured:
            request = replace(request, schema=None)
        if request.thinking is not None and self.thinking_style == "none":
            request = replace(request, thinking=None)
        if self.thinking_style != "qwen" or request.thinking is False:
            request = replace(request, thinking_tokens=None)
        if self.thinking_style == "openai":
            if request.thinking is not None:
                effort_of(self.model, thinking=request.thinking)
            plain = replace(request.sampling, temperature=1.0, top_p=1.0, stop=())
            request = replace(request, sampling=plain)
        return request

    def repeated(self, request: ChatRequest, *, cut: bool) -> ChatRequest:
        """The second request, as it is sent; ``cut``: the first reply was cut off."""
        return self.as_sent(request.repeated(cut=cut, switch=self.thinking_style == "qwen"))
