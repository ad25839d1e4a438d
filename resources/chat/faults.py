"""What went wrong in one attempt, and what follows from it.

Takes an exception of the openai package, gives a ``Fault``: the typed failure, whether
another attempt may help, and whether the endpoint itself is unwell.

Left out deliberately: deadlines and ceilings; they end a call, not an attempt.
"""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, FailureReason
from resources.chat.connection import without_key
from resources.chat.pace import retry_after_s
from resources.chat.wire import Garbled, as_utf8

if TYPE_CHECKING:
    from openai import APIStatusError

_SHOWN = 300
_TOO_LONG_AT_MOST = 2  # how often a reply without end is asked for
# Where one of these is the cause, nothing reached the endpoint.
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
# These answers are the same for every request: the key or the address is wrong.
_LASTING = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed attempt.

    ``again``: another attempt may help. ``unwell``: the endpoint is at fault, not the request;
    ``lasting``: and will be at the next one. ``pause_s``: seconds it asked to be left alone.
    ``charged``: the request arrived, so it may be paid for although no usage came back.
    """

    failure: ChatFailure
    again: bool = False
    unwell: bool = False
    lasting: bool = False
    pause_s: float | None = None
    charged: bool = False


def fault_from(error: Exception, attempt: int) -> Fault:
    """The fault behind whatever sending or reading raised."""
    import openai

    from resources.chat.one_host import Redirected, ReplyTooLong

    if isinstance(error, Redirected):
        failure = replace(_failure("refused", str(error), attempt), lasting=True)
        return Fault(failure, unwell=True, lasting=True)
    if isinstance(error, ReplyTooLong):
        again = attempt < _TOO_LONG_AT_MOST
        return Fault(
            _failure("server_error", str(error), attempt), again, unwell=True, charged=True
        )
    if isinstance(error, openai.APIStatusError):
        return _status_fault(error, attempt)
    if isinstance(error, openai.APIConnectionError):
        name = type(error.__cause__ or error).__name__
        failure = _failure("transport", f"{name}: {error.__cause__ or error}", attempt)
        return Fault(failure, again=True, unwell=True, charged=name not in _NEVER_SENT)
    if isinstance(error, Garbled):
        failure = _failure("server_error", str(error), attempt)
        return Fault(failure, again=True, unwell=True, charged=True)
    text = f"the request could not be sent ({type(error).__name__}: {error})"
    return Fault(_failure("refused", text, attempt))


def failure_without_key(failure: ChatFailure, key: SecretStr | None) -> ChatFailure:
    """The failure with the key cut out of both its texts, which UTF-8 can hold."""
    detail, text = (as_utf8(without_key(part, key)) for part in (failure.detail, failure.text))
    return replace(failure, detail=detail[:_SHOWN], text=text)


def _status_fault(error: "APIStatusError", attempt: int) -> Fault:
    status = error.status_code
    text = f"HTTP {status}: {error.message}"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        pause_s = retry_after_s(error.response.headers)
        return Fault(_failure("rate_limited", text, attempt), again=True, pause_s=pause_s)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        pause_s = retry_after_s(error.response.headers)
        failure = _failure("server_error", text, attempt)
        return Fault(failure, again=True, unwell=True, pause_s=pause_s)
    lasting = status in _LASTING
    failure = replace(_failure("refused", text, attempt), lasting=lasting)
    return Fault(failure, unwell=lasting, lasting=lasting)


def _failure(reason: FailureReason, detail: str, attempts: int) -> ChatFailure:
    return ChatFailure(reason, detail, attempts)
