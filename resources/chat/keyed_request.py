"""Requests under their keys, and what makes a reply usable for them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from decomposerl.chat import ChatReply, ChatRequest, Parse
from resources.chat.budget import Usage
from resources.chat.wire import UNSTORABLE, as_utf8, lacks_logprobs

_USAGE = ("prompt_tokens", "completion_tokens")


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
        if self.needs_logprobs and lacks_logprobs(reply, self.request):
            return None, "the reply carries no log probabilities"
        try:
            value = self.parse(reply) if self.parse is not None else None
            # Every table must be able to hold what the parser returns.
            json.dumps(value, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError:
            return None, UNSTORABLE
        except (ValueError, RecursionError) as error:  # the latter from deep nesting
            return None, as_utf8(str(error)) or type(error).__name__
        usage = {name: getattr(reply, name) for name in _USAGE}
        if reply.cached and (used := Usage.of(usage, self.request, reply.text)).estimated:
            usage = {name: getattr(used, name) for name in _USAGE}
        return replace(reply, value=value, **usage), ""


def readable(
    keyed: Mapping[str, KeyedRequest], stored: Mapping[str, ChatReply[Any]]
) -> dict[str, ChatReply[Any]]:
    """The stored replies that answer one of these requests, with their values, by key."""
    read = {key: keyed[key].read(reply)[0] for key, reply in stored.items() if key in keyed}
    return {key: reply for key, reply in read.items() if reply is not None}
