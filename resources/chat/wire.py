"""Translation between this project's types and the OpenAI chat protocol.

A ``ChatRequest`` becomes the arguments of ``chat.completions.create``; the body of a reply
becomes a ``ChatReply`` or the reason why it is none. No streaming, tools or several choices.
"""

import hashlib
import json
import re
import tomllib
from dataclasses import replace
from importlib.resources import files
from threading import Lock
from typing import Any, get_args

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, FinishReason, Token
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError

_TABLES = tomllib.loads(files(__package__).joinpath("wire.toml").read_text("utf-8"))
_CHARACTERS_A_TOKEN = 3.0  # English has about four; three leaves room for tables and names
_TOKENS_A_MESSAGE = 8
_TEMPLATE_TOKENS = 1_024  # the most that chat templates add: a system prompt, a schema's frame
_ROUNDING = 1e-3  # the most by which a log probability may exceed 0
_SNAPSHOT = r"(-\d{4}(-?\d{2}-?\d{2})?|@.+)?"  # gpt-5-mini-2025-08-07, gpt-4-0613, name@main
Outcome = ChatReply[Any] | ChatFailure
Usage = tuple[int, int, bool]


class Counts(dict[str, float]):
    """Counters of one client by name; threads share them."""

    def __init__(self) -> None:
        """Those of ``wire.toml`` are 0."""
        super().__init__(dict.fromkeys(_TABLES["counters"], 0))
        self._lock = Lock()

    def add(self, **amounts: float) -> None:
        """Add to the counters of these names."""
        with self._lock:
            self.update({name: self.get(name, 0) + amount for name, amount in amounts.items()})


def effort_of(model: str, *, thinking: bool) -> str:
    """The ``reasoning_effort`` that switches a model's thinking on, or off as far as it goes.

    Raises:
        ConfigError: it is to be switched off, and what the model accepts is not known.
    """
    name, table = model.rpartition("/")[2], _TABLES["least_effort"]
    least = [table[names] for names in table if re.fullmatch(f"({names}){_SNAPSHOT}", name)]
    if thinking or least:
        return "medium" if thinking else str(least[0])
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
    style, changes = endpoint.style, dict[str, Any]()
    if not endpoint.enforces_schemas:
        changes["schema"] = None
    if style == "none":
        changes["thinking"] = None
    if style != "qwen" or request.thinking is False:
        changes["thinking_tokens"] = None
    if style == "openai":
        if request.thinking is not None:
            effort_of(endpoint.model, thinking=request.thinking)
        changes["sampling"] = replace(request.sampling, temperature=1.0, top_p=1.0, stop=())
    return replace(request, **changes)


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
    body: bytes, latency_s: float, request: ChatRequest, endpoint: Endpoint, sent_as: str
) -> tuple[Outcome, Usage]:
    """The reply in a body, or why it is none; and the tokens to account for it.

    ``sent_as`` is the name that it may report beside those of the endpoint; empty: it may report
    any. A text may come in parts; an unknown finish reason becomes ``other``, and log
    probabilities that are none are left out.
    """
    try:
        data = json.loads(body)
        choice = data["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        text, refusal = _joined(message.get("content")), as_utf8(message.get("refusal"))
        usage = tokens_of(request, data.get("usage"), text)
        finish: FinishReason = reason if reason in get_args(FinishReason) else "other"
        model, tokens = as_utf8(data.get("model")), _tokens(choice.get("logprobs"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        shown = body.decode("utf-8", "replace")  # the key is removed before it is cut
        detail = f"the reply is not a chat completion ({type(error).__name__}): {shown}"
        return ChatFailure("server_error", detail), (tokens_of(request)[0], 0, True)
    budget = f"the budget of {request.sampling.max_tokens} tokens"
    # A request for one token with its log probabilities ends at its budget on purpose.
    one_token = request.sampling.max_tokens == 1 and request.sampling.top_logprobs > 0
    own = re.fullmatch(re.escape(endpoint.model) + _SNAPSHOT, model)
    outcome: Outcome
    if sent_as and own is None and model not in (*endpoint.served_as, sent_as):
        detail = (
            f"asked for {sent_as!r}, the endpoint serves {model!r}: name it so, or, if they are "
            f"the same model, add served_as = [{json.dumps(model)}]"
        )
        outcome = ChatFailure("wrong_model", detail, text, lasting=True)
    elif refusal:
        outcome = ChatFailure("empty", f"the model refused ({refusal})", refusal)
    elif not text.strip() and not tokens:
        detail = f"no text came, but {usage[1]} tokens were used"
        if finish == "length":
            detail += f"; {budget} ended: raise thinking_tokens, or the limit of its replies"
        outcome = ChatFailure("empty", detail, text)
    elif finish == "length" and not one_token:
        outcome = ChatFailure("truncated", f"{budget} ended before the reply did", text)
    else:
        outcome = ChatReply(text, finish, model, *usage[:2], latency_s, tokens=tokens)
    return outcome, usage


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


def request_key(request: ChatRequest, model: str, revision: str) -> str:
    """64 hex digits of SHA-256 over the request's canonical text."""
    text = request.canonical(model, revision)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def as_utf8(text: str | None) -> str:
    """The text with lone surrogates, which JSON allows and UTF-8 does not, as question marks."""
    text = text or ""  # what is no text has no ``isascii``: an AttributeError
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _tokens(logprobs: Any) -> tuple[Token, ...]:  # noqa: ANN401 - JSON
    try:
        return tuple(
            Token(*_token(entry), tuple(map(_token, entry.get("top_logprobs") or ())))
            for entry in (logprobs or {}).get("content") or ()
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return ()


def _token(entry: Any) -> tuple[str, float]:  # noqa: ANN401 - JSON
    logprob = float(entry["logprob"])
    if not logprob <= _ROUNDING:
        raise ValueError(f"a log probability is {logprob}")
    return as_utf8(entry["token"]), logprob


def _joined(content: Any) -> str:  # noqa: ANN401 - JSON
    """A message's text, also where it comes in parts; parts of thought are none of it."""
    parts = content if isinstance(content, list) else [content]
    parts = [part if isinstance(part, dict) else {"text": part} for part in parts]
    texts = (part.get("text") for part in parts if part.get("type") in {None, "text"})
    return "".join(map(as_utf8, texts))
