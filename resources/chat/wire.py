"""Translation between this project's types and the OpenAI chat protocol.

A ``ChatRequest`` becomes the arguments of ``chat.completions.create``; the body of a reply
becomes a ``ChatReply`` or the reason why it is none. No streaming, tools or several choices.
A ``KeyedRequest`` decides whether a reply, received or stored, is usable, and gives it its value.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from decomposerl.chat import (
    ChatFailure,
    ChatReply,
    ChatRequest,
    FailureReason,
    FinishReason,
    Parse,
    Token,
)
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from resources.chat.budget import Usage

_FINISHES: dict[str, FinishReason] = {name: name for name in get_args(FinishReason)}
_ROUNDING = 1e-3  # the most by which a log probability may exceed 0
_DIGITS = 400  # a number with more digits is no finite float

# An endpoint that fails one request in this way fails all.
_LASTING: set[FailureReason] = {"wrong_model", "no_logprobs"}
_SNAPSHOT = r"(-\d{4}(-?\d{2}-?\d{2})?|@.+)?"  # gpt-5-mini-2025-08-07, gpt-4-0613, name@main
_DATE = r"(-\d{4}-\d{2}-\d{2})?"
# The least reasoning effort that OpenAI's reasoning models accept. Others (pro, chat and codex
# variants, later families) are not known: the client refuses to switch their thinking off.
_LEAST_EFFORT = {
    rf"(o1|o3|o3-mini|o4-mini){_DATE}": "low",
    rf"gpt-5(-mini|-nano)?{_DATE}": "minimal",
    rf"gpt-5\.[1-9]\d*(-mini|-nano)?{_DATE}": "none",
}
_UNSTORABLE = "the reply holds half a surrogate pair, which is no text and cannot be stored"


Outcome = ChatReply[Any] | ChatFailure


class Garbled(ValueError):  # noqa: N818 - the name is what happened
    """The body of a reply is not a chat completion; the endpoint is at fault."""


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


def as_sent(request: ChatRequest, endpoint: Endpoint) -> ChatRequest:
    """The request as it is sent, without what the endpoint does not support.

    Its canonical text is the key of the answer, so replies with and without an enforced
    schema, for example, are never confused.

    Raises:
        ConfigError: thinking is to be switched in a way that the model does not know.
    """
    style = endpoint.style
    if request.schema is not None and not endpoint.enforces_schemas:
        request = replace(request, schema=None)
    if request.thinking is not None and style == "none":
        request = replace(request, thinking=None)
    if style != "qwen" or request.thinking is False:
        request = replace(request, thinking_tokens=None)
    if style == "openai":
        if request.thinking is not None:
            effort_of(endpoint.model, thinking=request.thinking)
        plain = replace(request.sampling, temperature=1.0, top_p=1.0, stop=())
        request = replace(request, sampling=plain)
    return request


def names_the_model(endpoint: Endpoint, sent_as: str, reported: str) -> bool:
    """Whether a reply that reports this model name comes from the requested model."""
    own = re.fullmatch(re.escape(endpoint.model) + _SNAPSHOT, reported)
    return own is not None or reported in (*endpoint.served_as, sent_as)


def arguments_of(request: ChatRequest, endpoint: Endpoint, sent_as: str) -> dict[str, Any]:
    """Arguments of ``create`` for a request that went through ``as_sent``.

    ``sent_as`` is the model's name in requests. A conversation that ends with the assistant's turn
    requests its continuation, as vLLM supports it.
    """
    sampling, style = request.sampling, endpoint.style
    arguments: dict[str, Any] = {
        "model": sent_as,
        "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
    }
    if style == "openai":
        arguments["max_completion_tokens"] = sampling.max_tokens
    else:
        arguments |= {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
    if sampling.seed is not None:
        arguments["seed"] = sampling.seed
    if sampling.stop:
        arguments["stop"] = list(sampling.stop)
    if sampling.top_logprobs:
        arguments |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
    if request.schema is not None:
        schema = {"name": "reply", "schema": json.loads(request.schema), "strict": True}
        arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
    further = _of_template(request)
    if request.thinking is not None and style == "openai":
        arguments["reasoning_effort"] = effort_of(endpoint.model, thinking=request.thinking)
    elif request.thinking is not None:
        switched = {"enable_thinking": request.thinking}
        further["chat_template_kwargs"] = further.get("chat_template_kwargs", {}) | switched
    if request.thinking_tokens is not None:
        further["thinking_token_budget"] = request.thinking_tokens  # vLLM's name
    return arguments | ({"extra_body": further} if further else {})


def _of_template(request: ChatRequest) -> dict[str, Any]:
    """What the model's chat template is given besides the messages, by vLLM's names."""
    if request.documents:
        texts = enumerate(request.documents)
        return {
            "documents": [{"doc_id": str(place), "text": text} for place, text in texts],
            "chat_template_kwargs": json.loads(request.template_arguments or "{}"),
        }
    if request.messages and request.messages[-1].role == "assistant":
        return {"add_generation_prompt": False, "continue_final_message": True}
    return {}


def read_reply(
    body: bytes, latency_s: float, request: ChatRequest, *, needs_logprobs: bool
) -> tuple[ChatReply[None], str, Usage]:
    """The reply in a body, what came in place of its text, and its token usage.

    Text and model are required, and log probabilities where they are needed; a text may come in
    parts, an unknown finish reason becomes ``other``, implausible usage is estimated.

    Raises:
        Garbled: the body is not JSON, or lacks a required field of a chat completion.
    """
    try:
        data = json.loads(body, parse_int=_whole)
        choice = data["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text = _joined(message.get("content"))
        usage = Usage.of(data.get("usage"), request, text)
        reply: ChatReply[None] = ChatReply(
            text=text,
            finish_reason=_FINISHES.get(finish, "other") if isinstance(finish, str) else "other",
            model=_text(data.get("model")),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            latency_s=latency_s,
            tokens=_tokens(choice.get("logprobs"), needed=needs_logprobs),
        )
        instead = ""
        if refusal := _text(message.get("refusal")):
            instead = f"the model refused ({refusal})"
        elif message.get("reasoning_content") or message.get("reasoning"):
            instead = "reasoning alone came"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        shown = body.decode("utf-8", "replace")  # the key is removed before it is cut
        text = f"the reply is not a chat completion ({type(error).__name__}): {shown}"
        raise Garbled(text) from None
    return reply, instead, usage


def failure_of(
    reply: ChatReply[None],
    instead: str,
    request: ChatRequest,
    *,
    attempts: int,
    unknown: str,
    needs_logprobs: bool,
) -> ChatFailure | None:
    """Why a reply cannot be used, None where it can.

    ``instead`` is what came for its text; ``unknown`` is the model that was asked for where the
    reply is of another.
    """

    def failure(reason: FailureReason, detail: str) -> ChatFailure:
        return ChatFailure(reason, detail, attempts, reply.text, lasting=reason in _LASTING)

    if unknown:
        line = f"served_as = [{json.dumps(reply.model)}]"
        detail = f"asked for {unknown!r}, the endpoint serves {reply.model!r}"
        return failure("wrong_model", f"{detail}; if they are the same model, add {line}")
    if not _is_storable(reply):
        return failure("unparsable", _UNSTORABLE)
    budget = f"the budget of {request.sampling.max_tokens} tokens"
    if not reply.text.strip() and not reply.tokens:
        ended = ""
        if reply.finish_reason == "length":
            ended = f" and {budget} ended: raise thinking_tokens, or the limit of its replies"
        content = f"{instead or 'no text came'}{ended}"
        return failure("empty", f"{content}; {reply.completion_tokens} tokens were used")
    if needs_logprobs and _lacks_logprobs(reply, request):
        return failure("no_logprobs", "the reply has no log probabilities; vLLM gives them")
    # A request for one token with its log probabilities ends at its budget on purpose.
    if reply.finish_reason == "length" and not _is_one_token(request):
        return failure("truncated", f"{budget} ended before the reply did")
    return None


def request_key(request: ChatRequest, model: str, revision: str) -> str:
    """64 hex digits of SHA-256 over the request's canonical text."""
    text = request.canonical(model, revision)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with its key, and the parser that decides whether a reply is usable."""

    key: str
    request: ChatRequest
    parse: Parse[Any] | None
    needs_logprobs: bool

    def read(self, reply: ChatReply[Any]) -> tuple[ChatReply[Any] | None, str]:
        """The reply with its value; None, and why, where it is unusable.

        Implausible usage of a stored reply is replaced by an estimate.
        """
        if self.needs_logprobs and _lacks_logprobs(reply, self.request):
            return None, "the reply carries no log probabilities"
        try:
            value = self.parse(reply) if self.parse is not None else None
            # Every table must be able to hold what the parser returns.
            json.dumps(value, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError:
            return None, _UNSTORABLE
        except (ValueError, RecursionError) as error:  # the latter from deep nesting
            return None, as_utf8(str(error)) or type(error).__name__
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        if reply.cached:
            reported = {"prompt_tokens": prompt, "completion_tokens": completion}
            used = Usage.of(reported, self.request, reply.text)
            prompt, completion = used.prompt_tokens, used.completion_tokens
        read = replace(reply, value=value, prompt_tokens=prompt, completion_tokens=completion)
        return read, ""


def readable(
    keyed: Mapping[str, KeyedRequest], stored: Mapping[str, ChatReply[Any]]
) -> dict[str, ChatReply[Any]]:
    """The stored replies that answer one of these requests, with their values, by key."""
    return {
        key: read
        for key, reply in stored.items()
        if key in keyed and (read := keyed[key].read(reply)[0]) is not None
    }


def _lacks_logprobs(reply: ChatReply[Any], request: ChatRequest) -> bool:
    """Whether requested log probabilities are missing."""
    given = reply.tokens and reply.tokens[0].alternatives
    return request.sampling.top_logprobs > 0 and not given


def _is_one_token(request: ChatRequest) -> bool:
    return request.sampling.max_tokens == 1 and request.sampling.top_logprobs > 0


def _is_storable(reply: ChatReply[None]) -> bool:
    """Whether the texts of a reply are valid UTF-8, so that every file can hold them."""
    texts = [reply.text, reply.model]
    for token in reply.tokens:
        texts += [token.text, *(text for text, _ in token.alternatives)]
    return all(text == as_utf8(text) for text in texts)


def as_utf8(text: str) -> str:
    """The text with lone surrogates, which JSON allows and UTF-8 does not, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _tokens(logprobs: Any, *, needed: bool) -> tuple[Token, ...]:  # noqa: ANN401 - JSON
    try:
        return tuple(
            Token(
                _text(entry["token"]),
                _logprob(entry["logprob"]),
                tuple(
                    (_text(other["token"]), _logprob(other["logprob"]))
                    for other in entry.get("top_logprobs") or ()
                ),
            )
            for entry in (logprobs or {}).get("content") or ()
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        if needed:
            raise
        return ()


def _logprob(number: Any) -> float:  # noqa: ANN401 - JSON
    value = float(number)
    if not value <= _ROUNDING:
        raise ValueError(f"a log probability is {value}")
    return value


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value or "", str):
        raise TypeError(f"a text is {type(value).__name__}")
    return value or ""


def _joined(content: Any) -> str:  # noqa: ANN401 - JSON
    """A message's text, also where it comes in parts; parts of thought are none of it."""
    if not isinstance(content, list):
        return _text(content)
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    return "".join(_text(part.get("text")) for part in parts if part.get("type") in {None, "text"})


def _whole(digits: str) -> float:
    """An integer; infinite where it has too many digits, so that parsing does not fail."""
    return int(digits) if len(digits) < _DIGITS else math.copysign(math.inf, float(digits[:2]))
