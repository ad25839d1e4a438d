"""How one chat model is reached and what asking it may cost.

Takes plain values, gives one frozen ``ChatSettings``.

Left out deliberately: keys (``ChatClient`` takes one in memory) and sampling, which is part
of each request.
"""

import re
from dataclasses import replace
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from decomposerl.chat import ChatRequest
from decomposerl.settings import Settings
from resources.chat.reasoning import effort_of

ThinkingStyle = Literal["none", "qwen", "openai"]
_SNAPSHOT = r"(-\d{4}(-?\d{2}-?\d{2})?|@.+)?"  # gpt-5-mini-2025-08-07, gpt-4-0613, name@main

MOST_REPLY_BYTES = 2**25
"""A cut-off for replies of any size, 32 MiB; most replies are cut off far below it."""
_FRAME_BYTES = 2**18  # all of a reply's body that is not the model's: headers, filters, echoes
_BYTES_A_TOKEN = 256  # of text, as JSON escapes it, twice where reasoning comes under two names


class Price(Settings):
    """What a model charges."""

    prompt: float = Field(0.0, ge=0, description="US dollars a million prompt tokens")
    completion: float = Field(0.0, ge=0, description="US dollars a million completion tokens")


class Ceilings(Settings):
    """The most that one client may use; None is no ceiling."""

    calls: int | None = Field(None, ge=0, description="HTTP requests, retries included")
    tokens: int | None = Field(None, ge=0, description="prompt and completion tokens together")
    money: float | None = Field(None, ge=0, description="US dollars, by the price table")


class ChatSettings(Settings):
    """One model behind one or more endpoints, and the limits of asking it."""

    model: str = Field(min_length=1, description="the model's name as the endpoints know it")
    revision: str = Field("", description="weights or snapshot; replies of two are kept apart")
    endpoints: tuple[str, ...] = Field(
        min_length=1, description="base URLs ending in /v1; the least loaded is asked"
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
        300.0, gt=0, description="seconds for one request with its retries, from its first sending"
    )
    batch_deadline_s: float | None = Field(
        None, gt=0, description="seconds for one batch, None for no deadline"
    )
    most_reply_bytes: int = Field(
        MOST_REPLY_BYTES,
        ge=1,
        description="most bytes of one reply, however many tokens it may have",
    )
    attempts: int = Field(5, ge=1, description="how often one request is sent at most")
    circuit_cooldown_s: float = Field(
        10.0, gt=0, description="seconds between trials of an endpoint that failed too often"
    )
    circuit_patience_s: float = Field(
        120.0, ge=0, description="seconds a failing endpoint is waited for before calls fail"
    )
    prices: dict[str, Price] = Field(
        default_factory=dict, description="price table, by model name; a local model costs nothing"
    )
    ceilings: Ceilings = Field(Ceilings(), description="most calls, tokens and money of a run")
    structured: bool = Field(
        default=False, description="whether the endpoints enforce a JSON schema"
    )
    needs_logprobs: bool = Field(
        default=True, description="whether a reply without those asked for is a failure"
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
                raise ValueError(f"an endpoint is an http or https URL, not {endpoint!r}")
            if parts.username or parts.password or parts.query:
                raise ValueError("an endpoint carries no user, password or query; keys go apart")
        return endpoints

    @model_validator(mode="after")
    def _money_has_a_price(self) -> Self:
        if self.ceilings.money is not None and self.model not in self.prices:
            raise ValueError(f"a ceiling in money needs a price of {self.model!r} in prices")
        return self

    @property
    def price(self) -> Price:
        """The model's price, nothing where the table does not name it."""
        return self.prices.get(self.model, Price())

    def reply_bytes(self, request: ChatRequest) -> int:
        """The most bytes that the body of a reply may have, a multiple of what it can need."""
        likely = request.sampling.top_logprobs
        tokens = request.sampling.max_tokens * (2 + likely if likely else 1)
        return min(self.most_reply_bytes, _FRAME_BYTES + _BYTES_A_TOKEN * tokens)

    def names_the_model(self, reported: str) -> bool:
        """Whether a reply that reports this model name comes from the model asked for."""
        own = re.fullmatch(re.escape(self.model) + _SNAPSHOT, reported)
        return own is not None or reported in self.served_as

    def as_asked(self, request: ChatRequest) -> ChatRequest:
        """The request as the endpoints see it: what is never sent decides no answer.

        Its canonical text names the answer, so replies with and without an enforced schema,
        for example, are never taken for each other.

        Raises:
            ConfigError: thinking is to be switched in a way that the model does not know.
        """
        if request.schema is not None and not self.structured:
            request = replace(request, schema=None)
        if request.thinking is not None and self.thinking_style == "none":
            request = replace(request, thinking=None)
        if self.thinking_style == "openai":
            if request.thinking is not None:
                effort_of(self.model, thinking=request.thinking)
            plain = replace(request.sampling, temperature=1.0, top_p=1.0, stop=())
            request = replace(request, sampling=plain)
        return request
