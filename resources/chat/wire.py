"""Translation between this project's types and the OpenAI chat protocol.

A ``ChatRequest`` becomes the arguments of ``chat.completions.create``; the body of a reply
becomes a ``ChatReply`` or the reason why it is none. No streaming, tools or several choices.
A ``KeyedRequest`` decides whether a reply, received or stored, is usable, and gives it its value.
"""

import hashlib
import json
import re
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, get_args

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, FinishReason, Parse, Token
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError

COUNTERS = (
    "asked",  # requests received
    "hits",  # distinct requests answered from the store
    "shared",  # requests answered by an equal one of the same batch or in flight
    "calls",  # HTTP requests, the package's retries included
    "retries",  # calls that repeated a failed one
    "estimated",  # calls without plausible reported usage, accounted with an estimate
    "prompt_tokens",  # as the replies report them, else estimated
    "completion_tokens",
    "busy_s",  # wall time in which at least one request was waited for
)
_FINISHES: dict[str, FinishReason] = {name: name for name in get_args(FinishReason)}
_CHARACTERS_A_TOKEN = 3.0  # English has about four; three leaves room for tables and names
_TOKENS_A_MESSAGE = 8
_TEMPLATE_TOKENS = 1_024  # the most that chat templates add: a system prompt, a schema's frame
_ROUNDING = 1e-3  # the most by which a log probability may exceed 0
_SNAPSHOT = r"(-\d{4}(-?\d{2}-?\d{2})?|@.+)?"  # gpt-5-mini-2025-08-07, gpt-4-0613, name@main
_DATE = r"(-\d{4}-\d{2}-\d{2})?"
# The least reasoning effort that OpenAI's reasoning models accept. Others (pro, chat and codex
# variants, later families) are not known: the client refuses to switch their thinking off.
_LEAST_EFFORT = {
    rf"(o1|o3|o3-mini|o4-mini){_DATE}": "low",
    rf"gpt-5(-mini|-nano)?{_DATE}": "minimal",
    rf"gpt-5\.[1-9]\d*(-mini|-nano)?{_DATE}": "none",
}
Outcome = ChatReply[Any] | ChatFailure
Usage = tuple[int, int, bool]


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
    sampling, own = request.sampling, endpoint.style == "openai"
    further, effort, schema = dict[str, Any](), None, None
    if request.documents:
        texts = enumerate(request.documents)
        further["documents"] = [{"doc_id": str(place), "text": text} for place, text in texts]
        further["chat_template_kwargs"] = json.loads(request.template_arguments or "{}")
    elif request.messages and request.messages[-1].role == "assistant":
        further |= {"add_generation_prompt": False, "continue_final_message": True}
    if request.schema is not None:
        written = {"name": "reply", "schema": json.loads(request.schema), "strict": True}
        schema = {"type": "json_schema", "json_schema": written}
    if request.thinking is not None and own:
        effort = effort_of(endpoint.model, thinking=request.thinking)
    elif request.thinking is not None:
        switched = {"enable_thinking": request.thinking}
        further["chat_template_kwargs"] = further.get("chat_template_kwargs", {}) | switched
    if request.thinking_tokens is not None:
        further["thinking_token_budget"] = request.thinking_tokens  # vLLM's name
    arguments = {
        "model": sent_as,
        "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
        "max_completion_tokens" if own else "max_tokens": sampling.max_tokens,
        "temperature": None if own else sampling.temperature,
        "top_p": None if own else sampling.top_p,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "logprobs": bool(sampling.top_logprobs) or None,
        "top_logprobs": sampling.top_logprobs or None,
        "response_format": schema,
        "reasoning_effort": effort,
        "extra_body": further or None,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def read_reply(
    body: bytes, latency_s: float, request: ChatRequest
) -> tuple[ChatReply[None], str, bool]:
    """The reply in a body, its refusal, and whether its usage is estimated, being implausible.

    A text may come in parts; an unknown finish reason becomes ``other``, and log
    probabilities that are none are left out.

    Raises:
        Garbled: the body is not JSON, or lacks a required field of a chat completion.
    """
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text, refusal = _joined(message.get("content")), _text(message.get("refusal"))
        prompt_tokens, completion_tokens, estimated = tokens_of(request, data.get("usage"), text)
        reply: ChatReply[None] = ChatReply(
            text=text,
            finish_reason=_FINISHES.get(finish, "other") if isinstance(finish, str) else "other",
            model=_text(data.get("model")),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            latency_s=latency_s,
            tokens=_tokens(choice.get("logprobs")),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        shown = body.decode("utf-8", "replace")  # the key is removed before it is cut
        text = f"the reply is not a chat completion ({type(error).__name__}): {shown}"
        raise Garbled(text) from None
    return reply, refusal, estimated


def tokens_of(request: ChatRequest, reported: object = None, text: str = "") -> Usage:
    """Tokens of prompt and reply, and whether they are estimated: the most that a call may use.

    The ``usage`` that is ``reported`` for a reply with this text counts where it is plausible: a
    prompt has from one token to one per byte and those of the template, a reply from one, if it has
    text, to ``max_tokens``.
    """
    budget, messages = request.sampling.max_tokens, request.messages
    usage = reported if isinstance(reported, dict) else {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is int and type(completion) is int:  # True is no number of tokens
        most = len(request.canonical("", "").encode("utf-8", "replace")) + _TEMPLATE_TOKENS
        if 1 <= prompt <= most and bool(text) <= completion <= budget:
            return prompt, completion, False
    characters = sum(len(turn.content) for turn in messages)
    estimate = characters / _CHARACTERS_A_TOKEN + _TOKENS_A_MESSAGE * len(messages)
    return int(estimate) + 1, budget, True


def failure_of(reply: ChatReply[None], request: ChatRequest) -> ChatFailure | None:
    """Why a reply has no whole text, None where it has."""
    budget = f"the budget of {request.sampling.max_tokens} tokens"
    if not reply.text.strip() and not reply.tokens:
        content = f"no text came, but {reply.completion_tokens} tokens were used"
        if reply.finish_reason == "length":
            content += f"; {budget} ended: raise thinking_tokens, or the limit of its replies"
        return ChatFailure("empty", content, reply.text)
    # A request for one token with its log probabilities ends at its budget on purpose.
    one_token = request.sampling.max_tokens == 1 and request.sampling.top_logprobs > 0
    if reply.finish_reason == "length" and not one_token:
        return ChatFailure("truncated", f"{budget} ended before the reply did", reply.text)
    return None


class Counts(dict[str, float]):
    """Counters of one client by name, with failures as ``failed_<reason>``; threads share them."""

    def __init__(self) -> None:
        """All of ``COUNTERS`` are 0."""
        super().__init__(dict.fromkeys(COUNTERS, 0))
        self._lock = Lock()

    def add(self, **amounts: float) -> None:
        """Add to the counters of these names."""
        with self._lock:
            for name, amount in amounts.items():
                self[name] = self.get(name, 0) + amount


def request_key(request: ChatRequest, model: str, revision: str) -> str:
    """64 hex digits of SHA-256 over the request's canonical text."""
    text = request.canonical(model, revision)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class KeyedRequest(NamedTuple):
    """A request as it is sent, by the key of its reply, and what decides on a reply to it."""

    key: str
    request: ChatRequest
    parse: Parse[Any] | None
    needs_logprobs: bool

    def read(self, reply: ChatReply[Any]) -> Outcome:
        """The reply, received or stored, with its value; else why it is unusable."""
        given = reply.tokens and reply.tokens[0].alternatives
        if self.needs_logprobs and self.request.sampling.top_logprobs > 0 and not given:
            text = "the reply has no log probabilities of its first token; vLLM gives them"
            return ChatFailure("no_logprobs", text, reply.text, lasting=True)
        try:
            value = self.parse(reply) if self.parse is not None else None
            # Every table must be able to hold what the parser returns.
            json.dumps(value, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError:
            complaint = "the reply holds half a surrogate pair, which cannot be stored"
        except (ValueError, RecursionError) as error:  # the latter from deep nesting
            complaint = as_utf8(str(error)) or type(error).__name__
        else:
            return replace(reply, value=value)
        return ChatFailure("unparsable", complaint, reply.text)


def as_utf8(text: str) -> str:
    """The text with lone surrogates, which JSON allows and UTF-8 does not, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _tokens(logprobs: Any) -> tuple[Token, ...]:  # noqa: ANN401 - JSON
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
        return ()


def _logprob(number: Any) -> float:  # noqa: ANN401 - JSON
    value = float(number)
    if not value <= _ROUNDING:
        raise ValueError(f"a log probability is {value}")
    return value


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value or "", str):
        raise TypeError(f"a text is {type(value).__name__}")
    return as_utf8(value or "")


def _joined(content: Any) -> str:  # noqa: ANN401 - JSON
    """A message's text, also where it comes in parts; parts of thought are none of it."""
    if not isinstance(content, list):
        return _text(content)
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    return "".join(_text(part.get("text")) for part in parts if part.get("type") in {None, "text"})
